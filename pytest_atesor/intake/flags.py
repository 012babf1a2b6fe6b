"""What pytest's own flags and other plugins mean for a batch: refused where it cannot have them.

Nothing is created here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_atesor.errors import BadInputError, UsageError
from pytest_atesor.options import MOST_WORKERS
from pytest_atesor.work.tree import register_marks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_atesor.core.plan import Plan

__all__ = ["check_expressions", "count_workers", "refuse_flags", "refuse_taken_marks"]

_TAKEN_MARKS: Final[Mapping[str, str]] = {
    "pytest-asyncio": "asyncio",
    "pytest-rerunfailures": "flaky",
    "pytest-retry": "flaky",
    "flaky": "flaky",
    "pytest-forked": "forked",
    "pytest-isolate": "isolate",
    "pytest-order": "order",
    "pytest-ordering": "run",
}
"""The marks by which other plugins run or order items, by the plugin's name on PyPI."""


def refuse_flags(config: pytest.Config) -> None:
    """Raise UsageError for flags of pytest that a batch cannot have, or that its workers would stumble on."""
    if config.getoption("setuponly", None) or config.getoption("setupplan", None):
        raise UsageError("--setup-only and --setup-plan run no case of a batch; use --collect-only")
    if config.getoption("looponfail", None):
        raise UsageError("--looponfail never ends, and a batch does; drop it")
    restarts: str | None = config.getoption("maxworkerrestart", None)
    if restarts is not None and not _is_number(restarts):
        raise UsageError(f"bad number {restarts!r} of --max-worker-restart; use a whole number")


def check_expressions(config: pytest.Config, plan: Plan) -> None:
    """Raise UsageError for a ``-k`` or ``-m`` that pytest cannot read, of which each worker would die."""
    register_marks(config, plan)
    reader: Any = config.pluginmanager.get_plugin("mark")
    try:
        reader.pytest_collection_modifyitems(items=[], config=config)
    except pytest.UsageError as error:
        raise UsageError(f"{error}; correct the expression") from None


def refuse_taken_marks(config: pytest.Config, plan: Plan) -> None:
    """Raise BadInputError for a case with a mark that a plugin of this very run acts on."""
    names = (str(found.project_name) for _, found in config.pluginmanager.list_plugin_distinfo())
    loaded = {name.lower().replace("_", "-") for name in names}
    taken = {mark: name for name, mark in _TAKEN_MARKS.items() if name in loaded}
    for case in plan.cases:
        for mark in case.marks:
            if mark in taken:
                raise BadInputError(
                    f"{plan.source}: {case.label!r} has the word {mark!r}, and {taken[mark]} gives that mark"
                    " a meaning of its own; choose another word, or run without that plugin (-p no:...)"
                )


def count_workers(config: pytest.Config) -> int:
    """Return how many worker processes xdist was told to start; 0 when cases run in this process.

    Raises UsageError for a distribution that a batch cannot have, and for more workers than there are slots.
    """
    mode = config.getoption("dist", "no")
    specs: list[str] = config.getoption("tx", None) or []
    if mode == "no" or not specs:
        return 0
    if mode == "each":
        raise UsageError("--dist each would run every case on every worker; use -n alone")
    total = 0
    for spec in specs:
        number, star, rest = spec.partition("*")
        kind = rest if star and number.isdecimal() else spec
        if not kind.startswith("popen"):
            raise UsageError(f"--tx {spec}: the workers of a batch run on this machine; use -n, or popen")
        total += int(number) if star and number.isdecimal() else 1
    if total > MOST_WORKERS:
        raise UsageError(f"bad worker count {total} from -n or --tx; it must be from 1 to {MOST_WORKERS}")
    return total


def _is_number(text: str) -> bool:
    try:
        int(text)
    except ValueError:
        return False
    return True
