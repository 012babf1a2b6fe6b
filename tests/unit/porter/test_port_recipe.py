import json
from dataclasses import replace

import pytest

from pytest_atesor.errors import UsageError
from pytest_atesor.porter.recipe import (
    Command,
    Recipe,
    format_recipe,
    format_recipe_text,
    parse_recipe,
    parse_versions,
)

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
)
_TEXT = f"""# Recipe: https://example.org/o/p

Platform debian, build system make. Replay it and prove it again with `atesor replay recipe.json`; by hand, \
run these blocks in an empty sandbox.

## Source

From deb:p, SHA-256 {"0" * 64}; unpacked below `/workspace/src`.

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
        pytest.param({"url": None}, id="no-url"),
        pytest.param({"more": "x"}, id="unknown-field"),
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
