import re
import time

import pytest

from pytest_atesor.core.outcome import Cause
from pytest_atesor.porter.builders import BUILDERS
from pytest_atesor.porter.builders.interface import BuildOptions, Tweak
from pytest_atesor.porter.diagnose import diagnose, failed_checks, render
from pytest_atesor.porter.fixes import OVERLOOKED, RULES
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


@pytest.mark.parametrize(
    "said",
    [
        "Unsupported CPU",
        "unsupported architectures",
        "Unknown endianness",
        "BIG_ENDIAN is not supported",
        "SYS_ARCH not supported",
        "unknown little-endian platform",
    ],
)
def test_a_refusal_names_the_processor_as_a_word(said: str) -> None:
    log = f'x.c:1:2: error: #error "{said}"\n    1 | #error "{said}"\n'
    assert _first_fix("make", log) == ("refused-architecture", Cause.UNSUPPORTED, (said,))


@pytest.mark.parametrize(
    "said",
    [
        "unsupported search backend",
        "monarch mode is not supported",
        "unsupported archive format",
        "unknown preprocessor",
        "unsupported cpufreq governor",
    ],
)
def test_parts_of_words_refuse_no_processor(said: str) -> None:
    log = f'h.c:1:2: error: #error "{said}"\n    1 | #error "{said}"\n      |  ^~~~~\n'
    assert "refused-architecture" not in [one.rule.name for one in diagnose(log, "make")]


@pytest.mark.parametrize(
    ("log", "name"),
    [
        pytest.param(
            "a.c:4:97: error: 'REG_RIP' undeclared (first use in this function); did you mean 'REG_RA'?\n",
            "REG_RIP",
            id="register-of-a-context",
        ),
        pytest.param(
            "b4.c:2:55: error: 'mcontext_t' {aka 'struct mcontext_t'} has no member named 'arm_pc'\n",
            "arm_pc",
            id="member-of-a-context-in-c++",
        ),
        pytest.param(
            "b.c:4:48: error: 'struct user_regs_struct' has no member named 'rax'; did you mean 'ra'?\n",
            "rax",
            id="traced-register",
        ),
        pytest.param(
            "b.c:2:46: error: invalid use of undefined type 'struct user_regs_struct'\n"
            "    2 | long f(struct user_regs_struct *r) { return r->rax; }\n",
            "rax",
            id="traced-register-without-its-header",
        ),
        pytest.param(
            "x.c:9:21: error: no member named 'gregs' in 'struct mcontext_t'\n", "gregs", id="clang"
        ),
        pytest.param(
            "b.c:5:9: error: 'ORIG_RAX' undeclared here (not in a function)\n", "ORIG_RAX", id="traced-call"
        ),
        pytest.param(
            "f.c:2:22: error: 'SYS_open' undeclared (first use in this function); did you mean "
            "'SYS_openat'?\n",
            "SYS_open",
            id="system-call",
        ),
        pytest.param(
            "s.c:2:13: error: '__NR_select' was not declared in this scope\n",
            "__NR_select",
            id="system-call-in-c++",
        ),
        pytest.param(
            "c.c:2:39: error: attribute 'target(\"sse4.2\")' does not accept an argument\n",
            "sse4.2",
            id="target",
        ),
        pytest.param(
            'c.c:2:39: error: attribute(target("sse4.2")) is unknown\n', "sse4.2", id="target-of-older-gcc"
        ),
        pytest.param(
            "l.c:(.text+0xc): undefined reference to `__builtin_ia32_crc32qi'\n",
            "__builtin_ia32_crc32qi",
            id="linker",
        ),
        pytest.param(
            "i.cc:1:23: error: '__builtin_ia32_pause' was not declared in this scope; did you mean "
            "'__builtin_riscv_pause'?\n",
            "__builtin_ia32_pause",
            id="intrinsic-in-c++",
        ),
        pytest.param(
            "b3.c:1:10: fatal error: sys/reg.h: No such file or directory\n",
            "sys/reg.h",
            id="header-of-registers",
        ),
        pytest.param(
            "j.c:1:10: fatal error: asm/prctl.h: No such file or directory\n",
            "asm/prctl.h",
            id="header-of-calls",
        ),
    ],
)
def test_c_of_other_processors_is_unsupported_and_says_what_it_needs(log: str, name: str) -> None:
    for text in (log, re.sub(r"'([^'\n]*)'", "\u2018\\1\u2019", log)):
        match = next(iter(diagnose(text, "make")))
        assert isinstance(match.rule.fix, Stop)
        assert (match.rule.fix.cause, match.names[0]) == (Cause.UNSUPPORTED, name)
        assert "other processors" in match.rule.fix.reason


@pytest.mark.parametrize(
    "log",
    [
        "<stdin>:1:23: error: 'SYS_open' undeclared (first use in this function)\n",
        "c.c:1:23: warning: implicit declaration of function '__builtin_ia32_crc32si'\n",
        "x.c:3:1: error: 'SYS_futex_waitv' undeclared (first use in this function)\n",
        "x.c:3:1: error: 'REG_ESPACE' undeclared (first use in this function)\n",
        "x.c:3:1: error: '_mm_malloc' was not declared in this scope\n",
        "x.c:3:1: error: 'struct user' has no member named 'name'\n",
        "x.c:2:39: error: attribute 'target(\"arch=+v\")' does not accept an argument\n",
    ],
)
def test_what_riscv64_may_have_is_not_for_other_processors(log: str) -> None:
    assert "foreign-names" not in [one.rule.name for one in diagnose(log, "make")]


@pytest.mark.parametrize(
    ("log", "first"),
    [
        pytest.param("d.s:1: Error: unknown pseudo-op: `.code32'\n", [], id="x86-mode"),
        pytest.param("d.s:1: Error: unknown pseudo-op: `.intel_syntax'\n", [], id="x86-syntax"),
        pytest.param("d.s:10: Error: unknown pseudo-op: `.syntax'\n", [], id="arm-syntax"),
        pytest.param(
            "d.s:3: Error: junk at end of line, first unrecognized character is `%'\n", [], id="register"
        ),
        pytest.param("as: unrecognized option '--64'\n", ["foreign-flags"], id="width"),
        pytest.param(
            "/usr/lib/riscv64-linux-gnu/bin/as: unrecognized option '--32'\n",
            ["foreign-flags"],
            id="width-by-cc",
        ),
        pytest.param(
            "Assembler messages:\nError: armv8-a: ISA string must begin with rv32 or rv64\n",
            ["foreign-flags"],
            id="instruction-set",
        ),
        pytest.param(
            "Assembler messages:\nFatal error: invalid -march= option: `armv8'\n",
            ["foreign-flags"],
            id="instruction-set-before-2.36",
        ),
    ],
)
def test_assembly_for_others_is_left_out_where_that_goes_and_is_unsupported_else(
    log: str, first: list[str]
) -> None:
    end = ["foreign-assembly"]
    assert [one.rule.name for one in diagnose(log, "make")] == first + end
    assert [one.rule.name for one in diagnose(log, "cmake")] == [*first, "assembly-off", *end]


@pytest.mark.parametrize(
    "said",
    [
        "**Error**: You must have `gnulib-tool' in PATH to compile lftp.",
        "./bootstrap: Error: --no-git requires --gnulib-srcdir",
        "./bootstrap: Error: $GNULIB_SRCDIR or --gnulib-srcdir is specified, but does not denote a directory",
    ],
)
def test_each_generation_of_gnulib_is_asked_for_in_its_own_words(said: str) -> None:
    assert next(diagnose(f"{said}\n", "autotools")).rule.name == "gnulib"


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


@pytest.mark.parametrize("rule", OVERLOOKED, ids=lambda rule: rule.name)
def test_what_a_step_did_without_is_found_in_its_words_and_no_error(rule: Rule) -> None:
    builder = rule.builders[0] if rule.builders else "autotools"
    (match,) = diagnose(rule.sample, builder, OVERLOOKED)
    assert (match.rule, match.names[0]) == (rule, rule.expected)


def test_a_program_for_documentation_is_nothing_that_a_build_overlooked() -> None:
    log = "-- Could NOT find Doxygen (missing: DOXYGEN_EXECUTABLE) \n"
    assert list(diagnose(log, "cmake", OVERLOOKED)) == []


@pytest.mark.parametrize("rule", [*RULES, *OVERLOOKED], ids=lambda rule: rule.name)
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
