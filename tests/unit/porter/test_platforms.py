"""What is missing is found and installed by the platform's own names and package manager."""

import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_atesor.core.plan import Platform
from pytest_atesor.porter.dependencies import resolve_need
from pytest_atesor.porter.installer import Installer
from pytest_atesor.porter.needs import Need, NeedKind
from pytest_atesor.porter.platforms import PROFILES, profile_of
from pytest_atesor.porter.platforms.alpine import ALPINE
from pytest_atesor.porter.platforms.interface import Profile, TableIndex
from pytest_atesor.porter.recipe import Recipe, format_recipe_text
from pytest_atesor.porter.shell import Shell
from tests.unit.porter.fake_sandbox import FakeSandbox

_RECIPE = Recipe(
    url="https://example.org/o/p",
    url_used="https://example.org/o/p",
    platform="alpine",
    build_system="make",
    commit="1" * 40,
    packages={"zlib-dev": "1.3.1-r2"},
    name="p",
)


def _alpine(kind: NeedKind, name: str) -> str | None:
    found = resolve_need(Need(kind=kind, name=name), TableIndex(ALPINE.files))
    return found.package if found else None


@pytest.mark.parametrize(
    ("kind", "name", "package"),
    [
        (NeedKind.HEADER, "zlib.h", "zlib-dev"),
        (NeedKind.HEADER, "sys/acl.h", "acl-dev"),
        (NeedKind.HEADER, "attr/attributes.h", "attr-dev"),
        (NeedKind.HEADER, "glib.h", "glib-dev"),
        (NeedKind.HEADER, "openssl/ssl.h", "openssl-dev"),
        (NeedKind.HEADER, "X11/extensions/Xrandr.h", "libxrandr-dev"),
        (NeedKind.LIBRARY, "ssl", "openssl-dev"),
        (NeedKind.LIBRARY, "ncursesw", "ncurses-dev"),
        (NeedKind.PKG_CONFIG, "libevent", "libevent-dev"),
        (NeedKind.PKG_CONFIG, "wayland-client", "wayland-dev"),
        (NeedKind.CMAKE, "ZLIB", "zlib-dev"),
        (NeedKind.CMAKE, "CURL", "curl-dev"),
        (NeedKind.CMAKE, "OpenSSL", "openssl-dev"),
        (NeedKind.COMMAND, "gperf", "gperf"),
        (NeedKind.MACRO, "AX_PTHREAD", "autoconf-archive"),
        (NeedKind.MACRO, "AM_PATH_LIBGCRYPT", "libgcrypt-dev"),
        (NeedKind.WORDS, "libusb is required", "libusb-dev"),
        (NeedKind.WORDS, "RandR headers not found", "libxrandr-dev"),
    ],
    ids=lambda one: str(one).replace(" ", "-"),
)
def test_alpine_has_names_of_its_own(kind: NeedKind, name: str, package: str) -> None:
    assert _alpine(kind, name) == package


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (NeedKind.HEADER, "nonesuch.h"),
        (NeedKind.HEADER, "lib.h"),  # the end of zlib.h is no zlib.h
        (NeedKind.LIBRARY, "nonesuch"),
        (NeedKind.PKG_CONFIG, "event"),
        (NeedKind.COMMAND, "perf"),
    ],
    ids=lambda one: str(one).replace(" ", "-"),
)
def test_what_the_table_does_not_have_is_not_guessed(kind: NeedKind, name: str) -> None:
    assert _alpine(kind, name) is None


def test_every_platform_has_a_profile_and_an_index_or_a_table() -> None:
    assert set(PROFILES) == set(Platform)
    assert all(one.has_index or one.files for one in PROFILES.values())


@pytest.fixture
def install(tmp_path: Path) -> Callable[..., FakeSandbox]:
    def go(profile: Profile, *needs: Need) -> FakeSandbox:
        (tmp_path / "index").write_text("usr/include/zlib.h\tlibdevel/zlib1g-dev\n")
        sandbox = FakeSandbox([])
        installer = Installer(
            Shell(sandbox, deadline=None, output=None),
            index=tmp_path / "index",
            workspace=tmp_path,
            say=lambda _text: None,
            profile=profile,
        )
        found, unknown = installer.resolve(needs)
        assert unknown == []
        assert installer.install(found)
        return sandbox

    return go


@pytest.mark.parametrize(
    ("platform", "command"),
    [("alpine", "apk add --quiet zlib-dev"), ("debian", "get zlib1g-dev"), ("ubuntu", "get zlib1g-dev")],
)
def test_a_missing_header_is_installed_by_the_platforms_manager(
    install: Callable[..., FakeSandbox], platform: str, command: str
) -> None:
    sandbox = install(profile_of(platform), Need(kind=NeedKind.HEADER, name="zlib.h"))
    (script,) = sandbox.scripts(command)
    assert ("apt-get" in script) is (platform != "alpine")
    assert {one.user for one in sandbox.ran} == {"root"}


def test_a_package_that_a_rule_names_has_the_platforms_name(install: Callable[..., FakeSandbox]) -> None:
    assert install(ALPINE, Need(kind=NeedKind.PACKAGE, name="libsimde-dev")).scripts("apk add --quiet simde")


def test_nothing_is_asked_of_a_platform_that_tells_no_build_dependencies(tmp_path: Path) -> None:
    sandbox = FakeSandbox([])
    shell = Shell(sandbox, deadline=None, output=None)
    installer = Installer(
        shell, index=tmp_path / "index", workspace=tmp_path, say=lambda _text: None, profile=ALPINE
    )
    assert installer.build_depends("zlib") == ()
    assert sandbox.ran == []


def test_versions_are_read_off_apks_answer(tmp_path: Path) -> None:
    apk = tmp_path / "apk"
    apk.write_text(
        "#!/bin/sh\ncase $4 in\n"
        "gtk+3.0-dev) echo gtk+3.0-dev-3.24.49-r0;;\nzlib-dev) echo zlib-dev-1.3.1-r2;;\nesac\n"
    )
    apk.chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", "-eu", "-c", ALPINE.versions(["gtk+3.0-dev", "zlib-dev", "absent"])],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "gtk+3.0-dev=3.24.49-r0\nzlib-dev=1.3.1-r2\n"


def test_a_recipe_speaks_the_platforms_language() -> None:
    text = format_recipe_text(_RECIPE)
    assert "apk update" in text
    assert "apk add zlib-dev=1.3.1-r2" in text
    assert "apt-get" not in text
    assert "apt-get install -y --no-install-recommends" in format_recipe_text(
        replace(_RECIPE, platform="debian")
    )
