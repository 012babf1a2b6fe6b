import os
from pathlib import Path

import pytest

from pytest_atesor.bundle.layout import BundleLayout, LogLinks
from pytest_atesor.errors import BundleError


@pytest.fixture
def log(tmp_path: Path) -> Path:
    attempt = BundleLayout(tmp_path / "runs" / "batches" / "b1").attempt("zlib", "001")
    attempt.root.mkdir(parents=True)
    attempt.log.write_text("built\n")
    return attempt.log


def link_log(directory: Path, log: Path) -> Path:
    return LogLinks(directory, BundleLayout(log.parents[4])).make("zlib", log)


def test_a_bundle_is_laid_out_as_the_contract_draws_it() -> None:
    layout = BundleLayout(Path("b"))
    attempt = layout.attempt("zlib", "001")
    paths = [layout.plan, layout.attempts, layout.results, layout.summary, layout.summary_csv, layout.journal]
    assert [path.as_posix() for path in paths] == [
        "b/batch_plan.json",
        "b/batch_attempts.json",
        "b/batch_results.json",
        "b/batch_summary.json",
        "b/batch_summary.csv",
        "b/journal.jsonl",
    ]
    assert layout.runspec("zlib").as_posix() == "b/cases/zlib/runspec.json"
    inside = [attempt.record, attempt.log, attempt.result, attempt.metrics, attempt.artifacts]
    assert [layout.relative(path) for path in inside] == [
        "cases/zlib/attempts/001/attempt.json",
        "cases/zlib/attempts/001/run.log",
        "cases/zlib/attempts/001/result.json",
        "cases/zlib/attempts/001/metrics.json",
        "cases/zlib/attempts/001/artifacts",
    ]


def test_the_log_link_is_relative_and_survives_a_move(tmp_path: Path, log: Path) -> None:
    link = link_log(tmp_path / "output" / "batch_logs", log)
    assert not link.readlink().is_absolute()
    assert link.read_text() == "built\n"
    moved = tmp_path.with_name(f"{tmp_path.name}-moved")
    tmp_path.rename(moved)
    try:
        assert (moved / "output" / "batch_logs" / "zlib.log").read_text() == "built\n"
    finally:
        moved.rename(tmp_path)


def test_the_link_leads_home_when_the_log_directory_is_a_link(tmp_path: Path, log: Path) -> None:
    elsewhere = tmp_path / "deep" / "er" / "logs"
    elsewhere.mkdir(parents=True)
    (tmp_path / "output").symlink_to(elsewhere.parent)
    assert link_log(tmp_path / "output" / "logs", log).read_text() == "built\n"


@pytest.mark.parametrize("before", ["link", "dangling", "file"])
def test_what_stood_there_is_replaced_and_not_followed(tmp_path: Path, log: Path, before: str) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    victim = tmp_path / "victim"
    victim.write_text("precious")
    match before:
        case "link":
            (logs / "zlib.log").symlink_to(victim)
        case "dangling":
            (logs / "zlib.log").symlink_to("nowhere")
        case _:
            (logs / "zlib.log").write_text("an older log")
    assert link_log(logs, log).read_text() == "built\n"
    assert victim.read_text() == "precious"
    assert [path.name for path in logs.iterdir()] == ["zlib.log"]


def test_a_link_that_a_process_of_the_same_id_is_making_is_left_alone(tmp_path: Path, log: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "zlib.log").write_text("an older log")
    theirs = logs / f".zlib.{os.getpid()}.tmp"
    theirs.symlink_to("theirs")
    assert link_log(logs, log).read_text() == "built\n"
    assert theirs.is_symlink()


def test_a_directory_in_the_way_is_an_error(tmp_path: Path, log: Path) -> None:
    (tmp_path / "logs" / "zlib.log").mkdir(parents=True)
    with pytest.raises(BundleError, match="a directory stands there; remove it"):
        link_log(tmp_path / "logs", log)


def test_a_log_directory_that_is_a_file_is_an_error(tmp_path: Path, log: Path) -> None:
    (tmp_path / "logs").write_text("")
    with pytest.raises(BundleError, match=r"cannot make the log link .*zlib\.log"):
        link_log(tmp_path / "logs", log)


def test_a_log_directory_that_was_removed_in_between_is_made_again(tmp_path: Path, log: Path) -> None:
    links = LogLinks(tmp_path / "output" / "logs", BundleLayout(log.parents[4]))
    first = links.make("zlib", log)
    first.unlink()
    first.parent.rmdir()
    assert links.make("zlib", log).read_text() == "built\n"
