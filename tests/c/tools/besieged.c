/* Ranks that meet one another late, compute in between and open files: besieged SECONDS [port]. Ends rightly while
   strangers connect to whatever they find (see flood.c). Rank 0 opens a port if that is asked for. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, size, sum = 0;
    double seconds = argc > 1 ? atof(argv[1]) : 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    char port[MPI_MAX_PORT_NAME];
    if (argc > 2 && rank == 0)
        MPI_Open_port(MPI_INFO_NULL, port);
    double begin = MPI_Wtime();
    for (int step = 1; step < size; step++) {
        /* First contact with a rank, while some compute. */
        usleep(1e6 * seconds / size * (1 + rank % 2) / 2);
        int to = (rank + step) % size, from = (rank + size - step) % size, got = -1;
        MPI_Sendrecv(&rank, 1, MPI_INT, to, step, &got, 1, MPI_INT, from, step, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        if (got != from) {
            printf("rank %d got %d from %d\n", rank, got, from);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        FILE *file = fopen("/proc/self/status", "r");
        if (!file) {
            printf("rank %d can't open a file\n", rank);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        fclose(file);
    }
    int goes_on, any;
    do {
        goes_on = MPI_Wtime() - begin < seconds;
        MPI_Allreduce(&goes_on, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    } while (any);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (argc > 2 && rank == 0)
        MPI_Close_port(port);
    if (rank == 0)
        printf("%d ranks: %d\n", size, sum);
    MPI_Finalize();
    return 0;
}
