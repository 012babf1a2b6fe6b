"""What the hooks of a user's conftest.py and other plugins do to a batch's cases."""

import pytest
from lab import Lab

WORKERS = pytest.mark.parametrize("workers", ["-n0", "-n2"], ids=["one process", "workers"])

MARK_ONE = """
import pytest

def pytest_collection_modifyitems(items):
    for item in items:
        if item.name == "other":
            item.add_marker({mark})
"""

SKIP_MARKS = {
    "skip": 'pytest.mark.skip(reason="not today")',
    "skipif": 'pytest.mark.skipif(True, reason="not today")',
}


@WORKERS
@pytest.mark.parametrize("mark", SKIP_MARKS.values(), ids=SKIP_MARKS.keys())
def test_a_skip_mark_skips_its_case_and_no_other(lab: Lab, mark: str, workers: str) -> None:
    (lab.root / "conftest.py").write_text(MARK_ONE.format(mark=mark))
    lab.write_list("three", {"other": "pass", "good": "pass", "bad": "fail"})
    run = lab.run("--atesor-list", "three", workers)
    assert run.code == 1, run.out + run.err
    assert "INTERNALERROR" not in run.out
    found = {case["label"]: case["status"] for case in lab.results()["cases"]}
    assert found == {"other": "SKIPPED", "good": "PASS", "bad": "FAIL"}
    assert sorted(lab.events()) == ["end bad", "end good", "start bad", "start good"]
