/* Wrong uses of persistent collectives; and right ones on intercommunicators.
 * ranks: 2 3
 */
#include "fails.h"

static int rank, size;

static void between(void) {
    MPI_Comm half, inter;
    int upper = rank >= size / 2, leader = upper ? 0 : size / 2, mine = rank + 1, sum = -1, word = -1;
    MPI_Request requests[3];
    OK(MPI_Comm_split(MPI_COMM_WORLD, upper, 0, &half));
    OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, leader, 3, &inter));
    int root = upper ? 0 : rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
    OK(MPI_Barrier_init(inter, MPI_INFO_NULL, &requests[0]));
    OK(MPI_Allreduce_init(&mine, &sum, 1, MPI_INT, MPI_SUM, inter, MPI_INFO_NULL, &requests[1]));
    OK(MPI_Bcast_init(&word, 1, MPI_INT, root, inter, MPI_INFO_NULL, &requests[2]));
    for (int round = 0; round < 4; round++) {
        word = rank == 0 ? round : -1;
        for (int i = 0; i < 3; i++) {
            OK(MPI_Start(&requests[(i + rank) % 3]));
        }
        OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
        int others = 0;
        for (int i = 0; i < size; i++) {
            others += (i >= size / 2) != upper ? i + 1 : 0;
        }
        CHECK_EQ(sum, others);
        CHECK_EQ(word, upper || rank == 0 ? round : -1);
    }
    for (int i = 0; i < 3; i++) {
        OK(MPI_Request_free(&requests[i]));
    }
    FAILS(MPI_Scan_init(&mine, &sum, 1, MPI_INT, MPI_SUM, inter, MPI_INFO_NULL, &requests[0]),
          MPI_ERR_COMM);
    OK(MPI_Comm_free(&inter));
    OK(MPI_Comm_free(&half));
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    rank = world_rank();
    size = world_size();
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Request request = MPI_REQUEST_NULL, two[2];
    MPI_Info none = MPI_INFO_NULL;
    int a[8] = {0}, b[8] = {0}, flag;
    FAILS(MPI_Barrier_init(MPI_COMM_NULL, none, &request), MPI_ERR_COMM);
    FAILS(MPI_Barrier_init(world, none, NULL), MPI_ERR_ARG);
    FAILS(MPI_Barrier_init(world, (MPI_Info)12345, &request), MPI_ERR_INFO);
    FAILS(MPI_Bcast_init(a, 1, MPI_INT, size, world, none, &request), MPI_ERR_ROOT);
    FAILS(MPI_Bcast_init(a, -1, MPI_INT, 0, world, none, &request), MPI_ERR_COUNT);
    FAILS(MPI_Gather_init(a, 1, MPI_DATATYPE_NULL, b, 1, MPI_INT, 0, world, none, &request), MPI_ERR_TYPE);
    FAILS(MPI_Gatherv_init(a, 1, MPI_INT, b, NULL, NULL, MPI_INT, rank, world, none, &request), MPI_ERR_ARG);
    FAILS(MPI_Scatter_init(a, 1, MPI_INT, b, 1, MPI_INT, -5, world, none, &request), MPI_ERR_ROOT);
    FAILS(MPI_Scatterv_init(a, NULL, NULL, MPI_INT, b, 1, MPI_INT, rank, world, none, &request), MPI_ERR_ARG);
    FAILS(MPI_Allgather_init(a, 1, MPI_INT, NULL, 1, MPI_INT, world, none, &request), MPI_ERR_BUFFER);
    FAILS(MPI_Allgatherv_init(a, 1, MPI_INT, b, NULL, NULL, MPI_INT, world, none, &request), MPI_ERR_ARG);
    FAILS(MPI_Alltoall_init(a, 1, MPI_INT, a, 1, MPI_INT, world, none, &request), MPI_ERR_BUFFER);
    FAILS(MPI_Alltoallv_init(a, NULL, NULL, MPI_INT, b, NULL, NULL, MPI_INT, world, none, &request), MPI_ERR_ARG);
    FAILS(MPI_Alltoallw_init(a, NULL, NULL, NULL, b, NULL, NULL, NULL, world, none, &request), MPI_ERR_ARG);
    FAILS(MPI_Reduce_init(a, b, 1, MPI_INT, MPI_OP_NULL, 0, world, none, &request), MPI_ERR_OP);
    FAILS(MPI_Allreduce_init(a, a, 1, MPI_INT, MPI_SUM, world, none, &request), MPI_ERR_BUFFER);
    FAILS(MPI_Reduce_scatter_block_init(a, b, -1, MPI_INT, MPI_SUM, world, none, &request), MPI_ERR_COUNT);
    FAILS(MPI_Reduce_scatter_init(a, b, NULL, MPI_INT, MPI_SUM, world, none, &request), MPI_ERR_ARG);
    FAILS(MPI_Scan_init(a, b, 1, MPI_FLOAT, MPI_BAND, world, none, &request), MPI_ERR_OP);
    FAILS(MPI_Exscan_init(a, b, 1, MPI_INT, MPI_SUM, MPI_COMM_NULL, none, &request), MPI_ERR_COMM);
    FAILS(MPI_Neighbor_allgather_init(a, 1, MPI_INT, b, 1, MPI_INT, world, none, &request), MPI_ERR_TOPOLOGY);
    FAILS(MPI_Neighbor_allgatherv_init(a, 1, MPI_INT, b, a, a, MPI_INT, world, none, &request), MPI_ERR_TOPOLOGY);
    FAILS(MPI_Neighbor_alltoall_init(a, 1, MPI_INT, b, 1, MPI_INT, world, none, &request), MPI_ERR_TOPOLOGY);
    FAILS(MPI_Neighbor_alltoallv_init(a, a, a, MPI_INT, b, b, b, MPI_INT, world, none, &request), MPI_ERR_TOPOLOGY);
    FAILS(MPI_Neighbor_alltoallw_init(a, a, NULL, NULL, b, b, NULL, NULL, world, none, &request), MPI_ERR_TOPOLOGY);
    CHECK(request == MPI_REQUEST_NULL);

    /* Active: neither started nor freed nor cancelled. */
    OK(MPI_Barrier_init(world, none, &two[0]));
    OK(MPI_Allreduce_init(a, b, 8, MPI_INT, MPI_SUM, world, none, &two[1]));
    request = two[0];
    FAILS(MPI_Cancel(&request), MPI_ERR_REQUEST);
    OK(MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE));
    CHECK_EQ(flag, 1);
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Start(&request));
    FAILS(MPI_Start(&request), MPI_ERR_REQUEST);
    FAILS(MPI_Request_free(&request), MPI_ERR_REQUEST);
    FAILS(MPI_Cancel(&request), MPI_ERR_REQUEST);
    FAILS(MPI_Grequest_complete(request), MPI_ERR_REQUEST);
    CHECK(request == two[0]);
    /* Of several, none is started. */
    FAILS(MPI_Startall(2, (MPI_Request[]){two[1], two[0]}), MPI_ERR_REQUEST);
    OK(MPI_Request_get_status(two[1], &flag, MPI_STATUS_IGNORE));
    CHECK_EQ(flag, 1);
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Startall(2, two));
    OK(MPI_Waitall(2, two, MPI_STATUSES_IGNORE));
    OK(MPI_Request_free(&two[0]));
    OK(MPI_Request_free(&two[1]));
    FAILS(MPI_Start(&request), MPI_ERR_REQUEST);

    /* On MPI_COMM_SELF nobody is waited for. */
    OK(MPI_Allreduce_init(a, b, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF, none, &request));
    for (a[0] = 5; a[0] < 8; a[0]++) {
        OK(MPI_Start(&request));
        OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
        CHECK(flag && b[0] == a[0]);
    }
    OK(MPI_Request_free(&request));
    between();
    OK(MPI_Finalize());
    return 0;
}
