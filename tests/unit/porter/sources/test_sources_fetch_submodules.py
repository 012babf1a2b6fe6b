"""Submodules in whole fetches: had recursively, or missed with a warning."""

import shutil
import socket
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

GIT = shutil.which("git") or "git"
MakeUpstream = Callable[[str], Any]


def add_submodule(parent: Any, child: Any, url: str, path: str = "sub") -> None:
    parent.git("submodule", "--quiet", "add", str(child.path), path)
    parent.git("config", "--file", ".gitmodules", f"submodule.{path}.url", url)
    parent.commit({}, "submodule")


def test_submodules_come_recursively_with_relative_urls(bench: Any, make_upstream: MakeUpstream) -> None:
    leaf, middle, top = make_upstream("leaf"), make_upstream("middle"), make_upstream("top")
    leaf.commit({"leaf.txt": "leaf"})
    middle.commit({"middle.txt": "middle"})
    add_submodule(middle, leaf, "../leaf", "deep/leaf")
    top.commit({"top.txt": "top"})
    add_submodule(top, middle, middle.url)
    fetched = bench.fetch(top.url)
    assert (bench.tree / "sub/deep/leaf/leaf.txt").read_text() == "leaf"
    assert [(module.path, module.fetched) for module in fetched.submodules] == [
        ("sub", True),
        ("sub/deep/leaf", True),
    ]
    status = subprocess.run(
        [GIT, "submodule", "status", "--recursive"],
        cwd=bench.tree,
        capture_output=True,
        text=True,
        check=True,
    )
    assert [line[0] for line in status.stdout.splitlines()] == [" ", " "]


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        pytest.param("../no-such-repository", "does not exist", id="gone"),
        pytest.param("file:///etc/secret.git", "outside", id="elsewhere-on-the-host"),
        pytest.param("ext::sh -c true", "refused", id="remote-helper"),
    ],
)
def test_a_submodule_that_cannot_be_had_is_a_warning(
    bench: Any, make_upstream: MakeUpstream, url: str, reason: str
) -> None:
    child, top = make_upstream("child"), make_upstream("top")
    child.commit({"a": "1"})
    top.commit({"top.txt": "top"})
    add_submodule(top, child, url)
    fetched = bench.fetch(top.url)
    assert bench.has("top.txt")
    assert [(module.path, module.fetched) for module in fetched.submodules] == [("sub", False)]
    assert reason in fetched.submodules[0].reason
    assert "1 of 1 submodules" in fetched.notes[0]
    assert "warning: submodule sub" in bench.logged()


def test_one_silent_server_keeps_nothing_from_another_port_or_protocol_of_its_host(
    bench: Any, make_upstream: MakeUpstream, make_server: Any
) -> None:
    child, top = make_upstream("child"), make_upstream("top")
    child.commit({"a": "1"})
    child.git("clone", "--quiet", "--bare", ".", "../served.git")
    child.git("-C", "../served.git", "update-server-info")
    top.commit({"top.txt": "top"})
    with socket.socket() as closed, make_server(child.path.parent) as server:
        closed.bind(("127.0.0.1", 0))  # nobody listens
        silent = f"git://127.1:{closed.getsockname()[1]}"
        answering = f"http://127.1:{server.port}"
        add_submodule(top, child, f"{silent}/one.git", "a-silent")
        add_submodule(top, child, f"{answering}/connect.git", "b-not-there")
        add_submodule(top, child, f"{silent}/two.git", "c-silent-too")
        add_submodule(top, child, f"{answering}/served.git", "d-served")
        fetched = bench.fetch(top.url)
    assert [module.path for module in fetched.submodules if module.fetched] == ["d-served"]
    assert fetched.submodules[2].reason == f"{silent} did not answer before"
    assert "not found" in fetched.submodules[1].reason
