#!/native/usr/bin/dash
# shim.sh [on|off]: puts the programs of /native in the places of their riscv64 namesakes (root, inside the sandbox).
#
# Works in place, so that "#!/bin/sh" and absolute paths get the fast tools as well. The riscv64 original stays beside
# as NAME.riscv64 and is recorded as diverted, so that package upgrades update it and leave our link alone. May be run
# any number of times; a hook runs it after each package installation.
set -eu

mode=${1:-on}
native=/native
PATH=$native/usr/bin
diversions=/var/lib/dpkg/diversions
hook=/etc/apt/apt.conf.d/99native
perl_libraries=/usr/lib/riscv64-linux-gnu

is_riscv64() { # FILE
    [ ! -L "$1" ] && [ -f "$1" ] || return 1
    case $(head -c 20 "$1" | od -An -tx1 -v | tr -d ' \n') in
    7f454c46*f300) return 0 ;;
    esac
    return 1
}

# Written by hand: a hundred calls of the emulated dpkg-divert take minutes.
record() { # FILE
    if ! grep -qxF "$1.riscv64" "$diversions" 2>/dev/null; then
        printf '%s\n%s\n:\n' "$1" "$1.riscv64" >> "$diversions"
    fi
}

replace() { # FILE NATIVE-FILE: the link appears under its name at once, no moment without the program
    if is_riscv64 "$1"; then
        ln -f "$1" "$1.riscv64"
        record "$1"
    elif [ -e "$1" ] || [ -L "$1" ] || [ ! -f "$1.riscv64" ]; then
        return 0
    fi
    ln -s "$2" "$1.$$"
    mv -fT "$1.$$" "$1"
}

restore() { # FILE
    [ -f "$1.riscv64" ] || return 0
    mv -fT "$1.riscv64" "$1"
    mawk -v file="$1" '{ line[NR % 3] = $0 } NR % 3 == 0 && line[1] != file { print line[1] "\n" line[2] "\n" line[0] }' \
        "$diversions" > "$diversions.$$"
    mv -fT "$diversions.$$" "$diversions"
}

# A native Perl cannot load modules compiled for riscv64 and would describe the wrong machine to programs that embed
# Perl. Where a package brings either, Perl goes back to the riscv64 one.
perl_may_be_native() {
    [ ! -e "$perl_libraries/libperl.so" ] || return 1
    [ -d "$perl_libraries/perl5" ] || return 0
    ours=$(cat $native/libraries)
    find "$perl_libraries/perl5" -name '*.so' | (
        while read -r file; do
            [ -e "$native$ours${file#"$perl_libraries"}" ] || exit 1
        done
    )
}

set_perl() {
    for name in perl $(cd /usr/bin && echo perl5.*.?); do
        if perl_may_be_native; then
            grep -qxF "$name" $native/shim.list && replace "/usr/bin/$name" "$native/usr/bin/$name"
        else
            restore "/usr/bin/$name"
        fi
    done
}

replace_meson() {
    [ -f /usr/bin/meson ] && ! grep -q $native/ /usr/bin/meson || return 0
    mv -fT /usr/bin/meson /usr/bin/meson.riscv64
    record /usr/bin/meson
    printf '#!/bin/sh\nexec %s/usr/bin/python3 %s/usr/bin/meson "$@"\n' $native $native > /usr/bin/meson.$$
    chmod 755 /usr/bin/meson.$$
    mv -fT /usr/bin/meson.$$ /usr/bin/meson
}

switch_on() {
    touch "$diversions"
    while read -r name; do
        case $name in
        perl*) ;;
        *) replace "/usr/bin/$name" "$native/usr/bin/$name" ;;
        esac
    done < $native/shim.list
    set_perl
    replace_meson
    for method in store http gpgv sqv rred file copy; do # these do not care for which architecture they fetch
        replace "/usr/lib/apt/methods/$method" "$native/usr/lib/apt/methods/$method"
    done
    for helper in git-remote-http git-http-fetch git-http-push; do
        replace "/usr/lib/git-core/$helper" "$native/usr/lib/git-core/$helper"
    done
    mkdir -p "${hook%/*}"
    # apt-get is native, dpkg is not: apt must be told for which architecture it installs
    cat > "$hook" << EOF
APT::Architecture "riscv64";
DPkg::Post-Invoke { "[ ! -x $native/shim.sh ] || $native/shim.sh on"; };
EOF
}

switch_off() {
    for file in /usr/bin/*.riscv64 /usr/lib/apt/methods/*.riscv64 /usr/lib/git-core/*.riscv64; do
        [ ! -e "$file" ] || restore "${file%.riscv64}"
    done
    rm -f "$hook"
}

case $mode in
on) switch_on ;;
off) switch_off ;;
*)
    echo "usage: shim.sh [on|off]" >&2
    exit 2
    ;;
esac
