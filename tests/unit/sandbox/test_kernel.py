"""A kernel that lacks what every batch needs, or a container's profile that refuses it."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_atesor.sandbox.kernel import check_kernel
from tests.unit.refused_call import PIDFD_OPEN

ROOT = Path(__file__).resolve().parents[3]
LACK = "waiting for the end of a process (pidfd_open) does not work here ({})"
CODES = [
    pytest.param(errno.ENOSYS, id="old-kernel"),
    pytest.param(errno.EPERM, id="refused-by-a-profile"),
]


def run_refused(code: int, *command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ATESOR_")}
    environ["PYTHONPATH"] = str(ROOT)
    environ["ATESOR_STATE_DIR"] = str(cwd / "state")
    return subprocess.run(
        [sys.executable, "-m", "tests.unit.refused_call", PIDFD_OPEN, str(code), sys.executable, *command],
        cwd=cwd,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )


def test_this_machine_has_what_batches_need() -> None:
    check_kernel()


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("target", ["qemu", "native"])
def test_the_doctor_names_what_the_kernel_lacks(code: int, target: str, tmp_path: Path) -> None:
    ended = run_refused(code, "-m", "pytest_atesor.cli", "doctor", "--target", target, cwd=tmp_path)
    problem, fix, verdict = ended.stdout.splitlines()
    assert problem == f"problem: {LACK.format(os.strerror(code))}"
    assert fix.startswith("    use Linux 5.3 or newer")
    assert (verdict, ended.returncode) == ("not ready: 1 problem(s)", 1)


@pytest.mark.parametrize("code", CODES)
def test_a_batch_does_not_start(code: int, tmp_path: Path) -> None:
    body = {"$schema_version": 1, "packages": [{"name": "one", "url": "https://example.invalid/one"}]}
    (tmp_path / "list.json").write_text(json.dumps(body))
    flags = ["--atesor-engine=none", "--atesor-agent=/bin/true"]
    ended = run_refused(code, "-m", "pytest", *flags, "list.json", cwd=tmp_path)
    assert LACK.format(os.strerror(code)) in ended.stderr
    assert "Traceback" not in ended.stdout + ended.stderr
    assert ended.returncode == 1
    assert not (tmp_path / "runs").exists()


PUMP = """
from pytest_atesor.errors import SandboxError
from pytest_atesor.sandbox.pump import pump_process
try:
    pump_process(["sleep", "600"], timeout_s=600, sink=None, tail_bytes=10, on_timeout=lambda: None)
except SandboxError as error:
    print(error)
"""
CHILD = """
import os, sys, time
from pathlib import Path
from pytest_atesor.errors import SandboxError
from pytest_atesor.runners.process import ChildSpec, run_child
from pytest_atesor.runners.stop import StopFlag
spec = ChildSpec(argv=("sleep", "600"), env={"PATH": os.defpath}, cwd=Path.cwd(), log_path=Path("log"),
                 deadline=time.monotonic() + 600)
try:
    print(run_child(spec, stop=StopFlag()))
except SandboxError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("script", "said"),
    [
        pytest.param(PUMP, "the end of process ", id="in-a-sandbox"),
        pytest.param(CHILD, "a child was started and cannot be waited for (", id="an-agent"),
    ],
)
def test_a_child_that_nobody_can_wait_for_is_ended_and_not_to_blame(
    script: str, said: str, tmp_path: Path
) -> None:
    ended = run_refused(errno.ENOSYS, "-c", script, cwd=tmp_path)
    assert ended.stdout.startswith(said), ended.stderr
    assert "(Function not implemented); atesor doctor tells whether this machine can" in ended.stdout
