import time

import pytest

from pytest_atesor.core.outcome import Cause
from pytest_atesor.porter.builders import BUILDERS
from pytest_atesor.porter.builders.interface import BuildOptions, Tweak
from pytest_atesor.porter.diagnose import diagnose, failed_checks, render
from pytest_atesor.porter.fixes import RULES
from pytest_atesor.porter.fixes.interface import Change, Install, Rule, Stop
from pytest_atesor.porter.needs import Need, NeedKind

_BUILDER_NAMES = {one.name for one in BUILDERS}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_is_the_first_to_match_its_own_sample(rule: Rule) -> None:
    builder = rule.builders[0] if rule.builders else "make"
    matches = list(diagnose(rule.sample, builder))
    before = [one.rule.name for one in matches if RULES.index(one.rule) < RULES.index(rule)]
    softer = [
        one.name for one in RULES if one.pattern == rule.pattern
    ]  # the same sign, a milder remedy first
    mine = next(one for one in matches if one.rule is rule)
    assert [name for name in before if name not in softer] == []
    assert (mine.names[0] if mine.names else "") == rule.expected


def test_rule_names_are_unique() -> None:
    names = [one.name for one in RULES]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_names_builders_that_exist(rule: Rule) -> None:
    assert set(rule.builders) <= _BUILDER_NAMES


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "checking for libfoo... no\nchecking for bar.h... no\nconfig.status: creating Makefile\n",
            id="configure",
        ),
        pytest.param("gcc -O2 -c a.c\nar rc liba.a a.o\n", id="make"),
        pytest.param(
            "-- Could NOT find Doxygen (missing: DOXYGEN_EXECUTABLE)\n-- Configuring done\n", id="cmake"
        ),
        pytest.param(
            "Program doxygen found: NO\nRun-time dependency libfoo found: NO (tried pkgconfig)\n", id="meson"
        ),
    ],
)
def test_output_of_a_good_build_matches_no_rule(text: str) -> None:
    for builder in _BUILDER_NAMES:
        assert [one.rule.name for one in diagnose(text, builder)] == []


def test_a_refusal_is_quoted_from_its_first_word() -> None:
    log = 'lj_arch.h:73:2: error: #error "Architecture not supported (in this version), see: luajit.org"\n'
    match = next(one for one in diagnose(log, "make") if one.rule.name == "refused-architecture")
    assert match.names == ("Architecture not supported (in this version), see: luajit.org",)


def _first_fix(builder: str, log: str) -> tuple[str, Cause | None, tuple[str, ...]]:
    match = next(iter(diagnose(log, builder)))
    return match.rule.name, getattr(match.rule.fix, "cause", None), match.names


@pytest.mark.parametrize(
    ("builder", "log", "said"),
    [
        pytest.param(
            "cmake",
            "CMake Error at CMakeLists.txt:10 (message):\n  Unsupported architecture: riscv64\n\n",
            "Unsupported architecture: riscv64",
            id="cmake",
        ),
        pytest.param(
            "cmake",
            "CMake Error at cmake/a.cmake:10 (message):\n  Processor riscv64 is not supported.\n",
            "Processor riscv64 is not supported",
            id="cmake-processor",
        ),
        pytest.param(
            "cmake",
            "CMake Error at CMakeLists.txt:10 (message):\n"
            "  The architecture of this machine, riscv64, is currently not\n  supported\n",
            "architecture of this machine, riscv64, is currently not\n  supported",
            id="cmake-wrapped",
        ),
        pytest.param(
            "autotools",
            "checking target cpu... configure: error: unsupported host riscv64-unknown-linux-gnu\n",
            "unsupported host riscv64-unknown-linux-gnu",
            id="autotools-host",
        ),
        pytest.param(
            "meson",
            "meson.build:12:2: ERROR: Problem encountered: Unsupported CPU family: riscv64\n",
            "Unsupported CPU family: riscv64",
            id="meson",
        ),
        pytest.param(
            "make",
            "Makefile:12: *** Unsupported architecture: riscv64.  Stop.\n",
            "Unsupported architecture: riscv64",
            id="make",
        ),
        pytest.param(
            "make",
            "gen.py:3: ERROR: This CPU isn't supported\n",
            "CPU isn't supported",
            id="in-a-person's-words",
        ),
        pytest.param(
            "make", "RuntimeError: unknown machine riscv64\n", "unknown machine riscv64", id="python"
        ),
        pytest.param(
            "cargo",
            "error: Unsupported architecture\n --> src/lib.rs:1:1\n  |\n"
            '1 | compile_error!("Unsupported architecture");\n',
            "Unsupported architecture",
            id="rust-source",
        ),
        pytest.param(
            "cargo",
            "  thread 'main' (7) panicked at build.rs:44:10:\n  unsupported architecture: riscv64\n",
            "unsupported architecture: riscv64",
            id="rust-build-script",
        ),
    ],
)
def test_a_build_that_refuses_this_processor_says_so_and_asks_for_nothing(
    builder: str, log: str, said: str
) -> None:
    name, cause, names = _first_fix(builder, log)
    assert name.startswith("refused-processor")
    assert (cause, names) == (Cause.UNSUPPORTED, (said,))


@pytest.mark.parametrize(
    "log",
    [
        "configure: error: cannot compute sizeof (long) for riscv64-unknown-linux-gnu\n",
        "Invalid configuration `riscv64-unknown-linux-gnu': machine `riscv64-unknown' not recognized\n",
        "configure: error: /bin/sh ./config.sub riscv64-unknown-linux-gnu failed\n",
        "riscv64-linux-gnu-gcc: error: unrecognized command-line option '-mfoo'\n",
        "gcc: error: unrecognized command-line option '--cpu=x'\n",
        "unzip: error: unsupported archive format\n",
        "x.c:1:1: error: unknown type name 'cpu_set_t'\n",
        "src/arch/x.c:1:1: error: unknown type name 'riscv_foo'\n",
        "-- CMAKE_SYSTEM_PROCESSOR value `riscv64` is unknown\n",
        "configure: WARNING: unsupported architecture riscv64\n",
        "WARNING: Unknown CPU family riscv, please report this at https://a.org/issues/new\n",
        "CMake Warning at a.cmake:239 (message):\n  Unsupported target architecture riscv64! Please set\n",
        "make: *** No rule to make target 'arch/riscv64/unknown.c'.  Stop.\n",
        "configure: error: no support for libfoo in /usr/lib/riscv64-linux-gnu\n",
        "Makefile:3: *** Unknown platform, you must specify a platform.  Stop.\n",
        "configure: error: unknown option cpu\n",
        "clang: error: unsupported option '-fcf-protection' for target 'riscv64-unknown-linux-gnu'\n",
        "clang: error: unsupported argument 'large' to option 'x' for target 'riscv64-unknown-linux-gnu'\n",
        "setup.py: error: unsupported CPU feature 'sse2'\n",
    ],
)
def test_other_errors_refuse_no_processor(log: str) -> None:
    found = [one.rule.name for builder in sorted(_BUILDER_NAMES) for one in diagnose(log, builder)]
    assert not [name for name in found if name.startswith(("refused-processor", "refused-architecture"))]


def test_a_platform_that_is_refused_is_the_last_thing_believed() -> None:
    log = "Makefile:3: *** Unknown platform, you must specify a platform.  Stop.\n"
    assert [one.rule.name for one in diagnose(log, "make")] == ["choose-linux", "refused-platform"]


@pytest.mark.parametrize(
    "said",
    [
        "unsupported host",
        "this machine is not supported",
        "unrecognized machine type",
        "Host system is currently unsupported",
        "not supported on this machine, sorry",
        "operating system not supported",
        "unknown machine riscv64",
        "Unsupported host: riscv64-unknown-linux-gnu",
    ],
)
@pytest.mark.parametrize("builder", ["make", "python"])
def test_a_host_that_is_refused_is_a_refused_platform(builder: str, said: str) -> None:
    found = [one.rule.name for one in diagnose(f"configure: error: {said}\n", builder)]
    assert "refused-platform" in found


@pytest.mark.parametrize(
    "log",
    [
        "Error: unknown host: dl.example.org\n",
        "Error: unknown host dl.example.org\n",
        "error: unknown host\n",
        "error: host is unknown\n",
        "ERROR: Unsupported host compiler version 14, please use gcc 12\n",
        "CMake Error at CMakeLists.txt:3 (message):\n  Unsupported host compiler: GNU 14\n",
        "error: the host compiler gcc-14 is not supported\n",
        "error: unsupported machine learning backend 'cuda'\n",
        "error: machine learning is not supported\n",
        "Makefile:3: *** clang is not supported as host compiler.  Stop.\n",
        "error: could not connect to host: operation not supported\n",
        "configure: error: unknown option cpu\n",
        "configure: error: unknown option platform\n",
        "error: unsupported platform plugin 'xcb'\n",
    ],
)
def test_other_errors_refuse_no_platform(log: str) -> None:
    found = {one.rule.name for builder in sorted(_BUILDER_NAMES) for one in diagnose(log, builder)}
    assert not {one for one in found if one.startswith("refused-")}


def test_a_check_from_a_pipe_needs_no_header_of_other_processors() -> None:
    log = "<stdin>:1:10: fatal error: cpuid.h: No such file or directory\n"
    assert "foreign-header" not in [one.rule.name for one in diagnose(log, "make")]


@pytest.mark.parametrize(
    "said",
    [
        "Please add support for your architecture in build/build_config.h",
        "This CPU is not yet ported",
        "Unrecognised processor",
    ],
)
def test_source_that_refuses_this_processor_says_so(said: str) -> None:
    log = f"src/build_config.h:9:2: error: #error {said}\n    9 | #error {said}\n"
    assert _first_fix("make", log) == ("refused-architecture", Cause.UNSUPPORTED, (said,))


def test_every_missing_header_is_collected_once() -> None:
    log = (
        "a.c:1:10: fatal error: x/y.h: No such file or directory\n" * 2
        + "b.c:1:10: fatal error: z.h: No such file or directory\n"
    )
    match = next(one for one in diagnose(log, "make") if one.rule.name == "missing-header")
    assert match.needs(log) == (
        Need(kind=NeedKind.HEADER, name="x/y.h"),
        Need(kind=NeedKind.HEADER, name="z.h"),
    )


def test_configure_checks_right_before_the_error_name_what_is_missing() -> None:
    log = (
        "checking for gcc... gcc\nchecking for pthread.h... no\n"
        + "checking whether it works... yes\n" * 300
        + "checking for tgetent in -lncurses... no\nchecking for event.h... no\nconfigure: error: giving up\n"
        + "checking for later.h... no\n"
    )
    assert failed_checks(log) == (
        Need(kind=NeedKind.HEADER, name="event.h"),
        Need(kind=NeedKind.LIBRARY, name="ncurses"),
    )


def test_the_configure_error_itself_is_asked_after_the_checks() -> None:
    log = 'checking for library containing event_init... no\nconfigure: error: "libevent not found"\n'
    match = next(one for one in diagnose(log, "autotools") if one.rule.name == "missing-for-configure")
    assert match.needs(log)[-1] == Need(kind=NeedKind.WORDS, name='"libevent not found"')


def test_a_configure_error_on_the_line_below_is_one_too() -> None:
    log = (
        "checking for libgphoto2 >= 2.5.17... no\n"
        "configure: error: \npkg-config cannot find libgphoto2, but it is required\n\n"
    )
    match = next(one for one in diagnose(log, "autotools") if one.rule.name == "missing-for-configure")
    assert match.names == ("pkg-config cannot find libgphoto2, but it is required",)
    assert match.needs(log)[0] == Need(kind=NeedKind.WORDS, name="libgphoto2")


def test_rendered_words_repeat_for_each_name_and_others_do_not() -> None:
    change = render(Tweak(compiler_drop=("{name}", "-x"), compiler_add=("-l{name}",)), ("a", "b"))
    assert change.compiler_drop == ("a", "b", "-x")
    assert change.compiler_add == ("-la", "-lb")


def test_options_keep_earlier_fixes_and_repeat_nothing() -> None:
    options = BuildOptions(jobs=4).with_fix("one", Tweak(compiler_add=("-fPIC",), jobs=1))
    again = options.with_fix("two", Tweak(compiler_add=("-fPIC", "-lm")))
    assert again.tweak.compiler_add == ("-fPIC", "-lm")
    assert again.jobs == 1
    assert again.fixes == ("one", "two")


def test_every_stop_has_a_reason_and_every_change_changes_something() -> None:
    for rule in RULES:
        if isinstance(rule.fix, Stop):
            assert rule.fix.reason
            assert "no network" not in (rule.fix.reason_online or rule.fix.reason), "builds may have it"
        elif isinstance(rule.fix, Change):
            assert rule.fix.change != Tweak()
        else:
            assert isinstance(rule.fix, Install)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_is_quick_on_hostile_output(rule: Rule) -> None:
    hostile = (
        ("error: " * 2000 + "\n")
        + ("a" * 20_000 + "\n")
        + (" " * 20_000 + "\n")
        + ("-- checking for x " * 2000)
        + ("\n" * 5000)
    )
    began = time.process_time()
    list(diagnose(hostile, rule.builders[0] if rule.builders else "make", [rule]))
    assert time.process_time() - began < 5
