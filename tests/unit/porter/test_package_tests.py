from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pytest_atesor.core.outcome import Cause, Verdict
from pytest_atesor.errors import SandboxError
from pytest_atesor.porter.builders.interface import BuildOptions, Suite
from pytest_atesor.porter.counts import Counts
from pytest_atesor.porter.detect import detect
from pytest_atesor.porter.package_tests import (
    SuitePlace,
    SuiteResult,
    SuiteStatus,
    decide_budget_s,
    describe_suite,
    gate,
    run_suites,
    skip_suites,
)
from pytest_atesor.porter.shell import Shell
from pytest_atesor.porter.tree import Tree
from pytest_atesor.porter.verdict import Outcome
from pytest_atesor.sandbox.interface import Completed, ExecSpec
from tests.unit.porter.fake_sandbox import FakeSandbox

_CHECK = Suite(framework="make", command="make check", probe="grep check", script="make -k check")
_TEST = Suite(framework="make", command="make test", probe="grep test", script="make -k test")
_CTEST = Suite(framework="ctest", command="ctest", prepare="cmake --build b", script="ctest --test-dir b")
_VERIFIED = Outcome(verdict=Verdict.VERIFIED, cause=None, reason="", exit_code=0)

Answers = list[tuple[str, list[tuple[int, bytes]]]]


def _run(sandbox: FakeSandbox, suites: Sequence[Suite], out: Path) -> SuiteResult:
    with out.open("wb") as output:
        shell = Shell(sandbox, deadline=None, output=output)
        return run_suites(
            suites,
            SuitePlace(shell=shell, cwd="/workspace/build/p", environment={"HOME": "/h"}),
            budget_s=60.0,
        )


@pytest.mark.parametrize(
    ("suite", "answers", "status", "counts"),
    [
        pytest.param(_CHECK, [(r"-k check", [(0, b"# PASS: 3\n")])], "passed", Counts(passed=3), id="passed"),
        pytest.param(_CHECK, [(r"-k check", [(2, b"# FAIL: 1\n")])], "failed", Counts(failed=1), id="failed"),
        pytest.param(_CHECK, [(r"-k check", [(2, b"Segmentation fault\n")])], "failed", None, id="no-counts"),
        pytest.param(
            _CHECK, [(r"-k check", [(0, b"# FAIL: 1\n")])], "failed", Counts(failed=1), id="exit-0-is-no-pass"
        ),
        pytest.param(
            _CHECK, [(r"-k check", [(0, b"# TOTAL: 0\n# PASS: 0\n")])], "none", Counts(), id="empty"
        ),
        pytest.param(
            _CHECK,
            [(r"-k check", [(0, b"make: Nothing to be done for 'check'.\n")])],
            "none",
            None,
            id="idle",
        ),
        pytest.param(_CTEST, [(r"cmake", [(1, b"no gtest\n")])], "error", None, id="not-built"),
        pytest.param(_CTEST, [(r"ctest", [(8, b"No tests were found!!!\n")])], "none", None, id="ctest-none"),
    ],
)
def test_how_tests_ended_is_told_from_exit_code_and_summary(
    tmp_path: Path, suite: Suite, answers: Answers, status: str, counts: Counts | None
) -> None:
    result = _run(FakeSandbox(answers), (suite,), tmp_path / "out")
    assert (result.status, result.counts, result.suite) == (status, counts, suite)


def test_the_first_goal_that_the_tree_has_is_run_as_the_builder_without_network(tmp_path: Path) -> None:
    sandbox = FakeSandbox([("grep check", [(1, b"")]), ("-k test", [(0, b"ok\n")])])
    result = _run(sandbox, (_CHECK, _TEST), tmp_path / "out")
    assert (result.status, result.suite) == (SuiteStatus.PASSED, _TEST)
    assert sandbox.network == [False]
    assert {one.user for one in sandbox.ran} == {"builder"}
    assert not sandbox.scripts("-k check")


@pytest.mark.parametrize(
    ("keeps", "asked", "had"),
    [
        pytest.param(False, False, False, id="cut-off"),
        pytest.param(True, False, True, id="kept"),
        pytest.param(False, True, True, id="asked-for"),
    ],
)
def test_whether_tests_had_the_network_is_recorded(
    tmp_path: Path, *, keeps: bool, asked: bool, had: bool
) -> None:
    sandbox = FakeSandbox([("-k check", [(0, b"# PASS: 1\n")])])
    with (tmp_path / "out").open("wb") as output:
        shell = Shell(sandbox, deadline=None, output=output, keeps_network=keeps)
        result = run_suites(
            (_CHECK,), SuitePlace(shell=shell, cwd="/w", environment={}, network=asked), budget_s=60.0
        )
    assert (result.status, result.network, sandbox.network) == (SuiteStatus.PASSED, had, [had])


@dataclass
class FakeNeeds:
    """Brings something as often as told, and notes what it was told: a fake of our protocol."""

    sandbox: FakeSandbox
    brings: list[bool]
    is_there: bool = True
    told: list[str] = field(default_factory=list)

    def bring(self, limit_s: float) -> bool:
        assert 0 < limit_s <= 150
        return self.is_there

    def supply(self, log: str, limit_s: float) -> bool:
        assert 0 < limit_s <= 150
        assert "kill -s KILL" in self.sandbox.ran[-1].argv[-1], "the tests' processes would see its network"
        self.told.append(log)
        if not self.brings:
            raise SandboxError("gone")
        return self.brings.pop(0)


def _run_supplied(tmp_path: Path, needs: FakeNeeds, suite: Suite, budget_s: float = 300.0) -> SuiteResult:
    with (tmp_path / "out").open("wb") as output:
        shell = Shell(needs.sandbox, deadline=None, output=output)
        place = SuitePlace(shell=shell, cwd="/w", environment={}, needs=needs)
        return run_suites((suite,), place, budget_s=budget_s)


def test_tests_that_lacked_something_run_again_when_it_is_there(tmp_path: Path) -> None:
    answers: Answers = [
        ("cmake", [(1, b"no gtest\n"), (1, b"no cmocka\n"), (0, b"")]),
        ("ctest", [(0, b"100% tests passed, 0 tests failed out of 7\n")]),
    ]
    needs = FakeNeeds(FakeSandbox(answers), [True, True])
    result = _run_supplied(tmp_path, needs, _CTEST)
    assert (result.status, result.counts) == (SuiteStatus.PASSED, Counts(passed=7))
    assert needs.told == ["no gtest\n", "no cmocka\n"]


def test_a_check_that_failed_before_any_test_ran_lacked_something_too(tmp_path: Path) -> None:
    answers: Answers = [("-k check", [(2, b"check.h: No such file\n"), (0, b"# PASS: 1\n")])]
    result = _run_supplied(tmp_path, FakeNeeds(FakeSandbox(answers), [True]), _CHECK)
    assert (result.status, result.counts) == (SuiteStatus.PASSED, Counts(passed=1))


@pytest.mark.parametrize(
    ("said", "budget_s", "asked"),
    [
        pytest.param(b"no gtest\n", 300.0, 1, id="nothing-has-it"),
        pytest.param(b"no gtest\n", 30.0, 0, id="no-time"),
        pytest.param(b"# FAIL: 1\n", 300.0, 0, id="tests-ran-and-failed"),
    ],
)
def test_nothing_is_run_again_in_vain(tmp_path: Path, said: bytes, budget_s: float, asked: int) -> None:
    needs = FakeNeeds(FakeSandbox([("-k check", [(2, said)])]), [False])
    result = _run_supplied(tmp_path, needs, _CHECK, budget_s)
    assert (result.status, len(needs.told)) == (SuiteStatus.FAILED, asked)
    assert len(needs.sandbox.scripts("-k check")) == 1


def test_a_sandbox_that_fails_at_the_supply_leaves_the_first_result(tmp_path: Path) -> None:
    needs = FakeNeeds(FakeSandbox([("cmake", [(1, b"error: no gtest\n")])]), [])
    result = _run_supplied(tmp_path, needs, _CTEST)
    assert (result.status, result.suite) == (SuiteStatus.ERROR, _CTEST)
    assert "no gtest" in result.reason


def test_what_a_recipe_knows_to_be_needed_and_cannot_be_had_is_said(tmp_path: Path) -> None:
    needs = FakeNeeds(FakeSandbox([]), [], is_there=False)
    result = _run_supplied(tmp_path, needs, _CTEST)
    assert (result.status, result.suite) == (SuiteStatus.ERROR, None)
    assert "cannot be installed" in result.reason
    assert not needs.sandbox.ran


def test_what_is_missing_for_ever_ends_after_a_few_rounds(tmp_path: Path) -> None:
    needs = FakeNeeds(FakeSandbox([("cmake", [(1, b"no gtest\n")])]), [True] * 9)
    assert _run_supplied(tmp_path, needs, _CTEST).status is SuiteStatus.ERROR
    assert len(needs.told) == 4


def test_what_tests_leave_running_is_ended(tmp_path: Path) -> None:
    sandbox = FakeSandbox([])
    _run(sandbox, (_CHECK,), tmp_path / "out")
    assert "kill -s KILL" in sandbox.ran[-1].argv[-1]


def test_a_project_without_tests_has_none(tmp_path: Path) -> None:
    assert _run(FakeSandbox([("grep", [(1, b"")])]), (_CHECK, _TEST), tmp_path / "out").status == "none"
    assert _run(FakeSandbox([]), (), tmp_path / "out").status == "none"


def test_tests_that_hang_are_a_timeout_within_their_budget(tmp_path: Path) -> None:
    class Hanging(FakeSandbox):
        def run(self, command: ExecSpec, **options: object) -> Completed:
            done = super().run(command, timeout_s=0.0)
            if "check" in command.argv[-1] and "grep" not in command.argv[-1]:
                assert isinstance(options["timeout_s"], float)
                assert options["timeout_s"] <= 60.0
                return Completed(exit_code=137, tail=b"", duration_s=60.0, timed_out=True)
            return done

    result = _run(Hanging([]), (_CHECK,), tmp_path / "out")
    assert (result.status, result.exit_code) == (SuiteStatus.TIMEOUT, None)


def test_a_sandbox_that_fails_under_the_tests_is_their_error_and_nothing_else(tmp_path: Path) -> None:
    class Broken(FakeSandbox):
        def run(self, command: ExecSpec, **options: object) -> Completed:  # noqa: ARG002 - the protocol's
            raise SandboxError("gone")

    result = _run(Broken([]), (_CHECK,), tmp_path / "out")
    assert result.status is SuiteStatus.ERROR
    assert "gone" in result.reason


def test_a_flood_is_read_to_its_end_and_shown_in_part(tmp_path: Path) -> None:
    flood = b"noise\n" * 500_000 + b"# PASS: 7\n"
    result = _run(FakeSandbox([("-k check", [(0, flood)])]), (_CHECK,), tmp_path / "out")
    assert result.counts == Counts(passed=7)
    assert (tmp_path / "out").stat().st_size < 600_000


@pytest.mark.parametrize(
    ("left_s", "kept_bytes", "budget_s"),
    [(None, 0, 300), (10_000, 0, 300), (100, 0, 70), (100, 400_000_000, 30), (33, 0, 0), (-5, 0, 0)],
    ids=["no-deadline", "far", "near", "near-with-a-big-zip", "too-near", "past"],
)
def test_tests_are_cut_so_that_report_and_zip_fit(
    left_s: float | None, kept_bytes: int, budget_s: float
) -> None:
    assert decide_budget_s(left_s, kept_bytes) == budget_s


def test_only_the_gate_makes_failing_tests_a_failure() -> None:
    failing = SuiteResult(status=SuiteStatus.FAILED, suite=_CHECK, exit_code=2, duration_s=3.21)
    outcome = gate(_VERIFIED, failing)
    assert (outcome.cause, outcome.exit_code) == (Cause.TESTS, 1)
    assert outcome.reason == "package tests failed (make check, 3.2 s)"
    assert gate(_VERIFIED, skip_suites("no time")).cause is Cause.TESTS
    assert gate(_VERIFIED, SuiteResult(status=SuiteStatus.NONE)) is _VERIFIED


def test_one_line_tells_a_person_everything() -> None:
    counts = Counts(passed=22, skipped=1)
    result = SuiteResult(status=SuiteStatus.PASSED, suite=_CTEST, exit_code=0, duration_s=3.25, counts=counts)
    assert describe_suite(result) == "passed (ctest, 22 passed, 0 failed, 1 skipped, 3.2 s)"
    assert describe_suite(SuiteResult(status=SuiteStatus.NONE)) == "none"


@pytest.mark.parametrize(
    ("files", "commands", "scripts"),
    [
        pytest.param(
            {"configure": "# Generated by GNU Autoconf 2.71\n", "Makefile.in": ""},
            ["make check", "make test", "make tests"],
            "make -j2 -k check",
            id="autotools",
        ),
        pytest.param(
            {"Makefile.linux": "x:\n\t$(CC)\n"},
            ["make check", "make test", "make tests"],
            "make -f Makefile.linux -k check",
            id="make",
        ),
        pytest.param(
            {"CMakeLists.txt": 'project(x)\noption(X_TESTS "" ON)\noption(X_DOCS "" ON)\n'},
            ["ctest"],
            "-DBUILD_TESTING=ON -DX_TESTS=ON\n",
            id="cmake",
        ),
        pytest.param(
            {"meson.build": "project('x')\n", "meson_options.txt": "option('tests', type: 'boolean')\n"},
            ["meson test"],
            "meson configure atesor-build -Dtests=true\n",
            id="meson",
        ),
        pytest.param(
            {"go.mod": "module a.org/x\n", "vendor/modules.txt": ""},
            ["go test ./..."],
            "-mod=vendor",
            id="go",
        ),
        pytest.param(
            {"Cargo.toml": "[package]\nname='x'\n"}, ["cargo test --tests"], "--offline --tests", id="cargo"
        ),
        pytest.param({"x.c": "int main(void) { return 0; }\n"}, [], "", id="plain-c"),
    ],
)
def test_each_build_system_knows_its_tests(
    make_tree: Callable[..., Tree], files: dict[str, str], commands: list[str], scripts: str
) -> None:
    suites = detect(make_tree(files))[0].project.plan_suites(BuildOptions(jobs=2))
    assert [one.command for one in suites] == commands
    assert scripts in "".join(f"{one.prepare}\n{one.script}\n" for one in suites)
