/* A partitioned send with less data than its receive is delivered, for any partitions and datatypes of both sides, and
 * the status counts the received data.
 * ranks: 2
 * timeout: 60
 */
#include "check.h"

enum { MOST = 400000 };

static unsigned char out[MOST], in[MOST + 64];

static void waits(MPI_Request *request, MPI_Status *status, int way) {
    int flag = 0;
    if (way % 2) {
        OK(MPI_Wait(request, status));
        return;
    }
    while (!flag) {
        OK(MPI_Request_get_status(*request, &flag, status));
    }
    OK(MPI_Test(request, &flag, status));
    CHECK(flag);
}

/* `sent` bytes in `parts` partitions to a place for `room` bytes in `places`. */
static void bytes(int rank, int parts, int sent, int places, int room, int tag) {
    MPI_Request send, receive;
    MPI_Status status;
    OK(MPI_Psend_init(out, parts, parts ? sent / parts : 1, MPI_BYTE, 1 - rank, tag, MPI_COMM_WORLD,
                      MPI_INFO_NULL, &send));
    OK(MPI_Precv_init(in, places, room / places, MPI_BYTE, 1 - rank, tag, MPI_COMM_WORLD,
                      MPI_INFO_NULL, &receive));
    for (int round = 0; round < 3; round++) {
        int count = -1, arrived = 0;
        fill(out, (size_t)sent, (uint64_t)(round + 10 * rank));
        memset(in, 0x55, sizeof in);
        OK(MPI_Start(&receive));
        OK(MPI_Start(&send));
        if (parts) {
            OK(MPI_Pready_range(0, parts - 1, send));
        }
        for (int i = places - 1; i >= 0; i--) {
            while (round && !arrived) {
                OK(MPI_Parrived(receive, i, &arrived));
            }
            arrived = 0;
        }
        waits(&receive, &status, round);
        OK(MPI_Get_count(&status, MPI_BYTE, &count));
        CHECK_EQ(count, sent);
        CHECK_EQ(status.MPI_SOURCE, 1 - rank);
        CHECK_EQ(status.MPI_TAG, tag);
        CHECK(is_filled(in, (size_t)sent, (uint64_t)(round + 10 * (1 - rank))));
        CHECK(all_bytes(in + sent, sizeof in - (size_t)sent, 0x55));
        OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    }
    OK(MPI_Request_free(&send));
    OK(MPI_Request_free(&receive));
}

/* Elements with gaps, of which the last one comes in part. */
static void gaps(int rank) {
    MPI_Datatype pair;
    MPI_Request send, receive;
    MPI_Status status;
    int ints[3] = {1, 2, 3}, place[12], elements = -1, count = 0;
    OK(MPI_Type_vector(2, 1, 2, MPI_INT, &pair));
    OK(MPI_Type_commit(&pair));
    memset(place, 0, sizeof place);
    OK(MPI_Psend_init(ints, 3, 1, MPI_INT, 1 - rank, 7, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
    OK(MPI_Precv_init(place, 2, 2, pair, 1 - rank, 7, MPI_COMM_WORLD, MPI_INFO_NULL, &receive));
    OK(MPI_Start(&receive));
    OK(MPI_Start(&send));
    OK(MPI_Pready_range(0, 2, send));
    OK(MPI_Wait(&receive, &status));
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    OK(MPI_Get_elements(&status, pair, &elements));
    CHECK_EQ(elements, 3);
    OK(MPI_Get_count(&status, pair, &count));
    CHECK_EQ(count, MPI_UNDEFINED);
    const int expected[12] = {1, 0, 2, 3};
    CHECK(!memcmp(place, expected, sizeof place));
    OK(MPI_Request_free(&send));
    OK(MPI_Request_free(&receive));
    OK(MPI_Type_free(&pair));
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank();
    bytes(rank, 1, 4, 1, 8, 1);
    bytes(rank, 1, 4, 2, 8, 2);
    bytes(rank, 4, 8, 3, 300, 3);
    bytes(rank, 8, 240000, 5, 400000, 4);
    bytes(rank, 3, 240000, 4, 399996, 5);
    bytes(rank, 2, 0, 2, 8, 6);
    bytes(rank, 0, 0, 2, 8, 8);
    gaps(rank);
    OK(MPI_Finalize());
    return 0;
}
