import hashlib
import json
import os
import shutil
import subprocess
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_atesor.errors import UsageError
from pytest_atesor.porter.platforms.debian import DEBIAN
from pytest_atesor.porter.recipe import (
    Command,
    PackageTests,
    Recipe,
    format_recipe,
    format_recipe_text,
    parse_recipe,
    parse_versions,
)
from pytest_atesor.porter.recipe_fetch import format_fetch

_BUILD = Command(
    name="build",
    argv=("sh", "-eu", "-c", "make -j 2"),
    cwd="/workspace/build/p",
    environment={"LC_ALL": "C.UTF-8"},
)
_RECIPE = Recipe(
    url="https://example.org/o/p",
    url_used="deb:p",
    platform="debian",
    build_system="make",
    ref="v1",
    sha256="0" * 64,
    fixes=("no-werror",),
    packages={"libfoo-dev": "1.2-3"},
    commands=(_BUILD,),
    name="p",
    version="1.0-2",
)
_FETCH = format_fetch(url="deb:p", name="p", commit=None, sha256="0" * 64, version="1.0-2")
_TEXT = f"""# Recipe: https://example.org/o/p

Platform debian, build system make. Replay it and prove it again with `atesor replay recipe.json`; by hand, \
run these blocks in their order in an empty sandbox.

## Source

From deb:p, SHA-256 {"0" * 64}; unpacked below `/workspace/src`.

### Directories (root, network on)

```sh
cd /workspace && install -d -o builder -g builder src build stage home
{DEBIAN.refresh}
```

### Fetch (builder, network on)

```sh
{_FETCH}
```

## Fixes

- no-werror

## Packages (root, network on)

```sh
apt-get install -y --no-install-recommends libfoo-dev=1.2-3
```

## build (builder, network off)

```sh
cd /workspace/build/p && env LC_ALL=C.UTF-8 sh -eu -c 'make -j 2'
```
"""


def test_a_recipe_survives_its_json() -> None:
    assert parse_recipe(format_recipe(_RECIPE), "recipe.json") == _RECIPE


def test_a_recipe_reads_as_blocks_in_their_order() -> None:
    assert format_recipe_text(_RECIPE) == _TEXT


@pytest.mark.parametrize(("network", "said"), [(False, "network off"), (True, "network on")])
def test_a_recipe_says_whether_the_tests_had_the_network(*, network: bool, said: str) -> None:
    tests = PackageTests(
        framework="make", command="make test", prepare="", script="make test", cwd="/w", network=network,
        packages={"libcmocka-dev": "1.1.7-3+b1"},
    )  # fmt: skip
    recipe = replace(_RECIPE, package_tests=tests)
    assert parse_recipe(format_recipe(recipe), "recipe.json") == recipe
    assert "## Packages of the tests (root, network on)" in format_recipe_text(recipe)
    assert f"## Package tests: make test (builder, {said}, may fail)" in format_recipe_text(recipe)


def test_a_recipe_from_before_tests_recorded_the_network_had_it_off() -> None:
    tests = PackageTests(framework="make", command="make test", prepare="", script="make test", cwd="/w")
    document = json.loads(format_recipe(replace(_RECIPE, package_tests=tests)))
    del document["package_tests"]["network"], document["package_tests"]["packages"]
    assert parse_recipe(json.dumps(document), "recipe.json").package_tests == tests


def test_a_script_cannot_end_its_block() -> None:
    hostile = replace(_BUILD, argv=("sh", "-c", "true\n```\n# forged\x1b[31m"))
    text = format_recipe_text(replace(_RECIPE, commands=(hostile,)))
    assert "\n````sh\n" in text
    assert "\x1b" not in text


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"schema_version": "recipe_v9"}, id="version"),
        pytest.param({"commands": [{"name": "x"}]}, id="half-a-command"),
        pytest.param({"commands": "make"}, id="commands-no-list"),
        pytest.param({"packages": {"a": 1}}, id="version-no-string"),
        pytest.param({"packages": {"-oDPkg::Pre-Invoke::=id": "1"}}, id="package-is-an-option"),
        pytest.param({"packages": {"a": "1 -y"}}, id="version-is-two-words"),
        pytest.param({"url": None}, id="no-url"),
        pytest.param({"more": "x"}, id="unknown-field"),
        pytest.param(
            {
                "package_tests": {
                    "framework": "make",
                    "command": "make test",
                    "prepare": "",
                    "script": "make test",
                    "cwd": "/w",
                    "environment": {},
                    "network": "on",
                }
            },
            id="network-no-bool",
        ),
    ],
)
def test_what_is_no_recipe_is_refused_in_one_line(change: dict[str, object]) -> None:
    text = json.dumps(json.loads(format_recipe(_RECIPE)) | change)
    with pytest.raises(UsageError) as caught:
        parse_recipe(text, "x.json")
    assert "x.json is no recipe" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_versions_are_read_from_name_equals_version() -> None:
    assert parse_versions("a=1:2-3\nnone=\nb+c=4=5\n") == {"a": "1:2-3", "b+c": "4=5"}


def _serve(tmp_path: Path, top: str) -> Path:
    tree = tmp_path / "tree"
    (tree / top).mkdir(parents=True)
    (tree / top / "x.c").write_text("int x;\n")
    archive = tmp_path / "source.tar.gz"
    with tarfile.open(archive, "w:gz") as made:
        made.add(tree, arcname=".", filter=lambda one: None if one.name == "." and top == "" else one)
    return archive


def _fetch(tmp_path: Path, script: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["/bin/sh", "-c", script.replace("/workspace", str(tmp_path / "w"))],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("is_right", [True, False], ids=["the-archive", "another-archive"])
def test_the_fetch_block_takes_the_archive_of_that_digest_only(tmp_path: Path, *, is_right: bool) -> None:
    archive = _serve(tmp_path, "p-1.0")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest() if is_right else "0" * 64
    (tmp_path / "w/src").mkdir(parents=True)
    script = format_fetch(url=archive.as_uri(), name="p", commit=None, sha256=digest, version="")
    assert (_fetch(tmp_path, script).returncode == 0) is is_right
    assert (tmp_path / "w/src/p/x.c").is_file() is is_right


@pytest.mark.skipif(shutil.which("unzip") is None, reason="unzip is not installed; sandboxes have it")
@pytest.mark.parametrize("top", ["p-1.0/", ""], ids=["one-directory", "no-directory"])
def test_the_fetch_block_unpacks_a_zip_with_the_bits_that_builds_need(tmp_path: Path, top: str) -> None:
    archive = tmp_path / "source.zip"
    with zipfile.ZipFile(archive, "w") as made:
        for name, mode in {"configure": 0o100755, "x.c": 0o100600, "y.c": 0}.items():
            member = zipfile.ZipInfo(f"{top}{name}")
            member.create_system, member.external_attr = 3, mode << 16
            made.writestr(member, "int x;\n")
    (tmp_path / "w/src").mkdir(parents=True)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    script = format_fetch(url=archive.as_uri(), name="p", commit=None, sha256=digest, version="")
    done = _fetch(tmp_path, script)
    assert done.returncode == 0, done.stderr
    made_here = tmp_path / "w/src/p"
    assert sorted(one.name for one in made_here.iterdir()) == ["configure", "x.c", "y.c"]
    assert os.access(made_here / "configure", os.X_OK)
    assert not os.access(made_here / "x.c", os.X_OK)
    assert (made_here / "x.c").stat().st_mode & 0o777 == 0o644


def test_the_fetch_block_fails_where_a_zip_is_cut_off(tmp_path: Path) -> None:
    archive = tmp_path / "source.zip"
    archive.write_bytes(b"PK\x03\x04 and no more")
    (tmp_path / "w/src").mkdir(parents=True)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    script = format_fetch(url=archive.as_uri(), name="p", commit=None, sha256=digest, version="")
    assert _fetch(tmp_path, script).returncode != 0
    assert not (tmp_path / "w/src/p").exists()


def test_the_fetch_block_checks_a_git_commit_out(tmp_path: Path) -> None:
    upstream = tmp_path / "upstream"
    upstream.mkdir()
    who = "git -c user.name=t -c user.email=t@t commit -qm"
    made = f"git init -q && touch a && git add a && {who} x && git rev-parse HEAD && git rm -q a && {who} y"
    shown = subprocess.run(
        ["/bin/sh", "-c", f"{made} >/dev/null"], cwd=upstream, capture_output=True, text=True, check=True
    )
    commit = shown.stdout.split()[0]
    script = format_fetch(url=upstream.as_uri(), name="p", commit=commit, sha256=None, version="")
    done = _fetch(tmp_path, script)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "w/src/p/a").is_file()
