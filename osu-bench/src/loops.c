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
static int *shares;
static MPI_Win win;
static MPI_Request requests[2 * WINDOW];

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

static void bibw(int size) {
    for (int i = 0; i < WINDOW; i++) {
        MPI_Irecv(in, size, MPI_BYTE, 1 - rank, DATA, MPI_COMM_WORLD, &requests[i]);
    }
    for (int i = WINDOW; i < 2 * WINDOW; i++) {
        MPI_Isend(out, size, MPI_BYTE, 1 - rank, DATA, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Waitall(2 * WINDOW, requests, MPI_STATUSES_IGNORE);
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

static void reduce(int size) {
    MPI_Reduce(out, in, size / (int)sizeof(float), MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
}

static void reduce_scatter(int size) {
    (void)size;
    MPI_Reduce_scatter(out, in, shares, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void allgather(int size) {
    MPI_Allgather(out, size, MPI_BYTE, in, size, MPI_BYTE, MPI_COMM_WORLD);
}

static void alltoall(int size) {
    MPI_Alltoall(out, size, MPI_BYTE, in, size, MPI_BYTE, MPI_COMM_WORLD);
}

static void gather(int size) {
    MPI_Gather(out, size, MPI_BYTE, in, size, MPI_BYTE, 0, MPI_COMM_WORLD);
}

static void scatter(int size) {
    MPI_Scatter(out, size, MPI_BYTE, in, size, MPI_BYTE, 0, MPI_COMM_WORLD);
}

/* One-sided: rank 0 reaches into rank 1, which does nothing meanwhile. */
static void put(int size) {
    MPI_Put(out, size, MPI_BYTE, 1, 0, size, MPI_BYTE, win);
    MPI_Win_flush(1, win);
}

static void get(int size) {
    MPI_Get(in, size, MPI_BYTE, 1, 0, size, MPI_BYTE, win);
    MPI_Win_flush(1, win);
}

static void put_bw(int size) {
    for (int i = 0; i < WINDOW; i++) {
        MPI_Put(out, size, MPI_BYTE, 1, 0, size, MPI_BYTE, win);
    }
    MPI_Win_flush(1, win);
}

static void get_bw(int size) {
    for (int i = 0; i < WINDOW; i++) {
        MPI_Get(in, size, MPI_BYTE, 1, 0, size, MPI_BYTE, win);
    }
    MPI_Win_flush(1, win);
}

static void acc(int size) {
    MPI_Accumulate(out, size / 8, MPI_INT64_T, 1, 0, size / 8, MPI_INT64_T, MPI_SUM, win);
    MPI_Win_flush(1, win);
}

static void get_acc(int size) {
    int count = size / 8;
    MPI_Get_accumulate(out, count, MPI_INT64_T, in, count, MPI_INT64_T, 1, 0, count, MPI_INT64_T, MPI_SUM, win);
    MPI_Win_flush(1, win);
}

static void fop(int size) {
    (void)size;
    MPI_Fetch_and_op(out, in, MPI_INT64_T, 1, 0, MPI_SUM, win);
    MPI_Win_flush(1, win);
}

static void cas(int size) {
    (void)size;
    MPI_Compare_and_swap(out, in, in + 8, MPI_INT64_T, 1, 0, win);
    MPI_Win_flush(1, win);
}

/* How a loop's time becomes the value. */
enum kind { HALF, BYTES, BOTH, CALLS, ACCESS, ACCESSES };

static const struct bench {
    const char *name;
    void (*step)(int size);
    enum kind kind;
    int sizes, align;
} benches[] = {
    {"latency", latency, HALF, 1, 0},          {"bw", bw, BYTES, 1, 0},
    {"bibw", bibw, BOTH, 1, 0},                {"barrier", barrier, CALLS, 0, 0},
    {"bcast", bcast, CALLS, 1, 1},             {"allreduce", allreduce, CALLS, 1, 1},
    {"reduce", reduce, CALLS, 1, 1},           {"reduce_scatter", reduce_scatter, CALLS, 1, 1},
    {"allgather", allgather, CALLS, 1, 1},     {"alltoall", alltoall, CALLS, 1, 1},
    {"gather", gather, CALLS, 1, 1},           {"scatter", scatter, CALLS, 1, 1},
    {"put_latency", put, ACCESS, 1, 0},        {"get_latency", get, ACCESS, 1, 0},
    {"put_bw", put_bw, ACCESSES, 1, 0},        {"get_bw", get_bw, ACCESSES, 1, 0},
    {"acc_latency", acc, ACCESS, 1, 0},        {"get_acc_latency", get_acc, ACCESS, 1, 0},
    {"fop_latency", fop, ACCESS, 0, 0},        {"cas_latency", cas, ACCESS, 0, 0},
};

static int one_sided(const struct bench *bench) { return bench->kind >= ACCESS; }

static void once(const struct bench *bench, int size, double *inside) {
    double start = inside ? MPI_Wtime() : 0;
    if (!one_sided(bench) || rank == 0) {
        bench->step(size);
    }
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
    size_t room = (size_t)(size < 64 ? 64 : size) * (size_t)ranks;
    int floats = size / (int)sizeof(float);
    char *there;
    out = malloc(room), in = malloc(room), shares = malloc((size_t)ranks * sizeof(int));
    if (!out || !in || !shares) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    memset(out, 0, room), memset(in, 0, room);
    for (int i = 0; i < ranks; i++) {
        shares[i] = floats / ranks + (i < floats % ranks);
    }
    if (one_sided(bench)) {
        MPI_Win_allocate((MPI_Aint)room, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &there, &win);
        memset(there, 0, room);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock_all(0, win);
    }
    long count = warm_up(bench, size, budget);
    MPI_Barrier(MPI_COMM_WORLD);
    double inside = 0, start = MPI_Wtime();
    for (long i = 0; i < count; i++) {
        once(bench, size, bench->kind == CALLS ? &inside : NULL);
    }
    double took = MPI_Wtime() - start, value = took * 1e6 / (double)count, all;
    MPI_Barrier(MPI_COMM_WORLD);
    if (one_sided(bench)) {
        MPI_Win_unlock_all(win);
        MPI_Win_free(&win);
    }
    switch (bench->kind) {
    case HALF:
        value /= 2;
        break;
    case BOTH:
        took /= 2;
        /* fall through */
    case BYTES:
    case ACCESSES:
        value = (double)size * WINDOW * (double)count / 1e6 / took;
        break;
    case CALLS:
        inside = inside * 1e6 / (double)count;
        MPI_Allreduce(&inside, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        value = all / ranks;
        break;
    case ACCESS:
        break;
    }
    if (rank == 0) {
        printf("%d %.4f\n", bench->sizes ? size : 8, value);
    }
    free(out), free(in), free(shares);
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
        } else if (strcmp(argv[i], "--window") == 0 || strcmp(argv[i], "--sync") == 0) {
            fprintf(stderr, "loops: windows are allocated and flushed; %s is not known\n", argv[i]);
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
    }
    if (!bench) {
        fprintf(stderr, "loops: no benchmark of that name\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
        return 2;
    }
    int pair = bench->kind != CALLS;
    if (pair && ranks != 2) {
        fprintf(stderr, "loops: %s is for 2 ranks, not %d\n", bench->name, ranks);
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
