/* MPI_Abort on a communicator of some ranks (MPI-5.0 section 11.4.2): with -disable-auto-cleanup these ranks end; the others
 * get MPI_ERR_PROC_ABORTED and continue. A rank that dies otherwise is distinguished from them.
 * ranks: 5
 * variants: shm ofi tcp hosts
 * waits: yes
 * launcher: -disable-auto-cleanup
 * timeout: 30
 * exit: 7
 * stderr: with error code 7
 * stderr: aborted with code 7, and with it the other rank of its communicator
 * stderr: the others go on
 * stdout: 2 has gone on
 * stdout: 3 has gone on
 * case: abort
 * case: handler
 */
#include "fails.h"
#include <signal.h>

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    CHECK_EQ(argc, 2);
    int rank = world_rank(), sum = 0, half = rank == 4 ? 2 : rank / 2;
    MPI_Comm part, world = MPI_COMM_WORLD;
    OK(MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN));
    OK(MPI_Comm_split(world, half, 0, &part));
    OK(MPI_Barrier(world));
    if (half == 0) {
        if (rank == 1) {
            nap(0.1); /* rank 0 waits, by then, for what never comes, as do the others */
            if (strcmp(argv[1], "abort") == 0) {
                MPI_Abort(part, 7);
            }
            OK(MPI_Comm_set_errhandler(part, MPI_ERRORS_ABORT));
            fprintf(stderr, "with error code 7\n");
            MPI_Comm_call_errhandler(part, 7);
            return 1;
        }
        OK(MPI_Recv(&sum, 1, MPI_INT, 3, 1, world, MPI_STATUS_IGNORE));
        return 1;
    }
    if (rank == 4) {
        nap(0.3);
        raise(SIGKILL);
    }
    for (int lost = 0; lost < 2; lost++) {
        FAILS(MPI_Recv(&sum, 1, MPI_INT, lost, 1, world, MPI_STATUS_IGNORE), MPI_ERR_PROC_ABORTED);
        FAILS(MPI_Ssend(&sum, 1, MPI_INT, lost, 1, world), MPI_ERR_PROC_ABORTED);
        MPI_Request request;
        MPI_Status status;
        OK(MPI_Irecv(&sum, 1, MPI_INT, lost, 1, world, &request));
        FAILS(MPI_Waitall(1, &request, &status), MPI_ERR_IN_STATUS);
        CHECK_EQ(class_of(status.MPI_ERROR), MPI_ERR_PROC_ABORTED);
    }
    FAILS(MPI_Recv(&sum, 1, MPI_INT, 4, 1, world, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, part));
    CHECK_EQ(sum, 2 + 3);
    printf("%d has gone on\n", rank);
    OK(MPI_Finalize());
    return 0;
}
