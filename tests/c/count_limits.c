/* Counts of elements so large that their bytes are beyond 2^63, which no machine has: all functions
 * say so, and nothing is moved. A product that wraps would be an empty message or a nonsense length.
 *
 * ranks: 2
 * local: arguments
 */
#include "fails.h"

static MPI_Datatype huge, sparse;
static char data[64];

/* 2^30 of 2^34 bytes are 2^64: none, if the product wraps; INT_MAX of them are 2^64 less. */
static const int counts[] = {1 << 30, 2147483647};

static void messages(int count, MPI_Datatype type) {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status;
    int peer = world_rank();
    FAILS(MPI_Send(data, count, type, peer, 0, MPI_COMM_WORLD), MPI_ERR_COUNT);
    FAILS(MPI_Ssend(data, count, type, peer, 0, MPI_COMM_WORLD), MPI_ERR_COUNT);
    FAILS(MPI_Bsend(data, count, type, peer, 0, MPI_COMM_WORLD), MPI_ERR_COUNT);
    FAILS(MPI_Rsend(data, count, type, peer, 0, MPI_COMM_WORLD), MPI_ERR_COUNT);
    FAILS(MPI_Isend(data, count, type, peer, 0, MPI_COMM_WORLD, &request), MPI_ERR_COUNT);
    FAILS(MPI_Ibsend(data, count, type, peer, 0, MPI_COMM_WORLD, &request), MPI_ERR_COUNT);
    FAILS(MPI_Issend(data, count, type, peer, 0, MPI_COMM_WORLD, &request), MPI_ERR_COUNT);
    FAILS(MPI_Irsend(data, count, type, peer, 0, MPI_COMM_WORLD, &request), MPI_ERR_COUNT);
    FAILS(MPI_Recv(data, count, type, peer, 0, MPI_COMM_WORLD, &status), MPI_ERR_COUNT);
    FAILS(MPI_Irecv(data, count, type, peer, 0, MPI_COMM_WORLD, &request), MPI_ERR_COUNT);
    FAILS(MPI_Send_init(data, count, type, peer, 0, MPI_COMM_WORLD, &request), MPI_ERR_COUNT);
    FAILS(MPI_Ssend_init(data, count, type, peer, 0, MPI_COMM_WORLD, &request), MPI_ERR_COUNT);
    FAILS(MPI_Bsend_init(data, count, type, peer, 0, MPI_COMM_WORLD, &request), MPI_ERR_COUNT);
    FAILS(MPI_Rsend_init(data, count, type, peer, 0, MPI_COMM_WORLD, &request), MPI_ERR_COUNT);
    FAILS(MPI_Recv_init(data, count, type, peer, 0, MPI_COMM_WORLD, &request), MPI_ERR_COUNT);
    FAILS(MPI_Sendrecv(data, count, type, peer, 0, data + 8, 1, MPI_CHAR, peer, 0, MPI_COMM_WORLD,
                       &status),
          MPI_ERR_COUNT);
    FAILS(MPI_Sendrecv(data, 1, MPI_CHAR, peer, 0, data + 8, count, type, peer, 0, MPI_COMM_WORLD,
                       &status),
          MPI_ERR_COUNT);
    FAILS(MPI_Sendrecv_replace(data, count, type, peer, 0, peer, 0, MPI_COMM_WORLD, &status),
          MPI_ERR_COUNT);

    MPI_Message message, again;
    OK(MPI_Isend(data, 1, MPI_CHAR, peer, 1, MPI_COMM_WORLD, &request));
    OK(MPI_Mprobe(peer, 1, MPI_COMM_WORLD, &message, &status));
    again = message;
    FAILS(MPI_Mrecv(data + 8, count, type, &again, &status), MPI_ERR_COUNT);
    again = message;
    FAILS(MPI_Imrecv(data + 8, count, type, &again, &request), MPI_ERR_COUNT);
    OK(MPI_Mrecv(data + 8, 1, MPI_CHAR, &message, &status));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

static void collectives(int count, MPI_Datatype type) {
    MPI_Comm comm = MPI_COMM_WORLD;
    MPI_Request request;
    int two[2] = {count, count}, none[2] = {0, 0};
    MPI_Datatype types[2] = {type, type}, bytes[2] = {MPI_CHAR, MPI_CHAR};
    char *to = data + 32;
    FAILS(MPI_Bcast(data, count, type, 0, comm), MPI_ERR_COUNT);
    FAILS(MPI_Ibcast(data, count, type, 0, comm, &request), MPI_ERR_COUNT);
    FAILS(MPI_Gather(data, count, type, to, count, type, 0, comm), MPI_ERR_COUNT);
    FAILS(MPI_Scatter(data, count, type, to, count, type, 0, comm), MPI_ERR_COUNT);
    FAILS(MPI_Allgather(data, 1, MPI_CHAR, to, count, type, comm), MPI_ERR_COUNT);
    FAILS(MPI_Allgather(data, count, type, to, 1, MPI_CHAR, comm), MPI_ERR_COUNT);
    FAILS(MPI_Allgatherv(data, 1, MPI_CHAR, to, two, none, type, comm), MPI_ERR_COUNT);
    FAILS(MPI_Alltoall(data, count, type, to, 1, MPI_CHAR, comm), MPI_ERR_COUNT);
    FAILS(MPI_Alltoall(data, 1, MPI_CHAR, to, count, type, comm), MPI_ERR_COUNT);
    FAILS(MPI_Alltoallv(data, two, none, type, to, none, none, MPI_CHAR, comm), MPI_ERR_COUNT);
    FAILS(MPI_Alltoallw(data, none, none, bytes, to, two, none, types, comm), MPI_ERR_COUNT);
    FAILS(MPI_Ialltoallw(data, two, none, types, to, none, none, bytes, comm, &request),
          MPI_ERR_COUNT);
}

static void windows(int count, MPI_Datatype type) {
    MPI_Win win;
    MPI_Request request;
    int peer = world_rank();
    OK(MPI_Win_create(data, sizeof data, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    OK(MPI_Win_lock_all(0, win));
    FAILS(MPI_Put(data, 1, MPI_CHAR, peer, 0, count, type, win), MPI_ERR_COUNT);
    FAILS(MPI_Put(data, count, type, peer, 0, count, type, win), MPI_ERR_COUNT);
    FAILS(MPI_Get(data, count, type, peer, 0, count, type, win), MPI_ERR_COUNT);
    FAILS(MPI_Rput(data, count, type, peer, 0, count, type, win, &request), MPI_ERR_COUNT);
    FAILS(MPI_Rget(data, count, type, peer, 0, count, type, win, &request), MPI_ERR_COUNT);
    FAILS(MPI_Accumulate(data, count, type, peer, 0, count, type, MPI_REPLACE, win),
          MPI_ERR_COUNT);
    FAILS(MPI_Get_accumulate(data, 1, MPI_CHAR, data, count, type, peer, 0, 1, MPI_CHAR, MPI_SUM,
                             win),
          MPI_ERR_COUNT);
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_free(&win));
}

static void packing(int count, MPI_Datatype type) {
    int position = 0, size;
    FAILS(MPI_Pack(data, count, type, data, 1, &position, MPI_COMM_WORLD), MPI_ERR_COUNT);
    FAILS(MPI_Unpack(data, 1, &position, data, count, type, MPI_COMM_WORLD), MPI_ERR_COUNT);
    FAILS(MPI_Pack_size(count, type, MPI_COMM_WORLD, &size), MPI_ERR_COUNT);
}

/* What fits for one rank need not fit for all. */
static void totals(void) {
    char *to = data + 32;
    FAILS(MPI_Allgather(data, 1 << 28, huge, to, 1 << 28, huge, MPI_COMM_WORLD), MPI_ERR_COUNT);
    FAILS(MPI_Alltoall(data, 1 << 28, huge, to, 1 << 28, huge, MPI_COMM_WORLD), MPI_ERR_COUNT);
}

/* Reductions and operations of the program's on large types. */
static void nothing(void *in, void *inout, int *len, MPI_Datatype *type) {
    (void)in, (void)inout, (void)len, (void)type;
    CHECK(!"the operation is not called");
}

static void reductions(int count, MPI_Datatype type) {
    MPI_Op op;
    int two[2] = {count, count};
    char *to = data + 32;
    OK(MPI_Op_create(nothing, 1, &op));
    FAILS(MPI_Reduce(data, to, count, type, op, 0, MPI_COMM_WORLD), MPI_ERR_COUNT);
    FAILS(MPI_Allreduce(data, to, count, type, op, MPI_COMM_WORLD), MPI_ERR_COUNT);
    FAILS(MPI_Scan(data, to, count, type, op, MPI_COMM_WORLD), MPI_ERR_COUNT);
    FAILS(MPI_Reduce_scatter(data, to, two, type, op, MPI_COMM_WORLD), MPI_ERR_COUNT);
    FAILS(MPI_Reduce_scatter_block(data, to, count, type, op, MPI_COMM_WORLD), MPI_ERR_COUNT);
    FAILS(MPI_Reduce_local(data, to, count, type, op), MPI_ERR_COUNT);
    OK(MPI_Op_free(&op));
}

int main(int argc, char **argv) {
    MPI_Datatype row;
    OK(MPI_Init(&argc, &argv));
    world_rank();
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Type_contiguous(1 << 17, MPI_CHAR, &row));
    OK(MPI_Type_contiguous(1 << 17, row, &huge));
    OK(MPI_Type_create_resized(row, 0, (MPI_Aint)1 << 34, &sparse));
    OK(MPI_Type_commit(&huge));
    OK(MPI_Type_commit(&sparse));
    for (unsigned i = 0; i < sizeof counts / sizeof *counts; i++) {
        MPI_Datatype types[] = {huge, sparse};
        for (int t = 0; t < 2; t++) {
            messages(counts[i], types[t]);
            collectives(counts[i], types[t]);
            reductions(counts[i], types[t]);
            windows(counts[i], types[t]);
            packing(counts[i], types[t]);
        }
    }
    totals();
    OK(MPI_Type_free(&row));
    OK(MPI_Type_free(&huge));
    OK(MPI_Type_free(&sparse));
    OK(MPI_Finalize());
    return 0;
}
