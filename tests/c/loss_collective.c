/* A process is lost while others are in a collective that needs it: all of them get an error, in
 * bounded time, also those that wait for one that has given up because of the loss.
 * ranks: 4
 * variants: shm ofi ucx hosts ucx-hosts
 * waits: yes
 * launcher: -disable-auto-cleanup
 * timeout: 20
 * exit: 137
 * stderr: was killed by signal 9, SIGKILL
 * stderr: the others go on
 * case: barrier
 * case: allreduce
 * case: alltoall
 * case: barrier-often
 * case: allreduce-often
 * case: iallreduce
 * case: iallreduce-often
 * case: ibarrier-often
 */
#include "check.h"
#include <signal.h>

enum { COUNT = 5000 };

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    CHECK_EQ(argc, 2);
    static int mine[4 * COUNT], all[4 * COUNT];
    int rank = world_rank(), code = MPI_SUCCESS, class;
    MPI_Comm others;
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_split(MPI_COMM_WORLD, rank == 2, rank, &others));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    /* After some calls they go by flags in memory, where there is any that serves. */
    char *often = strstr(argv[1], "-often");
    for (int i = 0; often && i < 20; i++)
        OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_Request request;
    for (int i = 0; often && i < 20; i++) {
        OK(MPI_Iallreduce(mine, all, 10, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    if (often) {
        *often = '\0';
        barrier_left_last_by(2, MPI_COMM_WORLD);
    }
    if (rank == 2) {
        nap(0.05); /* the others wait, by then */
        raise(SIGKILL);
    }
    double began = MPI_Wtime();
    if (strcmp(argv[1], "barrier") == 0)
        code = MPI_Barrier(MPI_COMM_WORLD);
    else if (strcmp(argv[1], "allreduce") == 0)
        code = MPI_Allreduce(mine, all, often ? 10 : COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    else if (strcmp(argv[1], "alltoall") == 0)
        code = MPI_Alltoall(mine, COUNT, MPI_INT, all, COUNT, MPI_INT, MPI_COMM_WORLD);
    else if (strcmp(argv[1], "ibarrier") == 0) {
        OK(MPI_Ibarrier(MPI_COMM_WORLD, &request));
        code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (strcmp(argv[1], "iallreduce") == 0) {
        /* Both end, the one that has no slot yet as well. */
        MPI_Request several[20];
        for (int i = 0; i < 20; i++)
            OK(MPI_Iallreduce(mine, all + 10 * i, 10, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &several[i]));
        for (int i = 20; i-- > 0;)
            code = MPI_Wait(&several[i], MPI_STATUS_IGNORE);
    }
    OK(MPI_Error_class(code, &class));
    CHECK_EQ(class, MPIX_ERR_PROC_FAILED);
    CHECK(MPI_Wtime() - began < 8);
    /* The others go on together. */
    int sum = 0;
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, others));
    CHECK_EQ(sum, 0 + 1 + 3);
    OK(MPI_Comm_free(&others));
    OK(MPI_Finalize());
    return 0;
}
