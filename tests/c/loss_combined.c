/* A call of several operations returns an error if one fails by a loss, even if another waits for a live process that
 * communicates nothing (MPI-5.0 sections 3.7.5 and 3.10). The unfinished operations are cancelled or stay pending:
 * later messages match their own receives.
 * ranks: 3
 * variants: shm shm-2copy ofi tcp hosts
 * waits: yes
 * launcher: -disable-auto-cleanup
 * timeout: 30
 * exit: 137
 * stderr: was killed by signal 9, SIGKILL
 * stderr: the others go on
 * case: sendrecv
 * case: sendrecv-from
 * case: sendrecv-vector
 * case: replace
 * case: isendrecv
 * case: isendrecv-from
 * case: isendrecv-test
 * case: isendrecv-replace
 * case: waitall
 * case: waitall-later
 * case: testall
 * case: startall
 */
#include "check.h"
#include <signal.h>

/* More than goes eagerly or finds room in pipes. */
enum { COUNT = 1000000, LIVES = 1, LOST = 2, TAG = 5, OVER = 6 };
static int out[COUNT], in[COUNT];

static void must_be_lost(int code) {
    int class;
    OK(MPI_Error_class(code, &class));
    CHECK_EQ(class, MPIX_ERR_PROC_FAILED);
}

/* A list of which one has failed, and one waits on for a message that has yet to come. */
static void must_be_pending(int code, MPI_Request requests[2], MPI_Status statuses[2]) {
    int class;
    OK(MPI_Error_class(code, &class));
    CHECK_EQ(class, MPI_ERR_IN_STATUS);
    for (int i = 0; i < 2; i++) {
        OK(MPI_Error_class(statuses[i].MPI_ERROR, &class));
        CHECK(class == (i == 0 ? MPI_ERR_PENDING : MPIX_ERR_PROC_FAILED));
    }
    CHECK(requests[0] != MPI_REQUEST_NULL);
    OK(MPI_Cancel(&requests[0]));
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
}

static void calls(const char *what) {
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Request request, requests[2];
    MPI_Status status, statuses[2];
    MPI_Datatype vector;
    int flag = 0, code = MPI_SUCCESS;
    if (strcmp(what, "sendrecv") == 0) {
        must_be_lost(MPI_Sendrecv(out, COUNT, MPI_INT, LOST, TAG, in, COUNT, MPI_INT, LIVES, TAG,
                                  world, &status));
    } else if (strcmp(what, "sendrecv-from") == 0) {
        must_be_lost(MPI_Sendrecv(out, COUNT, MPI_INT, LIVES, TAG, in, COUNT, MPI_INT, LOST, TAG,
                                  world, &status));
    } else if (strcmp(what, "sendrecv-vector") == 0) {
        OK(MPI_Type_vector(COUNT / 2, 1, 2, MPI_INT, &vector));
        OK(MPI_Type_commit(&vector));
        must_be_lost(
            MPI_Sendrecv(out, 1, vector, LOST, TAG, in, 1, vector, LIVES, TAG, world, &status));
        OK(MPI_Type_free(&vector));
    } else if (strcmp(what, "replace") == 0) {
        must_be_lost(MPI_Sendrecv_replace(in, COUNT, MPI_INT, LOST, TAG, LIVES, TAG, world, &status));
    } else if (strcmp(what, "isendrecv") == 0) {
        OK(MPI_Isendrecv(out, COUNT, MPI_INT, LOST, TAG, in, COUNT, MPI_INT, LIVES, TAG, world,
                         &request));
        must_be_lost(MPI_Wait(&request, &status));
    } else if (strcmp(what, "isendrecv-from") == 0) {
        OK(MPI_Isendrecv(out, COUNT, MPI_INT, LIVES, TAG, in, COUNT, MPI_INT, LOST, TAG, world,
                         &request));
        must_be_lost(MPI_Wait(&request, &status));
    } else if (strcmp(what, "isendrecv-test") == 0) {
        OK(MPI_Isendrecv(out, COUNT, MPI_INT, LOST, TAG, in, COUNT, MPI_INT, LIVES, TAG, world,
                         &request));
        while (!flag && code == MPI_SUCCESS) {
            code = MPI_Test(&request, &flag, &status);
        }
        must_be_lost(code);
    } else if (strcmp(what, "isendrecv-replace") == 0) {
        OK(MPI_Isendrecv_replace(in, COUNT, MPI_INT, LIVES, TAG, LOST, TAG, world, &request));
        must_be_lost(MPI_Wait(&request, &status));
    } else if (strcmp(what, "startall") == 0) {
        OK(MPI_Recv_init(in, COUNT, MPI_INT, LIVES, TAG, world, &requests[0]));
        OK(MPI_Send_init(out, COUNT, MPI_INT, LOST, TAG, world, &requests[1]));
        OK(MPI_Startall(2, requests));
        must_be_pending(MPI_Waitall(2, requests, statuses), requests, statuses);
        OK(MPI_Request_free(&requests[0]));
        OK(MPI_Request_free(&requests[1]));
    } else {
        OK(MPI_Irecv(in, COUNT, MPI_INT, LIVES, TAG, world, &requests[0]));
        OK(MPI_Isend(out, COUNT, MPI_INT, LOST, TAG, world, &requests[1]));
        if (strcmp(what, "waitall-later") == 0) {
            /* The loss is known before the list is waited for. */
            must_be_lost(MPI_Recv(out, 1, MPI_INT, LOST, TAG, world, &status));
        }
        if (strcmp(what, "testall") == 0) {
            while (!flag && code == MPI_SUCCESS) {
                code = MPI_Testall(2, requests, &flag, statuses);
            }
        } else {
            code = MPI_Waitall(2, requests, statuses);
        }
        must_be_pending(code, requests, statuses);
        CHECK(requests[1] == MPI_REQUEST_NULL);
    }
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    CHECK_EQ(argc, 2);
    int rank = world_rank(), word = 0;
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    barrier_left_last_by(LOST, MPI_COMM_WORLD);
    if (rank == LOST) {
        nap(0.1); /* rank 0 waits, by then */
        raise(SIGKILL);
    }
    if (rank == 0) {
        double began = MPI_Wtime();
        calls(argv[1]);
        CHECK(MPI_Wtime() - began < 8);
        OK(MPI_Send(&word, 1, MPI_INT, LIVES, OVER, MPI_COMM_WORLD));
        word = 77;
        OK(MPI_Send(&word, 1, MPI_INT, LIVES, TAG, MPI_COMM_WORLD));
        OK(MPI_Recv(&word, 1, MPI_INT, LIVES, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_EQ(word, 78);
        for (int i = 0; i < COUNT; i++) {
            CHECK_EQ(in[i], 0);
        }
    } else {
        OK(MPI_Recv(&word, 1, MPI_INT, 0, OVER, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Recv(&word, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_EQ(word, 77);
        word = 78;
        OK(MPI_Send(&word, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD));
    }
    OK(MPI_Finalize());
    return 0;
}
