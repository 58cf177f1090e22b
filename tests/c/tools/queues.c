// Two ranks with sends, receives and messages that a debugger is to find. They tell where their buffers are and stay.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LONG = 4 << 20 };

static void seen(int source, int tag, MPI_Comm comm) {
    int flag = 0;
    while (!flag)
        MPI_Iprobe(source, tag, comm, &flag, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
    static char exact[160], any[8], sync[12], eager[100], rows[64];
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int other = 1 - rank;
    MPI_Comm solver, reversed, bridge;
    MPI_Comm_dup(MPI_COMM_WORLD, &solver);
    MPI_Comm_set_name(solver, "solver");
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
    MPI_Comm_set_name(reversed, "reversed");
    MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, other, 3, &bridge);
    char *whole = malloc(LONG);
    MPI_Request requests[4];
    MPI_Datatype gaps;
    MPI_Type_vector(4, 2, 4, MPI_INT, &gaps);
    MPI_Type_commit(&gaps);
    if (rank == 0) {
        MPI_Irecv(exact, 40, MPI_INT, 1, 77, solver, &requests[0]);
        MPI_Irecv(any, 8, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, bridge, &requests[1]);
        // The other one is rank 0 there.
        MPI_Issend(sync, 12, MPI_BYTE, 0, 5, reversed, &requests[2]);
        MPI_Isend(whole, LONG, MPI_BYTE, 1, 9, solver, &requests[3]);
        seen(1, 31, solver);
    } else {
        MPI_Send(eager, 100, MPI_BYTE, 0, 31, solver);
        MPI_Irecv(rows, 1, gaps, 0, 12, MPI_COMM_WORLD, &requests[0]);
        seen(1, 5, reversed);
        seen(0, 9, solver);
    }
    printf("%d %d %p %p %p %p %p\n", rank, getpid(), (void *)exact, (void *)any, (void *)sync, (void *)whole,
           (void *)rows);
    fflush(stdout);
    for (;;)
        pause();
}
