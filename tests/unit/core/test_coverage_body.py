"""Bodies of kind coverage: each mistake is found at its place."""

from typing import Any

import pytest

from pytest_atesor.core.coverage_body import find_coverage_faults
from pytest_atesor.core.schema import check_schema

GOOD: dict[str, Any] = {
    "orbits": [{"type": "polar-walker", "altitude_km": 780, "satellites": 6, "planes": 3, "phasing": 1}],
    "sensor": {"min_elevation_deg": 5},
    "area": {"type": "global", "spacing_deg": 5},
    "epoch": "2026-01-01T00:00:00Z",
    "duration_s": 86400,
    "step_s": 60,
}


def test_a_good_body_has_no_faults() -> None:
    check_schema(GOOD, "runspec_coverage_v1", "x", {})
    assert list(find_coverage_faults(GOOD)) == []


@pytest.mark.parametrize(
    ("change", "path"),
    [
        pytest.param({"orbits": [{**GOOD["orbits"][0], "planes": 4}]}, ("orbits", 0, "planes"), id="planes"),
        pytest.param(
            {"orbits": [{**GOOD["orbits"][0], "phasing": 3}]}, ("orbits", 0, "phasing"), id="phasing"
        ),
        pytest.param({"orbits": [{"type": "molniya"}]}, ("orbits", 0), id="missing"),
        pytest.param(
            {"orbits": [{"type": "molniya", "satellites": 1, "eccentricity": 0.9}]},
            ("orbits", 0, "eccentricity"),
            id="perigee",
        ),
        pytest.param({"sensor": {}}, ("sensor",), id="no sensor"),
        pytest.param({"area": {"type": "box", "spacing_deg": 5}}, ("area",), id="no edges"),
        pytest.param({"epoch": "tomorrow"}, ("epoch",), id="epoch"),
        pytest.param({"step_s": 90000}, ("step_s",), id="step"),
        pytest.param({"area": {"type": "global", "spacing_deg": 0.05}}, ("area", "spacing_deg"), id="points"),
        pytest.param({"duration_s": 31622400, "step_s": 0.1}, ("step_s",), id="work"),
    ],
)
def test_a_mistake_is_found_at_its_place(change: dict[str, Any], path: tuple[object, ...]) -> None:
    (fault,) = find_coverage_faults({**GOOD, **change})
    assert fault.path == path
