"""From what was asked for to a bundle that can be run: nothing is created before all of it was understood."""
