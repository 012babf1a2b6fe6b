#!/bin/sh
# bootstrap.sh KIND SUITE COMPONENTS HOST-ARCH OUT.tar [MIRROR]: makes the sandbox's root file system from packages alone.
# KIND is accelerated or plain.
# Needs mmdebstrap and arch-test on the host, riscv64 emulation, and root or a subordinate id range. Temporary files
# go below TMPDIR. Without MIRROR, mmdebstrap chooses the distribution's own. OUT.tar.versions tells what is inside.
# shellcheck disable=SC2016 # "$1" in a hook is mmdebstrap's: the directory of the new system
set -eu

kind=$1 suite=$2 components=$3 host=$4 out=$5 mirror=${6:-}
here=$(dirname "$(readlink -f "$0")")
recipe=$(basename "$here")
native=$out.native

# bootstrap ARCH SCRIPT TARGET OPTION...: a minimal system in which SCRIPT of the recipe has run
bootstrap() {
    architecture=$1 script=$2 target=$3
    shift 3
    mmdebstrap --arch="$architecture" --variant=minbase --components="$components" --format=tar \
        --skip=cleanup/apt/lists --aptopt='Acquire::Languages "none"' --aptopt='Acquire::GzipIndexes "true"' \
        --customize-hook="copy-in '$here' /" \
        --customize-hook="chroot \"\$1\" sh '/$recipe/$script' $kind" \
        --customize-hook="rm -r \"\$1/$recipe\"" \
        "$@" \
        "$suite" "$target" ${mirror:+"$mirror"}
}

echo "bootstrap: native tools ($host)"
bootstrap "$host" native-tree.sh "$native"

# The native tools are unpacked into the new system before its packages are configured, and not mounted: whatever
# goes wrong and is cleaned up, nothing outside can be touched. A plain system has them only while it is made.
echo "bootstrap: riscv64 system ($kind)"
bootstrap riscv64 root.sh "$out" \
    --extract-hook='mkdir -p "$1/native" "$1/var/lib/dpkg"' \
    --extract-hook="tar-in '$native' /native" \
    --extract-hook='chroot "$1" sh /native/attach.sh' \
    --extract-hook='chroot "$1" /native/shim.sh on' \
    --customize-hook="download /etc/atesor-versions '$out.versions'"
rm -f "$native"
