"""Kinds of URLs, relative submodule URLs, and what a stranger's submodule may lead to."""

from pathlib import Path

import pytest

from pytest_atesor.core.urls import parse_source_url
from pytest_atesor.porter.sources.interface import Kind, SourceError
from pytest_atesor.porter.sources.places import (
    Place,
    Refused,
    decide_kind,
    decide_submodule_place,
    make_place,
    resolve_relative_url,
)
from pytest_atesor.porter.sources.submodules import Wanted, parse_gitlinks, parse_gitmodules, plan_submodules

ID = "51b7f2abdade71cd9bb0e7a373ef2610ec6f9daf"


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("https://github.com/madler/zlib", Kind.GIT),
        ("https://github.com/madler/zlib.git", Kind.GIT),
        ("https://zlib.net/zlib-1.3.1.tar.gz", Kind.TARBALL),
        ("https://example.org/a.zip", Kind.TARBALL),
        ("https://sourceforge.net/projects/x/files/x-1.tar.xz/download", Kind.TARBALL),
        ("https://codeload.github.com/o/r/tar.gz/refs/tags/v1", Kind.TARBALL),
        ("file:///srv/a.tar.zst", Kind.TARBALL),
        ("file:///srv/a.git", Kind.GIT),
        ("ssh://git@example.org/a.tar.gz", Kind.GIT),
    ],
)
def test_archives_are_told_from_repositories(url: str, kind: Kind) -> None:
    assert decide_kind(parse_source_url(url)) is kind


@pytest.mark.parametrize(
    ("parent", "url", "resolved"),
    [
        ("https://x.example/o/a.git", "../b.git", "https://x.example/o/b.git"),
        ("https://x.example/o/a", "./b", "https://x.example/o/a/b"),
        ("https://x.example/o/a/", "../../p/b", "https://x.example/p/b"),
        ("git@x.example:o/a.git", "../b.git", "git@x.example:o/b.git"),
        ("git@x.example:a.git", "../b.git", "git@x.example:b.git"),
        ("file:///srv/git/a.git", "../b.git", "file:///srv/git/b.git"),
        ("https://x.example/o/a", "https://y.example/b", "https://y.example/b"),
    ],
)
def test_relative_submodule_urls_resolve_against_the_parent(parent: str, url: str, resolved: str) -> None:
    assert resolve_relative_url(parent, url) == resolved


@pytest.mark.parametrize(
    ("parent", "url", "used"),
    [
        pytest.param("https://x.example/a", "https://y.example/b", "https://y.example/b", id="https"),
        pytest.param(
            "https://x.example/a", "git@y.example:o/b.git", "https://y.example/o/b.git", id="ssh-over-https"
        ),
        pytest.param("git@x.example:o/a", "git@x.example:o/b", "git@x.example:o/b", id="ssh-beside-ssh"),
        pytest.param(
            "https://x.example/a", "git://github.com/o/b.git", "https://github.com/o/b.git", id="git-protocol"
        ),
        pytest.param(
            "git://github.com/o/a.git", "../b.git", "https://github.com/o/b.git", id="beside-git-protocol"
        ),
        pytest.param(
            "https://x.example/a", "git://y.example/b", "git://y.example/b", id="git-protocol-that-may-answer"
        ),
        pytest.param("http://127.0.0.1:8/a", "../b", None, id="loopback-root"),
        pytest.param("http://127.0.0.1:8/o/a", "../b", "http://127.0.0.1:8/o/b", id="loopback-beside-itself"),
    ],
)
def test_a_submodule_is_fetched_where_its_url_says(parent: str, url: str, used: str | None) -> None:
    place = decide_submodule_place(make_place(parent, ()), url, ())
    assert used is None or (isinstance(place, Place) and place.used.text == used)


@pytest.mark.parametrize(
    ("parent", "url"),
    [
        pytest.param("https://x.example/a", "file:///root/secret.git", id="host-path"),
        pytest.param("https://x.example/a", "/root/secret.git", id="plain-host-path"),
        pytest.param("https://x.example/a", "http://127.0.0.1:8000/secret.git", id="loopback"),
        pytest.param("https://x.example/a", "git@localhost:secret.git", id="ssh-to-this-machine"),
        pytest.param("https://x.example/a", "ext::sh -c touch% /tmp/x", id="remote-helper"),
        pytest.param("https://x.example/a", "--upload-pack=touch /tmp/x", id="option"),
        pytest.param(
            "https://x.example/a", "https://github.com/../../etc/secret", id="climbs-through-a-rewriting"
        ),
        pytest.param("file:///srv/git/a.git", "../../../root/secret.git", id="climbs"),
        pytest.param("file:///srv/git/a.git", "file:///root/secret.git", id="outside-the-neighbourhood"),
    ],
)
def test_a_submodule_cannot_reach_what_the_user_did_not_list(parent: str, url: str) -> None:
    rules = (("file:///srv/mirror/", "https://github.com/"),)
    assert isinstance(decide_submodule_place(make_place(parent, rules), url, rules), Refused)


def test_a_listed_repository_of_githubs_old_protocol_is_asked_over_https() -> None:
    place = make_place("git://github.com:9418/o/b.git", ())
    assert (place.listed.text, place.used.text) == (
        "https://github.com/o/b.git",
        "https://github.com/o/b.git",
    )


@pytest.mark.parametrize("prefix", ["git://github.com/", "https://github.com/"])
def test_the_users_rewriting_of_githubs_old_protocol_or_of_https_counts(prefix: str) -> None:
    place = make_place("git://github.com/o/b.git", (("https://mirror.example/", prefix),))
    assert place.used.text == "https://mirror.example/o/b.git"


def test_a_local_submodule_beside_its_parent_is_allowed(tmp_path: Path) -> None:
    place = decide_submodule_place(make_place(f"file://{tmp_path}/a", ()), f"{tmp_path}/b", ())
    assert isinstance(place, Place)
    assert place.used.text == f"file://{tmp_path}/b"


def test_the_users_own_rewriting_may_lead_to_this_machine() -> None:
    rules = (("/srv/mirror/", "https://github.com/"),)
    place = decide_submodule_place(make_place("https://x.example/a", rules), "https://github.com/o/b", rules)
    assert isinstance(place, Place)
    assert place.used.text == "file:///srv/mirror/o/b"


def test_a_rewriting_to_a_remote_helper_is_refused() -> None:
    with pytest.raises(SourceError, match="refused"):
        make_place("https://github.com/o/b", (("ext::sh -c touch /tmp/x ", "https://github.com/"),))


def test_submodules_come_from_the_tree_and_their_urls_from_gitmodules() -> None:
    tree = f"160000 commit {ID}\tvendor/b\n160000 commit {ID}\tno-url\n100644 blob {ID}\tfile\n"
    settings = b"submodule.x.y.path\nvendor/b/\0submodule.x.y.url\n../b\0submodule.gone.path\ngone\0"
    assert plan_submodules(parse_gitlinks(tree), parse_gitmodules(settings)) == (
        Wanted("vendor/b", ID, "../b"),
        Wanted("no-url", ID, ""),
    )
