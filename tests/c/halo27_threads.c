/* The communication of a framework for structured grids with threads: each thread has a patch, sends
 * to and receives from its 26 neighbours with both threads in the tag, and a linear system is solved
 * with global sums. Conjugate gradients for a 27-point operator, whose solution is known.
 * ranks: 1 2 4
 * timeout: 60
 * cflags: -pthread
 * case: plain
 * case: hints
 * preload: vci_hints.c
 */
#include "check.h"
#include <math.h>
#include <pthread.h>

enum { THREADS = 2, N = 4, SIDE = N + 2, CELLS = SIDE * SIDE * SIDE, DIRECTIONS = 27, ROUNDS = 100 };

static int dims[3] = {0, 0, 0}, place[3];
static MPI_Comm sums;
static pthread_barrier_t meet;
static double parts[THREADS], total;

/* What one thread has: vectors with a layer of cells of its neighbours around them. */
struct patch {
    int thread, at[3];
    double x[CELLS], r[CELLS], p[CELLS], q[CELLS];
    double out[DIRECTIONS][N * N], in[DIRECTIONS][N * N];
};

static int cell(int x, int y, int z) { return (z * SIDE + y) * SIDE + x; }

static void offset(int direction, int d[3]) {
    d[0] = direction % 3 - 1;
    d[1] = direction / 3 % 3 - 1;
    d[2] = direction / 9 - 1;
}

/* The rank and thread of the neighbour in a direction; false at the edge of the grid. */
static int neighbour(const struct patch *patch, int direction, int *rank, int *thread) {
    int d[3], at[3];
    offset(direction, d);
    for (int axis = 0; axis < 3; axis++) {
        at[axis] = patch->at[axis] + d[axis];
        if (at[axis] < 0 || at[axis] >= dims[axis] * (axis == 0 ? THREADS : 1)) {
            return 0;
        }
    }
    *thread = at[0] % THREADS;
    *rank = (at[0] / THREADS * dims[1] + at[1]) * dims[2] + at[2];
    return direction != DIRECTIONS / 2;
}

/* Copies the cells that a neighbour needs to a message, or a message to the cells around. */
static int copy(double *cells, int direction, double *message, int pack) {
    int d[3], from[3], to[3], count = 0;
    offset(direction, d);
    for (int axis = 0; axis < 3; axis++) {
        int inner = d[axis] < 0 ? 1 : N, outer = d[axis] < 0 ? 0 : N + 1;
        from[axis] = d[axis] == 0 ? 1 : pack ? inner : outer;
        to[axis] = d[axis] == 0 ? N : from[axis];
    }
    for (int z = from[2]; z <= to[2]; z++) {
        for (int y = from[1]; y <= to[1]; y++) {
            for (int x = from[0]; x <= to[0]; x++, count++) {
                double *one = &cells[cell(x, y, z)];
                *(pack ? &message[count] : one) = pack ? *one : message[count];
            }
        }
    }
    return count;
}

static void exchange(struct patch *patch, double *cells) {
    MPI_Request requests[2 * DIRECTIONS];
    int count = 0, rank, thread, size;
    for (int to = 0; to < DIRECTIONS; to++) {
        if (neighbour(patch, to, &rank, &thread)) {
            /* It sends in the opposite direction. */
            int tag = (DIRECTIONS - 1 - to) << 2 | patch->thread << 1 | thread;
            OK(MPI_Irecv(patch->in[to], N * N, MPI_DOUBLE, rank, tag, MPI_COMM_WORLD,
                         &requests[count++]));
        }
    }
    for (int to = 0; to < DIRECTIONS; to++) {
        if (neighbour(patch, to, &rank, &thread)) {
            int tag = to << 2 | thread << 1 | patch->thread;
            size = copy(cells, to, patch->out[to], 1);
            OK(MPI_Isend(patch->out[to], size, MPI_DOUBLE, rank, tag, MPI_COMM_WORLD,
                         &requests[count++]));
        }
    }
    OK(MPI_Waitall(count, requests, MPI_STATUSES_IGNORE));
    for (int to = 0; to < DIRECTIONS; to++) {
        if (neighbour(patch, to, &rank, &thread)) {
            copy(cells, to, patch->in[to], 0);
        }
    }
}

/* Thread 0 adds up over the ranks, as a library below threads does. */
static double dot(struct patch *patch, const double *one, const double *two) {
    double part = 0;
    for (int z = 1; z <= N; z++) {
        for (int y = 1; y <= N; y++) {
            for (int x = 1; x <= N; x++) {
                part += one[cell(x, y, z)] * two[cell(x, y, z)];
            }
        }
    }
    parts[patch->thread] = part;
    pthread_barrier_wait(&meet);
    if (patch->thread == 0) {
        part = 0;
        for (int i = 0; i < THREADS; i++) {
            part += parts[i];
        }
        OK(MPI_Allreduce(&part, &total, 1, MPI_DOUBLE, MPI_SUM, sums));
    }
    pthread_barrier_wait(&meet);
    return total;
}

static void apply(const double *in, double *out) {
    for (int z = 1; z <= N; z++) {
        for (int y = 1; y <= N; y++) {
            for (int x = 1; x <= N; x++) {
                double sum = 28 * in[cell(x, y, z)];
                for (int k = 0; k < DIRECTIONS; k++) {
                    int d[3];
                    offset(k, d);
                    sum -= in[cell(x + d[0], y + d[1], z + d[2])];
                }
                out[cell(x, y, z)] = sum;
            }
        }
    }
}

static double known(const struct patch *patch, int x, int y, int z) {
    return cos(patch->at[0] * N + x) + 0.5 * (patch->at[1] * N + y) - (patch->at[2] * N + z) % 5;
}

static void *work(void *argument) {
    struct patch *patch = argument;
    patch->at[0] = place[0] * THREADS + patch->thread;
    patch->at[1] = place[1];
    patch->at[2] = place[2];
    for (int z = 1; z <= N; z++) {
        for (int y = 1; y <= N; y++) {
            for (int x = 1; x <= N; x++) {
                patch->p[cell(x, y, z)] = known(patch, x, y, z);
            }
        }
    }
    exchange(patch, patch->p);
    apply(patch->p, patch->r);
    memcpy(patch->p, patch->r, sizeof patch->p);
    double rest = dot(patch, patch->r, patch->r), first = rest;
    int round = 0;
    for (; round < ROUNDS && rest > 1e-22 * first; round++) {
        exchange(patch, patch->p);
        apply(patch->p, patch->q);
        double alpha = rest / dot(patch, patch->p, patch->q);
        for (int i = 0; i < CELLS; i++) {
            patch->x[i] += alpha * patch->p[i];
            patch->r[i] -= alpha * patch->q[i];
        }
        double now = dot(patch, patch->r, patch->r), beta = now / rest;
        rest = now;
        for (int i = 0; i < CELLS; i++) {
            patch->p[i] = patch->r[i] + beta * patch->p[i];
        }
    }
    CHECK(round < ROUNDS);
    for (int z = 1; z <= N; z++) {
        for (int y = 1; y <= N; y++) {
            for (int x = 1; x <= N; x++) {
                CHECK(fabs(patch->x[cell(x, y, z)] - known(patch, x, y, z)) < 1e-8);
            }
        }
    }
    return NULL;
}

static unsigned long vcis_open(void) {
    unsigned long value = 0;
    int provided, index, count;
    MPI_T_pvar_session session;
    MPI_T_pvar_handle handle;
    OK(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided));
    OK(MPI_T_pvar_session_create(&session));
    OK(MPI_T_pvar_get_index("vcis_open", MPI_T_PVAR_CLASS_LEVEL, &index));
    OK(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count));
    OK(MPI_T_pvar_read(session, handle, &value));
    OK(MPI_T_pvar_session_free(&session));
    OK(MPI_T_finalize());
    return value;
}

int main(int argc, char **argv) {
    int provided, rank, size;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    OK(MPI_Dims_create(size, 3, dims));
    place[0] = rank / dims[2] / dims[1];
    place[1] = rank / dims[2] % dims[1];
    place[2] = rank % dims[2];
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &sums));
    CHECK_EQ(pthread_barrier_init(&meet, NULL, THREADS), 0);
    pthread_t threads[THREADS];
    struct patch *patches = calloc(THREADS, sizeof *patches);
    for (int i = 0; i < THREADS; i++) {
        patches[i].thread = i;
        CHECK_EQ(pthread_create(&threads[i], NULL, work, &patches[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    free(patches);
    CHECK(argc == 2);
    unsigned long vcis = vcis_open();
    /* Without hints the duplicate may have one of its own, and the other communicator has that of all. */
    CHECK(strcmp(argv[1], "hints") == 0 ? vcis > THREADS : vcis <= 2);
    OK(MPI_Comm_free(&sums));
    OK(MPI_Finalize());
    return 0;
}
