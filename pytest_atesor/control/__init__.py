"""The controller's side of a running batch."""
