"""What a build is missing, as its log or its metadata names it."""

from dataclasses import dataclass
from enum import StrEnum, unique

__all__ = ["Need", "NeedKind"]


@unique
class NeedKind(StrEnum):
    """What sort of thing is missing; it decides where the distribution's file index is asked."""

    HEADER = "header"
    LIBRARY = "library"
    PKG_CONFIG = "pkg-config module"
    CMAKE = "CMake package"
    COMMAND = "command"
    PYTHON = "Python module"
    PERL = "Perl module"
    MACRO = "autoconf macro"
    GO = "Go package"
    CRATE = "crate"
    PACKAGE = "package"
    WORDS = "dependency"

    @property
    def is_of_registry(self) -> bool:
        """Whether a language's registry has it, and the distribution only as packaged source."""
        return self in {NeedKind.GO, NeedKind.CRATE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """One missing thing.

    For WORDS, ``name`` is free text whose words are tried against the index; for CMAKE it may be
    ``Package::component``, or ``Package@version`` where another version is there.
    """

    kind: NeedKind
    name: str

    def __str__(self) -> str:
        """Return it as a person reads it, in one line."""
        return f"{self.kind.value} {' '.join(self.name.split())}"
