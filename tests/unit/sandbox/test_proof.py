"""The proof of native tools as a value, as its file, and for a person."""

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_atesor.core.jsontext import parse_json
from pytest_atesor.core.schema import check_schema
from pytest_atesor.errors import BadInputError
from pytest_atesor.sandbox.proof import (
    CanaryFile,
    Likeness,
    Proof,
    describe_proof,
    format_proof,
    parse_proof,
    read_proof,
)

PROOF = Proof(
    image="localhost/x:debian",
    recipe="d",
    created="1",
    engine="podman 5.0",
    canaries="c",
    reason="",
    duration_s=41.5,
    files=(
        CanaryFile(name="cxx", size_bytes=9, sha256="0" * 64, likeness=Likeness()),
        CanaryFile(name="static", size_bytes=9, sha256="1" * 64, likeness=Likeness((), (".comment",))),
    ),
    native={"make": "4.4.1-2"},
    emulated={"gcc-14": "14.2.0-19"},
)


def test_a_proof_survives_its_file(tmp_path: Path) -> None:
    file = tmp_path / "proof.json"
    file.write_text(format_proof(PROOF))
    assert read_proof(file) == PROOF


def test_the_file_obeys_its_schema() -> None:
    check_schema(parse_json(format_proof(PROOF), "proof.json"), "image_proof_v1", "proof.json")


def test_the_file_says_what_may_differ_and_why() -> None:
    assert '".comment": "names the compiler' in format_proof(PROOF)


def test_a_person_reads_one_line() -> None:
    assert describe_proof(PROOF) == (
        "native tools proven: all 2 canary files agree with those of the emulated tools, 1 byte for byte "
        "(podman 5.0, 42 s)"
    )
    refused = replace(PROOF, reason="cxx: section .text: the bytes differ")
    assert describe_proof(refused) == "native tools refused: cxx: section .text: the bytes differ"


@pytest.mark.parametrize(
    "text", ["", "[]", '{"schema_version": "image_proof_v2"}', '{"schema_version": "image_proof_v1"}']
)
def test_what_is_no_proof_counts_as_none(tmp_path: Path, text: str) -> None:
    file = tmp_path / "proof.json"
    file.write_text(text)
    assert read_proof(file) is None
    with pytest.raises(BadInputError):
        parse_proof(text, "proof.json")
