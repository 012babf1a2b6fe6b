"""The rules that make the catalogue from Debian's metadata."""

import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_atesor.core.package_list import parse_package_list

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))  # maintainers' scripts, which no distribution installs

import catalogue  # noqa: E402 - found only through the line above
import debian_index  # noqa: E402 - the same
import upstream_urls  # noqa: E402 - the same

# Excerpts of trixie's indexes, shortened to fields and files that matter.
FPING = """\
Package: fping
Binary: fping
Version: 5.1-1
Build-Depends: debhelper-compat (= 13)
Architecture: any
Standards-Version: 4.6.0
Format: 3.0 (quilt)
Checksums-Sha256:
 23cff7a38fc9ca18df7d2de744d51b63b636c2ba358111787508a7349a129b96 1992 fping_5.1-1.dsc
 1ee5268c063d76646af2b4426052e7d81a42b657e6a77d8e7d3d2e60fd7409fe 191224 fping_5.1.orig.tar.gz
 14b60acdf036175b119270b626d9d7c4b1b86399372bff87aba9f1ded2d8070b 195 fping_5.1.orig.tar.gz.asc
 544c737e7616253b00270fadd1c692275e289801609b82d3fcb88f9e87d472bb 11344 fping_5.1-1.debian.tar.xz
Homepage: https://www.fping.org/
Section: net
"""
FPING_RISCV64 = """\
Package: fping
Source: fping (5.1-1)
Installed-Size: 79
Architecture: riscv64
Depends: libcap2-bin, netbase, libc6 (>= 2.34)
Enhances: netdata (>= 1.5)
Tag: admin::monitoring, implemented-in::c, interface::commandline,
 network::scanner, protocol::ip
Section: net
"""
GRON = """\
Package: gron
Binary: gron
Build-Depends: debhelper-compat (= 13), dh-golang, golang-any, golang-github-fatih-color-dev, pandoc
Standards-Version: 4.6.2
Format: 3.0 (quilt)
Checksums-Sha256:
 fcd12b1b7a2b4d9e8340a451285fd679f2d66933349351c527ac3a5d6cb46fa9 256880 gron_0.7.1.orig.tar.xz
Homepage: https://github.com/tomnomnom/gron
Go-Import-Path: github.com/tomnomnom/gron
"""
GRON_RISCV64 = """\
Package: gron
Source: gron (0.7.1-2)
Installed-Size: 5874
Architecture: riscv64
Depends: libc6 (>= 2.34)
Built-Using: golang-1.24 (= 1.24.4-1), golang-github-fatih-color (= 1.17.0-1)
Section: utils
"""
LIBX11_BUILD_DEPENDS = (
    "debhelper (>= 13), gcc-multilib [amd64 i386] <!nobiarch>, xsltproc <!nodoc>, default-jdk [!riscv64], "
    "valgrind <!nocheck>, libxcb1-dev [linux-any], quilt | dpatch"
)


def parse_one(text: str) -> dict[str, str]:
    (stanza,) = debian_index.parse_stanzas(text.splitlines(keepends=True))
    return stanza


def make_source(name: str, **changes: Any) -> debian_index.Source:
    values: dict[str, Any] = {
        "name": name,
        "version": "1.2",
        "suffix": "gz",
        "is_signed": False,
        "is_native": False,
        "has_kernel_module": False,
        "orig_bytes": 100_000,
        "homepage": f"https://github.com/someone/{name}",
        "import_path": "",
        "build_depends": frozenset(),
        "standards": (4, 7, 0),
    }
    return debian_index.Source(**(values | changes))


def make_binary(name: str, **changes: Any) -> debian_index.Binary:
    values: dict[str, Any] = {
        "name": name,
        "source": name,
        "section": "utils",
        "depends": frozenset({"libc6"}),
        "uses": frozenset(),
        "tags": frozenset(),
        "modules": 0,
        "is_python_module": False,
        "installed_bytes": 100_000,
    }
    return debian_index.Binary(**(values | changes))


def make_entry(name: str, url: str, *, source: str, score: int) -> catalogue.Entry:
    return catalogue.Entry(
        name=name, url=url, source=source, lang="c", group="utils", tags=("cmake",), score=score
    )


@pytest.fixture(scope="module")
def tables() -> catalogue.Tables:
    return catalogue.read_tables(ROOT / "tools" / "catalogue.toml")


def test_stanza_becomes_a_source() -> None:
    source = debian_index.parse_source(parse_one(FPING))
    assert (source.name, source.version, source.suffix) == ("fping", "5.1", "gz")
    assert source.is_signed
    assert not source.is_native
    assert source.orig_bytes == 191224
    assert source.build_depends == {"debhelper-compat"}
    assert source.standards == (4, 6, 0)


def test_stanza_becomes_a_binary() -> None:
    binary = debian_index.parse_binary(parse_one(FPING_RISCV64))
    assert (binary.name, binary.source, binary.section) == ("fping", "fping", "net")
    assert binary.depends == {"libcap2-bin", "netbase", "libc6"}
    assert {"implemented-in::c", "network::scanner"} <= binary.tags
    assert binary.installed_bytes == 79 * 1024
    assert debian_index.parse_binary(parse_one(GRON_RISCV64)).modules == 2


def test_binary_tied_to_one_python_is_a_module() -> None:
    text = FPING_RISCV64.replace("netbase", "python3 (<< 3.14), python3 (>= 3.13~)")
    assert debian_index.parse_binary(parse_one(text)).is_python_module
    assert not debian_index.parse_binary(parse_one(FPING_RISCV64)).is_python_module


def test_source_without_upstream_tarball_is_native() -> None:
    text = FPING.replace(".orig", "").replace("3.0 (quilt)", "3.0 (native)")
    assert debian_index.parse_source(parse_one(text)).is_native


def test_relations_leave_out_other_architectures_tests_and_manuals() -> None:
    assert debian_index.parse_relations(LIBX11_BUILD_DEPENDS) == {
        "debhelper",
        "libxcb1-dev",
        "quilt",
        "dpatch",
    }


@pytest.mark.parametrize(
    ("homepage", "url"),
    [
        pytest.param("https://github.com/lz4/lz4", "https://github.com/lz4/lz4", id="github"),
        pytest.param("http://github.com/lz4/lz4.git/", "https://github.com/lz4/lz4", id="github-git-suffix"),
        pytest.param("https://github.com/lz4/lz4/wiki", "https://github.com/lz4/lz4", id="github-page"),
        pytest.param("https://github.com/lz4", None, id="github-owner"),
        pytest.param("https://github.com/lz4/mono/tree/main/lz4", None, id="github-part-of-a-repository"),
        pytest.param("https://github.com/debian-pkgs/lz4", None, id="github-debians-own"),
        pytest.param("https://lz4.github.io/lz4/", "https://github.com/lz4/lz4", id="project-page"),
        pytest.param("https://lz4.github.io/website/", None, id="project-page-of-another-repository"),
        pytest.param("https://lz4.github.io/", None, id="owner-page"),
        pytest.param("https://gitlab.com/a/b/lz4", "https://gitlab.com/a/b/lz4.git", id="gitlab-subgroup"),
        pytest.param(
            "https://gitlab.gnome.org/GNOME/lz4/-/tree/main",
            "https://gitlab.gnome.org/GNOME/lz4.git",
            id="gitlab-instance-page",
        ),
        pytest.param("https://gitlab.org/a/lz4", None, id="gitlab-no-instance"),
        pytest.param("https://codeberg.org/a/lz4/", "https://codeberg.org/a/lz4", id="codeberg"),
        pytest.param("https://git.sr.ht/~a/lz4", "https://git.sr.ht/~a/lz4", id="sourcehut"),
        pytest.param("https://sr.ht/~a/lz4", None, id="sourcehut-project"),
        pytest.param("https://pagure.io/lz4", "https://pagure.io/lz4.git", id="pagure"),
        pytest.param(
            "https://git.kernel.org/cgit/utils/lz4/lz4.git/about/",
            "https://git.kernel.org/pub/scm/utils/lz4/lz4.git",
            id="kernel-cgit",
        ),
        pytest.param(
            "https://netfilter.org/projects/lz4/index.html", "https://git.netfilter.org/lz4", id="netfilter"
        ),
        pytest.param("https://salsa.debian.org/debian/lz4", None, id="salsa"),
        pytest.param("https://lz4.org", None, id="own-site"),
    ],
)
def test_homepage_gives_the_repository_only_where_it_must(homepage: str, url: str | None) -> None:
    assert upstream_urls.derive_url(make_source("lz4", homepage=homepage), {}, {}) == url


@pytest.mark.parametrize(
    ("path", "url"),
    [
        pytest.param("github.com/cli/cli/v2", "https://github.com/cli/cli", id="github-major-version"),
        pytest.param("golang.org/x/tools", "https://go.googlesource.com/tools", id="golang-x"),
        pytest.param("example.org/tool", None, id="vanity"),
    ],
)
def test_go_import_path_gives_the_repository(path: str, url: str | None) -> None:
    source = make_source("tool", homepage="https://tool.example.org/", import_path=path)
    assert upstream_urls.derive_url(source, {}, {}) == url


def test_table_outweighs_the_homepage() -> None:
    urls = {"zlib": "https://github.com/madler/zlib"}
    assert (
        upstream_urls.derive_url(make_source("zlib", homepage="http://zlib.net/"), urls, {}) == urls["zlib"]
    )


@pytest.mark.parametrize(
    ("changes", "gnu", "url"),
    [
        pytest.param(
            {"is_signed": True}, {}, "https://ftp.gnu.org/gnu/grep/grep-3.11.tar.xz", id="signed-by-upstream"
        ),
        pytest.param({}, {}, None, id="unsigned"),
        pytest.param(
            {"version": "3.11+dfsg", "suffix": "gz"},
            {"grep": "grep.tar.xz"},
            "https://ftp.gnu.org/gnu/grep/grep-3.11.tar.xz",
            id="table-repacked",
        ),
        pytest.param({"is_signed": True, "version": "3.11~rc1"}, {}, None, id="no-release"),
        pytest.param({"is_signed": True, "name": "zgrep"}, {}, None, id="another-program"),
    ],
)
def test_gnu_programs_come_as_releases_where_their_name_is_certain(
    changes: Mapping[str, Any], gnu: Mapping[str, str], url: str | None
) -> None:
    values = {"homepage": "https://www.gnu.org/software/grep/", "version": "3.11", "suffix": "xz", **changes}
    name = values.pop("name", "grep")
    assert upstream_urls.derive_url(make_source(name, **values), {}, gnu) == url


@pytest.mark.parametrize(
    ("build_depends", "depends", "tags", "lang"),
    [
        pytest.param({"golang-any"}, {"libc6"}, set(), "go", id="go"),
        pytest.param({"dh-cargo"}, {"libc6", "libgcc-s1"}, set(), "rust", id="rust"),
        pytest.param({"cargo", "cmake"}, {"libc6", "libstdc++6"}, set(), "c++", id="c++-with-some-rust"),
        pytest.param({"cargo"}, {"libc6"}, {"implemented-in::c"}, "c", id="c-with-some-rust"),
        pytest.param({"cmake"}, {"libc6", "libstdc++6"}, set(), "c++", id="links-c++"),
        pytest.param(set(), {"libc6"}, {"implemented-in::c++"}, "c++", id="tagged-c++"),
        pytest.param(set(), {"libc6", "libstdc++6"}, {"implemented-in::c"}, "c++", id="rewritten-in-c++"),
        pytest.param(set(), {"libc6"}, set(), "c", id="c"),
    ],
)
def test_language_follows_toolchain_then_linking_then_tags(
    build_depends: set[str], depends: set[str], tags: set[str], lang: str
) -> None:
    main = make_binary("x", depends=frozenset(depends), tags=frozenset(tags))
    assert catalogue.decide_language(frozenset(build_depends), main) == lang


@pytest.mark.parametrize(
    ("build_depends", "build_system"),
    [
        pytest.param({"dh-golang", "cmake"}, "go", id="go"),
        pytest.param({"dh-cargo", "cmake"}, "cargo", id="crate-that-builds-c"),
        pytest.param({"cargo", "meson"}, "meson", id="meson-that-calls-cargo"),
        pytest.param({"cmake", "debhelper-compat"}, "cmake", id="cmake"),
        pytest.param({"automake-1.16"}, "autotools", id="autotools"),
        pytest.param({"debhelper-compat"}, None, id="untold"),
    ],
)
def test_build_system_follows_from_build_dependencies(
    build_depends: set[str], build_system: str | None
) -> None:
    assert catalogue.decide_build_system(frozenset(build_depends)) == build_system


@pytest.mark.parametrize(
    ("name", "changes", "reason"),
    [
        pytest.param("python-lz4", {}, "a module, plug-in, toolchain or Debian's own", id="module"),
        pytest.param("kodi-vfs-sftp", {}, "a module, plug-in, toolchain or Debian's own", id="plug-in"),
        pytest.param("gcc-14", {}, "a module, plug-in, toolchain or Debian's own", id="toolchain"),
        pytest.param("lintian-brush", {"is_native": True}, "native to Debian", id="native"),
        pytest.param("v4l2loopback", {"has_kernel_module": True}, "a kernel module", id="kernel-module"),
        pytest.param("vis-tools", {"version": "0.0~git20150101"}, "never released", id="snapshot"),
        pytest.param("chromium", {"orig_bytes": 900_000_000}, "huge", id="huge"),
        pytest.param(
            "pandoc", {"build_depends": frozenset({"ghc", "cmake"})}, "built with ghc", id="haskell"
        ),
        pytest.param("lz4", {}, None, id="none"),
        pytest.param("gitg", {"version": "44"}, None, id="git-in-a-name-only"),
    ],
)
def test_obstacles_keep_a_package_out(
    name: str, changes: Mapping[str, Any], reason: str | None, tables: catalogue.Tables
) -> None:
    assert catalogue.find_obstacle(make_source(name, **changes), tables) == reason


def test_known_package_gets_in_whatever_the_rules_say(tables: catalogue.Tables) -> None:
    openssl = make_source("openssl", orig_bytes=53_000_000, homepage="https://openssl-library.org")
    entry = catalogue.plan_entry(openssl, [make_binary("openssl")], 0, tables)
    assert isinstance(entry, catalogue.Entry)
    assert entry.url == "https://github.com/openssl/openssl"


def test_program_that_no_project_needs_stays_out(tables: catalogue.Tables) -> None:
    found = catalogue.plan_entry(make_source("unheard-of"), [make_binary("unheard-of")], 0, tables)
    assert found == catalogue.Skipped(source="unheard-of", score=0, reason="few projects need it")


def test_excerpts_become_an_entry(tables: catalogue.Tables) -> None:
    source = debian_index.parse_source(parse_one(GRON))
    main = debian_index.parse_binary(parse_one(GRON_RISCV64))
    assert catalogue.plan_entry(source, [main], 0, tables) == catalogue.Entry(
        name="gron",
        url="https://github.com/tomnomnom/gron",
        source="gron",
        lang="go",
        group="utils",
        tags=("go",),
        score=0,
    )


def test_large_source_with_large_binaries_is_slow(tables: catalogue.Tables) -> None:
    libraries = [make_binary(f"libssl{part}", installed_bytes=3_000_000) for part in range(2)]
    for orig_bytes, compiled, tags in [
        (53_000_000, libraries, ("slow",)),
        (53_000_000, libraries[:1], ()),
        (100_000, libraries, ()),
    ]:
        entry = catalogue.plan_entry(make_source("openssl", orig_bytes=orig_bytes), compiled, 0, tables)
        assert isinstance(entry, catalogue.Entry)
        assert entry.tags == tags


def test_namesake_stands_for_its_source_else_the_most_needed() -> None:
    scores = {"libcurl4": 500, "curl": 60}
    binaries = [make_binary(name) for name in ("libcurl4", "curl", "libcurl3-gnutls")]
    for source, first in [("curl", "curl"), ("curl-team", "libcurl4")]:
        assert catalogue.rank_binaries(source, binaries, scores)[0].name == first


def test_score_counts_other_projects_once() -> None:
    sources = [
        make_source("base", homepage="https://github.com/kind/base"),
        make_source("sibling", homepage="https://github.com/kind/sibling"),
        make_source("one", homepage="https://one.desktop.org/", build_depends=frozenset({"base"})),
        make_source("two", homepage="https://two.desktop.org/"),
        make_source("three", homepage="https://three.org/"),
    ]
    binaries = [
        make_binary("base"),
        make_binary("sibling", depends=frozenset({"base"})),
        make_binary("two", depends=frozenset({"base"})),
        make_binary("three", uses=frozenset({"base"})),
    ]
    assert catalogue.count_scores(sources, binaries) == ({"base": 2}, {"base": 2})


def test_names_of_different_repositories_are_told_apart() -> None:
    chosen = catalogue.choose_entries([
        make_entry("coreutils", "https://github.com/uutils/coreutils", source="rust-coreutils", score=99),
        make_entry("coreutils", "https://ftp.gnu.org/gnu/coreutils/c.tar.xz", source="coreutils", score=1),
    ])
    assert [(entry.name, entry.source) for entry in chosen] == [
        ("coreutils", "coreutils"),
        ("rust-coreutils", "rust-coreutils"),
    ]


def test_one_repository_gets_one_entry() -> None:
    chosen = catalogue.choose_entries([
        make_entry("lua", "https://github.com/lua/lua", source="lua5.1", score=3),
        make_entry("lua", "https://github.com/Lua/lua", source="lua5.4", score=9),
    ])
    assert [(entry.name, entry.source) for entry in chosen] == [("lua", "lua5.4")]


def test_format_has_one_package_per_line() -> None:
    entry = make_entry("fd", "https://github.com/sharkdp/fd", source="rust-fd-find", score=2)
    assert catalogue.format_catalogue([entry, entry]) == (
        "{\n"
        '  "$schema_version": 1,\n'
        '  "defaults": {"max_attempts": 5, "timeout_seconds": 2400},\n'
        '  "packages": [\n'
        '    {"name": "fd", "url": "https://github.com/sharkdp/fd", "mirrors": ["deb:rust-fd-find"], '
        '"lang": "c", "group": "utils", "tags": ["cmake"]},\n'
        '    {"name": "fd", "url": "https://github.com/sharkdp/fd", "mirrors": ["deb:rust-fd-find"], '
        '"lang": "c", "group": "utils", "tags": ["cmake"]}\n'
        "  ]\n"
        "}\n"
    )


def test_result_does_not_depend_on_the_order_of_the_indexes(tables: catalogue.Tables) -> None:
    names = sorted(tables.known)[:60]
    sources = [make_source(name) for name in names]
    binaries = [make_binary(f"{name}-{part}", source=name) for name in names for part in ("tools", "bin")]
    expected = catalogue.format_catalogue(catalogue.plan_catalogue(sources, binaries, tables)[0])
    order = random.Random(7)  # noqa: S311 - any order will do
    order.shuffle(sources)
    order.shuffle(binaries)
    assert catalogue.format_catalogue(catalogue.plan_catalogue(sources, binaries, tables)[0]) == expected


def test_script_writes_the_same_file_from_the_same_cache(tmp_path: Path) -> None:
    lists = tmp_path / "cache" / "lists"
    lists.mkdir(parents=True)
    (lists / "mirror_dists_trixie_main_source_Sources").write_text(f"{FPING}\n{GRON}", "utf-8")
    packages = f"{FPING_RISCV64}\n{GRON_RISCV64}"
    (lists / "mirror_dists_trixie_main_binary-riscv64_Packages").write_text(packages, "utf-8")
    outputs = [tmp_path / "first.json", tmp_path / "second.json"]
    for output in outputs:
        assert catalogue.main(["--cache", str(tmp_path / "cache"), "--output", str(output)]) == 0
    assert outputs[0].read_bytes() == outputs[1].read_bytes()
    written = parse_package_list(outputs[0].read_bytes(), "first.json").entries
    assert [(entry.name, entry.mirrors) for entry in written] == [
        ("fping", ("deb:fping",)),
        ("gron", ("deb:gron",)),
    ]


def test_cached_indexes_of_the_suite_are_used_without_apt(tmp_path: Path) -> None:
    lists = tmp_path / "lists"
    lists.mkdir()
    for suite in ("trixie", "forky"):
        (lists / f"mirror_dists_{suite}_main_source_Sources").touch()
        (lists / f"mirror_dists_{suite}_main_binary-riscv64_Packages").touch()
    said: list[str] = []
    found = debian_index.fetch_indexes(tmp_path, "trixie", refresh=False, say=said.append)
    assert found == (
        lists / "mirror_dists_trixie_main_source_Sources",
        lists / "mirror_dists_trixie_main_binary-riscv64_Packages",
    )
    assert said == []


def test_apt_sources_name_the_machines_archive() -> None:
    text = debian_index.format_apt_sources("http://mirror.example/debian/", "trixie")
    assert text.startswith("Types: deb deb-src\nURIs: http://mirror.example/debian/\nSuites: trixie\n")
    assert "Architectures: riscv64\n" in text
