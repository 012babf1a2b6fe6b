"""Code and flags made for another processor."""

from pytest_atesor.core.outcome import Cause
from pytest_atesor.porter.builders.interface import Tweak
from pytest_atesor.porter.fixes.interface import Change, Install, Rule, Stop
from pytest_atesor.porter.needs import NeedKind

__all__ = ["REFUSED_PLATFORM", "REFUSED_PROCESSOR", "RULES", "SAID", "UNPORTABLE_CALLS"]

_FOREIGN_FLAGS = (
    "-march=*",
    "-mtune=*",
    "-mcpu=*",
    "-mfpmath=*",
    "-mfpu=*",
    "-mfloat-abi=*",
    "-m32",
    "-m64",
    "-mmmx",
    "-msse*",
    "-mssse3",
    "-mavx*",
    "-mfma*",
    "-maes",
    "-mpclmul",
    "-mbmi*",
    "-mpopcnt",
    "-msha",
    "-mlzcnt",
    "-mf16c",
    "-mrdrnd",
    "-mcx16",
    "-mcrc32",
    "-mno-red-zone",
    "-mstackrealign",
    "-Wa,-march=*",
    "-Wa,--32",
    "-Wa,--64",
    "-Wa,--x32",
)
"""Shell patterns of flags that riscv64 compilers do not know."""

_NO_ASSEMBLY = Tweak(
    configure_args=("--disable-asm", "--disable-assembly", "--disable-simd"),
    cmake_args=(
        "-DENABLE_ASM=OFF",
        "-DENABLE_ASSEMBLY=OFF",
        "-DENABLE_SIMD=OFF",
        "-DWITH_SIMD=OFF",
        "-DNO_ASM=ON",
    ),
)
_ASSEMBLER_FLAGS = (
    r"\bas: unrecognized option [`'‘](?P<width>--(?:x?32|64))\b|Error: (?P<set>[\w.+-]+): ISA string must begin"
    r"|Fatal error: invalid (?P<older>-march=) option"
)
_ASSEMBLER = (
    r"Error: (?:unrecognized opcode|unknown mnemonic|illegal operands|bad register name|no such instruction"
    r"|unknown pseudo-op: [`'‘]\.(?:code(?:16|16gcc|32|64)|(?:intel|att)_(?:syntax|mnemonic)|arch|arch_extension|arm|cpu|fpu"
    r"|syntax|thumb|thumb_func|eabi_attribute|machine|abiversion)['’]"
    r"|junk at end of line, first unrecognized character is [`'‘]%)"
    r"|error: (?:impossible constraint|invalid 'asm'|unknown register name|unknown asm constraint)"
    rf"|invalid register name for|{_ASSEMBLER_FLAGS.replace('?P<', '?P<as_')}"
)
_INTRINSICS = r"__builtin_(?:ia32|arm|neon|aarch64|altivec|vsx)_\w+|_mm(?:256|512)?_(?!malloc\b|free\b)\w+|__rdtscp?|_xgetbv|__?cpuid(?:ex)?"
UNPORTABLE_CALLS = (
    r"open|creat|[fl]?stat64|l?stat|fstatat64|poll|select|pipe|access|link|unlink|symlink|readlink|rename(?:at)?|mkdir|rmdir"
    r"|chmod|l?chown|mknod|dup2|v?fork|waitpid|alarm|pause|signal|sigaction|getpgrp|getdents|utimes?|futimesat|s?time|nice|umount"
    r"|epoll_(?:create|wait)|eventfd|signalfd|inotify_init|ustat|uselib|sysfs|_sysctl|_llseek|mmap2|fcntl64|f?truncate64"
    r"|socketcall|ipc|send|recv|arch_prctl|modify_ldt|iopl|ioperm|vm86(?:old)?|[gs]et_thread_area|cacheflush"
)
"""The pattern of Linux calls that other processors have, and none that came as late as riscv64."""

_CONSTANTS = (
    rf"(?:SYS|__NR)_(?:{UNPORTABLE_CALLS})|REG_(?:[RE](?:[ABCD]X|[SD]I|[SBI]P)|EFL|TRAPNO|CR2|CSGSFS|UESP)|ORIG_[RE]AX"
    r"|ARCH_[GS]ET_[FG]S|PTRACE_(?:ARCH_PRCTL|[GS]ET_THREAD_AREA)"
)
_REGISTERS = r"(?:mcontext_t|sigcontext|user_regs_struct|user_fpregs_struct)"
_FOREIGN_OBJECT = r"(?<![\w./+@-])(?P<name>[\w./+@-]+(?:\([\w.+@-]+\))?): (?:Relocations in generic ELF \(EM: (?!243\))\d+\)|error adding symbols: [Ff]ile in wrong format)"
_REFUSED = (
    r"(?:[Uu]nsupported|[Uu]nknown|[Nn]ot (?:yet )?(?:supported|ported|implemented)|[Nn]o support|[Aa]dd support for"
    r"|[Uu]nrecogni[sz]ed)"
)
_PROCESSOR = (
    r"(?<![A-Za-z])(?:[Aa]rch(?:itecture)?s?|ARCH(?:ITECTURE)?S?|[Cc]pus?|CPUS?|[Pp]latforms?|PLATFORMS?|[Pp]rocessors?"
    r"|PROCESSORS?|(?:[Bb]ig|[Ll]ittle|BIG|LITTLE)?(?:[Ee]ndian(?:ness)?|ENDIAN(?:NESS)?))(?![A-Za-z])"
)

# A config triplet's "-unknown-" refuses nothing, and neither does a compiler that refuses a flag.
SAID = (
    r"^(?![^\n]*-m(?:arch|tune|cpu|fpu|abi)\b)(?:[^\n]{0,120}?(?:\b[Ee]rror|ERROR|[a-z]Error)(?:\[\w+\])?:[ \t]|(?:[^\n:]{1,120}:(?:\d+:)?[ \t]+)?\*{3}[ \t]"
    r"|CMake Error(?: at [^\n]{1,200})?:\s+|[^\n]{0,160}panicked at [^\n]{0,160}:\n[ \t]*)[^\n]{0,120}?"
)
"""The pattern's start where a build system or a script of the build's says what ended it."""

_OF_THE_COMMAND_LINE = (
    r"(?!\s+(?:options?|arguments?|parameters?|flags?|keywords?|commands?|directives?|attributes?)\b)"
)
_NO_SUPPORT = (
    r"unsupported|unrecogni[sz]ed|unhandled|no\s+support\s+for|cannot\s+build\s+(?:on|for)"
    r"|(?:not|\w+n't)\s+(?:yet\s+|currently\s+)?support(?:ed)?"
)
_NO = rf"(?i:(?<![\w-])(?:unknown|{_NO_SUPPORT})(?!\w){_OF_THE_COMMAND_LINE})"
_RISCV = r"(?<![\w./-])(?i:riscv(?:64)?\w{0,3})(?![\w/])"

# Hosts are looked up, compilers run on a host, and machines learn: the word has to end what it names.
_HOST = r"(?i:(?<![\w-])(?:host|machine)(?:[ _-](?:system|type|os))*)"
_NO_TO_HOST = rf"(?i:(?<![\w-])(?:{_NO_SUPPORT})(?!\w))"
_REFUSED_HOST = (
    rf"{_NO_TO_HOST}[ \t]+(?:[\w-]+\s+){{0,3}}{_HOST}(?=[ \t]*(?:[.,;!)](?:\s|$)|$))"
    rf"|{_HOST}(?:[ \t]+(?:is|was|currently)){{0,2}}[ \t]+{_NO_TO_HOST}"
)


def _unknown(names: str, group: str) -> str:
    """Return the pattern of a compiler or linker that has none of ``names``, in groups whose names start so."""
    # what was read from a pipe is a check, and its failure an answer
    return (
        r"^(?!<stdin>)[^\n]{0,300}?(?:error: (?:(?:implicit declaration of|call to undeclared) function |use of undeclared identifier )"
        rf"[‘'](?P<{group}_used>{names})[’']|error: [‘'](?P<{group}>{names})[’'] (?:undeclared|was not declared)"
        rf"|undefined reference to [`'‘](?P<{group}_linked>{names})[’'])"
    )


_FOREIGN_INTRINSICS = (
    _unknown(_INTRINSICS, "intrinsic")
    + r"|error: attribute[ ‘'(]+target\(\"(?P<target>(?!arch=|cpu=|tune=|default\b)[^\"\n]+)\"\)[’')]* (?:does not accept an argument|is unknown)"
)
_FOREIGN_NAMES = (
    _unknown(_CONSTANTS, "constant")
    + rf"|error: [‘'](?:const )?(?:struct )?{_REGISTERS}[’'](?: \{{aka [^}}\n]*\}})? has no member named [‘'](?P<member>\w+)"
    rf"|error: no member named [‘'](?P<missing>\w+)[’'] in [‘'](?:struct )?{_REGISTERS}[’']"
    r"|undefined type [‘']struct user_regs_struct[’']\n[^\n]*(?:->|\.)(?P<register>(?:orig_)?[re](?:[abcd]x|[sd]i|[sbi]p))\b"
)


def _refusal(words: str, *others: str) -> str:
    thing = (
        rf"(?i:(?<![\w-])(?:{words})(?![\w-])(?!\s+(?:plugin|feature|extension|backend|driver|version)s?\b))"
    )
    refusals = (
        rf"{_NO}[ \t]+(?:[\w-]+\s+){{0,3}}{thing}",
        rf"{_NO}[^\n]{{0,60}}?{_RISCV}",
        rf"(?:{thing}|{_RISCV})[^\n]{{0,60}}?\s{_NO}",
        *others,
    )
    return rf"{SAID}(?P<name>(?:{'|'.join(refusals)})[^\n]*?)(?:\.?[ ]{{2}}Stop)?\.?$"


REFUSED_PROCESSOR = _refusal(r"archs?|architectures?|cpus?|cpu[ _-]?famil(?:y|ies)|processors?")
"""The pattern of a build that says that it does not know this processor."""

REFUSED_PLATFORM = _refusal(r"platforms?|operating[ _-]?systems?", _REFUSED_HOST)
"""The same for one that may as well mean the system, or wants to be told."""

RULES: tuple[Rule, ...] = (
    Rule(
        name="foreign-flags",
        pattern=(
            r"(?:unrecognized (?:command[- ]line option|argument in option)|bad value|unknown (?:cpu|architecture))"
            r"[^\n]{0,40}(?P<name>-m[a-z0-9=.+-]+)|(?P<cpu>-m(?:cpu|tune)=[\w.+-]+)['’]?: unknown CPU|(?P<isa>'?-march=[^\s':]+'?: ISA string|for .-m(?:arch|tune|cpu)=)"
            rf"|{_ASSEMBLER_FLAGS}"
        ),
        fix=Change(change=Tweak(compiler_drop=_FOREIGN_FLAGS)),
        sample="gcc: error: unrecognized command-line option '-msse4.2'\nmake: *** [Makefile:12: a.o] Error 1\n",
        expected="-msse4.2",
    ),
    Rule(
        name="x86-simd-headers",
        pattern=r"fatal error: (?P<name>(?:[xepstnwi]mmintrin|immintrin|x86intrin|mmintrin)\.h): No such file",
        fix=Install(
            kind=NeedKind.PACKAGE,
            names=("libsimde-dev",),
            change=Tweak(
                prepare=("simd-headers",), compiler_add=("-idirafter", "/workspace/home/simd-headers")
            ),
        ),
        sample="src/hash.c:9:10: fatal error: emmintrin.h: No such file or directory\n    9 | #include <emmintrin.h>\n",
        expected="emmintrin.h",
    ),
    Rule(
        name="foreign-header",
        # what was read from a pipe is a check, and its failure an answer
        pattern=r"^(?!<stdin>)[^\n]{0,300}?fatal error: (?P<name>(?:cpuid|sys/io|sys/perm|sys/reg|sys/debugreg|sys/vm86|arm_neon|arm_acle|asm/ldt|asm/msr|asm/prctl|asm/vm86)\.h): No such file",
        fix=Stop(
            cause=Cause.UNSUPPORTED, reason="the code needs {name}, which exists for other processors only"
        ),
        sample="cpu.c:3:10: fatal error: cpuid.h: No such file or directory\n    3 | #include <cpuid.h>\n",
        expected="cpuid.h",
    ),
    Rule(
        name="assembly-off",
        pattern=_ASSEMBLER,
        fix=Change(change=_NO_ASSEMBLY),
        sample="cc3.s:27: Error: unrecognized opcode `rdtsc'\nmake: *** [Makefile:4: t.o] Error 1\n",
        builders=("autotools", "configure", "cmake"),
    ),
    Rule(
        name="foreign-assembly",
        pattern=_ASSEMBLER,
        fix=Stop(
            cause=Cause.UNSUPPORTED,
            reason="the code has assembly for another processor and no portable path was found",
        ),
        sample="bench.c:14:3: error: impossible constraint in 'asm'\n",
    ),
    Rule(
        name="foreign-intrinsics-off",
        pattern=_FOREIGN_INTRINSICS,
        fix=Change(change=_NO_ASSEMBLY),
        sample=(
            "c.c:1:23: error: implicit declaration of function ‘__builtin_ia32_crc32si’ [-Wimplicit-function-declaration]\n"
            "    1 | int f(int a) { return __builtin_ia32_crc32si(a, 3); }\n      |                       ^~~~~~~~~~~~~~~~~~~~~~\n"
        ),
        expected="__builtin_ia32_crc32si",
        builders=("autotools", "configure", "cmake"),
    ),
    Rule(
        name="foreign-names",
        pattern=f"{_FOREIGN_INTRINSICS}|{_FOREIGN_NAMES}",
        fix=Stop(
            cause=Cause.UNSUPPORTED, reason="the code needs {name}, which exists for other processors only"
        ),
        sample=(
            "a.c: In function ‘h’:\na.c:4:91: error: ‘mcontext_t’ has no member named ‘gregs’; did you mean ‘__gregs’?\n"
            "    4 | void h(int s, siginfo_t *i, void *v) { ucontext_t *u = v; void *p = (void*)u->uc_mcontext.gregs[REG_RIP]; }\n"
        ),
        expected="gregs",
    ),
    Rule(
        name="foreign-objects-off",
        pattern=_FOREIGN_OBJECT,
        fix=Change(change=_NO_ASSEMBLY),
        sample="/usr/bin/ld: libcrypto/aesni-x86_64.o: Relocations in generic ELF (EM: 62)\n/usr/bin/ld: libcrypto/aesni-x86_64.o: error adding symbols: file in wrong format\n",
        expected="libcrypto/aesni-x86_64.o",
        builders=("autotools", "configure", "cmake"),
    ),
    Rule(
        name="foreign-objects-left-over",
        pattern=r"(?<![\w./+@-])(?P<name>[\w./+@-]+\.l?o): Relocations in generic ELF \(EM: (?!243\))\d+\)",
        fix=Change(change=Tweak(prepare=("no-objects",))),
        sample="/usr/bin/ld: apps/base64.o: Relocations in generic ELF (EM: 62)\napps/base64.o: error adding symbols: file in wrong format\n",
        expected="apps/base64.o",
        builders=("make",),
    ),
    Rule(
        name="foreign-objects",
        pattern=_FOREIGN_OBJECT,
        fix=Stop(
            cause=Cause.UNSUPPORTED,
            reason="the build links {name}, which is made for another processor",
        ),
        sample="/usr/bin/ld: lib/linux64/libvendor.so: error adding symbols: file in wrong format\ncollect2: error: ld returned 1 exit status\n",
        expected="lib/linux64/libvendor.so",
    ),
    Rule(
        name="foreign-emulation",
        pattern=r"unrecogni[sz]ed emulation mode: (?P<name>[\w-]+)",
        fix=Stop(
            cause=Cause.UNSUPPORTED,
            reason="the build asks the linker for another processor's format ({name})",
        ),
        sample="ld: unrecognised emulation mode: elf_x86_64\nSupported emulations: elf64lriscv elf64briscv\nmake: *** [Makefile:31: kernel] Error 1\n",
        expected="elf_x86_64",
    ),
    Rule(
        name="refused-architecture",
        pattern=(
            rf"#error[ \t\"'(]+(?P<name>[^\n]*?(?:{_REFUSED}[^\n]{{0,200}}{_PROCESSOR}|{_PROCESSOR}[^\n]{{0,200}}{_REFUSED})[^\n\"]*)"
        ),
        fix=Stop(cause=Cause.UNSUPPORTED, reason="the code refuses this processor: {name}"),
        sample='lj_arch.h:69:2: error: #error "No support for this architecture (yet)"\n   69 | #error "No support for this architecture (yet)"\n',
        expected="No support for this architecture (yet)",
    ),
    Rule(
        name="refused-processor",
        pattern=REFUSED_PROCESSOR,
        fix=Stop(cause=Cause.UNSUPPORTED, reason="the build refuses this processor: {name}"),
        sample="checking host system type... riscv64-unknown-linux-gnu\nconfigure: error: unsupported CPU architecture riscv64\n",
        expected="unsupported CPU architecture riscv64",
        builders=("make", "autotools", "configure", "cmake", "meson"),
    ),
)
