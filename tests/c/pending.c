/* Many posted receives and many unexpected messages, each with its own tag and matched from the end. The
 * time of a match must not depend on their number. An argument sets the number; times and memory are then
 * printed (mpiexec -n 2 ./pending 1000000).
 * ranks: 2
 * variants: shm
 * timeout: 60
 */
#include "check.h"

#include <sys/resource.h>

enum { KINDS = 5 };

static const char *const NAMES[KINDS] = {
    "posted", "posted, any source", "unexpected", "unexpected, any source", "unexpected, any tag",
};

static int count = 12000, loud;

/* The time that all of one kind take. */
static double once(int kind, int rank, MPI_Request *requests, int *in, int *out) {
    int is_posted = kind < 2, wild = kind == 1 || kind == 3;
    OK(MPI_Barrier(MPI_COMM_WORLD));
    double start = MPI_Wtime(), ready = start;
    if (rank == 0) {
        for (int i = 0; !is_posted && i < count; i++) {
            OK(MPI_Isend(&out[i], 1, MPI_INT, 1, i, MPI_COMM_WORLD, &requests[i]));
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
        for (int i = 0; is_posted && i < count; i++) {
            int tag = count - 1 - i;
            OK(MPI_Isend(&out[tag], 1, MPI_INT, 1, tag, MPI_COMM_WORLD, &requests[i]));
        }
        OK(MPI_Waitall(count, requests, MPI_STATUSES_IGNORE));
    } else {
        int from = wild ? MPI_ANY_SOURCE : 0;
        for (int i = 0; is_posted && i < count; i++) {
            OK(MPI_Irecv(&in[i], 1, MPI_INT, from, i, MPI_COMM_WORLD, &requests[i]));
        }
        ready = MPI_Wtime();
        OK(MPI_Barrier(MPI_COMM_WORLD));
        if (!is_posted) {
            /* All are here when the last is: they come in order. */
            OK(MPI_Probe(0, count - 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            ready = MPI_Wtime();
        }
        for (int i = 0; !is_posted && i < count; i++) {
            int tag = kind == 4 ? MPI_ANY_TAG : count - 1 - i;
            OK(MPI_Irecv(&in[i], 1, MPI_INT, from, tag, MPI_COMM_WORLD, &requests[i]));
        }
        OK(MPI_Waitall(count, requests, MPI_STATUSES_IGNORE));
        for (int i = 0; i < count; i++) {
            CHECK_EQ(in[i], is_posted || kind == 4 ? i : count - 1 - i);
        }
    }
    double end = MPI_Wtime();
    if (loud && rank == 1) {
        struct rusage usage;
        getrusage(RUSAGE_SELF, &usage);
        printf("%-24s %d: %.2f s until all wait, %.2f s to match, %ld MB at most\n", NAMES[kind],
               count, ready - start, end - ready, usage.ru_maxrss >> 10);
        fflush(stdout);
    }
    return end - start;
}

int main(int argc, char **argv) {
    OK(MPI_Init(NULL, NULL));
    if (argc > 1) {
        count = atoi(argv[1]);
        loud = 1;
    }
    int rank = world_rank();
    MPI_Request *requests = allocate(sizeof *requests * (size_t)count);
    int *in = allocate(sizeof *in * (size_t)count), *out = allocate(sizeof *out * (size_t)count);
    for (int i = 0; i < count; i++) {
        out[i] = i;
    }
    int most = count;
    for (int kind = 0; kind < KINDS; kind++) {
        if (loud) {
            once(kind, rank, requests, in, out);
            continue;
        }
        /* Eight times as many take eight times as long, where each took as much longer sixty-four
         * times. The machine may be busy: once of a few is enough. */
        double few = 0, many = 1e9;
        for (int i = 0; i < 3 && many > 24 * few + 0.5; i++) {
            count = most / 8;
            few = once(kind, rank, requests, in, out);
            count = most;
            many = once(kind, rank, requests, in, out);
            OK(MPI_Bcast(&few, 1, MPI_DOUBLE, 1, MPI_COMM_WORLD));
            OK(MPI_Bcast(&many, 1, MPI_DOUBLE, 1, MPI_COMM_WORLD));
        }
        if (many > 24 * few + 0.5) {
            fprintf(stderr, "%s: %d in %.3f s, %d in %.3f s\n", NAMES[kind], most / 8, few, most, many);
            return 1;
        }
    }
    OK(MPI_Finalize());
    return 0;
}
