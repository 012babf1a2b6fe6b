from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_atesor.core.outcome import Cause, Verdict
from pytest_atesor.errors import SandboxError
from pytest_atesor.porter.attempts import Attempts, Built
from pytest_atesor.porter.builders.cargo import DISTRIBUTION_CRATES, CargoProject
from pytest_atesor.porter.builders.cmake import CMakeProject
from pytest_atesor.porter.builders.configure import ConfigureProject
from pytest_atesor.porter.builders.golang import GoProject
from pytest_atesor.porter.builders.interface import BuildOptions, Candidate, Tweak
from pytest_atesor.porter.builders.make import MakeProject
from pytest_atesor.porter.builders.meson import MesonProject
from pytest_atesor.porter.builders.plainc import PlainCProject
from pytest_atesor.porter.elf import ElfFacts, ElfType
from pytest_atesor.porter.installer import Installer
from pytest_atesor.porter.phases import Phases
from pytest_atesor.porter.repair import Package, Repair
from pytest_atesor.porter.scan import Artifact, Scan
from pytest_atesor.porter.shell import Capture, Shell
from pytest_atesor.porter.sources.interface import Submodule
from pytest_atesor.porter.spoken import build_file_words
from pytest_atesor.porter.tree import Tree
from pytest_atesor.porter.workplace import fresh_tree_script, wrapper_script
from pytest_atesor.sandbox.interface import Completed, ExecSpec
from tests.unit.porter.fake_sandbox import FakeSandbox

_INDEX = (
    "usr/include/foo.h\tlibdevel/libfoo-dev\nusr/include/openssl/ssl.h\tlibdevel/libssl-dev\n"
    "usr/include/skalibs/skalibs.h\tlibdevel/skalibs-dev\n"
    "usr/bin/gperf\tdevel/gperf\nusr/lib/riscv64-linux-gnu/pkgconfig/gnutls.pc\tlibdevel/libgnutls28-dev\n"
    "usr/lib/llvm-19/lib/cmake/llvm/LLVMConfig.cmake\tdevel/llvm-19-dev\n"
)
_FACTS = ElfFacts(
    type=ElfType.EXECUTABLE,
    machine="riscv",
    bits=64,
    little_endian=True,
    float_abi="double",
    compressed=True,
    abi="lp64d",
    interpreter="",
    needed=(),
    stripped=False,
    has_content=True,
    architecture="",
)
_PROOF = Scan(
    products=(Artifact(path="stage/x", size_bytes=1, type="executable", sha256="0" * 64, facts=_FACTS),)
)
_NOTHING = Scan(products=())
_MAKE = Candidate(builder="make", directory="", rank=60, evidence="Makefile", project=MakeProject())
_CMAKE = Candidate(builder="cmake", directory="", rank=70, evidence="CMakeLists.txt", project=CMakeProject())
_SUB = Candidate(
    builder="make",
    directory="src",
    rank=30,
    evidence="src/Makefile",
    project=MakeProject(),
)
_PLAIN = Candidate(
    builder="plain-c",
    directory="",
    rank=10,
    evidence="x.c",
    project=PlainCProject(sources=("x.c",), mains=("x.c",)),
)


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., tuple[Built, FakeSandbox]]:
    def go(  # noqa: PLR0913 - keyword-only settings of one run
        answers: Sequence[tuple[str, list[tuple[int, bytes]]]],
        candidates: Sequence[Candidate] = (_MAKE,),
        *,
        scans: Sequence[Scan] = (_PROOF,),
        most: int = 5,
        own: frozenset[str] = frozenset(),
        absent: tuple[Submodule, ...] = (),
        left_out: tuple[str, ...] = (),
        online: bool = False,
        tweak: Tweak | None = None,
    ) -> tuple[Built, FakeSandbox]:
        index = tmp_path / "index"
        index.write_text(_INDEX)
        sandbox = FakeSandbox(list(answers))
        with (tmp_path / "out").open("wb") as output:
            phases = Phases(output)
            shell = Shell(sandbox, deadline=None, output=output, keeps_network=online)
            installer = Installer(shell, index=index, workspace=tmp_path, say=phases.say)
            left = list(scans)
            package = Package(
                name="p",
                same_times=True,
                debian_source="p",
                tree_files=own,
                absent=absent,
                left_out=left_out,
            )
            attempts = Attempts(
                shell,
                Repair(installer, package, say=phases.say, is_online=shell.keeps_network),
                phases,
                package=package,
                scan=lambda: left.pop(0) if len(left) > 1 else left[0],
            )
            options = BuildOptions(jobs=2, tweak=tweak or Tweak())
            return attempts.run(candidates, options, most), sandbox

    return go


_BUILD = r"^PATH=.*\nmake -j"
_NO_HEADER = b"x.c:1:10: fatal error: foo.h: No such file or directory\nmake: *** [x.o] Error 1\n"


def test_a_build_that_passes_and_proves_is_verified_in_one_attempt(
    run: Callable[..., tuple[Built, FakeSandbox]],
) -> None:
    built, sandbox = run([])
    assert (built.outcome.verdict, built.attempts) == (Verdict.VERIFIED, 1)
    assert {one.user for one in sandbox.ran} == {"builder"}
    assert sandbox.network == [False]


def test_a_missing_header_is_installed_and_the_next_attempt_starts_clean(
    run: Callable[..., tuple[Built, FakeSandbox]],
) -> None:
    built, sandbox = run([(_BUILD, [(2, _NO_HEADER), (0, b"")])])
    assert built.outcome.verdict is Verdict.VERIFIED
    assert built.options.fixes == ("missing-header",)
    assert len(sandbox.scripts(r"cp -a")) == 2
    (apt,) = [one for one in sandbox.ran if "libfoo-dev" in one.argv[-1]]
    assert apt.user == "root"
    assert sandbox.network == [False, True, False]


def test_what_a_build_left_running_is_gone_before_anything_is_installed_with_the_network_on(
    run: Callable[..., tuple[Built, FakeSandbox]],
) -> None:
    _, sandbox = run([(_BUILD, [(2, _NO_HEADER), (0, b"")])])
    order = [
        name for one in sandbox.ran for name in ("make -j", "kill -s KILL", "apt-get") if name in one.argv[-1]
    ]
    assert order.index("make -j") < order.index("kill -s KILL") < order.index("apt-get")
    assert sandbox.cleared == 0


def test_a_sandbox_with_no_room_for_a_process_is_cleared_from_outside(
    run: Callable[..., tuple[Built, FakeSandbox]],
) -> None:
    _, sandbox = run([("kill -s KILL", [(126, b"Cannot fork")])])
    assert sandbox.cleared == 1


@pytest.mark.parametrize(
    ("online", "said"),
    [
        pytest.param(False, "builds have no network", id="off"),
        pytest.param(True, "that failed", id="on"),
    ],
)
def test_a_download_that_fails_is_explained_by_the_network_that_the_build_had(
    run: Callable[..., tuple[Built, FakeSandbox]], *, online: bool, said: str
) -> None:
    log = b"fatal: unable to access 'https://example.org/x.git/': Could not resolve host: example.org\n"
    built, _ = run([(_BUILD, [(2, log)])], online=online)
    assert built.outcome.cause is Cause.DEPENDENCY
    assert built.outcome.reason == (
        f"the build downloads https://example.org/x.git/ while it runs, and {said}"
    )


_SURVIVED = b"fatal: unable to access 'https://example.org/x.git/': Could not resolve host: example.org\n"


def test_a_download_that_the_build_survived_is_not_what_ended_it(
    run: Callable[..., tuple[Built, FakeSandbox]],
) -> None:
    built, _ = run([(_BUILD, [(2, _SURVIVED + _NO_HEADER), (0, b"")])])
    assert built.outcome.verdict is Verdict.VERIFIED
    assert built.options.fixes == ("missing-header",)


_OTHERS = (
    b"cpu.c:3:10: fatal error: cpuid.h: No such file or directory\n"
    b"make: [Makefile:3: cpu.o] Error 1 (ignored)\n"
)


def test_code_for_others_that_the_build_survived_is_not_what_ended_it(
    run: Callable[..., tuple[Built, FakeSandbox]],
) -> None:
    built, _ = run([(_BUILD, [(2, _OTHERS + _NO_HEADER), (0, b"")])])
    assert built.options.fixes == ("missing-header",)
    last, _ = run([(_BUILD, [(2, _OTHERS + _NO_HEADER)])], most=1)
    assert last.outcome.cause is Cause.DEPENDENCY


@pytest.mark.parametrize(
    "log",
    [
        pytest.param(_NO_HEADER + _OTHERS, id="missing-before-it"),
        pytest.param(_OTHERS + _NO_HEADER.replace(b"foo.h", b"nowhere.h"), id="missing-everywhere"),
        pytest.param(_OTHERS + _NO_HEADER.replace(b"foo.h", b"own.h"), id="of-the-tree"),
    ],
)
def test_code_for_others_ends_a_build_where_nothing_later_can_be_brought(
    run: Callable[..., tuple[Built, FakeSandbox]], log: bytes
) -> None:
    built, sandbox = run([(_BUILD, [(2, log)])], own=frozenset({"own.h"}))
    assert built.outcome.cause is Cause.UNSUPPORTED
    assert len(sandbox.scripts(_BUILD)) == 1


def test_a_full_disk_is_believed_whatever_follows(run: Callable[..., tuple[Built, FakeSandbox]]) -> None:
    built, _ = run([(_BUILD, [(2, b"x.s: No space left on device\n" + _NO_HEADER)])])
    assert built.outcome.cause is Cause.ENVIRONMENT


def test_no_rule_means_no_second_attempt(run: Callable[..., tuple[Built, FakeSandbox]]) -> None:
    built, sandbox = run([(_BUILD, [(2, b"x.c:3:1: error: strange thing\n")])])
    assert built.outcome.cause is Cause.BUILD
    assert "strange thing" in built.outcome.reason
    assert len(sandbox.scripts(_BUILD)) == 1


def test_the_same_fix_is_not_tried_twice(run: Callable[..., tuple[Built, FakeSandbox]]) -> None:
    built, sandbox = run([(_BUILD, [(2, b"ld: multiple definition of `x'; a.o: first defined here\n")])])
    assert built.outcome.cause is Cause.BUILD
    assert len(sandbox.scripts(_BUILD)) == 2


def test_independent_signs_of_one_log_are_answered_together(
    run: Callable[..., tuple[Built, FakeSandbox]],
) -> None:
    log = b"ld: b.o: multiple definition of `x'; a.o: first\nc.c:1: undefined reference to `sqrt'\n"
    built, sandbox = run([(_BUILD, [(2, log), (0, b"")])])
    assert built.options.fixes == ("common-symbols", "mathematics-library")
    assert len(sandbox.scripts(_BUILD)) == 2


def test_what_is_missing_in_the_last_attempt_is_still_a_missing_dependency(
    run: Callable[..., tuple[Built, FakeSandbox]],
) -> None:
    built, _ = run([(_BUILD, [(2, _NO_HEADER)])], most=1)
    assert built.outcome.cause is Cause.DEPENDENCY


def test_what_no_package_has_ends_with_its_name(run: Callable[..., tuple[Built, FakeSandbox]]) -> None:
    built, _ = run([(_BUILD, [(2, b"x.c:1:10: fatal error: nowhere/x.h: No such file or directory\n")])])
    assert built.outcome.cause is Cause.DEPENDENCY
    assert "header nowhere/x.h" in built.outcome.reason


@pytest.mark.parametrize("own", ["foo.h", "include/foo.h"])
def test_a_header_of_the_tree_itself_is_no_dependency(
    run: Callable[..., tuple[Built, FakeSandbox]], own: str
) -> None:
    built, sandbox = run([(_BUILD, [(2, _NO_HEADER)])], own=frozenset({own}))
    assert built.outcome.cause is Cause.BUILD
    assert not [one for one in sandbox.ran if "libfoo-dev" in one.argv[-1]]


def test_a_file_of_the_tree_with_the_last_name_of_a_header_is_another_one(
    run: Callable[..., tuple[Built, FakeSandbox]],
) -> None:
    log = b"x.c:1:10: fatal error: openssl/ssl.h: No such file or directory\n"
    built, sandbox = run([(_BUILD, [(2, log), (0, b"")])], own=frozenset({"src/ssl.h"}))
    assert built.options.fixes == ("missing-header",)
    assert [one for one in sandbox.ran if "libssl-dev" in one.argv[-1]]


_GO = Candidate(
    builder="go",
    directory="",
    rank=88,
    evidence="go.mod",
    project=GoProject(module="a.org/x", requires=True),
)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        pytest.param(
            1,
            b'go: a.org/b@v1.0.0: Get "https://p.org/x.mod": dial tcp: lookup p.org: no such host\n',
            id="no-proxy",
        ),
        pytest.param(124, b"error: the modules were not downloaded within 600 s\n", id="too-slow"),
    ],
)
def test_what_fails_before_anything_is_built_costs_no_attempt(
    run: Callable[..., tuple[Built, FakeSandbox]], code: int, said: bytes
) -> None:
    built, sandbox = run([(r"go mod download", [(code, said)])], (_GO,), most=1)
    assert built.outcome.verdict is Verdict.VERIFIED
    assert built.options.fixes == ("go-distribution-packages",)
    assert len(sandbox.scripts("go build")) == 1


def test_skalibs_is_brought_before_its_sysdeps_are_looked_for_elsewhere(
    run: Callable[..., tuple[Built, FakeSandbox]],
) -> None:
    log = b"./configure: error: /usr/lib/skalibs/sysdeps is not a valid sysdeps directory\n"
    candidate = Candidate(
        builder="configure",
        directory="",
        rank=70,
        evidence="configure",
        project=ConfigureProject(script="configure", interpreter="sh"),
    )
    once, sandbox = run([(r"^PATH=.*\nsh ./configure", [(1, log), (0, b"")])], [candidate], most=1)
    assert "skalibs-dev" in "".join(one.argv[-1] for one in sandbox.ran if one.user == "root")
    assert (once.outcome.verdict, once.options.tweak.configure_args) == (Verdict.VERIFIED, ())
    twice, _ = run([(r"^PATH=.*\nsh ./configure", [(1, log), (1, log), (0, b"")])], [candidate], most=1)
    assert twice.outcome.verdict is Verdict.VERIFIED
    assert twice.options.fixes == ("missing-skalibs", "skalibs-sysdeps")


_LACKS_FOO = b"CMake Error at CMakeLists.txt:3 (message):\n  gperf not found\n"
_LACKS_GNUTLS = b"-- Checking\nCMake Error at CMakeLists.txt:4 (message):\n  No package 'gnutls' found\n"


def test_a_configure_that_lacks_one_package_after_the_other_costs_no_attempt(
    run: Callable[..., tuple[Built, FakeSandbox]],
) -> None:
    answers = [(r"^PATH=.*\ncmake -S", [(1, _LACKS_FOO), (1, _LACKS_GNUTLS), (0, b"")])]
    built, sandbox = run(answers, [_CMAKE], most=1)
    assert (built.outcome.verdict, built.attempts) == (Verdict.VERIFIED, 1)
    installed = "\n".join(one.argv[-1] for one in sandbox.ran if one.user == "root")
    assert all(name in installed for name in ("gperf", "libgnutls28-dev"))


def test_modules_that_are_gone_are_looked_for_in_packages_and_named(
    run: Callable[..., tuple[Built, FakeSandbox]],
) -> None:
    gone = b"go: a.org/b@v1.0.0: reading https://p.org/a.org/b/@v/v1.0.0.mod: 404 Not Found\n"
    missing = (
        b'm.go:3:8: cannot find package "a.org/b" in any of:\n\t/usr/lib/go/src/a.org/b (from $GOROOT)\n'
    )
    built, sandbox = run([(r"go mod download", [(1, gone)]), ("go list -e -deps", [(1, missing)])], (_GO,))
    assert built.options.fixes == ("go-modules-gone",)
    assert built.outcome.cause is Cause.DEPENDENCY
    assert "Go package a.org/b" in built.outcome.reason
    assert not sandbox.scripts("^go build")


def test_a_module_of_another_content_ends_the_port_and_nothing_stands_in_for_it(
    run: Callable[..., tuple[Built, FakeSandbox]],
) -> None:
    said = b"verifying a.org/b@v1.0.0: checksum mismatch\n\tdownloaded: h1:9CLF=\n\tgo.sum:     h1:AAAA=\n"
    built, sandbox = run([(r"go mod download", [(1, said)])], (_GO,))
    assert (built.outcome.cause, built.outcome.reason) == (
        Cause.DEPENDENCY,
        "the Go module a.org/b@v1.0.0 that was downloaded is not the one in go.sum: its checksum differs",
    )
    assert len(sandbox.scripts("go mod download")) == 1
    assert not sandbox.scripts("gocode")


_NO_TLS = (
    b"-- Checking for module 'gnutls'\n--   Package 'gnutls', required by 'virtual:world', not found\n"
    b"-- Configuring done (0.5s)\n"
)
_CMAKE_BUILD = r"cmake --build"


def test_what_configure_did_without_is_brought_when_no_rule_knows_why_the_build_failed(
    run: Callable[..., tuple[Built, FakeSandbox]],
) -> None:
    strange = (2, b"tls.cc:3:1: error: strange thing\n")
    built, sandbox = run(
        [("cmake -S", [(0, _NO_TLS)]), (_CMAKE_BUILD, [strange, (0, b"")])],
        (_CMAKE,),
    )
    assert built.outcome.verdict is Verdict.VERIFIED
    assert built.options.fixes == ("overlooked-pkg-config",)
    assert [one for one in sandbox.ran if "libgnutls28-dev" in one.argv[-1]]


@pytest.mark.parametrize(
    "warned",
    [
        pytest.param(_NO_TLS, id="brought"),
        pytest.param(_NO_TLS.replace(b"gnutls", b"nowhere"), id="of-no-package"),
    ],
)
def test_what_configure_did_without_is_looked_for_once_and_is_not_blamed(
    run: Callable[..., tuple[Built, FakeSandbox]], warned: bytes
) -> None:
    strange = (2, b"tls.cc:3:1: error: strange thing\n")
    built, sandbox = run([("cmake -S", [(0, warned)]), (_CMAKE_BUILD, [strange])], (_CMAKE,))
    assert built.outcome.cause is Cause.BUILD
    assert built.outcome.reason == "build: tls.cc:3:1: error: strange thing"
    assert len(sandbox.scripts("cmake -S")) == (2 if warned == _NO_TLS else 1)


@pytest.mark.parametrize(
    ("builds", "fixes"),
    [
        pytest.param([(2, _NO_HEADER), (0, b"")], ("missing-header",), id="a-rule-helps"),
        pytest.param(
            [(2, b"c.s:27: Error: unrecognized opcode `rdtsc'\n")], ("assembly-off",), id="a-rule-ends-it"
        ),
    ],
)
def test_where_a_rule_knows_the_failure_nothing_else_is_brought(
    run: Callable[..., tuple[Built, FakeSandbox]], builds: list[tuple[int, bytes]], fixes: tuple[str, ...]
) -> None:
    built, sandbox = run([("cmake -S", [(0, _NO_TLS)]), (_CMAKE_BUILD, builds)], (_CMAKE,))
    assert built.options.fixes == fixes
    assert not [one for one in sandbox.ran if "libgnutls28-dev" in one.argv[-1]]


_OTHER_LLVM = """\
CMake Error at CMakeLists.txt:5 (find_package):
  Could not find a configuration file for package "LLVM" that is compatible
  with requested version "{}".

  The following configuration files were considered but not accepted:

    /usr/lib/llvm-18/lib/cmake/llvm/LLVMConfig.cmake, version: 18.1.8
"""


@pytest.mark.parametrize(
    ("answers", "version", "installed", "said"),
    [
        pytest.param(2, "19", True, "", id="which-is-packaged"),
        pytest.param(1, "21", False, "LLVM@21", id="which-is-not-packaged"),
    ],
)
def test_a_package_in_another_version_is_a_dependency(
    run: Callable[..., tuple[Built, FakeSandbox]], *, answers: int, version: str, installed: bool, said: str
) -> None:
    fails = (1, _OTHER_LLVM.format(version).encode())
    built, sandbox = run([("cmake -S", [fails, (0, b"")][:answers])], (_CMAKE,))
    assert bool([one for one in sandbox.ran if "llvm-19-dev" in one.argv[-1]]) is installed
    assert built.outcome.cause is (None if installed else Cause.DEPENDENCY)
    assert said in (built.outcome.reason or "")


def test_a_build_that_asks_for_its_submodules_blames_the_source_and_installs_nothing(
    run: Callable[..., tuple[Built, FakeSandbox]],
) -> None:
    said = "Submodules not initialized, please run git submodule update --init"
    log = f"CMake Error at CMakeLists.txt:3 (message):\n  {said}\n"
    built, sandbox = run([("cmake -S", [(1, log.encode())])], (_CMAKE,))
    assert built.outcome.cause is Cause.SOURCE
    assert built.outcome.reason == f"the source tree lacks its submodules: {said}"
    assert not [one for one in sandbox.ran if one.user == "root"]


def _lacks(path: str, url: str = "https://example.org/o/r.git") -> Submodule:
    return Submodule(path=path, url=url, commit="0" * 40, fetched=False, reason="no answer")


def test_a_build_that_fetches_an_absent_submodule_itself_blames_the_source(
    run: Callable[..., tuple[Built, FakeSandbox]],
) -> None:
    log = b"fatal: unable to access 'https://example.org/ruby/prism/': Could not resolve host: example.org\n"
    prism = _lacks("lib/prism", "https://example.org/ruby/prism.git")
    built, _ = run([(_BUILD, [(2, log)])], absent=(_lacks("lib/other"), prism))
    assert built.outcome.cause is Cause.SOURCE
    assert built.outcome.reason.startswith("the submodule lib/prism could not be fetched (no answer): ")
    other, _ = run([(_BUILD, [(2, log)])], absent=(_lacks("lib/other"),))
    assert other.outcome.cause is Cause.DEPENDENCY


def test_a_build_that_misses_a_file_without_content_blames_the_source(
    run: Callable[..., tuple[Built, FakeSandbox]],
) -> None:
    log = (
        b"make: *** No rule to make target '/workspace/build/p/dicts/fo_list', needed by 'fo_dict'.  Stop.\n"
    )
    built, _ = run([(_BUILD, [(2, log)])], left_out=("dicts/ru_list", "dicts/fo_list"))
    assert built.outcome.cause is Cause.SOURCE
    assert built.outcome.reason.startswith("the repository lacks the content of dicts/fo_list: ")
    other, _ = run([(_BUILD, [(2, log)])], left_out=("dicts/ru_list",))
    assert other.outcome.cause is Cause.BUILD


def test_the_name_of_a_file_without_content_may_be_that_of_another(
    run: Callable[..., tuple[Built, FakeSandbox]],
) -> None:
    log = b"make: *** No rule to make target 'Makefile'.  Stop.\n"
    built, _ = run([(_BUILD, [(2, log)])], left_out=("test/Makefile",))
    assert built.outcome.cause is Cause.BUILD


def test_a_build_that_misses_an_absent_submodule_blames_the_source(
    run: Callable[..., tuple[Built, FakeSandbox]],
) -> None:
    built, _ = run(
        [(_BUILD, [(2, b"error: third-party/urlparse/u.c: gone\n")])],
        absent=(_lacks("third-party/urlparse"),),
    )
    assert built.outcome.cause is Cause.SOURCE
    assert "third-party/urlparse could not be fetched (no answer)" in built.outcome.reason


def test_a_directory_that_is_a_submodule_that_could_not_be_fetched_is_named_as_that(
    run: Callable[..., tuple[Built, FakeSandbox]],
) -> None:
    said = (
        b"CMake Error at CMakeLists.txt:43 (add_subdirectory):\n  The source directory\n\n"
        b"    /workspace/build/p/lib/inicpp\n\n  does not contain a CMakeLists.txt file.\n"
    )
    missing, _ = run([(r"cmake -S", [(1, said)])], (_CMAKE,))
    absent, _ = run([(r"cmake -S", [(1, said)])], (_CMAKE,), absent=(_lacks("lib/inicpp"),))
    lacks = (
        "the source tree lacks lib/inicpp, which the build enters (a submodule, or left out of the archive)"
    )
    assert (missing.outcome.cause, missing.outcome.reason) == (Cause.SOURCE, lacks)
    assert absent.outcome.cause is Cause.SOURCE
    assert absent.outcome.reason == f"the submodule lib/inicpp could not be fetched (no answer): {lacks}"


def test_attempts_are_bounded_and_the_last_one_changes_nothing(
    run: Callable[..., tuple[Built, FakeSandbox]],
) -> None:
    built, sandbox = run([(_BUILD, [(2, _NO_HEADER)])], most=1)
    assert built.outcome.exit_code == 1
    assert built.attempts == 1
    assert not [one for one in sandbox.ran if one.user == "root"]


def test_another_build_system_of_the_same_directory_follows_a_hopeless_one(
    run: Callable[..., tuple[Built, FakeSandbox]],
) -> None:
    built, _ = run([(r"cmake -S", [(1, b"CMake Error: nothing anybody knows\n")])], (_CMAKE, _SUB, _MAKE))
    assert built.outcome.verdict is Verdict.VERIFIED
    assert built.candidate == _MAKE


def test_a_part_of_the_tree_or_a_bare_compile_never_stands_in_for_a_failed_build(
    run: Callable[..., tuple[Built, FakeSandbox]],
) -> None:
    built, sandbox = run([(_BUILD, [(2, b"error: no\n")])], (_MAKE, _SUB, _PLAIN))
    assert built.outcome.exit_code == 1
    assert len(sandbox.scripts(_BUILD)) == 1


def test_a_build_that_made_nothing_lets_the_next_file_try(
    run: Callable[..., tuple[Built, FakeSandbox]],
) -> None:
    built, _ = run([], (_MAKE, _SUB), scans=(_NOTHING, _PROOF))
    assert built.outcome.verdict is Verdict.VERIFIED
    assert built.candidate == _SUB


def test_unverified_outlives_a_later_failure(run: Callable[..., tuple[Built, FakeSandbox]]) -> None:
    built, _ = run([(_BUILD, [(0, b""), (2, b"error: no\n")])], (_MAKE, _SUB), scans=(_NOTHING,))
    assert (built.outcome.verdict, built.outcome.exit_code) == (Verdict.UNVERIFIED, 3)


def test_a_failure_outlives_a_later_file_that_made_nothing(
    run: Callable[..., tuple[Built, FakeSandbox]],
) -> None:
    failing = [(r"cmake -S", [(1, b"CMake Error: nothing anybody knows\n")])]
    built, _ = run(failing, (_CMAKE, _MAKE), scans=(_NOTHING,))
    assert built.outcome.exit_code == 1
    assert built.candidate == _CMAKE


def test_a_full_disk_is_the_environments_fault_and_ends_everything(
    run: Callable[..., tuple[Built, FakeSandbox]],
) -> None:
    built, sandbox = run([(_BUILD, [(2, b"x.s: No space left on device\n")])], (_MAKE, _CMAKE))
    assert built.outcome.cause is Cause.ENVIRONMENT
    assert not sandbox.scripts("cmake -S")


def test_a_package_that_apt_refuses_does_not_loop(run: Callable[..., tuple[Built, FakeSandbox]]) -> None:
    built, sandbox = run([(r"libfoo-dev", [(100, b"E: Unable to locate\n")]), (_BUILD, [(2, _NO_HEADER)])])
    assert built.outcome.exit_code == 1
    assert len(sandbox.scripts("libfoo-dev")) == 1


def test_an_optional_installation_may_fail(run: Callable[..., tuple[Built, FakeSandbox]]) -> None:
    built, _ = run([(r"make install", [(2, b"mkdir: Permission denied\n")])])
    assert built.outcome.verdict is Verdict.VERIFIED


def test_a_failed_sandbox_is_no_failed_build(tmp_path: Path) -> None:
    class Broken(FakeSandbox):
        def run(self, command: ExecSpec, **options: object) -> Completed:  # noqa: ARG002 - the protocol's
            raise SandboxError("gone")

    with (tmp_path / "out").open("wb") as output:
        phases = Phases(output)
        shell = Shell(Broken([]), deadline=None, output=output)
        installer = Installer(shell, index=tmp_path / "index", workspace=tmp_path, say=phases.say)
        package = Package(name="p", same_times=False, debian_source="p")
        attempts = Attempts(
            shell, Repair(installer, package, say=phases.say), phases, package=package, scan=lambda: _PROOF
        )
        with pytest.raises(SandboxError):
            attempts.run((_MAKE,), BuildOptions(jobs=1), 3)


def test_a_build_that_hangs_is_its_own_failure_with_that_reason(tmp_path: Path) -> None:
    class Hanging(FakeSandbox):
        def run(self, command: ExecSpec, **options: Any) -> Completed:
            if command.stall_s is None:
                return super().run(command, **options)
            options["sink"].write(b"compiling x.go\n")
            return Completed(exit_code=-9, tail=b"", duration_s=700.0, timed_out=True, is_stalled=True)

    with (tmp_path / "out").open("wb") as output:
        phases = Phases(output)
        shell = Shell(Hanging([]), deadline=None, output=output)
        installer = Installer(shell, index=tmp_path / "index", workspace=tmp_path, say=phases.say)
        package = Package(name="p", same_times=False, debian_source="p")
        attempts = Attempts(
            shell, Repair(installer, package, say=phases.say), phases, package=package, scan=lambda: _PROOF
        )
        built = attempts.run((_MAKE,), BuildOptions(jobs=1), 3)
    assert built.outcome.cause is Cause.BUILD
    assert built.outcome.reason.endswith("has used no processor for 10 minutes: it hangs")


def test_words_of_build_files_are_read_and_those_of_sources_are_not(make_tree: Callable[..., Tree]) -> None:
    tree = make_tree({"CMakeLists.txt": "find_path(X json.h PATH_SUFFIXES json-c)", "x.c": "other-word"})
    words = build_file_words(tree)
    assert "json-c" in words
    assert "other-word" not in words


def test_a_capture_keeps_head_and_tail_in_bounded_memory() -> None:
    capture = Capture(None)
    for number in range(4000):
        capture.write(b"%-1000d\n" % number)
    text = capture.text()
    assert text.startswith("0 ")
    assert "3999 " in text
    assert len(text) < 3 * 1024 * 1024


def test_wrappers_exist_only_when_a_fix_needs_them_and_quote_their_flags() -> None:
    assert wrapper_script(Tweak()) == ""
    script = wrapper_script(Tweak(compiler_drop=("-march=*", "-m64"), compiler_add=("-la b",)))
    assert "-march=*|-m64)" in script.replace("'", "")
    assert "'-la b'" in script


def test_a_hostile_name_stays_one_word() -> None:
    assert "'/workspace/build/a b;c'" in fresh_tree_script("a b;c", same_times=True)


@pytest.mark.parametrize(
    ("path", "is_there"),
    [
        ("config.h", True),
        ("../../src/./config.h", True),
        ("/src/config.h", True),
        ("nfig.h", False),
        (".config.h", False),
        ("../.config.h", False),
        (".hidden.h", True),
        ("./../.hidden.h", True),
    ],
)
def test_a_file_of_the_tree_is_known_by_its_whole_name(path: str, *, is_there: bool) -> None:
    files = frozenset({"src/config.h", "src/.hidden.h"})
    package = Package(name="p", same_times=False, debian_source="p", tree_files=files)
    assert package.has(path) is is_there


def test_what_meson_did_without_is_brought_when_the_build_would_download_it(
    run: Callable[..., tuple[Built, FakeSandbox]],
) -> None:
    said = (
        b"Run-time dependency gnutls found: NO (tried pkgconfig)\nLooking for a fallback subproject\n"
        b"fatal: unable to access 'https://example.org/tls.git/': Could not resolve host: example.org\n"
    )
    meson = Candidate(builder="meson", directory="", rank=75, evidence="meson.build", project=MesonProject())
    built, sandbox = run([("meson setup", [(1, said), (0, b"")])], (meson,))
    assert built.outcome.verdict is Verdict.VERIFIED
    assert built.options.fixes == ("overlooked-meson",)
    assert [one for one in sandbox.ran if "libgnutls28-dev" in one.argv[-1]]


@pytest.mark.parametrize("programs", [("cli",), ()])
def test_a_library_is_built_alone_where_crates_of_its_programs_are_not_to_be_had(
    run: Callable[..., tuple[Built, FakeSandbox]], programs: tuple[str, ...]
) -> None:
    missing = (101, b"error: no matching package named `nowhere` found\nrequired by package `cli v0.1.0`\n")
    project = CargoProject(programs=programs)
    cargo = Candidate(builder="cargo", directory="", rank=85, evidence="Cargo.toml", project=project)
    packaged = Tweak(prepare=(DISTRIBUTION_CRATES,))
    built, sandbox = run([("cargo build", [missing, (0, b"")])], (cargo,), tweak=packaged)
    builds = sandbox.scripts("cargo build")
    if programs:
        assert built.outcome.verdict is Verdict.VERIFIED
        assert built.options.fixes == ("cargo-without-programs",)
        assert ["cli/Cargo.toml" in one for one in builds] == [True, False]
    else:
        assert built.outcome.cause is Cause.DEPENDENCY
        assert "crate nowhere" in built.outcome.reason
        assert len(builds) == 1
