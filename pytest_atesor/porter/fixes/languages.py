"""Go and Rust: module proxies and registries that do not answer, versions, locks."""

from pytest_atesor.core.outcome import Cause
from pytest_atesor.porter.builders.cargo import (
    DISTRIBUTION_CRATES,
    IGNORE_RUST_VERSION,
    OWN_TARGET,
    WITHOUT_PROGRAMS,
)
from pytest_atesor.porter.builders.golang import ANY_LINKNAME, GOPATH_MODE, UPDATE_MODULES
from pytest_atesor.porter.builders.interface import Tweak
from pytest_atesor.porter.fixes.architecture import REFUSED_PROCESSOR, UNPORTABLE_CALLS
from pytest_atesor.porter.fixes.interface import Change, Install, Rule, Stop
from pytest_atesor.porter.needs import NeedKind

__all__ = ["RULES"]

_GO_DIRECTIVE = r"\bgo\.(?:mod|work)(?: file)? requires go >= (?P<name>[\d.a-z]+)|invalid go version '(?P<bad>[^']+)'|unknown directive: (?P<directive>toolchain)"
_GO_NEWER_MODULE = r"^go: [^\n]*?(?P<name>[\w./~-]+@v[\w.+-]+) requires go >= "
_GO_MODULES = r"missing go\.sum entry|updates to go\.(?:mod|work) needed|no required module provides package"
_GO_GONE = r"^go: (?P<name>[\w./~-]+@[\w.+-]+): [^\n]*?(?:reading https?://\S+: (?:404|410)\b|invalid version: (?:git ls-remote|unknown revision))"
_NO_CRATE = r"no matching package (?:named )?`(?P<name>[^`]+)` found"
_NO_CRATE_VERSION = (
    r"failed to select a version for the requirement `|candidate versions found which didn't match"
)
_RUST_TARGET = r"can't find crate for `(?:std|core)`\n(?:[^\n]*\n){{0,2}}?[ ]*= note: the `(?P<name>{})` target may not be installed"

RULES: tuple[Rule, ...] = (
    Rule(
        name="go-directive",
        pattern=_GO_DIRECTIVE,
        fix=Change(change=Tweak(prepare=("go-directive",))),
        sample="go: go.mod requires go >= 1.99 (running go 1.24.4; GOTOOLCHAIN=local)\n",
        expected="1.99",
        builders=("go",),
    ),
    Rule(
        name="go-too-old",
        pattern=_GO_DIRECTIVE,
        fix=Stop(
            cause=Cause.DEPENDENCY, reason="the project needs a newer Go than this platform has ({name})"
        ),
        sample="go: go.work requires go >= 1.99 (running go 1.27.4; GOTOOLCHAIN=local)\n",
        expected="1.99",
        builders=("go",),
    ),
    Rule(
        name="go-newer-module",
        pattern=_GO_NEWER_MODULE,
        fix=Change(change=Tweak(prepare=(GOPATH_MODE,))),  # the platform's packages are of its own Go's time
        sample="go: golang.org/x/net@v0.48.0: module golang.org/x/net@v0.48.0 requires go >= 1.25.0 (running go 1.24.4; GOTOOLCHAIN=local)\n",
        expected="golang.org/x/net@v0.48.0",
        builders=("go",),
    ),
    Rule(
        name="go-too-old-for-module",
        pattern=_GO_NEWER_MODULE,
        fix=Stop(cause=Cause.DEPENDENCY, reason="{name} needs a newer Go than this platform has"),
        sample="go: golang.org/x/net@v0.48.0 requires go >= 1.25.0 (running go 1.24.4; GOTOOLCHAIN=local)\n",
        expected="golang.org/x/net@v0.48.0",
        builders=("go",),
    ),
    Rule(
        name="go-vendor-as-it-is",
        pattern=r"inconsistent vendoring in|cannot find module providing package [^\n]*: import lookup disabled by -mod=vendor",
        fix=Change(
            change=Tweak(prepare=(GOPATH_MODE,))
        ),  # which uses vendor/ without comparing it with go.mod
        sample="go: inconsistent vendoring in /w/hey:\n\tgolang.org/x/net@v0.0.0-2019: is explicitly required in go.mod, but vendor/modules.txt indicates golang.org/x/net@v0.0.0-2018\n",
        builders=("go",),
    ),
    Rule(
        name="go-modules-update",
        pattern=_GO_MODULES,
        fix=Change(change=Tweak(prepare=(UPDATE_MODULES,))),
        sample="main.go:5:2: missing go.sum entry for module providing package example.org/x/y; to add:\n",
        builders=("go",),
    ),
    Rule(
        name="go-modules-packaged",
        pattern=_GO_MODULES,
        fix=Change(change=Tweak(prepare=(GOPATH_MODE,))),
        sample="main.go:2:16: no required module provides package example.org/w; to add it:\n\tcd /w/a\n\tgo get example.org/w\n",
        builders=("go",),
    ),
    Rule(
        # packaged sources would build, and hide that a module is no longer what its project has recorded
        name="go-checksum-mismatch",
        pattern=r"^(?:go: [^\n]*)?verifying (?P<name>[\w./~-]+@[\w.+-]+)(?:/go\.mod)?: checksum mismatch$",
        fix=Stop(
            cause=Cause.DEPENDENCY,
            reason="the Go module {name} that was downloaded is not the one in go.sum: its checksum differs",
        ),
        sample=(
            "verifying github.com/a/b@v1.0.0: checksum mismatch\n\tdownloaded: h1:haPT8w/PCxB3zSgE8BnENFWmAOMrz7q0T38uE7pV7UQ=\n"
            "\tgo.sum:     h1:9CLF8x8lgHuxyKwHuD345zsrrLxDmp0DA9rCh9WIT6w=\n\nSECURITY ERROR\n"
            "This download does NOT match an earlier download recorded in go.sum.\n"
        ),
        expected="github.com/a/b@v1.0.0",
        builders=("go",),
    ),
    Rule(
        name="go-modules-gone",
        pattern=_GO_GONE,
        fix=Change(change=Tweak(prepare=(GOPATH_MODE,))),
        sample="go: example.org/priv@v1.0.0: reading https://proxy.example.org/example.org/priv/@v/v1.0.0.mod: 404 Not Found\n",
        expected="example.org/priv@v1.0.0",
        builders=("go",),
    ),
    Rule(
        name="go-module-gone",
        pattern=_GO_GONE,
        fix=Stop(cause=Cause.DEPENDENCY, reason="the Go module {name} cannot be downloaded"),
        sample=(
            "go: github.com/no/such@v0.0.0-20200101000000-abcdefabcdef: invalid version: git ls-remote -q origin in "
            "/w/go/pkg/mod/cache/vcs/ad548dcde3ed647f: exit status 128:\n\tfatal: could not read Username for 'https://github.com'\n"
        ),
        expected="github.com/no/such@v0.0.0-20200101000000-abcdefabcdef",
        builders=("go",),
    ),
    Rule(
        name="go-distribution-packages",
        pattern=(
            r"go: (?P<name>[\w./~-]+)@[^\n]*(?:dial tcp|no such host|connection refused|i/o timeout|unrecognized import"
            r"|TLS handshake|network is unreachable|Forbidden|Bad Gateway|proxyconnect)"
            r"|module lookup disabled by GOPROXY=off|Get \"https?://[^\"]+\": (?:dial|proxyconnect)"
            r"|^error: the modules were not downloaded within \d+ s"
        ),
        fix=Change(change=Tweak(prepare=(GOPATH_MODE,))),
        sample='go: github.com/fatih/color@v1.15.0: Get "https://proxy.example.org/github.com/fatih/color/@v/v1.15.0.mod": dial tcp: lookup proxy.example.org: no such host\n',
        expected="github.com/fatih/color",
        builders=("go",),
    ),
    Rule(
        name="go-package",
        pattern=r"cannot find package \"(?P<name>[^\"\n]+)\"",
        fix=Install(kind=NeedKind.GO),
        sample='main.go:12:2: cannot find package "github.com/fatih/color" in any of:\n\t/usr/lib/go-1.24/src/github.com/fatih/color (from $GOROOT)\n',
        expected="github.com/fatih/color",
        builders=("go",),
    ),
    Rule(
        name="go-linkname",
        pattern=r"^link: (?P<name>[\w./~-]+): invalid reference to [\w./]+",
        fix=Change(change=Tweak(prepare=(ANY_LINKNAME,))),
        sample="# github.com/bettercap/bettercap\nlink: golang.org/x/net/internal/socket: invalid reference to syscall.recvmsg\n",
        expected="golang.org/x/net/internal/socket",
        builders=("go",),
    ),
    Rule(
        name="go-left-out",
        pattern=r"(?:^|: )build constraints exclude all Go files in (?P<name>\S+)",
        fix=Stop(
            cause=Cause.UNSUPPORTED,
            reason="the Go package in {name} has no file for this processor and system",
        ),
        sample=(
            "package volcano.sh/volcano/cmd/agent\n\timports volcano.sh/volcano/pkg/agent/events/handlers/cpuqos: "
            "build constraints exclude all Go files in /w/volcano/pkg/agent/events/handlers/cpuqos\n"
        ),
        expected="/w/volcano/pkg/agent/events/handlers/cpuqos",
        builders=("go",),
    ),
    Rule(
        name="go-for-other-processors",
        pattern=(
            r"^(?P<name>[^\s:]+\.go:\d+:\d+: missing function body)$"
            r"|^[^\s:]+\.go:\d+:\d+: undefined: (?P<call>(?:syscall|unix)\.(?:Ptrace(?:Regs\w*|[GS]etRegs)|Dup2|Iopl|Ioperm"
            rf"|SYS_(?i:{UNPORTABLE_CALLS})))$"
            r"|type \*?(?P<registers>(?:syscall|unix)\.PtraceRegs) has no field or method"
        ),
        fix=Stop(cause=Cause.UNSUPPORTED, reason="the Go code is for other processors: {name}"),
        sample="# a.org/x/asm\nasm/a.go:3:6: missing function body\nasm/a.go:4:6: missing function body\n",
        expected="asm/a.go:3:6: missing function body",
        builders=("go",),
    ),
    Rule(
        name="go-embeds-what-is-not-there",
        pattern=r"\.go:\d+:\d+: pattern (?P<name>[^\s:]+(?::[^\s:]+)?): (?:no matching files found|cannot embed directory )",
        fix=Stop(
            cause=Cause.SOURCE,
            reason="the Go code embeds {name}, which the source tree does not have: another build makes it first",
        ),
        sample="web/embed.go:6:12: pattern dist/*: no matching files found\n",
        expected="dist/*",
        builders=("go",),
    ),
    Rule(
        name="cargo-lock",
        pattern=r"lock file version .?\d+.? (?:was found, but this version|requires)|failed to parse lock file",
        fix=Change(change=Tweak(prepare=("cargo-lock",))),
        sample="error: failed to parse lock file at: /w/Cargo.lock\nCaused by:\n  lock file version `4` was found, but this version of Cargo does not understand this lock file\n",
        builders=("cargo",),
    ),
    Rule(
        name="cargo-distribution-crates",
        pattern=(
            r"failed to (?:download from|get|fetch|query|update)[^\n]*(?:crates|registry|index|`[^`]+` as a dependency)"
            r"|[Cc]ould(?:n't| not) resolve host(?:name)?[^\n]*|download of config\.json failed|spurious network error"
            r"|^error: the crates were not downloaded within \d+ s"
        ),
        fix=Install(kind=NeedKind.CRATE, change=Tweak(prepare=(DISTRIBUTION_CRATES,))),
        sample="    Updating the index\nwarning: spurious network error (1 tries remaining): [6] Could not resolve hostname (Could not resolve host: index.example.org)\nerror: failed to get `anyhow` as a dependency of package `hexyl v0.16.0 (/w)`\n",
        builders=("cargo",),
    ),
    Rule(
        name="cargo-widen",
        pattern=_NO_CRATE_VERSION,
        fix=Change(change=Tweak(prepare=("cargo-widen",))),
        sample='error: failed to select a version for the requirement `terminal_size = "^0.3"`\ncandidate versions found which didn\'t match: 0.4.1\n',
        builders=("cargo",),
    ),
    Rule(
        name="cargo-crate",
        pattern=_NO_CRATE,
        fix=Install(kind=NeedKind.CRATE),
        sample="error: no matching package named `lexopt` found\nlocation searched: directory source `/usr/share/cargo/registry`\n",
        expected="lexopt",
        builders=("cargo",),
    ),
    Rule(
        name="cargo-without-programs",
        pattern=_NO_CRATE,
        fix=Change(change=Tweak(prepare=(WITHOUT_PROGRAMS,))),
        sample=(
            "error: no matching package named `clap_complete_nushell` found\n"
            "location searched: directory source `/usr/share/cargo/registry` (which is replacing registry `crates-io`)\n"
            "required by package `x-cli v0.1.0 (/workspace/build/x/cli)`\n"
        ),
        expected="clap_complete_nushell",
        builders=("cargo",),
    ),
    Rule(
        name="cargo-without-newer-programs",
        pattern=_NO_CRATE_VERSION,
        fix=Change(change=Tweak(prepare=(WITHOUT_PROGRAMS,))),
        sample=(
            'error: failed to select a version for the requirement `miniz_oxide = "^0.8.0"`\n'
            "candidate versions found which didn't match: 0.7.1\n"
            "location searched: directory source `/usr/share/cargo/registry` (which is replacing registry `crates-io`)\n"
            "required by package `x-cli v0.1.0 (/workspace/build/x/cli)`\n"
        ),
        builders=("cargo",),
    ),
    Rule(
        name="cargo-msrv",
        pattern=r"requires rustc (?P<name>[\d.]+)|rustc [\d.]+ is not supported by",
        fix=Change(change=Tweak(prepare=(IGNORE_RUST_VERSION,))),
        sample="error: rustc 1.85.0 is not supported by the following package:\n  hexyl@0.16.0 requires rustc 1.88\n",
        expected="1.88",
        builders=("cargo",),
    ),
    Rule(
        name="rust-ring",
        pattern=r"failed to run custom build command for `ring v(?P<name>0\.(?:\d|1[0-6])\.[\w.-]+)`",
        fix=Stop(
            cause=Cause.UNSUPPORTED,
            reason="the project uses the crate ring {name}, which knows no riscv64; ring does from 0.17 on",
        ),
        sample=(
            "error: failed to run custom build command for `ring v0.16.20`\n\nCaused by:\n  process didn't exit successfully: "
            "`/w/target/release/build/ring-9d467882da7afec8/build-script-build` (exit status: 101)\n  --- stderr\n"
            "  thread 'main' panicked at /w/registry/src/index.crates.io-6f17d22bba15001f/ring-0.16.20/build.rs:358:10:\n"
            "  called `Option::unwrap()` on a `None` value\n"
        ),
        expected="0.16.20",
        builders=("cargo",),
    ),
    Rule(
        name="rust-nightly",
        pattern=r"`#!\[feature\]` may not be used on the \w+ release channel|the cargo feature `(?P<name>[\w-]+)` requires a nightly version of Cargo",
        fix=Change(change=Tweak(environment=(("RUSTC_BOOTSTRAP", "1"),))),
        sample="error[E0554]: `#![feature]` may not be used on the stable release channel\n --> src/main.rs:1:1\n  |\n1 | #![feature(test)]\n",
        builders=("cargo",),
    ),
    Rule(
        name="rust-bare-target",
        pattern=_RUST_TARGET.format(r"[\w.]+-none(?:-[\w.]+)*|wasm[\w-]+|thumb[\w.-]+|avr-[\w-]+"),
        fix=Stop(cause=Cause.UNSUPPORTED, reason="the project is built for {name} alone"),
        sample=(
            "error[E0463]: can't find crate for `core`\n  |\n  = note: the `thumbv7em-none-eabihf` target may not be installed\n"
            "  = help: consider downloading the target with `rustup target add thumbv7em-none-eabihf`\n"
        ),
        expected="thumbv7em-none-eabihf",
        builders=("cargo",),
    ),
    Rule(
        name="rust-own-target",
        pattern=_RUST_TARGET.format(r"[\w.-]+"),
        fix=Change(change=Tweak(prepare=(OWN_TARGET,))),
        sample=(
            "error[E0463]: can't find crate for `std`\n  |\n  = note: the `x86_64-unknown-linux-musl` target may not be installed\n"
            "  = help: consider downloading the target with `rustup target add x86_64-unknown-linux-musl`\n"
        ),
        expected="x86_64-unknown-linux-musl",
        builders=("cargo",),
    ),
    Rule(
        name="rust-other-target",
        pattern=_RUST_TARGET.format(r"[\w.-]+"),
        fix=Stop(cause=Cause.UNSUPPORTED, reason="the build compiles for {name}, whatever it is told"),
        sample="error[E0463]: can't find crate for `std`\n  |\n  = note: the `x86_64-pc-windows-gnu` target may not be installed\n",
        expected="x86_64-pc-windows-gnu",
        builders=("cargo",),
    ),
    Rule(
        name="cargo-newer-crates",
        pattern=r"^error(?:\[E\d+\])?: [^\n]*\n +--> /[^\n]*/registry/src/[^/\n]+/(?P<name>[\w.+-]+)/",
        fix=Change(
            change=Tweak(
                prepare=("cargo-lock",),
                environment=(("CARGO_RESOLVER_INCOMPATIBLE_RUST_VERSIONS", "fallback"),),
            )
        ),
        sample=(
            "error[E0282]: type annotations needed for `Box<_>`\n"
            "  --> /w/.cargo/registry/src/index.crates.io-6f17d22bba15001f/time-0.3.34/src/format_description/parse/mod.rs:83:9\n"
            "   |\n83 |     let items = format_items\n"
        ),
        expected="time-0.3.34",
        builders=("cargo",),
    ),
    Rule(
        name="rust-too-old",
        pattern=(
            r"feature `(?P<name>[\w-]+)` is required\s|older than the `(?P<edition>\d+)` edition|requires rustc (?P<rustc>[\d.]+)|rustc [\d.]+ is not supported by"
        ),
        fix=Stop(cause=Cause.DEPENDENCY, reason="the project needs a newer Rust than this platform has"),
        sample="error: failed to parse manifest at `/w/Cargo.toml`\nCaused by:\n  feature `edition2024` is required\n\n",
        expected="edition2024",
        builders=("cargo",),
    ),
    Rule(
        name="rust-for-other-processors",
        pattern=(
            r"could not find `(?P<name>x86(?:_64)?|arm|aarch64|wasm(?:32|64)|powerpc(?:64)?|mips(?:64)?)` in `arch`"
            r"|no `(?P<listed>x86(?:_64)?|arm|aarch64)` in `arch`|(?P<macro>is_(?:x86|arm|aarch64)_feature_detected)` in `(?:std|arch)"
            r"|unresolved import `(?:std|core)::arch::(?P<imported>x86(?:_64)?|arm|aarch64)\b"
            r"|macro `(?:\w+::)*(?P<older>is_(?:x86|arm|aarch64)_feature_detected)` in this scope"
            r"|error: This (?P<here>macro) cannot be used on the current target"
            r"|error: invalid (?P<register>register `\w+`): unknown register|error: (?:invalid|unrecognized) instruction mnemonic"
        ),
        fix=Stop(
            cause=Cause.UNSUPPORTED,
            reason="the Rust code is for other processors: {name}",
        ),
        sample=(
            "error[E0432]: unresolved import `std::arch::x86_64`\n --> src/main.rs:1:16\n  |\n1 | use std::arch::x86_64::*;\n"
            "  |                ^^^^^^ could not find `x86_64` in `arch`\n"
        ),
        expected="x86_64",
        builders=("cargo",),
    ),
    Rule(
        name="rust-environment",
        pattern=r"^error: environment variable `(?P<name>\w+)` not defined at compile time$",
        fix=Stop(
            cause=Cause.BUILD,
            reason="the Rust code is compiled with {name} of the environment, which the project's own build sets",
        ),
        sample=(
            "error: environment variable `GIT_HASH` not defined at compile time\n --> src/main.rs:1:28\n  |\n"
            '1 | fn main() { println!("{}", env!("GIT_HASH")); }\n  |                            ^^^^^^^^^^^^^^^^\n  |\n'
            '  = help: use `std::env::var("GIT_HASH")` to read the variable at run time\n'
        ),
        expected="GIT_HASH",
        builders=("cargo",),
    ),
    Rule(
        name="refused-processor-rust",
        pattern=REFUSED_PROCESSOR,
        fix=Stop(cause=Cause.UNSUPPORTED, reason="the code refuses this processor: {name}"),
        sample='error: Unsupported architecture\n --> src/lib.rs:1:1\n  |\n1 | compile_error!("Unsupported architecture");\n',
        expected="Unsupported architecture",
        builders=("cargo",),
    ),
)
