"""Who sees what and when, and the figures made of it, with bounded memory."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pytest_atesor.core.coverage_body import EARTH_RADIUS_KM, parse_epoch
from pytest_atesor.coverage.grid import Grid, make_grid
from pytest_atesor.coverage.orbits import EARTH_RATE_RAD_S, gmst_rad, make_elements, propagate

__all__ = ["Coverage", "analyse", "cap_angle_rad"]

Floats = NDArray[np.float64]
Propagator = Callable[[Floats, Floats], Floats]
"""Elements and times in, positions out, as :func:`pytest_atesor.coverage.orbits.propagate`."""

_CHUNK_CELLS: Final = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """The figures (units in their names), the series over time, and each point's covered share of time."""

    metrics: Mapping[str, Any]
    times_s: Floats
    covered_fraction: Floats
    mean_in_view: Floats
    point_fraction: Floats
    grid: Grid


def cap_angle_rad(radius_km: Floats, sensor: Mapping[str, float]) -> Floats:
    """Return the Earth-central half-angle that a satellite sees, on a spherical Earth.

    Source: Wertz and Larson, Space Mission Analysis and Design, 3rd ed., eq. 5-24 to 5-28.
    """
    if "min_elevation_deg" in sensor:
        low = math.radians(sensor["min_elevation_deg"])
        return np.asarray(np.arccos(EARTH_RADIUS_KM / radius_km * math.cos(low)) - low)
    half = math.radians(sensor["half_angle_deg"])
    sine = radius_km / EARTH_RADIUS_KM * math.sin(half)
    narrow = np.arcsin(np.minimum(sine, 1.0)) - half
    return np.where(sine < 1.0, narrow, np.arccos(EARTH_RADIUS_KM / radius_km))


@dataclass(slots=True)
class _Tally:
    """Sums over time, for each point: covered steps, gaps that began, the gap that runs, the longest one."""

    covered: NDArray[np.int64]
    gaps: NDArray[np.int64]
    running: NDArray[np.int64]
    longest: NDArray[np.int64]

    def add(self, in_view: NDArray[np.bool_]) -> None:
        for now in in_view:
            self.covered += now
            self.gaps += ~now & (self.running == 0)
            self.running = np.where(now, 0, self.running + 1)
            np.maximum(self.longest, self.running, out=self.longest)


def analyse(body: Mapping[str, Any], propagator: Propagator = propagate) -> Coverage:
    """Return the coverage that a checked body asks for; the samples are at the middle of their steps."""
    grid = make_grid(body["area"])
    gmst = gmst_rad(parse_epoch(body["epoch"]))
    elements = make_elements(body["orbits"], gmst)
    step_s = body["step_s"]
    times = (np.arange(math.ceil(body["duration_s"] / step_s - 1e-9)) + 0.5) * step_s
    size = len(grid.weights)
    tally = _Tally(*(np.zeros(size, dtype=np.int64) for _ in range(4)))
    alone = np.zeros(len(elements))
    fractions, means, fewest = np.zeros(len(times)), np.zeros(len(times)), len(elements)
    rows = max(1, _CHUNK_CELLS // max(size, len(elements)))
    for start in range(0, len(times), rows):
        part = slice(start, start + rows)
        counts = _count(
            grid, _turn(propagator(elements, times[part]), times[part], gmst), body["sensor"], alone
        )
        seen = counts > 0
        tally.add(seen)
        fractions[part], means[part] = np.minimum(seen @ grid.weights, 1.0), counts @ grid.weights
        fewest = min(fewest, int(counts.min()))
    return Coverage(
        metrics=_sum_up(tally, grid, fractions, means, fewest, alone / len(times), step_s),
        times_s=times,
        covered_fraction=fractions,
        mean_in_view=means,
        point_fraction=tally.covered / len(times),
        grid=grid,
    )


def _turn(positions: Floats, times: Floats, gmst: float) -> Floats:
    """Return Earth-fixed positions of inertial ones, both in km and of shape (times, satellites, 3)."""
    x, y, z = np.moveaxis(positions, -1, 0)
    turn = (gmst + EARTH_RATE_RAD_S * times)[:, None]
    return np.stack((x * np.cos(turn) + y * np.sin(turn), y * np.cos(turn) - x * np.sin(turn), z), axis=-1)


def _count(grid: Grid, positions: Floats, sensor: Mapping[str, float], alone: Floats) -> NDArray[np.int32]:
    """Return satellites in view, shape (times, points); add each satellite's covered share to ``alone``."""
    radius = np.linalg.norm(positions, axis=-1)
    limit = np.cos(cap_angle_rad(radius, sensor))
    counts = np.zeros((len(positions), len(grid.weights)), dtype=np.int32)
    for index in range(positions.shape[1]):
        unit = positions[:, index] / radius[:, index, None]
        seen = unit @ grid.points.T >= limit[:, index, None]
        counts += seen
        alone[index] += float((seen @ grid.weights).sum())
    return counts


def _sum_up(  # noqa: PLR0913, PLR0917 - the sums of a run
    tally: _Tally, grid: Grid, fractions: Floats, means: Floats, fewest: int, alone: Floats, step_s: float
) -> dict[str, Any]:
    gaps = float(tally.gaps @ grid.weights)
    uncovered = float((len(fractions) - tally.covered) @ grid.weights)
    return {
        "union_coverage_fraction": min(1.0, float(fractions.mean())),
        "minimum_coverage_fraction": float(fractions.min()),
        "ever_covered_area_fraction": min(1.0, float((tally.covered > 0) @ grid.weights)),
        "mean_revisit_gap_s": uncovered / gaps * step_s if gaps else 0.0,
        "maximum_revisit_gap_s": float(tally.longest.max()) * step_s,
        "mean_in_view_count": float(means.mean()),
        "minimum_in_view_count": fewest,
        "satellite_count": len(alone),
        "satellite_coverage_fraction": {
            f"s{index:03d}": min(1.0, float(share)) for index, share in enumerate(alone, 1)
        },
    }
