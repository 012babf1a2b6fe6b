"""The agent's entry point: flags in, one port, ``result.json`` and an exit code out.

SIGTERM ends it within about a second: what runs in the sandbox is killed, the result is written with the
cause "interrupted". Imports stay cheap here, because every case of a batch starts this process.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, BinaryIO

from pytest_atesor import __version__
from pytest_atesor.core.names import redact_text
from pytest_atesor.core.outcome import Cause
from pytest_atesor.core.plan import Target
from pytest_atesor.errors import AtesorError, SandboxError, SetupError, UsageError
from pytest_atesor.porter.phases import Phases
from pytest_atesor.porter.settings import REPLAY, Settings, parse_recipe_path, read_settings
from pytest_atesor.porter.verdict import failed

if TYPE_CHECKING:
    from pytest_atesor.porter.context import Place, Run
    from pytest_atesor.porter.recipe import Recipe
    from pytest_atesor.porter.recipe_cache import RecipeCache

__all__ = ["main", "replay_main"]


class _Interrupted(BaseException):
    """A signal asked us to end; no handler of ordinary errors may swallow it."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Port one package.

    Return 0 for verified, 3 for unverified, 1 for a failure, 2 for a bad flag, 128 + n for a signal.
    """
    output = sys.stdout.buffer
    try:
        settings = read_settings(argv, environ)
    except UsageError as error:
        return _refuse(error, environ)
    except SystemExit as stop:  # argparse has shown its help
        return int(stop.code or 0)
    with _signals():
        return _port(settings, environ, output)


def _refuse(error: UsageError, environ: Mapping[str, str]) -> int:
    """Say what is wrong, to a batch by ``result.json`` too: no package is to blame for it."""
    sys.stderr.write(f"atesor: error: {error}\n")
    if directory := environ.get("ATESOR_ATTEMPT_DIR"):
        from pytest_atesor.porter.result import Report, format_result, write_result  # noqa: PLC0415 - only here

        report = Report(outcome=failed(Cause.AGENT, str(error)), source={})
        with contextlib.suppress(OSError):
            write_result(Path(directory), format_result(report))
    return error.exit_code


def replay_main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """Replay the recipe file that is among the agent's flags in ``argv``. Exit codes are ``main``'s."""
    try:
        recipe = _read_recipe(parse_recipe_path(argv))
        mirrors = [] if recipe.url_used == recipe.url else ["--mirror", recipe.url_used]
        reference = recipe.commit or recipe.ref
        pinned = [*(["--ref", reference] if reference else []), "--platform", recipe.platform]
        settings = read_settings(["--repo", recipe.url, *mirrors, *pinned, *argv], environ, program=REPLAY)
    except UsageError as error:
        return _refuse(error, environ)
    except SystemExit as stop:  # argparse has shown its help
        return int(stop.code or 0)
    with _signals():
        return _port(settings, environ, sys.stdout.buffer, recipe)


def _read_recipe(path: Path) -> "Recipe":
    from pytest_atesor.porter.recipe import parse_recipe  # noqa: PLC0415 - only for a replay

    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is no regular file; give the recipe.json of a run")
    try:
        return parse_recipe(path.read_text(encoding="utf-8"), str(path))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}; give the recipe.json of a run") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} cannot be read: {error}; give the recipe.json of a run") from None


def _port(
    settings: Settings, environ: Mapping[str, str], output: BinaryIO, recipe: "Recipe | None" = None
) -> int:
    from pytest_atesor.porter.context import Run  # noqa: PLC0415 - after the flags: a bad flag answers at once

    phases = Phases(output)
    run = Run(outcome=failed(Cause.AGENT, "the agent ended early"), source={"url": redact_text(settings.url)})
    place = None
    exit_code: int | None = None
    try:
        with _lock(settings, environ):
            place = _open(settings, environ, phases)
            if recipe is None:
                from pytest_atesor.porter.run import port  # noqa: PLC0415 - the same

                port(settings, place, run, phases, environ)
            else:
                from pytest_atesor.porter.records import replay  # noqa: PLC0415 - the same

                replay(recipe, settings, place, run, phases, environ)
            _finish(settings, run, phases, place.kept)
    except _Interrupted as stop:
        _ignore_signals()
        phase = next((f" during {done.name}" for done in phases.done if done.status == "interrupted"), "")
        run.outcome = failed(Cause.INTERRUPTED, f"stopped by {stop}{phase}")
        exit_code = 128 + stop.number
        if place is not None:
            with contextlib.suppress(AtesorError):
                place.sandbox.clear()
        _finish(settings, run, phases, None)
    except AtesorError as error:
        cause = Cause.ENVIRONMENT if isinstance(error, SandboxError | SetupError) else Cause.AGENT
        run.outcome = failed(cause, str(error))
        exit_code = error.exit_code
        _finish(settings, run, phases, None)
    outcome = run.outcome
    shown = outcome.verdict.value.upper() if outcome.verdict else f"FAILED ({outcome.cause})"
    phases.say(f"==> [{phases.elapsed_s:6.1f} s] {shown}{': ' + outcome.reason if outcome.reason else ''}")
    return outcome.exit_code if exit_code is None else exit_code


def _open(settings: Settings, environ: Mapping[str, str], phases: Phases) -> "Place":
    """Return the sandbox, created where it is missing. Raises SetupError and SandboxError."""
    from pytest_atesor.porter.context import Place  # noqa: PLC0415 - keeps a bad flag's answer cheap
    from pytest_atesor.porter.download_pool import DownloadPool  # noqa: PLC0415 - the same
    from pytest_atesor.sandbox.image import ensure_image  # noqa: PLC0415 - the same
    from pytest_atesor.sandbox.sandbox import find_running_image, open_sandbox  # noqa: PLC0415 - the same
    from pytest_atesor.sandbox.select import find_engine, select_engine  # noqa: PLC0415 - the same
    from pytest_atesor.sandbox.slots import slot_directory, state_directory  # noqa: PLC0415 - the same

    if settings.target is Target.NATIVE:
        from pytest_atesor.porter.native import open_native_place  # noqa: PLC0415 - the same

        with phases.phase("sandbox", settings.container):
            return open_native_place(settings, environ)
    with phases.phase("sandbox", settings.container):
        state = state_directory(environ)
        # a batch has asked its engine, and names it
        is_known = settings.attempt_directory is not None and settings.engine != "auto"
        engine = (find_engine if is_known else select_engine)(settings.engine)
        # the sandbox that a batch has made is of the image that the batch began with
        given = find_running_image(engine, settings.container) if is_known else None
        image = given or ensure_image(
            engine,
            settings.platform,
            state=state,
            progress=phases.say,
            accelerated=settings.is_accelerated,
        )
        make = partial(open_sandbox, engine, settings.container, image=image, state=state)
        sandbox = make(reset=settings.attempt_directory is None)

    def recipes() -> "RecipeCache | None":
        if settings.has_build_network:  # what was built with it is no recipe for those who build without
            return None
        from pytest_atesor.porter.recipe_cache import RecipeCache, identify_image  # noqa: PLC0415 - at a run's end

        return RecipeCache(
            state / "recipes",
            settings.platform,
            settings.target,
            image=lambda: identify_image(engine.image_labels(image) or {}),
            version=__version__,
        )

    return Place(
        sandbox=sandbox,
        workspace=slot_directory(state, settings.container) / "workspace",
        index=state / "contents" / f"{settings.platform}-riscv64",
        downloads=DownloadPool(state / "downloads"),
        recipes=recipes,
        renew=partial(make, reset=True),
    )


def _finish(settings: Settings, run: "Run", phases: Phases, kept: Path | None) -> None:
    """Copy what was kept, write ``result.json`` and the zip; what cannot be written is said, not raised."""
    from pytest_atesor.porter import result  # noqa: PLC0415 - last

    copies: dict[str, str] = {}
    directory = settings.attempt_directory
    if kept is not None and directory is not None and run.artifacts:
        with phases.phase("artifacts", f"{len(run.artifacts)} native files"):
            copies = result.copy_artifacts(run.artifacts, kept, directory / "artifacts")
    report = result.Report(
        outcome=run.outcome,
        target=settings.target,
        machine=settings.machine,
        source=run.source,
        build_system=run.build_system,
        phases=tuple(phases.done),
        artifacts=run.artifacts,
        copies=copies,
        metrics=run.metrics,
        notes=tuple(run.notes),
        package_tests=run.package_tests,
        native_tools=run.native_tools,
        proofs=run.proofs,
        documents=_documents(run),
    )
    if settings.package and kept is not None and run.outcome.verdict is not None:
        from pytest_atesor.porter.package import write_package  # noqa: PLC0415 - only with --package

        try:
            phases.say(f"package: {write_package(Path.cwd(), settings, report, kept)}")
        except OSError as error:
            phases.say(f"atesor: error: the zip cannot be written: {error}")
            report = replace(report, notes=(*report.notes, f"the zip could not be written: {error}"))
    try:
        if directory is not None:
            result.write_documents(directory / "artifacts", report.documents)
            result.write_result(directory, result.format_result(report))
    except OSError as error:
        phases.say(f"atesor: error: the result cannot be written: {error}")
    if kept is not None and run.artifacts:
        from pytest_atesor.porter.kept import forget_artifacts  # noqa: PLC0415 - only after a build

        forget_artifacts(kept)


def _documents(run: "Run") -> dict[str, str]:
    if run.recipe is None:
        return {}
    from pytest_atesor.porter.recipe import format_recipe, format_recipe_text  # noqa: PLC0415 - only after a build

    documents = {"recipe.json": format_recipe(run.recipe), "recipe.md": format_recipe_text(run.recipe)}
    return {**documents, "changes.patch": run.patch} if run.patch else documents


@contextlib.contextmanager
def _signals() -> Iterator[None]:
    """Turn stop signals into an exception, but for an INT or HUP that we were started to ignore (nohup)."""

    def stop(number: int, _frame: FrameType | None) -> None:
        raise _Interrupted(number)

    heard = [signal.SIGTERM]
    heard += [one for one in (signal.SIGINT, signal.SIGHUP) if signal.getsignal(one) != signal.SIG_IGN]
    before = {number: signal.signal(number, stop) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ignore_signals() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


@contextlib.contextmanager
def _lock(settings: Settings, environ: Mapping[str, str]) -> Iterator[None]:
    """Hold the slot while we work alone; a batch's own lease covers us otherwise.

    Raises SetupError when it is taken, or there is no place for it.
    """
    if settings.attempt_directory is not None:
        yield
        return
    from filelock import FileLock, Timeout  # noqa: PLC0415 - only without a batch

    from pytest_atesor.sandbox.slots import slot_directory, state_directory  # noqa: PLC0415 - the same

    directory = slot_directory(state_directory(environ), settings.container)
    lock = FileLock(directory / "lock", blocking=False)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise SetupError(
            f"the sandbox {settings.container} is in use by another run; "
            "wait for it or choose another --container"
        ) from None
    except OSError as error:
        raise SetupError(
            f"the slot directory {directory} cannot be used ({error.strerror}); set ATESOR_STATE_DIR"
        ) from None
    try:
        yield
    finally:
        lock.release()
