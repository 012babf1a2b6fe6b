"""Recipes of verified ports, kept on the host for the next port of the same package.

One file per package, in a directory per platform and target that no sandbox sees and only its owner writes.
An entry holds for the image and the version of this program that made it, and for the very source: what it
says is checked before it is used, and what does not hold is removed with a reason. Nothing is run here.
"""

import contextlib
import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_atesor.core.plan import Platform, Target
from pytest_atesor.errors import UsageError
from pytest_atesor.porter.recipe import Recipe, format_recipe, parse_recipe
from pytest_atesor.sandbox.recipe import LABEL_CREATED, LABEL_RECIPE

__all__ = ["Known", "RecipeCache", "Source", "Unknown", "identify_image"]

_SCHEMA = "cached_recipe_v1"
_LARGEST_BYTES = 8 * 1024 * 1024
_MOST_ENTRIES = 2_000
_OTHERS_WRITE = 0o022
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What is ported: the URL (redacted) and ref that were asked for, and what they are now."""

    url: str
    ref: str | None
    commit: str | None
    sha256: str | None

    @property
    def identity(self) -> str:
        """The commit, or the archive's digest; "" for neither."""
        return self.commit or self.sha256 or ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A recipe that holds."""

    recipe: Recipe


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """No recipe that holds; ``reason`` says why an entry was removed, "" where there was none."""

    reason: str = ""


class RecipeCache:
    """The entries of one platform and target.

    ``image`` answers with the identity of the image that sandboxes are made of; it is asked only when an
    entry is read or written, because an engine takes its time.
    """

    def __init__(
        self,
        root: Path,
        platform: Platform,
        target: Target,
        *,
        image: Callable[[], str],
        version: str,
        most: int = _MOST_ENTRIES,
    ) -> None:
        self._directory = root / f"{platform}-{target}"
        self._platform = platform
        self._target = target
        self._image = image
        self._version = version
        self._most = most

    def find(self, source: Source, *, wants_tests: bool = True) -> Known | Unknown:
        """Return the recipe for ``source``; an entry that does not hold is removed.

        ``wants_tests`` asks for one that knows about the package's tests: a port that skipped them does not.
        """
        path = self._path(source.url, source.ref)
        try:
            text = _read_private(path)
        except FileNotFoundError:
            return Unknown()
        except OSError as error:
            self.drop(source)
            return Unknown(reason=f"its entry cannot be trusted ({error})")
        try:
            recipe = self._check(text, source, wants_tests=wants_tests)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, UsageError) as error:
            self.drop(source)
            return Unknown(reason=" ".join(str(error).split())[:200] or "its entry is broken")
        with contextlib.suppress(OSError):
            os.utime(path)  # the oldest entries go first
        return Known(recipe=recipe)

    def keep(self, recipe: Recipe, *, knows_tests: bool = True) -> None:
        """Write the entry of ``recipe``, replacing an older one atomically. Raises OSError."""
        document = json.loads(format_recipe(recipe))
        entry = {
            "schema_version": _SCHEMA,
            "target": self._target.value,
            "image": self._image(),
            "version": self._version,
            "knows_tests": knows_tests,
            "sha256": _digest(document),
            "recipe": document,
        }
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, temporary = tempfile.mkstemp(prefix=".new-", dir=self._directory)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape") as stream:
                stream.write(json.dumps(entry) + "\n")
            Path(temporary).replace(self._path(recipe.url, recipe.ref))
        finally:
            Path(temporary).unlink(missing_ok=True)
        self._forget_oldest()

    def drop(self, source: Source) -> None:
        """Remove the entry of ``source``; absent is fine."""
        with contextlib.suppress(OSError):
            self._path(source.url, source.ref).unlink()

    def _path(self, url: str, ref: str | None) -> Path:
        key = json.dumps([url, ref]).encode()
        return self._directory / f"{hashlib.sha256(key).hexdigest()[:40]}.json"

    def _check(self, text: str, source: Source, *, wants_tests: bool) -> Recipe:
        """Return the recipe of an entry. Raises, with the reason, when it does not hold."""
        entry: dict[str, Any] = json.loads(text)
        document = entry["recipe"]
        if entry["schema_version"] != _SCHEMA or entry["sha256"] != _digest(document):
            raise ValueError("its entry is damaged")
        recipe = parse_recipe(json.dumps(document), "its entry")
        asked = (source.url, source.ref, self._platform.value, self._target.value)
        if (recipe.url, recipe.ref, recipe.platform, entry["target"]) != asked:
            raise ValueError("its entry is another package's")
        if entry["version"] != self._version:
            raise ValueError(f"its entry is of version {entry['version']} of this program")
        if entry["image"] != self._image():
            raise ValueError("its entry is of another sandbox image")
        if not source.identity or (recipe.commit, recipe.sha256) != (source.commit, source.sha256):
            raise ValueError(
                f"its entry is of {(recipe.commit or recipe.sha256 or 'nothing')[:12]}, "
                f"the source is {source.identity[:12] or 'nothing'} now"
            )
        if wants_tests and entry["knows_tests"] is not True:
            raise ValueError("its entry was made without the package's tests")
        return recipe

    def _forget_oldest(self) -> None:
        """Keep the entries within their number."""
        with contextlib.suppress(OSError):
            found = sorted(self._directory.glob("*.json"), key=lambda one: one.stat().st_mtime)
            for old in found[: -self._most]:
                old.unlink(missing_ok=True)


def identify_image(labels: Mapping[str, str]) -> str:
    """Return what tells one image from another by its labels, the same in every engine."""
    return f"{labels.get(LABEL_RECIPE, '')} {labels.get(LABEL_CREATED, '')}"


def _read_private(path: Path) -> str:
    """Return the text of a file that only its owner, we, can have written. Raises OSError."""
    _refuse_others(path.parent.lstat(), "the directory")
    handle = os.open(path, _FILE)
    with os.fdopen(handle, "rb") as stream:
        facts = os.fstat(handle)
        _refuse_others(facts, "the file")
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > _LARGEST_BYTES:
            raise OSError("it is no file of a recipe's size")
        return stream.read(_LARGEST_BYTES).decode("utf-8", "surrogateescape")


def _refuse_others(facts: os.stat_result, what: str) -> None:
    if facts.st_uid != os.geteuid() or facts.st_mode & _OTHERS_WRITE:
        raise OSError(f"others than this user can write {what}")


def _digest(document: Mapping[str, Any]) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
