"""Without the extra, a coverage RunSpec ends in one line that says what to install."""

import pytest

from pytest_atesor.core.documents import parse_document
from pytest_atesor.core.runspec import parse_runspec
from pytest_atesor.core.runspec_kinds import BUILT_IN_KINDS
from pytest_atesor.errors import BadInputError
from pytest_atesor.runners.coverage import MISSING_EXTRA
from pytest_atesor.work.kinds import refuse_kind

TEXT = b"""
schema_version: runspec_v1
kind: coverage
coverage:
  orbits: [{type: molniya, satellites: 1}]
  sensor: {min_elevation_deg: 5}
  area: {type: global, spacing_deg: 5}
  epoch: "2026-01-01T00:00:00Z"
  duration_s: 600
  step_s: 60
"""


def test_the_missing_extra_is_named_at_planning() -> None:
    kinds = {"coverage": refuse_kind(BUILT_IN_KINDS["coverage"], MISSING_EXTRA)}
    with pytest.raises(BadInputError, match=r"c\.yaml.*pip install 'pytest-atesor\[coverage\]'") as error:
        parse_runspec(parse_document(TEXT, "c.yaml"), "c.yaml", kinds)
    assert "\n" not in str(error.value)
