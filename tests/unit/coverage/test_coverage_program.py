"""The program leaves metrics, both series and a map that is a PNG."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="needs the extra coverage")


def test_the_program_leaves_what_the_runner_promises(tmp_path: Path) -> None:
    body = {
        "orbits": [{"type": "molniya", "satellites": 2}],
        "sensor": {"half_angle_deg": 5},
        "area": {
            "type": "box", "spacing_deg": 5, "latitude_min_deg": 40, "latitude_max_deg": 60,
            "longitude_min_deg": 170, "longitude_max_deg": -170,
        },
        "epoch": "2026-01-01T00:00:00Z", "duration_s": 3600, "step_s": 600,
    }  # fmt: skip
    (tmp_path / "body.json").write_text(json.dumps(body))
    argv = [sys.executable, "-m", "pytest_atesor.coverage", "body.json"]
    subprocess.run(argv, cwd=tmp_path, check=True, capture_output=True)
    figures = json.loads((tmp_path / "metrics.json").read_text())["coverage"]
    assert sorted(figures["satellite_coverage_fraction"]) == ["s001", "s002"]
    with (tmp_path / "coverage-series.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["time_s"]) for row in rows] == [300, 900, 1500, 2100, 2700, 3300]
    assert json.loads((tmp_path / "coverage-series.json").read_text())["time_s"][0] == 300
    assert (tmp_path / "coverage-map.png").read_bytes().startswith(b"\x89PNG\r\n")
