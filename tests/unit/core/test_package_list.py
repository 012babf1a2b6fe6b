import json
from collections.abc import Mapping

import pytest

from pytest_atesor.core.package_list import parse_package_list
from pytest_atesor.errors import BadInputError

ZLIB: Mapping[str, object] = {"name": "zlib", "url": "https://github.com/madler/zlib"}


def listing(*packages: object, **more: object) -> bytes:
    return json.dumps({"$schema_version": 1, "packages": list(packages), **more}).encode()


def entry(**changes: object) -> dict[str, object]:
    return {**ZLIB, **changes}


def test_an_entry_gets_the_defaults_of_the_contract() -> None:
    (found,) = parse_package_list(listing(ZLIB), "x.json").entries
    assert (found.name, found.url, found.max_attempts, found.timeout_s) == ("zlib", ZLIB["url"], 5, 3600)
    assert (found.ref, found.mirrors, found.tags, found.marks) == (None, (), (), ())


def test_the_lists_defaults_hold_unless_an_entry_says_otherwise() -> None:
    text = listing(
        ZLIB,
        entry(name="gron", max_attempts=1, timeout_seconds=10),
        defaults={"max_attempts": 3, "timeout_seconds": 1800},
    )
    found = parse_package_list(text, "x.json").entries
    assert [(each.max_attempts, each.timeout_s) for each in found] == [(3, 1800), (1, 10)]


def test_everything_an_entry_may_say_is_kept() -> None:
    text = listing(
        entry(
            lang="C++",
            group="compression",
            tags=["slow", "Core set", "cpp"],
            ref="v1.3",
            mirrors=["deb:zlib", "https://h/z.tar.gz"],
        )
    )
    (found,) = parse_package_list(text, "x.json").entries
    assert (found.lang, found.group, found.tags) == ("C++", "compression", ("slow", "Core set", "cpp"))
    assert found.marks == ("c++", "cpp", "compression", "slow", "core_set")
    assert (found.ref, found.mirrors) == ("v1.3", ("deb:zlib", "https://h/z.tar.gz"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(b"[]", "x.json, the document: [] must be an object", id="array"),
        pytest.param(b'"x"', 'x.json, the document: "x" must be an object', id="text"),
        pytest.param(
            b"{}",
            'x.json, the document: the key "$schema_version" is missing; add it (and 1 more fault)',
            id="empty",
        ),
        pytest.param(
            b'{"$schema_version": 2, "packages": []}',
            "x.json, $schema_version: 2 must be 1 (and 1 more fault)",
            id="version",
        ),
        pytest.param(
            b'{"$schema_version": true, "packages": [0]}',
            "x.json, $schema_version: true must be 1",
            id="version-bool",
        ),
        pytest.param(listing(), "x.json, packages: [] must have at least 1 element", id="no-packages"),
        pytest.param(listing("zlib"), 'x.json, packages[0]: "zlib" must be an object', id="not-an-entry"),
        pytest.param(
            listing({"name": "a"}), 'x.json, packages[0]: the key "url" is missing; add it', id="no-url"
        ),
        pytest.param(
            listing(ZLIB, entry(name="b", timeout_secs=3)),
            'x.json, packages[1]: unknown key "timeout_secs"; did you mean "timeout_seconds"?',
            id="unknown-key",
        ),
        pytest.param(
            listing(ZLIB, package=[]),
            'x.json, the document: unknown key "package"; did you mean "packages"?',
            id="unknown-top",
        ),
        pytest.param(
            listing(entry(zzz=1)),
            'x.json, packages[0]: unknown key "zzz"; known keys are name, url, ref, mirrors',
            id="unknown-far",
        ),
        pytest.param(
            listing(entry(name=5)), "x.json, packages[0].name: 5 must be a string", id="name-number"
        ),
        pytest.param(
            listing(entry(url=None)), "x.json, packages[0].url: null must be a string", id="url-null"
        ),
        pytest.param(
            listing(entry(max_attempts=True)),
            "x.json, packages[0].max_attempts: true must be a whole number",
            id="bool",
        ),
        pytest.param(
            listing(entry(max_attempts=0)),
            "x.json, packages[0].max_attempts: 0 must be at least 1",
            id="zero",
        ),
        pytest.param(
            listing(entry(timeout_seconds=-5)),
            "x.json, packages[0].timeout_seconds: -5 must be at least 1",
            id="negative",
        ),
        pytest.param(
            listing(entry(timeout_seconds=1.5)),
            "x.json, packages[0].timeout_seconds: 1.5 must be a whole number",
            id="float",
        ),
        pytest.param(
            listing(entry(timeout_seconds=10**18)),
            "x.json, packages[0].timeout_seconds: 1000000000000000000 must be at most 2592000",
            id="huge",
        ),
        pytest.param(
            listing(ZLIB, defaults={"max_attempts": "5"}),
            'x.json, defaults.max_attempts: "5" must be a whole number',
            id="default-text",
        ),
        pytest.param(
            listing(entry(tags="slow")), 'x.json, packages[0].tags: "slow" must be an array', id="tags-text"
        ),
        pytest.param(
            listing(ZLIB, entry(url="https://h/z")),
            'x.json, packages[1].name: "zlib" stands already in packages[0]; rename or remove one of them',
            id="duplicate-name",
        ),
        pytest.param(
            b'{"$schema_version": 1, "packages": [{"name": "a", "url": "https://h/a", "url": "https://h/b"}]}',
            "x.json, packages[0].url: the key stands twice in one object; remove one of them",
            id="duplicate-key",
        ),
        pytest.param(
            listing(entry(url="ext::sh -c id")),
            'x.json, packages[0].url: "ext::sh -c id" is refused: ',
            id="ext",
        ),
        pytest.param(
            listing(entry(url="-u")),
            "x.json, packages[0].url: \"-u\" is refused: it starts with '-'",
            id="option-url",
        ),
        pytest.param(
            listing(entry(ref="-x")),
            "x.json, packages[0].ref: \"-x\" is refused: it starts with '-'",
            id="option-ref",
        ),
        pytest.param(
            listing(entry(mirrors=["deb:zlib", "deb:A"])),
            'x.json, packages[0].mirrors[1]: "deb:A" is refused: ',
            id="mirror",
        ),
        pytest.param(
            listing(entry(tags=["ok", "skip"])),
            'x.json, packages[0].tags[1]: "skip" is refused: pytest or a plugin gives',
            id="mark",
        ),
        pytest.param(
            listing(entry(lang="")),
            'x.json, packages[0].lang: "" is refused: it has no letter',
            id="empty-lang",
        ),
    ],
)
def test_a_bad_list_is_one_line_with_file_path_and_value(text: bytes, message: str) -> None:
    with pytest.raises(BadInputError) as caught:
        parse_package_list(text, "x.json")
    assert str(caught.value).startswith(message)
    assert len(str(caught.value).splitlines()) == 1
    assert caught.value.exit_code == 1


@pytest.mark.parametrize("name", ["../x", "a/b", "-k", "", "a\x00b", "a\nb", "x" * 101], ids=ascii)
def test_names_that_are_no_path_component_are_refused_at_load(name: str) -> None:
    with pytest.raises(BadInputError, match=r"^x\.json, packages\[0\]\.name: .* is refused: a name"):
        parse_package_list(listing(entry(name=name)), "x.json")


@pytest.mark.parametrize("key", ["url", "mirrors"])
def test_a_credential_in_a_url_is_refused_and_not_repeated(key: str) -> None:
    url = "https://user:s3cret@host/o/r"
    with pytest.raises(BadInputError, match="carries a password or token") as caught:
        parse_package_list(listing(entry(**{key: url if key == "url" else [url]})), "x.json")
    assert "s3cret" not in str(caught.value)


def test_names_that_differ_in_case_are_two_packages() -> None:
    found = parse_package_list(listing(ZLIB, entry(name="Zlib")), "x.json").entries
    assert [each.name for each in found] == ["zlib", "Zlib"]
