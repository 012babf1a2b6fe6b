"""A lab on a real engine: agents that do what went wrong in public reports, inside a sandbox."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_atesor.core.plan import Platform
from pytest_atesor.errors import SetupError
from pytest_atesor.sandbox.engines.host import HostEngine
from pytest_atesor.sandbox.image import ensure_image
from pytest_atesor.sandbox.interface import Absent, Engine, Foreign, Present
from pytest_atesor.sandbox.select import select_engine
from pytest_atesor.sandbox.slots import state_directory
from pytest_atesor.work.bench import LEASE_LABEL

sys.path.insert(0, str(Path(__file__).parents[1] / "plugin"))

from lab import Lab, batches_alone

AGENT = r"""#!/bin/bash
while [ $# -gt 0 ]; do
    case "$1" in
        --repo) url=$2; shift ;;
        --container) slot=$2; shift ;;
    esac
    shift
done
name=${url##*/}; rest=${url%/*}; verb=${rest##*/}
as() { if [ "$ATESOR_ENGINE" = host ]; then ./host exec "$slot" "$1" "$2"
    else "$ATESOR_ENGINE" exec --user "$1" "$slot" sh -c "$2"; fi; }
inside() { as builder "$1"; }
kill_sandbox() {  # and see it end: until then it may still run what comes next
    if [ "$ATESOR_ENGINE" = host ]; then ./host kill "$slot"
    else "$ATESOR_ENGINE" kill "$slot" > /dev/null; "$ATESOR_ENGINE" wait "$slot" > /dev/null; fi; }
echo "start $name $slot" >> events
case "$verb" in
    pass) inside true ;;
    after-go) until grep -qsx "end go" events; do sleep 0.05; done ;;
    leave)  # the client dies with us, what runs inside does not
        inside 'setsid sh -c "trap \"\" TERM; while :; do sleep 611; done" &
            trap "" TERM; exec sleep 612' ;;
    look)  # passes only when nothing of an earlier case runs
        inside true || exit 1
        ! inside 'cat /proc/[0-9]*/cmdline' | tr '\0' ' ' | grep -E 'sleep 61[12]|acquire' ;;
    stall)  # an emulated program that waits for itself, and uses no processor
        lock='import threading as t; l = t.Lock(); l.acquire(); print(1, flush=True); l.acquire()'
        inside "exec python3 -c '$lock'" ;;
    die) kill_sandbox; inside true ;;
    die-once) [ "${ATESOR_ATTEMPT_DIR##*/}" = 001 ] || exit 0
        kill_sandbox; inside true ;;
    memory) inside 'tail /dev/zero'; code=$?; echo "the build failed"; exit $code ;;
    says-daemon) echo "Error response from daemon: No such container: $slot"; exit 1 ;;
    says-space) echo "ld: final link failed: No space left on device"; exit 1 ;;
    says-memory) echo "c++: fatal error: Killed signal terminated program cc1plus"; exit 1 ;;
    bomb) inside 'while :; do sleep 614 & done'
        echo '{"schema_version": "result_v1", "cause": "environment", "reason": "no program starts"}' \
            > "$ATESOR_ATTEMPT_DIR/result.json"; exit 1 ;;
    exit-137) inside 'exit 137' ;;
    hang) inside 'exec sleep 613' ;;
    poison-*) as root "$(cat "$verb")"; inside true ;;
    builder-*) inside "$(cat "$verb")" ;;
esac
"""

# What the clients of docker and podman are for agents, for sandboxes without an engine.
HOST_CLIENT = f"""#!{sys.executable}
import os, signal, sys, time
from pathlib import Path
from pytest_atesor.sandbox.engines.host import HostEngine
from pytest_atesor.sandbox.interface import ExecSpec
engine = HostEngine(Path(os.environ["ATESOR_STATE_DIR"]))
verb, slot, *rest = sys.argv[1:]
if verb == "kill":
    os.kill(engine.state(slot).pid, signal.SIGKILL)
    while engine.state(slot).running:
        time.sleep(0.1)
else:
    argv = engine.exec_argv(slot, ExecSpec(argv=["sh", "-c", rest[1]], user=rest[0]))
    os.execvp(argv[0], argv)
"""


@pytest.fixture(scope="session", params=["docker", "podman", "host"])
def engine(request: pytest.FixtureRequest) -> Engine:
    try:
        found = select_engine(request.param)
    except SetupError as error:
        pytest.skip(f"no {request.param} here: {error}")
    ensure_image(found, Platform.DEBIAN, state=state_directory(os.environ), progress=print)
    return found


def share_images(state: Path) -> HostEngine:
    """Return the engine of another state directory with the images of this user's: each takes a minute."""
    own = state_directory(os.environ) / "host"
    (state / "host").mkdir(parents=True, mode=0o700)
    for name in ("images", "tags"):
        (state / "host" / name).symlink_to(own / name)
    return HostEngine(state)


class SandboxLab(Lab):
    """A lab whose cases run in sandboxes of an engine."""

    def __init__(self, root: Path, engine: Engine) -> None:
        super().__init__(root)
        self.engine = engine
        (root / "agent").write_text(AGENT)
        if engine.name == "host":
            self.engine = share_images(root / "state")
            (root / "host").write_text(HOST_CLIENT)
            (root / "host").chmod(0o755)

    def environment(self, **more: str) -> dict[str, str]:
        return super().environment(**{"ATESOR_ENGINE": self.engine.name, **more})

    def slots(self) -> set[str]:
        """Return the containers that the cases of all batches ran in."""
        return {line.split()[2] for line in self.events() if line.startswith("start ")}

    def left(self) -> set[str]:
        """Return which of their containers still exist; the name may be another batch's by now."""
        there = self.slots() & set(self.engine.list_sandboxes())
        return {name for name in there if self._owns(self.engine.state(name))}

    def _owns(self, found: Absent | Foreign | Present) -> bool:
        return isinstance(found, Present) and found.labels.get(LEASE_LABEL) == str(self.root / "state")


LabFactory = Callable[[str], SandboxLab]


@pytest.fixture(scope="module", autouse=True)
def alone() -> Iterator[None]:
    """Let no other module's batches start meanwhile: they would remove what a killed one left behind."""
    with batches_alone():
        yield


@pytest.fixture(scope="module")
def make_lab(tmp_path_factory: pytest.TempPathFactory, engine: Engine) -> Iterator[LabFactory]:
    labs: list[SandboxLab] = []

    def make(name: str) -> SandboxLab:
        labs.append(SandboxLab(tmp_path_factory.mktemp(name) / "root", engine))
        return labs[-1]

    yield make
    for lab in labs:
        for name in lab.left():
            lab.engine.remove(name)
