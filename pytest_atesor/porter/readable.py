"""A package's trees as this process may read them, whoever they belong to and whatever their modes are.

In the sandbox everything belongs to its users, who on this machine are root only where the engine makes them
so. What they closed to others is read from a copy that root inside makes in a directory of its own: the trees
keep their modes, which a build or a test may depend on. Where everything can be read there is no copy.
"""

from collections.abc import Callable
from pathlib import Path

from pytest_atesor.errors import SandboxError
from pytest_atesor.porter.context import Place
from pytest_atesor.porter.shell import Shell
from pytest_atesor.porter.tree import Tree, read_tree
from pytest_atesor.porter.workplace import READABLE, forget_readable_script, readable_script

__all__ = ["forget_products", "read_products", "read_source"]

_COPY_S = 600.0


def read_source(place: Place, shell: Shell, name: str) -> Tree:
    """Return the fetched tree of the package ``name``. Raises OSError where there is none, SandboxError."""
    where = f"src/{name}"
    place.bring((where,))
    return _read(place, shell, (where,), lambda root: read_tree(root / where))


def read_products(place: Place, shell: Shell, name: str) -> Tree:
    """Return what was built and installed of the package ``name``, as a workspace. Raises SandboxError.

    Nothing of the builder's may run any more. ``forget_products`` is for when it has been read.
    """
    where = ("stage", f"build/{name}")
    place.bring(where)
    return _read(place, shell, where, lambda root: read_tree(root, below=where))


def forget_products(place: Place, shell: Shell, root: Path) -> None:
    """Remove the copy that ``read_products`` made, if ``root`` is one. Raises SandboxError.

    Its files are those that were built, under second names: a program sees how many names its files have.
    """
    if root == place.workspace / READABLE:
        shell.script(forget_readable_script(("stage", "build")), user="root")


def _read(place: Place, shell: Shell, where: tuple[str, ...], read: Callable[[Path], Tree]) -> Tree:
    try:
        tree = read(place.workspace)
    except PermissionError:
        tree = None
    if tree is not None and not tree.denied:
        return tree
    done = shell.script(readable_script(where), user="root", timeout_s=_COPY_S)
    if done.exit_code == 0 and not done.timed_out:
        place.bring(tuple(f"{READABLE}/{one}" for one in where))
        return read(place.workspace / READABLE)
    # what there is of it would count among the names of the files that were built
    shell.script(forget_readable_script(where), user="root", timeout_s=_COPY_S)
    if tree is None:
        said = " ".join(done.tail.decode("utf-8", "replace").split())[-300:]
        raise SandboxError(f"{where[0]} may not be read by this user, nor copied for it ({said})")
    return tree
