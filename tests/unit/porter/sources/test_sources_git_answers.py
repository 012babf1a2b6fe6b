"""What git's answers mean."""

import pytest

from pytest_atesor.porter.sources.git_answers import (
    Everything,
    Missing,
    OneRef,
    decide_git_failure,
    decide_wanted,
    is_passing_fault,
    is_silence,
    plan_listing,
)
from pytest_atesor.porter.sources.interface import Trouble

ID = "51b7f2abdade71cd9bb0e7a373ef2610ec6f9daf"


def listing(*names: str) -> str:
    return "".join(f"{ID}\t{name}\n" for name in names)


@pytest.mark.parametrize(
    ("names", "ref", "wanted"),
    [
        pytest.param(["HEAD"], None, OneRef("+HEAD:refs/remotes/origin/HEAD"), id="default-branch"),
        pytest.param(["refs/tags/v1"], "v1", OneRef("+refs/tags/v1:refs/tags/v1"), id="tag"),
        pytest.param(
            ["refs/heads/dev"], "dev", OneRef("+refs/heads/dev:refs/remotes/origin/dev"), id="branch"
        ),
        pytest.param(
            ["refs/heads/v1", "refs/tags/v1"],
            "v1",
            OneRef("+refs/tags/v1:refs/tags/v1", "v1 is a tag and a branch; the tag was used"),
            id="tag-before-branch",
        ),
        pytest.param(["HEAD"], ID, OneRef(f"+{ID}:refs/atesor/commit"), id="full-commit"),
        pytest.param(["HEAD"], "51b7f2a", Everything(), id="short-commit"),
        pytest.param(
            ["refs/tags/beef"], "beef", OneRef("+refs/tags/beef:refs/tags/beef"), id="tag-like-a-commit"
        ),
        pytest.param(
            ["HEAD", "refs/heads/x/v1"], "v1", Missing("it has no tag or branch v1"), id="tail-of-a-name"
        ),
        pytest.param(
            ["refs/pull/7/head"],
            "refs/pull/7/head",
            OneRef("+refs/pull/7/head:refs/pull/7/head"),
            id="full-ref",
        ),
    ],
)
def test_a_ref_is_a_tag_before_a_branch_before_a_commit(
    names: list[str], ref: str | None, wanted: OneRef | Everything | Missing
) -> None:
    assert decide_wanted(listing(*names), ref) == wanted


def test_an_empty_repository_is_missing_its_default_branch() -> None:
    assert isinstance(decide_wanted("", None), Missing)


def test_noise_around_the_listing_is_ignored() -> None:
    noisy = f"warning: redirecting to https://example.org/\n{listing('HEAD')}"
    assert decide_wanted(noisy, None) == OneRef("+HEAD:refs/remotes/origin/HEAD")


def test_the_listing_asks_for_nothing_but_the_candidates() -> None:
    assert plan_listing("v1") == ("HEAD", "refs/tags/v1", "refs/heads/v1")


@pytest.mark.parametrize(
    ("output", "trouble", "reason"),
    [
        pytest.param(
            "fatal: unable to access 'https://x.example/a/': Could not resolve host: x.example",
            Trouble.UNREACHABLE,
            "unable to access 'https://x.example/a/': Could not resolve host: x.example",
            id="dns",
        ),
        pytest.param(
            "fatal: repository 'https://x.example/a/' not found",
            Trouble.UNREACHABLE,
            "repository 'https://x.example/a/' not found",
            id="404",
        ),
        pytest.param(
            "error: RPC failed; curl 56\nfatal: early EOF\nfatal: fetch-pack: invalid index-pack output",
            Trouble.UNREACHABLE,
            "RPC failed; curl 56",
            id="connection-lost-in-the-middle",
        ),
        pytest.param(
            "git@x.example: Permission denied (publickey).\nfatal: Could not read from remote repository.",
            Trouble.UNREACHABLE,
            "git@x.example: Permission denied (publickey).",
            id="ssh-key",
        ),
        pytest.param(
            "fatal: couldn't find remote ref refs/tags/v9",
            Trouble.BROKEN,
            "couldn't find remote ref refs/tags/v9",
            id="no-such-ref",
        ),
        pytest.param(
            "error: inflate: data stream error (incorrect data check)\nfatal: pack has bad object at 12",
            Trouble.BROKEN,
            "inflate: data stream error (incorrect data check)",
            id="corrupt",
        ),
    ],
)
def test_a_failure_says_whether_a_mirror_can_help(output: str, trouble: Trouble, reason: str) -> None:
    error = decide_git_failure(output, timed_out=False, limit_s=60)
    assert (error.trouble, str(error)) == (trouble, reason)


@pytest.mark.parametrize(
    ("reason", "silent"),
    [
        pytest.param(
            "unable to access 'https://x.example/connect.git/': The requested URL returned error: 404",
            False,
            id="connect-in-the-url",
        ),
        pytest.param("repository 'https://x.example/resolve/' not found", False, id="resolve-in-the-url"),
        pytest.param("https://no-answer.example/a.git: early EOF", False, id="url-without-quotes"),
        pytest.param(
            "unexpected disconnect while reading sideband packet", False, id="connection-lost-in-the-middle"
        ),
        pytest.param(
            "unable to access 'https://x.example/a/': Could not resolve host: x.example", True, id="no-name"
        ),
        pytest.param("unable to connect to x.example:", True, id="git-protocol"),
        pytest.param(
            "unable to access 'https://x.example/': Failed to connect to x.example port 443 after 9 ms: "
            "Couldn't connect to server",
            True,
            id="refused",
        ),
        pytest.param("no answer within 60 s", True, id="out-of-time"),
    ],
)
def test_silence_is_heard_in_the_words_and_not_in_the_url(reason: str, *, silent: bool) -> None:
    assert is_silence(reason) is silent


def test_a_server_that_says_nothing_is_unreachable() -> None:
    error = decide_git_failure("", timed_out=True, limit_s=60)
    assert (error.trouble, str(error)) == (Trouble.UNREACHABLE, "no answer within 60 s")


@pytest.mark.parametrize(
    "output",
    [
        "fatal: could not read Username for 'https://x.example': terminal prompts disabled",
        "fatal: unable to access 'https://x.example/': server certificate verification failed. CAfile: none",
    ],
    ids=["login", "private-authority"],
)
def test_a_lack_of_keys_is_worth_a_try_by_the_host(output: str) -> None:
    assert decide_git_failure(output, timed_out=False, limit_s=60).host_may_help


@pytest.mark.parametrize(
    ("output", "passing"),
    [
        ("error: RPC failed; HTTP 502 curl 22 The requested URL returned error: 502", True),
        ("fatal: early EOF", True),
        ("fatal: repository 'https://x.example/a/' not found", False),
        ("fatal: unable to access 'https://x.example/': Could not resolve host: x.example", False),
    ],
    ids=["gateway", "cut-off", "404", "dns"],
)
def test_only_a_fault_that_may_pass_is_worth_a_second_try(output: str, passing: object) -> None:
    assert is_passing_fault(output) is passing
