"""Which tools of a sandbox were native while it built, asked of the sandbox itself."""

from pytest_atesor.errors import SandboxError
from pytest_atesor.porter.shell import Shell
from pytest_atesor.sandbox.tools import ASK_TOOLS, parse_native_tools

__all__ = ["read_native_tools"]

_ASK_S = 60.0


def read_native_tools(shell: Shell) -> dict[str, str]:
    """Return package to version of what is native in the sandbox now.

    Nothing in a plain one, and where the sandbox does not answer: that is no verdict on the package.
    """
    try:
        asked = shell.script(ASK_TOOLS, user="root", timeout_s=_ASK_S)
    except SandboxError:
        return {}
    return parse_native_tools(asked.tail.decode("utf-8", "replace"))
