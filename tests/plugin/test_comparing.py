"""Two batches compared, and the answer run again."""

import json
import subprocess
import sys

import pytest
from lab import SECONDS, Lab


def atesor(lab: Lab, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "pytest_atesor.cli", *arguments],
        cwd=lab.root,
        env=lab.environment(),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


@pytest.fixture
def bundles(lab: Lab) -> list[str]:
    """Two bundles of one list; what the second one finds locked failed newly."""
    lab.write_list("demo", {"zlib": "pass", "gron": "exclusive", "jq": "exclusive", "anew": "fail"})
    assert lab.run("--atesor-list", "demo", "-n0").code == 1
    (lab.root / "lock").mkdir()
    assert lab.run("--atesor-list", "demo", "-n0").code == 1
    (lab.root / "lock").rmdir()
    return [str(bundle) for bundle in lab.bundles]


@pytest.mark.parametrize("option", [("--atesor-only", "@names.txt"), ("--atesor-only=@names.txt",)])
def test_the_newly_failing_names_are_what_the_next_batch_runs(
    lab: Lab, bundles: list[str], option: tuple[str, ...]
) -> None:
    compared = atesor(lab, "compare", "--names", *bundles)
    assert (compared.returncode, compared.stdout, compared.stderr) == (1, "gron\njq\n", "")
    (lab.root / "names.txt").write_text(compared.stdout)
    assert lab.run("--atesor-list", "demo", "-n0", *option).code == 0
    again = {case["label"]: case["status"] for case in lab.results()["cases"]}
    assert again == {"gron": "PASS", "jq": "PASS"}


def test_another_list_is_compared_package_by_package(lab: Lab, bundles: list[str]) -> None:
    lab.write_list("more", {"new": "pass", "zlib": "pass", "gron": "fail", "jq": "exclusive", "anew": "fail"})
    (lab.root / "lock").mkdir()
    assert lab.run("--atesor-list", "more", "-n0").code == 1
    compared = atesor(lab, "compare", "--json", bundles[0], str(lab.bundles[-1]))
    answer = json.loads(compared.stdout)
    assert (compared.returncode, answer["comparable"], answer["regressions"]) == (1, True, ["jq"])
    changes = {case["label"]: (case["change"], case["unlike"]) for case in answer["cases"]}
    assert changes["gron"] == ("newly failing", ["url"])
    assert changes["new"] == ("new", [])


@pytest.mark.parametrize("option", [("--atesor-only", "@names.txt"), ("--atesor-only=@names.txt",)])
def test_a_batch_without_news_leaves_nothing_to_run(
    lab: Lab, bundles: list[str], option: tuple[str, ...]
) -> None:
    compared = atesor(lab, "compare", "--names", bundles[1], bundles[1])
    assert (compared.returncode, compared.stdout) == (0, "")
    (lab.root / "names.txt").write_text(compared.stdout)
    run = lab.run("--atesor-list", "demo", *option)
    assert (run.code, run.out) == (2, "")
    assert "has no names" in run.err
    assert len(lab.bundles) == 2
