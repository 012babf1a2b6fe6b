"""Whole git fetches, with real repositories of every shape and a directory for a sandbox."""

import base64
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from pytest_atesor.porter.sources.interface import Fetched, Kind, SourceError, Trouble
from tests.unit.processes import LIMIT_S

GIT = shutil.which("git") or "git"
MakeUpstream = Callable[[str], Any]


@pytest.fixture
def upstream(make_upstream: MakeUpstream) -> Any:
    made = make_upstream("lib")
    made.first = made.commit({"VERSION": "1", "run.sh": "#!/bin/sh\n"})
    made.git("tag", "-a", "v1", "-m", "one")
    made.git("branch", "stable")
    made.second = made.commit({"VERSION": "2"})
    return made


def fetch(bench: Any, url: str, ref: str | None = None) -> Fetched:
    fetched: Fetched = bench.fetch(url, ref=ref)
    return fetched


@pytest.mark.parametrize(
    ("ref", "version"),
    [(None, "2"), ("v1", "1"), ("stable", "1"), ("main", "2"), ("refs/heads/stable", "1")],
    ids=["default", "tag", "branch", "same-branch", "full-ref"],
)
def test_a_local_repository_is_checked_out_at_its_ref(
    bench: Any, upstream: Any, ref: str | None, version: str
) -> None:
    fetched = fetch(bench, upstream.url, ref)
    assert (bench.tree / "VERSION").read_text() == version
    assert (fetched.kind, fetched.commit) == (Kind.GIT, upstream.first if version == "1" else upstream.second)
    assert (fetched.url_used, fetched.directory) == (upstream.url, "/workspace/src/package")


@pytest.mark.parametrize("digits", [7, 40], ids=["short", "full"])
def test_a_commit_is_a_ref_too(bench: Any, upstream: Any, digits: int) -> None:
    assert fetch(bench, upstream.url, upstream.first[:digits]).commit == upstream.first
    assert bench.has("VERSION")


def test_only_the_one_commit_arrives_and_its_tags_with_it(bench: Any, upstream: Any) -> None:
    fetch(bench, upstream.url, "v1")
    asked = subprocess.run([GIT, "describe"], cwd=bench.tree, capture_output=True, text=True, check=True)
    count = subprocess.run(
        [GIT, "rev-list", "--all"], cwd=bench.tree, capture_output=True, text=True, check=True
    )
    status = subprocess.run(
        [GIT, "status", "--short"], cwd=bench.tree, capture_output=True, text=True, check=True
    )
    assert (asked.stdout.strip(), len(count.stdout.split()), status.stdout) == ("v1", 1, "")


@pytest.mark.parametrize("ref", ["v9", "deadbeef", "0" * 40], ids=["name", "short-commit", "commit"])
def test_a_missing_ref_is_broken_and_no_mirror_hides_it(bench: Any, upstream: Any, ref: str) -> None:
    with pytest.raises(SourceError, match=f"it has no tag, branch or commit {ref}") as caught:
        bench.fetch(upstream.url, ref=ref, mirrors=(upstream.url,))
    assert caught.value.trouble is Trouble.BROKEN


def bare(upstream: Any, name: str) -> Path:
    target = upstream.path.with_name(name)
    upstream.git("clone", "-q", "--mirror", str(upstream.path), str(target))
    return Path(target)


def shape_bare(upstream: Any) -> Path:
    return bare(upstream, "bare.git")


def shape_snapshot(upstream: Any) -> Path:
    path = bare(upstream, "snapshot.git")
    subprocess.run([GIT, "-C", str(path), "pack-refs", "--all"], check=True)
    for name in ("config", "hooks", "info", "description", "branches"):
        shutil.rmtree(path / name, ignore_errors=True)
        (path / name).unlink(missing_ok=True)
    return path


def shape_linked(upstream: Any) -> Path:
    target = upstream.path.with_name("linked")
    upstream.git("worktree", "add", "-q", "--detach", str(target), "main")
    return Path(target)


def shape_shallow(upstream: Any) -> Path:
    target = upstream.path.with_name("shallow")
    upstream.git("clone", "-q", "--depth=1", upstream.url, str(target))
    return Path(target)


def shape_borrowing(upstream: Any) -> Path:
    target = upstream.path.with_name("borrowing")
    upstream.git("clone", "-q", "--shared", str(upstream.path), str(target))
    return Path(target)


def shape_detached(upstream: Any) -> Path:
    upstream.git("checkout", "-q", "--detach", "main")
    return Path(upstream.path)


def shape_dangling_head(upstream: Any) -> Path:
    path = bare(upstream, "dangling.git")
    (path / "HEAD").write_text("ref: refs/heads/gone\n")
    return path


SHAPES = [
    shape_bare,
    shape_snapshot,
    shape_linked,
    shape_shallow,
    shape_borrowing,
    shape_detached,
    shape_dangling_head,
]


@pytest.mark.parametrize("shape", SHAPES, ids=[shape.__name__.removeprefix("shape_") for shape in SHAPES])
def test_a_local_repository_may_have_any_shape(
    bench: Any, upstream: Any, shape: Callable[[Any], Path]
) -> None:
    path = shape(upstream)
    assert fetch(bench, f"file://{path}").commit == upstream.second
    assert (bench.tree / "VERSION").read_text() == "2"


def test_a_repository_in_sha256_is_fetched(bench: Any, make_upstream: MakeUpstream) -> None:
    made = make_upstream("modern")
    shutil.rmtree(made.path / ".git")
    made.git("init", "-q", "-b", "main", "--object-format=sha256", ".")
    commit = made.commit({"a": "1"})
    assert len(commit) == 64
    assert fetch(bench, made.url).commit == commit
    assert bench.has("a")


def test_missing_content_is_left_out_and_said(bench: Any, make_upstream: MakeUpstream) -> None:
    made = make_upstream("holes")
    made.commit({"src/big.c": "int big;", "tests/data.bin": "data", "small.c": "int small;"})
    for name in ("src/big.c", "tests/data.bin"):
        oid = made.git("rev-parse", f"HEAD:{name}")
        (made.path / ".git/objects" / oid[:2] / oid[2:]).unlink()
    fetched = fetch(bench, made.url)
    assert (bench.has("small.c"), bench.has("src/big.c")) == (True, False)
    assert (bench.tree / "tests/data.bin").read_bytes() == b""
    assert "src/big.c, tests/data.bin" in fetched.notes[0]
    assert fetched.left_out == ("src/big.c", "tests/data.bin")


def test_a_corrupt_repository_is_broken(bench: Any, upstream: Any) -> None:
    tree = upstream.git("rev-parse", "HEAD^{tree}")
    (upstream.path / ".git/objects" / tree[:2] / tree[2:]).unlink()
    with pytest.raises(SourceError) as caught:
        fetch(bench, upstream.url)
    assert caught.value.trouble is Trouble.BROKEN
    assert not bench.has("VERSION")


@pytest.mark.parametrize("place", ["no-such-place", ""], ids=["nothing-there", "no-repository"])
def test_a_place_without_a_repository_is_unreachable(bench: Any, tmp_path: Path, place: str) -> None:
    (tmp_path / "plain").mkdir()
    with pytest.raises(SourceError, match=r"does not exist|is no git repository") as caught:
        fetch(bench, f"file://{tmp_path}/{place or 'plain'}")
    assert caught.value.trouble is Trouble.UNREACHABLE


HOSTILE = """
[core]
	fsmonitor = {touch}
	sshCommand = {touch}
	hooksPath = {hooks}
	alternateRefsCommand = {touch}
	gitProxy = {touch}
	pager = {touch}
	editor = {touch}
[uploadpack]
	packObjectsHook = {touch}
[extensions]
	partialClone = origin
[remote "origin"]
	url = ext::{touch}
	promisor = true
	partialclonefilter = blob:none
	uploadpack = {touch}
[filter "x"]
	smudge = {touch}
	clean = {touch}
	process = {touch}
[diff "x"]
	textconv = {touch}
[include]
	path = {include}
[protocol "ext"]
	allow = always
[gc]
	recentObjectsHook = {touch}
"""


def test_nothing_of_a_hostile_repository_runs(
    bench: Any, make_upstream: MakeUpstream, tmp_path: Path
) -> None:
    marker = tmp_path / "marker"
    touch = tmp_path / "touch.sh"
    touch.write_text(f"#!/bin/sh\ntouch {marker}\n")
    touch.chmod(0o755)
    made = make_upstream("hostile")
    made.commit({".gitattributes": "* filter=x diff=x\n", "a.txt": "hello", "tests/gone": "gone"})
    hooks = made.path / ".git/hooks"
    hooks.mkdir()
    for hook in (
        "post-checkout",
        "pre-auto-gc",
        "reference-transaction",
        "post-index-change",
        "fsmonitor-watchman",
    ):
        shutil.copy(touch, hooks / hook)
    gone = made.git("rev-parse", "HEAD:tests/gone")
    (made.path / ".git/objects" / gone[:2] / gone[2:]).unlink()
    os.mkfifo(made.path / ".git/commondir")  # it is there, says nothing, and is not waited for
    include = tmp_path / "include"
    include.write_text(f"[core]\n\tfsmonitor = {touch}\n")
    with (made.path / ".git/config").open("a") as config:
        config.write(HOSTILE.format(touch=touch, hooks=hooks, include=include))
    fetched = fetch(bench, made.url)
    assert (bench.tree / "a.txt").read_text() == "hello"
    assert "tests/gone" in fetched.notes[0]
    assert not marker.exists()


def test_the_hosts_rewriting_leads_to_a_local_mirror(bench: Any, upstream: Any) -> None:
    config = bench.workspace.parent / "gitconfig"
    config.write_text(f'[url "{upstream.url}"]\n\tinsteadOf = https://example.invalid/o/lib\n')
    bench.environ["GIT_CONFIG_GLOBAL"] = str(config)
    for url in ("https://example.invalid/o/lib", "https://example.invalid/o/lib.git"):
        fetched = fetch(bench, url, "v1")
        assert (fetched.url_used, fetched.commit) == (url, upstream.first)
    assert "rewrites it to file://" in bench.logged()


def serve_dumb(upstream: Any) -> Path:
    path = bare(upstream, "served.git")
    subprocess.run([GIT, "-C", str(path), "update-server-info"], check=True)
    return path


@pytest.mark.parametrize("full", [False, True], ids=["branch", "commit"])
def test_a_server_without_shallow_histories_is_served_whole(
    bench: Any,
    upstream: Any,
    make_server: Any,
    full: bool,  # noqa: FBT001 - a table's column
) -> None:
    with make_server(serve_dumb(upstream).parent) as server:
        fetched = fetch(bench, server.url("served.git"), upstream.first if full else "main")
    assert fetched.commit == (upstream.first if full else upstream.second)
    assert any("whole" in note for note in fetched.notes)


def test_a_password_works_and_is_seen_nowhere(bench: Any, upstream: Any, make_server: Any) -> None:
    with make_server(serve_dumb(upstream).parent, "me:s3cr3t/x") as server:
        fetched = fetch(bench, server.url("served.git", "me:s3cr3t%2Fx@"))
    assert fetched.commit == upstream.second
    assert fetched.url_used == server.url("served.git", "***@")
    config = (bench.tree / ".git/config").read_text()
    assert "s3cr3t" not in f"{bench.everything()}{fetched}{config}"


def test_a_wrong_password_is_unreachable_and_seen_nowhere(
    bench: Any, upstream: Any, make_server: Any
) -> None:
    with (
        make_server(serve_dumb(upstream).parent, "me:right") as server,
        pytest.raises(SourceError) as caught,
    ):
        fetch(bench, server.url("served.git", "me:wr0ng@"))
    assert caught.value.trouble is Trouble.UNREACHABLE
    assert "wr0ng" not in f"{bench.everything()}{caught.value}"


def test_a_login_that_only_the_host_has_is_used_by_the_host(
    bench: Any, upstream: Any, make_server: Any
) -> None:
    header = f"Authorization: Basic {base64.b64encode(b'me:s3cr3t').decode()}"
    bench.environ |= {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "http.extraHeader",
        "GIT_CONFIG_VALUE_0": header,
    }
    with make_server(serve_dumb(upstream).parent, "me:s3cr3t") as server:
        # This spelling of the loopback address is none that we know, so the sandbox is asked first.
        fetched = fetch(bench, server.url("served.git").replace("127.0.0.1", "127.1"))
    assert fetched.commit == upstream.second
    assert "the sandbox was refused" in bench.logged()
    assert header not in bench.everything()


def test_a_proxy_on_the_loopback_is_used_by_the_host(bench: Any, upstream: Any, make_server: Any) -> None:
    with make_server(serve_dumb(upstream).parent) as server:
        bench.environ["http_proxy"] = server.url("")
        fetched = fetch(bench, "http://no-such-host.invalid/served.git")
    assert fetched.commit == upstream.second
    assert server.requests[0].startswith("http://no-such-host.invalid/served.git/info/refs")
    assert "which the sandbox cannot see" in bench.logged()


def test_ssh_uses_the_keys_of_this_machines_user(bench: Any, upstream: Any, tmp_path: Path) -> None:
    stand_in = tmp_path / "ssh"
    stand_in.write_text('#!/bin/sh\n[ "$1" = -G ] && exit 1\nfor last; do :; done\nexec sh -c "$last"\n')
    stand_in.chmod(0o755)
    bench.environ["GIT_SSH_COMMAND"] = str(stand_in)
    fetched = fetch(bench, f"git@example.invalid:{upstream.path}", "v1")
    assert fetched.commit == upstream.first
    assert str(stand_in) not in bench.everything()


def test_the_next_mirror_is_tried_when_nothing_answers(bench: Any, upstream: Any, tmp_path: Path) -> None:
    gone = f"file://{tmp_path}/gone.git"
    fetched = bench.fetch(gone, ref="v1", mirrors=(f"{gone}2", upstream.url))
    assert (fetched.url_used, fetched.commit) == (upstream.url, upstream.first)
    assert [note.startswith("not used: file://") for note in fetched.notes] == [True, True]


def test_a_failure_names_every_source_that_was_tried(bench: Any, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"cannot be reached: .*one.*; .*two") as caught:
        bench.fetch(f"file://{tmp_path}/one", mirrors=(f"file://{tmp_path}/two",))
    assert caught.value.trouble is Trouble.UNREACHABLE


@pytest.mark.parametrize(
    "url",
    ["ext::sh -c touch% /tmp/x", "--upload-pack=x", "fd::17", "-oProxyCommand=x", "ssh://-oProxyCommand=x/a"],
)
def test_urls_that_run_programs_are_refused_before_anything_runs(bench: Any, url: str) -> None:
    with pytest.raises(SourceError, match="refused"):
        fetch(bench, url)
    assert bench.sandbox.commands == []


def test_the_tree_is_fresh(bench: Any, upstream: Any) -> None:
    stale = bench.workspace / "src/other/deep"
    stale.mkdir(parents=True)
    (stale / "file").touch()
    stale.chmod(0o500)
    (bench.workspace / "incoming-killed").mkdir()
    bench.tree.mkdir()
    (bench.tree / "left").touch()
    fetch(bench, upstream.url)
    assert [path.name for path in (bench.workspace / "src").iterdir()] == ["package"]
    assert [path.name for path in bench.workspace.iterdir()] == ["src"]
    assert not bench.has("left")


def test_a_deadline_that_is_over_says_so(bench: Any, upstream: Any) -> None:
    with pytest.raises(SourceError, match="time for fetching") as caught:
        bench.fetch(upstream.url, limit_s=0)
    assert caught.value.trouble is Trouble.TIMEOUT


def test_a_server_that_never_answers_costs_no_more_than_the_deadline(bench: Any) -> None:
    before = set(psutil.Process().children(recursive=True))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        started = time.monotonic()
        with pytest.raises(SourceError) as caught:
            bench.fetch(f"http://127.0.0.1:{silent.getsockname()[1]}/lib.git", limit_s=3)
        took = time.monotonic() - started
    assert caught.value.trouble is Trouble.TIMEOUT
    assert took < LIMIT_S
    assert set(psutil.Process().children(recursive=True)) <= before


def test_large_files_elsewhere_are_noted(bench: Any, make_upstream: MakeUpstream) -> None:
    made = make_upstream("lfs")
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
    made.commit({".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n", "a.bin": pointer})
    assert fetch(bench, made.url).notes == ("1 files are Git LFS pointers; their content was not fetched",)
