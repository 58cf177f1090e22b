/* Endpoints: several ranks in a process, each used by a thread. Messages between all of them (also of
 * one process), wildcards, collectives in which all take part, duplicates, windows; with more
 * endpoints than VCIs, and with none in one process.
 * ranks: 1 2 3
 * variants: shm ofi
 * cflags: -pthread
 * timeout: 60
 * case: many
 * case: few
 */
#include "points.h"
#include "vcis.h"
#include <pthread.h>

enum { MOST = 4, ROUNDS = 25 };

static int world, processes, total, counts[8];
static MPI_Comm points[MOST];
static MPI_Win wins[MOST];
static long memory[MOST][16 + MOST * 8];

/* How many endpoints a process has. */
static int count_of(int process) { return process == 2 ? 0 : MOST - process; }

static void collect(MPI_Comm comm, int me) {
    for (int round = 0; round < 8; round++) {
        int root = round % total, number = me == root ? 77 + round : -1, sum = -1, all[8 * MOST];
        int own[8 * MOST], got[8 * MOST], before = -1;
        OK(MPI_Bcast(&number, 1, MPI_INT, root, comm));
        CHECK_EQ(number, 77 + round);
        OK(MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, comm));
        CHECK_EQ(sum, total * (total - 1) / 2);
        OK(MPI_Allgather(&me, 1, MPI_INT, all, 1, MPI_INT, comm));
        for (int i = 0; i < total; i++) {
            CHECK_EQ(all[i], i);
            own[i] = me * 100 + i;
        }
        MPI_Request request;
        OK(MPI_Ialltoall(own, 1, MPI_INT, got, 1, MPI_INT, comm, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        for (int i = 0; i < total; i++) {
            CHECK_EQ(got[i], i * 100 + me);
        }
        OK(MPI_Exscan(&me, &before, 1, MPI_INT, MPI_SUM, comm));
        CHECK_EQ(before, me == 0 ? -1 : me * (me - 1) / 2);
        OK(MPI_Barrier(comm));
    }
}

/* Each puts to, reads from and adds to the next one. */
static void access_(MPI_Win win, MPI_Comm comm, long *mine, int me) {
    int next = (me + 1) % total, before = (me + total - 1) % total;
    long value = 1000 + me, one = 1, got = -1, old = -1;
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(&value, 1, MPI_LONG, next, 0, 1, MPI_LONG, win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    CHECK_EQ(mine[0], 1000 + before);
    OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < ROUNDS; i++) {
        OK(MPI_Accumulate(&one, 1, MPI_LONG, 0, 1, 1, MPI_LONG, MPI_SUM, win));
        OK(MPI_Fetch_and_op(&one, &old, MPI_LONG, next, 2, MPI_SUM, win));
        OK(MPI_Win_flush_all(win));
        CHECK_EQ(old, i);
    }
    OK(MPI_Barrier(comm));
    OK(MPI_Get(&got, 1, MPI_LONG, 0, 1, 1, MPI_LONG, win));
    OK(MPI_Win_flush(0, win));
    CHECK_EQ(got, (long)total * ROUNDS);
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_free(&win));
}

static void refuse(MPI_Comm comm, int me) {
    MPI_Comm none;
    MPI_Group group;
    int dims[] = {1}, periods[] = {0};
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    FAILS(MPI_Comm_split(comm, 0, me, &none), MPI_ERR_COMM);
    FAILS(MPI_Comm_group(comm, &group), MPI_ERR_COMM);
    FAILS(MPI_Cart_create(comm, 1, dims, periods, 0, &none), MPI_ERR_COMM);
    FAILS(MPIX_Comm_create_endpoints(comm, 1, MPI_INFO_NULL, &none), MPI_ERR_COMM);
    FAILS(MPI_Send(NULL, 0, MPI_CHAR, total, 0, comm), MPI_ERR_RANK);
}

static void *work(void *argument) {
    int point = *(int *)argument, me, size, first = 0;
    MPI_Comm comm = points[point], copy;
    for (int i = 0; i < world; i++) {
        first += counts[i];
    }
    OK(MPI_Comm_rank(comm, &me));
    OK(MPI_Comm_size(comm, &size));
    CHECK_EQ(me, first + point);
    CHECK_EQ(size, total);
    talk(comm, me, total);
    collect(comm, me);
    OK(MPI_Comm_dup(comm, &copy));
    talk(copy, me, total);
    collect(copy, me);
    refuse(copy, me);
    MPI_Win win;
    long *mine;
    OK(MPI_Win_allocate(8 * sizeof(long), sizeof(long), MPI_INFO_NULL, copy, &mine, &win));
    memset(mine, 0, 8 * sizeof(long));
    OK(MPI_Barrier(copy));
    access_(win, copy, mine, me);
    OK(MPI_Comm_free(&copy));
    access_(wins[point], comm, memory[point], me);
    OK(MPI_Barrier(comm));
    OK(MPI_Comm_free(&points[point]));
    return NULL;
}

int main(int argc, char **argv) {
    int provided, numbers[MOST];
    pthread_t threads[MOST];
    CHECK_EQ(argc, 2);
    if (strcmp(argv[1], "few") == 0) {
        setenv("WEFT_NUM_VCIS", "2", 1);
    }
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    world = world_rank(), processes = world_size();
    for (int i = 0; i < processes; i++) {
        counts[i] = count_of(i);
        total += counts[i];
    }
    for (int again = 0; again < 2; again++) {
        int mine = counts[world];
        void *bases[MOST];
        MPI_Aint sizes[MOST];
        memset(memory, 0, sizeof memory);
        for (int i = 0; i < MOST; i++) {
            bases[i] = memory[i];
            sizes[i] = sizeof memory[i];
        }
        OK(MPIX_Comm_create_endpoints(MPI_COMM_WORLD, mine, MPI_INFO_NULL, points));
        OK(MPIX_Win_create_endpoints(bases, sizes, sizeof(long), mine, MPI_INFO_NULL,
                                     MPI_COMM_WORLD, wins));
        for (int i = 0; i < mine; i++) {
            numbers[i] = i;
            CHECK_EQ(pthread_create(&threads[i], NULL, work, &numbers[i]), 0);
        }
        for (int i = 0; i < mine; i++) {
            CHECK_EQ(pthread_join(threads[i], NULL), 0);
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    FAILS(MPIX_Comm_create_endpoints(MPI_COMM_WORLD, -1, MPI_INFO_NULL, points), MPI_ERR_ARG);
    FAILS(MPIX_Comm_create_endpoints(MPI_COMM_WORLD, 1, MPI_INFO_NULL, NULL), MPI_ERR_ARG);
    FAILS(MPIX_Comm_create_endpoints(MPI_COMM_WORLD, 0, MPI_INFO_NULL, points), MPI_ERR_ARG);
    OK(MPI_Finalize());
    return 0;
}
