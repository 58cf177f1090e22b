/* A tool's thread reads performance variables while the program communicates. The tool requested threads before
 * MPI_Init, so the program need not.
 * ranks: 2
 * cflags: -pthread
 * variants: shm ofi
 */
#include "check.h"
#include <pthread.h>

enum { ROUNDS = 300, LARGE = 300000 /* never eager */ };
static int begun, done;

/* Counters never fall, and what was taken from them is gone. */
static void *watch(void *unused) {
    MPI_T_pvar_session session;
    MPI_T_pvar_handle bytes, locks, level;
    unsigned long before = 0, value, sum = 0, *result = unused;
    int index, count;
    OK(MPI_T_pvar_session_create(&session));
    OK(MPI_T_pvar_get_index("eager_bytes_received", MPI_T_PVAR_CLASS_AGGREGATE, &index));
    OK(MPI_T_pvar_handle_alloc(session, index, NULL, &bytes, &count));
    OK(MPI_T_pvar_get_index("locks_taken", MPI_T_PVAR_CLASS_COUNTER, &index));
    OK(MPI_T_pvar_handle_alloc(session, index, NULL, &locks, &count));
    OK(MPI_T_pvar_get_index("posted_receives", MPI_T_PVAR_CLASS_LEVEL, &index));
    OK(MPI_T_pvar_handle_alloc(session, index, NULL, &level, &count));
    OK(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES));
    __atomic_store_n(&begun, 1, __ATOMIC_SEQ_CST);
    int last = 0;
    while (!last) {
        last = __atomic_load_n(&done, __ATOMIC_SEQ_CST);
        OK(MPI_T_pvar_readreset(session, bytes, &value));
        sum += value;
        OK(MPI_T_pvar_read(session, locks, &value));
        CHECK(value >= before);
        before = value;
        OK(MPI_T_pvar_read(session, level, &value));
        CHECK(value <= 100);
        nap(0.0002);
    }
    CHECK(before > 0);
    OK(MPI_T_pvar_session_free(&session));
    *result = sum;
    return NULL;
}

int main(int argc, char **argv) {
    int provided, level;
    unsigned long seen = 0;
    pthread_t thread;
    OK(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided));
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Query_thread(&level));
    CHECK_EQ(level, MPI_THREAD_SINGLE);
    int rank = world_rank();
    CHECK(pthread_create(&thread, NULL, watch, &seen) == 0);
    char *data = allocate(LARGE), *back = allocate(LARGE);
    unsigned long sent = 0;
    while (!__atomic_load_n(&begun, __ATOMIC_SEQ_CST)) {
        nap(0.0001);
    }
    /* So has the other rank's thread. */
    OK(MPI_Sendrecv(data, 0, MPI_CHAR, 1 - rank, 1, back, 0, MPI_CHAR, 1 - rank, 1, MPI_COMM_WORLD,
                    MPI_STATUS_IGNORE));
    for (int round = 0; round < ROUNDS; round++) {
        int bytes = round % 10 ? round : LARGE;
        fill(data, (size_t)bytes, (uint64_t)(round + rank));
        OK(MPI_Sendrecv(data, bytes, MPI_CHAR, 1 - rank, 2, back, LARGE, MPI_CHAR, 1 - rank, 2,
                        MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK(is_filled(back, (size_t)bytes, (uint64_t)(round + 1 - rank)));
        sent += bytes == LARGE ? 0 : (unsigned long)bytes;
    }
    __atomic_store_n(&done, 1, __ATOMIC_SEQ_CST);
    pthread_join(thread, NULL);
    CHECK_EQ(seen, sent);
    OK(MPI_Finalize());
    OK(MPI_T_finalize());
    free(data);
    free(back);
    return 0;
}
