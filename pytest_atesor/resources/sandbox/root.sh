#!/bin/sh
# root.sh [accelerated|plain]: turns the Debian-like riscv64 system it runs in (as root) into the sandbox. The recipe's
# other files stand in this script's directory; /native has been attached already. A plain sandbox loses it at the end,
# and need not have it at the beginning.
set -eu

here=$(dirname "$(readlink -f "$0")")

# It rewrites the system it runs in: only one that is made for it has the recipe at this place.
if [ "$here" != /sandbox ]; then
    echo "$0: runs only inside a system that the recipe makes" >&2
    exit 2
fi
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
target=riscv64gc-unknown-linux-gnu
kind=${1:-accelerated}

say() { echo "root: $*"; }
. "$here/newest.sh"

configure_packages() {
    mkdir -p /etc/dpkg/dpkg.cfg.d /etc/apt/apt.conf.d
    {
        for directory in doc man info locale; do
            echo "path-exclude=/usr/share/$directory/*"
        done
        echo 'path-include=/usr/share/locale/locale.alias'
        echo 'path-exclude=*lto-dump*'
        # nobody needs this file system after a power failure
        echo force-unsafe-io
    } > /etc/dpkg/dpkg.cfg.d/sandbox
    cat > /etc/apt/apt.conf.d/90sandbox << 'EOF'
APT::Install-Recommends "false";
APT::Get::Assume-Yes "true";
Acquire::Retries "3";
Acquire::Languages "none";
Acquire::GzipIndexes "true";
Acquire::http::Timeout "30";
Acquire::https::Timeout "30";
Dpkg::Use-Pty "0";
Dpkg::Options { "--force-confdef"; "--force-confold"; };
EOF
    # no package may start a service in here
    printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d
    chmod 755 /usr/sbin/policy-rc.d
}

# Source packages come from the mirror that is configured already, in either of apt's formats.
configure_sources() {
    list=/etc/apt/sources.list
    if [ -s "$list" ] && ! grep -q '^deb-src ' "$list"; then
        sed -n 's/^deb /deb-src /p' "$list" > "$list.src"
        cat "$list.src" >> "$list"
        rm "$list.src"
    fi
    for file in /etc/apt/sources.list.d/*.sources; do
        [ ! -e "$file" ] || sed -i 's/^Types: deb$/Types: deb deb-src/' "$file"
    done
    # a mirror may lack riscv64 in a list that the base image names; what is installed below shows whether it matters
    apt-get -q update || say "not all package lists could be read"
    add_updates
}

# Some mirrors carry stable updates without riscv64, or are in the middle of a change: then do without.
add_updates() {
    codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
    list=/etc/apt/sources.list
    grep -q "^deb .*debian.* $codename main" "$list" 2> /dev/null || return 0
    ! grep -q "$codename-updates" "$list" || return 0
    sed -n "s/^\(deb.* \)$codename main/\1$codename-updates main/p" "$list" > "$list.d/updates.list"
    apt-get -q update || { rm "$list.d/updates.list"; say "no $codename-updates here"; apt-get -q update; }
}

install_packages() {
    # shellcheck disable=SC2046 # words are meant to split: one package each
    apt-get -q -y --no-install-recommends install $(sed -e '/^#/d' "$here/debian.packages")
    # the package cache stays on with the sandbox; what the image itself needed is of no use there
    apt-get clean
    rm -f /etc/apt/apt.conf.d/docker-clean
}

# The distribution's own riscv64 Go and Rust, as new as it has them.
install_languages() {
    add_backports
    # shellcheck disable=SC2046 # words are meant to split: one package each
    apt-get -q -y --no-install-recommends install "$(newest 'golang-1\.[0-9]+-go')" \
        $(newest 'rustc|rustc-web|rustc-1\.[0-9]+' | sed 's/.*/& &/; s/ rustc/ cargo/')
    rm -f /etc/apt/sources.list.d/backports.*
    apt-get clean
    for tool in go gofmt; do
        ln -sfn "$(echo /usr/lib/go-1.*/bin/$tool)" "/usr/local/bin/$tool"
    done
    for tool in rustc rustdoc cargo; do # some releases carry only names with a version
        [ -e "/usr/bin/$tool" ] || ln -s "$(echo "/usr/bin/$tool"-1.*)" "/usr/local/bin/$tool"
    done
}

# Go and Rust come from /native under names that win over packages of the sandbox itself.
configure_languages() {
    for tool in gofmt cargo rustdoc; do
        ln -sfn "/native/usr/bin/$tool" "/usr/local/bin/$tool"
    done
    # "go install" puts what it takes for cross-compiled programs into a directory of their own, and refuses GOBIN
    cat > /usr/local/bin/go << 'EOF'
#!/bin/sh
go=/native/usr/bin/go
[ "${1-}" = install ] || exec "$go" "$@"
path=$("$go" env GOPATH)
bin=$("$go" env GOBIN)
bin=${bin:-${path%%:*}/bin}
GOBIN='' "$go" "$@" || exit
for file in "${path%%:*}"/bin/linux_riscv64/*; do
    [ ! -e "$file" ] || { mkdir -p "$bin" && mv -f "$file" "$bin/"; } || exit
done
EOF
    chmod 755 /usr/local/bin/go
    # called directly, rustc compiles for riscv64 unless told otherwise; Cargo calls the native one itself
    cat > /usr/local/bin/rustc << EOF
#!/bin/sh
case " \$* " in
*" --target"* | *" -vV "* | *" -V "* | *" --version "*) exec /native/usr/bin/rustc "\$@" ;;
esac
exec /native/usr/bin/rustc --target $target -C linker=gcc "\$@"
EOF
    chmod 755 /usr/local/bin/rustc
    mkdir -p /.cargo
    host=$(/native/usr/bin/rustc -vV | sed -n 's/^host: //p')
    cat > /.cargo/config.toml << EOF
[build]
target = "$target"
rustc = "/native/usr/bin/rustc"
[target.$target]
linker = "gcc"
[target.$host]
linker = "/native/host-cc"
[env]
PKG_CONFIG_ALLOW_CROSS = "1"
EOF
    install_rust_library
}

# Rust's standard library for riscv64, of the very version of the native compiler; its package would bring a second,
# emulated compiler along.
install_rust_library() {
    owner=$(cat /native/rust-library)
    directory=$(mktemp -d)
    (
        cd "$directory"
        apt-get -q -o APT::Sandbox::User=root download "$owner"
        dpkg-deb --fsys-tarfile "$owner"_*.deb | tar -x --wildcards "./usr/lib/rustlib/$target"
    )
    rm -rf "/native/usr/lib/rustlib/$target"
    mv "$directory/usr/lib/rustlib/$target" /native/usr/lib/rustlib/
    rm -rf "$directory"
}

add_user() {
    if other=$(getent passwd 1000); then # some base images bring a user of their own
        userdel --remove "${other%%:*}"
    fi
    useradd --uid 1000 --create-home --shell /bin/bash builder
    mkdir -p /workspace
}

# Every case begins with a fresh home: with Go's standard library in its cache it need not compile that first.
fill_go_cache() {
    su builder -c 'HOME=/home/builder go build std'
    rm -rf /home/builder/.config
}

# Downloaded packages are kept beside the workspace, where they outlive the sandbox.
keep_downloads() {
    echo 'Dir::Cache::archives "/workspace/cache/apt/archives/";' > /etc/apt/apt.conf.d/91downloads
}

install_init() {
    if [ "$kind" = plain ]; then
        gcc -O2 -Wall -static -o /sbin/atesor-init "$here/init.c"
    else
        ln -sfn /native/usr/bin/atesor-init /sbin/atesor-init
    fi
}

# What a plain sandbox was made with goes: everything in it is riscv64's then.
remove_native() {
    [ -d /native ] || return 0
    /native/shim.sh off
    sh /native/attach.sh off
    rm -rf /native
}

# What the image is, for those who decide whether to build it again: one NAME=VERSION a line.
record_versions() {
    {
        echo "gcc=$(gcc -dumpfullversion)"
        echo "go=$(go version | sed 's/^go version go\([^ ]*\) .*/\1/')"
        echo "cargo=$(cargo --version | cut -d' ' -f2)"
    } > /etc/atesor-versions
    cat /etc/atesor-versions
}

configure_packages
configure_sources
install_packages
add_user
install_init
if [ "$kind" = plain ]; then
    install_languages
    remove_native
else
    configure_languages
    fill_go_cache
fi
record_versions
keep_downloads
