"""Where a port happens on the native target: in the batch's sandbox on the machine, mirrored here."""

from collections.abc import Mapping

from pytest_atesor.core.native import SESSION_VARIABLE
from pytest_atesor.errors import SetupError
from pytest_atesor.porter.context import Place
from pytest_atesor.porter.settings import Settings
from pytest_atesor.sandbox.native.files import MirroredSandbox
from pytest_atesor.sandbox.native.hold import native_engine
from pytest_atesor.sandbox.slots import slot_directory, state_directory

__all__ = ["open_native_place"]


def open_native_place(settings: Settings, environ: Mapping[str, str]) -> Place:
    """Return the batch's sandbox of this slot, which its worker has just made. Raises SetupError."""
    directory = environ.get(SESSION_VARIABLE)
    if not directory or settings.attempt_directory is None:
        raise SetupError(
            "the target native works in a batch only; "
            "write a package list and start it with atesor run --target native --list PATH"
        )
    state = state_directory(environ)
    mirror = slot_directory(state, settings.container) / "workspace"
    mirror.mkdir(parents=True, exist_ok=True)
    sandbox = MirroredSandbox(native_engine(directory), settings.container, mirror)
    return Place(
        sandbox=sandbox,
        workspace=mirror,
        index=state / "contents" / f"{settings.platform}-riscv64",
        bring=sandbox.bring,
    )
