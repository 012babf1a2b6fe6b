"""The pytest plugin: options, hook specifications, and the door to a batch.

A pytest run that asks for no batch pays for the registration of the options and for one look at its
arguments, and for nothing else: all other modules are imported behind the door.
"""

from __future__ import annotations

import os
from typing import Final

import pytest

from pytest_atesor.errors import AtesorError, explaining_paths
from pytest_atesor.intake.request import has_request
from pytest_atesor.options import add_options, is_run_command, join_values, read_options, refuse_strays

__all__ = [
    "pytest_addhooks",
    "pytest_addoption",
    "pytest_cmdline_main",
    "pytest_xdist_auto_num_workers",
]

# Runs that only print something about pytest.
_ABOUT_PYTEST: Final = ("help", "version", "markers", "cacheshow", "showfixtures", "show_fixtures_per_test")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register the options."""
    add_options(parser)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Register the hooks that other plugins implement."""
    from pytest_atesor import hooks  # noqa: PLC0415 - pytest wants a module

    pluginmanager.add_hookspecs(hooks)


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Let ``-n auto`` mean what a native batch's machines can hold, and the CPU count for ``atesor run``."""
    try:
        with explaining_paths():
            if not has_request(config, os.environ):
                return None
            options = read_options(config, os.environ)
    except AtesorError:  # said where the batch begins
        return None
    if options.target != "native":
        return os.cpu_count() if is_run_command(config) else None
    from pytest_atesor.intake.native import (  # noqa: PLC0415 - only for this target
        count_workers_there,
        counts_there,
    )

    return count_workers_there(options, os.environ) if counts_there(config, options) else None


def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Start a batch when one was asked for; return the exit code when it must not start."""
    workerinput = getattr(config, "workerinput", None)
    if workerinput is not None:
        if "atesor" in workerinput:
            from pytest_atesor.work.join import join_batch  # noqa: PLC0415 - only for a batch

            join_batch(config, workerinput["atesor"])
        return None
    if any(config.getoption(name, None) for name in _ABOUT_PYTEST):
        return None
    invocation = config.invocation_params
    arguments = join_values(invocation.args, invocation.dir)
    if arguments is not None:
        # This pytest looked for rootdir and ini file in the wrong place: start over, told unmistakably.
        return int(pytest.main(arguments, plugins=invocation.plugins))
    try:
        if not has_request(config, os.environ):
            refuse_strays(config)
            return None
    except AtesorError as error:
        from pytest_atesor.intake.voice import say  # noqa: PLC0415 - only for a batch

        say(f"error: {error}")
        return error.exit_code
    from pytest_atesor.intake.entry import start_batch  # noqa: PLC0415 - only for a batch

    return start_batch(config)
