/* A halo exchange with computing between: heat in a plane of which each rank has ROWS rows of COLUMNS cells.
 *
 *     mpicc -O3 -o halo examples/halo.c
 *     mpiexec -n 2 ./halo 256 256 20000
 *     mpiexec -trace halo.json -n 2 ./halo 256 256 20000
 *
 * prints how long a step takes: the median of batches of ten steps. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 10 };

static int by_size(const void *one, const void *other) {
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int rows = argc > 1 ? atoi(argv[1]) : 256, columns = argc > 2 ? atoi(argv[2]) : 256;
    int batches = (argc > 3 ? atoi(argv[3]) : 20000) / BATCH;
    if (rows < 1 || columns < 1 || batches < 1) {
        fprintf(stderr, "usage: halo [ROWS [COLUMNS [STEPS]]], %d steps or more\n", BATCH);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    int above = (rank + size - 1) % size, below = (rank + 1) % size, width = columns + 2;
    double *old = calloc((size_t)(rows + 2) * width, sizeof *old);
    double *new = calloc((size_t)(rows + 2) * width, sizeof *new);
    double *times = calloc(batches, sizeof *times);
    if (!old || !new || !times)
        MPI_Abort(MPI_COMM_WORLD, 1);
    if (rank == 0)
        old[width + 1] = 1000;
    for (int batch = 0; batch < batches; batch++) {
        double began = MPI_Wtime();
        for (int step = 0; step < BATCH; step++) {
            MPI_Request requests[4];
            MPI_Irecv(old, width, MPI_DOUBLE, above, 0, MPI_COMM_WORLD, &requests[0]);
            MPI_Irecv(old + (rows + 1) * width, width, MPI_DOUBLE, below, 1, MPI_COMM_WORLD, &requests[1]);
            MPI_Isend(old + rows * width, width, MPI_DOUBLE, below, 0, MPI_COMM_WORLD, &requests[2]);
            MPI_Isend(old + width, width, MPI_DOUBLE, above, 1, MPI_COMM_WORLD, &requests[3]);
            MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
            for (int i = 1; i <= rows; i++)
                for (int j = 1; j <= columns; j++) {
                    double *here = old + i * width + j;
                    new[i * width + j] = 0.25 * (here[-width] + here[width] + here[-1] + here[1]);
                }
            double *swap = old;
            old = new;
            new = swap;
        }
        times[batch] = (MPI_Wtime() - began) / BATCH;
    }
    qsort(times, batches, sizeof *times, by_size);
    if (rank == 0)
        printf("%.3f us per step\n", times[batches / 2] * 1e6);
    free(old);
    free(new);
    free(times);
    return MPI_Finalize();
}
