#!/bin/sh
# make.sh: makes the files of this directory, in a sandbox of the accelerated debian image. Each differs from
# "program" (or "archive.a") in the way that its name says.
set -eu

cat > program.c << 'EOF'
#ifndef SALT
#define SALT 3
#endif
const int table[] = { 1, 2, SALT };
int counter;
#ifdef WEAK
__attribute__((weak))
#endif
int next(int by) { return counter += table[by & 1] * 5 + table[2]; }
#ifdef EXTRA
int extra(void) { return 1; }
#endif
void _start(void)
{
    register long number __asm__("a7") = 93;
    register long status __asm__("a0") = next(1) - SALT - 10;
    __asm__ volatile("ecall" : : "r"(number), "r"(status));
}
EOF
build() { # NAME OPTION...
    name=$1
    shift
    gcc -O2 -ffreestanding -nostdlib -static -fno-asynchronous-unwind-tables -Wl,-z,max-page-size=4096 -Wl,--build-id=none \
        -o "$name" "$@" program.c
}
build program
build other-attributes -march=rv64gc_zba
build other-flags -march=rv64imafd
build other-data -DSALT=4
build other-code -O1
build extra-symbol -DEXTRA
build other-binding -DWEAK
build other-segments -Wl,-z,relro -Wl,-z,separate-code
build debug -g
build build-id -Wl,--build-id=0x01
build other-build-id -Wl,--build-id=0x02
objcopy --remove-section .comment program without-comment
strip -o stripped program
gcc -O2 -ffreestanding -c -o object.o program.c
gcc -O2 -ffreestanding -DSALT=4 -c -o other.o program.c
gcc -O2 -ffreestanding -shared -nostdlib -Wl,--build-id=none -Wl,-soname,lib.so.1 -o library.so program.c
gcc -O2 -ffreestanding -shared -nostdlib -Wl,--build-id=none -Wl,-soname,lib.so.2 -o other-name.so program.c
ar rcD archive.a object.o
cp object.o second.o
ar rcD more-members.a object.o second.o
cp other.o object.o
ar rcD other-member.a object.o
rm -- *.c *.o
