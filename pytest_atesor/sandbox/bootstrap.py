"""Bootstraps an image archive from the distribution's packages, where no registry answers.

Needs mmdebstrap, riscv64 emulation, and root or a subordinate id range. The mirror is the one that this
machine's apt is configured for; else mmdebstrap's own default.
"""

import datetime as dt
import os
import platform as host_platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from pytest_atesor.core.plan import Platform
from pytest_atesor.errors import SetupError
from pytest_atesor.sandbox import recipe
from pytest_atesor.sandbox.archive import ImageSettings
from pytest_atesor.sandbox.building import explaining_disk, run_logged, show_lines
from pytest_atesor.sandbox.packing import LayerPacker

__all__ = ["bootstrap_archive", "find_free_memory", "parse_debian_mirror", "read_debian_mirror"]

_TOOLS: Mapping[str, str] = {"mmdebstrap": "mmdebstrap", "arch-test": "arch-test", "zstd": "zstd"}
_KEY_PACKAGES: Mapping[Platform, str] = {
    Platform.DEBIAN: "debian-archive-keyring",
    Platform.UBUNTU: "ubuntu-keyring",
}
_TARGET_FORMAT = "$(LABEL)|$(COMPONENT)|$(REPO_URI)"
_STEP = "bootstrap: "
# What is mounted for the new system is seen by nobody else and goes with its processes, however they end.
# Without root, mmdebstrap does that by itself.
_OWN_MOUNTS = ("unshare", "--mount", "--propagation", "private")
# In memory nothing is synced, and removing a hundred thousand files takes no time. Without the mount it is a
# directory like any other.
_IN_MEMORY = ("sh", "-c", 'mount -t tmpfs -o "mode=0755,size=$1" tmpfs "$2" || :; shift 2; exec "$@"', "sh")
_SYSTEM_BYTES = 4 << 30  # the larger of the two systems with its packages, and half as much
_SHARED_SCRATCH = Path("/var/tmp")  # noqa: S108 - the ids of mmdebstrap's user namespace may not enter ours


def bootstrap_archive(  # noqa: PLR0913 - keyword-only facts of one image
    platform: Platform,
    archive: Path,
    *,
    tag: str,
    digest: str,
    progress: Callable[[str], None],
    accelerated: bool = True,
    environ: Mapping[str, str] = os.environ,
    keys_below: Path = Path("/"),
) -> None:
    """Write the platform's image archive (zstd); it appears only when complete.

    One that is not ``accelerated`` is made with native tools, too, and loses them at the end. ``progress``
    gets a line per step, with ATESOR_SETUP_STREAM=1 in ``environ`` all output. Keys are looked for below
    ``keys_below``. Raises SetupError naming the missing package or the log.
    """
    host = recipe.host_architecture()
    if host is None:
        raise SetupError(_explain_machine(platform))
    _require_tools()
    _require_keys(platform, keys_below)
    variant = recipe.image_variant(platform, accelerated=accelerated)
    log = archive.parent / f"{variant}-build.log"
    progress(f"building the {variant} image from {platform} packages, some minutes; log: {log}")
    with explaining_disk(archive.parent), _temporary(archive.parent) as directory:
        root, packed = directory / "root.tar", directory / archive.name
        script = recipe.recipe_directory() / "bootstrap.sh"
        suite, components = recipe.BOOTSTRAP_SUITES[platform], recipe.BOOTSTRAP_COMPONENTS[platform]
        is_root = os.geteuid() == 0
        kind = "accelerated" if accelerated else "plain"
        argv = ["sh", str(script), kind, suite, components, host, str(root)]
        if platform is Platform.DEBIAN and (mirror := read_debian_mirror()):
            argv.append(mirror)
        scratch = directory / "scratch" if is_root else _SHARED_SCRATCH
        if is_root:
            scratch.mkdir()
            argv = [*_plan_mounts(scratch), *argv]
        with LayerPacker(root, directory / "layer.zst") as packer:
            _run(argv, log, scratch=scratch, progress=progress, show=show_lines(progress, environ))
            versions = Path(f"{root}.versions").read_text(encoding="utf-8")
            created = int(time.time())
            settings = ImageSettings(
                tag=tag,
                environment=recipe.ENVIRONMENT,
                labels=recipe.format_labels(digest=digest, created_s=created, versions=versions),
                created=dt.datetime.fromtimestamp(created, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            )
            progress(f"packing the {variant} image ({versions.replace(chr(10), ' ').strip()})")
            packer.write_archive(packed, settings)
        packed.replace(archive)


def _plan_mounts(scratch: Path) -> tuple[str, ...]:
    """Return the command line in front of root's that gives it mounts of its own, where that can be had.

    With memory to spare three times over, the directory ``scratch`` is in memory.
    """
    if subprocess.run([*_OWN_MOUNTS, "true"], capture_output=True, check=False).returncode != 0:
        return ()
    import psutil  # noqa: PLC0415 - every agent's start imports this module

    if find_free_memory(psutil.virtual_memory().available) < 3 * _SYSTEM_BYTES:
        return _OWN_MOUNTS
    return (*_OWN_MOUNTS, *_IN_MEMORY, str(2 * _SYSTEM_BYTES), str(scratch))


def find_free_memory(available_bytes: int, groups: Path = Path("/sys/fs/cgroup")) -> int:
    """Return how much of the machine's available memory this process may use by its control group's limit.

    Only the group that stands at the root is looked at: a container's own.
    """
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        with suppress(OSError, ValueError):
            free = int((groups / limit).read_text("ascii")) - int((groups / used).read_text("ascii"))
            available_bytes = min(available_bytes, max(0, free))
    return available_bytes


def parse_debian_mirror(targets: str) -> str | None:
    """Return the mirror in ``apt-get indextargets`` lines of LABEL|COMPONENT|URI.

    The label is "Debian" for the main archive only; security and backports have their own.
    """
    for line in targets.splitlines():
        label, component, uri = [*line.split("|"), "", ""][:3]
        if label == "Debian" and component == "main" and uri.startswith(("http://", "https://")):
            return uri.rstrip("/")
    return None


def read_debian_mirror() -> str | None:
    """Return the mirror that this machine's apt is configured for, None when there is none."""
    try:
        ended = subprocess.run(
            ["apt-get", "indextargets", "--format", _TARGET_FORMAT, "Created-By: Packages"],  # noqa: S607 - PATH
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_debian_mirror(ended.stdout)


def _explain_machine(platform: Platform) -> str:
    """Say why no image can be bootstrapped here, and what helps: native tools make it, also the plain one."""
    base = recipe.BASE_IMAGES[platform]
    return (
        f"no {platform} image can be bootstrapped on a machine of kind {host_platform.machine()}, only on "
        f"amd64 and arm64; make one from a registry that offers {base} (--no-acceleration, with docker or "
        "podman), or use a machine of one of these kinds"
    )


def _require_keys(platform: Platform, root: Path) -> None:
    """Return where apt has keys of the distribution's archive. Raises SetupError naming their package."""
    rings = [root / "usr/share/keyrings" / f"{platform}-archive-keyring.{end}" for end in ("gpg", "pgp")]
    if any(ring.exists() for ring in rings) or any((root / "etc/apt/trusted.gpg.d").glob(f"*{platform}*")):
        return
    raise SetupError(
        f"the {platform} image cannot be bootstrapped without the keys of its archive ({rings[0]}); "
        f"apt-get install {_KEY_PACKAGES[platform]}"
    )


def _require_tools() -> None:
    missing = [package for program, package in _TOOLS.items() if shutil.which(program) is None]
    if missing:
        raise SetupError(
            f"the image cannot be bootstrapped without {', '.join(missing)}; "
            f"apt-get install {' '.join(missing)}"
        )


@contextmanager
def _temporary(parent: Path) -> Iterator[Path]:
    """Yield a directory that is removed in the end; what a killed build left behind is removed first."""
    for left in parent.glob("build-*"):
        subprocess.run(["rm", "-rf", "--one-file-system", str(left)], capture_output=True, check=False)  # noqa: S607 - PATH
    with tempfile.TemporaryDirectory(prefix="build-", dir=parent) as directory:
        yield Path(directory)


def _run(
    argv: list[str],
    log: Path,
    *,
    scratch: Path,
    progress: Callable[[str], None],
    show: Callable[[str], None],
) -> None:
    """Run the bootstrap, output to ``log``, its step lines to ``progress``, the others to ``show``."""
    last = ""

    def pass_on(line: str) -> None:
        nonlocal last
        last = line.strip() or last
        if line.startswith(_STEP):
            progress(line.removeprefix(_STEP).rstrip())
        else:
            show(line)

    environ = {**os.environ, "TMPDIR": str(scratch), "LC_ALL": "C.UTF-8"}
    if run_logged(argv, log, on_line=pass_on, environ=environ) != 0:
        raise SetupError(f"the image could not be bootstrapped ({last[:200]}); see {log}")
