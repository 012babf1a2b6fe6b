"""Cases that destroy their sandbox, each followed in the same slot by one that must pass."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import pytest
from disks import memory_disk

if TYPE_CHECKING:
    from lab import Run

    from conftest import SandboxLab

pytestmark = pytest.mark.engine

PATIENCE_S = 1200  # for a whole batch in sandboxes

DEADLY = {
    "poison-pid1": "kill -TERM 1; sleep 60",
    "poison-programs": "rm -rf /bin /usr/bin /native",
}
HARMLESS = {
    "poison-workspace": "chown -R builder /workspace; chmod 0 /workspace /workspace/src",
    "poison-links": "cd /workspace; rm -rf cache src; for n in cache src home; do ln -s /nowhere $n; done",
    "builder-leaves": (
        "setsid sh -c 'trap \"\" TERM; while :; do sleep 612; done' > /dev/null 2>&1 &\n"
        "(setsid sh -c '(sleep 612 &)' > /dev/null 2>&1 &)\n"
    ),
}


class Found(NamedTuple):
    lab: "SandboxLab"
    run: "Run"
    cases: dict[str, dict[str, object]]


@pytest.fixture(scope="module")
def batch(make_lab: Callable[[str], "SandboxLab"]) -> Found:
    """One batch on one slot: each poison, and then a case that looks around."""
    lab = make_lab("poisoned")
    verbs = {}
    for name, script in {**DEADLY, **HARMLESS}.items():
        (lab.root / name).write_text(script)
        verbs |= {name.partition("-")[2]: name, f"after-{name.partition('-')[2]}": "look"}
    lab.write_list("poisoned", verbs)
    run = lab.run("--atesor-list", "poisoned", "-n1", timeout_s=PATIENCE_S)
    cases = {case["label"]: case for case in lab.results()["cases"]} if lab.bundles else {}
    return Found(lab, run, cases)


def outcome(found: Found, label: str) -> tuple[object, object, object]:
    case = found.cases[label]
    return case["status"], case["cause"], case["attempts"]


@pytest.mark.parametrize("name", [*DEADLY, *HARMLESS])
def test_the_next_case_in_the_slot_passes(batch: Found, name: str) -> None:
    label = f"after-{name.partition('-')[2]}"
    assert outcome(batch, label) == ("PASS", None, 1), batch.run.out + batch.run.err


@pytest.mark.parametrize(
    ("label", "reason"),
    [("pid1", "the sandbox died while the case ran"), ("programs", "the sandbox starts no more programs")],
    ids=["pid1", "programs"],
)
def test_a_destroyed_sandbox_is_charged_to_the_case_that_did_it(
    batch: Found, label: str, reason: str
) -> None:
    assert outcome(batch, label) == ("FAIL", "environment", 2)
    assert str(batch.cases[label]["reason"]).startswith(reason)


@pytest.mark.parametrize("label", ["workspace", "links", "leaves"])
def test_what_only_harms_the_next_is_nobodys_failure(batch: Found, label: str) -> None:
    assert outcome(batch, label) == ("PASS", None, 1)


def test_nothing_is_left(batch: Found) -> None:
    assert batch.lab.slots()
    assert batch.lab.left() == set()


def test_a_full_disk_is_charged_to_the_case_that_filled_it(make_lab: Callable[[str], "SandboxLab"]) -> None:
    lab = make_lab("full")
    (lab.root / "builder-fills").write_text("cat /dev/zero > /workspace/src/all")
    lab.write_list("full", {"fills": "builder-fills", "after": "look"})
    slots = lab.root / "state" / "slots"
    slots.mkdir(parents=True)
    with memory_disk(slots, "16m"):
        run = lab.run("--atesor-list", "full", "-n1", timeout_s=PATIENCE_S)
    assert lab.bundles, run.out + run.err
    cases = {case["label"]: case for case in lab.results()["cases"]}
    assert (cases["fills"]["status"], cases["fills"]["cause"]) == ("FAIL", "environment"), run.out + run.err
    assert cases["fills"]["reason"].startswith("no space left: 0 MiB are free")
    assert (cases["after"]["status"], cases["after"]["attempts"]) == ("PASS", 1), run.out + run.err
