/* The loops of some benchmarks for libraries of another ABI, compiled by their own mpicc at run time:
 *     loops NAME --budget MILLISECONDS [--sizes BYTES,...] [other options with a value]
 * They are timed and print as osu-bench's own do. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 64, DATA = 100, ACK = 101 };

static int rank, ranks;
static char *out, *in;
static MPI_Request requests[WINDOW];

static void latency(int size) {
    if (rank == 0) {
        MPI_Send(out, size, MPI_BYTE, 1, DATA, MPI_COMM_WORLD);
        MPI_Recv(in, size, MPI_BYTE, 1, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(in, size, MPI_BYTE, 0, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(out, size, MPI_BYTE, 0, DATA, MPI_COMM_WORLD);
    }
}

static void bw(int size) {
    for (int i = 0; i < WINDOW; i++) {
        if (rank == 0) {
            MPI_Isend(out, size, MPI_BYTE, 1, DATA, MPI_COMM_WORLD, &requests[i]);
        } else {
            MPI_Irecv(in, size, MPI_BYTE, 0, DATA, MPI_COMM_WORLD, &requests[i]);
        }
    }
    MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
    if (rank == 0) {
        MPI_Recv(in, 4, MPI_BYTE, 1, ACK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Send(out, 4, MPI_BYTE, 0, ACK, MPI_COMM_WORLD);
    }
}

static void barrier(int size) {
    (void)size;
    MPI_Barrier(MPI_COMM_WORLD);
}

static void bcast(int size) { MPI_Bcast(out, size, MPI_BYTE, 0, MPI_COMM_WORLD); }

static void allreduce(int size) {
    MPI_Allreduce(out, in, size / (int)sizeof(float), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

/* How a loop's time becomes the value. */
enum kind { HALF, BYTES, CALLS };

static const struct bench {
    const char *name;
    void (*step)(int size);
    enum kind kind;
    int sizes, align;
} benches[] = {
    {"latency", latency, HALF, 1, 0},    {"bw", bw, BYTES, 1, 0},
    {"barrier", barrier, CALLS, 0, 0},   {"bcast", bcast, CALLS, 1, 1},
    {"allreduce", allreduce, CALLS, 1, 1},
};

static void once(const struct bench *bench, int size, double *inside) {
    double start = inside ? MPI_Wtime() : 0;
    bench->step(size);
    if (inside) {
        *inside += MPI_Wtime() - start;
    }
    if (bench->align) {
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static long warm_up(const struct bench *bench, int size, double budget) {
    for (long count = 1;; count *= 2) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime(), mine, took;
        for (long i = 0; i < count; i++) {
            once(bench, size, NULL);
        }
        mine = MPI_Wtime() - start;
        MPI_Allreduce(&mine, &took, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (took >= budget / 4 || count >= 10000000) {
            double wanted = (double)count * budget / (took > 1e-9 ? took : 1e-9);
            return wanted < 1 ? 1 : wanted > 1e7 ? 10000000 : (long)wanted;
        }
    }
}

static void measure(const struct bench *bench, int size, double budget) {
    size_t room = (size_t)(size < 64 ? 64 : size);
    out = malloc(room), in = malloc(room);
    if (!out || !in) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    memset(out, 0, room), memset(in, 0, room);
    long count = warm_up(bench, size, budget);
    MPI_Barrier(MPI_COMM_WORLD);
    double inside = 0, start = MPI_Wtime();
    for (long i = 0; i < count; i++) {
        once(bench, size, bench->kind == CALLS ? &inside : NULL);
    }
    double took = MPI_Wtime() - start, value = took * 1e6 / (double)count, all;
    MPI_Barrier(MPI_COMM_WORLD);
    switch (bench->kind) {
    case HALF:
        value /= 2;
        break;
    case BYTES:
        value = (double)size * WINDOW * (double)count / 1e6 / took;
        break;
    case CALLS:
        inside = inside * 1e6 / (double)count;
        MPI_Allreduce(&inside, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        value = all / ranks;
        break;
    }
    if (rank == 0) {
        printf("%d %.4f\n", bench->sizes ? size : 8, value);
    }
    free(out), free(in);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const struct bench *bench = NULL;
    double budget = 0.05;
    const char *sizes = "8";
    for (size_t i = 0; argc > 1 && i < sizeof benches / sizeof *benches; i++) {
        if (strcmp(argv[1], benches[i].name) == 0) {
            bench = &benches[i];
        }
    }
    for (int i = 2; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--budget") == 0) {
            budget = atof(argv[i + 1]) / 1e3;
        } else if (strcmp(argv[i], "--sizes") == 0) {
            sizes = argv[i + 1];
        }
    }
    if (!bench) {
        fprintf(stderr, "loops: no benchmark of that name\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
        return 2;
    }
    while (bench->sizes && *sizes) {
        char *end;
        measure(bench, (int)strtol(sizes, &end, 10), budget);
        sizes = *end ? end + 1 : end;
    }
    if (!bench->sizes) {
        measure(bench, 8, budget);
    }
    MPI_Finalize();
    return 0;
}
