"""``python -m pytest_atesor.coverage BODY.json`` leaves metrics, series and map in its working directory."""

import csv
import json
import sys
from pathlib import Path

from pytest_atesor.coverage.analysis import Coverage, analyse
from pytest_atesor.coverage.picture import draw_map


def main() -> None:
    """Run one coverage body, checked when the batch was planned."""
    coverage = analyse(json.loads(Path(sys.argv[1]).read_text("utf-8")))
    Path("metrics.json").write_text(json.dumps({"coverage": coverage.metrics}), "utf-8")
    _write_series(coverage)
    draw_map(coverage, Path("coverage-map.png"))
    print(f"union coverage {coverage.metrics['union_coverage_fraction']:.4f}")  # noqa: T201 - the attempt's log


def _write_series(coverage: Coverage) -> None:
    columns = {
        "time_s": coverage.times_s.tolist(),
        "covered_fraction": coverage.covered_fraction.tolist(),
        "mean_in_view_count": coverage.mean_in_view.tolist(),
    }
    Path("coverage-series.json").write_text(json.dumps(columns), "utf-8")
    with Path("coverage-series.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


main()
