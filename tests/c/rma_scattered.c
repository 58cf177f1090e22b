/* Accumulates of many scattered elements by all ranks, concurrent with changes of single elements and of whole ranges:
 * sums are exact, gaps stay unchanged, and results are the earlier values.
 * ranks: 1 2 4
 * timeout: 60
 */
#include "check.h"

enum { MANY = 3000, ROUNDS = 40 };

static int rank, ranks;

/* All ranks add to every other element, by scattered data on both sides or on one, and to single ones. */
static void sums(MPI_Win win, double *memory, MPI_Datatype apart) {
    double *ones = allocate(2 * MANY * sizeof(double)), *before = allocate(2 * MANY * sizeof(double)), was[30];
    for (int i = 0; i < 2 * MANY; i++) {
        ones[i] = 1;
        before[i] = -1;
    }
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win));
    for (int i = 0; i < 2 * MANY; i++)
        memory[i] = i % 2 ? 0.5 : 0;
    OK(MPI_Win_unlock(rank, win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock_all(0, win));
    for (int round = 0; round < ROUNDS; round++) {
        int target = (rank + round) % ranks;
        double one = 1;
        OK(MPI_Accumulate(ones, 1, apart, target, 0, 1, apart, MPI_SUM, win));
        OK(MPI_Accumulate(ones, MANY, MPI_DOUBLE, target, 0, 1, apart, MPI_SUM, win));
        OK(MPI_Get_accumulate(ones, MANY, MPI_DOUBLE, before, MANY, MPI_DOUBLE, target, 0, 1, apart, MPI_SUM,
                              win));
        for (int i = 0; i < 30; i++)
            OK(MPI_Fetch_and_op(&one, was + i, MPI_DOUBLE, target, 2 * i, MPI_SUM, win));
        OK(MPI_Win_flush(target, win));
        for (int i = 0; i < 30; i++)
            CHECK(was[i] >= 3 && was[i] == (double)(long)was[i]);
        for (int i = 0; i < MANY; i++) {
            /* Whole numbers, of which two are this call's own. */
            CHECK(before[i] >= 2 && before[i] == (double)(long)before[i]);
        }
        memset(before, 0, 2 * MANY * sizeof(double));
        for (int i = 1; i < 2 * MANY; i += 2)
            before[i] = -1;
        OK(MPI_Get_accumulate(NULL, 0, MPI_DOUBLE, before, 1, apart, target, 0, 1, apart, MPI_NO_OP, win));
        OK(MPI_Win_flush(target, win));
        for (int i = 0; i < 2 * MANY; i++)
            CHECK(i % 2 ? before[i] == -1 : before[i] >= 3);
    }
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win));
    /* Each rank was each one's target equally often, or one time more. */
    long times = 0;
    for (int from = 0; from < ranks; from++)
        for (int round = 0; round < ROUNDS; round++)
            times += (from + round) % ranks == rank;
    for (int i = 0; i < MANY; i++) {
        CHECK(memory[2 * i] == (double)(times * (i < 30 ? 4 : 3)));
        CHECK(memory[2 * i + 1] == 0.5);
    }
    OK(MPI_Win_unlock(rank, win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    free(ones);
    free(before);
}

/* Other operations and elements, on one's own part alone. */
static void others(MPI_Win win, void *memory) {
    MPI_Datatype apart;
    short *data = allocate(MANY * sizeof(short)), *target = memory;
    OK(MPI_Type_vector(MANY / 2, 1, 3, MPI_SHORT, &apart));
    OK(MPI_Type_commit(&apart));
    for (int i = 0; i < MANY / 2; i++)
        data[i] = (short)(i % 100 - 50);
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win));
    for (int i = 0; i < 3 * MANY / 2; i++)
        target[i] = (short)(i % 7);
    OK(MPI_Accumulate(data, MANY / 2, MPI_SHORT, rank, 0, 1, apart, MPI_MAX, win));
    OK(MPI_Win_flush(rank, win));
    for (int i = 0; i < 3 * MANY / 2; i++) {
        short old = (short)(i % 7), new = i % 3 ? old : data[i / 3];
        CHECK_EQ(target[i], new > old ? new : old);
    }
    OK(MPI_Accumulate(data, MANY / 2, MPI_SHORT, rank, 0, 1, apart, MPI_REPLACE, win));
    OK(MPI_Win_flush(rank, win));
    for (int i = 0; i < 3 * MANY / 2; i++)
        CHECK_EQ(target[i], i % 3 ? i % 7 : data[i / 3]);
    OK(MPI_Win_unlock(rank, win));
    OK(MPI_Type_free(&apart));
    free(data);
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* A loop of MPI_Win_sync sees what another rank stores, and lets messages through. */
static void syncs(void) {
    MPI_Win win;
    MPI_Comm node; /* of those who can share memory */
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
    int me, members;
    OK(MPI_Comm_rank(node, &me));
    OK(MPI_Comm_size(node, &members));
    int *own, *first, unit, got = 0, token = 7;
    MPI_Aint size;
    OK(MPI_Win_allocate_shared(sizeof(int), sizeof(int), MPI_INFO_NULL, node, &own, &win));
    OK(MPI_Win_shared_query(win, 0, &size, &unit, &first));
    OK(MPI_Win_lock_all(0, win));
    *own = 0;
    OK(MPI_Barrier(node));
    MPI_Request request;
    OK(MPI_Irecv(&got, 1, MPI_INT, (me + members - 1) % members, 3, node, &request));
    OK(MPI_Ssend(&token, me % 2 == 0, MPI_INT, (me + 1) % members, 3, node));
    if (me == 0) {
        *(volatile int *)first = 1;
        OK(MPI_Win_sync(win));
    } else {
        while (*(volatile int *)first == 0)
            OK(MPI_Win_sync(win));
    }
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_free(&win));
    OK(MPI_Comm_free(&node));
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    check_rank = rank = world_rank();
    ranks = world_size();
    MPI_Datatype apart;
    OK(MPI_Type_vector(MANY, 1, 2, MPI_DOUBLE, &apart));
    OK(MPI_Type_commit(&apart));
    MPI_Win win;
    double *memory;
    OK(MPI_Win_allocate(2 * MANY * sizeof(double), sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
    sums(win, memory, apart);
    others(win, memory);
    OK(MPI_Win_free(&win));
    memory = allocate(2 * MANY * sizeof(double));
    OK(MPI_Win_create(memory, 2 * MANY * sizeof(double), sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    sums(win, memory, apart);
    others(win, memory);
    OK(MPI_Win_free(&win));
    free(memory);
    syncs();
    OK(MPI_Type_free(&apart));
    OK(MPI_Finalize());
    return 0;
}
