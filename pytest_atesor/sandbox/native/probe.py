"""What a machine says of itself in one call, and what of it keeps it from being a native target. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pytest_atesor.core.text import sanitize_line
from pytest_atesor.sandbox.native.settings import DEFAULT_WORKDIR, NativeSettings

__all__ = [
    "PROBE",
    "SIZE",
    "Machine",
    "Problem",
    "decide_workers",
    "find_problems",
    "find_twins",
    "format_machine",
    "parse_machine",
    "parse_size",
    "share_workers",
]

_GB: Final = 1_000_000_000
_GIB_KB: Final = 1024 * 1024
_EACH_BYTES: Final = 10 * _GB
_CLOCK_S: Final = 300
_OLDEST_PODMAN: Final = 4
_LEAST_IDS: Final = 65_536
_MEMORY_PER_WORKER_GIB: Final = 4
_VALUE_CHARACTERS: Final = 300

PROBE: Final = "probe.sh"
"""The script of :mod:`pytest_atesor.resources` that asks; its argument is the work directory."""


SIZE: Final = "nproc; sed -n 's/^MemTotal: *\\([0-9]*\\) kB$/\\1/p' /proc/meminfo"
"""The script that asks for cores and kB of memory alone."""


class Problem(NamedTuple):
    """Something that keeps a machine from being a target, and the command that mends it.

    ``machine`` is its name; without one, it is this machine or the settings.
    """

    text: str
    fix: str
    machine: str = ""

    @property
    def line(self) -> str:
        """What is wrong, and where."""
        return f"{self.machine}: {self.text}" if self.machine else self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What is known of the machine. ``virtual`` names its hypervisor, "" for real hardware."""

    architecture: str
    kernel: str
    model: str
    virtual: str
    cores: int
    memory_kb: int
    podman: str
    rootless: bool
    home: str
    work: str
    facts: Mapping[str, str]

    @property
    def workers(self) -> int:
        """How many cases it can hold at once."""
        return decide_workers(self.cores, self.memory_kb)


def decide_workers(cores: int, memory_kb: int) -> int:
    """Return how many cases a machine can hold: one per core and per 4 GiB of memory, at least one."""
    # Firmware and kernel keep some megabytes for themselves: 16 GiB are sold, 15.6 are seen.
    gib = round(memory_kb / _GIB_KB)
    return max(1, min(cores, gib // _MEMORY_PER_WORKER_GIB))


def share_workers(count: int, machines: Sequence[Machine]) -> tuple[int, ...]:
    """Return how many of ``count`` workers each machine gets: up to what it holds, then up to its cores.

    The next one goes where the least part of the room is taken. More than all cores together go nowhere.
    """
    shares = [0] * len(machines)
    for rooms in ([one.workers for one in machines], [one.cores for one in machines]):
        while sum(shares) < min(count, sum(rooms)):
            free = [index for index, room in enumerate(rooms) if shares[index] < room]
            shares[min(free, key=lambda index: (shares[index] + 1) / rooms[index])] += 1
    return tuple(shares)


def find_twins(machines: Sequence[tuple[str, Machine]]) -> tuple[Problem, ...]:
    """Return a problem for each machine that has two names: its slots would count twice."""
    first: dict[str, str] = {}
    twins = []
    for name, machine in machines:
        boot = machine.facts.get("boot", "")
        if boot and boot in first:
            twins.append(
                Problem(f"it is the same machine as {first[boot]}", "name it once in ATESOR_SSH_HOST", name)
            )
        first.setdefault(boot, name)
    return tuple(twins)


def parse_size(text: str) -> int | None:
    """Return how many cases a machine can hold by its answer to :data:`SIZE`, None when that is no answer."""
    words = text.split()
    cores, memory = words[-2:] if len(words) > 1 else ("", "")
    if not (cores.isdecimal() and memory.isdecimal() and int(cores) and int(memory)):
        return None
    return decide_workers(int(cores), int(memory))


def parse_machine(text: str) -> Machine | None:
    """Return what the probe printed, None when it did not run or says no word about cores and memory."""
    facts: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and name.isidentifier():
            facts[name] = sanitize_line(value.strip(), _VALUE_CHARACTERS)
    cores, memory = _number(facts, "cores"), _number(facts, "memory_kb")
    if "probe" not in facts or cores < 1 or memory < 1:
        return None
    virtual = facts.get("virtual", "")
    return Machine(
        architecture=facts.get("architecture", ""),
        kernel=facts.get("kernel", ""),
        model=facts.get("model", ""),
        virtual="" if virtual == "none" else virtual,
        cores=cores,
        memory_kb=memory,
        podman=facts.get("podman", "").rpartition(" ")[2],
        rootless=facts.get("rootless") == "true",
        home=facts.get("home", ""),
        work=facts.get("work", ""),
        facts=facts,
    )


def format_machine(machine: Machine) -> str:
    """Return one line about the machine, for headers and reports; a virtual one is named as such."""
    kind = f"virtual machine ({machine.virtual})" if machine.virtual else "real hardware"
    model = f"{machine.model}, " if machine.model else ""
    memory = machine.memory_kb / _GIB_KB
    return (
        f"{model}{machine.architecture}, {kind}, {machine.cores} cores, {memory:.1f} GiB, "
        f"Linux {machine.kernel}, podman {machine.podman or 'absent'}"
    )


def find_problems(machine: Machine, settings: NativeSettings, *, now_s: float) -> tuple[Problem, ...]:
    """Return everything that is in the way, in the order in which it is best mended."""
    return (
        *_machine_problems(machine, settings, now_s),
        *_podman_problems(machine, settings),
        *_place_problems(machine, settings),
    )


def _machine_problems(machine: Machine, settings: NativeSettings, now_s: float) -> Iterable[Problem]:
    if machine.architecture != "riscv64" and "architecture" not in settings.allowed:
        yield Problem(
            f"the machine is {machine.architecture or 'of an unknown architecture'}, not riscv64",
            "name a riscv64 machine in ATESOR_SSH_HOST",
        )
    if machine.virtual and "virtual" not in settings.allowed:
        yield Problem(
            f"the machine is virtual ({machine.virtual}): its results are no native results",
            "name real hardware in ATESOR_SSH_HOST, or for tests: export ATESOR_NATIVE_ALLOW=virtual",
        )
    if _number(machine.facts, "uid") == 0 and "root" not in settings.allowed:
        yield Problem(
            "the login is root's: builds of strangers belong to an ordinary user",
            "name an ordinary user: export ATESOR_SSH_USER=NAME",
        )
    skew = _number(machine.facts, "clock") - now_s
    if abs(skew) > _CLOCK_S:
        way = "ahead" if skew > 0 else "behind"
        yield Problem(f"its clock is {abs(skew):.0f} s {way}", "sudo timedatectl set-ntp true")
    for program, package in (
        ("rsync", "rsync"),
        ("timeout", "coreutils"),
        ("flock", "util-linux"),
        ("tar", "tar"),
    ):
        if f"has_{program}" not in machine.facts:
            yield Problem(f"{program} is not installed there", f"sudo apt-get install {package}")


def _podman_problems(machine: Machine, settings: NativeSettings) -> Iterable[Problem]:
    facts = machine.facts
    if "has_podman" not in facts:
        yield Problem("podman is not installed there", "sudo apt-get install podman uidmap passt")
        return
    if _number({"major": machine.podman.partition(".")[0]}, "major") < _OLDEST_PODMAN:
        yield Problem(
            f"podman {machine.podman or '(unknown)'} is older than {_OLDEST_PODMAN}",
            "upgrade the distribution, then: sudo apt-get install podman",
        )
    is_root = _number(facts, "uid") == 0 and "root" in settings.allowed
    user = facts.get("user", "USER")
    if not is_root:
        for kind, option in (("subuid", "--add-subuids"), ("subgid", "--add-subgids")):
            if (
                max((int(one) for one in facts.get(kind, "").split() if one.isdigit()), default=0)
                < _LEAST_IDS
            ):
                yield Problem(
                    f"{user} has no range of {_LEAST_IDS} ids in /etc/{kind}",
                    f"sudo usermod {option} 100000-165535 {user}",
                )
        if "has_newuidmap" not in facts or "has_newgidmap" not in facts:
            yield Problem("newuidmap is not installed there", "sudo apt-get install uidmap")
    if "podman_error" in facts:
        yield Problem(f"podman does not work there ({facts['podman_error']})", "podman system migrate")
    elif not machine.rootless and not is_root:
        yield Problem("podman runs as root there", "name an ordinary user: export ATESOR_SSH_USER=NAME")


def _place_problems(machine: Machine, settings: NativeSettings) -> Iterable[Problem]:
    facts = machine.facts
    home, work = machine.home, machine.work
    if not work or "is_writable" not in facts:
        yield Problem(
            f"the work directory {work or settings.workdir} cannot be made or written there",
            f"export ATESOR_REMOTE_WORKDIR={DEFAULT_WORKDIR}",
        )
    elif home == work or home.startswith(f"{work.rstrip('/')}/") or f"{work}/".startswith(f"{home}/.ssh/"):
        yield Problem(
            f"the work directory {work} is the home itself, a parent of it or inside ~/.ssh",
            f"export ATESOR_REMOTE_WORKDIR={DEFAULT_WORKDIR}",
        )
    shared = facts.get("work_device") == facts.get("store_device") and "store_device" in facts
    needed = 2 * _EACH_BYTES if shared else _EACH_BYTES
    places = {"work": work, "store": facts.get("storage", "podman's storage")}
    for name in ("work",) if shared else ("work", "store"):
        free = _number(facts, f"{name}_free_kb") * 1024
        if f"{name}_free_kb" in facts and free < needed:
            yield Problem(
                f"{free / _GB:.1f} GB are free in {places[name]}, {needed // _GB} GB are needed",
                "podman image prune --all",
            )


def _number(facts: Mapping[str, str], name: str) -> int:
    text = facts.get(name, "")
    return int(text) if text.isdecimal() and len(text) < 19 else -1  # noqa: PLR2004 - more is no number of ours
