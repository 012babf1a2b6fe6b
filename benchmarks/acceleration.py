"""What native tools are worth: the same builds in the accelerated image, the plain one, and natively.

``python benchmarks/acceleration.py [--project NAME ...]`` builds eight projects from Debian's packages of
their sources in three podman sandboxes: riscv64 with native tools, riscv64 with all tools emulated, and a
container of the same release and packages for this machine's own architecture. Each project is built in all
three before the next begins, so that what else the machine does weighs on all alike. Prints a table of
ratios, their geometric means, the promises and JSON; exit code 1 when a promise is broken or a build failed.
Needs root or subordinate ids, podman, mmdebstrap and a package mirror; missing images are made.
"""

import argparse
import json
import math
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_atesor.core.plan import Platform
from pytest_atesor.sandbox import recipe
from pytest_atesor.sandbox.bootstrap import read_debian_mirror
from pytest_atesor.sandbox.engines.podman import PodmanEngine
from pytest_atesor.sandbox.image import ensure_image
from pytest_atesor.sandbox.interface import ExecSpec
from pytest_atesor.sandbox.sandbox import Limits, Sandbox, open_sandbox
from pytest_atesor.sandbox.slots import slot_directory, state_directory

FASTER_THAN_PLAIN = 10.0
OF_NATIVE = 1.4
LIMIT_S = 3600.0
KINDS = ("accelerated", "native", "plain")
NATIVE_IMAGE = "localhost/pytest-atesor-benchmark:native"

# Optional dependencies that are not built would still be looked for.
DROP_DEPENDENCIES = (
    "awk '/^\\[/ { drop = /dependencies/ } !drop && !/dep:/' Cargo.toml > new && "
    "mv new Cargo.toml && rm -f Cargo.lock && "
)
PROJECTS: Mapping[str, tuple[str, str]] = {
    "zlib": ("zlib", "./configure && make -j2"),
    "lz4": ("lz4", "make -j2"),
    "fping": ("fping", "{ [ -x configure ] || autoreconf -fi; } && ./configure && make -j2"),
    "cjson": ("cjson", "cmake -B made -DENABLE_CJSON_TEST=ON && cmake --build made -j2"),
    "fribidi (Meson)": ("fribidi", "meson setup made -Ddocs=false && ninja -C made -j2"),
    "jsoncpp (C++)": ("libjsoncpp", "cmake -B made -G Ninja && cmake --build made -j2"),
    "toml (Go)": (
        "golang-toml",
        "export GOCACHE=$PWD/cache GOFLAGS=-mod=mod GOPROXY=off CGO_ENABLED=0; go build -o made ./cmd/tomlv",
    ),
    "regex-syntax (Rust)": (
        "librust-regex-syntax-dev",
        DROP_DEPENDENCIES + "CARGO_HOME=$PWD/home cargo build --release --offline -j2",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Seconds of the wall clock and of processors that one build took."""

    wall_s: float
    cpu_s: float


class NativePodman(PodmanEngine):
    """Podman for containers of this machine's own architecture."""

    def create_options(self) -> list[str]:
        """Leave the architecture to podman."""
        given = super().create_options()
        at = given.index("--arch")
        return [*given[:at], *given[at + 2 :]]


def main() -> int:
    """Measure and print; exit code 1 when a promise is broken or a build failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--project", action="append", choices=list(PROJECTS), help="only this one; repeatable"
    )
    chosen = parser.parse_args().project or list(PROJECTS)
    state = state_directory(os.environ)
    names = {kind: f"atesor-benchmark-{kind}-{os.getpid()}" for kind in KINDS}
    engines = {kind: NativePodman() if kind == "native" else PodmanEngine() for kind in KINDS}
    images = {kind: find_image(kind, engines[kind], state) for kind in KINDS}
    costs: dict[str, dict[str, Cost]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        try:
            sandboxes = {
                kind: open_sandbox(
                    engines[kind],
                    names[kind],
                    image=images[kind],
                    state=Path(scratch),
                    limits=Limits(memory_bytes=None),
                    reset=True,
                )
                for kind in KINDS
            }
            for project in chosen:
                share_source(PROJECTS[project][0], Path(scratch), names, sandboxes["accelerated"])
                costs[project] = {kind: build(sandboxes[kind], PROJECTS[project][1]) for kind in KINDS}
                print(f"{project}: {format_costs(costs[project])}", file=sys.stderr, flush=True)
        finally:
            for kind in KINDS:
                engines[kind].remove(names[kind])
    return show(costs, is_whole=set(chosen) == set(PROJECTS))


def find_image(kind: str, engine: PodmanEngine, state: Path) -> str:
    """Return the image of one kind, made when it is missing."""
    if kind != "native":
        return ensure_image(
            engine, Platform.DEBIAN, state=state, progress=print, accelerated=kind == "accelerated"
        )
    if engine.image_id(NATIVE_IMAGE) is None:
        make_native_image(state / "images")
    return NATIVE_IMAGE


def make_native_image(scratch: Path) -> None:
    """Bootstrap the sandbox's own packages for this machine's architecture, and import them."""
    print("making the native image")
    host = recipe.host_architecture()
    sources = recipe.recipe_directory()
    with tempfile.TemporaryDirectory(dir=scratch) as directory:
        root = Path(directory) / "native.tar"
        mirror = read_debian_mirror()
        subprocess.run(
            [
                *("mmdebstrap", f"--arch={host}", "--variant=minbase", "--format=tar", "--components=main"),
                *("--skip=cleanup/apt/lists", '--aptopt=Acquire::Languages "none"'),
                f"--customize-hook=copy-in '{sources}' /",
                f'--customize-hook=chroot "$1" sh /{sources.name}/root.sh plain',
                *(recipe.BOOTSTRAP_SUITES[Platform.DEBIAN], str(root), *([mirror] if mirror else [])),
            ],
            env={**os.environ, "TMPDIR": directory},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        settings = [f"ENV {key}={value}" for key, value in recipe.ENVIRONMENT.items() if "TYPE" not in key]
        changes = [word for setting in settings for word in ("--change", setting)]
        subprocess.run(
            ["podman", "import", "--quiet", *changes, str(root), NATIVE_IMAGE],  # noqa: S607 - PATH
            check=True,
        )


def share_source(package: str, state: Path, names: Mapping[str, str], fetcher: Sandbox) -> None:
    """Fetch a source package's upstream archive in one sandbox and unpack it in the workspace of each."""
    if package.startswith("librust-"):  # a crate's sources are what its binary package holds
        fetch = (
            f"apt-get -qq -o APT::Sandbox::User=root download {package} && dpkg-deb -x *.deb crate && "
            "tar -czf crate.orig.tar.gz -C crate/usr/share/cargo/registry ."
        )
        levels = 2
    else:
        fetch = f"apt-get -qq -o APT::Sandbox::User=root source --download-only --tar-only {package}"
        levels = 1
    script = (
        "rm -rf /workspace/fetched && mkdir /workspace/fetched && cd /workspace/fetched && "
        f"{{ [ -e /workspace/lists ] || apt-get -qq update; }} && touch /workspace/lists && {fetch}"
    )
    done = fetcher.run(ExecSpec(argv=["sh", "-c", script], user="root"), timeout_s=LIMIT_S)
    if done.exit_code != 0:
        sys.exit(f"{package} could not be fetched: {done.tail.decode(errors='replace')[-500:]}")
    fetched = slot_directory(state, names["accelerated"]) / "workspace" / "fetched"
    (archive,) = (file for file in fetched.iterdir() if ".orig.tar." in file.name and file.suffix != ".asc")
    for name in names.values():
        place = slot_directory(state, name) / "workspace" / "src" / "tree"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        subprocess.run(
            ["tar", "-xf", str(archive), "-C", str(place), f"--strip-components={levels}", "--no-same-owner"],  # noqa: S607 - PATH
            check=True,
        )


def build(sandbox: Sandbox, script: str) -> Cost:
    """Build once and return what it took. Ends the benchmark when the build fails."""
    owned = sandbox.run(
        ExecSpec(argv=["chown", "-R", "builder:builder", "/workspace/src"], user="root"), timeout_s=LIMIT_S
    )
    shell = f"sh -euc {shlex.quote(script)} > /tmp/log 2>&1"
    timed = f"TIMEFORMAT='%R %U %S'; time {shell} || {{ tail /tmp/log; exit 1; }}"
    done = sandbox.run(ExecSpec(argv=["bash", "-c", timed], cwd="/workspace/src/tree"), timeout_s=LIMIT_S)
    said = done.tail.decode(errors="replace")
    if owned.exit_code != 0 or done.exit_code != 0 or done.timed_out:
        sys.exit(f"{sandbox.name}: the build failed\n{said}")
    wall, user, system = (float(word) for word in said.split()[-3:])
    return Cost(wall_s=wall, cpu_s=user + system)


def format_costs(costs: Mapping[str, Cost]) -> str:
    """Return one project's seconds."""
    return ", ".join(f"{kind} {cost.wall_s:.1f} s ({cost.cpu_s:.1f} s CPU)" for kind, cost in costs.items())


def mean(values: Iterable[float]) -> float:
    """Return the geometric mean."""
    logarithms = [math.log(value) for value in values]
    return math.exp(sum(logarithms) / len(logarithms))


def show(costs: Mapping[str, Mapping[str, Cost]], *, is_whole: bool) -> int:
    """Print the table, the promises and JSON; return the exit code."""
    print(f"{'':>22} {'plain / accelerated':>20} {'accelerated / native':>21}   (in brackets: of CPU time)")
    ratios: dict[str, list[float]] = {"faster": [], "faster_cpu": [], "of_native": [], "of_native_cpu": []}
    for project, of in costs.items():
        fast, plain, native = of["accelerated"], of["plain"], of["native"]
        row = (
            plain.wall_s / fast.wall_s,
            plain.cpu_s / fast.cpu_s,
            fast.wall_s / native.wall_s,
            fast.cpu_s / native.cpu_s,
        )
        for many, value in zip(ratios.values(), row, strict=True):
            many.append(value)
        print(f"{project:>22} {row[0]:12.1f} ({row[1]:5.1f}) {row[2]:13.2f} ({row[3]:5.2f})")
    means = {name: mean(many) for name, many in ratios.items()}
    print(
        f"{'geometric mean':>22} {means['faster']:12.1f} ({means['faster_cpu']:5.1f}) "
        f"{means['of_native']:13.2f} ({means['of_native_cpu']:5.2f})"
    )
    kept = {
        f"at least {FASTER_THAN_PLAIN:.0f} times faster than plain": means["faster"] >= FASTER_THAN_PLAIN,
        f"at most {OF_NATIVE} times the native build": means["of_native"] <= OF_NATIVE,
    }
    for promise, is_kept in kept.items():
        print(f"{'kept' if is_kept else 'BROKEN':>8} {promise}{'' if is_whole else ' (some projects only)'}")
    seconds = {
        project: {kind: [cost.wall_s, cost.cpu_s] for kind, cost in of.items()}
        for project, of in costs.items()
    }
    print(json.dumps({"seconds": seconds, "means": means, "kept": kept, "at": time.strftime("%Y-%m-%d")}))
    return 0 if all(kept.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
