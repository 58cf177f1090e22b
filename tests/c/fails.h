/* For tests of wrong uses: the error handler must be MPI_ERRORS_RETURN. */
#ifndef FAILS_H
#define FAILS_H

#include "check.h"

/* The call fails with an error of this class, and its code has a text. */
#define FAILS(call, class)                                                                         \
    do {                                                                                           \
        int fails_code = (call), fails_length = 0;                                                 \
        char fails_text[MPI_MAX_ERROR_STRING];                                                     \
        CHECK(fails_code != MPI_SUCCESS);                                                          \
        OK(MPI_Error_string(fails_code, fails_text, &fails_length));                               \
        if (class_of(fails_code) != (class) || fails_length == 0) {                                \
            fprintf(stderr, "%s\n", fails_text);                                                   \
            check_failed(__FILE__, __LINE__, #call " fails with " #class, 1,                       \
                         class_of(fails_code), (class));                                           \
        }                                                                                          \
    } while (0)

#endif
