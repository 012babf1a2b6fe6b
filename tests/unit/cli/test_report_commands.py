from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_atesor.bundle.clock import system_clock
from pytest_atesor.bundle.lock import Holder
from pytest_atesor.bundle.writer import Bundle
from pytest_atesor.cli import main
from pytest_atesor.core.attempt import AttemptRecord
from pytest_atesor.core.events import AttemptEnded, CasesSelected
from pytest_atesor.core.outcome import Cause, Status
from pytest_atesor.core.plan import Plan

AT = "2026-01-02T03:04:05Z"


@pytest.fixture
def bundles(
    tmp_path: Path, make_plan: Callable[..., Plan], make_record: Callable[..., AttemptRecord]
) -> Path:
    ends = {"zlib": (Status.PASS, None), "gron": (Status.FAIL, Cause.BUILD)}
    for second in (Status.PASS, Status.FAIL):
        holder = Holder(pid=1, host="h", started_at=AT)
        with Bundle.create(
            tmp_path, make_plan("zlib", "gron"), holder=holder, clock=system_clock()
        ) as bundle:
            bundle.record(CasesSelected(at=AT, case_ids=tuple(ends)))
            status = (second, Cause.BUILD if second is Status.FAIL else None)
            bundle.record(AttemptEnded(at=AT, record=make_record("zlib", *status)))
            bundle.record(AttemptEnded(at=AT, record=make_record("gron", *ends["gron"])))
    return tmp_path


def test_report_rebuilds_what_was_lost(bundles: Path) -> None:
    root = bundles / "smoke-20260102-030405"
    before = (root / "batch_attempts.json").read_text()
    for name in ("batch_results.json", "batch_attempts.json", "batch_summary.json"):
        (root / name).unlink()
    (root / "batch_summary.csv").write_text("old")
    assert main(["report", str(root)]) == 0
    again = (root / "batch_attempts.json").read_text()
    assert [line for line in again.splitlines() if "updated_at" not in line] == [
        line for line in before.splitlines() if "updated_at" not in line
    ]
    assert (root / "batch_summary.csv").read_text().startswith("case_id,")
    assert "<title>smoke-20260102-030405" in (root / "report.html").read_text()


def test_compare_ends_with_1_on_regressions_only(bundles: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = bundles / "smoke-20260102-030405", bundles / "smoke-20260102-030405-2"
    assert main(["compare", "--names", str(first), str(second)]) == 1
    assert capsys.readouterr().out == "zlib\n"
    page = bundles / "compare.html"
    assert main(["compare", "--html", str(page), str(second), str(first)]) == 0
    assert "<h2>fixed (1)</h2>" in page.read_text()
    assert "fixed (1):\n  zlib  FAIL -> PASS\n" in capsys.readouterr().out


def test_a_page_that_has_no_place_is_refused_before_anything_is_compared(
    bundles: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = [str(bundles / name) for name in ("smoke-20260102-030405", "smoke-20260102-030405-2")]
    assert main(["compare", "--html", str(bundles / "no" / "page.html"), *both]) == 2
    captured = capsys.readouterr()
    place = f"cannot write {bundles}/no/page.html: {bundles}/no is no directory; choose another place"
    assert (captured.out, captured.err) == ("", f"atesor: error: {place}\n")
    assert main(["compare", "--html", str(bundles), *both]) == 1
    assert f"cannot use {bundles} as the page: it is a directory; choose another" in capsys.readouterr().err


def test_history_lists_bundles_and_one_package(bundles: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "--output-root", str(bundles)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "2026-01-02T03:04:05  smoke-20260102-030405  2 planned: 1 PASS, 1 FAIL",
        "2026-01-02T03:04:05  smoke-20260102-030405-2  2 planned: 2 FAIL",
    ]
    assert main(["history", "zlib", "--output-root", str(bundles)]) == 0
    assert [line.split("  ")[2] for line in capsys.readouterr().out.splitlines()] == ["PASS", "FAIL"]


def test_history_without_a_place_finds_batches_and_sweeps(
    bundles: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(bundles)
    for name, folder in (("smoke-20260102-030405", "batches"), ("smoke-20260102-030405-2", "sweeps")):
        (bundles / "runs" / folder).mkdir(parents=True)
        (bundles / name).rename(bundles / "runs" / folder / name)
        assert main(["history", "zlib"]) == 0
    assert [line.split("  ")[1:3] for line in capsys.readouterr().out.splitlines()] == [
        ["smoke-20260102-030405", "PASS"],
        ["smoke-20260102-030405", "PASS"],
        ["smoke-20260102-030405-2", "FAIL"],
    ]
    assert main(["history", "nosuch"]) == 2
    assert "no bundle below runs/batches or runs/sweeps has a case 'nosuch'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        pytest.param(["report", "nowhere"], 1, id="no bundle"),
        pytest.param(["history", "--output-root", "nowhere"], 2, id="no root"),
    ],
)
def test_a_wrong_path_is_one_line(
    arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == code
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_package_list_in_the_place_of_a_bundle_is_told_so_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lïst.json").touch()
    assert main(["compare", "lïst.json", "lïst.json"]) == 1
    said = "lïst.json is no bundle: it is no directory; name one below runs/batches"
    assert capsys.readouterr().err == f"atesor: error: {said}\n"
