"""The commands of `atesor` that are more than one call."""
