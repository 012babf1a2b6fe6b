import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_atesor.core.urls import (
    DebianSource,
    SourceKind,
    SourceUrlError,
    check_open_url,
    check_ref,
    parse_mirror,
    parse_source_url,
)


@pytest.mark.parametrize(
    ("text", "scheme", "host", "kind"),
    [
        pytest.param("https://github.com/madler/zlib", "https", "github.com", SourceKind.GIT, id="https"),
        pytest.param("https://GitHub.com:8443/a/b.git", "https", "github.com", SourceKind.GIT, id="port"),
        pytest.param("http://127.0.0.1:8000/a/b", "http", "127.0.0.1", SourceKind.GIT, id="http"),
        pytest.param("https://[::1]:80/a/b", "https", "::1", SourceKind.GIT, id="ipv6"),
        pytest.param("ssh://git@host/a/b", "ssh", "host", SourceKind.GIT, id="ssh"),
        pytest.param("git@github.com:a/b.git", "ssh", "github.com", SourceKind.GIT, id="scp"),
        pytest.param(
            "git://git.savannah.gnu.org/sed.git", "git", "git.savannah.gnu.org", SourceKind.GIT, id="git"
        ),
        pytest.param("file:///srv/x.git", "file", "", SourceKind.GIT, id="file"),
        pytest.param("file://localhost/srv/x.tgz", "file", "", SourceKind.TARBALL, id="file-tarball"),
        pytest.param(
            "https://zlib.net/zlib-1.3.tar.gz", "https", "zlib.net", SourceKind.TARBALL, id="tarball"
        ),
        pytest.param(
            "https://x.org/get?file=a.tar.xz", "https", "x.org", SourceKind.TARBALL, id="tarball-in-query"
        ),
        pytest.param("ssh://host/a.tar.gz", "ssh", "host", SourceKind.GIT, id="no-tarball-over-ssh"),
    ],
)
def test_sources_are_recognized(text: str, scheme: str, host: str, kind: SourceKind) -> None:
    source = parse_source_url(text)
    assert (source.scheme, source.host, source.kind, source.has_secret) == (scheme, host, kind, False)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-oProxyCommand=x",
        "--upload-pack=x",
        "ext::sh -c x",
        "ext::sh",
        "fd::17",
        "ftp://host/x",
        "https:/host/x",
        "file:/srv/x",
        "https:///path",
        "https://",
        "https://host",
        "https://host/",
        "https://-oX/path",
        "https://ho st/path",
        "https://host/a b",
        "https://host/a\nb",
        "https://host/\x1b[31m",
        "https://host/a\u202eb",
        "https://host\\x/y",
        "https://host:99999/x",
        "https://host:abc/x",
        "ssh://-oProxyCommand=x/path",
        "ssh://host/-x",
        "-x@host:path",
        "user@-host:path",
        "host:-path",
        "/srv/repo",
        "./repo",
        "zlib",
        "file://relative/path",
        "https://host/" + "x" * 2000,
    ],
    ids=ascii,
)
def test_what_git_could_take_for_something_else_is_refused(text: str) -> None:
    with pytest.raises(SourceUrlError):
        parse_source_url(text)


@given(st.text())
def test_any_text_is_a_safe_url_or_refused(text: str) -> None:
    try:
        source = parse_source_url(text)
    except SourceUrlError:
        return
    assert not source.text.startswith("-")
    assert "::" not in source.text.partition("/")[0]


@pytest.mark.parametrize(
    "text",
    ["https://user:pw@host/x", "https://token@host/x", "ssh://git:pw@host/x", "http://:pw@host/x"],
)
def test_a_secret_in_a_url_is_noticed(text: str) -> None:
    assert parse_source_url(text).has_secret


@pytest.mark.parametrize(
    "text",
    [
        "https://user:pw@host/x",
        "https://host/x.tar.gz?token=abc",
        "https://host/get?f=x&private_key=abc",
        "https://host/x.tar.gz?X-Amz-Signature=abc&sig=abc",
    ],
)
def test_a_url_with_a_secret_may_not_stand_in_a_file(text: str) -> None:
    with pytest.raises(SourceUrlError, match="password or token"):
        check_open_url(text)


def test_ordinary_parameters_may_stand_in_a_file() -> None:
    text = "https://host/cgit/x/snapshot/x.tar.gz?id=v1&path=src"
    assert check_open_url(text) == parse_source_url(text)


def test_mirrors_are_urls_or_debian_sources() -> None:
    assert parse_mirror("deb:zlib") == DebianSource("zlib")
    assert parse_mirror("deb:libsigc++-2.0") == DebianSource("libsigc++-2.0")
    assert parse_mirror("https://h/x") == parse_source_url("https://h/x")


@pytest.mark.parametrize(
    "text", ["deb:", "deb:Zlib", "deb:-x", "deb:a b", "deb:a/b", "deb:a=1", "deb:x"], ids=ascii
)
def test_bad_debian_sources_are_refused(text: str) -> None:
    with pytest.raises(SourceUrlError, match="Debian source package"):
        parse_mirror(text)


@pytest.mark.parametrize(
    "ref", ["v1.2.3", "main", "feature/x", "0123456789abcdef0123456789abcdef01234567", "a@b", "R_2_6"]
)
def test_refs_that_git_accepts(ref: str) -> None:
    assert check_ref(ref) == ref


@pytest.mark.parametrize(
    "ref",
    [
        "",
        "-x",
        "--upload-pack=x",
        "a..b",
        "a b",
        "a\n",
        "a~1",
        "a^",
        "a:b",
        "a?",
        "a*",
        "a[b",
        "a\\b",
        "@",
        "a@{1}",
        "/a",
        "a/",
        "a//b",
        ".a",
        "a/.b",
        "a.",
        "a.lock",
        "a.lock/b",
        "x" * 251,
    ],
    ids=ascii,
)
def test_refs_that_git_or_an_option_parser_would_misread_are_refused(ref: str) -> None:
    with pytest.raises(SourceUrlError):
        check_ref(ref)
