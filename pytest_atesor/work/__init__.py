"""A worker's side of a running batch: its cases, one after the other."""
