"""Coverage against textbook formulas, known constellations and an independent integration."""

import math
from datetime import UTC, datetime
from typing import Any

import pytest

np = pytest.importorskip("numpy", reason="needs the extra coverage")

from pytest_atesor.coverage.analysis import analyse, cap_angle_rad  # noqa: E402 - after the skip
from pytest_atesor.coverage.orbits import gmst_rad, make_elements, propagate  # noqa: E402 - the same

GM, RADIUS, J2 = 398600.4418, 6378.137, 1.08262668e-3


def body(orbit: dict[str, Any], sensor: dict[str, float], **more: Any) -> dict[str, Any]:
    return {
        "orbits": [orbit],
        "sensor": sensor,
        "area": {"type": "global", "spacing_deg": 10},
        "epoch": "2026-01-01T00:00:00Z",
        "duration_s": 86400,
        "step_s": 120,
        **more,
    }


def test_sidereal_time_is_vallados_example_3_5() -> None:
    assert math.degrees(gmst_rad(datetime(1992, 8, 20, 12, 14, tzinfo=UTC))) == pytest.approx(
        152.578788, abs=1e-4
    )


def test_swath_half_width_is_that_of_the_plane_triangle() -> None:
    (cap,) = cap_angle_rad(np.array([RADIUS + 800]), {"min_elevation_deg": 10.0})
    nadir = math.asin(RADIUS / (RADIUS + 800) * math.cos(math.radians(10)))
    assert math.degrees(cap) == pytest.approx(90 - 10 - math.degrees(nadir), abs=1e-9)
    (same,) = cap_angle_rad(np.array([RADIUS + 800]), {"half_angle_deg": math.degrees(nadir)})
    assert same == pytest.approx(cap, abs=1e-9)


def test_one_polar_satellite_sees_the_area_of_its_cap() -> None:
    orbit = {"type": "polar-walker", "altitude_km": 800, "satellites": 1, "planes": 1, "phasing": 0}
    figures = analyse(
        body(orbit, {"min_elevation_deg": 10.0}, area={"type": "global", "spacing_deg": 3})
    ).metrics
    (cap,) = cap_angle_rad(np.array([RADIUS + 800]), {"min_elevation_deg": 10.0})
    assert figures["union_coverage_fraction"] == pytest.approx((1 - math.cos(cap)) / 2, rel=0.01)
    assert figures["satellite_coverage_fraction"]["s001"] == pytest.approx(figures["union_coverage_fraction"])
    assert figures["maximum_revisit_gap_s"] > figures["mean_revisit_gap_s"] > 0


@pytest.mark.parametrize(
    ("orbit", "whole"),
    [
        pytest.param(
            {"type": "polar-walker", "altitude_km": 800, "phasing": 1},
            {"satellites": 4, "planes": 2},
            id="walker",
        ),
        pytest.param({"type": "molniya"}, {"satellites": 3}, id="molniya"),
    ],
)
def test_whole_numbers_may_be_written_with_a_point(orbit: dict[str, Any], whole: dict[str, int]) -> None:
    pointed = {name: float(number) for name, number in whole.items()}
    assert np.array_equal(
        make_elements([{**orbit, **pointed}], 0.0), make_elements([{**orbit, **whole}], 0.0)
    )


def test_iridium_covers_nearly_the_whole_earth_and_36_of_its_satellites_do_not() -> None:
    orbit = {
        "type": "walker-star", "altitude_km": 780, "inclination_deg": 86.4,
        "satellites": 66, "planes": 6, "phasing": 2,
    }  # fmt: skip
    full = analyse(body(orbit, {"min_elevation_deg": 8.2}, duration_s=12000)).metrics
    assert full["union_coverage_fraction"] > 0.995
    thin = analyse(body({**orbit, "satellites": 36}, {"min_elevation_deg": 8.2}, duration_s=12000)).metrics
    assert thin["union_coverage_fraction"] < 0.9


def test_galileo_shows_four_satellites_everywhere_and_always() -> None:
    orbit = {
        "type": "walker-delta", "altitude_km": 23222, "inclination_deg": 56,
        "satellites": 24, "planes": 3, "phasing": 1,
    }  # fmt: skip
    figures = analyse(body(orbit, {"min_elevation_deg": 5.0}, step_s=300)).metrics
    assert figures["minimum_in_view_count"] >= 4
    assert figures["maximum_revisit_gap_s"] == 0
    assert 1.0 - 1e-9 < figures["union_coverage_fraction"] <= 1.0


def test_molniya_dwells_in_the_north_and_returns_to_its_meridian() -> None:
    epoch = datetime(2026, 1, 1, tzinfo=UTC)
    gmst = gmst_rad(epoch)
    elements = make_elements([{"type": "molniya", "satellites": 1, "apogee_longitude_deg": 90}], gmst)
    period = math.tau * math.sqrt(elements[0, 0] ** 3 / GM)
    times = np.arange(0, 2 * period, 30.0)
    x, y, z = propagate(elements, times)[:, 0].T
    latitude = np.degrees(np.arctan2(z, np.hypot(x, y)))
    assert float((latitude > 0).mean()) * 12 == pytest.approx(11.08, abs=0.05)  # hours, Kepler by hand
    assert float((latitude > 45).mean()) * 12 == pytest.approx(8.35, abs=0.05)
    again = propagate(elements, np.array([0.0, 2 * period]))[:, 0]
    east = np.degrees(np.arctan2(again[:, 1], again[:, 0]) - gmst - 7.292115e-5 * np.array([0.0, 2 * period]))
    assert np.all(np.abs((east - 90 + 180) % 360 - 180) < 0.2)


def test_drift_of_the_plane_is_that_of_a_numeric_integration() -> None:
    orbit = {"type": "kepler", "semi_major_axis_km": 7178.0, "eccentricity": 0.001, "inclination_deg": 98.6}
    elements = make_elements([orbit], 0.0)
    step, count = 10.0, 8640
    start = propagate(elements, np.array([0.0, 0.001]))[:, 0]
    state = np.concatenate((start[0], (start[1] - start[0]) / 0.001))

    def rate(now: Any) -> Any:
        x, y, z = now[:3]
        r = math.sqrt(x * x + y * y + z * z)
        k, q = 1.5 * J2 * (RADIUS / r) ** 2, 5 * (z / r) ** 2
        pull = -GM / r**3 * np.array([x * (1 + k * (1 - q)), y * (1 + k * (1 - q)), z * (1 + k * (3 - q))])
        return np.concatenate((now[3:], pull))

    def node(now: Any) -> float:
        normal = np.cross(now[:3], now[3:])
        return math.degrees(math.atan2(normal[0], -normal[1]))

    before = node(state)
    for _ in range(count):
        a = rate(state)
        b = rate(state + step / 2 * a)
        c = rate(state + step / 2 * b)
        d = rate(state + step * c)
        state = state + step / 6 * (a + 2 * b + 2 * c + d)
    later = propagate(elements, np.array([86400.0, 86400.001]))[:, 0]
    ours = node(np.concatenate((later[0], (later[1] - later[0]) / 0.001)))
    assert node(state) - before == pytest.approx(0.9856, abs=0.02)  # sun-synchronous
    assert ours - before == pytest.approx(node(state) - before, abs=0.02)
