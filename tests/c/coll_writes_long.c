/* All ways of all collectives by writes to each other's memory over a network, also those of long data in
 * pieces. Each goes that way, with roots in rotation and a late rank now and then, until numbers of phases have
 * wrapped; in place and not; with an operation that doesn't commute.
 *
 * ranks: 2 3 4 5
 * variants: ofi hosts verbs
 * env: WEFT_SHM=0
 * timeout: 120
 */
#define _DEFAULT_SOURCE
#include "coll.h"
#include <unistd.h>

enum { MOST = 300000 };

/* Bytes about every limit, in ints: of words, a slot, a piece, half of all slots and all of them. */
static const int lengths[] = {1,    2,    7,     8,     9,     100,   511,    512,    513,   2047, 2048,
                              2049, 4096, 16383, 16384, 16385, 33000, 70000, 262144, MOST};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

static int *in, *out;
static MPI_T_pvar_session session;
static MPI_T_pvar_handle handle;

static unsigned long long writes(void)
{
    unsigned long long value = 0;
    OK(MPI_T_pvar_read(session, handle, &value));
    return value;
}

static void bcast(MPI_Comm comm, int n, int call)
{
    int root = call % size;
    for (int i = 0; i < n; i++)
        out[i] = rank == root ? value(root, i, call) : -1;
    OK(MPI_Bcast(out, n, MPI_INT, root, comm));
    for (int i = 0; i < n; i++)
        CHECK(out[i] == value(root, i, call), "bcast %d of %d: [%d] is %d", call, n, i, out[i]);
}

static void reduce(MPI_Comm comm, int n, int call)
{
    int root = call % size, in_place = call % 3 == 0;
    for (int i = 0; i < n; i++)
        in[i] = i * (rank + 1) + call, out[i] = -1;
    if (in_place && rank == root)
        memcpy(out, in, n * sizeof *in);
    const void *given = in_place && rank == root ? MPI_IN_PLACE : in;
    OK(MPI_Reduce(given, out, n, MPI_INT, MPI_SUM, root, comm));
    for (int i = 0; i < n; i++) {
        int sum = i * size * (size + 1) / 2 + call * size, expect = rank == root ? sum : -1;
        CHECK(out[i] == expect, "reduce %d of %d to %d: [%d] is %d", call, n, root, i, out[i]);
    }
}

static void allreduce(MPI_Comm comm, int n, int call)
{
    int in_place = call % 3 == 0;
    for (int i = 0; i < n; i++)
        in[i] = i * (rank + 1) + call, out[i] = in_place ? in[i] : -1;
    OK(MPI_Allreduce(in_place ? MPI_IN_PLACE : in, out, n, MPI_INT, MPI_SUM, comm));
    for (int i = 0; i < n; i++) {
        int sum = i * size * (size + 1) / 2 + call * size;
        CHECK(out[i] == sum, "allreduce %d of %d: [%d] is %d", call, n, i, out[i]);
    }
}

static void allgather(MPI_Comm comm, int n, int call)
{
    int in_place = call % 3 == 0, *own = out + (size_t)rank * n;
    for (int i = 0; i < size * n; i++)
        out[i] = -1;
    for (int i = 0; i < n; i++)
        (in_place ? own : in)[i] = value(rank, i, call);
    OK(MPI_Allgather(in_place ? MPI_IN_PLACE : in, n, MPI_INT, out, n, MPI_INT, comm));
    for (int i = 0; i < size * n; i++)
        CHECK(out[i] == value(i / n, i % n, call), "allgather %d of %d: [%d] is %d", call, n, i, out[i]);
}

static void alltoall(MPI_Comm comm, int n, int call)
{
    int in_place = call % 3 == 0, *given = in_place ? out : in;
    for (int i = 0; i < size * n; i++)
        out[i] = -1, given[i] = value(rank, i, call);
    OK(MPI_Alltoall(in_place ? MPI_IN_PLACE : in, n, MPI_INT, out, n, MPI_INT, comm));
    for (int i = 0; i < size * n; i++)
        CHECK(out[i] == value(i / n, rank * n + i % n, call), "alltoall %d of %d: [%d] is %d", call, n, i, out[i]);
}

/* The composition of maps x -> a x + b, which doesn't commute; a and b are the halves of a number. */
static void compose(void *left, void *right, int *count, MPI_Datatype *type)
{
    unsigned *l = left, *r = right;
    (void)type;
    for (int i = 0; i < 2 * *count; i += 2) {
        unsigned a = l[i] * r[i], b = l[i] * r[i + 1] + l[i + 1];
        r[i] = a, r[i + 1] = b;
    }
}

static void in_order(MPI_Comm comm)
{
    MPI_Op op;
    OK(MPI_Op_create(compose, 0, &op));
    for (int call = 0; call < 20; call++) {
        int n = 1 + lengths[call % LENGTHS] / 2, root = call % size;
        unsigned *mine = (unsigned *)in, *sums = (unsigned *)out, a = 1, b = 0;
        for (int i = 0; i < 2 * n; i++)
            mine[i] = i % 2 ? rank + call : 2 * rank + 3, sums[i] = -1;
        for (int r = size; r-- > 0;)
            b = (2 * r + 3) * b + r + call, a *= 2 * r + 3;
        OK(MPI_Allreduce(in, out, n, MPI_UINT64_T, op, comm));
        for (int i = 0; i < 2 * n; i++)
            CHECK(sums[i] == (i % 2 ? b : a), "in order %d of %d: [%d] is %u", call, n, i, sums[i]);
        OK(MPI_Reduce(in, out, n, MPI_UINT64_T, op, root, comm));
        for (int i = 0; i < 2 * n && rank == root; i++)
            CHECK(sums[i] == (i % 2 ? b : a), "in order to %d of %d: [%d] is %u", root, n, i, sums[i]);
    }
    OK(MPI_Op_free(&op));
}

/* A way, and up to how many bytes of a vector or block it takes. */
static const struct {
    const char *way;
    void (*call)(MPI_Comm, int, int);
    int most;
} tests[] = {
    {"bcast=rdma", bcast, 4 << 20},
    {"bcast=rdma-binomial", bcast, 65536},
    {"bcast=rdma-chain", bcast, 4 << 20},
    {"reduce=rdma", reduce, 4 << 20},
    {"reduce=rdma-tree:1", reduce, 8192},
    {"reduce=rdma-tree:15", reduce, 8192},
    {"reduce=rdma-chain", reduce, 4 << 20},
    {"allreduce=rdma", allreduce, 4 << 20},
    {"allreduce=rdma-ring", allreduce, 4 << 20},
    {"allgather=rdma", allgather, 1 << 19},
    {"allgather=rdma-direct", allgather, 8192},
    {"allgather=rdma-doubling", allgather, 2048},
    {"allgather=rdma-ring", allgather, 1 << 19},
    {"alltoall=rdma", alltoall, 2048},
    {"alltoall=rdma-direct", alltoall, 8192},
    {"alltoall=rdma-doubling", alltoall, 2048},
};

static MPI_Comm all;
#ifdef LEADERS
static int alike;

/* Ranks in the order of their nodes, so that all collectives can go by nodes; `alike`, if these have as many each. */
static void sort_by_nodes(void)
{
    MPI_Comm node;
    int first = rank, here, most, least;
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
    OK(MPI_Bcast(&first, 1, MPI_INT, 0, node));
    OK(MPI_Comm_size(node, &here));
    OK(MPI_Comm_free(&node));
    OK(MPI_Comm_split(MPI_COMM_WORLD, 0, first * size + rank, &all));
    OK(MPI_Allreduce(&here, &most, 1, MPI_INT, MPI_MAX, all));
    OK(MPI_Allreduce(&here, &least, 1, MPI_INT, MPI_MIN, all));
    CHECK(most > 1 && least < size, "nodes of %d to %d ranks", least, most);
    alike = most == least;
    OK(MPI_Comm_rank(all, &rank));
}
#else
static void sort_by_nodes(void)
{
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &all));
}
#endif

static MPI_Comm with(const char *way)
{
    MPI_Info info;
    MPI_Comm comm;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "weft_coll", way));
    OK(MPI_Comm_dup_with_info(all, info, &comm));
    OK(MPI_Info_free(&info));
    for (int i = 0; i < 5; i++)
        OK(MPI_Barrier(comm));
    return comm;
}

int main(int argc, char **argv)
{
    int provided, index, count;
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    start(&argc, &argv);
    in = ints((size_t)size * MOST), out = ints((size_t)size * MOST);
    OK(MPI_T_pvar_session_create(&session));
    OK(MPI_T_pvar_get_index("collective_writes", MPI_T_PVAR_CLASS_COUNTER, &index));
    OK(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count));
    OK(MPI_T_pvar_start(session, handle));
    sort_by_nodes();
    for (unsigned test = 0; test < sizeof tests / sizeof *tests; test++) {
        MPI_Comm comm = with(tests[test].way);
        for (int call = 0; call < 2 * LENGTHS; call++) {
            int n = lengths[call % LENGTHS];
            int counted = 1;
            if ((long)n * 4 > tests[test].most)
                continue;
#ifdef LEADERS
            /* What is longer doesn't go by nodes, and alltoalls never do. */
            if ((long)n * 4 * (tests[test].call == allgather ? size : 1) > 8192)
                continue;
            counted = tests[test].call != alltoall && (tests[test].call != allgather || alike);
#endif
            if (rank == call % size && call % 7 == 0)
                usleep(3000);
            unsigned long long before = writes(), sum;
            tests[test].call(comm, n, call);
            sum = writes() - before;
            OK(MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD));
            CHECK(sum > 0 || !counted, "%s of %d went by messages", tests[test].way, n);
        }
        OK(MPI_Comm_free(&comm));
    }
    /* All of them one after the other, until numbers have wrapped. */
    MPI_Comm comm = with("bcast=rdma,reduce=rdma,allreduce=rdma,allgather=rdma,alltoall=rdma");
    unsigned which = size;
    for (int call = 0; call < 1300; call++) {
        which = which * 1664525 + 1013904223;
        unsigned test = (which >> 16) % (sizeof tests / sizeof *tests);
        int n = lengths[(which >> 8) % (LENGTHS - 6)];
        if (rank == call % size && call % 100 == 0)
            usleep(3000);
        tests[test].call(comm, n, call);
    }
    in_order(comm);
    OK(MPI_Comm_free(&comm));
    OK(MPI_Comm_free(&all));
    free(in), free(out);
    OK(MPI_T_pvar_session_free(&session));
    MPI_Finalize();
    MPI_T_finalize();
    return 0;
}
