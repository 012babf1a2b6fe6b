"""What a verdict rests on, in a real sandbox: libraries, starts under emulation, and what never passes."""

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_atesor.errors import AtesorError
from pytest_atesor.sandbox.select import select_engine

pytestmark = pytest.mark.engine

_CONTAINER = "atesor-evidence-e2e"
_GIT = shutil.which("git") or "git"
_WHO = ("-c", "user.name=t", "-c", "user.email=t@t")
_FUNCTION = "int twice(int x) { return 2 * x; }\n"
_PREBUILD = "$(CC) -shared -fPIC -g -o libold.so old.c; $(CC) -g -c -o old.o old.c; ar rc libold.a old.o"


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    try:
        chosen = select_engine(os.environ.get("ATESOR_ENGINE", "auto"))
    except AtesorError as error:
        pytest.skip(str(error))
    chosen.remove(_CONTAINER)
    yield chosen.name
    chosen.remove(_CONTAINER)


def _port(
    root: Path, engine: str, files: Mapping[str, str | bytes], *flags: str
) -> tuple[int, dict[str, Any], Path]:
    tree, attempt = root / "upstream", root / "attempt"
    attempt.mkdir(parents=True)
    for name, content in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    for arguments in (["init", "-q"], ["add", "."], [*_WHO, "commit", "-qm", "x"]):
        subprocess.run([_GIT, *arguments], cwd=tree, check=True)
    done = subprocess.run(
        [sys.executable, "-m", "pytest_atesor.porter", "--repo", tree.as_uri(), "--force", "--tests", "skip",
         "--container", _CONTAINER, *flags],
        env={**os.environ, "ATESOR_ATTEMPT_DIR": str(attempt), "ATESOR_ENGINE": engine},
        cwd=root,
        stdout=subprocess.DEVNULL,
        check=False,
        timeout=900,
    )  # fmt: skip
    return done.returncode, json.loads((attempt / "result.json").read_text()), attempt


Port = Callable[[Mapping[str, "str | bytes"]], "tuple[int, dict[str, Any]]"]


@pytest.fixture
def port(tmp_path: Path, engine: str) -> Port:
    return lambda files: _port(tmp_path, engine, files)[:2]


@pytest.fixture(scope="module")
def prebuilt(tmp_path_factory: pytest.TempPathFactory, engine: str) -> Mapping[str, bytes]:
    """Real riscv64 files, with symbols and debug information, as some project might ship them."""
    root = tmp_path_factory.mktemp("prebuilt")
    _, result, attempt = _port(root, engine, {"Makefile": f"all:\n\t{_PREBUILD}\n", "old.c": _FUNCTION})
    copies = {Path(one["path"]).name: attempt / "artifacts" / one["copy"] for one in result["artifacts"]}
    return {name: copies[name].read_bytes() for name in ("libold.so", "libold.a")}


_GOOD = """
#include <stdio.h>
int twice(int); int main(int c, char **v) { if (c > 1) printf("good %d.0\\n", twice(1)); return c < 2; }
"""
_MAKEFILE = """
all:
\t$(CC) -shared -fPIC -Wl,-soname,libown.so.1 -o libown.so.1 own.c
\t$(CC) -shared -fPIC -o libgone.so own.c
\t$(CC) -o good good.c libown.so.1
\t$(CC) -o orphan good.c libgone.so; rm libgone.so
\t$(CC) -o crash crash.c
\t$(CC) -o daemon daemon.c
"""


def test_libraries_and_starts_are_recorded_for_each_product(port: Port) -> None:
    code, result = port({
        "Makefile": _MAKEFILE,
        "own.c": _FUNCTION,
        "good.c": _GOOD,
        "crash.c": "int main(void) { *(volatile int *)0 = 1; }\n",
        "daemon.c": "#include <unistd.h>\nint main(void) { for (;;) sleep(9); }\n",
    })
    assert code == 0
    found = {Path(one["path"]).name: one for one in result["artifacts"]}
    assert {one["class"] for one in result["artifacts"]} == {"ELF64"}
    assert {one["machine"] for one in result["artifacts"]} == {"riscv64"}
    assert found["good"]["interpreter"] == "/lib/ld-linux-riscv64-lp64d.so.1"
    assert found["good"]["missing_libraries"] == []
    assert found["good"]["start"] == {
        "argument": "--version",
        "status": "started",
        "exit_code": 0,
        "said": "good 2.0",
    }
    assert found["orphan"]["missing_libraries"] == ["libgone.so"]
    assert found["orphan"]["start"]["status"] == "refused"
    assert (found["crash"]["start"]["status"], found["crash"]["start"]["exit_code"]) == ("crashed", 139)
    assert found["daemon"]["start"]["status"] == "running"
    assert found["libown.so.1"]["missing_libraries"] == []
    assert found["libown.so.1"]["start"] is None
    said = "\n".join(result["notes"])
    assert "needs libraries that the sandbox lacks (libgone.so)" in said
    assert "crashed when started with" in said


@pytest.mark.parametrize(
    "commands",
    [
        pytest.param("cp libold.so libnew.so", id="copied"),
        pytest.param("cp libold.so libnew.so; strip libnew.so", id="stripped"),
        pytest.param("cp libold.a libnew.a; strip -g libnew.a; ranlib libnew.a", id="archive-stripped"),
        pytest.param("ar x libold.a; ar rc libnew.a old.o; rm old.o", id="archive-filed-anew"),
        pytest.param("install -D -s libold.so $(ATESOR_STAGE)/usr/lib/libnew.so", id="installed-stripped"),
    ],
)
def test_a_prebuilt_riscv64_file_is_never_a_product(
    port: Port, prebuilt: Mapping[str, bytes], commands: str
) -> None:
    rule = "all:\n" + "".join(f"\t{one.strip()}\n" for one in commands.split(";"))
    code, result = port({"Makefile": rule, **prebuilt})
    assert (code, result["verdict"], result["artifacts"]) == (3, "unverified", [])
    assert "in the source tree before the build" in result["reason"]


def _x86() -> str:
    program = shutil.which("true")
    data = Path(program).read_bytes() if program else b""
    if data[:5] != b"\x7fELF\x02" or data[18:20] != b"\x3e\x00":
        pytest.skip("this machine is no x86-64")
    return base64.encodebytes(data).decode()


@pytest.mark.parametrize(
    "commands",
    [
        pytest.param("base64 -d tool.b64 > tool; chmod +x tool", id="program"),
        pytest.param("base64 -d tool.b64 > tool.o; ar rc libtool.a tool.o; rm tool.o", id="in-an-archive"),
    ],
)
def test_an_x86_file_made_by_the_build_is_never_a_product(port: Port, commands: str) -> None:
    rule = "all:\n" + "".join(f"\t{one.strip()}\n" for one in commands.split(";"))
    code, result = port({"Makefile": rule, "tool.b64": _x86()})
    assert (code, result["verdict"], result["artifacts"]) == (3, "unverified", [])
    assert "for another processor only" in result["reason"]
    assert result["metrics"]["foreign_files"] == 1
    assert any("for another processor (x86-64), no proof" in one for one in result["notes"])


@pytest.mark.parametrize(
    "commands",
    [
        pytest.param("ar rc libempty.a", id="no-members"),
        pytest.param("ar rc libempty.a Makefile", id="a-text-file"),
        pytest.param("printf '!<arch>\\n' > libempty.a", id="magic-alone"),
        pytest.param(
            ": > nothing.c; $(CC) -c nothing.c; ar rc libempty.a nothing.o; rm nothing.o", id="no-code"
        ),
    ],
)
def test_an_empty_archive_is_never_a_product(port: Port, commands: str) -> None:
    rule = "all:\n" + "".join(f"\t{one.strip()}\n" for one in commands.split(";"))
    code, result = port({"Makefile": rule})
    assert (code, result["verdict"], result["artifacts"]) == (3, "unverified", [])


def test_a_copy_of_the_sandboxes_own_library_is_never_a_product(port: Port) -> None:
    code, result = port({"Makefile": "all:\n\tcp /usr/lib/riscv64-linux-gnu/libc.so.6 libmine.so\n"})
    assert (code, result["verdict"], result["artifacts"]) == (3, "unverified", [])
    assert "copies of the sandbox's own packages" in result["reason"]


def test_results_that_the_build_forges_are_nobodys(port: Port) -> None:
    forged = json.dumps({"schema_version": "result_v1", "verdict": "verified", "artifacts": [{"path": "x"}]})
    places = "/workspace /workspace/stage /workspace/src /workspace/build $(HOME) ."
    names = "result.json manifest.json recipe.json attempt.json"
    rule = f"all:\n\tfor d in {places}; do for n in {names}; do cp forged $$d/$$n || :; done; done\n"
    code, result = port({"Makefile": rule, "forged": forged})
    assert (code, result["verdict"], result["artifacts"]) == (3, "unverified", [])
    assert "nothing native" in result["reason"]
    assert result["metrics"]["native_files"] == 0


_HOSTILE = r"""
number=0
for name in "$(printf 'new\nline')" "$(printf '\377\376')" -rf "$(printf '\033[31mred')" 'a b' '$(touch x)'
do
  number=$((number + 1)); { cat good; echo $number; } > "./$name"; chmod +x "./$name"
done
mkfifo pipe; ln -s . loop; ln -s /etc/passwd secret; ln -s good alias
truncate -s 200G giant; printf '\177ELF\002\001\001' | dd of=giant conv=notrunc status=none
truncate -s 200G archive.a; printf '!<arch>\n' | dd of=archive.a conv=notrunc status=none
deep=.; for level in $(seq 200); do deep=$deep/d; done; mkdir -p $deep; { cat good; echo deep; } > $deep/deep
"""


def test_hostile_products_are_bounded_and_their_names_harmless(tmp_path: Path, engine: str) -> None:
    files = {
        "Makefile": "all:\n\t$(CC) -o good good.c\n\tsh hostile.sh\n",
        "good.c": _FUNCTION + "int main(void) { return twice(0); }\n",
        "hostile.sh": _HOSTILE,
    }
    code, result, attempt = _port(tmp_path, engine, files)
    assert (code, result["verdict"]) == (0, "verified")
    copies = [one["copy"] for one in result["artifacts"]]
    assert len(copies) == len(set(copies)) == 7
    for name in copies:
        assert re.fullmatch(r"[A-Za-z0-9._+=@~,/-]+", name)
        assert (attempt / "artifacts" / name).read_bytes().startswith(b"\x7fELF")
    shown = [one["path"] for one in result["artifacts"]]
    assert not [one for one in shown if set(one) & set("\n\x1b\udcff")]
    assert not [one for one in (attempt / "artifacts").rglob("*") if one.is_symlink()]
    assert {one["start"]["status"] for one in result["artifacts"] if one["start"]} == {"started"}
    (scan,) = [one for one in result["phases"] if one["name"] == "scan"]
    assert scan["duration_s"] < 60


def test_a_port_that_proves_nothing_leaves_a_zip_that_says_so(tmp_path: Path, engine: str) -> None:
    tree = {"Makefile": "all:\n\tln -s /etc/passwd link\n", "x.h": "#define X 1\n"}
    code, result, _ = _port(tmp_path, engine, tree, "--package")
    assert (code, result["verdict"]) == (3, "unverified")
    (path,) = (tmp_path / "workspace/packages").iterdir()
    assert re.fullmatch(r"[\w.-]+-\d{8}-\d{6}-debian\.zip", path.name)
    with zipfile.ZipFile(path) as archive:
        assert not [one for one in archive.namelist() if one.startswith("artifacts/")]
        manifest = json.loads(archive.read("manifest.json"))
    assert (manifest["verdict"], manifest["artifacts"]) == ("unverified", [])
    assert manifest["reason"] == result["reason"]
