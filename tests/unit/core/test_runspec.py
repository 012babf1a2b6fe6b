import json
from collections.abc import Iterator, Mapping

import pytest

from pytest_atesor.core.documents import parse_document, parse_yaml
from pytest_atesor.core.inputs import InputText, check_relative
from pytest_atesor.core.merge import merge_documents
from pytest_atesor.core.plan import Json
from pytest_atesor.core.runspec import Fault, Imports, Kind, RunSpec, Traits, parse_runspec
from pytest_atesor.core.runspec_kinds import BUILT_IN_KINDS
from pytest_atesor.errors import BadInputError

HEAD = "schema_version: runspec_v1\n"
PORT = HEAD + "kind: port\nport:\n  url: https://h/acme/zlib\n"
COMMAND = HEAD + "kind: command\ncommand:\n  argv: [true]\n"


def parse(text: str, kinds: Mapping[str, Kind] = BUILT_IN_KINDS) -> RunSpec:
    return parse_runspec(parse_yaml(text, "c.yaml"), "c.yaml", kinds)


def imports_from(files: Mapping[str, str]) -> Imports:
    def read(path: str) -> InputText:
        if path not in files:
            raise BadInputError(f"profiles/{path} does not exist; check the path")
        return InputText(path=f"profiles/{path}", identity=path, data=files[path].encode())

    return Imports(read)


def resolve(text: str, files: Mapping[str, str]) -> Json:
    return imports_from(files).resolve(parse_yaml(text, "c.yaml"), "c.yaml").value


def test_a_port_says_what_a_list_entry_says() -> None:
    runspec = parse(PORT + "  ref: v1\n  lang: C\n  platform: debian\ntimeout_seconds: 60\ntags: [slow]\n")
    assert (runspec.kind.name, runspec.timeout_s, runspec.tags) == ("port", 60, ("slow",))
    assert runspec.body == {"url": "https://h/acme/zlib", "ref": "v1", "lang": "C", "platform": "debian"}
    assert runspec.kind.describe(runspec.body) == Traits("zlib", ((("lang",), "C"),))


def test_a_command_says_how_to_run_any_program() -> None:
    body = "{argv: [sh, -c, 'echo hi'], env: {A: '1'}, files: {in/x: hi}, outputs: [out], metrics: m.json}"
    runspec = parse(HEAD + "kind: command\ncommand: " + body)
    assert runspec.timeout_s == 3600
    assert runspec.body["argv"] == ["sh", "-c", "echo hi"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            "schema_version: sweep_v1\n",
            "c.yaml is a sweep: a batch takes single-run RunSpecs",
            id="sweep-version",
        ),
        pytest.param(PORT + "sweep: {}\n", "c.yaml is a sweep: ", id="sweep-key"),
        pytest.param("schema_version: batch_v1\nbatch: {}\n", "c.yaml is a batch manifest: ", id="manifest"),
        pytest.param("[1]", "c.yaml, line 1, the document: [1] must be an object", id="list"),
        pytest.param(
            "kind: port\n", 'c.yaml, line 1, the document: the key "schema_version" is missing', id="version"
        ),
        pytest.param(
            HEAD + "kind: prot\n",
            'c.yaml, line 2, kind: unknown kind "prot"; did you mean "port"?',
            id="kind",
        ),
        pytest.param(
            HEAD + "kind: zzz\n",
            'c.yaml, line 2, kind: unknown kind "zzz"; known kinds are command, coverage, port',
            id="kind-far",
        ),
        pytest.param(
            HEAD + "kind: port\n",
            'c.yaml, line 2, kind: a RunSpec of kind port needs an object "port"',
            id="no-body",
        ),
        pytest.param(
            PORT + "timeout_secs: 5\n",
            'c.yaml, line 5, timeout_secs: unknown key "timeout_secs"; did you mean',
            id="key",
        ),
        pytest.param(
            PORT + "command: {}\n", 'c.yaml, line 5, command: unknown key "command"', id="two-bodies"
        ),
        pytest.param(
            PORT + "  rev: x\n", 'c.yaml, line 4, port: unknown key "rev"; did you mean "ref"?', id="body-key"
        ),
        pytest.param(
            PORT + "  ref: 1.10\n",
            'c.yaml, line 5, port.ref: 1.1 must be a string; quote it: "1.10"',
            id="ref-number",
        ),
        pytest.param(
            PORT + "  ref: -x\n", 'c.yaml, line 5, port.ref: "-x" is refused: it starts with', id="ref-option"
        ),
        pytest.param(
            PORT + "  name: ../x\n", 'c.yaml, line 5, port.name: "../x" is refused: a name', id="name"
        ),
        pytest.param(
            PORT.replace("https://h/acme/zlib", "ext::sh"),
            'c.yaml, line 4, port.url: "ext::sh" is refused',
            id="url",
        ),
        pytest.param(
            PORT.replace("h/acme", "u:pw@h"),
            'c.yaml, line 4, port.url: "https://***@h/zlib" is refused',
            id="secret",
        ),
        pytest.param(
            COMMAND,
            'c.yaml, line 4, command.argv[0]: true must be a string; quote it: "true"',
            id="argv-bool",
        ),
        pytest.param(
            COMMAND.replace("[true]", "sh"),
            'c.yaml, line 4, command.argv: "sh" must be an array',
            id="argv-text",
        ),
        pytest.param(
            COMMAND.replace("argv: [true]", "env: {A: b}"),
            'c.yaml, line 4, command: the key "argv" is missing',
            id="no-argv",
        ),
        pytest.param(
            COMMAND.replace("[true]", "[]"),
            "c.yaml, line 4, command.argv: [] must have at least 1 element",
            id="argv-empty",
        ),
        pytest.param(
            COMMAND.replace("[true]", "[a]\n  env: {B: 5}"),
            'c.yaml, line 5, command.env.B: 5 must be a string; quote it: "5"',
            id="env-number",
        ),
        pytest.param(
            COMMAND.replace("[true]", "[a]\n  env: {ATESOR_REF: x}"),
            'c.yaml, line 5, command.env.ATESOR_REF: "x" is refused',
            id="env-own",
        ),
        pytest.param(
            COMMAND.replace("[true]", "[a]\n  outputs: [../x]"),
            'c.yaml, line 5, command.outputs[0]: "../x" is refused',
            id="output",
        ),
        pytest.param(
            COMMAND.replace("[true]", "[a]\n  files: {/etc/x: y}"),
            "c.yaml, line 5, command.files: ",
            id="file",
        ),
        pytest.param(
            COMMAND.replace("[true]", "[a]\n  files: {a/b/c: y, ./a: x}"),
            """c.yaml, line 5, command.files: {"a/b/c": "y", "./a": "x"} is refused: """
            """'a/b/c' stands below './a', which is a file""",
            id="file-below-file",
        ),
        pytest.param(
            COMMAND.replace("[true]", "[a]\n  files: {a: y, ./a: x}"),
            """c.yaml, line 5, command.files: {"a": "y", "./a": "x"} is refused: 'a' and './a' are""",
            id="file-twice",
        ),
    ],
)
def test_a_bad_runspec_is_one_line_with_its_place(text: str, message: str) -> None:
    with pytest.raises(BadInputError) as caught:
        parse(text)
    assert str(caught.value).startswith(message)
    assert len(str(caught.value).splitlines()) == 1
    assert "u:pw" not in str(caught.value)


def test_a_third_kind_needs_nothing_of_the_core() -> None:
    def find_faults(body: Mapping[str, Json]) -> Iterator[Fault]:
        if body["level"] == 13:
            yield Fault(("level",), "it brings bad luck")

    schema = {"type": "object", "required": ["level"], "properties": {"level": {"type": "integer"}}}
    kinds = {**BUILT_IN_KINDS, "measure": Kind(name="measure", schema=schema, find_faults=find_faults)}
    assert parse(HEAD + "kind: measure\nmeasure: {level: 3}\n", kinds).body == {"level": 3}
    with pytest.raises(BadInputError, match=r"c\.yaml, line 3, measure.level: \"x\" must be a whole number"):
        parse(HEAD + "kind: measure\nmeasure: {level: x}\n", kinds)
    with pytest.raises(BadInputError, match=r"measure\.level: 13 is refused: it brings bad luck"):
        parse(HEAD + "kind: measure\nmeasure: {level: 13}\n", kinds)


def test_imports_merge_deeply_and_in_order_below_the_file_itself() -> None:
    files = {
        "a.yaml": "timeout_seconds: 10\nport: {ref: a, lang: C}\ntags: [a, b]",
        "b.yaml": "imports: [c.yaml]\nport: {ref: b}",
        "c.yaml": "port: {ref: c, group: net}",
    }
    text = HEAD + "imports: [a.yaml, b.yaml]\nkind: port\nport: {url: https://h/x}\ntags: [own]\n"
    assert resolve(text, files) == {
        "schema_version": "runspec_v1",
        "imports": ["a.yaml", "b.yaml"],
        "kind": "port",
        "timeout_seconds": 10,
        "port": {"ref": "b", "lang": "C", "group": "net", "url": "https://h/x"},
        "tags": ["own"],
    }


def test_a_fault_in_an_import_names_the_import() -> None:
    imports = imports_from({"a.yaml": "\n\nport:\n  max_attempts: 0\n"})
    document = imports.resolve(parse_yaml("imports: [a.yaml]\n" + PORT, "c.yaml"), "c.yaml")
    with pytest.raises(
        BadInputError, match=r"^profiles/a\.yaml, line 4, port.max_attempts: 0 must be at least 1"
    ):
        parse_runspec(document, "c.yaml", BUILT_IN_KINDS)


MIXED = {
    "JSON imported": ("c.yaml", {"a.json": '{"port": {"max_attempts": 0}}'}, {}, "profiles/a.json"),
    "JSON over YAML": (
        "c.json",
        {"a.yaml": "port: {max_attempts: 1, lang: c}"},
        {"max_attempts": 0},
        "c.json",
    ),
    "JSON beside YAML": ("c.json", {"a.yaml": "port: {lang: c}"}, {"max_attempts": 0}, "c.json"),
    "JSON everywhere": ("c.json", {"a.json": '{"port": {"max_attempts": 0}}'}, {}, "profiles/a.json"),
}


@pytest.mark.parametrize(("where", "files", "more", "named"), MIXED.values(), ids=MIXED.keys())
def test_a_fault_names_the_file_that_it_came_from_where_one_is_json(
    where: str, files: dict[str, str], more: dict[str, int], named: str
) -> None:
    body = {"url": "https://h/x", **more}
    text = json.dumps({
        "imports": list(files),
        "schema_version": "runspec_v1",
        "kind": "port",
        "port": body,
    })
    document = imports_from(files).resolve(parse_document(text, where), where)
    with pytest.raises(BadInputError) as caught:
        parse_runspec(document, where, BUILT_IN_KINDS)
    assert str(caught.value) == f"{named}, port.max_attempts: 0 must be at least 1"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        pytest.param(
            {"a.yaml": "imports: [b.yaml]", "b.yaml": "imports: [a.yaml]"},
            "imports itself in a circle",
            id="circle",
        ),
        pytest.param({"a.yaml": "imports: [a.yaml]"}, "imports itself in a circle", id="self"),
        pytest.param(
            {"a.yaml": "imports: [../x.yaml]"},
            'profiles/a.yaml, line 1, imports[0]: "../x.yaml" is refused: it leads out',
            id="out",
        ),
        pytest.param(
            {"a.yaml": "imports: [/etc/x]"},
            'profiles/a.yaml, line 1, imports[0]: "/etc/x" is refused: it is absolute',
            id="absolute",
        ),
        pytest.param(
            {"a.yaml": "imports: x"}, 'profiles/a.yaml, line 1, imports: "x" must be an array', id="text"
        ),
        pytest.param({"a.yaml": "- 1"}, "profiles/a.yaml must be an object", id="list"),
        pytest.param(
            {}, "c.yaml, line 1, imports[0]: profiles/a.yaml does not exist; check the path", id="missing"
        ),
        pytest.param(
            {"a.yaml": "tags: []\nimports:\n  - b.yaml"},
            "profiles/a.yaml, line 3, imports[0]: profiles/b.yaml does not exist; check the path",
            id="missing-behind",
        ),
    ],
)
def test_bad_imports_are_named(files: dict[str, str], message: str) -> None:
    with pytest.raises(BadInputError) as caught:
        resolve("imports: [a.yaml]", files)
    assert message in str(caught.value)


def test_one_fragment_in_two_branches_is_no_circle() -> None:
    files = {"a.yaml": "imports: [c.yaml]", "b.yaml": "imports: [c.yaml]", "c.yaml": "tags: [c]"}
    assert resolve("imports: [a.yaml, b.yaml]", files) == {"imports": ["a.yaml", "b.yaml"], "tags": ["c"]}


def test_every_fragment_is_in_the_provenance_once_with_what_it_imports() -> None:
    imports = imports_from({"a.yaml": "imports: [b.yaml]", "b.yaml": "tags: []"})
    for _ in range(2):
        imports.resolve(parse_yaml("imports: [a.yaml, b.yaml]", "c.yaml"), "c.yaml")
    found = {file.path: (file.role, file.imports) for file in imports.files}
    assert found == {"profiles/a.yaml": ("import", ("profiles/b.yaml",)), "profiles/b.yaml": ("import", ())}


def test_a_replaced_value_forgets_where_the_old_one_stood() -> None:
    merged = merge_documents(parse_yaml("a:\n  b: 1\n", "old.yaml"), parse_yaml("a: 5\n", "new.yaml"))
    assert merged.value == {"a": 5}
    assert {path: mark.where for path, mark in merged.marks.items()} == {(): "new.yaml", ("a",): "new.yaml"}


@pytest.mark.parametrize("path", ["a.yaml", "a/b.yaml", "./a.yaml", "a/../b.yaml"])
def test_relative_paths_that_stay_inside(path: str) -> None:
    assert not check_relative(path).startswith((".", "/"))


@pytest.mark.parametrize(
    "path",
    ["", ".", "..", "../a", "a/../../b", "/a", "a\0b", "a\nb", "a\\b", "x" * 256, "é" * 128],
    ids=ascii,
)
def test_paths_that_leave_are_refused(path: str) -> None:
    with pytest.raises(ValueError, match=r"^it "):
        check_relative(path)
