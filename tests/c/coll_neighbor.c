/* Neighbourhood collectives on all kinds of topologies, blocking and nonblocking.
 *
 * ranks: 1 2 3 4 6 8
 */
#include "coll.h"

static MPI_Comm comm;
static int me, indegree, outdegree, cartesian;
static int *sources, *destinations;
static MPI_Request request;

#define EITHER(name, iname, ...)                                                                   \
    do {                                                                                           \
        if (nonblocking) {                                                                         \
            OK(MPI_##iname(__VA_ARGS__, &request));                                                \
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));                                             \
        } else {                                                                                   \
            OK(MPI_##name(__VA_ARGS__));                                                           \
        }                                                                                          \
    } while (0)

/* Which of its blocks the source with number `in` sends here. In Cartesian topologies what goes
 * down arrives from above; otherwise the k-th edge between two ranks is the k-th on both sides. All
 * topologies here but Cartesian ones have each edge once. */
static int block_of(int in, const int *theirs, int count)
{
    if (cartesian)
        return in ^ 1;
    for (int i = 0; i < count; i++)
        if (theirs[i] == me)
            return i;
    return -1;
}

/* Everybody's destinations, at most MOST each. */
enum { MOST = 16 };
static int edges[64][MOST], edge_count[64];

static void collect(void)
{
    int size_here, mine[MOST];
    OK(MPI_Comm_size(comm, &size_here));
    for (int i = 0; i < MOST; i++)
        mine[i] = i < outdegree ? destinations[i] : -9;
    OK(MPI_Allgather(mine, MOST, MPI_INT, edges, MOST, MPI_INT, comm));
    OK(MPI_Allgather(&outdegree, 1, MPI_INT, edge_count, 1, MPI_INT, comm));
}

static void exchange(int n, int nonblocking)
{
    int take = indegree * n, give = outdegree * n;
    int *own = ints(n), *in = ints(take), *out = ints(give);
    int *got = ints(indegree), *to = ints(indegree), *sent = ints(outdegree), *from = ints(outdegree);
    MPI_Aint *far_to = malloc((indegree + 1) * sizeof(MPI_Aint));
    MPI_Aint *far_from = malloc((outdegree + 1) * sizeof(MPI_Aint));
    MPI_Datatype *in_types = (MPI_Datatype *)ints(indegree * sizeof(MPI_Datatype) / sizeof(int));
    MPI_Datatype *out_types = (MPI_Datatype *)ints(outdegree * sizeof(MPI_Datatype) / sizeof(int));
    for (int i = 0; i < n; i++)
        own[i] = value(me, i, n);
    for (int i = 0; i < give; i++)
        out[i] = value(me, i, n);
    for (int i = 0; i < indegree; i++) {
        got[i] = n;
        to[i] = (indegree - 1 - i) * n;
        far_to[i] = to[i] * (MPI_Aint)sizeof(int);
        in_types[i] = MPI_INT;
    }
    for (int i = 0; i < outdegree; i++) {
        sent[i] = n;
        from[i] = i * n;
        far_from[i] = from[i] * (MPI_Aint)sizeof(int);
        out_types[i] = MPI_INT;
    }
    for (int way = 0; way < 5; way++) {
        for (int i = 0; i < take; i++)
            in[i] = -1;
        switch (way) {
        case 0:
            EITHER(Neighbor_allgather, Ineighbor_allgather, own, n, MPI_INT, in, n, MPI_INT, comm);
            break;
        case 1:
            EITHER(Neighbor_allgatherv, Ineighbor_allgatherv, own, n, MPI_INT, in, got, to, MPI_INT,
                   comm);
            break;
        case 2:
            EITHER(Neighbor_alltoall, Ineighbor_alltoall, out, n, MPI_INT, in, n, MPI_INT, comm);
            break;
        case 3:
            EITHER(Neighbor_alltoallv, Ineighbor_alltoallv, out, sent, from, MPI_INT, in, got, to,
                   MPI_INT, comm);
            break;
        case 4:
            EITHER(Neighbor_alltoallw, Ineighbor_alltoallw, out, sent, far_from, out_types, in, got,
                   far_to, in_types, comm);
            break;
        }
        for (int i = 0; i < indegree; i++) {
            int s = sources[i], *block = in + (way == 0 || way == 2 ? i * n : to[i]);
            int first = way < 2 || s < 0 ? 0 : n * block_of(i, edges[s], edge_count[s]);
            for (int k = 0; k < n; k++) {
                int want = s < 0 ? -1 : value(s, first + k, n);
                CHECK(block[k] == want, "way %d, source %d (%d): %d, not %d", way, i, s, block[k],
                      want);
            }
        }
        CHECK(in[take] == -1, "wrote beyond the end");
    }
    free(own);
    free(in);
    free(out);
    free(got);
    free(to);
    free(sent);
    free(from);
    free(far_to);
    free(far_from);
    free(in_types);
    free(out_types);
}

static void all(void)
{
    OK(MPI_Comm_rank(comm, &me));
    collect();
    for (int nonblocking = 0; nonblocking < 2; nonblocking++) {
        exchange(1, nonblocking);
        exchange(100, nonblocking);
        exchange(5000, nonblocking);
    }
    free(sources);
    free(destinations);
    OK(MPI_Comm_free(&comm));
}

static void cartesian_grid(int dimensions, int periodic)
{
    int dims[3] = {0}, periods[3];
    for (int i = 0; i < 3; i++)
        periods[i] = periodic;
    OK(MPI_Dims_create(size, dimensions, dims));
    OK(MPI_Cart_create(MPI_COMM_WORLD, dimensions, dims, periods, 0, &comm));
    cartesian = 1;
    indegree = outdegree = 2 * dimensions;
    sources = ints(indegree);
    destinations = ints(outdegree);
    for (int i = 0; i < dimensions; i++)
        OK(MPI_Cart_shift(comm, i, 1, &sources[2 * i], &sources[2 * i + 1]));
    memcpy(destinations, sources, indegree * sizeof(int));
    all();
}

/* A star: rank 0 and everybody else. */
static void star(void)
{
    int *index = ints(size), *list = ints(2 * size);
    for (int r = 0; r < size; r++) {
        index[r] = size - 1 + r;
        list[r > 0 ? r - 1 : 0] = r;
    }
    for (int i = size - 1; i < 2 * size; i++)
        list[i] = 0;
    OK(MPI_Graph_create(MPI_COMM_WORLD, size, index, list, 0, &comm));
    cartesian = 0;
    indegree = outdegree = rank == 0 ? size - 1 : 1;
    sources = ints(indegree);
    destinations = ints(outdegree);
    for (int i = 0; i < indegree; i++)
        sources[i] = destinations[i] = rank == 0 ? i + 1 : 0;
    free(index);
    free(list);
    all();
}

/* One way round a ring and to rank 0; the last rank sends to nobody, the first two to themselves. */
static void directed(void)
{
    int count = 0, in = 0;
    sources = ints(2 * size + 2);
    destinations = ints(3);
    for (int r = size - 1; r >= 0; r--) {
        int to[3], n = 0;
        if (r != size - 1) {
            to[n++] = r + 1;
            if (r > 0)
                to[n++] = 0;
            if (r < 2)
                to[n++] = r;
        }
        for (int i = 0; i < n; i++) {
            if (to[i] == rank)
                sources[in++] = r;
            if (r == rank)
                destinations[count++] = to[i];
        }
    }
    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, in, sources, MPI_UNWEIGHTED, count,
                                      destinations, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm));
    cartesian = 0;
    indegree = in;
    outdegree = count;
    all();
}

int main(int argc, char **argv)
{
    int in[4] = {0}, out[4];
    start(&argc, &argv);
    for (int dimensions = 1; dimensions <= 3; dimensions++)
        for (int periodic = 0; periodic < 2; periodic++)
            cartesian_grid(dimensions, periodic);
    if (size > 1)
        star();
    directed();
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    FAILS(MPI_ERR_TOPOLOGY, MPI_Neighbor_allgather(in, 1, MPI_INT, out, 1, MPI_INT, MPI_COMM_WORLD));
    MPI_Finalize();
    return 0;
}
