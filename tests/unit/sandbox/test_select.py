import pytest
from sandbox_fakes import FakeEngine

from pytest_atesor.errors import SetupError, UsageError
from pytest_atesor.sandbox.select import select_engine


def engines(**problems: str | None) -> dict[str, FakeEngine]:
    return {name: FakeEngine(name=name, problem=problem) for name, problem in problems.items()}


@pytest.mark.parametrize(
    ("docker", "podman", "chosen"),
    [(None, None, "docker"), ("is dead", None, "podman"), (None, "is dead", "docker")],
    ids=["both", "podman-only", "docker-only"],
)
def test_auto_takes_the_first_that_answers(docker: str | None, podman: str | None, chosen: str) -> None:
    assert select_engine("auto", engines(docker=docker, podman=podman)).name == chosen


def test_auto_names_every_reason_when_none_answers() -> None:
    with pytest.raises(SetupError, match=r"docker: start it.*podman: install it"):
        select_engine("auto", engines(docker="start it", podman="install it"))


def test_the_machine_itself_is_asked_last() -> None:
    three = engines(docker="is dead", podman="is absent", host=None)
    assert select_engine("auto", three).name == "host"
    assert select_engine("auto", engines(docker="is dead", podman=None, host=None)).name == "podman"


def test_an_engine_asked_for_by_name_is_the_only_one_tried() -> None:
    with pytest.raises(SetupError, match=r"^is dead$"):
        select_engine("docker", engines(docker="is dead", podman=None))


def test_an_unknown_engine_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="unknown engine 'lxc'; choose one of auto, docker, podman"):
        select_engine("lxc", engines(docker=None, podman=None))
