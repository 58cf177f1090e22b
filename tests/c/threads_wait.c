/* One thread waits for what another thread brings about: no thread's waiting keeps another from moving.
 * ranks: 1 2
 * cflags: -pthread
 * timeout: 40
 */
#include "check.h"
#include <pthread.h>

enum { ROUNDS = 200, LARGE = 300000 };
static int rank, size;
static MPI_Comm comms[2];

/* Waits for a message that comes only after the other thread has answered one. */
static void *patient(void *unused) {
    char *data = allocate(LARGE);
    for (int round = 0; round < ROUNDS; round++) {
        int bytes = round % 10 ? 8 : LARGE;
        OK(MPI_Recv(data, bytes, MPI_CHAR, MPI_ANY_SOURCE, round, comms[0], MPI_STATUS_IGNORE));
        CHECK(is_filled(data, (size_t)bytes, (uint64_t)round));
        OK(MPI_Send(NULL, 0, MPI_CHAR, rank, round, comms[1]));
    }
    free(data);
    return unused;
}

static void *busy(void *unused) {
    char *data = allocate(LARGE);
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    for (int round = 0; round < ROUNDS; round++) {
        int token = rank, got, bytes = round % 10 ? 8 : LARGE;
        OK(MPI_Sendrecv(&token, 1, MPI_INT, right, 9999, &got, 1, MPI_INT, left, 9999, comms[1],
                        MPI_STATUS_IGNORE));
        CHECK_EQ(got, left);
        fill(data, (size_t)bytes, (uint64_t)round);
        OK(MPI_Ssend(data, bytes, MPI_CHAR, right, round, comms[0]));
        OK(MPI_Recv(NULL, 0, MPI_CHAR, rank, round, comms[1], MPI_STATUS_IGNORE));
    }
    free(data);
    return unused;
}

int main(int argc, char **argv) {
    int provided;
    pthread_t one, two;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    rank = world_rank(), size = world_size();
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]));
    CHECK_EQ(pthread_create(&one, NULL, patient, NULL), 0);
    CHECK_EQ(pthread_create(&two, NULL, busy, NULL), 0);
    CHECK_EQ(pthread_join(one, NULL), 0);
    CHECK_EQ(pthread_join(two, NULL), 0);
    OK(MPI_Comm_free(&comms[0]));
    OK(MPI_Comm_free(&comms[1]));
    OK(MPI_Finalize());
    return 0;
}
