/* Messages without data (MPI-4.1 section 3.2.2), with NULL, MPI_BOTTOM and real buffers, to another process and to
 * itself, by every kind of call. A longer message is truncated.
 * ranks: 1 2 3
 * variants: shm shm-2copy tcp ofi
 */
#include "check.h"

static void expect_empty(MPI_Status *status, int source, int tag) {
    int count = -1;
    CHECK_EQ(status->MPI_SOURCE, source);
    CHECK_EQ(status->MPI_TAG, tag);
    OK(MPI_Get_count(status, MPI_DOUBLE, &count));
    CHECK_EQ(count, 0);
}

/* The room of one message, and the data of one that has some. */
static char room[64], data[64];

static void exchange(int to, int from, const void *out, void *in, int tag) {
    MPI_Comm comm = MPI_COMM_WORLD;
    MPI_Status status, statuses[2];
    MPI_Request requests[2];
    MPI_Message message;
    int flag = 0;

    OK(MPI_Sendrecv(out, 0, MPI_INT, to, tag, in, 0, MPI_DOUBLE, from, tag, comm, &status));
    expect_empty(&status, from, tag);
    OK(MPI_Sendrecv_replace(in, 0, MPI_BYTE, to, tag, from, tag, comm, &status));
    expect_empty(&status, from, tag);

    OK(MPI_Irecv(in, 0, MPI_INT, from, tag, comm, &requests[0]));
    OK(MPI_Isend(out, 0, MPI_CHAR, to, tag, comm, &requests[1]));
    OK(MPI_Waitall(2, requests, statuses));
    expect_empty(&statuses[0], from, tag);

    OK(MPI_Isend(out, 0, MPI_CHAR, to, tag, comm, &requests[0]));
    OK(MPI_Recv(in, 0, MPI_CHAR, MPI_ANY_SOURCE, tag, comm, &status));
    expect_empty(&status, from, tag);
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));

    OK(MPI_Isend(out, 0, MPI_CHAR, to, tag, comm, &requests[0]));
    OK(MPI_Probe(from, tag, comm, &status));
    expect_empty(&status, from, tag);
    OK(MPI_Recv(in, 0, MPI_CHAR, from, tag, comm, &status));
    expect_empty(&status, from, tag);
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));

    OK(MPI_Issend(out, 0, MPI_CHAR, to, tag, comm, &requests[0]));
    OK(MPI_Mprobe(from, MPI_ANY_TAG, comm, &message, &status));
    OK(MPI_Mrecv(in, 0, MPI_CHAR, &message, &status));
    expect_empty(&status, from, tag);
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));

    /* A message without data between two that have some comes between them. */
    for (char i = 0; i < 3; i++) {
        data[0] = i;
        OK(MPI_Isend(data, i == 1 ? 0 : 1, MPI_CHAR, to, tag, comm, &requests[0]));
        room[0] = 9;
        OK(MPI_Recv(room, 1, MPI_CHAR, from, tag, comm, &status));
        OK(MPI_Get_count(&status, MPI_CHAR, &flag));
        CHECK_EQ(flag, i != 1);
        CHECK_EQ(room[0], i == 1 ? 9 : i);
        OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    }

    /* No room at all. */
    OK(MPI_Isend(data, 8, MPI_CHAR, to, tag, comm, &requests[0]));
    CHECK_EQ(class_of(MPI_Recv(in, 0, MPI_CHAR, from, tag, comm, &status)), MPI_ERR_TRUNCATE);
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), size;
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    const void *outs[] = {NULL, MPI_BOTTOM, data, data + 1};
    void *ins[] = {NULL, MPI_BOTTOM, room, room + 1};
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < 4; i++) {
            int tag = round * 4 + i;
            exchange((rank + 1) % size, (rank + size - 1) % size, outs[i], ins[(i + round) % 4], tag);
            exchange(rank, rank, outs[i], ins[(i + round) % 4], tag);
        }
    }
    /* Data has an address. */
    CHECK_EQ(class_of(MPI_Send(NULL, 1, MPI_INT, rank, 0, MPI_COMM_WORLD)), MPI_ERR_BUFFER);
    CHECK_EQ(class_of(MPI_Send(data, -1, MPI_INT, rank, 0, MPI_COMM_WORLD)), MPI_ERR_COUNT);
    CHECK_EQ(class_of(MPI_Send(NULL, -1, MPI_INT, rank, 0, MPI_COMM_WORLD)), MPI_ERR_COUNT);
    CHECK_EQ(class_of(MPI_Send(data, 1, MPI_DATATYPE_NULL, rank, 0, MPI_COMM_WORLD)), MPI_ERR_TYPE);
    CHECK_EQ(class_of(MPI_Send(NULL, 0, MPI_REQUEST_NULL, rank, 0, MPI_COMM_WORLD)), MPI_ERR_TYPE);
    OK(MPI_Finalize());
    return 0;
}
