"""Orbits: Keplerian elements, constellations made of them, and propagation with J2's secular drift.

Left out: drag, short-period J2 terms (some km in low orbits), higher harmonics, Sun and Moon.
Source: D. A. Vallado, Fundamentals of Astrodynamics and Applications, 4th ed., 2013.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pytest_atesor.core.coverage_body import EARTH_RADIUS_KM

__all__ = ["EARTH_RATE_RAD_S", "GM_KM3_S2", "J2", "drift_rates", "gmst_rad", "make_elements", "propagate"]

Floats = NDArray[np.float64]

GM_KM3_S2: Final = 398600.4418
J2: Final = 1.08262668e-3
EARTH_RATE_RAD_S: Final = 7.292115e-5
_MOLNIYA_INCLINATION_RAD: Final = math.asin(2 / math.sqrt(5))  # the apsides stand still: 5 cos(i)^2 = 1
_J2000: Final = datetime(2000, 1, 1, 12, tzinfo=UTC)


def gmst_rad(instant: datetime) -> float:
    """Return Greenwich mean sidereal time of a UTC instant (IAU 1982, Vallado eq. 3-47, UT1 taken as UTC)."""
    days = (instant - _J2000).total_seconds() / 86_400
    century = days / 36_525
    seconds = 67_310.54841 + (876_600 * 3600 + 8_640_184.812866) * century + 0.093104 * century**2
    return math.radians(seconds / 240) % math.tau


def make_elements(orbits: Sequence[Mapping[str, Any]], gmst: float) -> Floats:
    """Return one row a satellite: semi-major axis (km), e, then i, RAAN, perigee, mean anomaly (rad)."""
    return np.array([row for orbit in orbits for row in _make_group(orbit, gmst)], dtype=float)


def drift_rates(elements: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the secular rates of RAAN, perigee and mean anomaly in rad/s (Vallado eq. 9-37, 9-39, 9-41)."""
    axis, ecc, incl = elements[:, 0], elements[:, 1], elements[:, 2]
    motion = np.sqrt(GM_KM3_S2 / axis**3)
    factor = 1.5 * J2 * motion * (EARTH_RADIUS_KM / (axis * (1 - ecc**2))) ** 2
    raan = -factor * np.cos(incl)
    perigee = factor * (2 - 2.5 * np.sin(incl) ** 2)
    anomaly = motion + factor * np.sqrt(1 - ecc**2) * (1 - 1.5 * np.sin(incl) ** 2)
    return raan, perigee, anomaly


def propagate(elements: Floats, times_s: Floats) -> Floats:
    """Return inertial positions in km, shape (times, satellites, 3), times in seconds after the epoch."""
    ecc, incl = elements[:, 1], elements[:, 2]
    after = times_s[:, None]
    raan, perigee, mean = (
        start + rate * after for start, rate in zip(elements[:, 3:].T, drift_rates(elements), strict=True)
    )
    anomaly = _solve_kepler(mean, ecc)
    radius = elements[:, 0] * (1 - ecc * np.cos(anomaly))
    true = 2 * np.arctan2(np.sqrt(1 + ecc) * np.sin(anomaly / 2), np.sqrt(1 - ecc) * np.cos(anomaly / 2))
    cos_u, sin_u = np.cos(perigee + true), np.sin(perigee + true)
    cos_o, sin_o = np.cos(raan), np.sin(raan)
    return np.stack(
        (
            radius * (cos_o * cos_u - sin_o * sin_u * np.cos(incl)),
            radius * (sin_o * cos_u + cos_o * sin_u * np.cos(incl)),
            radius * sin_u * np.sin(incl),
        ),
        axis=-1,
    )


def _solve_kepler(mean: Floats, ecc: Floats) -> Floats:
    """Return eccentric anomalies; Newton's method, started where it converges for every eccentricity."""
    mean = (mean + np.pi) % (2 * np.pi) - np.pi
    anomaly = mean + 0.85 * ecc * np.sign(np.sin(mean))
    for _ in range(20):
        step = (anomaly - ecc * np.sin(anomaly) - mean) / (1 - ecc * np.cos(anomaly))
        anomaly = anomaly - step
        if np.max(np.abs(step)) < 1e-12:  # noqa: PLR2004 - rad, below a millimetre
            break
    return anomaly


def _make_group(orbit: Mapping[str, Any], gmst: float) -> list[tuple[float, ...]]:
    match orbit["type"]:
        case "kepler":
            angles = ("inclination_deg", "raan_deg", "argument_of_perigee_deg", "mean_anomaly_deg")
            shape = (orbit["semi_major_axis_km"], orbit["eccentricity"])
            return [(*shape, *(math.radians(orbit.get(angle, 0.0)) for angle in angles))]
        case "molniya":
            return _make_molniya(orbit, gmst)
        case _:
            return _make_walker(orbit)


def _make_walker(orbit: Mapping[str, Any]) -> list[tuple[float, ...]]:
    """Walker's pattern i:t/p/f; ascending nodes over 360 degrees (delta) or 180 (star) (Walker, 1984)."""
    total, planes = int(orbit["satellites"]), int(orbit["planes"])  # 2.0 is a whole number too
    each = total // planes
    spread = math.tau if orbit["type"] == "walker-delta" else math.pi
    incl = math.radians(orbit.get("inclination_deg", 90.0))
    first = math.radians(orbit.get("raan_deg", 0.0))
    return [
        (
            EARTH_RADIUS_KM + orbit["altitude_km"],
            0.0,
            incl,
            first + spread * plane / planes,
            0.0,
            math.tau * (seat / each + orbit["phasing"] * plane / total),
        )
        for plane in range(planes)
        for seat in range(each)
    ]


def _make_molniya(orbit: Mapping[str, Any], gmst: float) -> list[tuple[float, ...]]:
    """All satellites on one ground track, the first at apogee over the wanted meridian at the epoch."""
    ecc, incl, count = orbit.get("eccentricity", 0.74), _MOLNIYA_INCLINATION_RAD, int(orbit["satellites"])
    axis = (GM_KM3_S2 / (2 * EARTH_RATE_RAD_S) ** 2) ** (1 / 3)
    for _ in range(5):  # two revolutions while the Earth turns once below the drifting plane
        raan, perigee, anomaly = drift_rates(np.array([[axis, ecc, incl, 0.0, 0.0, 0.0]]))
        ratio = (anomaly + perigee) / (2 * (EARTH_RATE_RAD_S - raan))
        axis *= float(ratio[0]) ** (2 / 3)
    node = math.radians(orbit.get("apogee_longitude_deg", 0.0)) + gmst - math.pi / 2
    turns = (math.tau * index / count for index in range(count))
    return [(axis, ecc, incl, node + turn, 1.5 * math.pi, math.pi - 2 * turn) for turn in turns]
