"""The ordered rules that turn a failed build's log into what the next attempt does differently.

Order matters twice: files in the order below, rules in a file from top to bottom; the first that matches and
was not tried yet wins.
"""

from pytest_atesor.porter.fixes.architecture import RULES as ARCHITECTURE
from pytest_atesor.porter.fixes.compilers import RULES as COMPILERS
from pytest_atesor.porter.fixes.environment import RULES as ENVIRONMENT
from pytest_atesor.porter.fixes.generators import RULES as GENERATORS
from pytest_atesor.porter.fixes.interface import Rule
from pytest_atesor.porter.fixes.languages import RULES as LANGUAGES
from pytest_atesor.porter.fixes.last_resort import RULES as LAST_RESORT
from pytest_atesor.porter.fixes.missing import OVERLOOKED
from pytest_atesor.porter.fixes.missing import RULES as MISSING

__all__ = ["OVERLOOKED", "RULES"]

RULES: tuple[Rule, ...] = (
    *ENVIRONMENT,
    *ARCHITECTURE,
    *GENERATORS,
    *LANGUAGES,
    *COMPILERS,
    *MISSING,
    *LAST_RESORT,
)
