/* Collectives over several nodes with shared slots on each node: that this path is taken, on several communicators, in
 * any order of ranks, beside nonblocking ones, and in several threads.
 *
 * ranks: 3 4 5 7
 * variants: hosts tcp-hosts ucx-hosts verbs-hosts
 * cflags: -pthread
 * case: one
 * case: threads
 * case: messages
 * timeout: 90
 */
#define _DEFAULT_SOURCE
#include "coll.h"
#include <pthread.h>

enum { COMMS = 4, MOST = 3000, CALLS = 50 };

/* Bytes about every limit of slots and of the way by nodes, in ints. */
static const int lengths[] = {1, 2, 7, 12, 13, 64, 65, 500, 1024, 2047, 2048, 2049, MOST};

/* A sequence that is the same on all ranks. */
static unsigned next(unsigned *state)
{
    *state = *state * 1664525 + 1013904223;
    return *state >> 16;
}

struct member {
    MPI_Comm comm;
    unsigned seed;
};

/* Collectives of all kinds on a communicator, blocking ones among others that are under way. */
static void *collectives(void *argument)
{
    struct member *member = argument;
    MPI_Comm comm = member->comm;
    int me, ranks;
    OK(MPI_Comm_rank(comm, &me));
    OK(MPI_Comm_size(comm, &ranks));
    int *data = ints(MOST), *sums = ints(MOST), *flying = ints(MOST), *flown = ints(MOST);
    MPI_Request request = MPI_REQUEST_NULL;
    int flies = 0, its = 0;
    for (int call = 0; call < CALLS; call++) {
        int n = lengths[next(&member->seed) % (sizeof lengths / sizeof *lengths)];
        int root = next(&member->seed) % ranks;
        switch (next(&member->seed) % 6) {
        case 0:
            OK(MPI_Barrier(comm));
            break;
        case 1:
            for (int i = 0; i < n; i++)
                data[i] = me == root ? value(root, i, call) : -1;
            OK(MPI_Bcast(data, n, MPI_INT, root, comm));
            for (int i = 0; i < n; i++)
                CHECK(data[i] == value(root, i, call), "bcast %d from %d: [%d] is %d", call, root, i, data[i]);
            break;
        case 2:
        case 3:
            for (int i = 0; i < n; i++)
                data[i] = i * (me + 1) + call, sums[i] = -1;
            OK(MPI_Allreduce(data, sums, n, MPI_INT, MPI_SUM, comm));
            for (int i = 0; i < n; i++)
                CHECK(sums[i] == i * ranks * (ranks + 1) / 2 + call * ranks, "%d: [%d] is %d", call, i, sums[i]);
            break;
        case 4:
            for (int i = 0; i < n; i++)
                data[i] = i * (me + 1) + call;
            OK(MPI_Allreduce(MPI_IN_PLACE, data, n, MPI_INT, MPI_MAX, comm));
            for (int i = 0; i < n; i++)
                CHECK(data[i] == i * ranks + call, "max %d: [%d] is %d", call, i, data[i]);
            break;
        default:
            if (flies) {
                OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
                for (int i = 0; i < flies; i++)
                    CHECK(flown[i] == (i + its) * ranks, "iallreduce %d: [%d] is %d", its, i, flown[i]);
            }
            flies = n, its = call;
            for (int i = 0; i < n; i++)
                flying[i] = i + call;
            OK(MPI_Iallreduce(flying, flown, n, MPI_INT, MPI_SUM, comm, &request));
        }
    }
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Barrier(comm));
    free(data), free(sums), free(flying), free(flown);
    return NULL;
}

int main(int argc, char **argv)
{
    int provided, threads = argc > 1 && strcmp(argv[1], "threads") == 0;
    /* Between the nodes by messages. */
    if (argc > 1 && strcmp(argv[1], "messages") == 0)
        setenv("WEFT_COLL", "rdma=off", 1);
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    OK(MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    MPI_T_pvar_session session;
    OK(MPI_T_pvar_session_create(&session));

    MPI_Comm node;
    int place, here, nodes;
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
    OK(MPI_Comm_rank(node, &place));
    OK(MPI_Comm_size(node, &here));
    OK(MPI_Comm_free(&node));
    nodes = place == 0;
    OK(MPI_Allreduce(MPI_IN_PLACE, &nodes, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK(nodes > 1 && nodes < size, "%d nodes for %d ranks", nodes, size);

    for (int i = 0; i < 5; i++)
        OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_T_pvar_handle handle;
    int index, count;
    unsigned long long by_slots;
    OK(MPI_T_pvar_get_index("collective_node_slots", MPI_T_PVAR_CLASS_COUNTER, &index));
    OK(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count));
    OK(MPI_T_pvar_start(session, handle));
    for (int i = 0; i < 100; i++)
        OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_T_pvar_read(session, handle, &by_slots));
    CHECK(by_slots == (here > 1 ? 100 : 0), "%llu of 100 barriers by slots, %d ranks here", by_slots, here);

    /* Of all ranks, also in the opposite order, of every other, and of all but the first. */
    struct member members[COMMS];
    int made = 0;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &members[made++].comm));
    OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &members[made++].comm));
    OK(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &members[made++].comm));
    OK(MPI_Comm_split(MPI_COMM_WORLD, rank ? 0 : MPI_UNDEFINED, rank, &members[made++].comm));
    pthread_t ids[COMMS];
    for (int i = 0; i < made; i++) {
        members[i].seed = 17 * i + size;
        if (members[i].comm == MPI_COMM_NULL)
            continue;
        if (threads)
            CHECK(pthread_create(&ids[i], NULL, collectives, &members[i]) == 0, "no thread");
        else
            collectives(&members[i]);
    }
    for (int i = 0; i < made; i++) {
        if (members[i].comm == MPI_COMM_NULL)
            continue;
        if (threads)
            pthread_join(ids[i], NULL);
        OK(MPI_Comm_free(&members[i].comm));
    }
    /* More communicators than have slots at a time, some of them for long. */
    MPI_Comm kept[8];
    for (int i = 0; i < 20; i++) {
        MPI_Comm comm;
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        for (int k = 0; k < 7; k++) {
            int sum = rank;
            OK(MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, comm));
            CHECK(sum == size * (size - 1) / 2, "%d", sum);
        }
        if (i < 8)
            kept[i] = comm;
        else
            OK(MPI_Comm_free(&comm));
    }
    for (int i = 0; i < 8; i++) {
        OK(MPI_Barrier(kept[i]));
        OK(MPI_Comm_free(&kept[i]));
    }
    OK(MPI_T_pvar_session_free(&session));
    MPI_Finalize();
    MPI_T_finalize();
    return 0;
}
