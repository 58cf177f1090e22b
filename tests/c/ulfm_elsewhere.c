/* After a loss operations without the lost process continue: generalized requests, MPI_Comm_disconnect and
 * MPI_Win_free on other groups, connections between jobs.
 * ranks: 3
 * variants: shm tcp tcp-hosts
 * cflags: -pthread
 * launcher: -disable-auto-cleanup
 * timeout: 60
 * exit: 137
 * stderr: was killed by signal 9, SIGKILL
 * stdout: goes on
 */
#include "fails.h"

#include <pthread.h>
#include <signal.h>

static int rank;

static int query(void *state, MPI_Status *status) {
    (void)state;
    MPI_Status_set_elements(status, MPI_BYTE, 0);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = MPI_UNDEFINED;
    status->MPI_TAG = MPI_UNDEFINED;
    return MPI_SUCCESS;
}

static int nothing(void *state) {
    (void)state;
    return MPI_SUCCESS;
}

static int no_cancel(void *state, int complete) {
    (void)state;
    (void)complete;
    return MPI_SUCCESS;
}

static void *complete_later(void *request) {
    nap(0.2);
    MPI_Grequest_complete(*(MPI_Request *)request);
    return NULL;
}

static void generalized(void) {
    MPI_Request request, same;
    pthread_t thread;
    for (int turn = 0; turn < 3; turn++) {
        OK(MPI_Grequest_start(query, nothing, no_cancel, NULL, &request));
        same = request;
        CHECK(pthread_create(&thread, NULL, complete_later, &same) == 0);
        switch (turn) {
        case 0:
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            break;
        case 1:
            OK(MPI_Waitall(1, &request, MPI_STATUSES_IGNORE));
            break;
        default: {
            int index;
            OK(MPI_Waitany(1, &request, &index, MPI_STATUS_IGNORE));
        }
        }
        pthread_join(thread, NULL);
    }
}

/* A message is still under way when the communicator is disconnected. */
static void disconnect(MPI_Comm pair) {
    static char data[1 << 20];
    MPI_Comm dup;
    MPI_Request request;
    OK(MPI_Comm_dup(pair, &dup));
    if (rank == 0) {
        OK(MPI_Isend(data, sizeof data, MPI_BYTE, 1, 3, dup, &request));
        OK(MPI_Request_free(&request));
    } else {
        nap(0.2);
        OK(MPI_Recv(data, sizeof data, MPI_BYTE, 0, 3, dup, MPI_STATUS_IGNORE));
    }
    OK(MPI_Comm_disconnect(&dup));
}

static void windows(MPI_Comm pair) {
    static int memory[1 << 16], data[1 << 16];
    for (int turn = 0; turn < 10; turn++) {
        MPI_Win window;
        OK(MPI_Win_create(memory, sizeof memory, 4, MPI_INFO_NULL, pair, &window));
        OK(MPI_Win_lock_all(0, window));
        OK(MPI_Accumulate(data, 1 << 16, MPI_INT, 1 - rank, 0, 1 << 16, MPI_INT, MPI_SUM, window));
        OK(MPI_Win_unlock_all(window));
        OK(MPI_Win_free(&window));
    }
}

/* A port: connect and accept of two processes of the same job. */
static void connect(MPI_Comm pair) {
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm other;
    if (rank == 0) {
        OK(MPI_Open_port(MPI_INFO_NULL, port));
    }
    OK(MPI_Bcast(port, sizeof port, MPI_CHAR, 0, pair));
    if (rank == 0) {
        OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other));
        OK(MPI_Close_port(port));
    } else {
        nap(0.2);
        OK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other));
    }
    OK(MPI_Comm_disconnect(&other));
}

int main(int argc, char **argv) {
    int provided;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    rank = world_rank();
    MPI_Comm pair;
    if (rank == 2) {
        OK(MPI_Barrier(MPI_COMM_WORLD));
        /* Both others have left the barrier, so nothing that they need of it is lost with this rank. */
        for (int other = 0; other < 2; other++) {
            OK(MPI_Recv(NULL, 0, MPI_INT, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        }
        raise(SIGKILL);
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Send(NULL, 0, MPI_INT, 2, 0, MPI_COMM_WORLD));
    CHECK(MPI_Barrier(MPI_COMM_WORLD) != MPI_SUCCESS);
    OK(MPIX_Comm_revoke(MPI_COMM_WORLD));
    OK(MPIX_Comm_shrink(MPI_COMM_WORLD, &pair));
    OK(MPI_Comm_set_errhandler(pair, MPI_ERRORS_RETURN));
    generalized();
    disconnect(pair);
    windows(pair);
    connect(pair);
    OK(MPI_Barrier(pair));
    if (rank == 0) {
        printf("goes on\n");
        fflush(stdout);
    }
    OK(MPI_Comm_free(&pair));
    OK(MPI_Finalize());
    return 0;
}
