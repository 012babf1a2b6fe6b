"""The runner of ports: one agent process per case, by the contract that every agent shares.

The agent gets its flags and environment, the process runner does the rest, ``result.json`` is read as a
stranger's file, and :mod:`pytest_atesor.core.port_outcome` decides what it all means.
"""

import json
import sys
from pathlib import Path
from typing import Final, cast, final

from pytest_atesor.core.plan import DEFAULT_MAX_ATTEMPTS, Case, Target
from pytest_atesor.core.port_outcome import AgentResult, NoResult, decide_port_end, parse_agent_result
from pytest_atesor.errors import BadInputError
from pytest_atesor.runners.attempt import OWN_VARIABLES, make_attempt_end, run_in_context
from pytest_atesor.runners.files import read_strangers_file
from pytest_atesor.runners.interface import AttemptContext, AttemptEnd

__all__ = ["DEFAULT_AGENT", "PortRunner", "plan_agent_argv", "plan_agent_environment", "read_agent_result"]

DEFAULT_AGENT: Final = (sys.executable, "-m", "pytest_atesor.porter")
"""The built-in agent."""

_RESULT_NAME: Final = "result.json"
# Set for this case or not at all, whatever we inherited.
_PER_CASE: Final = ("ATESOR_REF", "ATESOR_MIRRORS", "ATESOR_NO_ACCELERATION", "ATESOR_BUILD_NETWORK")


@final
class PortRunner:
    """Runs "port" cases."""

    __slots__ = ()

    @property
    def kind(self) -> str:
        """The kind of its cases."""
        return "port"

    def run(self, case: Case, context: AttemptContext) -> AttemptEnd:
        """Run the agent to its end and return what came of it. Raises nothing that the agent can cause."""
        end = run_in_context(
            context,
            argv=plan_agent_argv(case, context),
            env=plan_agent_environment(case, context),
            cwd=context.cwd,
        )
        result = read_agent_result(context.attempt_dir)
        outcome = decide_port_end(end, result)
        match result:
            case AgentResult(document=document):
                return make_attempt_end(end, outcome, document)
            case NoResult(note=note):
                return make_attempt_end(end, outcome, None, [note] if note else [])


def plan_agent_argv(case: Case, context: AttemptContext) -> tuple[str, ...]:
    """Return the agent's whole command line, as the contract spells it."""
    spec = case.spec
    attempts = int(cast("int", spec.get("max_attempts", DEFAULT_MAX_ATTEMPTS)))  # 2.0 is a whole number too
    return (
        *context.agent,
        *("--repo", cast("str", spec["url"])),
        *("--max-attempts", str(attempts)),
        "--force",
        *("--container", context.slot),
        *("--platform", context.platform.value),
        *(("--target", Target.NATIVE.value) if context.target is Target.NATIVE else ()),
        *(("--package",) if context.package else ()),
    )


def plan_agent_environment(case: Case, context: AttemptContext) -> dict[str, str]:
    """Return the agent's whole environment: what the context has, and the contract's variables over it.

    Platform and target are spelled out, so that an ATESOR_TARGET of the user's cannot undo a ``--target``
    of the batch. A Python agent writes unbuffered, else its last words would be lost with it.
    """
    environment = {
        name: value
        for name, value in context.environ.items()
        if name not in _PER_CASE and not name.startswith(OWN_VARIABLES)
    }
    environment.setdefault("PYTHONUNBUFFERED", "1")
    environment |= {
        "ATESOR_RUN_DEADLINE": str(int(context.deadline_epoch)),
        "ATESOR_ATTEMPT_DIR": str(context.attempt_dir),
        "ATESOR_ENGINE": context.engine,
        "ATESOR_STATE_DIR": str(context.state_dir),
        "ATESOR_PLATFORM": context.platform.value,
        "ATESOR_TARGET": context.target.value,
    }
    if not context.is_accelerated:
        environment["ATESOR_NO_ACCELERATION"] = "1"
    if context.has_build_network:
        environment["ATESOR_BUILD_NETWORK"] = "1"
    if ref := case.spec.get("ref"):
        environment["ATESOR_REF"] = cast("str", ref)
    if mirrors := case.spec.get("mirrors"):
        environment["ATESOR_MIRRORS"] = json.dumps(mirrors)
    return environment


def read_agent_result(attempt_dir: Path) -> AgentResult | NoResult:
    """Return what the agent left in ``result.json``: a regular file of at most 4 MiB, or it is ignored."""
    try:
        return parse_agent_result(read_strangers_file(attempt_dir / _RESULT_NAME), _RESULT_NAME)
    except FileNotFoundError:
        return NoResult()
    except OSError as error:
        return NoResult(f"{_RESULT_NAME} is ignored: {error.strerror}")
    except BadInputError as error:
        return NoResult(f"{_RESULT_NAME} is ignored: {error}")
