"""The architecture comparison through ``atesor batch run`` with two workers; the target is under 20 s."""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CASES = Path(__file__).parents[1] / "pytest_atesor/resources/examples/user/cases"
NAMES = ("architecture-polar-walker", "architecture-molniya")


def main() -> int:
    """Run the batch once; prints a table and a line of JSON, returns the batch's exit code."""
    with tempfile.TemporaryDirectory() as folder:
        cases = [{"label": name, "runspec": f"{name}.yaml"} for name in NAMES]
        for name in NAMES:
            (Path(folder) / f"{name}.yaml").write_bytes((CASES / f"{name}.yaml").read_bytes())
        manifest = Path(folder) / "batch.yaml"
        manifest.write_text(json.dumps({"schema_version": "batch_v1", "batch": {"cases": cases}}), "utf-8")
        start = time.monotonic()
        argv = [
            str(Path(sys.executable).with_name("atesor")),
            "batch",
            "run",
            str(manifest),
            "--workers",
            "2",
        ]
        code = subprocess.run(argv, cwd=folder, check=False).returncode
        taken = time.monotonic() - start
    print(f"architecture comparison  {taken:6.1f} s  exit {code}")
    print(json.dumps({"duration_s": round(taken, 2), "exit_code": code}))
    return code


sys.exit(main())
