/* Puts, gets and accumulates of data in very many short runs, in equal steps and not: they arrive, and a put takes
 * no memory that goes by the number of runs.
 *
 * ranks: 2
 * variants: shm tcp hosts
 */
#include <unistd.h>

#include "rma.h"

enum { BLOCKS = 2000000, FEW = 3000 };

/* The most memory that the process has had, in KiB. */
static long most(void)
{
    char line[256];
    long kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    CHECK(status != NULL);
    while (fgets(line, sizeof line, status) != NULL) {
        if (sscanf(line, "VmHWM: %ld", &kib) == 1) {
            break;
        }
    }
    fclose(status);
    CHECK(kib > 0);
    return kib;
}

/* Every second int of the target's, from a buffer without gaps. */
static void memory(int rank)
{
    struct window w = window_make(ALLOCATED, rank == 1 ? 8 * (MPI_Aint)BLOCKS : 8, 4);
    MPI_Datatype steps;
    OK(MPI_Type_vector(BLOCKS, 1, 2, MPI_INT, &steps));
    OK(MPI_Type_commit(&steps));
    if (rank == 0) {
        int *data = malloc(BLOCKS * sizeof *data);
        for (int i = 0; i < BLOCKS; i++) {
            data[i] = i;
        }
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, w.win));
        long before = most();
        OK(MPI_Put(data, BLOCKS, MPI_INT, 1, 0, 1, steps, w.win));
        OK(MPI_Win_flush(1, w.win));
        long more = most() - before, kib = BLOCKS * sizeof *data / 1024;
        /* Where the target's memory is mapped it counts, too: twice the data. */
        if (more > 2 * kib + 2048) {
            fprintf(stderr, "a put of %ld KiB took %ld KiB of memory\n", kib, more);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        memset(data, 0, BLOCKS * sizeof *data);
        OK(MPI_Get(data, BLOCKS, MPI_INT, 1, 0, 1, steps, w.win));
        OK(MPI_Win_unlock(1, w.win));
        for (int i = 0; i < BLOCKS; i++) {
            CHECK_EQ(data[i], i);
        }
        free(data);
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 1) {
        const int *words = (int *)w.base;
        for (int i = 0; i < BLOCKS; i++) {
            CHECK_EQ(words[2 * i], i);
            CHECK_EQ(words[2 * i + 1], 0);
        }
    }
    OK(MPI_Type_free(&steps));
    window_free(&w);
}

/* Runs of several lengths at several distances, also on the origin's side, one of them long. */
static void uneven(int rank)
{
    enum { LONG = 300000 };
    MPI_Aint span = 12 * FEW + LONG;
    static int lens[FEW + 1], places[FEW + 1];
    int at = 0, all = 0;
    for (int i = 0; i < FEW; i++) {
        lens[i] = 1 + i % 3;
        places[i] = at;
        at += lens[i] + 1 + i * 7 % 5;
        all += lens[i];
    }
    lens[FEW] = LONG;
    places[FEW] = at;
    all += LONG;
    CHECK(at + LONG <= span);
    MPI_Datatype here, there;
    OK(MPI_Type_indexed(FEW + 1, lens, places, MPI_INT, &there));
    OK(MPI_Type_commit(&there));
    OK(MPI_Type_create_hvector(all, 1, 12, MPI_INT, &here));
    OK(MPI_Type_commit(&here));
    struct window w = window_make(ALLOCATED, span * 4, 4);
    int *data = calloc((size_t)all * 3, sizeof *data);
    for (int i = 0; i < all; i++) {
        data[3 * i] = i + 1;
    }
    OK(MPI_Win_fence(0, w.win));
    if (rank == 0) {
        OK(MPI_Put(data, 1, here, 1, 0, 1, there, w.win));
    }
    OK(MPI_Win_fence(0, w.win));
    if (rank == 0) {
        OK(MPI_Accumulate(data, 1, here, 1, 0, 1, there, MPI_SUM, w.win));
    }
    OK(MPI_Win_fence(0, w.win));
    if (rank == 0) {
        for (int i = 0; i < all; i++) {
            data[3 * i] = 0;
        }
        OK(MPI_Get(data, 1, here, 1, 0, 1, there, w.win));
    }
    OK(MPI_Win_fence(0, w.win));
    if (rank == 0) {
        for (int i = 0; i < all; i++) {
            CHECK_EQ(data[3 * i], 2 * (i + 1));
            CHECK_EQ(data[3 * i + 1], 0);
        }
    } else {
        const int *words = (int *)w.base;
        long sum = 0;
        for (int i = 0; i < span; i++) {
            sum += words[i];
        }
        CHECK_EQ(sum, (long)all * (all + 1));
    }
    /* What doesn't fit is refused as a whole. */
    OK(MPI_Win_set_errhandler(w.win, MPI_ERRORS_RETURN));
    FAILS(MPI_Put(data, 1, here, 1 - rank, span, 1, there, w.win), MPI_ERR_RMA_RANGE);
    FAILS(MPI_Put(data, 1, MPI_INT, 1 - rank, 0, 1, there, w.win), MPI_ERR_TRUNCATE);
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win));
    free(data);
    OK(MPI_Type_free(&here));
    OK(MPI_Type_free(&there));
    window_free(&w);
}

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    memory(world_rank());
    uneven(world_rank());
    OK(MPI_Finalize());
    return 0;
}
