import json
from importlib import resources

import pytest
from jsonschema import Draft202012Validator

from pytest_atesor.core.schema import load_schema

NAMES = sorted(
    file.name.removesuffix(".schema.json")
    for file in resources.files("pytest_atesor.core.schemas").iterdir()
    if file.name.endswith(".json")
)


def test_every_format_has_its_schema() -> None:
    assert set(NAMES) >= {
        "attempt_v1",
        "batch_attempts_v1",
        "batch_plan_v1",
        "batch_results_v1",
        "batch_summary_v1",
        "journal_v1",
        "package_list_v1",
        "result_v1",
    }


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_valid_and_says_who_it_is(name: str) -> None:
    schema = load_schema(name)
    Draft202012Validator.check_schema(json.loads(json.dumps(schema)))
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"] == f"urn:pytest-atesor:{name}"
    assert schema["title"]
