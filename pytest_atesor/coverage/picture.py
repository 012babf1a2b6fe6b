"""The map: each cell's covered share of time."""

from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from pytest_atesor.coverage.analysis import Coverage

__all__ = ["draw_map"]


def draw_map(coverage: Coverage, path: Path) -> None:
    """Write a PNG: longitude and latitude in degrees, the colour is per cent of time in view."""
    grid = coverage.grid
    lats, lons = grid.latitudes_deg, grid.longitudes_deg
    with mpl.rc_context({"font.size": 10}):
        figure = Figure(figsize=(10, 5.6), dpi=120, layout="constrained")
        axes = figure.add_subplot()
        cells = coverage.point_fraction.reshape(len(lats) - 1, len(lons) - 1)
        mesh = axes.pcolormesh(lons, lats, 100 * cells, cmap="viridis", vmin=0, vmax=100)
        axes.set(
            xlim=(lons[0], lons[-1]),
            ylim=(lats[0], lats[-1]),
            xlabel="longitude (deg)",
            ylabel="latitude (deg)",
        )
        axes.grid(color="white", alpha=0.3, linewidth=0.6)
        if lons[-1] - lons[0] == 360:  # noqa: PLR2004 - the whole circle
            axes.set_xticks(range(int(lons[0]), int(lons[-1]) + 1, 60))
        share = coverage.metrics["union_coverage_fraction"]
        count = coverage.metrics["satellite_count"]
        axes.set_title(f"Time in view of at least one of {count} satellites; mean over area {share:.1%}")
        figure.colorbar(mesh, ax=axes, label="time in view (%)", shrink=0.9)
        figure.savefig(path)
