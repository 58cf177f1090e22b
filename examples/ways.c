/*
 * Two ways of doing collectives, beside each other in one run.
 *
 *     mpicc -O2 -o ways ways.c
 *     WEFT_SHM=0 mpiexec -n 2 ./ways [CALLS [BATCHES [WAY WAY [COLLECTIVE]]]]
 *
 * A way is what the info hint weft_coll takes; by writes whatever the size, and rdma=off, if none is said. Batches of
 * calls take turns; the last figures are the median over pairs of batches of the ratio of the first way's time
 * to the second's, and the ratio of the least times. Roots of broadcasts and reductions take turns, so that each waits
 * for the one before. Of long data there are fewer calls.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BARRIER, BCAST, ALLREDUCE, REDUCE, ALLGATHER, ALLTOALL };

/* The most bytes of a vector, or of a block. */
enum { LONGEST = 1 << 20 };

static const struct {
    const char *name;
    int what, bytes;
} tests[] = {
    {"barrier", BARRIER, 0},
    {"bcast", BCAST, 4},
    {"bcast", BCAST, 4608},
    {"bcast", BCAST, 65536},
    {"bcast", BCAST, 1 << 20},
    {"allreduce", ALLREDUCE, 4},
    {"allreduce", ALLREDUCE, 1024},
    {"allreduce", ALLREDUCE, 4096},
    {"allreduce", ALLREDUCE, 65536},
    {"allreduce", ALLREDUCE, 1 << 20},
    {"reduce", REDUCE, 4},
    {"reduce", REDUCE, 1024},
    {"reduce", REDUCE, 8192},
    {"reduce", REDUCE, 65536},
    {"reduce", REDUCE, 1 << 20},
    {"allgather", ALLGATHER, 4},
    {"allgather", ALLGATHER, 1024},
    {"allgather", ALLGATHER, 8192},
    {"allgather", ALLGATHER, 65536},
    {"allgather", ALLGATHER, 1 << 19},
    {"alltoall", ALLTOALL, 4},
    {"alltoall", ALLTOALL, 1024},
    {"alltoall", ALLTOALL, 8192},
};

static char *in, *out;
static int rank, size;

static void call(MPI_Comm comm, int what, int bytes)
{
    if (what == BARRIER)
        MPI_Barrier(comm);
    else if (what == ALLREDUCE)
        MPI_Allreduce(in, out, bytes / 4, MPI_INT, MPI_SUM, comm);
    else if (what == ALLGATHER)
        MPI_Allgather(in, bytes, MPI_BYTE, out, bytes, MPI_BYTE, comm);
    else if (what == ALLTOALL)
        MPI_Alltoall(in, bytes, MPI_BYTE, out, bytes, MPI_BYTE, comm);
    else
        for (int root = 0; root < size; root++)
            if (what == BCAST)
                MPI_Bcast(in, bytes, MPI_BYTE, root, comm);
            else
                MPI_Reduce(in, out, bytes / 4, MPI_INT, MPI_SUM, root, comm);
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
    const char *writes = "barrier=rdma,bcast=rdma,reduce=rdma,allreduce=rdma,allgather=rdma,alltoall=rdma";
    const char *ways[] = {argc > 4 ? argv[3] : writes, argc > 4 ? argv[4] : "rdma=off"};
    const char *only = argc > 5 ? argv[5] : NULL;
    if (calls < 1 || batches < 1) {
        fprintf(stderr, "ways: CALLS and BATCHES are numbers above 0\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    in = calloc(1, LONGEST), out = calloc(1, (size_t)size * LONGEST);
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
        printf("first: %s\nsecond: %s\n%-10s %7s %12s %12s %8s %8s\n", ways[0], ways[1], "", "bytes", "first", "second",
               "ratio", "least");
    for (size_t test = 0; test < sizeof tests / sizeof *tests; test++) {
        int bytes = tests[test].bytes, roots = tests[test].what == BCAST || tests[test].what == REDUCE;
        if (only && strcmp(only, tests[test].name) != 0)
            continue;
        int times_in_batch = bytes > 16384 ? 1 + calls / 8 : calls;
        double *times[2] = {calloc(batches, sizeof(double)), calloc(batches, sizeof(double))};
        double *ratios = calloc(batches, sizeof(double));
        int per = times_in_batch * (roots ? size : 1);
        for (int batch = 0; batch < batches; batch++) {
            for (int turn = 0; turn < 2; turn++) {
                int way = (batch + turn) % 2;
                call(comm[way], tests[test].what, bytes);
                double start = MPI_Wtime();
                for (int i = 0; i < times_in_batch; i++)
                    call(comm[way], tests[test].what, bytes);
                times[way][batch] = (MPI_Wtime() - start) * 1e6 / per;
            }
            ratios[batch] = times[0][batch] / times[1][batch];
        }
        qsort(ratios, batches, sizeof(double), compare);
        for (int way = 0; way < 2; way++)
            qsort(times[way], batches, sizeof(double), compare);
        if (rank == 0)
            printf("%-10s %7d %9.2f us %9.2f us %8.3f %8.3f\n", tests[test].name, bytes,
                   times[0][batches / 2], times[1][batches / 2], ratios[batches / 2],
                   times[0][0] / times[1][0]);
        free(times[0]);
        free(times[1]);
        free(ratios);
    }
    for (int way = 0; way < 2; way++)
        MPI_Comm_free(&comm[way]);
    free(in), free(out);
    MPI_Finalize();
    return 0;
}
