"""Two ways to run git on a repository that is ours: inside the sandbox, and on the host.

Neither ever runs a hook, a filter, a credential prompt, a remote helper or a file-system monitor.
``transfer.fsckObjects`` stays off: real upstream histories have old malformed modes and dates that it would
refuse, and what is fetched is only checked out inside the sandbox, where git itself refuses paths that lead
out of the tree.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from pytest_atesor.core.names import redact_text
from pytest_atesor.porter.sources.interface import SourceError, Trouble
from pytest_atesor.porter.sources.job import CommandEnd, Job

__all__ = [
    "Git",
    "HostGit",
    "InsideGit",
    "plan_bare_environment",
    "plan_host_environment",
    "plan_inside_environment",
]

_LOW_SPEED_BYTES: Final = "1000"
_LOW_SPEED_S: Final = "30"
_SAFE_CONFIG: Final[tuple[tuple[str, str], ...]] = (
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.alternateRefsCommand", "true"),
    ("protocol.ext.allow", "never"),
    ("submodule.recurse", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("fetch.writeCommitGraph", "false"),
    ("transfer.fsckObjects", "false"),
    ("fetch.fsckObjects", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("advice.detachedHead", "false"),
    ("http.lowSpeedLimit", _LOW_SPEED_BYTES),
    ("http.lowSpeedTime", _LOW_SPEED_S),
)
# What `git rev-parse --local-env-vars` names, less the configuration that the user put into the environment.
_REPOSITORY_VARIABLES: Final = frozenset({
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_CONFIG",
    "GIT_OBJECT_DIRECTORY",
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_GRAFT_FILE",
    "GIT_INDEX_FILE",
    "GIT_NAMESPACE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_REPLACE_REF_BASE",
    "GIT_PREFIX",
    "GIT_SHALLOW_FILE",
    "GIT_COMMON_DIR",
    "GIT_EXEC_PATH",
    "GIT_TEMPLATE_DIR",
    "GIT_TRACE",
    "GIT_TRACE_CURL",
    "GIT_CURL_VERBOSE",
})  # fmt: skip
_QUIET: Final = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "true",
    "SSH_ASKPASS": "true",
    "SSH_ASKPASS_REQUIRE": "force",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "LC_ALL": "C",
}
_NO_CONFIG_FILES: Final = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}


class Git(Protocol):
    """Runs git on one repository of ours, wherever that is."""

    def git(self, *args: str, limit_s: float, quiet: bool = False) -> CommandEnd:
        """Run git with ``args``; ``quiet`` keeps the output out of the log."""


def plan_inside_environment(extra: Sequence[tuple[str, str]] = ()) -> dict[str, str]:
    """Return the environment for git inside: no configuration but ours, no prompts, four protocols."""
    protocols = (
        ("protocol.allow", "never"),
        *((f"protocol.{name}.allow", "always") for name in ("https", "http", "git")),
    )
    return _QUIET | _NO_CONFIG_FILES | _config_variables({}, (*protocols, *_SAFE_CONFIG, *extra))


def plan_bare_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for git on the host among somebody's objects: nothing in it but ours."""
    # No protocol is allowed: no missing object starts a transport, whatever this git thinks of lazy fetching.
    kept = {name: environ[name] for name in ("PATH", "TMPDIR") if name in environ}
    own = {"HOME": "/nonexistent", "GIT_ALLOW_PROTOCOL": "none", "GIT_NO_REPLACE_OBJECTS": "1"}
    return kept | own | _QUIET | _NO_CONFIG_FILES | _config_variables({}, _SAFE_CONFIG)


def plan_host_environment(
    environ: Mapping[str, str], extra: Sequence[tuple[str, str]] = ()
) -> dict[str, str]:
    """Return the environment for a transfer by the host: the user's own settings, our guards on top."""
    kept = {name: value for name, value in environ.items() if name not in _REPOSITORY_VARIABLES}
    allowed = {"GIT_ALLOW_PROTOCOL": "https:http:git:ssh"}
    return kept | _QUIET | allowed | _config_variables(environ, (*_SAFE_CONFIG, *extra))


def _config_variables(environ: Mapping[str, str], pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    count = environ.get("GIT_CONFIG_COUNT", "")
    first = int(count) if count.isascii() and count.isdigit() else 0
    variables = {"GIT_CONFIG_COUNT": str(first + len(pairs))}
    for number, (key, value) in enumerate(pairs, start=first):
        variables[f"GIT_CONFIG_KEY_{number}"] = key
        variables[f"GIT_CONFIG_VALUE_{number}"] = value
    return variables


@dataclass(frozen=True, slots=True)
class InsideGit:
    """git inside the sandbox, as the builder, in ``directory``."""

    job: Job
    directory: str
    env: Mapping[str, str]

    def git(self, *args: str, limit_s: float, quiet: bool = False) -> CommandEnd:
        """Run git inside and show the command in the log."""
        self.job.say(f"git {' '.join(args)}")
        return self.job.run(("git", *args), limit_s=limit_s, env=self.env, cwd=self.directory, quiet=quiet)


@dataclass(frozen=True, slots=True)
class HostGit:
    """git on the host, on a bare repository of ours; nothing is ever checked out there."""

    job: Job
    directory: Path
    env: Mapping[str, str]

    def git(self, *args: str, limit_s: float, quiet: bool = False) -> CommandEnd:
        """Run git on the host and show the command, redacted, in the log."""
        if not quiet:
            self.job.say(f"on the host: git {' '.join(args)}")
        end = self.run(args, limit_s=limit_s)
        if not quiet and self.job.sink is not None and end.output:
            self.job.sink.write(redact_text(end.text).encode())
            self.job.sink.flush()
        return end

    def run(
        self,
        args: Sequence[str],
        *,
        limit_s: float,
        feed: bytes = b"",
        out: Path | None = None,
        apart: bool = False,
    ) -> CommandEnd:
        """Run git with ``feed`` on its standard input; standard output goes to ``out`` when given.

        ``apart`` leaves standard error out of the result of a command that succeeded.
        """
        limit = self.job.limit_s(limit_s)
        argv = ("git", f"--git-dir={self.directory}", *args)
        sink = (
            os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
            if out
            else subprocess.PIPE
        )
        errors = subprocess.PIPE if apart or out else subprocess.STDOUT
        try:
            child = subprocess.Popen(
                argv,
                cwd=self.directory,
                env=dict(self.env),
                stdin=subprocess.PIPE,
                stdout=sink,
                stderr=errors,
            )
        except FileNotFoundError:
            raise SourceError(
                Trouble.BROKEN, "git is not installed on this machine; install the package git"
            ) from None
        finally:
            if out:
                os.close(sink)
        try:
            said, complaints = child.communicate(feed, timeout=limit)
        except subprocess.TimeoutExpired:
            _kill_tree(child)
            return CommandEnd(-9, b"", timed_out=True)
        except BaseException:
            _kill_tree(child)
            raise
        output = (said or b"") if apart and child.returncode == 0 else (said or b"") + (complaints or b"")
        return CommandEnd(child.returncode, output, timed_out=False)


def _kill_tree(child: "subprocess.Popen[bytes]") -> None:
    import psutil  # noqa: PLC0415 - seldom needed, and the agent's start pays for every import

    try:
        family = [*psutil.Process(child.pid).children(recursive=True), psutil.Process(child.pid)]
    except psutil.NoSuchProcess:
        family = []
    for process in family:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    child.communicate()
