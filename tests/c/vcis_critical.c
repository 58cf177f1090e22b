/* One lock for all VCIs, a lock for each, and none for those that one thread uses: threads with
 * communicators of their own talk, others make nonblocking collectives meanwhile.
 * ranks: 2
 * variants: shm ofi
 * env: WEFT_NUM_VCIS=8
 * cflags: -pthread
 * timeout: 60
 * case: per-vci
 * case: global
 * case: hint
 * case: lockless
 */
#include "vcis.h"
#include <pthread.h>

enum { THREADS = 3, ROUNDS = 60, MAX = 40000 };

static int rank, lockless;
static MPI_Comm comms[THREADS];

static void *work(void *argument) {
    int thread = *(int *)argument;
    char *out = allocate(MAX), *in = allocate(MAX);
    MPI_Comm comm = comms[thread];
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t state = (uint64_t)(thread * 1000 + round);
        int bytes = (int)random_below(&state, round % 5 ? 100 : MAX), sum = 0, flag = 0, count;
        uint64_t key = state * 4;
        MPI_Request request, reduction;
        MPI_Status status;
        fill(out, (size_t)bytes, key + (uint64_t)rank);
        OK(MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm, &reduction));
        OK(MPI_Isend(out, bytes, MPI_CHAR, 1 - rank, round, comm, &request));
        while (round % 3 == 0 && !flag) {
            OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, &status));
        }
        OK(MPI_Recv(in, MAX, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        OK(MPI_Get_count(&status, MPI_CHAR, &count));
        CHECK_EQ(count, bytes);
        CHECK_EQ(status.MPI_TAG, round);
        CHECK(is_filled(in, (size_t)bytes, key + (uint64_t)(1 - rank)));
        OK(MPI_Wait(&reduction, MPI_STATUS_IGNORE));
        CHECK_EQ(sum, 1);
        if (round % 4 == 0) {
            OK(MPI_Irecv(in, 1, MPI_CHAR, 1 - rank, 9999, comm, &request));
            OK(MPI_Cancel(&request));
            OK(MPI_Wait(&request, &status));
            OK(MPI_Barrier(comm));
            /* By the VCI of all. */
            OK(MPI_Sendrecv(&thread, 1, MPI_INT, 1 - rank, thread, &count, 1, MPI_INT, 1 - rank,
                            thread, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            CHECK_EQ(count, thread);
        }
    }
    free(out);
    free(in);
    return NULL;
}

static void run(void) {
    pthread_t threads[THREADS];
    int numbers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        CHECK_EQ(pthread_create(&threads[i], NULL, work, &numbers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
}

int main(int argc, char **argv) {
    int provided, by_hint;
    CHECK_EQ(argc, 2);
    by_hint = strcmp(argv[1], "hint") == 0;
    lockless = by_hint || strcmp(argv[1], "lockless") == 0;
    if (!by_hint) {
        setenv("WEFT_CRITICAL_SECTION", argv[1], 1);
    }
    const char *text = by_hint ? "weft_num_vcis=1 weft_lockless=true" : "weft_num_vcis=1";
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    rank = world_rank();
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < THREADS; i++) {
            comms[i] = dup_with(MPI_COMM_WORLD, text);
            CHECK(comm_has(comms[i], "weft_num_vcis", "1"));
            CHECK(comm_has(comms[i], "weft_lockless", lockless ? "true" : ""));
        }
        run();
        if (by_hint) {
            /* What has a thread of its own is not given to others, and the other way round; when
             * there is none left, the promise is of no use. */
            MPI_Comm shared = dup_with(MPI_COMM_WORLD, "vci=5"), other, last;
            CHECK(comm_has(shared, "vci", "5"));
            other = dup_with(MPI_COMM_WORLD, "vci=5 weft_lockless=true");
            CHECK(comm_has(other, "vci", "5") && comm_has(other, "weft_lockless", ""));
            OK(MPI_Comm_free(&other));
            other = dup_with(MPI_COMM_WORLD, "weft_num_vcis=4 mpi_assert_no_any_tag=true "
                                             "weft_lockless=true");
            CHECK(comm_has(other, "weft_num_vcis", "4"));
            CHECK(comm_has(other, "weft_lockless", ""));
            OK(MPI_Comm_free(&other));
            other = dup_with(MPI_COMM_WORLD, "weft_num_vcis=3 mpi_assert_no_any_tag=true "
                                             "weft_lockless=true");
            CHECK(comm_has(other, "weft_num_vcis", "3"));
            CHECK(comm_has(other, "weft_lockless", "true"));
            last = dup_with(MPI_COMM_WORLD, "weft_num_vcis=1");
            CHECK(comm_has(last, "weft_num_vcis", "1"));
            OK(MPI_Barrier(last));
            OK(MPI_Comm_free(&last));
            OK(MPI_Comm_free(&other));
            OK(MPI_Comm_free(&shared));
        }
        for (int i = 0; i < THREADS; i++) {
            OK(MPI_Comm_free(&comms[i]));
        }
    }
    /* Not freed, and used in MPI_Finalize by the only thread there is. */
    MPI_Comm kept = dup_with(MPI_COMM_WORLD, text);
    OK(MPI_Sendrecv(&rank, 1, MPI_INT, 1 - rank, 0, &provided, 1, MPI_INT, 1 - rank, 0, kept,
                    MPI_STATUS_IGNORE));
    CHECK_EQ(provided, 1 - rank);
    OK(MPI_Finalize());
    return 0;
}
