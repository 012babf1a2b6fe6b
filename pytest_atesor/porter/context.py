"""What a port and a replay work with: the place where they happen, and what they have learnt."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_atesor.porter.shell import SandboxLike
from pytest_atesor.porter.verdict import Outcome

if TYPE_CHECKING:
    from pytest_atesor.porter.download_pool import DownloadPool
    from pytest_atesor.porter.package_tests import SuiteResult
    from pytest_atesor.porter.proofs import Proof
    from pytest_atesor.porter.recipe import Recipe
    from pytest_atesor.porter.recipe_cache import RecipeCache
    from pytest_atesor.porter.scan import Artifact

__all__ = ["Place", "Run", "is_here"]


def is_here(_paths: tuple[str, ...]) -> None:
    """Do nothing: the host's side of the workspace is the workspace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a port happens: sandbox, the host's side of its workspace, the index that all slots share.

    ``bring`` makes paths of the workspace on the host what they are in the sandbox, where that is not one
    directory. ``downloads`` is what the slots share of them, None for nothing. ``recipes`` opens the cache,
    None where there is none; ``renew`` makes the sandbox anew, empty.
    """

    sandbox: SandboxLike
    workspace: Path
    index: Path
    bring: Callable[[tuple[str, ...]], None] = is_here
    downloads: "DownloadPool | None" = None
    recipes: "Callable[[], RecipeCache | None]" = lambda: None
    renew: Callable[[], object] = lambda: None

    @property
    def kept(self) -> Path:
        """The directory of kept artifacts, beside the workspace: the sandbox does not see it."""
        return self.workspace.parent / "kept"


@dataclass(slots=True)
class Run:
    """What a run has learnt; the result is written from it however the run ends."""

    outcome: Outcome
    source: dict[str, str | None] = field(default_factory=dict)
    build_system: str | None = None
    artifacts: "tuple[Artifact, ...]" = ()
    artifacts_root: Path = Path()
    metrics: dict[str, object] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    recipe: "Recipe | None" = None
    patch: str = ""
    package_tests: "SuiteResult | None" = None
    native_tools: Mapping[str, str] = field(default_factory=dict)
    proofs: "Mapping[str, Proof]" = field(default_factory=dict)
    kept_bytes: int = 0

    def take(self, other: "Run") -> None:
        """Become what ``other`` is."""
        for one in fields(self):
            setattr(self, one.name, getattr(other, one.name))
