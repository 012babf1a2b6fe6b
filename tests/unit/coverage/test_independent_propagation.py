"""Positions and coverage against SGP4, and the condition for a gapless polar constellation.

SGP4 is the propagator of the public element sets, written by others and with other terms: J2 to J4, short
periods, and Sun and Moon for long orbits. Its mean motion is Kozai's, which is our rate of the mean anomaly,
so both can be given the same mean elements.
"""

import math
from typing import Any

import pytest

np = pytest.importorskip("numpy", reason="needs the extra coverage")

from sgp4.api import WGS72, Satrec  # noqa: E402 - after the skip

from pytest_atesor.coverage.analysis import analyse  # noqa: E402 - after the skip
from pytest_atesor.coverage.orbits import drift_rates, make_elements, propagate  # noqa: E402 - the same

RADIUS_KM = 6378.137
EPOCH_DAYS = 27759.0  # 2026-01-01 00:00 UTC, in days after 1949-12-31
EPOCH_JULIAN = 2433281.5 + EPOCH_DAYS
IRIDIUM = {
    "type": "walker-star", "altitude_km": 780, "inclination_deg": 86.4,
    "satellites": 66, "planes": 6, "phasing": 2,
}  # fmt: skip
ECCENTRIC = {
    "type": "kepler", "semi_major_axis_km": 8000.0, "eccentricity": 0.1, "inclination_deg": 50.0,
    "raan_deg": 70.0, "argument_of_perigee_deg": 40.0, "mean_anomaly_deg": 10.0,
}  # fmt: skip
GALILEO = {
    "type": "walker-delta", "altitude_km": 23222, "inclination_deg": 56,
    "satellites": 24, "planes": 3, "phasing": 1,
}  # fmt: skip
MOLNIYA = {"type": "molniya", "satellites": 3, "apogee_longitude_deg": 90}


def propagate_by_sgp4(elements: Any, times_s: Any) -> Any:
    """Return positions in km, shape (times, satellites, 3)."""
    _, _, rates = drift_rates(elements)
    found = []
    for (_, ecc, incl, node, perigee, anomaly), rate in zip(elements, rates, strict=True):
        satellite = Satrec()
        satellite.sgp4init(WGS72, "i", 1, EPOCH_DAYS, 0, 0, 0, ecc, perigee, incl, anomaly, rate * 60, node)
        faults, positions, _ = satellite.sgp4_array(np.full(len(times_s), EPOCH_JULIAN), times_s / 86_400)
        assert not faults.any()
        found.append(positions)
    return np.stack(found, axis=1)


@pytest.mark.parametrize(
    ("orbit", "tolerance_km"),
    [
        pytest.param(IRIDIUM, 20, id="iridium, short-period terms of J2"),
        pytest.param(ECCENTRIC, 20, id="eccentric, short-period terms of J2"),
        pytest.param(GALILEO, 50, id="galileo, Sun and Moon too"),
        pytest.param(MOLNIYA, 120, id="molniya, Sun and Moon too"),
    ],
)
def test_positions_of_a_day_are_those_of_sgp4(orbit: dict[str, Any], tolerance_km: float) -> None:
    elements = make_elements([orbit], 0.3)
    times = np.arange(0.0, 86_400.0, 60.0)
    apart = np.linalg.norm(propagate(elements, times) - propagate_by_sgp4(elements, times), axis=-1)
    assert float(apart.max()) < tolerance_km


@pytest.mark.parametrize("orbit", [IRIDIUM | {"satellites": 36}, MOLNIYA], ids=["polar", "molniya"])
def test_coverage_is_what_sgp4_positions_give(orbit: dict[str, Any]) -> None:
    """Short-period terms move a low satellite by some km of its 780, and so its view by half a percent."""
    body = make_body([orbit], {"min_elevation_deg": 10.0})
    ours = analyse(body).metrics["union_coverage_fraction"]
    theirs = analyse(body, propagate_by_sgp4).metrics["union_coverage_fraction"]
    assert 0.1 < ours < 0.99
    assert ours == pytest.approx(theirs, abs=0.005)


@pytest.mark.parametrize(("elevation_deg", "is_gapless"), [(8.0, True), (9.5, False)])
def test_polar_constellation_is_gapless_when_its_streets_of_coverage_meet(
    elevation_deg: float,
    is_gapless: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """Adams and Rider, 1987: ``(planes - 1)(cap + street) + 2 street >= 180`` degrees, seats interleaved."""
    planes, seats, radius_km = 6, 11, RADIUS_KM + 780
    low = math.radians(elevation_deg)
    cap = math.acos(RADIUS_KM / radius_km * math.cos(low)) - low
    street = math.acos(math.cos(cap) / math.cos(math.pi / seats))
    assert ((planes - 1) * (cap + street) + 2 * street >= math.pi) is is_gapless
    orbits = [
        {
            "type": "kepler",
            "semi_major_axis_km": radius_km,
            "eccentricity": 0.0,
            "inclination_deg": 90.0,
            "raan_deg": math.degrees(cap + street) * plane,
            "mean_anomaly_deg": 360 / seats * (seat + plane / 2),
        }
        for plane in range(planes)
        for seat in range(seats)
    ]
    figures = analyse(make_body(orbits, {"min_elevation_deg": elevation_deg}, spacing_deg=4))
    assert (figures.metrics["minimum_in_view_count"] >= 1) is is_gapless
    assert (figures.metrics["maximum_revisit_gap_s"] == 0) is is_gapless


def make_body(
    orbits: list[dict[str, Any]], sensor: dict[str, float], spacing_deg: float = 10
) -> dict[str, Any]:
    """Return a body for the whole Earth and two orbits of 100 minutes."""
    return {
        "orbits": orbits,
        "sensor": sensor,
        "area": {"type": "global", "spacing_deg": spacing_deg},
        "epoch": "2026-01-01T00:00:00Z",
        "duration_s": 12_000,
        "step_s": 60,
    }
