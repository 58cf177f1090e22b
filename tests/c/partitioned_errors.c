/* Wrong uses of partitioned communication.
 * ranks: 2
 * local: arguments
 */
#include "fails.h"

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), other = 1 - rank, buffer[8] = {0}, in[8] = {0}, flag = -1;
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Info none = MPI_INFO_NULL;
    MPI_Request request = MPI_REQUEST_NULL, send, receive;
    OK(MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    FAILS(MPI_Psend_init(buffer, -1, 1, MPI_INT, other, 0, world, none, &request), MPI_ERR_ARG);
    FAILS(MPI_Psend_init(buffer, 1, -1, MPI_INT, other, 0, world, none, &request), MPI_ERR_COUNT);
    FAILS(MPI_Psend_init(buffer, 1 << 30, (MPI_Count)1 << 40, MPI_INT, other, 0, world, none, &request),
          MPI_ERR_COUNT);
    FAILS(MPI_Psend_init(NULL, 1, 1, MPI_INT, other, 0, world, none, &request), MPI_ERR_BUFFER);
    FAILS(MPI_Psend_init(buffer, 1, 1, MPI_DATATYPE_NULL, other, 0, world, none, &request), MPI_ERR_TYPE);
    FAILS(MPI_Psend_init(buffer, 1, 1, MPI_INT, 2, 0, world, none, &request), MPI_ERR_RANK);
    FAILS(MPI_Psend_init(buffer, 1, 1, MPI_INT, other, -1, world, none, &request), MPI_ERR_TAG);
    FAILS(MPI_Psend_init(buffer, 1, 1, MPI_INT, other, 0, MPI_COMM_NULL, none, &request), MPI_ERR_COMM);
    FAILS(MPI_Psend_init(buffer, 1, 1, MPI_INT, other, 0, world, (MPI_Info)77, &request), MPI_ERR_INFO);
    FAILS(MPI_Psend_init(buffer, 1, 1, MPI_INT, other, 0, world, none, NULL), MPI_ERR_ARG);
    FAILS(MPI_Precv_init(in, 1, 1, MPI_INT, MPI_ANY_SOURCE, 0, world, none, &request), MPI_ERR_RANK);
    FAILS(MPI_Precv_init(in, 1, 1, MPI_INT, other, MPI_ANY_TAG, world, none, &request), MPI_ERR_TAG);
    FAILS(MPI_Precv_init(in, 1, 1, MPI_INT, 9, 0, world, none, &request), MPI_ERR_RANK);
    FAILS(MPI_Precv_init(in, -3, 1, MPI_INT, other, 0, world, none, &request), MPI_ERR_ARG);
    CHECK(request == MPI_REQUEST_NULL);

    /* Requests that have no partitions. */
    FAILS(MPI_Pready(0, MPI_REQUEST_NULL), MPI_ERR_REQUEST);
    /* With a null request, as with an inactive one, flag is true (MPI-4.1 section 4.2.2). */
    OK(MPI_Parrived(MPI_REQUEST_NULL, 0, &flag));
    CHECK_EQ(flag, 1);
    flag = -1;
    FAILS(MPI_Pready(0, (MPI_Request)12345), MPI_ERR_REQUEST);
    OK(MPI_Send_init(buffer, 1, MPI_INT, other, 0, world, &request));
    FAILS(MPI_Pready(0, request), MPI_ERR_REQUEST);
    FAILS(MPI_Parrived(request, 0, &flag), MPI_ERR_REQUEST);
    OK(MPI_Request_free(&request));
    OK(MPI_Irecv(in, 1, MPI_INT, other, 3, world, &request));
    FAILS(MPI_Pready_range(0, 0, request), MPI_ERR_REQUEST);
    OK(MPI_Send(buffer, 1, MPI_INT, other, 3, world));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));

    OK(MPI_Psend_init(buffer, 4, 2, MPI_INT, other, 1, world, none, &send));
    OK(MPI_Precv_init(in, 2, 4, MPI_INT, other, 1, world, none, &receive));
    /* Not started. */
    FAILS(MPI_Pready(0, send), MPI_ERR_REQUEST);
    FAILS(MPI_Cancel(&send), MPI_ERR_REQUEST);
    OK(MPI_Parrived(receive, 1, &flag));
    CHECK_EQ(flag, 1);
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    for (int round = 0; round < 3; round++) {
        OK(MPI_Start(&receive));
        OK(MPI_Start(&send));
        FAILS(MPI_Start(&send), MPI_ERR_REQUEST);
        FAILS(MPI_Startall(1, &receive), MPI_ERR_REQUEST);
        FAILS(MPI_Request_free(&send), MPI_ERR_REQUEST);
        FAILS(MPI_Request_free(&receive), MPI_ERR_REQUEST);
        FAILS(MPI_Cancel(&receive), MPI_ERR_REQUEST);
        /* The wrong side, partitions that there are not, and one twice. */
        FAILS(MPI_Pready(0, receive), MPI_ERR_REQUEST);
        FAILS(MPI_Parrived(send, 0, &flag), MPI_ERR_REQUEST);
        FAILS(MPI_Parrived(receive, 2, &flag), MPI_ERR_ARG);
        FAILS(MPI_Parrived(receive, -1, &flag), MPI_ERR_ARG);
        FAILS(MPI_Parrived(receive, 0, NULL), MPI_ERR_ARG);
        FAILS(MPI_Pready(4, send), MPI_ERR_ARG);
        FAILS(MPI_Pready(-1, send), MPI_ERR_ARG);
        FAILS(MPI_Pready_range(2, 1, send), MPI_ERR_ARG);
        FAILS(MPI_Pready_range(3, 4, send), MPI_ERR_ARG);
        FAILS(MPI_Pready_list(-1, NULL, send), MPI_ERR_ARG);
        FAILS(MPI_Pready_list(1, NULL, send), MPI_ERR_ARG);
        int list[3] = {3, 1, 3};
        FAILS(MPI_Pready_list(3, list, send), MPI_ERR_ARG); /* 3 and 1 are marked */
        FAILS(MPI_Pready(1, send), MPI_ERR_ARG);
        OK(MPI_Test(&send, &flag, MPI_STATUS_IGNORE));
        CHECK(!flag);
        for (int i = 0; i < 8; i++) {
            buffer[i] = round * 10 + i;
        }
        OK(MPI_Pready(0, send));
        OK(MPI_Pready(2, send));
        FAILS(MPI_Pready(2, send), MPI_ERR_ARG);
        OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
        OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
        CHECK_EQ(in[7], round * 10 + 7);
    }
    OK(MPI_Request_free(&send));
    OK(MPI_Request_free(&receive));
    FAILS(MPI_Start(&send), MPI_ERR_REQUEST);

    /* Too much data: the receive says so each time, and the send ends. */
    static char large[300000], place[300000];
    for (int more = 0; more < 2; more++) {
        int bytes = more ? 300000 : 8;
        memset(place, 0x11, sizeof place);
        OK(MPI_Psend_init(large, 2, bytes / 2, MPI_CHAR, other, 2, world, none, &send));
        OK(MPI_Precv_init(place, 1, bytes - 1, MPI_CHAR, other, 2, world, none, &receive));
        for (int round = 0; round < 2; round++) {
            MPI_Request both[2] = {send, receive};
            MPI_Status statuses[2];
            OK(MPI_Startall(2, both));
            OK(MPI_Pready_range(0, 1, send));
            if (round == 0) {
                FAILS(MPI_Wait(&receive, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
                OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
            } else {
                FAILS(MPI_Waitall(2, both, statuses), MPI_ERR_IN_STATUS);
                CHECK_EQ(statuses[0].MPI_ERROR, MPI_SUCCESS);
                CHECK_EQ(class_of(statuses[1].MPI_ERROR), MPI_ERR_TRUNCATE);
            }
            CHECK(all_bytes(place, sizeof place, 0x11));
        }
        OK(MPI_Request_free(&send));
        OK(MPI_Request_free(&receive));
    }
    /* Nobody: wrong all the same. */
    OK(MPI_Psend_init(buffer, 2, 2, MPI_INT, MPI_PROC_NULL, 1, world, none, &send));
    OK(MPI_Precv_init(buffer, 2, 2, MPI_INT, MPI_PROC_NULL, 1, world, none, &receive));
    FAILS(MPI_Pready(0, send), MPI_ERR_REQUEST);
    FAILS(MPI_Pready(0, receive), MPI_ERR_REQUEST);
    FAILS(MPI_Parrived(send, 0, &flag), MPI_ERR_REQUEST);
    FAILS(MPI_Parrived(receive, 2, &flag), MPI_ERR_ARG);
    OK(MPI_Start(&send));
    FAILS(MPI_Start(&send), MPI_ERR_REQUEST);
    FAILS(MPI_Request_free(&send), MPI_ERR_REQUEST);
    FAILS(MPI_Pready(2, send), MPI_ERR_ARG);
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    OK(MPI_Request_free(&send));
    OK(MPI_Request_free(&receive));
    OK(MPI_Finalize());
    return 0;
}
