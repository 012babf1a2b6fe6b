"""Satellite coverage of a region: orbits, grid, metrics and map, in a process of its own. Needs numpy."""
