import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_atesor.core.names import (
    LONGEST_NAME_BYTES,
    check_name,
    derive_marks,
    derive_owner_repo,
    derive_package_name,
    make_batch_id,
    make_case_ids,
    redact_text,
)

SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+@~-]*")


@pytest.mark.parametrize(
    "name", ["zlib", "libsigc++", "c-ares", "yaml-cpp", "7zip", "node.js", "Z", "a_b", "x" * 100]
)
def test_real_upstream_names_are_accepted(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "../x",
        "a/b",
        "-k",
        ".",
        "..",
        ".hidden",
        "a b",
        "a\nb",
        "a\x00",
        "a\x1b[31m",
        "é",
        "a::b",
        "a[b]",
        "x" * 101,
        "\ud800",
    ],
    ids=ascii,
)
def test_names_that_something_could_misread_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="a name"):
        check_name(name)


@pytest.mark.parametrize(
    ("url", "owner", "repo", "derived"),
    [
        pytest.param("https://github.com/madler/zlib", "madler", "zlib", "zlib", id="plain"),
        pytest.param("https://github.com/madler/zlib.git/", "madler", "zlib", "zlib", id="git-suffix"),
        pytest.param("git@github.com:JanDeDobbeleer/Oh-My.git", "JanDeDobbeleer", "Oh-My", "oh-my", id="scp"),
        pytest.param("https://github.com/cli/cli", "cli", "cli", "cli-cli", id="generic"),
        pytest.param("https://github.com/Acme/Core.git", "Acme", "Core", "acme-core", id="generic-case"),
        pytest.param("https://gitlab.com/group/sub/tool", "sub", "tool", "sub-tool", id="subgroup"),
        pytest.param(
            "https://git.example.org/cli", "git.example.org", "cli", "git.example.org-cli", id="no-owner"
        ),
        pytest.param("file:///srv/git/zlib.git", "git", "zlib", "zlib", id="file"),
        pytest.param("https://zlib.net/zlib-1.3.1.tar.gz", "zlib.net", "zlib", "zlib", id="tarball"),
        pytest.param(
            "https://x.org/pub/boost_1_84_0.tar.bz2", "pub", "boost", "boost", id="underscored-version"
        ),
        pytest.param(
            "https://github.com/o/r/archive/refs/tags/v1.2.tar.gz", "o", "r", "r", id="forge-archive"
        ),
        pytest.param("https://github.com/o/r/releases/download/v1/r-1.tar.xz", "o", "r", "r", id="release"),
        pytest.param("https://gitlab.com/g/s/p/-/archive/v1/p-v1.tar.gz", "s", "p", "p", id="gitlab-archive"),
        pytest.param("https://git.sr.ht/~sircmpwn/scdoc", "sircmpwn", "scdoc", "scdoc", id="tilde"),
        pytest.param("https://example.org/..%2F..%2Fetc/x%00y", "etc", "x-y", "x-y", id="encoded-escape"),
    ],
)
def test_owner_repo_and_derived_name(url: str, owner: str, repo: str, derived: str) -> None:
    assert derive_owner_repo(url) == (owner, repo)
    assert derive_package_name(url) == derived


@given(
    st.text(
        st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Z", "Cf"], exclude_characters="\\#?"),
        min_size=1,
    )
)
def test_derived_names_are_safe_components(path: str) -> None:
    url = f"https://example.org/a{path}"
    try:
        name = derive_package_name(url)
    except ValueError:
        return
    assert SAFE.fullmatch(name)
    assert len(name) <= LONGEST_NAME_BYTES


labels = st.lists(
    st.text(max_size=150) | st.sampled_from(["zlib", "Zlib", "ZLIB", "a b", "a-b", "a/b"]), unique=True
)


@given(labels)
def test_case_ids_are_safe_short_and_differ_even_without_case(given_labels: list[str]) -> None:
    case_ids = make_case_ids(given_labels)
    assert len({case_id.casefold() for case_id in case_ids}) == len(given_labels)
    assert all(SAFE.fullmatch(case_id) and len(case_id) <= LONGEST_NAME_BYTES for case_id in case_ids)
    assert make_case_ids(given_labels) == case_ids


def test_a_safe_free_label_is_its_own_case_id() -> None:
    assert make_case_ids(["polar-walker", "libsigc++", "x" * 100]) == ("polar-walker", "libsigc++", "x" * 100)


def test_a_digest_is_added_when_cut_or_taken() -> None:
    first, second, third, fourth = make_case_ids(["zlib", "Zlib", "x" * 300, "日本"])
    assert first == "zlib"
    assert re.fullmatch(r"Zlib-[0-9a-f]{8}", second)
    assert re.fullmatch(r"x{91}-[0-9a-f]{8}", third)
    assert re.fullmatch(r"case-[0-9a-f]{8}", fourth)


def test_batch_ids_are_safe_and_keep_their_stamp() -> None:
    assert make_batch_id("smoke", "20260102-030405") == "smoke-20260102-030405"
    assert make_batch_id("../é x/", "20260102-030405") == "e-x-20260102-030405"
    assert make_batch_id("", "20260102-030405") == "batch-20260102-030405"
    long = make_batch_id("n" * 300, "20260102-030405")
    assert len(long) == LONGEST_NAME_BYTES
    assert long.endswith("-20260102-030405")


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        pytest.param("go", ("go",), id="plain"),
        pytest.param("Slow", ("slow",), id="case"),
        pytest.param("C++", ("c++", "cpp"), id="c++"),
        pytest.param("C#", ("csharp",), id="c#"),
        pytest.param("Objective-C", ("objective-c", "objective_c"), id="objective-c"),
        pytest.param(" static analysis ", ("static_analysis",), id="space"),
        pytest.param("2024", ("2024",), id="digits"),
        pytest.param("_private", ("private",), id="underscore"),
        pytest.param("größe", ("größe",), id="letters-of-any-script"),
    ],
)
def test_marks_are_what_was_written_and_its_identifier_form(text: str, marks: tuple[str, ...]) -> None:
    assert derive_marks(text) == marks


@pytest.mark.parametrize(
    "text", ["", "  ", "!!!", "skip", "XFAIL", "not", "and", "parametrize", "x" * 101], ids=ascii
)
def test_marks_that_pytest_would_misread_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"it has|pytest or a plugin gives"):
        derive_marks(text)


@given(st.text(max_size=30))
def test_every_mark_can_be_selected_by(text: str) -> None:
    try:
        marks = derive_marks(text)
    except ValueError:
        return
    for mark in marks:
        assert re.fullmatch(r"\w(?:\w|\+|-|\.)*", mark)
        assert mark == mark.lower()
        assert derive_marks(mark)[0] == mark


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        pytest.param("https://github.com/o/r", "https://github.com/o/r", id="nothing-to-hide"),
        pytest.param("https://user:s3cret@host/o/r", "https://***@host/o/r", id="password"),
        pytest.param("https://ghp_token@host/o/r", "https://***@host/o/r", id="token"),
        pytest.param("ssh://git@host/o/r", "ssh://git@host/o/r", id="ssh-user"),
        pytest.param("ssh://git:s3cret@host/o/r", "ssh://git:***@host/o/r", id="ssh-password"),
        pytest.param(
            "https://h/x.tar.gz?a=1&private_token=s3cret&b=2",
            "https://h/x.tar.gz?a=1&private_token=***&b=2",
            id="query",
        ),
        pytest.param("git@host:o/r", "git@host:o/r", id="scp"),
    ],
)
def test_no_credential_is_shown(url: str, shown: str) -> None:
    assert redact_text(url) == shown
    assert (
        redact_text(f"fatal: cannot reach '{url}', giving up") == f"fatal: cannot reach '{shown}', giving up"
    )


def test_a_long_run_of_letters_costs_no_more_than_other_text() -> None:
    started = time.process_time()
    assert redact_text("a" * 200_000 + "https://u:p@h/") == "a" * 200_000 + "https://***@h/"
    assert time.process_time() - started < 2
