#include "canary.h"

#include <stdio.h>

int main(void)
{
    char name[12];
    struct pair pair = canary_swap((struct pair){ 2.5f, 9 });

    printf("%08x %.6f %.1f %ld\n", canary_crc("canary"), canary_series(20), pair.first, pair.second);
    for (int number = 0; number < 15; number++)
        if (canary_name(number, name, sizeof name) > 0)
            printf("%s ", name);
    printf("%d %d\n", canary_next(), canary_sum(5, 1, 2, 3, 4, 5));
    return 0;
}
