"""Tries an image's native tools: builds the canaries with them and with the emulated ones, and compares.

Both builds happen in one sandbox of the image, at the same paths. The emulated tools are the ones that the
native ones stand in front of; the image's own script takes those away. What a build made is run, too, under
the emulation of this machine.
"""

import base64
import hashlib
import io
import shutil
import tarfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from pytest_atesor.core.child_outcome import clean_reason
from pytest_atesor.errors import SandboxError, SetupError
from pytest_atesor.sandbox.interface import Completed, Engine, ExecSpec
from pytest_atesor.sandbox.likeness import compare_files
from pytest_atesor.sandbox.proof import CanaryFile, Proof
from pytest_atesor.sandbox.recipe import LABEL_CREATED, LABEL_RECIPE
from pytest_atesor.sandbox.sandbox import Limits, Sandbox, open_sandbox
from pytest_atesor.sandbox.slots import slot_directory
from pytest_atesor.sandbox.tools import ASK_TOOLS, parse_native_tools

__all__ = ["prove_image", "read_canary_digest"]

_STEP_S: Final = 900.0
_WORK: Final = "/tmp/canary/work"  # noqa: S108 - inside the sandbox
_UNPACK: Final = f"""
mkdir -p {_WORK} && cd {_WORK}
rm -rf c cxx configure go
printf %s "$1" | base64 -d | tar -xz
"""
_BUILD: Final = 'sh canary.sh build "$1" "$PWD/out"; mv out "../$2"'
_NATIVE_GO: Final = 'set -- "$(go env GOTOOLDIR)" native; '
_EMULATED_GO: Final = 'set -- "$PWD/tools" emulated; '
# Were one of these still native, the comparison would prove nothing.
_SWITCH_OFF: Final = """
/native/shim.sh off
for tool in sh sed make m4 perl gcc g++ as ld ar; do
    file=$(readlink -f "$(command -v $tool)")
    case $(head -c 20 "$file" | od -An -tx1 -v | tr -d ' \\n') in
    7f454c46*f300) ;;
    *) echo "$tool is $file, which is not emulated" && exit 1 ;;
    esac
done
"""
_EMULATED_VERSIONS: Final = """
version=$(gcc -dumpversion)
for package in gcc-$version g++-$version binutils-riscv64-linux-gnu make m4 perl-base dash; do
    dpkg-query -W -f '${Package} ${Version}\\n' $package 2>/dev/null || :
done
/tmp/canary/work/tools/compile -V | sed 's/^compile version /go /'
"""
_COLLECT: Final = "cd /tmp/canary && exec tar -c native emulated 2>/dev/null"


@dataclass(frozen=True, slots=True)
class _Refusal(Exception):  # noqa: N818 - no error: the answer to the question
    """The canaries did not pass, for this reason."""

    reason: str


def prove_image(engine: Engine, image: str, *, variant: str, state: Path) -> Proof:
    """Try the native tools of an accelerated image and return what came of it.

    A tool that does not work is an answer. Raises SetupError when there is none, because the engine failed.
    """
    labels = engine.image_labels(image) or {}
    started = time.monotonic()
    found = _Findings()
    reason = ""
    place = hashlib.sha256(str(state).encode()).hexdigest()[:8]
    name = f"atesor-canary-{variant}-{place}"  # its own in this state directory, whose lock is held
    try:
        try:
            sandbox = open_sandbox(
                engine, name, image=image, state=state, limits=Limits(memory_bytes=None), reset=True
            )
            _try_tools(sandbox, found)
        finally:
            engine.remove(name)
            shutil.rmtree(slot_directory(state, name), ignore_errors=True)
    except _Refusal as refusal:
        reason = refusal.reason
    except SandboxError as error:
        raise SetupError(f"the native tools of {image} could not be tried ({error}); try again") from error
    return Proof(
        image=image,
        recipe=labels.get(LABEL_RECIPE, ""),
        created=labels.get(LABEL_CREATED, ""),
        engine=f"{engine.name} {engine.probe().version}",
        canaries=read_canary_digest(),
        reason=reason or _judge(found.files),
        duration_s=time.monotonic() - started,
        files=found.files,
        native=found.native,
        emulated=found.emulated,
    )


def read_canary_digest() -> str:
    """Return a digest of the canaries' sources."""
    digest = hashlib.sha256()
    for name, data in _read_sources().items():
        digest.update(f"\n{name} {len(data)}\n".encode())
        digest.update(data)
    return digest.hexdigest()


class _Findings:
    """What is known so far."""

    def __init__(self) -> None:
        self.files: tuple[CanaryFile, ...] = ()
        self.native: Mapping[str, str] = {}
        self.emulated: Mapping[str, str] = {}


def _try_tools(sandbox: Sandbox, found: _Findings) -> None:
    sources = _pack(_read_sources())
    found.native = parse_native_tools(_ask(sandbox, ASK_TOOLS, "the list of native tools", user="root"))
    _ask(sandbox, _UNPACK, "unpacking natively", sources)
    _ask(sandbox, "sh canary.sh prepare", "preparing the Go canary natively", cwd=_WORK)
    _ask(sandbox, _NATIVE_GO + _BUILD, "building natively", cwd=_WORK)
    _ask(sandbox, _SWITCH_OFF, "switching the native tools off", user="root")
    _ask(sandbox, _UNPACK, "unpacking emulated", sources)
    _ask(sandbox, _EMULATED_GO + _BUILD, "building emulated", cwd=_WORK)
    versions = _ask(sandbox, _EMULATED_VERSIONS, "the emulated tools' versions")
    found.emulated = dict(line.split(" ", 1) for line in versions.splitlines() if " " in line)
    found.files = _compare(_collect(sandbox))


def _ask(
    sandbox: Sandbox,
    script: str,
    what: str,
    *arguments: str,
    user: str = "builder",
    cwd: str = "/",
    sink: BinaryIO | None = None,
) -> str:
    """Run a script and return its output. Raises _Refusal with its last words when it fails."""
    argv = ["sh", "-euc", script, "sh", *arguments]
    done: Completed = sandbox.run(ExecSpec(argv=argv, user=user, cwd=cwd), timeout_s=_STEP_S, sink=sink)
    text = done.tail.decode("utf-8", "replace")
    if done.timed_out:
        raise _Refusal(f"{what} took more than {_STEP_S:.0f} s")
    if done.exit_code != 0:
        said = [line.strip() for line in text.splitlines() if line.strip()][-1:] or ["it said nothing"]
        raise _Refusal(clean_reason(f"{what} failed ({said[0][:200]})"))
    return text


def _collect(sandbox: Sandbox) -> Mapping[str, bytes]:
    archive = io.BytesIO()
    _ask(sandbox, _COLLECT, "collecting what was built", sink=archive)
    archive.seek(0)
    try:
        with tarfile.open(fileobj=archive) as members:
            return {
                member.name: file.read()
                for member in members
                if member.isfile() and (file := members.extractfile(member)) is not None
            }
    except tarfile.TarError as error:
        raise _Refusal(f"what was built cannot be read ({error})") from error


def _compare(built: Mapping[str, bytes]) -> tuple[CanaryFile, ...]:
    native, emulated = (
        {name.removeprefix(side): data for name, data in built.items() if name.startswith(side)}
        for side in ("native/", "emulated/")
    )
    if missing := sorted(native.keys() ^ emulated.keys()):
        raise _Refusal(f"only one of the builds made {missing[0]}")
    return tuple(
        CanaryFile(
            name=name,
            size_bytes=len(data),
            sha256=hashlib.sha256(data).hexdigest(),
            likeness=compare_files(data, emulated[name]),
        )
        for name, data in sorted(native.items())
    )


def _judge(files: tuple[CanaryFile, ...]) -> str:
    """Return "" when everything agrees, else the first difference and how many files differ."""
    unlike = [file for file in files if file.likeness.differences]
    if not unlike:
        return "" if files else "nothing was built"
    first = unlike[0]
    more = f"; {len(unlike)} of {len(files)} files differ" if len(unlike) > 1 else ""
    return clean_reason(f"{first.name}: {first.likeness.differences[0]}, native against emulated{more}")


def _read_sources() -> dict[str, bytes]:
    root = Path(__file__).resolve().parent.parent / "resources" / "canaries"
    return {
        str(file.relative_to(root)): file.read_bytes() for file in sorted(root.rglob("*")) if file.is_file()
    }


def _pack(sources: Mapping[str, bytes]) -> str:
    """Return the sources as one word: a compressed archive in Base64."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, data in sources.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return base64.b64encode(packed.getvalue()).decode()
