"""Names that are not ASCII or no text at all, and odd locales: it works, or a line says why not."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from lab import Lab, finish

UTF8_OFF = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
LOCALES = {
    "C": {"LC_ALL": "C"},
    "an ASCII terminal": {"PYTHONIOENCODING": "ascii"},
}


@pytest.fixture
def make_lab(tmp_path: Path) -> Callable[[bytes], Lab]:
    return lambda name: Lab(tmp_path / os.fsdecode(name))


@pytest.mark.parametrize("locale", LOCALES)
@pytest.mark.parametrize("workers", ["-n0", "-n1"])
def test_a_rootdir_with_umlauts_works_in_every_locale(
    make_lab: Callable[[bytes], Lab], locale: str, workers: str
) -> None:
    lab = make_lab("käse".encode())
    lab.write_manifest({"grün": "exit 0"})
    run = lab.run("m.yaml", workers, "--junitxml=jünit.xml", **LOCALES[locale])
    assert run.code == 0, run.out + run.err
    assert (lab.root / "jünit.xml").exists()
    assert [case["status"] for case in lab.results()["cases"]] == ["PASS"]


@pytest.mark.parametrize("locale", LOCALES)
def test_an_answer_is_printed_in_every_locale(make_lab: Callable[[bytes], Lab], locale: str) -> None:
    lab = make_lab("käse".encode())
    lab.write_list("x", {"a": "pass"})
    run = lab.run("--atesor-list=x", "--atesor-plan-only", "--atesor-output-root=grün", **LOCALES[locale])
    assert (run.code, run.err) == (0, "")
    assert run.out.startswith("atesor: planned 1 case of packages/x.json in ")


REFUSED = {
    "rootdir without UTF-8": (
        "kä".encode(),
        "-n1",
        UTF8_OFF,
        "Python takes file names for ascii here",
    ),
    "rootdir of bytes": (b"k\xe4se", "-n1", {}, "the rootdir 'PATH/k\\udce4se' is not UTF-8"),
    "label without UTF-8": (b"root", "-n0", UTF8_OFF, "Python takes file names for ascii here"),
}


@pytest.mark.parametrize(("name", "workers", "locale", "message"), REFUSED.values(), ids=list(REFUSED))
def test_what_cannot_be_told_is_refused_in_one_line(
    make_lab: Callable[[bytes], Lab], name: bytes, workers: str, locale: dict[str, str], message: str
) -> None:
    lab = make_lab(name)
    lab.write_manifest({"grün": "exit 0"})
    run = lab.run("m.yaml", workers, **locale)
    assert len(run.err.splitlines()) == 1, run.err
    line = run.err.strip()
    assert line.startswith(f"atesor: error: {message.replace('PATH', str(lab.root.parent))}")
    assert line.endswith("unset" if locale else "rename it, or run without -n")
    assert run.code == 1
    assert not (lab.root / "runs").exists()


def test_a_rootdir_of_bytes_works_without_workers(make_lab: Callable[[bytes], Lab]) -> None:
    lab = make_lab(b"k\xe4se")
    lab.write_list("x", {"a": "pass"})
    run = lab.run("--atesor-list=x", "-n0", PYTHONIOENCODING="ascii:backslashreplace")
    assert run.code == 0, run.out + run.err
    assert [case["status"] for case in lab.results()["cases"]] == ["PASS"]


TERMINALS = {
    "C": (UTF8_OFF, "緑"),
    "ASCII": ({"PYTHONIOENCODING": "ascii"}, "緑"),
    "Latin": ({"PYTHONIOENCODING": "latin-1"}, r"\u7dd1"),
}


@pytest.mark.parametrize(("locale", "shown"), TERMINALS.values(), ids=list(TERMINALS))
def test_every_command_answers_on_a_terminal_that_cannot_show_it(
    make_lab: Callable[[bytes], Lab], locale: dict[str, str], shown: str
) -> None:
    lab = make_lab("日".encode())
    lab.write_manifest({"緑": f"test -e {lab.root}/works", "red": "exit 0"})
    (lab.root / "works").touch()
    assert lab.run("m.yaml", "-n0").code == 0
    (lab.root / "works").unlink()
    assert lab.run("m.yaml", "-n0").code == 4
    first, second = (str(bundle) for bundle in lab.bundles)
    answers = {
        ("report", first): (0, "wrote "),
        ("compare", first, second): (1, f"newly failing (1):\n  {shown}  PASS -> FAIL"),
        ("compare", "--json", first, second): (1, '"緑"'),
        ("compare", "--names", first, second): (1, "緑\n"),
        ("history",): (0, "2 planned: 2 PASS"),
        ("history", "red"): (0, "PASS"),
        ("resources", "copy", "日"): (0, "written"),
        ("report", "日"): (1, ""),
        ("history", "--output-root", "無"): (2, ""),
        ("batch", "resume", "日"): (1, ""),
    }
    for arguments, (code, words) in answers.items():
        process = lab.start(*arguments, module=("pytest_atesor.cli",), **locale)
        run = finish(process)
        assert run.code == code, (arguments, run.out, run.err)
        assert words in run.out, (arguments, run.out)
        assert "Traceback" not in run.err
        assert (len(run.err.splitlines()) == 1) is (not words), (arguments, run.err)


@pytest.mark.parametrize("arguments", [["report"], ["compare"], ["resources", "copy"]])
def test_a_bundle_below_a_directory_of_bytes_is_named_without_a_traceback(
    make_lab: Callable[[bytes], Lab], arguments: list[str]
) -> None:
    lab = make_lab(b"k\xe4se")
    lab.write_list("x", {"a": "pass"})
    assert lab.run("--atesor-list=x", "-n0", PYTHONIOENCODING="ascii:backslashreplace").code == 0
    root = lab.bundles[0]
    targets = {"report": [root], "compare": [root, root], "copy": [lab.root / "copy"]}[arguments[-1]]
    process = lab.start(*arguments, *map(str, targets), module=("pytest_atesor.cli",))
    run = finish(process)
    assert (run.code, run.err) == (0, ""), run.out + run.err
