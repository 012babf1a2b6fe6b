#include "config.h"

#include <stdio.h>

int main(void)
{
#if defined(WORDS_BIGENDIAN) || !defined(HAVE_GETRANDOM) || defined(HAVE_NO_SUCH_FUNCTION)
    puts("configured wrongly");
    return 1;
#else
    printf("configured: long has %d bytes\n", SIZEOF_LONG);
    return 0;
#endif
}
