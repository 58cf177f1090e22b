/* Collectives by writes to each other's memory over a network: that they go that way at all, 300 barriers
 * with a late rank, roots in rotation, all lengths about every limit, all shapes of allreduce in turn.
 *
 * ranks: 2 3 4 5
 * variants: ofi hosts ucx verbs
 * env: WEFT_SHM=0
 * env: WEFT_COLL=rdma=on
 * timeout: 40
 */
#define _DEFAULT_SOURCE
#include "coll.h"
#include <unistd.h>

enum { MOST = 5000 };

static const int lengths[] = {1, 2, 3, 7, 8, 9, 12, 13, 256, 1152, 2047, 2048, 2049, MOST};
static int data[MOST], sums[MOST];

static MPI_T_pvar_session session;
static MPI_T_pvar_handle handle;

static void count_writes(void)
{
    int index, count;
    OK(MPI_T_pvar_session_create(&session));
    OK(MPI_T_pvar_get_index("collective_writes", MPI_T_PVAR_CLASS_COUNTER, &index));
    OK(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count));
    OK(MPI_T_pvar_start(session, handle));
}

/* Writes of collectives since then. */
static unsigned long long writes(void)
{
    unsigned long long value = 0;
    OK(MPI_T_pvar_read(session, handle, &value));
    return value;
}

static void bcasts(MPI_Comm comm, int number)
{
    int n = lengths[number % (sizeof lengths / sizeof *lengths)], root = number % size;
    for (int i = 0; i < n; i++)
        data[i] = rank == root ? i + number : -1;
    OK(MPI_Bcast(data, n, MPI_INT, root, comm));
    for (int i = 0; i < n; i++)
        CHECK(data[i] == i + number, "bcast %d of %d: [%d] is %d", number, n, i, data[i]);
}

static void allreduces(MPI_Comm comm, int number)
{
    int n = lengths[number % (sizeof lengths / sizeof *lengths)];
    for (int i = 0; i < n; i++)
        data[i] = i * (rank + 1) + number, sums[i] = -1;
    OK(MPI_Allreduce(data, sums, n, MPI_INT, MPI_SUM, comm));
    for (int i = 0; i < n; i++)
        CHECK(sums[i] == i * size * (size + 1) / 2 + number * size, "%d: [%d] is %d", n, i, sums[i]);
    OK(MPI_Allreduce(MPI_IN_PLACE, data, n, MPI_INT, MPI_MAX, comm));
    for (int i = 0; i < n; i++)
        CHECK(data[i] == i * size + number, "max %d: [%d] is %d", n, i, data[i]);
}

/* Nobody may be through before the late one comes, which tells when it did. */
static void late_barrier(MPI_Comm comm, int late)
{
    if (rank == late)
        usleep(20000);
    double came = MPI_Wtime();
    OK(MPI_Barrier(comm));
    double left = MPI_Wtime();
    OK(MPI_Bcast(&came, 1, MPI_DOUBLE, late, comm));
    CHECK(left >= came, "left a barrier %g s before %d came", came - left, late);
}

/* The writes of this rank in a barrier: of those that write, to ranks 1, 2, 4, … further on. */
static unsigned long long writes_of_barrier(void)
{
    int writers = size;
#ifdef LEADERS
    MPI_Comm node;
    int place, leads;
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
    OK(MPI_Comm_rank(node, &place));
    leads = place == 0;
    OK(MPI_Allreduce(&leads, &writers, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    OK(MPI_Comm_free(&node));
    CHECK(writers > 1 && writers < size, "%d nodes for %d ranks", writers, size);
    if (!leads)
        return 0;
#endif
    unsigned long long rounds = 0;
    while (1 << rounds < writers)
        rounds++;
    return rounds;
}

int main(int argc, char **argv)
{
    int provided;
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    start(&argc, &argv);
    static const char *ways[] = {"allreduce=rdma-pairs", "allreduce=rdma-tree:1", "allreduce=rdma-tree:3",
                                 "allreduce=rdma-tree:15", "allreduce=auto"};
    for (int i = 0; i < 5; i++)
        OK(MPI_Barrier(MPI_COMM_WORLD));
    count_writes();
    unsigned long long rounds = writes_of_barrier(), before = writes();
    for (int i = 0; i < 300; i++)
        OK(MPI_Barrier(MPI_COMM_WORLD));
    unsigned long long after = writes();
    CHECK(after - before == 300 * rounds, "%llu writes for 300 barriers", after - before);
    for (int i = 0; i < 5; i++)
        late_barrier(MPI_COMM_WORLD, i % size);
    for (int i = 0; i < 120; i++) {
        if (rank == i / 24 % size && i % 24 == 0)
            usleep(10000);
        bcasts(MPI_COMM_WORLD, i);
        if (i % 10 == 0)
            allreduces(MPI_COMM_WORLD, i);
    }
    for (int way = 0; way < 5; way++) {
        MPI_Info info;
        MPI_Comm comm;
        OK(MPI_Info_create(&info));
        OK(MPI_Info_set(info, "weft_coll", ways[way]));
        OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm));
        OK(MPI_Info_free(&info));
        for (int i = 0; i < 15; i++) {
            if (rank == i % size && i % 13 == 0)
                usleep(3000);
            allreduces(comm, i);
            if (i % 3 == 0)
                bcasts(comm, i);
        }
        OK(MPI_Comm_free(&comm));
    }
    /* More communicators than have slots at a time, one after the other. */
    for (int i = 0; i < 66; i++) {
        MPI_Comm comm;
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        for (int k = 0; k < 6; k++)
            bcasts(comm, k);
        OK(MPI_Comm_free(&comm));
    }
    OK(MPI_T_pvar_session_free(&session));
    MPI_Finalize();
    MPI_T_finalize();
    return 0;
}
