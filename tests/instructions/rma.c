/*
 * Counted one-sided calls of rank 0 to an integer of rank 1's, 8 bytes or one: in an epoch of
 * MPI_Win_lock_all, and locks of a window that is in no epoch.
 */
#include "counted.h"

enum { TARGET = 1 };

/* MPI's functions, or empty ones. */
struct calls {
    int (*put)(const void *, int, MPI_Datatype, int, MPI_Aint, int, MPI_Datatype, MPI_Win);
    int (*get)(void *, int, MPI_Datatype, int, MPI_Aint, int, MPI_Datatype, MPI_Win);
    int (*accumulate)(const void *, int, MPI_Datatype, int, MPI_Aint, int, MPI_Datatype, MPI_Op,
                      MPI_Win);
    int (*fetch_and_op)(const void *, void *, MPI_Datatype, int, MPI_Aint, MPI_Op, MPI_Win);
    int (*compare_and_swap)(const void *, const void *, void *, MPI_Datatype, int, MPI_Aint,
                            MPI_Win);
    int (*flush)(int, MPI_Win);
    int (*lock)(int, int, int, MPI_Win);
    int (*unlock)(int, MPI_Win);
};

static int none(void) {
    return 0;
}

#define NONE ((void *)none)

static const struct calls mpi = {
    MPI_Put,  MPI_Get, MPI_Accumulate, MPI_Fetch_and_op, MPI_Compare_and_swap, MPI_Win_flush, MPI_Win_lock,
    MPI_Win_unlock,
};
static const struct calls empty = {NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE};

/* Read anew for each phase, so that the compiler can't tell MPI from empty functions. */
static const struct calls *volatile both[] = {&empty, &mpi};

static MPI_Win window, unlocked;
static long long value = 1, compare, result;

static inline int put(const struct calls *calls) {
    return calls->put(&value, 1, MPI_INT64_T, TARGET, 0, 1, MPI_INT64_T, window);
}

static inline int lock(const struct calls *calls) {
    return calls->lock(MPI_LOCK_SHARED, TARGET, 0, unlocked);
}

static inline int unlock(const struct calls *calls) {
    return calls->unlock(TARGET, unlocked);
}

COUNTED counted_put(const struct calls *calls) {
    return put(calls);
}

COUNTED counted_flush(const struct calls *calls) {
    return calls->flush(TARGET, window);
}

COUNTED counted_get(const struct calls *calls) {
    return calls->get(&result, 1, MPI_INT64_T, TARGET, 0, 1, MPI_INT64_T, window);
}

COUNTED counted_accumulate(const struct calls *calls, MPI_Datatype type) {
    return calls->accumulate(&value, 1, type, TARGET, 0, 1, type, MPI_SUM, window);
}

COUNTED counted_fetch_and_op(const struct calls *calls, MPI_Datatype type) {
    return calls->fetch_and_op(&value, &result, type, TARGET, 0, MPI_SUM, window);
}

COUNTED counted_compare_and_swap(const struct calls *calls, MPI_Datatype type) {
    return calls->compare_and_swap(&value, &compare, &result, type, TARGET, 0, window);
}

COUNTED counted_lock(const struct calls *calls) {
    return lock(calls);
}

COUNTED counted_unlock(const struct calls *calls) {
    return unlock(calls);
}

static const char *const names[] = {
    "Put",
    "Win_flush after it",
    "Get",
    "Accumulate",
    "Fetch_and_op",
    "Compare_and_swap",
    "Accumulate, 1 byte",
    "Fetch_and_op, 1 byte",
    "Compare_and_swap, 1 byte",
    "Win_lock, shared",
    "Win_unlock",
};

enum { KINDS = sizeof names / sizeof *names };

static int call(const struct calls *calls, int kind) {
    MPI_Datatype type = kind < 6 ? MPI_INT64_T : MPI_CHAR;
    int codes = 0;
    switch (kind) {
    case 0: return counted_put(calls);
    case 1: codes = put(calls); return codes | counted_flush(calls);
    case 2: return counted_get(calls);
    case 3:
    case 6: return counted_accumulate(calls, type);
    case 4:
    case 7: return counted_fetch_and_op(calls, type);
    case 5:
    case 8: return counted_compare_and_swap(calls, type);
    case 9: codes = counted_lock(calls); return codes | unlock(calls);
    default: codes = lock(calls); return codes | counted_unlock(calls);
    }
}

static void phase(int kind, int real, int iterations) {
    const struct calls *calls = both[real];
    for (int i = 0; i < iterations; i++) {
        no_error(call(calls, kind));
    }
}

int main(void) {
    const int rank = start(0);
    void *memory;
    no_error(MPI_Win_allocate(4096, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window));
    no_error(MPI_Win_lock_all(MPI_MODE_NOCHECK, window));
    no_error(MPI_Win_allocate(4096, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &unlocked));
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        phase(0, 1, WARM_UP);
        mark_phase("warm-up", WARM_UP, "-");
        for (int kind = 0; kind < KINDS; kind++) {
            for (int real = 0; real < 2; real++) {
                for (int n = FEW; n <= MANY; n += MANY - FEW) {
                    phase(kind, real, n);
                    mark_phase(real ? "real" : "empty", n, names[kind]);
                }
            }
        }
        no_error(MPI_Win_flush(TARGET, window));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_unlock_all(window);
    MPI_Win_free(&unlocked);
    MPI_Win_free(&window);
    MPI_Finalize();
    return 0;
}
