/* A process is lost in a program that handles error codes: operations with the lost process fail in bounded time, and
 * the others continue together.
 * ranks: 4
 * variants: shm ofi ucx hosts ucx-hosts
 * waits: yes
 * launcher: -disable-auto-cleanup
 * timeout: 20
 * exit: 137
 * stderr: was killed by signal 9, SIGKILL
 * stderr: the others go on
 */
#include "check.h"
#include <signal.h>

static void must_fail(int code, const char *what) {
    char text[MPI_MAX_ERROR_STRING];
    int length, class;
    if (code == MPI_SUCCESS) {
        fprintf(stderr, "%s succeeded with a process that is lost\n", what);
        exit(99);
    }
    OK(MPI_Error_string(code, text, &length));
    OK(MPI_Error_class(code, &class));
    if (class != MPIX_ERR_PROC_FAILED) {
        fprintf(stderr, "%s: class %d: %s\n", what, class, text);
        exit(98);
    }
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), data = rank, room[4] = {0};
    MPI_Comm others;
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_split(MPI_COMM_WORLD, rank == 2, rank, &others));
    OK(MPI_Comm_set_errhandler(others, MPI_ERRORS_RETURN));
    barrier_left_last_by(2, MPI_COMM_WORLD);
    if (rank == 2) {
        nap(0.05); /* the others wait, by then */
        raise(SIGKILL);
    }
    double began = MPI_Wtime();
    MPI_Request requests[2];
    OK(MPI_Irecv(&room[0], 1, MPI_INT, 2, 1, MPI_COMM_WORLD, &requests[0]));
    int left = (rank + 3) % 4 == 2 ? 1 : (rank + 3) % 4, right = (rank + 1) % 4;
    right = right == 2 ? 3 : right;
    OK(MPI_Irecv(&room[1], 1, MPI_INT, left, 2, MPI_COMM_WORLD, &requests[1]));
    must_fail(MPI_Wait(&requests[0], MPI_STATUS_IGNORE), "a receive");
    must_fail(MPI_Recv(&room[2], 1, MPI_INT, 2, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
              "a later receive");
    must_fail(MPI_Barrier(MPI_COMM_WORLD), "a barrier");
    CHECK(MPI_Wtime() - began < 5);
    /* Between others nothing has changed. */
    OK(MPI_Send(&data, 1, MPI_INT, right, 2, MPI_COMM_WORLD));
    OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
    CHECK_EQ(room[1], left);
    int sum = 0;
    OK(MPI_Allreduce(&data, &sum, 1, MPI_INT, MPI_SUM, others));
    CHECK_EQ(sum, 0 + 1 + 3);
    OK(MPI_Finalize());
    return 0;
}
