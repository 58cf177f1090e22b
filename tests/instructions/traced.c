/* Calls of rank 0 of two, in a function by whose name they are counted: `traced KIND ROUNDS`. What is received is there. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

/* The ranks wait for each other after so many messages, so that there is always room. */
enum { BATCH = 16 };

/* One round of a kind. */
__attribute__((noinline)) void counted(char kind, long *data, MPI_Request *request) {
    switch (kind) {
    case 's':
        MPI_Send(data, 1, MPI_LONG, 1, 1, MPI_COMM_WORLD);
        break;
    case 'r':
        MPI_Recv(data, 1, MPI_LONG, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        break;
    case 'i':
        MPI_Isend(data, 1, MPI_LONG, 1, 1, MPI_COMM_WORLD, request);
        MPI_Wait(request, MPI_STATUS_IGNORE);
        break;
    default:
        break;
    }
    __asm__ volatile("" ::: "memory");
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    char kind = argc > 2 ? argv[1][0] : 'n';
    int rounds = argc > 2 ? atoi(argv[2]) : 0, rank;
    long data = 1;
    MPI_Request request;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int done = 0; done < rounds; done += BATCH) {
        /* What came before tag 2 is there when that is received. */
        if (rank == 1 && kind == 'r')
            for (int i = 0; i < BATCH; i++)
                MPI_Send(&data, 1, MPI_LONG, 0, 1, MPI_COMM_WORLD);
        if (rank == 1)
            MPI_Send(&data, 1, MPI_LONG, 0, 2, MPI_COMM_WORLD);
        else
            MPI_Recv(&data, 1, MPI_LONG, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < BATCH; i++) {
            if (rank == 0)
                counted(kind, &data, &request);
            else if (kind == 's' || kind == 'i')
                MPI_Recv(&data, 1, MPI_LONG, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        /* Nothing more comes while the calls are counted, however the two ranks are scheduled. */
        if (kind == 'r' && rank == 0)
            MPI_Send(&data, 1, MPI_LONG, 1, 3, MPI_COMM_WORLD);
        else if (kind == 'r')
            MPI_Recv(&data, 1, MPI_LONG, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
    return 0;
}
