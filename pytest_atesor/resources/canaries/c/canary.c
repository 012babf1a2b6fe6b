/* What a compiler can get wrong: tables, floating point, thread-local and atomic data, structures passed by value,
 * variable arguments, a switch, a constructor, a weak and a hidden symbol. */
#include "canary.h"

#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#if !defined(__riscv) || __riscv_xlen != 64
#error "this compiler does not emit code for riscv64"
#endif

static unsigned table[256];
static _Thread_local int calls;
static atomic_int ticket = 41;

__attribute__((visibility("hidden"))) int canary_hidden = 7;
__attribute__((weak)) int canary_weak(void) { return canary_hidden; }

__attribute__((constructor)) static void fill(void)
{
    for (unsigned index = 0; index < 256; index++) {
        unsigned value = index;

        for (int bit = 0; bit < 8; bit++)
            value = value & 1 ? 0xEDB88320u ^ (value >> 1) : value >> 1;
        table[index] = value;
    }
}

unsigned canary_crc(const char *text)
{
    unsigned value = ~0u;

    for (; *text; text++)
        value = table[(value ^ (unsigned char)*text) & 0xff] ^ (value >> 8);
    return ~value;
}

double canary_series(int terms)
{
    double sum = 0;

    for (int index = 1; index <= terms; index++)
        sum += sin((double)index) / pow(2, index) + (float)index * 0.25f;
    return sum;
}

int canary_name(int number, char *buffer, unsigned long size)
{
    static const char *const names[] = { "zero", "one", "two" };

    calls++;
    switch (number) {
    case 0:
    case 1:
    case 2:
        return snprintf(buffer, size, "%s/%d", names[number], calls);
    case 10:
        return snprintf(buffer, size, "ten %#x", canary_crc("ten"));
    case 11:
        return snprintf(buffer, size, "eleven %.3f", canary_series(11));
    case 12:
        memset(buffer, 'x', size - 1);
        buffer[size - 1] = 0;
        return (int)strlen(buffer);
    case 13:
        return snprintf(buffer, size, "weak %d", canary_weak());
    default:
        return snprintf(buffer, size, "many %zu", sizeof(long double));
    }
}

struct pair canary_swap(struct pair value)
{
    struct pair swapped = { (float)value.second, (long)value.first };

    return swapped;
}

int canary_next(void)
{
    return atomic_fetch_add_explicit(&ticket, 1, memory_order_acq_rel) + 1;
}

int canary_sum(int count, ...)
{
    va_list values;
    int sum = 0;

    va_start(values, count);
    while (count-- > 0)
        sum += va_arg(values, int);
    va_end(values);
    return sum;
}
