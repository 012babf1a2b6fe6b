"""Who fetches what, and how the host's own settings count."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from pytest_atesor.core.urls import parse_source_url
from pytest_atesor.errors import SetupError
from pytest_atesor.porter.sources.host_network import (
    FromHost,
    FromInside,
    HostNetwork,
    decide_way,
    is_exempt,
    is_loopback,
    plan_inside_proxies,
    read_git_proxy,
    read_rewriting_rules,
    rewrite_url,
)

GIT = shutil.which("git") or "git"
RULES = (
    ("https://mirror.example/gh/", "https://github.com/"),
    ("file:///srv/zlib.git", "https://github.com/madler/zlib"),
    ("ssh://git@example.org/", "https://example.org/"),
)


@pytest.mark.parametrize(
    ("url", "rewritten"),
    [
        pytest.param("https://github.com/lz4/lz4", "https://mirror.example/gh/lz4/lz4", id="prefix"),
        pytest.param("https://github.com/madler/zlib", "file:///srv/zlib.git", id="longest-wins"),
        pytest.param("https://elsewhere.example/a", "https://elsewhere.example/a", id="no-match"),
    ],
)
def test_urls_are_rewritten_as_git_does(tmp_path: Path, url: str, rewritten: str) -> None:
    config = tmp_path / "config"
    config.write_text("".join(f'[url "{base}"]\n\tinsteadOf = {prefix}\n' for base, prefix in RULES))
    environ = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": str(config), "GIT_CONFIG_NOSYSTEM": "1"}
    git = subprocess.run(
        [GIT, "ls-remote", "--get-url", "--", url],
        env=environ,
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
    )
    rules = read_rewriting_rules(environ)
    assert sorted(rules) == sorted(RULES)
    assert rewrite_url(url, rules) == git.stdout.strip() == rewritten


def test_rewriting_in_the_environment_counts() -> None:
    environ = {
        "PATH": os.environ["PATH"],
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "url.file:///srv/.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://github.com/",
    }
    assert read_rewriting_rules(environ) == (("file:///srv/", "https://github.com/"),)


def test_a_repository_around_us_has_no_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run([GIT, "init", "-q", str(tmp_path)], check=True)
    set_rule = [GIT, "-C", str(tmp_path), "config", "url.file:///evil/.insteadOf", "https://github.com/"]
    subprocess.run(set_rule, check=True)
    monkeypatch.chdir(tmp_path)
    environ = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
    assert read_rewriting_rules(environ) == ()


def test_git_on_the_host_names_its_proxy() -> None:
    environ = {
        "PATH": os.environ["PATH"],
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "http.https://example.org/.proxy",
        "GIT_CONFIG_VALUE_0": "http://proxy.example:3128",
    }
    assert (
        read_git_proxy(parse_source_url("https://example.org/a.git"), environ) == "http://proxy.example:3128"
    )
    assert not read_git_proxy(parse_source_url("https://other.example/a.git"), environ)


@pytest.mark.parametrize(
    ("url", "environ", "way"),
    [
        pytest.param("https://example.org/a.git", {}, FromInside(), id="plain-https"),
        pytest.param(
            "git://example.org/a.git", {"https_proxy": "http://127.0.0.1:1"}, FromInside(), id="git"
        ),
        pytest.param("file:///srv/a.git", {}, FromHost("it is on this machine's disk"), id="file"),
        pytest.param(
            "git@example.org:a.git", {}, FromHost("ssh needs the keys of this machine's user"), id="scp-like"
        ),
        pytest.param(
            "https://me:secret@example.org/a.git",
            {},
            FromHost("its credentials stay out of the sandbox"),
            id="password",
        ),
        pytest.param(
            "https://example.org/a.tar.gz?token=abc",
            {},
            FromHost("its credentials stay out of the sandbox"),
            id="token-in-query",
        ),
        pytest.param(
            "http://127.0.0.1:80/a.git", {}, FromHost("127.0.0.1 is this machine itself"), id="loopback"
        ),
        pytest.param(
            "https://example.org/a.git",
            {"https_proxy": "http://localhost:3128"},
            FromHost(
                "its proxy http://localhost:3128 is on this machine's loopback, which the sandbox cannot see"
            ),
            id="loopback-proxy",
        ),
        pytest.param(
            "https://example.org/a.git",
            {"https_proxy": "http://localhost:3128", "no_proxy": "example.org"},
            FromInside(),
            id="no-proxy",
        ),
        pytest.param(
            "https://example.org/a.git",
            {"HTTPS_PROXY": "http://me:secret@proxy.example"},
            FromHost("the credentials of its proxy stay out of the sandbox"),
            id="proxy-with-password",
        ),
    ],
)
def test_the_host_fetches_only_what_needs_the_host(url: str, environ: dict[str, str], way: FromHost) -> None:
    assert decide_way(parse_source_url(url), HostNetwork.of(environ)) == way


def test_gits_own_proxy_comes_before_the_environments() -> None:
    network = HostNetwork.of({"https_proxy": "http://localhost:1"})
    way = decide_way(parse_source_url("https://example.org/a.git"), network, "http://proxy.example:3128")
    assert way == FromInside("http://proxy.example:3128")


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True),
        ("127.9.9.9", True),
        ("[::1]", True),
        ("0.0.0.0", True),  # noqa: S104 - nothing is bound to it
        ("example.org", False),
        ("10.0.0.1", False),
    ],
)
def test_loopback_is_told_from_other_hosts(host: str, expected: bool) -> None:  # noqa: FBT001 - a table's column
    assert is_loopback(host) is expected


@pytest.mark.parametrize(
    ("host", "exceptions", "expected"),
    [
        ("a.example.org", "example.org", True),
        ("a.example.org", ".example.org, other", True),
        ("badexample.org", "example.org", False),
        ("anything", "*", True),
        ("anything", "", False),
    ],
)
def test_no_proxy_means_whole_labels(host: str, exceptions: str, expected: bool) -> None:  # noqa: FBT001 - a column
    assert is_exempt(host, exceptions) is expected


def test_commands_inside_get_no_secret_and_no_loopback_proxy() -> None:
    environ = {
        "http_proxy": "http://me:secret@proxy.example",
        "https_proxy": "http://127.0.0.1:3128",
        "all_proxy": "socks5://proxy.example:1080",
        "no_proxy": "intra.example",
    }
    env, remarks = plan_inside_proxies(HostNetwork.of(environ))
    assert env == {
        "all_proxy": "socks5://proxy.example:1080",
        "ALL_PROXY": "socks5://proxy.example:1080",
        "no_proxy": "intra.example",
        "NO_PROXY": "intra.example",
    }
    assert len(remarks) == 2
    assert "secret" not in str(remarks)


def test_a_proxy_that_is_no_url_is_no_defect_of_ours() -> None:
    with pytest.raises(SetupError, match="https_proxy='http://proxy:80a' is no URL of a proxy"):
        HostNetwork.of({"https_proxy": "http://proxy:80a"})
    url = parse_source_url("https://example.org/o/r")
    assert decide_way(url, HostNetwork.of({}), "http://[::1") == FromInside("http://[::1")


def test_exceptions_from_proxies_are_no_url() -> None:
    env, remarks = plan_inside_proxies(HostNetwork.of({"no_proxy": "[::1,localhost"}))
    assert (env, remarks) == ({"no_proxy": "[::1,localhost", "NO_PROXY": "[::1,localhost"}, ())
