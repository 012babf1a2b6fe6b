#!/bin/sh
# canary.sh prepare: what both builds of the Go canary need, made with the native tools.
# canary.sh build GO-TOOLS OUT: builds every canary with the tools that stand in the sandbox's PATH now, Go's own with
# those in the directory GO-TOOLS; runs what can run; leaves in OUT what must agree. Runs in this script's directory.
#
# Go: compiler and linker for riscv64 are made from the sources that come with the native ones, unoptimized, because they
# are soon made then and have little to do. Of the standard library both use what the native compiler made; the
# package strconv is compiled both ways.
set -eu

here=$(pwd)
export LC_ALL=C.UTF-8 GOOS=linux GOARCH=riscv64 GOTOOLCHAIN=local GOFLAGS= CGO_ENABLED=0

prepare() {
    mkdir -p tools
    # with the compiler's own profile, all of the standard library would be compiled again
    go build -pgo=off -gcflags='cmd/...=-N -l -dwarf=false' -ldflags='-s -w' -o tools/ cmd/compile cmd/link
    go list -deps -export -f '{{if .Export}}packagefile {{.ImportPath}}={{.Export}}{{end}}' runtime strconv > importcfg
    go list -f '{{$at := .Dir}}{{range .GoFiles}}{{$at}}/{{.}}{{"\n"}}{{end}}' strconv > strconv.files
    go env GOROOT > goroot
}

build_c() {
    cd c
    gcc -O2 -Wall -fPIC -c canary.c
    gcc -O2 -Wall -c main.c
    gcc -shared -Wl,-soname,libcanary.so.1 -o "$out/libcanary.so.1" canary.o -lm
    ar rcs "$out/libcanary.a" canary.o
    gcc -o "$out/shared" main.o "$out/libcanary.so.1" '-Wl,-rpath,$ORIGIN'
    gcc -static -o "$out/static" main.o "$out/libcanary.a" -lm
    "$out/shared" > "$out/shared.txt"
    "$out/static" > "$out/static.txt"
}

build_cxx() {
    cd cxx
    g++ -O2 -Wall -std=c++17 -o "$out/cxx" canary.cc
    "$out/cxx" > "$out/cxx.txt"
}

build_configured() {
    cd configure
    autoconf
    ./configure --cache-file=cache > configure.log
    make > make.log
    cp configured config.h Makefile "$out"
    grep -v '^#' cache > "$out/config.cache.txt"
    "$out/configured" > "$out/configured.txt"
}

build_go() {
    cd go
    compile="$tools/compile -trimpath $here=>/canary;$(cat "$here/goroot")=>/goroot -importcfg $here/importcfg -buildid="
    # shellcheck disable=SC2086,SC2046 # words are meant to split
    $compile -std -p strconv -o "$out/strconv.a" $(cat "$here/strconv.files")
    # shellcheck disable=SC2086 # the same
    $compile -p main -o "$out/main.a" main.go
    "$tools/link" -importcfg "$here/importcfg" -buildid= -o "$out/go" "$out/main.a"
    "$out/go" 2> "$out/go.txt"
}

# one KIND GO-TOOLS OUT: builds one kind
one() {
    tools=$2 out=$3
    "build_$1"
}

# each KIND: the same in a shell of its own, so that the first mistake ends it; its last words are told
each() {
    if ! sh "$here/canary.sh" one "$1" "$tools" "$out" > "$here/$1.log" 2>&1; then
        echo "$1: $(grep . "$here/$1.log" | tail -n 1)"
        return 1
    fi
}

build() {
    tools=$1 out=$2 failed=0
    rm -rf "$out" && mkdir -p "$out"
    each configured & first=$!
    { each cxx && each c && each go; } || failed=1
    wait "$first" || failed=1
    return "$failed"
}

"$@"
