"""Evidence decides who is to blame, words alone never do."""

import pytest

from pytest_atesor.core.environment import (
    Evidence,
    Judgement,
    SandboxState,
    has_route,
    judge_failure,
    parse_probe,
)
from pytest_atesor.core.outcome import Cause

GIB = 1024**3
HEALTHY = Evidence(state="running", free_bytes=50 * GIB)

FORGED = {
    "docker's words": "Error response from daemon: No such container: x",
    "a full disk": "ld: final link failed: No space left on device",
    "killed": "c++: fatal error: Killed signal terminated program cc1plus",
    "no memory": "cc1: out of memory allocating 65536 bytes",
}


@pytest.mark.parametrize("reason", FORGED.values(), ids=FORGED.keys())
def test_a_build_failure_stays_one_whatever_it_prints(reason: str) -> None:
    assert judge_failure(Cause.BUILD, reason, HEALTHY) is None


@pytest.mark.parametrize("name", ["a full disk", "killed", "no memory"])
def test_a_claim_of_want_without_evidence_is_taken_back(name: str) -> None:
    reason = FORGED[name]
    assert judge_failure(Cause.ENVIRONMENT, reason, HEALTHY) == Judgement(Cause.BUILD, reason)


def test_what_nobody_can_check_stays_the_agent_s_word() -> None:
    assert judge_failure(Cause.ENVIRONMENT, "the mirror answers 503", HEALTHY) is None


PROVEN = {
    "engine gone": (
        Evidence(engine_error="no daemon", state="absent"),
        "the engine does not answer: no daemon",
    ),
    "dead": (Evidence(state="stopped", free_bytes=GIB), "the sandbox died while the case ran"),
    "vanished": (Evidence(state="absent", free_bytes=GIB), "the sandbox vanished while the case ran"),
    "stuck": (Evidence(state="stuck", free_bytes=GIB), "the sandbox starts no more programs"),
    "killed for memory": (
        Evidence(state="running", oom_kills=2, free_bytes=GIB),
        "out of memory: the kernel killed 2 of its processes",
    ),
    "full": (Evidence(state="running", free_bytes=0), "no space left: 0 MiB are free"),
    "no files": (
        Evidence(state="running", free_bytes=50 * GIB, free_files=0),
        "no space left: 0 more files can be made (inodes)",
    ),
}


@pytest.mark.parametrize(("evidence", "words"), PROVEN.values(), ids=PROVEN.keys())
@pytest.mark.parametrize("cause", [Cause.BUILD, Cause.AGENT, Cause.TESTS, None])
def test_evidence_makes_it_the_environment_s(evidence: Evidence, words: str, cause: Cause | None) -> None:
    assert judge_failure(cause, "make: *** Error 1", evidence) == Judgement(
        Cause.ENVIRONMENT, f"{words}; last: make: *** Error 1"
    )


def test_a_claim_of_a_full_disk_holds_where_little_is_free() -> None:
    little = Evidence(state="running", free_bytes=100 * 1024**2)
    judged = judge_failure(Cause.BUILD, FORGED["a full disk"], little)
    assert judged is not None
    assert judged.cause is Cause.ENVIRONMENT
    assert judge_failure(Cause.BUILD, "undefined reference to foo", little) is None


def test_a_claim_of_a_full_disk_holds_where_few_files_can_be_made() -> None:
    few = Evidence(state="running", free_bytes=50 * GIB, free_files=400)
    assert judge_failure(Cause.ENVIRONMENT, FORGED["a full disk"], few) == Judgement(
        Cause.ENVIRONMENT,
        "no space left: 400 more files can be made (inodes); last: ld: final link failed: No space left on "
        "device",
    )
    assert judge_failure(Cause.BUILD, "undefined reference to foo", few) is None


def test_free_space_says_nothing_against_a_quota() -> None:
    assert judge_failure(Cause.ENVIRONMENT, "write: Disk quota exceeded", HEALTHY) is None


def test_a_claim_that_nothing_was_measured_against_stands() -> None:
    unknown = Evidence(state="running", free_bytes=None)
    assert judge_failure(Cause.ENVIRONMENT, FORGED["a full disk"], unknown) is None


@pytest.mark.parametrize("cause", [Cause.SOURCE, Cause.DEPENDENCY])
def test_without_a_network_no_source_is_to_blame(cause: Cause) -> None:
    cut_off = Evidence(state="running", has_network=False)
    judged = judge_failure(cause, "cannot resolve host", cut_off)
    assert judged == Judgement(Cause.ENVIRONMENT, "this machine has no network; last: cannot resolve host")
    assert judge_failure(Cause.BUILD, "x", cut_off) is None
    assert judge_failure(cause, "404", HEALTHY) is None


BOMB = "it used up the processes of its sandbox (--atesor-slot-pids), 7 more were refused"


@pytest.mark.parametrize("state", [SandboxState.RUNNING, SandboxState.STUCK, SandboxState.STOPPED])
@pytest.mark.parametrize("cause", [Cause.ENVIRONMENT, None])
def test_who_uses_up_all_processes_did_it_itself(state: SandboxState, cause: Cause | None) -> None:
    bombed = Evidence(state=state, refused_forks=7, oom_kills=1, free_bytes=GIB)
    assert judge_failure(cause, "cannot fork", bombed) == Judgement(Cause.BUILD, f"{BOMB}; last: cannot fork")
    assert judge_failure(Cause.TESTS, "cannot fork", bombed) is None


def test_an_engine_that_is_gone_outweighs_refused_processes() -> None:
    gone = Evidence(engine_error="no daemon", state=SandboxState.ABSENT, refused_forks=7)
    judged = judge_failure(Cause.BUILD, "cannot fork", gone)
    assert judged is not None
    assert judged.cause is Cause.ENVIRONMENT


def test_counters_that_began_anew_refute_nothing() -> None:
    again = Evidence(state="running", free_bytes=GIB, was_restarted=True)
    assert judge_failure(Cause.ENVIRONMENT, FORGED["no memory"], again) is None


def test_memory_at_its_limit_supports_the_claim() -> None:
    full = Evidence(state="running", free_bytes=GIB, memory_full=True)
    assert judge_failure(Cause.ENVIRONMENT, FORGED["no memory"], full) is None


@pytest.mark.parametrize("cause", [Cause.OUTPUT_LIMIT, Cause.INTERRUPTED])
def test_what_we_did_ourselves_needs_no_evidence(cause: Cause) -> None:
    assert judge_failure(cause, "x", Evidence(state="stopped")) is None


def test_the_kernel_s_lines_become_figures() -> None:
    text = "high 0\nmax 7\noom 1\noom_kill 3\noom_kill_disable 0\nfailcnt 0\nfree 900\nfree 20\nfree -\n"
    figures = parse_probe(f"{text}files 5\nfiles 8\n")
    assert (figures["oom_kill"], figures["max"], figures["free"], figures["files"]) == (3, 7, 20, 5)


HEAD = "Iface\tDestination\tGateway\tFlags\tRefCnt\n"
ETH = "eth0\t00000000\t010200C0\t0003\t0\n"
BRIDGE = "docker0\t000011AC\t00000000\t0001\t0\nbr-5f0123456789\t000012AC\t00000000\t0001\t0\n"
INNER = "".join(
    f"{name}\t000011AC\t00000000\t0001\t0\n"
    for name in ("lo", "veth1a", "virbr0", "cni-podman0", "podman1", "lxdbr0", "docker_gwbridge")
)
UPLINK = "br-lan\t00000000\t0101A8C0\t0003\t0\nbr-lan\t0001A8C0\t00000000\t0001\t0\n"
HASHED = "br-5f0123456789\t00000000\t0101A8C0\t0003\t0\n"
LINK = "{}\t0001A8C0\t00000000\t0001\t0\n"
UNREACHABLE = "*\t00000000\t00000000\t0201\t0\n"
ZERO = "0" * 32
GATEWAY = f"fd{'0' * 29}1"
V6 = f"{ZERO} 00 {ZERO} 00 {GATEWAY} 00000400 00000002 00000000 00000003 eth0\n"
V6_BRIDGE = f"{ZERO} 00 {ZERO} 00 {GATEWAY} 00000400 00000002 00000000 00000003 br-lan\n"
V6_OWN = f"{'0' * 31}1 80 {ZERO} 00 {ZERO} 00000000 00000002 00000000 80200001 lo\n"
V6_NONE = f"{ZERO} 00 {ZERO} 00 {ZERO} ffffffff 00000001 00000000 00200200 lo\n"


@pytest.mark.parametrize(
    ("ipv4", "ipv6", "leads_out"),
    [
        pytest.param(HEAD + ETH + BRIDGE, "", True, id="a card"),
        pytest.param(HEAD + BRIDGE + INNER, V6_OWN + V6_NONE, False, id="bridges only"),
        pytest.param(HEAD + BRIDGE + UPLINK, "", True, id="a bridge with the card in it"),
        pytest.param(HEAD + HASHED, "", True, id="a gateway behind a bridge of any name"),
        pytest.param(HEAD + LINK.format("br-lan"), "", True, id="a bridge's own network"),
        pytest.param(HEAD + LINK.format("lowpan0"), "", True, id="a card's own network"),
        pytest.param(HEAD + UNREACHABLE, V6_NONE, False, id="refused"),
        pytest.param(HEAD, V6, True, id="version 6 only"),
        pytest.param(HEAD, V6_BRIDGE, True, id="version 6 over a bridge"),
        pytest.param(HEAD, "", False, id="nothing"),
    ],
)
def test_only_a_route_off_this_machine_is_a_network(ipv4: str, ipv6: str, *, leads_out: bool) -> None:
    assert has_route(ipv4, ipv6) is leads_out
