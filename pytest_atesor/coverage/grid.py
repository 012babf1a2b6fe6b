"""An area as points with equal-area weights: the centres of cells between parallels and meridians."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_atesor.core.coverage_body import find_bounds

__all__ = ["Grid", "make_grid"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Cell edges in degrees; for each cell, row by row, its centre (unit vector) and share of the area."""

    latitudes_deg: Floats
    longitudes_deg: Floats
    points: Floats
    weights: Floats


def make_grid(area: Mapping[str, Any]) -> Grid:
    """Return the grid of a checked area; a cell weighs sin(north) - sin(south), the weights' sum is 1."""
    bounds = find_bounds(area)
    lats = np.linspace(bounds.south, bounds.north, bounds.rows + 1)
    lons = np.linspace(bounds.west, bounds.east, bounds.columns + 1)
    lat, lon = np.meshgrid(
        np.radians((lats[1:] + lats[:-1]) / 2), np.radians((lons[1:] + lons[:-1]) / 2), indexing="ij"
    )
    points = np.stack((np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)), axis=-1)
    weights = np.repeat(np.diff(np.sin(np.radians(lats))), bounds.columns)
    return Grid(
        latitudes_deg=lats,
        longitudes_deg=lons,
        points=points.reshape(-1, 3),
        weights=weights / weights.sum(),
    )
