"""Go and Rust: module proxies and registries that do not answer, versions, locks."""

from pytest_atesor.core.outcome import Cause
from pytest_atesor.porter.builders.cargo import DISTRIBUTION_CRATES, IGNORE_RUST_VERSION
from pytest_atesor.porter.builders.golang import ANY_LINKNAME, GOPATH_MODE, UPDATE_MODULES
from pytest_atesor.porter.builders.interface import Tweak
from pytest_atesor.porter.fixes.interface import Change, Install, Rule, Stop
from pytest_atesor.porter.needs import NeedKind

__all__ = ["RULES"]

RULES: tuple[Rule, ...] = (
    Rule(
        name="go-directive",
        pattern=r"go\.mod(?: file)? requires go >= (?P<name>[\d.a-z]+)|invalid go version '(?P<bad>[^']+)'|unknown directive: toolchain",
        fix=Change(change=Tweak(prepare=("go-directive",))),
        sample="go: go.mod requires go >= 1.99 (running go 1.24.4; GOTOOLCHAIN=local)\n",
        expected="1.99",
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
        pattern=r"missing go\.sum entry|updates to go\.mod needed|no required module provides package",
        fix=Change(change=Tweak(prepare=(UPDATE_MODULES,))),
        sample="main.go:5:2: missing go.sum entry for module providing package example.org/x/y; to add:\n",
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
        pattern=r"failed to select a version for the requirement `|candidate versions found which didn't match",
        fix=Change(change=Tweak(prepare=("cargo-widen",))),
        sample='error: failed to select a version for the requirement `terminal_size = "^0.3"`\ncandidate versions found which didn\'t match: 0.4.1\n',
        builders=("cargo",),
    ),
    Rule(
        name="cargo-crate",
        pattern=r"no matching package (?:named )?`(?P<name>[^`]+)` found",
        fix=Install(kind=NeedKind.CRATE),
        sample="error: no matching package named `lexopt` found\nlocation searched: directory source `/usr/share/cargo/registry`\n",
        expected="lexopt",
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
            r"feature `(?P<name>[\w-]+)` is required\s|requires rustc (?P<rustc>[\d.]+)|rustc [\d.]+ is not supported by"
        ),
        fix=Stop(cause=Cause.DEPENDENCY, reason="the project needs a newer Rust than this platform has"),
        sample="error: failed to parse manifest at `/w/Cargo.toml`\nCaused by:\n  feature `edition2024` is required\n\n",
        expected="edition2024",
        builders=("cargo",),
    ),
)
