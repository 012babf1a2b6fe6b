/* Preloaded into the programs below /native only: they learn from uname(2) that they run on riscv64.
 *
 * Perl's POSIX module, CMake and Meson ask uname and would take the sandbox for a machine of the host's kind.
 */
#define _GNU_SOURCE
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

int uname(struct utsname *name)
{
    int result = (int)syscall(SYS_uname, name);

    if (result == 0)
        strcpy(name->machine, "riscv64");
    return result;
}
