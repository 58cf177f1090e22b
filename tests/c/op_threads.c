/* A datatype that another thread frees while a function of the program reduces elements of it: the handle that the
 * function has got is that of the datatype until it returns (MPI-4.1 sections 5.1.9 and 6.9.5).
 * ranks: 1 2
 * local: operations
 * timeout: 60
 */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>

#define INTS 3
#define ELEMENTS 5
#define OTHERS 100

enum { NONBLOCKING, PERSISTENT, BLOCKING, LOCAL, KINDS };

static int rank, size;
static atomic_int inside, over, freed, calls;
static MPI_Datatype type, others[OTHERS];
static MPI_Op op;
static MPI_Request request;
static int in[ELEMENTS * INTS], out[ELEMENTS * INTS];

static void check_type(MPI_Datatype given) {
    int bytes, integers, addresses, datatypes, combiner;
    OK(MPI_Type_size(given, &bytes));
    CHECK_EQ(bytes, (int)(INTS * sizeof(int)));
    OK(MPI_Type_get_envelope(given, &integers, &addresses, &datatypes, &combiner));
    CHECK_EQ(combiner, MPI_COMBINER_CONTIGUOUS);
}

static void add(void *input, void *inout, int *len, MPI_Datatype *given) {
    calls++;
    check_type(*given);
    inside = 1;
    while (!freed) {
        usleep(100);
    }
    check_type(*given);
    for (int i = 0; i < OTHERS; i++) {
        CHECK(*given != others[i]);
    }
    for (int i = 0; i < *len * INTS; i++) {
        ((int *)inout)[i] += ((int *)input)[i];
    }
}

static void *reduce(void *kind) {
    /* Whoever starts it may be who reduces. */
    switch ((int)(long)kind) {
    case NONBLOCKING:
        OK(MPI_Iallreduce(in, out, ELEMENTS, type, op, MPI_COMM_WORLD, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        break;
    case PERSISTENT:
        OK(MPI_Allreduce_init(in, out, ELEMENTS, type, op, MPI_COMM_WORLD, MPI_INFO_NULL,
                              &request));
        OK(MPI_Start(&request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        break;
    case BLOCKING:
        OK(MPI_Allreduce(in, out, ELEMENTS, type, op, MPI_COMM_WORLD));
        break;
    case LOCAL:
        OK(MPI_Reduce_local(in, out, ELEMENTS, type, op));
        break;
    }
    over = 1;
    return NULL;
}

static void run(int kind) {
    inside = over = freed = calls = 0;
    for (int i = 0; i < ELEMENTS * INTS; i++) {
        in[i] = i + rank;
        out[i] = kind == LOCAL ? 1 : -1;
    }
    MPI_Datatype own;
    OK(MPI_Type_contiguous(INTS, MPI_INT, &type));
    OK(MPI_Type_commit(&type));
    own = type;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, reduce, (void *)(long)kind) == 0);
    while (!inside && !over) {
        usleep(100);
    }
    OK(MPI_Type_free(&own));
    for (int i = 0; i < OTHERS; i++) {
        OK(MPI_Type_contiguous(INTS + 1 + i, MPI_INT, &others[i]));
    }
    freed = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    if (kind == PERSISTENT) {
        /* Once more, with no handle left. */
        for (int i = 0; i < ELEMENTS * INTS; i++) {
            out[i] = -1;
        }
        OK(MPI_Start(&request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        OK(MPI_Request_free(&request));
    }
    for (int i = 0; i < ELEMENTS * INTS; i++) {
        CHECK_EQ(out[i], kind == LOCAL ? i + rank + 1 : size * i + size * (size - 1) / 2);
    }
    CHECK(kind != LOCAL || calls == 1);
    /* The handle is free for others now: there is no end of it. */
    for (int i = 0; i < OTHERS; i++) {
        OK(MPI_Type_free(&others[i]));
    }
}

int main(int argc, char **argv) {
    int provided;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    OK(MPI_Op_create(add, 1, &op));
    for (int round = 0; round < 5; round++) {
        for (int kind = 0; kind < KINDS; kind++) {
            run(kind);
        }
    }
    OK(MPI_Op_free(&op));
    OK(MPI_Finalize());
    return 0;
}
