/* Time limits of programs: what is in bounded time takes longer on a slow or busy machine. */
#ifndef PATIENCE_H
#define PATIENCE_H

#include <stdlib.h>

/* So many seconds, by the factor of the environment variable WEFT_TEST_PATIENCE. */
static inline double within(double seconds)
{
    const char *text = getenv("WEFT_TEST_PATIENCE");
    double factor = text ? strtod(text, NULL) : 1;
    return factor > 1 ? seconds * factor : seconds;
}

#endif
