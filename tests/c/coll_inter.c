/* Collectives between the two groups of an intercommunicator, blocking and nonblocking.
 *
 * ranks: 2 3 4 7 8
 */
#include "coll.h"

static MPI_Comm inter;
/* Which group this is, the ranks in both, and the first rank of each in MPI_COMM_WORLD. */
static int mine, me, here, there, first[2];

/* What element i is at rank r of group g. */
static int at(int g, int r, int i, int k)
{
    return value(first[g] + r, i, k);
}

static int sum(int g, int ranks, int i, int k)
{
    unsigned total = 0;
    for (int r = 0; r < ranks; r++)
        total += (unsigned)at(g, r, i, k);
    return (int)total;
}

static MPI_Request request;

/* Blocking or nonblocking. */
#define EITHER(name, iname, ...)                                                                   \
    do {                                                                                           \
        if (nonblocking) {                                                                         \
            OK(MPI_##iname(__VA_ARGS__, &request));                                                \
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));                                             \
        } else {                                                                                   \
            OK(MPI_##name(__VA_ARGS__));                                                           \
        }                                                                                          \
    } while (0)

/* Rank `r` of group `g` is the root. */
static void rooted(int n, int g, int r, int nonblocking)
{
    int root = g != mine ? r : me == r ? MPI_ROOT : MPI_PROC_NULL;
    int is_root = root == MPI_ROOT, leaf = g != mine, other = root == MPI_PROC_NULL;
    size_t all = (size_t)n * there;
    int *one = ints(n), *whole = ints(all), *counts = ints(there), *displs = ints(there);
    for (int i = 0; i < n; i++)
        one[i] = is_root ? at(g, r, i, 1) : -1;
    EITHER(Bcast, Ibcast, other ? NULL : one, n, MPI_INT, root, inter);
    for (int i = 0; i < n; i++)
        CHECK(one[i] == (other ? -1 : at(g, r, i, 1)), "element %d", i);

    for (int i = 0; i < n; i++)
        one[i] = at(mine, me, i, 2);
    EITHER(Gather, Igather, leaf ? one : NULL, n, MPI_INT, is_root ? whole : NULL, n, MPI_INT, root,
           inter);
    for (size_t i = 0; i < all; i++)
        CHECK(whole[i] == (is_root ? at(!g, (int)(i / n), (int)(i % n), 2) : -1), "element %zu", i);
    int place = 0;
    for (int k = there - 1; k >= 0; k--) {
        counts[k] = k % 2 ? n : n / 2;
        displs[k] = place;
        place += counts[k];
    }
    EITHER(Gatherv, Igatherv, one, me % 2 ? n : n / 2, MPI_INT, whole, counts, displs, MPI_INT,
           root, inter);
    for (int k = 0; k < there && is_root; k++)
        for (int i = 0; i < counts[k]; i++)
            CHECK(whole[displs[k] + i] == at(!g, k, i, 2), "element %d of %d", i, k);

    for (size_t i = 0; i < all; i++)
        whole[i] = at(mine, me, (int)i, 3);
    for (int i = 0; i < n; i++)
        one[i] = -1;
    EITHER(Scatter, Iscatter, whole, n, MPI_INT, one, n, MPI_INT, root, inter);
    for (int i = 0; i < n; i++)
        CHECK(one[i] == (leaf ? at(g, r, me * n + i, 3) : -1), "element %d", i);
    for (int k = 0; k < there; k++)
        counts[k] = n;
    for (int k = 0; k < there; k++)
        displs[k] = (there - 1 - k) * n;
    for (int i = 0; i < n; i++)
        one[i] = -1;
    EITHER(Scatterv, Iscatterv, whole, counts, displs, MPI_INT, one, n, MPI_INT, root, inter);
    for (int i = 0; i < n; i++)
        CHECK(one[i] == (leaf ? at(g, r, (here - 1 - me) * n + i, 3) : -1), "element %d", i);

    int *result = ints(n);
    for (int i = 0; i < n; i++)
        one[i] = at(mine, me, i, 4);
    EITHER(Reduce, Ireduce, one, result, n, MPI_INT, MPI_SUM, root, inter);
    for (int i = 0; i < n; i++)
        CHECK(result[i] == (is_root ? sum(!g, there, i, 4) : -1), "element %d", i);
    free(one);
    free(whole);
    free(counts);
    free(displs);
    free(result);
}

static void all_to_all(int n, int nonblocking)
{
    size_t all = (size_t)n * there;
    int *out = ints(all), *in = ints(all);
    int *counts = ints(there), *displs = ints(there), *bytes = ints(there);
    MPI_Datatype *types = (MPI_Datatype *)ints(there * sizeof(MPI_Datatype) / sizeof(int));
    for (int k = 0; k < there; k++) {
        counts[k] = n;
        displs[k] = k * n;
        bytes[k] = k * n * (int)sizeof(int);
        types[k] = MPI_INT;
    }
    if (nonblocking) {
        OK(MPI_Ibarrier(inter, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    } else {
        OK(MPI_Barrier(inter));
    }
#define FRESH()                                                                                    \
    for (size_t i = 0; i < all; i++)                                                               \
        out[i] = at(mine, me, (int)i, 5), in[i] = -1
    FRESH();
    EITHER(Allgather, Iallgather, out, n, MPI_INT, in, n, MPI_INT, inter);
    for (size_t i = 0; i < all; i++)
        CHECK(in[i] == at(!mine, (int)(i / n), (int)(i % n), 5), "element %zu", i);
    FRESH();
    EITHER(Allgatherv, Iallgatherv, out, n, MPI_INT, in, counts, displs, MPI_INT, inter);
    for (size_t i = 0; i < all; i++)
        CHECK(in[i] == at(!mine, (int)(i / n), (int)(i % n), 5), "element %zu", i);
    for (int way = 0; way < 3; way++) {
        FRESH();
        if (way == 0)
            EITHER(Alltoall, Ialltoall, out, n, MPI_INT, in, n, MPI_INT, inter);
        else if (way == 1)
            EITHER(Alltoallv, Ialltoallv, out, counts, displs, MPI_INT, in, counts, displs, MPI_INT,
                   inter);
        else
            EITHER(Alltoallw, Ialltoallw, out, counts, bytes, types, in, counts, bytes, types,
                   inter);
        for (size_t i = 0; i < all; i++)
            CHECK(in[i] == at(!mine, (int)(i / n), me * n + (int)(i % n), 5), "element %zu", i);
    }
    FRESH();
    EITHER(Allreduce, Iallreduce, out, in, n, MPI_INT, MPI_SUM, inter);
    for (int i = 0; i < n; i++)
        CHECK(in[i] == sum(!mine, there, i, 5), "element %d", i);

    /* Both groups give as many elements: n for every pair of ranks. */
    int give = n * here * there, take = n * there;
    int *many = ints(give), *few = ints(take), *takes = ints(here);
    for (int i = 0; i < give; i++)
        many[i] = at(mine, me, i, 6);
    EITHER(Reduce_scatter_block, Ireduce_scatter_block, many, few, take, MPI_INT, MPI_SUM, inter);
    for (int i = 0; i < take; i++)
        CHECK(few[i] == sum(!mine, there, me * take + i, 6), "element %d", i);
    for (int k = 0; k < here; k++)
        takes[k] = k == 0 ? give - (here - 1) : 1;
    free(few);
    few = ints(give);
    EITHER(Reduce_scatter, Ireduce_scatter, many, few, takes, MPI_INT, MPI_SUM, inter);
    int before = me == 0 ? 0 : takes[0] + me - 1;
    for (int i = 0; i < takes[me]; i++)
        CHECK(few[i] == sum(!mine, there, before + i, 6), "element %d", i);
    free(out);
    free(in);
    free(counts);
    free(displs);
    free(bytes);
    free(types);
    free(many);
    free(few);
    free(takes);
}

static void errors(void)
{
    int in[64] = {0}, out[64];
    MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
    FAILS(MPI_ERR_ROOT, MPI_Bcast(in, 1, MPI_INT, there, inter));
    FAILS(MPI_ERR_ROOT, MPI_Bcast(in, 1, MPI_INT, -5, inter));
    FAILS(MPI_ERR_BUFFER, MPI_Allreduce(MPI_IN_PLACE, out, 1, MPI_INT, MPI_SUM, inter));
    FAILS(MPI_ERR_BUFFER, MPI_Allgather(MPI_IN_PLACE, 1, MPI_INT, out, 1, MPI_INT, inter));
    FAILS(MPI_ERR_COMM, MPI_Scan(in, out, 1, MPI_INT, MPI_SUM, inter));
    FAILS(MPI_ERR_COMM, MPI_Exscan(in, out, 1, MPI_INT, MPI_SUM, inter));
    OK(MPI_Barrier(inter));
}

int main(int argc, char **argv)
{
    MPI_Comm local;
    start(&argc, &argv);
    /* The first third against the rest. */
    int split = (size + 2) / 3;
    mine = rank >= split;
    first[1] = split;
    OK(MPI_Comm_split(MPI_COMM_WORLD, mine, rank, &local));
    OK(MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, mine ? 0 : split, 3, &inter));
    OK(MPI_Comm_rank(inter, &me));
    OK(MPI_Comm_size(inter, &here));
    OK(MPI_Comm_remote_size(inter, &there));
    for (int n = 1; n <= 30000; n = n * 9 + 1)
        for (int nonblocking = 0; nonblocking < 2; nonblocking++) {
            for (int g = 0; g < 2; g++)
                for (int r = 0; r < (g == mine ? here : there); r++)
                    rooted(n, g, r, nonblocking);
            all_to_all(n, nonblocking);
        }
    errors();
    OK(MPI_Comm_free(&inter));
    OK(MPI_Comm_free(&local));
    MPI_Finalize();
    return 0;
}
