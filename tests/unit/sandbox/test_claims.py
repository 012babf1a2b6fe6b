"""Container names are claimed machine-wide, and what a dead batch left is reaped."""

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from filelock import FileLock
from sandbox_fakes import FakeEngine

from pytest_atesor.control.site import Site
from pytest_atesor.core.plan import Platform
from pytest_atesor.intake.leasing import lease_slots, reap_strays
from pytest_atesor.sandbox.interface import LABEL, Foreign, Present
from pytest_atesor.sandbox.slots import claim_name, lease_slot, network_namespace, slot_directory
from pytest_atesor.work.bench import LEASE_LABEL, NETWORK_LABEL


@pytest.fixture
def engine() -> FakeEngine:
    # a name of its own: claims are machine-wide, and other tests run beside this one
    return FakeEngine(name=f"fake-{uuid.uuid4()}")


def made_by_a_batch(name: str, state: object = "/state", **more: str) -> Present:
    labels = {LABEL: name, LEASE_LABEL: str(state), **more}
    return Present(running=True, image_id="x", labels=labels)


ELSEWHERE = {NETWORK_LABEL: "net:[1]"}
HERE = {NETWORK_LABEL: network_namespace()}
W1 = "atesor-ai-sandbox-debian-w1"


@contextmanager
def leased_elsewhere(state: Path) -> Iterator[None]:
    """Hold the lock of the first slot as a batch in another network namespace does: its claim is not seen."""
    directory = slot_directory(state, W1)
    directory.mkdir(parents=True)
    with FileLock(directory / "lock", is_singleton=False):
        yield


def test_two_state_directories_never_lease_one_name(tmp_path: Path, engine: FakeEngine) -> None:
    first = lease_slot(tmp_path / "one", Platform.DEBIAN, engine=engine.name)
    second = lease_slot(tmp_path / "two", Platform.DEBIAN, engine=engine.name)
    assert (first.number, second.number) == (1, 2)
    first.release()
    third = lease_slot(tmp_path / "three", Platform.DEBIAN, engine=engine.name)
    assert third.number == 1
    second.release()
    third.release()


def test_without_an_engine_state_directories_are_apart(tmp_path: Path) -> None:
    with (
        lease_slot(tmp_path / "one", Platform.DEBIAN) as first,
        lease_slot(tmp_path / "two", Platform.DEBIAN) as second,
    ):
        assert first.number == second.number == 1


HOLDING = """
import sys
from pytest_atesor.sandbox.slots import holding_claim
with holding_claim(sys.argv[1], 'box', lambda: print("waits", flush=True)):
    print("holds", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("is_killed", [False, True], ids=["given-back", "killed"])
def test_who_waits_for_a_claim_gets_it_when_it_is_free(engine: FakeEngine, *, is_killed: bool) -> None:
    command = [sys.executable, "-c", HOLDING, engine.name]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as first,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as second,
    ):
        pair = {first, second}
        said = {one: one.stdout.readline() if one.stdout else "" for one in pair}
        assert sorted(said.values()) == ["holds\n", "waits\n"]
        (holder,) = (one for one in pair if said[one] == "holds\n")
        (waiter,) = pair - {holder}
        if is_killed:
            holder.kill()
        elif holder.stdin is not None:
            holder.stdin.close()
        assert waiter.stdout is not None
        assert waiter.stdout.readline() == "holds\n"


def test_the_death_of_its_process_frees_a_claim(engine: FakeEngine) -> None:
    script = (
        "import sys; from pytest_atesor.sandbox.slots import claim_name\n"
        "claim = claim_name(sys.argv[1], 'box'); print(claim is not None, flush=True); sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, engine.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        assert claim_name(engine.name, "box") is None
        process.kill()
    claim = claim_name(engine.name, "box")
    assert claim is not None
    claim.close()


def test_only_unheld_sandboxes_of_batches_are_reaped(engine: FakeEngine) -> None:
    engine.containers.update({
        "held": made_by_a_batch("held"),
        "stray": made_by_a_batch("stray"),
        "by-hand": Present(running=True, image_id="x", labels={LABEL: "by-hand"}),
        "foreign": Foreign(),
    })
    claim = claim_name(engine.name, "held")
    assert claim is not None
    with claim:
        assert reap_strays(engine) == ("stray",)
    assert set(engine.containers) == {"held", "by-hand", "foreign"}


def test_leased_slots_are_emptied(tmp_path: Path, engine: FakeEngine) -> None:
    name = "atesor-ai-sandbox-debian-w1"
    engine.containers[name] = made_by_a_batch(name)
    engine.containers["atesor-ai-sandbox-debian-w2"] = Foreign()
    # the fake's remove() fails where nothing stands, so the third slot needs something to remove
    engine.containers["atesor-ai-sandbox-debian-w3"] = made_by_a_batch("atesor-ai-sandbox-debian-w3")
    berths = lease_slots(tmp_path, Platform.DEBIAN, [Site(engine=engine, slots=2)])
    assert [berth.lease.number for berth in berths] == [1, 3]
    assert set(engine.containers) == {"atesor-ai-sandbox-debian-w2"}
    for berth in berths:
        berth.lease.release()


def test_slots_of_several_machines_are_one_row_of_numbers(tmp_path: Path) -> None:
    sites = [Site(engine=None, slots=slots, machine=name) for name, slots in (("a", 2), ("b", 1))]
    berths = lease_slots(tmp_path, Platform.DEBIAN, sites)
    assert [(berth.lease.number, berth.site.machine) for berth in berths] == [(1, "a"), (2, "a"), (3, "b")]
    for berth in berths:
        berth.lease.release()


def test_a_batch_in_another_network_namespace_keeps_its_sandboxes(tmp_path: Path, engine: FakeEngine) -> None:
    engine.containers[W1] = made_by_a_batch(W1, tmp_path, **ELSEWHERE)
    with leased_elsewhere(tmp_path):
        assert reap_strays(engine) == ()
    assert reap_strays(engine) == (W1,)


def test_the_slot_of_a_sandbox_that_is_reaped_is_held_meanwhile(tmp_path: Path, engine: FakeEngine) -> None:
    found = made_by_a_batch(W1, tmp_path, **ELSEWHERE)
    lease_slot(tmp_path, Platform.DEBIAN).release()
    seen = []

    class Watching(FakeEngine):
        def remove(self, name: str) -> None:
            with lease_slot(tmp_path, Platform.DEBIAN) as other:
                seen.append(other.number)
            super().remove(name)

    watching = Watching(name=engine.name, containers={W1: found})
    assert reap_strays(watching) == (W1,)
    assert seen == [2]


@pytest.mark.parametrize(
    ("network", "reaped"),
    [
        pytest.param(HERE, (W1,), id="here"),
        pytest.param({}, (W1,), id="before-there-was-a-label"),
        pytest.param(ELSEWHERE, (), id="elsewhere"),
    ],
)
def test_a_sandbox_whose_state_directory_is_not_seen_is_reaped_where_its_claim_would_be(
    tmp_path: Path, engine: FakeEngine, network: dict[str, str], reaped: tuple[str, ...]
) -> None:
    engine.containers[W1] = made_by_a_batch(W1, tmp_path / "deleted", **network)
    assert reap_strays(engine) == reaped
    assert not (tmp_path / "deleted").exists()


def test_a_number_whose_sandbox_may_be_in_use_elsewhere_is_skipped(
    tmp_path: Path, engine: FakeEngine
) -> None:
    engine.containers[W1] = made_by_a_batch(W1, tmp_path / "theirs", **ELSEWHERE)
    sites = [Site(engine=engine, slots=1)]
    with leased_elsewhere(tmp_path / "theirs"):
        (berth,) = lease_slots(tmp_path / "ours", Platform.DEBIAN, sites)
    assert berth.lease.number == 2
    berth.lease.release()
    assert set(engine.containers) == {W1}
    (berth,) = lease_slots(tmp_path / "ours", Platform.DEBIAN, sites)
    assert berth.lease.number == 1
    berth.lease.release()
    assert not engine.containers


def test_a_batch_takes_its_own_state_directory_s_slot_whoever_made_the_sandbox(
    tmp_path: Path, engine: FakeEngine
) -> None:
    engine.containers[W1] = made_by_a_batch(W1, tmp_path, **ELSEWHERE)
    (berth,) = lease_slots(tmp_path, Platform.DEBIAN, [Site(engine=engine, slots=1)])
    assert berth.lease.number == 1
    berth.lease.release()


CLAIMING = """
import os, sys
from pytest_atesor.sandbox.slots import claim_name, network_namespace
claim = claim_name(sys.argv[1], "box")
print(claim is not None, network_namespace(), flush=True)
"""


def test_the_network_namespace_tells_where_claims_are_seen(engine: FakeEngine) -> None:
    own = [] if os.geteuid() == 0 else ["--user"]
    apart = ["unshare", *own, "--net"]
    if subprocess.run([*apart, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("needs a network namespace of its own")
    claim = claim_name(engine.name, "box")
    assert claim is not None
    command = [sys.executable, "-c", CLAIMING, engine.name]
    with claim:
        near, far = (
            subprocess.run([*prefix, *command], capture_output=True, text=True, check=True).stdout.split()
            for prefix in ([], apart)
        )
    assert near == ["False", network_namespace()]
    assert far[0] == "True"
    assert far[1] != network_namespace()
