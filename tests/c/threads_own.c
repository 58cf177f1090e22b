/* Threads that each have a tag and a communicator of their own talk at the same time.
 * ranks: 1 2 3
 * cflags: -pthread
 * timeout: 60
 */
#include "check.h"
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 250, MAX = 40000 };

static int rank, size;
static MPI_Comm comms[THREADS];

static int size_of(int thread, int round) {
    uint64_t state = (uint64_t)(thread * 1000 + round);
    return random_below(&state, 10) == 0 ? (int)random_below(&state, MAX)
                                         : (int)random_below(&state, 100);
}

static void *work(void *argument) {
    int thread = *(int *)argument;
    char *out = allocate(MAX), *in = allocate(MAX);
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    for (int round = 0; round < ROUNDS; round++) {
        /* By tag in the common communicator, then in the own one, where all threads use one tag. */
        for (int own = 0; own < 2; own++) {
            MPI_Comm comm = own ? comms[thread] : MPI_COMM_WORLD;
            int tag = own ? 77 : thread, bytes = size_of(thread, round), count = -1;
            uint64_t key = (uint64_t)(thread * 100000 + round * 2 + own) * 16;
            fill(out, (size_t)bytes, key + (uint64_t)rank);
            MPI_Request request, receive;
            MPI_Status status;
            switch (round % 3) {
            case 0:
                OK(MPI_Sendrecv(out, bytes, MPI_CHAR, right, tag, in, MAX, MPI_CHAR, left, tag, comm,
                                &status));
                break;
            case 1:
                OK(MPI_Isend(out, bytes, MPI_CHAR, right, tag, comm, &request));
                OK(MPI_Recv(in, MAX, MPI_CHAR, left, tag, comm, &status));
                OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
                break;
            default:
                OK(MPI_Irecv(in, MAX, MPI_CHAR, left, tag, comm, &receive));
                OK(MPI_Ssend(out, bytes, MPI_CHAR, right, tag, comm));
                OK(MPI_Wait(&receive, &status));
            }
            OK(MPI_Get_count(&status, MPI_CHAR, &count));
            CHECK_EQ(count, bytes);
            CHECK_EQ(status.MPI_SOURCE, left);
            CHECK(is_filled(in, (size_t)bytes, key + (uint64_t)left));
        }
    }
    free(out);
    free(in);
    return NULL;
}

int main(int argc, char **argv) {
    int provided, numbers[THREADS];
    pthread_t threads[THREADS];
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    rank = world_rank(), size = world_size();
    for (int i = 0; i < THREADS; i++) {
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
    }
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        CHECK_EQ(pthread_create(&threads[i], NULL, work, &numbers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
        OK(MPI_Comm_free(&comms[i]));
    }
    OK(MPI_Finalize());
    return 0;
}
