"""What a sandbox says of the products made in it: are their libraries there, do the programs start.

This is evidence beside the verdict and decides nothing: a plugin may need what only its host loads, a daemon
may refuse every option. Programs run as the builder without the network, after the products were kept.
"""

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum, unique
from pathlib import PurePosixPath

from pytest_atesor.core.text import sanitize_line
from pytest_atesor.errors import SandboxError
from pytest_atesor.porter.builders.shared import quote, words
from pytest_atesor.porter.scan import Artifact
from pytest_atesor.porter.shell import Shell
from pytest_atesor.porter.workplace import HOME
from pytest_atesor.sandbox.interface import Completed, ExecSpec

__all__ = ["MOST_S", "Proof", "Start", "StartStatus", "describe_proofs", "gather_proofs"]

_MOST_LISTED = 40
_MOST_STARTED = 4
_MOST_PLACES = 40
_LONGEST_PATH = 1000
_LIST_S = 60.0
MOST_S = 45.0
"""How many seconds evidence may take by itself."""
_START_S = 10
_GRACE_S = 20.0
_ARGUMENTS = ("--version", "--help")
_CANNOT_START = frozenset({126, 127})
_TIMED_OUT = 124
_SIGNALS = 128
_MARK = "@atesor-file "
_GLIBC = re.compile(r"^\s*(?P<name>\S+) => not found$", re.MULTILINE)
_MUSL = re.compile(r"Error loading shared library (?P<name>[^\s:]+):")


@unique
class StartStatus(StrEnum):
    """How a program took ``--version`` or ``--help``: it ended, goes on, died of a signal, never began."""

    STARTED = "started"
    RUNNING = "running"
    CRASHED = "crashed"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One program's start; ``exit_code`` is 128 + n for signal n, None while it runs on."""

    argument: str
    status: StartStatus
    exit_code: int | None
    said: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What is known of one product. ``missing`` are needed libraries that are not there, None for unasked."""

    missing: tuple[str, ...] | None = None
    start: Start | None = None


def gather_proofs(
    shell: Shell, artifacts: Sequence[Artifact], *, budget_s: float = MOST_S
) -> dict[str, Proof]:
    """Return SHA-256 to proof for the first products, in their order; {} when the sandbox does not answer.

    No program is started any more when ``budget_s`` seconds have passed.
    """
    give_up = time.monotonic() + budget_s
    asked = [one for one in artifacts if _is_askable(one)]
    places = _library_places(asked)
    proofs: dict[str, Proof] = {}
    try:
        shell.set_network(enabled=False)
        dynamic = [one for one in asked if one.facts.needed][:_MOST_LISTED]
        limit_s = min(_LIST_S, max(_START_S, budget_s))
        missing = _ask_loader(shell, dynamic, places, limit_s) if dynamic else {}
        programs = [one for one in asked if one.type == "executable"][:_MOST_STARTED]
        starts: dict[str, Start] = {}
        for one in programs:
            if time.monotonic() < give_up:
                starts[one.sha256] = _start(shell, one, places)
        shell.end_builders()
    except SandboxError:
        return {}
    for one in asked:
        found = missing.get(one.sha256) if one.facts.needed else ()
        if found is not None or one.sha256 in starts:
            proofs[one.sha256] = Proof(missing=found, start=starts.get(one.sha256))
    return proofs


def describe_proofs(artifacts: Iterable[Artifact], proofs: Mapping[str, Proof]) -> list[str]:
    """Return a line for what a reader should know before using a product."""
    lines = []
    for one in artifacts:
        proof = proofs.get(one.sha256, Proof())
        if proof.missing:
            lines.append(f"needs libraries that the sandbox lacks ({', '.join(proof.missing)}): {one.path}")
        start = proof.start
        if start is not None and start.status in {StartStatus.CRASHED, StartStatus.REFUSED}:
            lines.append(
                f"{start.status.value} when started with {start.argument} (exit code "
                f"{start.exit_code}): {one.path}"
            )
    return lines


def _is_askable(artifact: Artifact) -> bool:
    return artifact.type != "static archive" and len(artifact.path) <= _LONGEST_PATH


def _library_places(artifacts: Iterable[Artifact]) -> str:
    """Return the directories of the shared objects that were built, as the loader's search path."""
    shared = (one for one in artifacts if one.type == "shared object" and ":" not in one.path)
    places = dict.fromkeys(f"/workspace/{PurePosixPath(one.path).parent}" for one in shared)
    return ":".join(list(places)[:_MOST_PLACES])


def _plan_question(files: Iterable[str], places: str) -> str:
    """Return the script that asks the loader about each of ``files``."""
    # glibc's gives up at the first missing library when asked by --list; musl's knows nothing else.
    ask = f"timeout 10 env LD_LIBRARY_PATH={quote(places)} LD_TRACE_LOADED_OBJECTS=1 $loader $option"
    return f"""
loader=/lib/ld-linux-riscv64-lp64d.so.1; option=
[ -x $loader ] || {{ loader=/lib/ld-musl-riscv64.so.1; option=--list; }}
number=0
for one in{words(files)}; do
  said=$({ask} "$one" 2>&1 | head -c 60000 | tr -d '\\000' || :)
  case $said in *'(0x'*|*'=>'*|*'Error loading'*) echo "{_MARK}$number";; esac
  printf '%s\\n' "$said" | grep -aE '=> not found|Error loading shared library' | head -n 40 || :
  number=$((number + 1))
done
"""


def _ask_loader(
    shell: Shell, artifacts: Sequence[Artifact], places: str, limit_s: float
) -> dict[str, tuple[str, ...]]:
    script = _plan_question((f"/workspace/{one.path}" for one in artifacts), places)
    done = shell.script(script, timeout_s=limit_s)
    answers: dict[str, tuple[str, ...]] = {}
    for part in done.tail.decode("utf-8", "replace").split(_MARK)[1:]:
        number, _, said = part.partition("\n")
        if number.isdecimal() and int(number) < len(artifacts):
            names = [one["name"] for pattern in (_GLIBC, _MUSL) for one in pattern.finditer(said)]
            answers[artifacts[int(number)].sha256] = tuple(
                dict.fromkeys(sanitize_line(name, 200) for name in names)
            )
    return answers


def _start(shell: Shell, artifact: Artifact, places: str) -> Start:
    """Start one program with each argument until one ends well; return how the best start went."""
    starts: list[Start] = []
    for argument in _ARGUMENTS:
        command = ExecSpec(
            argv=["timeout", "-k", "2", str(_START_S), f"/workspace/{artifact.path}", argument],
            cwd=HOME,
            env={"HOME": HOME, "LC_ALL": "C.UTF-8", "TERM": "dumb", "LD_LIBRARY_PATH": places},
        )
        limit_s = min(_START_S + _GRACE_S, shell.remaining_s())
        starts.append(_judge(argument, shell.sandbox.run(command, timeout_s=limit_s)))
        if starts[-1].exit_code == 0 or starts[-1].status is StartStatus.RUNNING:
            break
    return min(starts, key=lambda one: (one.exit_code != 0, list(StartStatus).index(one.status)))


def _judge(argument: str, done: Completed) -> Start:
    code = done.exit_code
    if done.timed_out or code == _TIMED_OUT:
        status = StartStatus.RUNNING
    elif code in _CANNOT_START:
        status = StartStatus.REFUSED
    else:
        status = StartStatus.CRASHED if code > _SIGNALS else StartStatus.STARTED
    lines = [line for line in done.tail.decode("utf-8", "replace").splitlines() if line.strip()]
    return Start(
        argument=argument,
        status=status,
        exit_code=None if status is StartStatus.RUNNING else code,
        said=sanitize_line(lines[0], 200) if lines else "",
    )
