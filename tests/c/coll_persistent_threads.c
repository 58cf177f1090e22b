/* Persistent collectives of several threads with a request each, all on one communicator.
 * ranks: 2 3
 * cflags: -pthread
 * timeout: 60
 */
#include "check.h"
#include <pthread.h>

enum { THREADS = 3, ROUNDS = 200 };
static int size, rank;
static MPI_Request requests[THREADS][2];
static int in[THREADS], out[THREADS];

static void *work(void *argument) {
    int me = (int)(intptr_t)argument;
    for (int round = 0; round < ROUNDS; round++) {
        in[me] = round * 10 + me + rank;
        if (round % 2) {
            OK(MPI_Startall(2, requests[me]));
            OK(MPI_Waitall(2, requests[me], MPI_STATUSES_IGNORE));
        } else {
            int index;
            OK(MPI_Start(&requests[me][0]));
            OK(MPI_Start(&requests[me][1]));
            OK(MPI_Waitany(2, requests[me], &index, MPI_STATUS_IGNORE));
            OK(MPI_Wait(&requests[me][1 - index], MPI_STATUS_IGNORE));
        }
        CHECK_EQ(out[me], size * (round * 10 + me) + size * (size - 1) / 2);
    }
    return NULL;
}

int main(int argc, char **argv) {
    int provided;
    pthread_t threads[THREADS];
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    rank = world_rank();
    size = world_size();
    for (int i = 0; i < THREADS; i++) {
        OK(MPI_Allreduce_init(&in[i], &out[i], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                              &requests[i][0]));
        OK(MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &requests[i][1]));
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
        OK(MPI_Request_free(&requests[i][0]));
        OK(MPI_Request_free(&requests[i][1]));
    }
    OK(MPI_Finalize());
    return 0;
}
