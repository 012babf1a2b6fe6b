import pytest

from pytest_atesor.sandbox.bootstrap import parse_debian_mirror

MAIN = "Debian|main|http://mirror.invalid/debian/"


@pytest.mark.parametrize(
    ("targets", "mirror"),
    [
        pytest.param(MAIN, "http://mirror.invalid/debian", id="main-archive"),
        pytest.param(
            "Debian-Security|main|http://security.invalid/\nDebian|contrib|http://other.invalid/\n" + MAIN,
            "http://mirror.invalid/debian",
            id="among-others",
        ),
        pytest.param("Ubuntu|main|http://mirror.invalid/ubuntu/\n", None, id="ubuntu"),
        pytest.param("Debian|main|cdrom://disc/\n", None, id="a-disc"),
        pytest.param("Debian Backports|main|http://mirror.invalid/debian/\n", None, id="backports-alone"),
        pytest.param("", None, id="nothing"),
    ],
)
def test_the_mirror_is_the_one_of_the_machines_main_archive(targets: str, mirror: str | None) -> None:
    assert parse_debian_mirror(targets) == mirror
