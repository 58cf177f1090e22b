/* Two threads that send to different processes on communicators with different VCIs hardly ever wait for a lock: only
 * during the other thread's poll of all VCIs.
 * ranks: 3
 * variants: shm ofi
 * cflags: -pthread
 * timeout: 60
 */
#include "vcis.h"
#include <pthread.h>

enum { MESSAGES = 6000, WINDOW = 50 };

static MPI_Comm comms[2];

static void *send_(void *argument) {
    int thread = *(int *)argument;
    long words[WINDOW];
    MPI_Request requests[WINDOW];
    for (int i = 0; i < MESSAGES; i += WINDOW) {
        for (int k = 0; k < WINDOW; k++) {
            words[k] = i + k;
            OK(MPI_Isend(&words[k], 1, MPI_LONG, 1 + thread, 0, comms[thread], &requests[k]));
        }
        OK(MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE));
        OK(MPI_Recv(NULL, 0, MPI_CHAR, 1 + thread, 1, comms[thread], MPI_STATUS_IGNORE));
    }
    return NULL;
}

static void receive(MPI_Comm comm) {
    for (int i = 0; i < MESSAGES; i++) {
        long word = -1;
        OK(MPI_Recv(&word, 1, MPI_LONG, 0, 0, comm, MPI_STATUS_IGNORE));
        CHECK_EQ(word, i);
        if (i % WINDOW == WINDOW - 1) {
            OK(MPI_Send(NULL, 0, MPI_CHAR, 0, 1, comm));
        }
    }
}

int main(int argc, char **argv) {
    int provided, numbers[] = {0, 1};
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    for (int i = 0; i < 2; i++) {
        comms[i] = dup_with(MPI_COMM_WORLD, "weft_num_vcis=1");
        CHECK(comm_has(comms[i], "weft_num_vcis", "1"));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    int rank = world_rank();
    if (rank == 0) {
        pthread_t threads[2];
        unsigned long before = counted("locks_contended");
        for (int i = 0; i < 2; i++) {
            CHECK_EQ(pthread_create(&threads[i], NULL, send_, &numbers[i]), 0);
        }
        for (int i = 0; i < 2; i++) {
            CHECK_EQ(pthread_join(threads[i], NULL), 0);
        }
        unsigned long waited = counted("locks_contended") - before;
        if (getenv("WEFT_TEST_FIGURES")) {
            fprintf(stderr, "%lu of %d operations waited for a lock\n", waited, 2 * MESSAGES);
        }
        CHECK(waited <= 2 * MESSAGES / 100);
    } else {
        receive(comms[rank - 1]);
    }
    for (int i = 0; i < 2; i++) {
        OK(MPI_Comm_free(&comms[i]));
    }
    OK(MPI_Finalize());
    return 0;
}
