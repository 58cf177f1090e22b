/* Hints about VCIs come to a communicator by MPI_Comm_set_info while another thread begins to use it, and after a
 * partitioned request was made on one side.
 * ranks: 2
 * variants: shm tcp
 * cflags: -pthread
 * timeout: 60
 * stdout: all received
 */
#include "vcis.h"
#include <pthread.h>

enum { ROUNDS = 300 };

static pthread_barrier_t start;

static void *send_(void *argument) {
    for (int i = 0; i < ROUNDS; i++) {
        pthread_barrier_wait(&start);
        double until = MPI_Wtime() + i % 60 * 5e-6;
        while (MPI_Wtime() < until) {
        }
        OK(MPI_Send(&i, 1, MPI_INT, 1, 0, *(MPI_Comm *)argument));
        pthread_barrier_wait(&start);
    }
    return NULL;
}

/* Rank 0 sends by another thread, which does not wait for anything; rank 1 receives afterwards. */
static void set_while_used(int rank, MPI_Info info) {
    MPI_Comm comm;
    pthread_t sender;
    CHECK_EQ(pthread_barrier_init(&start, NULL, 2), 0);
    if (rank == 0) {
        CHECK_EQ(pthread_create(&sender, NULL, send_, &comm), 0);
    }
    for (int i = 0; i < ROUNDS; i++) {
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        OK(MPI_Barrier(MPI_COMM_WORLD));
        if (rank == 0) {
            pthread_barrier_wait(&start);
        }
        OK(MPI_Comm_set_info(comm, info));
        if (rank == 0) {
            pthread_barrier_wait(&start);
        } else {
            int got = -1;
            OK(MPI_Recv(&got, 1, MPI_INT, 0, 0, comm, MPI_STATUS_IGNORE));
            CHECK_EQ(got, i);
        }
        OK(MPI_Comm_free(&comm));
    }
    if (rank == 0) {
        CHECK_EQ(pthread_join(sender, NULL), 0);
    }
}

/* One side makes its half before, the other after. */
static void set_between_halves(int rank, MPI_Info info, int sender) {
    MPI_Comm comm;
    MPI_Request request;
    int data = rank == sender ? 7 : -1;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    if (rank == 1) {
        OK(MPI_Comm_set_info(comm, info));
    }
    if (rank == sender) {
        OK(MPI_Psend_init(&data, 1, 1, MPI_INT, 1 - rank, 0, comm, MPI_INFO_NULL, &request));
    } else {
        OK(MPI_Precv_init(&data, 1, 1, MPI_INT, 1 - rank, 0, comm, MPI_INFO_NULL, &request));
    }
    if (rank == 0) {
        OK(MPI_Comm_set_info(comm, info));
    }
    OK(MPI_Start(&request));
    if (rank == sender) {
        OK(MPI_Pready(0, request));
    }
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_EQ(data, 7);
    OK(MPI_Request_free(&request));
    OK(MPI_Comm_free(&comm));
}

int main(int argc, char **argv) {
    int provided;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    int rank = world_rank();
    MPI_Info info = hints("weft_num_vcis=2");
    set_between_halves(rank, info, 0);
    set_between_halves(rank, info, 1);
    set_while_used(rank, info);
    OK(MPI_Info_free(&info));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0) {
        printf("all received\n");
    }
    OK(MPI_Finalize());
    return 0;
}
