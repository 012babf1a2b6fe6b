"""Compiler and linker complaints that a flag settles."""

from pytest_atesor.porter.builders.interface import Tweak
from pytest_atesor.porter.fixes.interface import Change, Install, Rule
from pytest_atesor.porter.needs import NeedKind

__all__ = ["RULES"]


def _unnamed_header(header: str, names: str, sample: str, expected: str) -> Rule:
    """Return the rule for a C++ header that GCC does not name when one of ``names`` is missing."""
    return Rule(
        name=f"header-{header}",
        pattern=(
            rf"error: (?:[‘'](?P<name>{names})[’'] (?:is not a member of [‘']std[’']"
            rf"|was not declared in this scope[^\n]*\n[^\n]*(?:std::(?P=name)\b|\b(?P=name)\s*[(<])"
            rf"|in namespace [‘']std[’'] does not name a (?:template )?type)|[‘']std::(?P<space>{names})[’'] has not been declared)"
        ),
        fix=Change(change=Tweak(cxx_add=(f"-include{header}",))),
        sample=sample,
        expected=expected,
        independent=True,
    )


# What C++17 and C++14 brought; GCC knows by itself which standard most of their classes need.
_CXX17 = (
    r"\w+_v|(?:remove|add|decay|conditional|enable_if|make|underlying|common|invoke_result|aligned|tuple_element|void)\w*_t"
    r"|optional|nullopt\w*|make_optional|variant|visit|get_if|holds_alternative|monostate|any|any_cast|\w*string_view"
    r"|byte|filesystem|clamp|scoped_lock|shared_mutex|conjunction|disjunction|negation|bool_constant|invoke|apply|as_const"
    r"|make_from_tuple|size|data|empty|gcd|lcm|from_chars|to_chars|launder|pmr|not_fn|reduce|transform_reduce"
    r"|(?:in|ex)clusive_scan|for_each_n|sample|in_place\w*|make_unique|exchange|c?r?(?:begin|end)"
)

# One of the system; with one of the build itself -l alone would find nothing.
_NOT_ON_COMMAND_LINE = r"(?<![\w.+-])/{1,2}(?:usr/)?lib(?:32|64)?/(?:[\w.+-]+/)*lib(?P<name>[\w.+-]+?)\.(?:so|a)[.\d]*: error adding symbols: DSO missing"

RULES: tuple[Rule, ...] = (
    Rule(
        name="no-clang",
        pattern=r"(?:^|[ :'\"/\[])(?P<name>clang(?:\+\+)?(?:-\d+)?)[\"']?: (?:\d+: )?(?:command )?(?:not found|No such file)",
        fix=Change(change=Tweak(make_args=("CC=gcc", "CXX=g++", "LD=gcc"))),
        sample="/bin/sh: 1: clang: not found\nmake: *** [Makefile:9: a.o] Error 127\n",
        expected="clang",
        builders=("make", "configure"),
    ),
    Rule(
        name="unknown-flag",
        pattern=r"unrecognized (?:command[- ]line|debug output level|linker) option ['‘`]?(?P<name>-[^'’`\s]+)",
        fix=Change(change=Tweak(compiler_drop=("{name}",))),
        sample="cc: error: unrecognized command-line option '-Weverything'\n",
        expected="-Weverything",
        independent=True,
    ),
    Rule(
        name="standard-c-header",
        pattern=r"note: include [‘'\"]<(?P<name>[a-z]+(?:/[a-z]+)?\.h)>[’'\"] or provide a declaration|fixable by adding [‘'\"]#include <(?P<other>[a-z]+\.h)>",
        # A header that comes first decides what all later ones declare, whatever the source defines after it.
        fix=Change(change=Tweak(c_add=("-D_GNU_SOURCE", "-include{name}"))),
        sample=(
            "main.c:10:3: error: implicit declaration of function ‘strlen’ [-Wimplicit-function-declaration]\n"
            "main.c:2:1: note: include ‘<string.h>’ or provide a declaration of ‘strlen’\n"
        ),
        expected="string.h",
        independent=True,
    ),
    Rule(
        name="standard-cxx-header",
        pattern=r"(?:fixable by adding|did you forget to) [‘'\"]#include <(?P<name>[a-z_]+)>",
        fix=Change(change=Tweak(cxx_add=("-include{name}",))),
        sample=(
            "src/args.h:66:3: error: ‘int64_t’ does not name a type\n   66 |   int64_t seed;\n      |   ^~~~~~~\n"
            "src/args.h:13:1: note: ‘int64_t’ is defined in header ‘<cstdint>’; this is probably fixable by adding ‘#include <cstdint>’\n"
        ),
        expected="cstdint",
        independent=True,
    ),
    Rule(
        name="fixed-width-integers",
        pattern=(
            r"error: [‘'](?:std::)?u?int(?:_(?:fast|least))?(?:8|16|32|64|ptr|max)_t[’'] (?:does not name a type|was not declared"
            r"|has not been declared|is not a member of [‘']std|in namespace [‘']std[’'] does not name a type)"
        ),
        fix=Change(change=Tweak(cxx_add=("-includecstdint",))),
        sample="tt_metal/api/tt-metalium/env_lib.hpp:30:49: error: ‘uint32_t’ is not a member of ‘std’; did you mean ‘wint_t’?\n",
        independent=True,
    ),
    _unnamed_header(
        "algorithm",
        (
            r"(?:stable_|partial_|is_)?sort|nth_element|(?:adjacent_)?find|find_(?:if(?:_not)?|end|first_of)|(?:any|all|none)_of"
            r"|for_each|count(?:_if)?|transform|(?:remove|replace)(?:_copy)?(?:_if)?|copy_(?:if|n|backward)|(?:min|max|minmax)_element"
            r"|minmax|reverse(?:_copy)?|unique(?:_copy)?|shuffle|random_shuffle|rotate|(?:lower|upper)_bound|equal_range"
            r"|binary_search|(?:inplace_)?merge|includes|set_(?:union|intersection|difference|symmetric_difference)|fill_n"
            r"|generate(?:_n)?|(?:stable_)?partition|partition_point|mismatch|search(?:_n)?|(?:next|prev|is)_permutation"
            r"|(?:make|push|pop|sort|is)_heap|lexicographical_compare|is_partitioned|is_sorted_until"
        ),
        sample=(
            "src/tune.cpp:211:8: error: 'sort' is not a member of 'std'; did you mean 'sqrt'?\n"
            "  211 |   std::sort(results.begin(), results.end());\n      |        ^~~~\n      |        sqrt\n"
        ),
        expected="sort",
    ),
    _unnamed_header(
        "numeric",
        r"accumulate|iota|inner_product|partial_sum|adjacent_difference",
        sample="src/stats.cc:41:15: error: ‘accumulate’ is not a member of ‘std’\n",
        expected="accumulate",
    ),
    _unnamed_header(
        "limits",
        r"numeric_limits",
        sample="src/util.cpp:12:34: error: ‘numeric_limits’ is not a member of ‘std’\n",
        expected="numeric_limits",
    ),
    _unnamed_header(
        "cstring",
        r"mem(?:cpy|move|set|cmp|chr)|str(?:len|n?cmp|n?cpy|n?cat|r?chr|str|tok|error|c?spn|pbrk|coll)",
        sample="src/buffer.cpp:30:10: error: ‘memcpy’ is not a member of ‘std’; did you mean ‘wmemcpy’?\n",
        expected="memcpy",
    ),
    _unnamed_header(
        "cstdlib",
        r"exit|abort|atexit|getenv|malloc|calloc|realloc|free|strto(?:u?ll?|[dfl]|ld)|ato[ifl]|s?rand|qsort|bsearch|system|abs",
        sample="src/main.cpp:8:8: error: ‘exit’ is not a member of ‘std’\n",
        expected="exit",
    ),
    _unnamed_header(
        "cmath",
        r"isnan|isinf|isfinite|signbit|sqrt|pow|floor|ceil|l?l?round|trunc|fabs|fmod|exp|log|log2|log10|a?sin|a?cos|a?tan|atan2|hypot",
        sample="src/geometry.cpp:57:14: error: ‘isnan’ is not a member of ‘std’\n",
        expected="isnan",
    ),
    _unnamed_header(
        "chrono",
        r"chrono",
        sample="src/timer.h:9:10: error: ‘std::chrono’ has not been declared\n",
        expected="chrono",
    ),
    _unnamed_header(
        "thread",
        r"this_thread",
        sample="src/worker.cpp:77:10: error: ‘std::this_thread’ has not been declared\n",
        expected="this_thread",
    ),
    _unnamed_header(
        "ctime",
        r"time|time_t|clock|clock_t|gmtime|localtime|mktime|strftime|difftime|asctime|ctime",
        sample="src/log.cpp:15:25: error: ‘time’ is not a member of ‘std’\n",
        expected="time",
    ),
    _unnamed_header(
        "cctype",
        r"is(?:alpha|alnum|digit|xdigit|space|upper|lower|punct|print|cntrl|graph|blank)|to(?:upper|lower)",
        sample="src/parse.cpp:33:14: error: ‘isspace’ is not a member of ‘std’\n",
        expected="isspace",
    ),
    _unnamed_header(
        "cstdio",
        r"v?f?printf|v?snprintf|v?sprintf|s?f?scanf|FILE|fopen|fclose|fread|fwrite|fflush|fseek|ftell|fgets|fputs|puts|putchar|perror|rename",
        sample="src/report.cpp:20:10: error: ‘printf’ is not a member of ‘std’\n",
        expected="printf",
    ),
    _unnamed_header(
        "random",
        r"random_device|mt19937(?:_64)?|default_random_engine|(?:uniform_(?:int|real)|normal|bernoulli|discrete|poisson)_distribution",
        sample="src/shuffle.cpp:11:10: error: ‘mt19937’ is not a member of ‘std’\n",
        expected="mt19937",
    ),
    _unnamed_header(
        "regex",
        r"w?regex|regex_(?:match|search|replace|error)|[cs]match",
        sample="src/filter.cpp:19:10: error: ‘regex’ is not a member of ‘std’\n",
        expected="regex",
    ),
    Rule(
        name="permissive-c",
        pattern=(
            r"error: [^\n]*\[-W(?P<name>implicit-function-declaration|implicit-int|int-conversion|"
            r"incompatible-pointer-types|return-mismatch|declaration-missing-parameter-type)\]"
        ),
        fix=Change(change=Tweak(c_add=("-fpermissive",))),
        sample="main.c:10:3: error: implicit declaration of function 'isatty' [-Wimplicit-function-declaration]\n",
        expected="implicit-function-declaration",
        independent=True,
    ),
    Rule(
        name="warnings-as-errors",
        pattern=r"\[-Werror(?:=(?P<name>[\w+=-]+))?\]|all warnings being treated as errors",
        fix=Change(
            change=Tweak(
                compiler_drop=("-Werror", "-Werror=*", "-pedantic-errors"), compiler_add=("-Wno-error",)
            )
        ),
        sample="util.c:31:9: error: ignoring return value of 'write' [-Werror=unused-result]\ncc1: all warnings being treated as errors\n",
        expected="unused-result",
        independent=True,
    ),
    Rule(
        name="older-c",
        pattern=(
            r"error: (?:cannot use keyword .(?:bool|true|false|nullptr|constexpr).|.(?:bool|true|false). cannot be defined via"
            r"|[^\n]*'_Bool' [^\n]*two or more data types|expected [^\n]* before .(?:bool|true|false|nullptr).)"
            r"|error: ISO C does not support omitting parameter names before C23|old-style function definition \[-Werror"
            r"|error: too many arguments to function [^\n]*; expected 0, have \d"
            r"|error: two or more data types in declaration specifiers\n[^\n]*\b(?:bool|true|false)\b"
        ),
        fix=Change(change=Tweak(c_add=("-std=gnu17",))),
        sample="types.h:4:14: error: cannot use keyword 'bool' as typedef name\n",
    ),
    Rule(
        name="newer-cxx",
        pattern=(
            rf"error: [‘'](?:std::)?(?P<name>{_CXX17})[’'] (?:is not a member of [‘']std[’']|in namespace [‘']std[’'] does not name|has not been declared)"
            r"|requires compiler and library support for the ISO C\+\+ ?(?:20)?1[147]|C\+\+ versions less than C\+\+1[47]"
            r"|error: [^\n]*only available with [‘']?-std=c\+\+1[147]|is only available from C\+\+1[147] onwards"
        ),
        fix=Change(change=Tweak(cxx_add=("-std=gnu++17",), cmake_args=("-DCMAKE_CXX_STANDARD=17",))),
        sample="util/no_destructor.h:24:24: error: ‘is_standard_layout_v’ is not a member of ‘std’; did you mean ‘is_standard_layout’?\n",
        expected="is_standard_layout_v",
    ),
    Rule(
        name="newest-cxx",
        pattern=(
            r"is only available from C\+\+(?P<name>20) onwards|error: [^\n]*only available with [‘']?-std=c\+\+20"
            r"|error: [‘']concept[’'] does not name a type|C\+\+ versions less than C\+\+20"
        ),
        fix=Change(change=Tweak(cxx_add=("-std=gnu++20",), cmake_args=("-DCMAKE_CXX_STANDARD=20",))),
        sample=(
            "span.cc:4:12: error: ‘std::span’ has not been declared\n"
            "span.cc:4:12: note: ‘std::span’ is only available from C++20 onwards\n"
        ),
        expected="20",
    ),
    Rule(
        name="older-cxx",
        pattern=r"error: ISO C\+\+17 does not allow|error: reference to [‘'](?P<name>byte|data|size|empty|any|apply|gcd|lcm|clamp|invoke)[’'] is ambiguous",
        fix=Change(change=Tweak(cxx_add=("-std=gnu++14",))),
        sample="src/Exception.h:31:24: error: ISO C++17 does not allow dynamic exception specifications\n",
    ),
    Rule(
        name="permissive-cxx",
        pattern=r"error: [^\n]*\[-(?P<name>fpermissive|Wnarrowing|Wchanges-meaning|Wtemplate-body)\]",
        fix=Change(change=Tweak(cxx_add=("-fpermissive", "-Wno-narrowing", "-Wno-template-body"))),
        sample=(
            "src/table.cpp:3:11: error: narrowing conversion of ‘-1’ from ‘int’ to ‘char’ [-Wnarrowing]\n"
            "make: *** [Makefile:14: src/table.o] Error 1\n"
        ),
        expected="Wnarrowing",
    ),
    Rule(
        name="common-symbols",
        pattern=r"multiple definition of [`'‘](?P<name>[\w.]+)",
        fix=Change(change=Tweak(c_add=("-fcommon",))),
        sample="/usr/bin/ld: b.o:(.bss+0x0): multiple definition of `verbose'; a.o:(.bss+0x0): first defined here\n",
        expected="verbose",
        independent=True,
    ),
    Rule(
        name="atomics",
        pattern=r"undefined reference to [`'‘]__atomic_(?P<name>\w+)|libatomic\.so[.\d]*: error adding symbols",
        fix=Change(change=Tweak(compiler_add=("-latomic",))),
        sample="/usr/bin/ld: q.o: in function `push':\nq.c:(.text+0x1c): undefined reference to `__atomic_compare_exchange_1'\n",
        expected="compare_exchange_1",
        independent=True,
    ),
    Rule(
        name="position-independent",
        pattern=r"relocation (?P<name>R_RISCV_\w+) [^\n]*(?:can not be used when making|recompile with -fPIC)|recompile with -fPIC",
        fix=Change(change=Tweak(compiler_add=("-fPIC",))),
        sample="/usr/bin/ld: x.o: relocation R_RISCV_HI20 against `a' can not be used when making a shared object; recompile with -fPIC\n",
        expected="R_RISCV_HI20",
    ),
    Rule(
        name="linker-relaxation",
        pattern=r"dangerous relocation: (?P<name>%?\w+)|missing matching %pcrel_hi|unresolvable R_RISCV_\w+ relocation",
        fix=Change(change=Tweak(compiler_add=("-mno-relax", "-Wl,--no-relax"))),
        sample="/usr/bin/ld: crypto/sha256.o(.text+0x1c): dangerous relocation: %pcrel_lo missing matching %pcrel_hi\n",
        expected="%pcrel_lo",
    ),
    Rule(
        name="code-model",
        pattern=r"relocation truncated to fit: (?P<name>R_RISCV_\w+)",
        fix=Change(change=Tweak(compiler_add=("-mcmodel=medany",))),
        sample="main.c:(.text+0x4): relocation truncated to fit: R_RISCV_HI20 against symbol `big' defined in .bss section in main.o\n",
        expected="R_RISCV_HI20",
    ),
    Rule(
        name="library-of-system-to-link",  # which may be here for running alone
        pattern=_NOT_ON_COMMAND_LINE,
        fix=Install(kind=NeedKind.LIBRARY),
        sample="/usr/bin/ld: /usr/lib/riscv64-linux-gnu/libX11.so.6: error adding symbols: DSO missing from command line\n",
        expected="X11",
        independent=True,
    ),
    Rule(
        name="library-of-system",
        pattern=_NOT_ON_COMMAND_LINE,
        fix=Change(change=Tweak(compiler_add=("-l{name}",))),
        sample="/usr/bin/ld: /lib/riscv64-linux-gnu/libm.so.6: error adding symbols: DSO missing from command line\n",
        expected="m",
        independent=True,
    ),
    Rule(
        name="mathematics-library",
        pattern=r"undefined reference to [`'‘](?P<name>sqrtf?|powf?|floorf?|ceilf?|logf?|log10|log2|expf?|sinf?|cosf?|tanf?|atan2?|fmodf?|roundf?|lround|exp2|cbrt|hypot)['’]",
        fix=Change(change=Tweak(compiler_add=("-lm",))),
        sample="/usr/bin/ld: calc.o: in function `f':\ncalc.c:(.text+0x8): undefined reference to `sqrt'\n",
        expected="sqrt",
        independent=True,
    ),
    Rule(
        name="wide-curses-library",
        pattern=r"undefined reference to [`'‘](?P<name>w?(?:add|ins|get|in)_?n?w(?:str|ch)|setcchar|w?get_wch|waddnwstr|mvw?addn?wstr|mvw?add_wch)['’]",
        fix=Change(change=Tweak(compiler_add=("-lncursesw",))),
        sample="/usr/bin/ld: cmatrix.o: in function `main':\ncmatrix.c:797:(.text.startup+0x4ee): undefined reference to `waddnwstr'\n",
        expected="waddnwstr",
        independent=True,
    ),
    Rule(
        name="terminal-library",
        pattern=r"undefined reference to [`'‘](?P<name>tgetent|tgetstr|tgetnum|tputs|tgoto|tparm|setupterm|tigetstr|cbreak|noecho|stdscr|LINES|COLS)['’]",
        fix=Change(change=Tweak(compiler_add=("-ltinfo",))),
        sample="/usr/bin/ld: term.o: in function `init':\nterm.c:(.text+0x12): undefined reference to `tgetent'\n",
        expected="tgetent",
        independent=True,
    ),
    Rule(
        name="password-library",
        pattern=r"undefined reference to [`'‘](?P<name>crypt(?:_r|_gensalt)?)['’]",
        fix=Change(change=Tweak(compiler_add=("-lcrypt",))),
        sample="/usr/bin/ld: auth.o: in function `check':\nauth.c:(.text+0x2e): undefined reference to `crypt'\n",
        expected="crypt",
        independent=True,
    ),
    Rule(
        name="no-link-time-optimization",
        pattern=r"lto1: (?:fatal|internal compiler) error|lto-wrapper[^\n]*(?:fatal error|failed)|plugin needed to handle lto object",
        fix=Change(
            change=Tweak(
                compiler_drop=("-flto", "-flto=*", "-fuse-linker-plugin"), compiler_add=("-fno-lto",)
            )
        ),
        sample="lto-wrapper: fatal error: gcc returned 1 exit status\ncompilation terminated.\n",
    ),
    Rule(
        name="no-fast-linker",
        pattern=r"cannot find ['‘`]?(?:ld\.(?P<name>gold|lld|mold)|ld\.bfd)|collect2: fatal error: cannot find 'ld'",
        fix=Change(change=Tweak(compiler_drop=("-fuse-ld=*",))),
        sample="collect2: fatal error: cannot find 'ld.gold'\ncompilation terminated.\n",
        expected="gold",
    ),
    Rule(
        name="static-libraries",
        pattern=r"attempted static link of dynamic object|cannot find -l(?P<name>c|m|pthread): ",
        fix=Change(change=Tweak(compiler_drop=("-static",))),
        sample="/usr/bin/ld: attempted static link of dynamic object `/usr/lib/libfoo.so'\n",
    ),
    Rule(
        name="sanitizer-library",
        pattern=r"cannot find lib(?P<name>asan|ubsan|tsan|lsan)\S*: No such file",
        fix=Install(kind=NeedKind.LIBRARY),
        sample="/usr/bin/ld: cannot find libasan_preinit.o: No such file or directory\n",
        expected="asan",
    ),
)
