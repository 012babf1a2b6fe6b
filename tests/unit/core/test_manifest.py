from collections.abc import Mapping

import pytest

from pytest_atesor.core.inputs import InputText
from pytest_atesor.core.manifest import parse_manifest, plan_manifest
from pytest_atesor.core.plan import BatchKind, Plan, Platform, Target
from pytest_atesor.core.plan_json import format_plan, parse_versioned_plan
from pytest_atesor.core.planning import PlanFacts
from pytest_atesor.core.runspec_kinds import BUILT_IN_KINDS
from pytest_atesor.errors import BadInputError

SEED = """\
schema_version: batch_v1
batch:
  cases:
    - label: polar-walker
      runspec: cases/architecture-polar-walker.yaml
    - label: molniya
      runspec: cases/architecture-molniya.yaml
  summary:
    fields:
      - coverage.union_coverage_fraction
    write_csv: true
"""
WALKER = "schema_version: runspec_v1\nimports: [base.yaml]\nkind: command\ncommand: {argv: [walk]}\n"
MOLNIYA = "schema_version: runspec_v1\nkind: port\nport: {url: https://h/a/m, lang: C++}\ntags: [slow]\n"
FILES = {
    "cases/architecture-polar-walker.yaml": WALKER,
    "cases/architecture-molniya.yaml": MOLNIYA,
    "base.yaml": "timeout_seconds: 7\n",
}


class DictReader:
    """An InputReader over texts; ``same`` gives several paths one identity, as a symlink does."""

    def __init__(self, files: Mapping[str, str], same: Mapping[str, str] | None = None) -> None:
        self._files = files
        self._same = same or {}

    def read_case(self, path: str) -> InputText:
        if path not in self._files:
            raise BadInputError(f"{path} does not exist; check the path")
        return InputText(path=path, identity=self._same.get(path, path), data=self._files[path].encode())

    def read_import(self, path: str) -> InputText:
        return self.read_case(path)


def plan(text: str, reader: DictReader) -> Plan:
    facts = PlanFacts(
        batch_id="m-1",
        name="m",
        platform=Platform.DEBIAN,
        target=Target.QEMU,
        settings={},
        created_at="2026-01-02T03:04:05Z",
    )
    return plan_manifest(
        InputText(path="m.yaml", identity="m", data=text.encode()), reader, BUILT_IN_KINDS, facts
    )


def manifest_of(*cases: str) -> str:
    return "schema_version: batch_v1\nbatch:\n  cases:\n" + "".join(f"    - {case}\n" for case in cases)


def test_the_seeds_example_is_planned() -> None:
    made = plan(SEED, DictReader(FILES))
    assert (made.kind, made.source) == (BatchKind.MANIFEST, "m.yaml")
    assert (made.summary_fields, made.write_csv) == (("coverage.union_coverage_fraction",), True)
    found = [
        (case.case_id, case.label, case.kind, case.timeout_s, case.derived_name, case.marks)
        for case in made.cases
    ]
    assert found == [
        ("polar-walker", "polar-walker", "command", 7, "polar-walker", ()),
        ("molniya", "molniya", "port", 3600, "m", ("slow", "c++", "cpp")),
    ]
    assert made.cases[0].spec == {"argv": ["walk"]}


def test_the_plan_keeps_the_provenance_of_every_input() -> None:
    made = plan(SEED, DictReader(FILES))
    assert [(file.path, file.role, file.imports) for file in made.inputs] == [
        ("m.yaml", "manifest", ()),
        ("cases/architecture-polar-walker.yaml", "runspec", ("base.yaml",)),
        ("cases/architecture-molniya.yaml", "runspec", ()),
        ("base.yaml", "import", ()),
    ]
    assert parse_versioned_plan(format_plan(made), "x").plan == made


def test_json_manifests_are_read_too() -> None:
    text = '{"schema_version": "batch_v1", "batch": {"cases": [{"label": "a", "runspec": "a.json"}]}}'
    assert parse_manifest(text, "m.json").cases[0].label == "a"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            manifest_of("{label: no, runspec: a}"),
            "m.yaml, line 4, batch.cases[0].label: no without quotes",
            id="no",
        ),
        pytest.param(
            manifest_of("{label: 1.10, runspec: a}"),
            'm.yaml, line 4, batch.cases[0].label: 1.1 must be a string; quote it: "1.10"',
            id="1.10",
        ),
        pytest.param(
            manifest_of("{label: 010, runspec: a}"),
            "m.yaml, line 4, batch.cases[0].label: 010 without quotes",
            id="010",
        ),
        pytest.param(
            manifest_of("{label: 5, runspec: a}"),
            'm.yaml, line 4, batch.cases[0].label: 5 must be a string; quote it: "5"',
            id="5",
        ),
        pytest.param(
            manifest_of("{label: a, label: b, runspec: a}"),
            "m.yaml, line 4, batch.cases[0].label: the key stands twice, in lines 4 and 4",
            id="duplicate-key",
        ),
        pytest.param(
            manifest_of("{label: a, runspec: a}", "{label: a, runspec: b}"),
            'm.yaml, line 5, batch.cases[1].label: "a" stands already in batch.cases[0]',
            id="label-twice",
        ),
        pytest.param(
            manifest_of("{label: a, runspec: x/a}", "{label: b, runspec: x/../x/a}"),
            'm.yaml, line 5, batch.cases[1].runspec: "x/a" stands already in batch.cases[0]',
            id="path-twice",
        ),
        pytest.param(
            manifest_of("{label: a, runspec: ../a}"),
            'm.yaml, line 4, batch.cases[0].runspec: "../a" is refused: it leads out',
            id="out",
        ),
        pytest.param(
            manifest_of("{label: a, runspec: /a}"),
            'm.yaml, line 4, batch.cases[0].runspec: "/a" is refused: it is absolute',
            id="absolute",
        ),
        pytest.param(
            manifest_of('{label: "a\\nb", runspec: a}'),
            "m.yaml, line 4, batch.cases[0].label: ",
            id="label-newline",
        ),
        pytest.param(
            manifest_of('{label: " ", runspec: a}'),
            "m.yaml, line 4, batch.cases[0].label: ",
            id="label-blank",
        ),
        pytest.param(
            manifest_of("{label: a}"),
            'm.yaml, line 4, batch.cases[0]: the key "runspec" is missing',
            id="no-runspec",
        ),
        pytest.param(
            "schema_version: batch_v1\nbatch: {cases: []}",
            "m.yaml, line 2, batch.cases: [] must have at least 1",
            id="no-cases",
        ),
        pytest.param(
            "schema_version: batch_v2\nbatch: {cases: []}",
            'm.yaml, line 1, schema_version: "batch_v2" must be "batch_v1"',
            id="version",
        ),
        pytest.param(
            "$schema_version: 1\npackages: []",
            "m.yaml is a package list, not a batch manifest",
            id="package-list",
        ),
        pytest.param(MOLNIYA, "m.yaml is a single RunSpec, not a batch manifest", id="runspec"),
        pytest.param("", "m.yaml is empty", id="empty"),
    ],
)
def test_a_bad_manifest_is_one_line_with_its_place(text: str, message: str) -> None:
    with pytest.raises(BadInputError) as caught:
        parse_manifest(text, "m.yaml")
    assert str(caught.value).startswith(message)
    assert len(str(caught.value).splitlines()) == 1


def test_two_paths_to_one_file_are_one_too_many() -> None:
    files = {"a.yaml": WALKER, "b.yaml": WALKER, "base.yaml": "tags: []"}
    text = manifest_of("{label: a, runspec: a.yaml}", "{label: b, runspec: b.yaml}")
    assert len(plan(text, DictReader(files)).cases) == 2
    with pytest.raises(
        BadInputError, match=r"batch\.cases\[1\]\.runspec: .* stands already in batch\.cases\[0\]"
    ):
        plan(text, DictReader(files, same={"a.yaml": "real", "b.yaml": "real"}))


def test_a_file_that_cannot_be_had_is_named_with_the_place_that_asks_for_it() -> None:
    text = manifest_of("{label: a, runspec: a.yaml}", "{label: b, runspec: gone.yaml}")
    with pytest.raises(BadInputError) as caught:
        plan(text, DictReader({"a.yaml": MOLNIYA}))
    said = "m.yaml, line 5, batch.cases[1].runspec: gone.yaml does not exist; check the path"
    assert str(caught.value) == said
    with pytest.raises(BadInputError, match=r"^a\.yaml, line 2, imports\[0\]: base\.yaml does not exist"):
        plan(text, DictReader({"a.yaml": WALKER}))


def test_a_sweep_is_refused_by_name() -> None:
    text = manifest_of("{label: a, runspec: a.yaml}")
    with pytest.raises(BadInputError, match=r"^a\.yaml is a sweep: "):
        plan(text, DictReader({"a.yaml": "schema_version: runspec_v1\nsweep: {x: [1, 2]}\n"}))


def test_a_bad_tag_names_its_file() -> None:
    text = manifest_of("{label: a, runspec: a.yaml}")
    with pytest.raises(BadInputError, match=r'^a\.yaml, line 4, tags\[0\]: "skip" is refused: pytest or a'):
        plan(text, DictReader({"a.yaml": MOLNIYA.replace("slow", "skip")}))
