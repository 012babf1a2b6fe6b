"""The body of a coverage RunSpec: what its schema cannot say, and the size of the work that it asks for."""

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, cast

from pytest_atesor.core.plan import Json
from pytest_atesor.core.port_body import Fault

__all__ = ["EARTH_RADIUS_KM", "Bounds", "find_bounds", "find_coverage_faults", "parse_epoch"]

EARTH_RADIUS_KM: Final = 6378.137
"""The equatorial radius of WGS 84."""

_MOST_TESTS: Final = 5_000_000_000
_MOST_POINTS: Final = 1_000_000
_MOST_POSITIONS: Final = 20_000_000
_LOWEST_PERIGEE_KM: Final = 100.0
_WALKER: Final = ("altitude_km", "satellites", "planes", "phasing")
_OPTIONAL: Final = {
    "kepler": ("argument_of_perigee_deg", "mean_anomaly_deg", "raan_deg"),
    "molniya": ("eccentricity", "apogee_longitude_deg"),
}
_REQUIRED: Final = {
    "kepler": ("semi_major_axis_km", "eccentricity", "inclination_deg"),
    "walker-delta": (*_WALKER, "inclination_deg"),
    "walker-star": (*_WALKER, "inclination_deg"),
    "polar-walker": _WALKER,
    "molniya": ("satellites",),
}
_EDGES: Final = {
    "global": (),
    "latitude-band": ("latitude_min_deg", "latitude_max_deg"),
    "box": ("latitude_min_deg", "latitude_max_deg", "longitude_min_deg", "longitude_max_deg"),
}


class Bounds(NamedTuple):
    """The edges of an area in degrees, and how many cells its grid has along each."""

    south: float
    north: float
    west: float
    east: float
    rows: int
    columns: int


def find_bounds(area: Mapping[str, Any]) -> Bounds:
    """Return the bounds of a checked area; one that crosses the date line has an east beyond 180."""
    south, north = area.get("latitude_min_deg", -90.0), area.get("latitude_max_deg", 90.0)
    west, east = area.get("longitude_min_deg", -180.0), area.get("longitude_max_deg", 180.0)
    east += 360.0 if east < west else 0.0
    spacing = area["spacing_deg"]
    rows, columns = (
        max(1, math.ceil((end - start) / spacing - 1e-9)) for start, end in ((south, north), (west, east))
    )
    return Bounds(south, north, west, east, rows, columns)


def parse_epoch(text: str) -> datetime:
    """Return the instant; a time without a zone is UTC. Raises ValueError."""
    instant = datetime.fromisoformat(text)
    return instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant.astimezone(UTC)


def find_coverage_faults(body: Mapping[str, Json]) -> Iterator[Fault]:
    """Yield what is wrong with a body that keeps to its schema."""
    checked = cast("Mapping[str, Any]", body)
    faults = [
        *(fault for index, orbit in enumerate(checked["orbits"]) for fault in _orbit_faults(orbit, index)),
        *_other_faults(checked),
    ]
    yield from faults or _work_faults(checked)


def _orbit_faults(orbit: Mapping[str, Any], index: int) -> Iterator[Fault]:
    place, kind = ("orbits", index), orbit["type"]
    for key in _REQUIRED[kind]:
        if key not in orbit:
            yield Fault(place, f"orbits of type {kind} need {key}; add it")
            return
    known = ("type", *_REQUIRED[kind], *_OPTIONAL.get(kind, ("raan_deg",)))
    for key in orbit:
        if key not in known:
            yield Fault(
                (*place, key), f"orbits of type {kind} have no {key}; known keys are {', '.join(known)}"
            )
    if "planes" in orbit:
        if orbit["satellites"] % orbit["planes"]:
            yield Fault((*place, "planes"), f"it must divide the {orbit['satellites']} satellites")
        if orbit["phasing"] >= orbit["planes"]:
            yield Fault((*place, "phasing"), f"it must be less than the {orbit['planes']} planes")
    axis = 26_561.0 if kind == "molniya" else orbit.get("semi_major_axis_km")
    if axis is not None:
        perigee = axis * (1 - orbit.get("eccentricity", 0.0)) - EARTH_RADIUS_KM
        if perigee < _LOWEST_PERIGEE_KM:
            key = "eccentricity" if kind == "molniya" else "semi_major_axis_km"
            yield Fault(
                (*place, key), f"its perigee is at {perigee:.0f} km; raise it to {_LOWEST_PERIGEE_KM:.0f} km"
            )


def _other_faults(body: Mapping[str, Any]) -> Iterator[Fault]:
    area = body["area"]
    if len(body["sensor"]) != 1:
        yield Fault(("sensor",), "give either half_angle_deg or min_elevation_deg")
    edges = _EDGES[area["type"]]
    for key in edges:
        if key not in area:
            yield Fault(("area",), f"an area of type {area['type']} needs {key}; add it")
            return
    for key in area:
        if key not in ("type", "spacing_deg", *edges):
            yield Fault(("area", key), f"an area of type {area['type']} has no {key}; remove it")
    if edges and area["latitude_min_deg"] >= area["latitude_max_deg"]:
        yield Fault(("area", "latitude_min_deg"), "it must be less than latitude_max_deg")
    if area["type"] == "box" and area["longitude_min_deg"] == area["longitude_max_deg"]:
        yield Fault(("area", "longitude_min_deg"), "it must differ from longitude_max_deg")
    if body["step_s"] > body["duration_s"]:
        yield Fault(("step_s",), "it must not exceed duration_s")
    try:
        parse_epoch(body["epoch"])
    except (ValueError, OverflowError):
        yield Fault(("epoch",), "write a UTC time such as 2026-01-01T00:00:00Z")


def _work_faults(body: Mapping[str, Any]) -> Iterator[Fault]:
    bounds = find_bounds(body["area"])
    points = bounds.rows * bounds.columns
    steps = math.ceil(body["duration_s"] / body["step_s"] - 1e-9)
    satellites = sum(orbit.get("satellites", 1) for orbit in body["orbits"])
    size = f"{points} points x {steps} steps x {satellites} satellites"
    if points > _MOST_POINTS:
        yield Fault(("area", "spacing_deg"), f"{size}: at most {_MOST_POINTS} points; use a wider spacing")
    elif steps * satellites > _MOST_POSITIONS or points * steps * satellites > _MOST_TESTS:
        yield Fault(
            ("step_s",),
            f"{size} exceed {_MOST_TESTS} tests or {_MOST_POSITIONS} positions; use a longer step",
        )
