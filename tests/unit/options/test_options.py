"""Every option from every place, and which place wins."""

from pathlib import Path

import pytest

from pytest_atesor.core.plan import Platform, Target
from pytest_atesor.core.shards import Shard
from pytest_atesor.errors import UsageError
from pytest_atesor.option_table import OPTIONS, Option
from pytest_atesor.options import find_list_setting, join_values, read_options


@pytest.fixture
def rootdir(pytester: pytest.Pytester) -> Path:
    pytester.makeini("[pytest]\n")
    return pytester.path


def test_defaults(rootdir: Path, pytester: pytest.Pytester) -> None:
    options = read_options(pytester.parseconfig(), {})
    assert (options.platform, options.target, options.engine) == (Platform.DEBIAN, Target.QEMU, "auto")
    assert (options.package_list, options.agent, options.shard, options.batch_id) == (None, None, None, None)
    assert (options.package, options.only, dict(options.dotenv)) == (False, (), {})
    assert options.is_accelerated
    assert not options.has_build_network
    assert options.output_root == rootdir / "runs/batches"


def test_the_nearer_place_wins(rootdir: Path, pytester: pytest.Pytester) -> None:
    def platform(*arguments: str, **environ: str) -> Platform:
        return read_options(pytester.parseconfig(*arguments), environ).platform

    (rootdir / "tox.ini").write_text("[pytest]\natesor_platform = ubuntu\n")
    assert platform() is Platform.UBUNTU
    (rootdir / ".env").write_text("ATESOR_PLATFORM=alpine\n")
    assert platform() is Platform.ALPINE
    assert platform(ATESOR_PLATFORM="debian") is Platform.DEBIAN
    assert platform("--atesor-platform=ubuntu", ATESOR_PLATFORM="debian") is Platform.UBUNTU


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_every_option_that_is_no_order_has_an_environment_variable_and_an_ini_key(
    rootdir: Path, pytester: pytest.Pytester, option: Option
) -> None:
    assert rootdir.is_dir()
    config = pytester.parseconfig()
    assert config.getoption(option.dest) is None
    assert option.flag == "--" + option.dest.replace("_", "-")
    assert option.env == option.dest.upper()
    if option.is_order:
        with pytest.raises(ValueError, match="unknown configuration value"):
            config.getini(option.dest)
    else:
        assert config.getini(option.dest) == ""


def test_an_order_in_the_environment_is_none(rootdir: Path, pytester: pytest.Pytester) -> None:
    assert rootdir.is_dir()
    options = read_options(pytester.parseconfig(), {"ATESOR_PLAN_ONLY": "1", "ATESOR_MAX_CASES": "7"})
    assert (options.is_plan_only, options.max_cases, options.given) == (False, 7, frozenset())


def test_values_are_split_and_typed(rootdir: Path, pytester: pytest.Pytester) -> None:
    (rootdir / "names").write_text("curl\n# none\nzlib # why\n")
    config = pytester.parseconfig(
        "--atesor-only=gron",
        "--atesor-only=@names",
        "--atesor-agent=python3 'my agent.py' -v",
        "--atesor-package",
        "--atesor-output-root=elsewhere",
    )
    options = read_options(config, {})
    assert options.only == ("gron", "curl", "zlib")
    assert options.agent == ("python3", "my agent.py", "-v")
    assert options.package
    assert options.output_root == rootdir / "elsewhere"


def test_the_environment_s_list_of_names_is_split(rootdir: Path, pytester: pytest.Pytester) -> None:
    assert rootdir.is_dir()
    assert read_options(pytester.parseconfig(), {"ATESOR_ONLY": "gron, curl zlib"}).only == (
        "gron",
        "curl",
        "zlib",
    )


@pytest.mark.parametrize(("text", "is_on"), [("1", True), ("yes", True), ("0", False), ("off", False)])
def test_a_flag_from_the_environment(
    rootdir: Path, pytester: pytest.Pytester, text: str, *, is_on: bool
) -> None:
    assert rootdir.is_dir()
    assert read_options(pytester.parseconfig(), {"ATESOR_PACKAGE": text}).package is is_on
    plain = read_options(pytester.parseconfig(), {"ATESOR_NO_ACCELERATION": text})
    assert plain.is_accelerated is not is_on
    online = read_options(pytester.parseconfig(), {"ATESOR_BUILD_NETWORK": text})
    assert online.has_build_network is is_on


BAD = {
    "flag": ({"ATESOR_PACKAGE": "perhaps"}, "bad value 'perhaps' of ATESOR_PACKAGE in the environment"),
    "engine": ({"ATESOR_ENGINE": "lxc"}, "unknown engine 'lxc' from ATESOR_ENGINE in the environment"),
    "quotes": ({"ATESOR_AGENT": "'open"}, 'agent command "\'open" from ATESOR_AGENT'),
    "digits": ({"ATESOR_SHARD_TOTAL": "٣"}, "bad shard total '٣'"),
    "shard": (
        {"ATESOR_SHARD_INDEX": "3"},
        "shard index 3 from ATESOR_SHARD_INDEX in the environment needs a shard total",
    ),
    "names": ({"ATESOR_ONLY": "@none"}, "cannot read the names in"),
}


@pytest.mark.parametrize(("environ", "words"), BAD.values(), ids=BAD.keys())
def test_a_bad_value_names_itself_and_its_place(
    rootdir: Path, pytester: pytest.Pytester, environ: dict[str, str], words: str
) -> None:
    assert rootdir.is_dir()
    with pytest.raises(UsageError) as caught:
        read_options(pytester.parseconfig(), environ)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_of_what_is_settled_only_the_command_line_is_asked(rootdir: Path, pytester: pytest.Pytester) -> None:
    (rootdir / "tox.ini").write_text("[pytest]\natesor_engine = bogus\natesor_retry_environment = 3\n")
    (rootdir / ".env").write_text("ATESOR_ONLY=@gone\nATESOR_SLOT_PIDS=99\n")
    config = pytester.parseconfig("--atesor-target=native")
    environ = {"ATESOR_PLATFORM": "bogus", "ATESOR_TARGET": "bogus", "ATESOR_NO_BREAKER": "1"}
    options = read_options(config, environ, settled={"engine", "only", "platform", "target"})
    assert (options.platform, options.target, options.engine) == (Platform.DEBIAN, Target.NATIVE, "auto")
    assert (options.only, options.limits.pids, options.retry_environment) == ((), 99, 3)
    assert not options.has_breaker


def test_it_is_known_where_a_value_came_from(rootdir: Path, pytester: pytest.Pytester) -> None:
    (rootdir / ".env").write_text("ATESOR_BATCH_ID=b\n")
    options = read_options(pytester.parseconfig("--atesor-platform=debian"), {"ATESOR_OUTPUT_ROOT": "o"})
    assert options.origins == {
        "platform": "--atesor-platform",
        "output-root": "ATESOR_OUTPUT_ROOT in the environment",
        "batch-id": f"ATESOR_BATCH_ID in {rootdir}/.env",
    }
    assert options.given == {"platform"}


def test_paths_of_settings_count_from_the_rootdir(
    rootdir: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    (rootdir / "names").write_text("zlib\n")
    (rootdir / "sub").mkdir()
    (rootdir / "sub" / "names").write_text("gron\n")
    (rootdir / ".env").write_text("ATESOR_ONLY=@names\nATESOR_PROFILE_ROOT=p\nATESOR_STATE_DIR=state\n")
    monkeypatch.chdir(rootdir / "sub")
    options = read_options(pytester.parseconfig(), {})
    assert (options.only, options.profile_root) == (("zlib",), rootdir / "p")
    assert options.dotenv["ATESOR_STATE_DIR"] == str(rootdir / "state")
    options = read_options(pytester.parseconfig("--atesor-only=@names", "--atesor-profile-root=p"), {})
    assert (options.only, options.profile_root) == (("gron",), rootdir / "sub" / "p")


def test_atesor_run_wants_a_list_in_any_case(rootdir: Path, pytester: pytest.Pytester) -> None:
    config = pytester.parseconfig("--atesor-run=")
    assert find_list_setting(config, {}) == "command"
    assert read_options(config, {}).package_list == "smoke"
    (rootdir / ".env").write_text("ATESOR_LIST=mine\n")
    assert read_options(config, {}).package_list == "mine"
    assert read_options(pytester.parseconfig("--atesor-run=", "--atesor-list="), {}).package_list == ""


def test_shards(rootdir: Path, pytester: pytest.Pytester) -> None:
    assert rootdir.is_dir()
    config = pytester.parseconfig("--atesor-shard-index=1", "--atesor-shard-total=3")
    assert read_options(config, {}).shard == Shard(index=1, total=3)


def test_dotenv_adds_to_the_environment_and_never_overrides_it(
    rootdir: Path, pytester: pytest.Pytester
) -> None:
    (rootdir / ".env").write_text('export KEY="a b"\nHOME=/nowhere\nEMPTY\n')
    assert read_options(pytester.parseconfig(), {"HOME": "/root"}).dotenv == {"KEY": "a b"}


def test_a_variable_of_ours_that_is_empty_is_what_dotenv_says(
    rootdir: Path, pytester: pytest.Pytester
) -> None:
    (rootdir / ".env").write_text("ATESOR_STATE_DIR=state\nhttp_proxy=http://proxy.invalid\n")
    options = read_options(pytester.parseconfig(), {"ATESOR_STATE_DIR": "", "http_proxy": ""})
    assert options.dotenv == {"ATESOR_STATE_DIR": str(rootdir / "state")}


def test_a_list_is_asked_for_by_flag_or_setting(rootdir: Path, pytester: pytest.Pytester) -> None:
    config = pytester.parseconfig()
    assert find_list_setting(config, {}) is None
    assert find_list_setting(config, {"ATESOR_LIST": "smoke"}) == "setting"
    (rootdir / ".env").write_text("# ATESOR_LIST=smoke\n")
    assert find_list_setting(config, {}) is None
    (rootdir / ".env").write_text("ATESOR_LIST=smoke\n")
    assert find_list_setting(config, {}) == "setting"
    assert find_list_setting(pytester.parseconfig("--atesor-list=full"), {}) == "flag"


MISLEADING = {
    "a path that exists": (["-v", "--atesor-agent", "here"], ["-v", "--atesor-agent=here"]),
    "all of ours at once": (
        ["--atesor-list", "full", "--atesor-agent", "here", "x.json"],
        ["--atesor-list=full", "--atesor-agent=here", "x.json"],
    ),
    "a file of names": (["--atesor-only", "@missing"], ["--atesor-only=@missing"]),
    "a path object": (["--atesor-agent", Path("here")], ["--atesor-agent=here"]),
    "no such path": (["--atesor-list", "full"], None),
    "joined already": (["--atesor-agent=here", "here"], None),
    "another plugin's": (["--junitxml", "here"], None),
    "a flag without a value": (["--atesor-package", "here"], None),
}


@pytest.mark.parametrize(("given", "joined"), MISLEADING.values(), ids=MISLEADING.keys())
def test_values_that_mislead_pytest_are_joined(
    tmp_path: Path, given: list[str | Path], joined: list[str] | None
) -> None:
    (tmp_path / "here").touch()
    assert join_values(given, tmp_path) == joined
