"""The checks before a batch: everything that would make every case fail is said once, with its fix."""

import platform as host_platform
import shutil
from pathlib import Path

from pytest_atesor.core.plan import Platform, Target
from pytest_atesor.errors import SetupError
from pytest_atesor.sandbox import recipe
from pytest_atesor.sandbox.emulation import check_emulation
from pytest_atesor.sandbox.interface import Engine, EngineInfo
from pytest_atesor.sandbox.kernel import check_kernel

__all__ = ["check_space", "run_preflight"]

_GB = 1_000_000_000
_NEEDED_FOR_CASES = 2 * _GB
_NEEDED_FOR_IMAGE = 8 * _GB


def run_preflight(
    engine: Engine, platform: Platform, target: Target, *, state: Path, accelerated: bool = True
) -> EngineInfo:
    """Check kernel, engine, emulation and space; return what the engine says of itself.

    Without the platform's image, ``accelerated`` or plain, there must be room to make it.
    Raises SetupError with one line that names the fix.
    """
    check_kernel()
    info = engine.probe()
    if target is Target.NATIVE and host_platform.machine() != "riscv64":
        raise SetupError(
            f"the target native needs a riscv64 machine, and this one is {host_platform.machine()}; "
            "choose --atesor-target qemu"
        )
    try:
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise SetupError(
            f"the state directory {state} cannot be made ({error}); set ATESOR_STATE_DIR"
        ) from error
    if target is Target.QEMU:
        check_emulation(state)
    has_image = engine.image_labels(recipe.image_name(platform, accelerated=accelerated)) is not None
    needed = _NEEDED_FOR_CASES if has_image else _NEEDED_FOR_IMAGE
    check_space(state, needed, "set ATESOR_STATE_DIR to a larger disk")
    if info.storage is not None:
        check_space(info.storage, needed, f"remove unused images ({engine.name} image prune)")
    return info


def check_space(directory: Path, needed_bytes: int, advice: str) -> None:
    """Return when the file system of ``directory`` has that many bytes free. Raises SetupError."""
    free = shutil.disk_usage(directory).free
    if free < needed_bytes:
        raise SetupError(
            f"too little space in {directory}: {free / _GB:.1f} GB free, {needed_bytes / _GB:.0f} GB needed; "
            f"{advice}"
        )
