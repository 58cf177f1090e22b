// Three ranks that stay: two wait in MPI, one computes; or one that crashes after a while.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int rank, data = 0;
    char text[1000] = {0};
    MPI_Comm halo;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &halo);
    MPI_Comm_set_name(halo, "halo");
    if (rank == 0)
        MPI_Send(text, 1000, MPI_BYTE, 1, 1, halo);
    if (rank == 1)
        MPI_Recv(text, 1000, MPI_BYTE, 0, 1, halo, MPI_STATUS_IGNORE);
    if (rank == 2)
        printf("printed by rank 2\n");
    fflush(stdout);
    if (rank == 0)
        MPI_Recv(&data, 1, MPI_INT, 2, 7, halo, MPI_STATUS_IGNORE);
    if (rank == 1)
        MPI_Barrier(MPI_COMM_WORLD);
    sleep(argc > 1 && strcmp(argv[1], "crash") == 0 ? 1 : 600);
    abort();
}
