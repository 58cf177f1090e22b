/* Collectives with large counts (MPI-4.0 chapters 6 and 8): each in its blocking, nonblocking and persistent form does
 * what its twin with ints does, also with displacements beyond 2^31, and refuses counts that can't be.
 *
 * ranks: 1 2 3
 */
#include "fails.h"

enum { MOST = 8, N = 3 };
#define HUGE_COUNT ((MPI_Count)1 << 62)

static MPI_Comm comm;
static int rank, size;
static int from[2 * MOST * N], to[2 * MOST * N], want[2 * MOST * N];
static MPI_Request request;

/* The narrow function says what is right; then come the three large ones. `name` has its arguments with ints,
 * `large` those with large counts. */
#define UNPACKED(...) __VA_ARGS__
#define EACH(name, iname, narrow, large)                                                           \
    do {                                                                                           \
        for (int way = 0; way < 4; way++) {                                                        \
            memset(to, -1, sizeof to);                                                             \
            switch (way) {                                                                         \
            case 0:                                                                                \
                OK(MPI_##name(UNPACKED narrow, comm));                                             \
                memcpy(want, to, sizeof to);                                                       \
                break;                                                                             \
            case 1:                                                                                \
                OK(MPI_##name##_c(UNPACKED large, comm));                                          \
                break;                                                                             \
            case 2:                                                                                \
                OK(MPI_##iname##_c(UNPACKED large, comm, &request));                               \
                OK(MPI_Wait(&request, MPI_STATUS_IGNORE));                                         \
                break;                                                                             \
            default:                                                                               \
                OK(MPI_##name##_init_c(UNPACKED large, comm, MPI_INFO_NULL, &request));            \
                for (int again = 0; again < 2; again++) {                                          \
                    memset(to, -1, sizeof to);                                                     \
                    OK(MPI_Start(&request));                                                       \
                    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));                                     \
                }                                                                                  \
                OK(MPI_Request_free(&request));                                                    \
            }                                                                                      \
            CHECK(memcmp(to, want, sizeof to) == 0);                                               \
        }                                                                                          \
    } while (0)

/* All three fail. */
#define WRONG(class, name, iname, ...)                                                             \
    do {                                                                                           \
        FAILS(MPI_##name##_c(__VA_ARGS__, comm), class);                                           \
        FAILS(MPI_##iname##_c(__VA_ARGS__, comm, &request), class);                                \
        FAILS(MPI_##name##_init_c(__VA_ARGS__, comm, MPI_INFO_NULL, &request), class);             \
    } while (0)

/* With the same arguments for all. */
#define SAME(name, iname, ...) EACH(name, iname, (__VA_ARGS__), (__VA_ARGS__))

static int counts[MOST], displs[MOST], bytes[MOST];
static MPI_Count large[MOST], negative[MOST], huge[MOST];
static MPI_Aint far[MOST], far_bytes[MOST];
static MPI_Datatype types[MOST];

static void equal(void) {
    int root = size - 1;
    memcpy(to, from, sizeof to);
    OK(MPI_Bcast_c(to, N, MPI_INT, root, comm));
    CHECK_EQ(to[0], root * 100);
    memcpy(to, from, sizeof to);
    OK(MPI_Ibcast_c(to, N, MPI_INT, 0, comm, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_EQ(to[1], 1);
    OK(MPI_Bcast_init_c(to, N, MPI_INT, root, comm, MPI_INFO_NULL, &request));
    memcpy(to, from, sizeof to);
    OK(MPI_Start(&request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Request_free(&request));
    CHECK_EQ(to[2], root * 100 + 2);
    SAME(Gather, Igather, from, N, MPI_INT, to, N, MPI_INT, root);
    SAME(Scatter, Iscatter, from, N, MPI_INT, to, N, MPI_INT, root);
    SAME(Allgather, Iallgather, from, N, MPI_INT, to, N, MPI_INT);
    SAME(Alltoall, Ialltoall, from, N, MPI_INT, to, N, MPI_INT);
    WRONG(MPI_ERR_COUNT, Bcast, Ibcast, to, -1, MPI_INT, 0);
    WRONG(MPI_ERR_COUNT, Bcast, Ibcast, to, HUGE_COUNT, MPI_INT, 0);
    WRONG(MPI_ERR_COUNT, Gather, Igather, from, -HUGE_COUNT, MPI_INT, to, N, MPI_INT, rank);
    WRONG(MPI_ERR_COUNT, Gather, Igather, from, N, MPI_INT, to, HUGE_COUNT, MPI_INT, rank);
    WRONG(MPI_ERR_COUNT, Scatter, Iscatter, from, -1, MPI_INT, to, N, MPI_INT, rank);
    WRONG(MPI_ERR_COUNT, Scatter, Iscatter, from, N, MPI_INT, to, HUGE_COUNT, MPI_INT, rank);
    WRONG(MPI_ERR_COUNT, Allgather, Iallgather, from, -1, MPI_INT, to, N, MPI_INT);
    WRONG(MPI_ERR_COUNT, Allgather, Iallgather, from, N, MPI_INT, to, HUGE_COUNT, MPI_INT);
    WRONG(MPI_ERR_COUNT, Alltoall, Ialltoall, from, HUGE_COUNT, MPI_INT, to, N, MPI_INT);
    WRONG(MPI_ERR_COUNT, Alltoall, Ialltoall, from, N, MPI_INT, to, -1, MPI_INT);
}

static void varying(void) {
    int root = size - 1, mine = counts[rank];
    EACH(Gatherv, Igatherv, (from, mine, MPI_INT, to, counts, displs, MPI_INT, root),
         (from, mine, MPI_INT, to, large, far, MPI_INT, root));
    EACH(Scatterv, Iscatterv, (from, counts, displs, MPI_INT, to, mine, MPI_INT, root),
         (from, large, far, MPI_INT, to, mine, MPI_INT, root));
    EACH(Allgatherv, Iallgatherv, (from, mine, MPI_INT, to, counts, displs, MPI_INT),
         (from, mine, MPI_INT, to, large, far, MPI_INT));
    int same[MOST];
    MPI_Count same_large[MOST];
    for (int i = 0; i < size; i++) {
        same[i] = 1 + (rank + i) % 2;
        same_large[i] = same[i];
    }
    EACH(Alltoallv, Ialltoallv, (from, same, displs, MPI_INT, to, same, displs, MPI_INT),
         (from, same_large, far, MPI_INT, to, same_large, far, MPI_INT));
    EACH(Alltoallw, Ialltoallw, (from, same, bytes, types, to, same, bytes, types),
         (from, same_large, far_bytes, types, to, same_large, far_bytes, types));
    WRONG(MPI_ERR_COUNT, Gatherv, Igatherv, from, mine, MPI_INT, to, negative, far, MPI_INT, rank);
    WRONG(MPI_ERR_COUNT, Gatherv, Igatherv, from, mine, MPI_INT, to, huge, far, MPI_INT, rank);
    WRONG(MPI_ERR_ARG, Gatherv, Igatherv, from, mine, MPI_INT, to, NULL, far, MPI_INT, rank);
    WRONG(MPI_ERR_COUNT, Scatterv, Iscatterv, from, negative, far, MPI_INT, to, mine, MPI_INT, rank);
    WRONG(MPI_ERR_COUNT, Allgatherv, Iallgatherv, from, mine, MPI_INT, to, huge, far, MPI_INT);
    WRONG(MPI_ERR_COUNT, Alltoallv, Ialltoallv, from, large, far, MPI_INT, to, negative, far, MPI_INT);
    WRONG(MPI_ERR_COUNT, Alltoallv, Ialltoallv, from, huge, far, MPI_INT, to, large, far, MPI_INT);
    WRONG(MPI_ERR_COUNT, Alltoallw, Ialltoallw, from, large, far_bytes, types, to, huge, far_bytes,
          types);
    WRONG(MPI_ERR_ARG, Alltoallw, Ialltoallw, from, large, NULL, types, to, large, far_bytes, types);
}

/* Blocks that begin beyond 2^31 elements: there is nothing there, and it is nowhere but there. */
static void distant(void) {
    MPI_Aint beyond[MOST];
    MPI_Count one[MOST];
    char *base = (char *)to - ((size_t)3 << 30);
    for (int i = 0; i < size; i++) {
        beyond[i] = ((MPI_Aint)3 << 30) + (MPI_Aint)sizeof(int) * i;
        one[i] = sizeof(int);
    }
    memset(to, -1, sizeof to);
    OK(MPI_Allgatherv_c(&rank, sizeof(int), MPI_BYTE, base, one, beyond, MPI_BYTE, comm));
    for (int i = 0; i < size; i++) {
        CHECK_EQ(to[i], i);
    }
    CHECK_EQ(to[size], -1);
}

static void add_many(void *in, void *inout, MPI_Count *len, MPI_Datatype *type) {
    int *one = in, *other = inout;
    CHECK_EQ(*type, MPI_INT);
    for (MPI_Count i = 0; i < *len; i++) {
        other[i] += one[i];
    }
}

static void reductions(void) {
    MPI_Op ops[2] = {MPI_SUM, MPI_OP_NULL};
    FAILS(MPI_Op_create_c(NULL, 1, &ops[1]), MPI_ERR_ARG);
    FAILS(MPI_Op_create_c(add_many, 1, NULL), MPI_ERR_ARG);
    OK(MPI_Op_create_c(add_many, 1, &ops[1]));
    int root = size - 1;
    for (int i = 0; i < 2; i++) {
        MPI_Op op = ops[i];
        SAME(Reduce, Ireduce, from, to, N, MPI_INT, op, root);
        SAME(Allreduce, Iallreduce, from, to, N, MPI_INT, op);
        SAME(Scan, Iscan, from, to, N, MPI_INT, op);
        SAME(Exscan, Iexscan, from, to, N, MPI_INT, op);
        SAME(Reduce_scatter_block, Ireduce_scatter_block, from, to, N, MPI_INT, op);
        EACH(Reduce_scatter, Ireduce_scatter, (from, to, counts, MPI_INT, op),
             (from, to, large, MPI_INT, op));
        memcpy(to, from, sizeof to);
        OK(MPI_Reduce_local_c(from, to, N, MPI_INT, op));
        CHECK_EQ(to[1], 2 * from[1]);
        FAILS(MPI_Reduce_local_c(from, to, -1, MPI_INT, op), MPI_ERR_COUNT);
        FAILS(MPI_Reduce_local_c(from, to, HUGE_COUNT, MPI_INT, op), MPI_ERR_COUNT);
    }
    WRONG(MPI_ERR_COUNT, Reduce, Ireduce, from, to, -1, MPI_INT, MPI_SUM, rank);
    WRONG(MPI_ERR_COUNT, Reduce, Ireduce, from, to, HUGE_COUNT, MPI_INT, MPI_SUM, rank);
    WRONG(MPI_ERR_COUNT, Allreduce, Iallreduce, from, to, -1, MPI_INT, MPI_SUM);
    WRONG(MPI_ERR_COUNT, Allreduce, Iallreduce, from, to, HUGE_COUNT, MPI_INT, ops[1]);
    WRONG(MPI_ERR_COUNT, Scan, Iscan, from, to, HUGE_COUNT, MPI_INT, MPI_SUM);
    WRONG(MPI_ERR_COUNT, Exscan, Iexscan, from, to, -1, MPI_INT, MPI_SUM);
    WRONG(MPI_ERR_COUNT, Reduce_scatter_block, Ireduce_scatter_block, from, to, HUGE_COUNT, MPI_INT,
          MPI_SUM);
    WRONG(MPI_ERR_COUNT, Reduce_scatter, Ireduce_scatter, from, to, negative, MPI_INT, MPI_SUM);
    WRONG(MPI_ERR_COUNT, Reduce_scatter, Ireduce_scatter, from, to, huge, MPI_INT, MPI_SUM);
    OK(MPI_Op_free(&ops[1]));
}

static void neighbours(void) {
    int periods[] = {1};
    MPI_Aint all = 2 * N;
    OK(MPI_Cart_create(MPI_COMM_WORLD, 1, &size, periods, 0, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    int two[] = {1, 2}, places[] = {0, N};
    MPI_Count two_large[] = {1, 2}, wrong[] = {1, -1}, too_many[] = {1, HUGE_COUNT};
    MPI_Aint far_places[] = {0, N}, byte_places[] = {0, N * sizeof(int)};
    SAME(Neighbor_allgather, Ineighbor_allgather, from, N, MPI_INT, to, N, MPI_INT);
    SAME(Neighbor_alltoall, Ineighbor_alltoall, from, N, MPI_INT, to, N, MPI_INT);
    /* What goes down arrives from above. */
    int turned[] = {2, 1};
    MPI_Count turned_large[] = {2, 1}, alike[] = {2, 2};
    EACH(Neighbor_allgatherv, Ineighbor_allgatherv,
         (from, 2, MPI_INT, to, ((int[]){2, 2}), places, MPI_INT),
         (from, 2, MPI_INT, to, alike, far_places, MPI_INT));
    EACH(Neighbor_alltoallv, Ineighbor_alltoallv,
         (from, two, places, MPI_INT, to, turned, places, MPI_INT),
         (from, two_large, far_places, MPI_INT, to, turned_large, far_places, MPI_INT));
    EACH(Neighbor_alltoallw, Ineighbor_alltoallw,
         (from, two, byte_places, types, to, turned, byte_places, types),
         (from, two_large, byte_places, types, to, turned_large, byte_places, types));
    WRONG(MPI_ERR_COUNT, Neighbor_allgather, Ineighbor_allgather, from, -1, MPI_INT, to, all, MPI_INT);
    WRONG(MPI_ERR_COUNT, Neighbor_alltoall, Ineighbor_alltoall, from, HUGE_COUNT, MPI_INT, to, N,
          MPI_INT);
    WRONG(MPI_ERR_COUNT, Neighbor_allgatherv, Ineighbor_allgatherv, from, 2, MPI_INT, to, wrong,
          far_places, MPI_INT);
    WRONG(MPI_ERR_COUNT, Neighbor_alltoallv, Ineighbor_alltoallv, from, too_many, far_places, MPI_INT,
          to, turned_large, far_places, MPI_INT);
    WRONG(MPI_ERR_COUNT, Neighbor_alltoallw, Ineighbor_alltoallw, from, wrong, byte_places, types, to,
          turned_large, byte_places, types);
    OK(MPI_Comm_free(&comm));
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    rank = world_rank();
    size = world_size();
    comm = MPI_COMM_WORLD;
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    for (int i = 0; i < 2 * MOST * N; i++) {
        from[i] = rank * 100 + i;
    }
    for (int i = 0; i < MOST; i++) {
        types[i] = MPI_INT;
    }
    for (int i = 0; i < size; i++) {
        counts[i] = 1 + i % N;
        displs[i] = (size - 1 - i) * N;
        bytes[i] = displs[i] * (int)sizeof(int);
        large[i] = counts[i];
        far[i] = displs[i];
        far_bytes[i] = bytes[i];
        negative[i] = i == size - 1 ? -(MPI_Count)5000000000 : 1;
        huge[i] = HUGE_COUNT;
    }
    equal();
    varying();
    distant();
    reductions();
    neighbours();
    OK(MPI_Finalize());
    return 0;
}
