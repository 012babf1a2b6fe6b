#!/bin/sh
# attach.sh [on|off]: lets the programs below /native start in the riscv64 system it runs in (as root, any shell).
# Their loader is found under its usual name, and it searches its libraries in their usual directory; the riscv64
# side's own loader, libraries and caches are not touched.
set -eu

loader=$(cat /native/loader)
libraries=$(cat /native/libraries)

case $loader in
*x86-64*) standard=/usr/lib64/ld-linux-x86-64.so.2 ;;
*) standard=/usr/lib/ld-linux-aarch64.so.1 ;;
esac
if [ "${1:-on}" = off ]; then
    rm -f "$standard" "$libraries" /usr/lib64/libfakeroot
    [ ! -L /lib64 ] || rm /lib64
    rmdir --ignore-fail-on-non-empty /usr/lib64
    exit 0
fi
mkdir -p /usr/lib64
[ -e /lib64 ] || ln -s usr/lib64 /lib64
ln -sfn "/native$loader" "$standard"
ln -sfn "/native$libraries" "$libraries"
# fakeroot preloads its library by this relative name in every program, native ones included
ln -sfn "/native$libraries/libfakeroot" /usr/lib64/libfakeroot
