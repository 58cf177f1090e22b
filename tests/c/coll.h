/* What the tests of collectives share. */
#ifndef COLL_H
#define COLL_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

#define CHECK(condition, ...)                                                  \
    do {                                                                       \
        if (!(condition)) {                                                    \
            fprintf(stderr, "%s:%d: rank %d of %d: %s: ", __FILE__, __LINE__,  \
                    rank, size, #condition);                                   \
            fprintf(stderr, __VA_ARGS__);                                      \
            fprintf(stderr, "\n");                                             \
            MPI_Abort(MPI_COMM_WORLD, 1);                                      \
        }                                                                      \
    } while (0)

/* A call must succeed. */
#define OK(call)                                                               \
    do {                                                                       \
        int code_ = (call);                                                    \
        CHECK(code_ == MPI_SUCCESS, "gave %d", code_);                         \
    } while (0)

/* A call must fail with an error of this class, and change nothing. */
#define FAILS(class, call)                                                     \
    do {                                                                       \
        int class_ = -1, code_ = (call);                                       \
        MPI_Error_class(code_, &class_);                                       \
        CHECK(class_ == (class), "gave class %d", class_);                     \
    } while (0)

static inline void start(int *argc, char ***argv)
{
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
}

/* What element i of rank r's data is in round k. */
static inline int value(int r, int i, int k)
{
    return (r + 1) * 1000003 + i * 31 + k * 7;
}

static inline int *ints(size_t count)
{
    int *memory = malloc((count + 1) * sizeof(int));
    for (size_t i = 0; i <= count; i++)
        memory[i] = -1;
    return memory;
}

#endif
