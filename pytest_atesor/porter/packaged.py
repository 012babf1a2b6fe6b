"""Files that the sandbox's own packages brought: a build that only copies them has built nothing.

What dpkg has recorded of them lies where only root can write. Without such records (another distribution) nothing
is known and nothing is found.
"""

import hashlib
import os
from collections.abc import Iterator, Sequence
from itertools import batched
from pathlib import Path

from pytest_atesor.porter.scan import Artifact, Scan, set_aside
from pytest_atesor.porter.shell import Shell
from pytest_atesor.porter.tree import open_inside

__all__ = ["set_packaged_aside"]
