/* What the tests of one-sided communication share: windows of every kind. */
#ifndef RMA_H
#define RMA_H

#include "fails.h"

enum kind { CREATED, ALLOCATED, SHARED, DYNAMIC, KINDS };

/* A window of `bytes` bytes in each rank, zeroed. */
struct window {
    enum kind kind;
    MPI_Win win;
    char *base;
    MPI_Aint bytes;
    /* Displacement of the beginning of each rank's memory, in units. */
    MPI_Aint *start;
};

static UNUSED struct window window_make(enum kind kind, MPI_Aint bytes, int unit)
{
    struct window w = {kind, MPI_WIN_NULL, NULL, bytes, NULL};
    int size, rank;
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    w.start = calloc((size_t)size, sizeof *w.start);
    switch (kind) {
    case CREATED:
        w.base = allocate((size_t)bytes);
        OK(MPI_Win_create(w.base, bytes, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &w.win));
        break;
    case ALLOCATED:
        OK(MPI_Win_allocate(bytes, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &w.base, &w.win));
        break;
    case SHARED:
        OK(MPI_Win_allocate_shared(bytes, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &w.base, &w.win));
        break;
    default: {
        MPI_Aint here;
        CHECK_EQ(unit, 1);
        w.base = allocate((size_t)bytes);
        OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &w.win));
        OK(MPI_Win_attach(w.win, w.base, bytes));
        OK(MPI_Get_address(w.base, &here));
        OK(MPI_Allgather(&here, 1, MPI_AINT, w.start, 1, MPI_AINT, MPI_COMM_WORLD));
        break;
    }
    }
    memset(w.base, 0, (size_t)bytes);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    return w;
}

static UNUSED void window_free(struct window *w)
{
    if (w->kind == DYNAMIC) {
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPI_Win_detach(w->win, w->base));
    }
    OK(MPI_Win_free(&w->win));
    CHECK(w->win == MPI_WIN_NULL);
    if (w->kind == CREATED || w->kind == DYNAMIC) {
        free(w->base);
    }
    free(w->start);
}

#endif
