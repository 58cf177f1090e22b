/*
 * Two ways of doing collectives, beside each other in one run.
 *
 *     mpicc -O2 -o ways ways.c
 *     WEFT_SHM=0 mpiexec -n 2 ./ways [CALLS [BATCHES [WAY WAY]]]
 *
 * A way is what the info hint weft_coll takes; rdma=on and rdma=off if none is said. Batches of calls
 * take turns; the last figures are the median over pairs of batches of the ratio of the first way's time
 * to the second's, and the ratio of the least times. Roots of broadcasts take turns, so that each waits
 * for the one before.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { BARRIER, BCAST, ALLREDUCE };

static const struct {
    const char *name;
    int what, bytes;
} tests[] = {
    {"barrier", BARRIER, 0},
    {"bcast", BCAST, 4},
    {"bcast", BCAST, 4608},
    {"allreduce", ALLREDUCE, 4},
    {"allreduce", ALLREDUCE, 1024},
    {"allreduce", ALLREDUCE, 4096},
};

static char in[8192], out[8192];
static int rank, size;

static void call(MPI_Comm comm, int what, int bytes)
{
    if (what == BARRIER)
        MPI_Barrier(comm);
    else if (what == ALLREDUCE)
        MPI_Allreduce(in, out, bytes / 4, MPI_INT, MPI_SUM, comm);
    else
        for (int root = 0; root < size; root++)
            MPI_Bcast(in, bytes, MPI_BYTE, root, comm);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int calls = argc > 1 ? atoi(argv[1]) : 20, batches = argc > 2 ? atoi(argv[2]) : 60;
    const char *ways[] = {argc > 4 ? argv[3] : "rdma=on", argc > 4 ? argv[4] : "rdma=off"};
    if (calls < 1 || batches < 1) {
        fprintf(stderr, "ways: CALLS and BATCHES are numbers above 0\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Comm comm[2];
    for (int way = 0; way < 2; way++) {
        MPI_Info info;
        MPI_Info_create(&info);
        MPI_Info_set(info, "weft_coll", ways[way]);
        MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm[way]);
        MPI_Info_free(&info);
        for (int i = 0; i < 10; i++)
            MPI_Barrier(comm[way]);
    }
    if (rank == 0)
        printf("%-10s %6s %12s %12s %8s %8s\n", "", "bytes", ways[0], ways[1], "ratio", "least");
    for (size_t test = 0; test < sizeof tests / sizeof *tests; test++) {
        double *times[2] = {calloc(batches, sizeof(double)), calloc(batches, sizeof(double))};
        double *ratios = calloc(batches, sizeof(double));
        int per = calls * (tests[test].what == BCAST ? size : 1);
        for (int batch = 0; batch < batches; batch++) {
            for (int turn = 0; turn < 2; turn++) {
                int way = (batch + turn) % 2;
                call(comm[way], tests[test].what, tests[test].bytes);
                double start = MPI_Wtime();
                for (int i = 0; i < calls; i++)
                    call(comm[way], tests[test].what, tests[test].bytes);
                times[way][batch] = (MPI_Wtime() - start) * 1e6 / per;
            }
            ratios[batch] = times[0][batch] / times[1][batch];
        }
        qsort(ratios, batches, sizeof(double), compare);
        for (int way = 0; way < 2; way++)
            qsort(times[way], batches, sizeof(double), compare);
        if (rank == 0)
            printf("%-10s %6d %9.2f us %9.2f us %8.3f %8.3f\n", tests[test].name, tests[test].bytes,
                   times[0][batches / 2], times[1][batches / 2], ratios[batches / 2],
                   times[0][0] / times[1][0]);
        free(times[0]);
        free(times[1]);
        free(ratios);
    }
    for (int way = 0; way < 2; way++)
        MPI_Comm_free(&comm[way]);
    MPI_Finalize();
    return 0;
}
