"""Container names are claimed machine-wide, and what a dead batch left is reaped."""

import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from sandbox_fakes import FakeEngine

from pytest_atesor.control.site import Site
from pytest_atesor.core.plan import Platform
from pytest_atesor.intake.leasing import lease_slots, reap_strays
from pytest_atesor.sandbox.interface import LABEL, Foreign, Present
from pytest_atesor.sandbox.slots import claim_name, lease_slot
from pytest_atesor.work.bench import LEASE_LABEL


@pytest.fixture
def engine() -> FakeEngine:
    # a name of its own: claims are machine-wide, and other tests run beside this one
    return FakeEngine(name=f"fake-{uuid.uuid4()}")


def made_by_a_batch(name: str) -> Present:
    return Present(running=True, image_id="x", labels={LABEL: name, LEASE_LABEL: "/state"})


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
