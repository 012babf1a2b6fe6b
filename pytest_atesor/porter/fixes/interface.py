"""What one rule is: a name, a pattern, what to do when it matches, and a real log excerpt that proves it.

Rules are data. A rule's file is the only one to touch when one is added; the tests run over every rule and
demand that its sample is matched by it before any other rule of the same order.
"""

from dataclasses import dataclass

from pytest_atesor.core.outcome import Cause
from pytest_atesor.porter.builders.interface import Tweak
from pytest_atesor.porter.needs import NeedKind

__all__ = ["Change", "Install", "Rule", "Stop"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Install:
    """Something is missing: the pattern's group ``name`` says what; each match counts.

    ``change`` is applied as well, for what must be built differently once it is there. ``names`` says what to
    look for in place of what the pattern caught.
    """

    kind: NeedKind
    names: tuple[str, ...] = ()
    change: Tweak | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Build differently. ``{name}`` in the change's words stands for the pattern's group ``name``."""

    change: Tweak


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """No attempt can help. ``reason`` is one line, with ``{name}`` as above.

    ``reason_online`` takes its place where the build had the network, "" where that changes nothing.
    """

    cause: Cause
    reason: str
    reason_online: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One kind of failure.

    Of one log the first rule that helps is applied, and with it those later ones that are ``independent``: their
    sign does not follow from another failure.

    What a group of the pattern catches is a name. A group ``each`` catches a list, of which every word is one; a group
    ``of`` says what the names are parts of, and they become ``of::name``; a group ``version`` makes ``name@version``.

    ``pattern`` is searched in the attempt's output, line anchors meaning lines. ``builders`` of () means all.
    ``sample`` is an excerpt of a real log, ``expected`` what group ``name`` must be in its first match (""
    for none).
    """

    name: str
    pattern: str
    fix: Install | Change | Stop
    sample: str
    expected: str = ""
    builders: tuple[str, ...] = ()
    independent: bool = False
