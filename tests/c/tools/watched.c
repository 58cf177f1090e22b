/* What mpiexec -top is to show: rank 0 and rank 1 wait for each other, rank 2 in a reduction of a communicator with
 * a name (hang); or some seconds of work, then exit code 5 (ends); or the same until rank 0 finds a file (file). */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int rank, data = 1, sum;
    MPI_Comm solver;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    printf("rank %d is here\n", rank);
    fflush(stdout);
    MPI_Comm_dup(MPI_COMM_WORLD, &solver);
    MPI_Comm_set_name(solver, "solver");
    if (strcmp(argv[1], "hang") == 0) {
        MPI_Request request;
        if (rank == 0)
            MPI_Recv(&data, 1, MPI_INT, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1) {
            MPI_Irecv(&data, 1, MPI_INT, 0, 8, MPI_COMM_WORLD, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        MPI_Allreduce(&data, &sum, 1, MPI_INT, MPI_SUM, solver);
    }
    int go_on = 1;
    for (int round = 0; go_on; round++) {
        if (rank == 0) {
            usleep(300000);
            go_on = strcmp(argv[1], "ends") == 0 ? round < 8 : access(argv[2], F_OK) != 0;
        }
        MPI_Bcast(&go_on, 1, MPI_INT, 0, solver);
    }
    MPI_Comm_free(&solver);
    printf("rank %d has done its work\n", rank);
    MPI_Finalize();
    return 5;
}
