"""How long cases took, on disk: one small file per platform, target and agent below the state directory.

``history/durations_v1-<platform>-<target>-<digest of the agent>.json`` is replaced atomically under a kernel
lock, so that batches that end at the same moment add up. It only helps to order cases: what cannot be read
is warned of and done without, and what cannot be written is warned of and forgotten.
"""

from __future__ import annotations

import contextlib
import hashlib
import shlex
from typing import TYPE_CHECKING, Final

from filelock import FileLock, Timeout

from pytest_atesor.bundle.files import write_atomic
from pytest_atesor.core.history import (
    Durations,
    Setting,
    add_duration,
    expect_durations,
    format_durations,
    has_duration,
    name_package,
    parse_durations,
)
from pytest_atesor.errors import BadInputError, BundleError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_atesor.core.attempt import AttemptRecord
    from pytest_atesor.core.plan import Case, Plan

__all__ = ["History"]

_LOCK_S: Final = 5.0
_MOST_BYTES: Final = 16 * 1024 * 1024
_MOST_FILES: Final = 64


class History:
    """The durations that matter to one plan. ``warnings`` collects what went wrong, one line each."""

    def __init__(self, state: Path, plan: Plan) -> None:
        agent = plan.settings.get("agent")
        command = shlex.join(map(str, agent)) if isinstance(agent, list) else "built-in"
        # ten times as long says nothing of how long it takes otherwise
        command += " (no acceleration)" if plan.settings.get("no_acceleration") is True else ""
        self._plan = plan
        self._setting = Setting(platform=plan.platform.value, target=plan.target.value, agent=command)
        digest = hashlib.sha256(command.encode()).hexdigest()[:12]
        self._directory = state / "history"
        self._path = self._directory / f"durations_v1-{plan.platform.value}-{plan.target.value}-{digest}.json"
        self._new: list[tuple[str, float]] = []
        self.warnings: list[str] = []

    def expect(self) -> dict[str, float]:
        """Return the expected seconds of the plan's cases, by case id, where something is known."""
        return expect_durations(self._plan, self._read())

    def note(self, case: Case, record: AttemptRecord) -> None:
        """Take an attempt that ended."""
        if has_duration(record):
            self._new.append((name_package(self._plan, case), record.duration_s))

    def save(self) -> None:
        """Add what was noted to the file; the second time adds only what is new since."""
        if not self._new:
            return
        try:
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            with FileLock(self._directory / "lock", timeout=_LOCK_S):
                durations = self._read()
                for package, seconds in self._new:
                    add_duration(durations, package, seconds)
                write_atomic(self._path, format_durations(self._setting, durations), durable=False)
                _drop_oldest(list(self._directory.glob("durations_v1-*.json")))
        except Timeout:
            self._warn("another batch holds its lock")
        except BundleError as error:
            self._warn(str(error))
        except OSError as error:
            self._warn(error.strerror or str(error))
        self._new = []

    def _read(self) -> Durations:
        try:
            with self._path.open("rb") as file:
                data = file.read(_MOST_BYTES)
            return parse_durations(data, self._setting, str(self._path))
        except FileNotFoundError:
            return {}
        except OSError as error:
            self._warn(error.strerror or str(error))
        except BadInputError as error:
            self._warn(str(error))
        return {}

    def _warn(self, why: str) -> None:
        line = f"warning: the durations of earlier batches in {self._path} cannot be used ({why})"
        if line not in self.warnings:
            self.warnings.append(line)


def _drop_oldest(files: Sequence[Path]) -> None:
    """Keep the number of files bounded; agents come and go."""
    with contextlib.suppress(OSError):
        for path in sorted(files, key=lambda file: file.stat().st_mtime_ns)[:-_MOST_FILES]:
            path.unlink()
