"""The built-in agent in a real sandbox: trees made here, brought in from the host, real riscv64 files."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_atesor.errors import AtesorError
from pytest_atesor.sandbox.select import select_engine

pytestmark = pytest.mark.engine

_CONTAINER = "atesor-porter-e2e"
_READELF = shutil.which("readelf")


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    try:
        chosen = select_engine(os.environ.get("ATESOR_ENGINE", "auto"))
    except AtesorError as error:
        pytest.skip(str(error))
    chosen.remove(_CONTAINER)  # a killed run's: what it had installed must not be found
    yield chosen.name
    chosen.remove(_CONTAINER)


Port = Callable[..., "tuple[int, dict[str, Any], Path]"]


@pytest.fixture
def port(tmp_path: Path, engine: str) -> Port:
    def go(files: Mapping[str, str], *flags: str) -> tuple[int, dict[str, Any], Path]:
        command, environ, attempt = _command(tmp_path, engine, files, *flags)
        done = subprocess.run(
            command, env=environ, cwd=tmp_path, stdout=subprocess.DEVNULL, check=False, timeout=900
        )
        return done.returncode, json.loads((attempt / "result.json").read_text()), attempt

    return go


def _command(
    tmp_path: Path, engine: str, files: Mapping[str, str], *flags: str
) -> tuple[list[str], dict[str, str], Path]:
    tree, attempt = tmp_path / "upstream", tmp_path / "attempt"
    attempt.mkdir()
    for name, text in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    git = shutil.which("git") or "git"
    who = ["-c", "user.name=t", "-c", "user.email=t@t"]
    for arguments in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "x"]):
        subprocess.run([git, *arguments], cwd=tree, check=True)
    environ = {**os.environ, "ATESOR_ATTEMPT_DIR": str(attempt), "ATESOR_ENGINE": engine}
    command = [
        *(sys.executable, "-m", "pytest_atesor.porter", "--repo", tree.as_uri(), "--max-attempts", "3"),
        *("--force", "--container", _CONTAINER, "--platform", "debian", *flags),
    ]  # fmt: skip
    return command, environ, attempt


_MAIN = '#include <stdio.h>\nint main(void) { puts("hello"); return 0; }\n'


def test_a_program_is_verified_and_its_file_is_riscv64(port: Port) -> None:
    code, result, attempt = port(
        {"Makefile": "hello: hello.c\n\t$(CC) -o hello hello.c\n", "hello.c": _MAIN}, "--package"
    )
    assert (code, result["verdict"], result["build_system"]) == (0, "verified", "make")
    (artifact,) = result["artifacts"]
    assert (artifact["type"], artifact["abi"]) == ("executable", "lp64d")
    assert result["native_tools"]["make"] > "4"
    assert any(name.startswith("gcc-") for name in result["native_tools"])
    copy = attempt / "artifacts" / artifact["copy"]
    if _READELF:
        shown = subprocess.run([_READELF, "-h", copy], capture_output=True, text=True, check=True).stdout
        assert "RISC-V" in shown
    assert len(list((attempt.parent / "workspace/packages").glob("*-debian.zip"))) == 1
    assert [one["name"] for one in result["phases"]][:4] == ["sandbox", "prepare", "fetch", "detect"]


def test_a_missing_header_is_found_and_installed(port: Port) -> None:
    source = "#include <popt.h>\n#include <stdio.h>\nint main(void) { puts(poptStrerror(0)); return 0; }\n"
    code, result, _ = port({"Makefile": "p: p.c\n\t$(CC) -o p p.c -lpopt\n", "p.c": source})
    assert code == 0
    assert "libpopt-dev" in result["metrics"]["packages"]
    assert "libpopt.so.0" in result["artifacts"][0]["needed"]


def test_headers_only_is_unverified_with_the_missing_proof(port: Port) -> None:
    code, result, _ = port({"Makefile": "all:\n\t@echo nothing to do\n", "x.h": "#define X 1\n"})
    assert (code, result["verdict"], result["cause"]) == (3, "unverified", None)
    assert "nothing native" in result["reason"]


def test_a_broken_source_fails_with_the_compilers_line(port: Port) -> None:
    code, result, _ = port({
        "Makefile": "x: x.c\n\t$(CC) -o x x.c\n",
        "x.c": "int main(void) { return nonesuch; }\n",
    })
    assert (code, result["cause"]) == (1, "build")
    assert "nonesuch" in result["reason"]


def test_no_build_system_is_unsupported(port: Port) -> None:
    code, result, _ = port({"SConstruct": "Program('x')\n"})
    assert (code, result["cause"]) == (1, "unsupported")
    assert "SCons" in result["reason"]


def test_a_build_has_no_network_and_no_privilege(port: Port) -> None:
    checks = 'test "$$(wc -l < /proc/net/route)" -le 1 && test "$$(id -u)" != 0'
    probe = f"all:\n\t{checks}\n\t$(CC) -o x x.c\n"
    code, _, _ = port({"Makefile": probe, "x.c": _MAIN})
    assert code == 0


def test_a_build_and_its_tests_have_the_network_where_they_were_given_it(port: Port) -> None:
    route = 'test "$$(wc -l < /proc/net/route)" -gt 1'
    files = {"Makefile": f"x: x.c\n\t{route}\n\t$(CC) -o x x.c\ntest:\n\t{route}\n", "x.c": _MAIN}
    code, result, attempt = port(files, "--build-network")
    assert (code, result["package_tests"]["status"]) == (0, "passed")
    assert "the build and its tests had the network (--build-network)" in result["notes"]
    recipe = json.loads((attempt / "artifacts/recipe.json").read_text())
    assert [one["network"] for one in recipe["commands"] if one["name"] == "build"] == [True]
    assert recipe["package_tests"]["network"] is True


def test_tests_that_fail_hang_or_forge_change_their_own_record_alone(port: Port) -> None:
    hostile = "\tcp /bin/true hello; printf '# PASS: 5\\n# FAIL: 1\\n'; setsid sleep 1234 & exit 1\n"
    files = {"Makefile": f"hello: hello.c\n\t$(CC) -o hello hello.c\ncheck:\n{hostile}", "hello.c": _MAIN}
    code, result, attempt = port(files)
    assert (code, result["verdict"]) == (0, "verified")
    tests = result["package_tests"]
    assert (tests["status"], tests["command"]) == ("failed", "make check")
    assert tests["counts"] == {"passed": 5, "failed": 1, "skipped": 0}
    (artifact,) = result["artifacts"]
    copy = (attempt / "artifacts" / artifact["copy"]).read_bytes()
    assert hashlib.sha256(copy).hexdigest() == artifact["sha256"]


def test_failing_tests_are_a_failure_where_they_are_required(port: Port) -> None:
    files = {"Makefile": "x: x.c\n\t$(CC) -o x x.c\ntest:\n\t@echo no; false\n", "x.c": _MAIN}
    code, result, _ = port(files, "--tests", "require")
    assert (code, result["cause"]) == (1, "tests")
    assert "make test" in result["reason"]


def _replay(tmp_path: Path, engine: str, recipe: Path, name: str) -> tuple[int, dict[str, Any]]:
    again = tmp_path / name
    again.mkdir()
    done = subprocess.run(
        [Path(sys.executable).with_name("atesor"), "replay", recipe, "--container", _CONTAINER],
        env={**os.environ, "ATESOR_ATTEMPT_DIR": str(again), "ATESOR_ENGINE": engine},
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        check=False,
        timeout=900,
    )
    return done.returncode, json.loads((again / "result.json").read_text())


def test_a_recipe_is_replayed_from_an_empty_sandbox_and_refuses_another_source(
    port: Port, tmp_path: Path, engine: str
) -> None:
    files = {"Makefile": "x: x.c\n\t$(CC) -o x x.c\ntest: x\n\t./x\n", "x.c": _MAIN}
    _, first, attempt = port(files)
    recipe = attempt / "artifacts/recipe.json"
    select_engine(engine).remove(_CONTAINER)
    code, result = _replay(tmp_path, engine, recipe, "again")
    assert (code, result["verdict"], result["package_tests"]["status"]) == (0, "verified", "passed")
    assert [one["sha256"] for one in result["artifacts"]] == [one["sha256"] for one in first["artifacts"]]
    changed = json.loads(recipe.read_text()) | {"commit": "0" * 40, "ref": None}
    recipe.write_text(json.dumps(changed))
    code, result = _replay(tmp_path, engine, recipe, "changed")
    assert (code, result["cause"]) == (1, "source")


_WITH_CMOCKA = {
    "CMakeLists.txt": (
        "cmake_minimum_required(VERSION 3.5...3.30)\nproject(x C)\nadd_executable(x x.c)\n"
        "include(CTest)\nif (BUILD_TESTING)\n  find_package(cmocka 1.1 REQUIRED)\n  add_executable(t t.c)\n"
        "  target_link_libraries(t cmocka)\n  add_test(NAME t COMMAND t)\nendif()\n"
    ),
    "x.c": _MAIN,
    "t.c": (
        "#include <stdarg.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <setjmp.h>\n"
        "#include <cmocka.h>\n"
        "static void one(void **state) { (void)state; assert_int_equal(1, 1); }\n"
        "int main(void) { const struct CMUnitTest all[] = { cmocka_unit_test(one) };\n"
        "  return cmocka_run_group_tests(all, 0, 0); }\n"
    ),
}


def test_what_only_the_tests_need_is_installed_for_them_and_stands_in_the_recipe(
    port: Port, tmp_path: Path, engine: str
) -> None:
    code, result, attempt = port(_WITH_CMOCKA)
    assert (code, result["package_tests"]["reason"]) == (0, "")
    assert result["package_tests"]["counts"] == {"passed": 1, "failed": 0, "skipped": 0}
    recipe = json.loads((attempt / "artifacts/recipe.json").read_text())
    assert "libcmocka-dev" not in recipe["packages"]
    assert list(recipe["package_tests"]["packages"]) == ["libcmocka-dev"]
    select_engine(engine).remove(_CONTAINER)
    code, again = _replay(tmp_path, engine, attempt / "artifacts/recipe.json", "again")
    assert (code, again["package_tests"]["status"]) == (0, "passed")


def test_tests_that_nothing_helps_say_why(port: Port) -> None:
    files = {**_WITH_CMOCKA, "t.c": "#error no luck today\n"}
    code, result, _ = port(files)
    assert (code, result["package_tests"]["status"]) == (0, "error")
    assert result["package_tests"]["reason"].startswith("the tests could not be built: ")
    assert "no luck today" in result["package_tests"]["reason"]


def test_a_term_ends_everything_soon_and_says_so(tmp_path: Path, engine: str) -> None:
    files = {
        "Makefile": "x: x.c\n\t@echo STARTED; setsid sleep 1234 & sleep 1234; $(CC) -o x x.c\n",
        "x.c": _MAIN,
    }
    command, environ, attempt = _command(tmp_path, engine, files)
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE) as agent:
        assert agent.stdout is not None
        for line in agent.stdout:
            if line.startswith(b"STARTED"):
                break
        agent.send_signal(signal.SIGTERM)
        agent.stdout.read()
        code = agent.wait(timeout=300)
    result = json.loads((attempt / "result.json").read_text())
    assert (code, result["cause"]) == (143, "interrupted")
    assert result["reason"] == "stopped by SIGTERM during attempt 1/3"
    running = subprocess.run(
        [engine, "exec", _CONTAINER, "ps", "-eo", "args"], capture_output=True, text=True, check=True
    )
    assert "sleep 1234" not in running.stdout
