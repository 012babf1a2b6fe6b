"""What a user writes for one port: flags, variables, mistakes; all are answered before anything starts."""

import pytest

from pytest_atesor.errors import UsageError
from pytest_atesor.porter.agent import main
from pytest_atesor.porter.settings import Settings, read_settings

URL = "https://example.org/o/r"


def read(*flags: str, **environ: str) -> Settings:
    return read_settings(["--repo", URL, *flags], environ)


@pytest.mark.parametrize(
    ("text", "is_on"),
    [("True", True), (" ON ", True), ("1", True), ("False", False), ("OFF", False), ("", False)],
)
def test_flags_in_variables_are_words_as_for_a_batch(text: str, *, is_on: bool) -> None:
    assert read(ATESOR_NO_ACCELERATION=text).is_accelerated is not is_on
    assert read(ATESOR_BUILD_NETWORK=text).has_build_network is is_on


@pytest.mark.parametrize("name", ["ATESOR_NO_ACCELERATION", "ATESOR_BUILD_NETWORK"])
def test_a_variable_is_read_only_where_no_flag_decides(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match=f"bad value 'perhaps' of {name}; use 1 or 0"):
        read(**{name: "perhaps"})
    settings = read("--no-acceleration", "--build-network", **{name: "perhaps"})
    assert (settings.is_accelerated, settings.has_build_network) == (False, True)
    assert main(["--help"], {name: "perhaps"}) == 0
    assert "--no-acceleration" in capsys.readouterr().out
