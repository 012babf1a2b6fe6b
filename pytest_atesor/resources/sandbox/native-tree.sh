#!/bin/sh
# native-tree.sh: turns the Debian-like system it runs in (the host's architecture, as root) into the tree that
# stands at /native in a riscv64 sandbox. The recipe's other files stand in this script's directory.
#
# The kernel of an emulated sandbox is the host's, so programs of the host's architecture run there at full speed.
# The tree holds a compiler that emits riscv64 code and the tools that a build starts most often; its libraries and
# headers for riscv64 are the sandbox's own, so that what `apt-get install libfoo-dev` brings is found.
set -eu

here=$(dirname "$(readlink -f "$0")")

# It rewrites the system it runs in: only one that was made for it has the recipe at this place.
if [ "$here" != /sandbox ]; then
    echo "$0: runs only inside a system that the recipe makes" >&2
    exit 2
fi
target=riscv64-linux-gnu
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
scratch=$(mktemp -d)

say() { echo "native-tree: $*"; }
# shellcheck source=newest.sh
. "$here/newest.sh"

# Nothing here is read by people; without documentation the tree is smaller and made sooner.
skip_documentation() {
    mkdir -p /etc/dpkg/dpkg.cfg.d
    for directory in doc man info locale zoneinfo; do
        echo "path-exclude=/usr/share/$directory/*"
    done > /etc/dpkg/dpkg.cfg.d/sandbox
    printf '%s\n' 'path-exclude=/usr/lib/gcc-cross/*.a' 'path-exclude=*lto-dump*' \
        'path-exclude=/usr/share/go-1.*/test/*' 'path-exclude=/usr/share/go-1.*_test.go' \
        'path-exclude=/usr/share/go-1.*/testdata/*' 'force-unsafe-io' >> /etc/dpkg/dpkg.cfg.d/sandbox
}

install_packages() {
    # shellcheck disable=SC2046 # words are meant to split: one package each
    apt-get -q -y --no-install-recommends install \
        $(sed -e '/^#/d' -e "s/{target}/$target/" "$here/native.packages") \
        "$(newest 'golang-1\.[0-9]+-go')" \
        $(newest 'rustc|rustc-web|rustc-1\.[0-9]+' | sed 's/.*/& &/; s/ rustc/ cargo/')
}

# The compiler takes the target's libraries, headers and start files from the sandbox.
use_sandbox_libraries() {
    version=$("$target-gcc" -dumpversion)
    own=/usr/lib/gcc-cross/$target/$version
    headers=/usr/$target/include/c++/$version
    header_names=$(ls "$headers")

    # Unlike a native gcc, a cross gcc does not search /usr/local/include. The specs must be a full copy: a partial
    # one silently drops libgcc_eh and libgcc_s.
    "$target-gcc" -dumpspecs |
        sed '/^\*cpp:/{n;s|^|%{!nostdinc:-isystem /usr/local/include} |}' > "$scratch/specs"

    rm -rf "$own" "/usr/$target/include" "/usr/$target/lib"
    mkdir -p "$own" "$headers"
    mv "$scratch/specs" "$own/specs"
    for name in crtbegin.o crtbeginS.o crtbeginT.o crtend.o crtendS.o crti.o crtn.o include finclude plugin \
        libasan.a libasan.so libasan_preinit.o libatomic.a libatomic.so libbacktrace.a libcaf_single.a libgcc.a \
        libgcc_eh.a libgcc_s.so libgcov.a libgfortran.a libgfortran.so libgfortran.spec libgomp.a libgomp.so \
        libgomp.spec libhwasan.a libhwasan.so libhwasan_preinit.o libitm.a libitm.so libitm.spec liblsan.a \
        liblsan.so liblsan_preinit.o libsanitizer.spec libssp_nonshared.a libstdc++.a libstdc++.so libstdc++exp.a \
        libstdc++fs.a libsupc++.a libtsan.a libtsan.so libtsan_preinit.o libubsan.a libubsan.so; do
        ln -s "/usr/lib/gcc/$target/$version/$name" "$own/$name"
    done
    for name in $header_names; do
        [ "$name" = "$target" ] || ln -s "/usr/include/c++/$version/$name" "$headers/$name"
    done
    ln -s "/usr/include/$target/c++/$version" "$headers/$target"
    ln -sfn "../../libexec/gcc-cross/$target/$version/liblto_plugin.so" /usr/lib/bfd-plugins/liblto_plugin.so
}

# uname(2) says riscv64, through a preload list of the tree's own: the sandbox's /etc/ld.so.preload stays untouched.
# The replacement has the same length, so the loader's string can be edited in place.
patch_loader() {
    loader=$(readlink -f /lib64/ld-linux-x86-64.so.2 2>/dev/null || readlink -f /lib/ld-linux-aarch64.so.1)
    libraries=$(dirname "$loader")
    gcc -O2 -Wall -shared -fPIC -o "$libraries/libatesor-uname.so" "$here/uname.c"
    gcc -O2 -Wall -static -o /usr/bin/atesor-init "$here/init.c"
    sed 's,/etc/ld\.so\.preload,/native/preload.ls,' "$loader" > "$scratch/loader"
    chmod 755 "$scratch/loader"
    mv "$scratch/loader" "$loader"
    echo "$libraries/libatesor-uname.so" > /preload.ls
    echo "$libraries" > /libraries
    echo "$loader" > /loader
}

# Perl finds all of its core modules in its own directory; those of the sandbox may be absent or half installed.
complete_perl() {
    modules=$(perl -MConfig -e 'print $Config{privlibexp}')
    own=$(perl -MConfig -e 'print $Config{archlibexp}')
    cp -a --update=none "$(readlink -f "$modules")/." "$(readlink -f "$own")/"
}

configure_languages() {
    for settings in /usr/lib/go-1.*/go.env; do
        sed -i -e '/^GOTOOLCHAIN=/d' "$settings"
        printf '\nGOTOOLCHAIN=local\nGOARCH=riscv64\nCGO_ENABLED=1\n' >> "$settings"
    done
    ln -sfn "$(echo /usr/lib/go-1.*/bin/go | sed 's,^/,../../,')" /usr/bin/go
    ln -sfn "$(echo /usr/lib/go-1.*/bin/gofmt | sed 's,^/,../../,')" /usr/bin/gofmt
    for tool in rustc rustdoc cargo; do # some releases carry only names with a version
        [ -e "/usr/bin/$tool" ] || ln -s "$(basename "$(echo "/usr/bin/$tool"-1.*)")" "/usr/bin/$tool"
    done
    dpkg -S "$(readlink -f /usr/bin/rustc)" | sed 's/:.*//; s/^rustc/libstd-rust/; s/$/-dev/' > /rust-library
    # Rust's build scripts run here, not there: their linker must not pick up the sandbox's ld
    host_gcc=$(basename "$(readlink -f "$(command -v gcc)")")
    printf '#!/native/usr/bin/dash\nexec /native/usr/bin/%s -B/native/usr/bin/ "$@"\n' "$host_gcc" > /host-cc
    chmod 755 /host-cc
    # Meson runs on this tree's Python and must see the modules that the sandbox installs
    echo /usr/lib/python3/dist-packages > /usr/lib/python3/dist-packages/sandbox.pth
}

# owners PACKAGE...: "PROGRAM PACKAGE VERSION" for each program in the packages' directories of programs
owners() {
    for package in "$@"; do
        version=$(dpkg-query -W -f '${Version}' "$package" 2> /dev/null) || continue
        dpkg -L "$package" | sed -n "s,^\(/usr\)\?/bin/\([^/]*\)\$,\2 $package $version,p"
    done
}

# /shim.list has the names that shim.sh replaces; what reports or records the architecture stays the sandbox's own.
# /tools tells for each program that may be native, "PROGRAM PACKAGE VERSION".
list_names() {
    packages=$(sed -e '/^#/d' -e '/^$/d' -e "s/{target}/$target/" "$here/native.packages" |
        grep -vxE 'gcc|libc6-dev|meson|libfakeroot|lib.*-perl')
    version=$("$target-gcc" -dumpversion)
    # shellcheck disable=SC2086 # words are meant to split: one package each
    owners $packages perl-base gettext-base cmake-data sqv \
        "gcc-$version-$target" "g++-$version-$target" "cpp-$version-$target" "binutils-$target" | sort -u |
        grep -vE '^(uname|arch|dpkg|dpkg-(divert|query|statoverride|trigger|realpath|maintscript-helper)|update-alternatives|apt|apt-(key|cdrom|config|mark|cache)|perl5.*-gnu) ' |
        while read -r name package version; do
            file=$(readlink -f "/usr/bin/$name" || true)
            [ "$(head -c 4 "$file" 2>/dev/null | tail -c 3)" != ELF ] || echo "$name $package $version"
        done > /tools
    cut -d' ' -f1 /tools | sort -u > /shim.list
    for name in go gofmt rustc rustdoc cargo meson; do
        package=$(dpkg -S "$(readlink -f "/usr/bin/$name")" | sed 's/:.*//')
        echo "$name $package $(dpkg-query -W -f '${Version}' "$package")"
    done >> /tools
    say "$(wc -l < /shim.list) programs"
}

clean() {
    cp "$here/attach.sh" "$here/shim.sh" /
    chmod 755 /attach.sh /shim.sh
    apt-get clean
    # /tmp itself stays: mmdebstrap keeps the configuration of its last steps there
    # shellcheck disable=SC2114 # this is not the machine's own system, see above
    rm -rf "$scratch" /var/lib/apt/lists/* /var/cache/* /var/log/* /boot /home /srv /media /mnt /root \
        /usr/share/doc /usr/share/man /usr/share/info /usr/share/locale /usr/share/zoneinfo
}

skip_documentation
add_backports
install_packages
use_sandbox_libraries
patch_loader
complete_perl
configure_languages
list_names
clean
