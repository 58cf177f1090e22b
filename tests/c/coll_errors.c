/* Wrong arguments of collectives are found, and what comes after works.
 *
 * ranks: 1 2 3 4
 * local: arguments
 */
#include "coll.h"

static int in[64], out[64], counts[16], displs[16], negative[16];
static MPI_Datatype types[16];

static void still_works(void)
{
    int one = 1, all = 0;
    OK(MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK(all == size, "%d", all);
}

static void user(void *a, void *b, int *len, MPI_Datatype *datatype)
{
    (void)a, (void)b, (void)len, (void)datatype;
}

int main(int argc, char **argv)
{
    const MPI_Comm w = MPI_COMM_WORLD;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Op op;
    int flag;
    start(&argc, &argv);
    MPI_Comm_set_errhandler(w, MPI_ERRORS_RETURN);
    for (int i = 0; i < 16; i++) {
        counts[i] = displs[i] = 1;
        negative[i] = -1;
        types[i] = MPI_INT;
    }

    FAILS(MPI_ERR_COMM, MPI_Barrier(MPI_COMM_NULL));
    FAILS(MPI_ERR_COMM, MPI_Bcast(in, 1, MPI_INT, 0, (MPI_Comm)0x12345));
    FAILS(MPI_ERR_ROOT, MPI_Bcast(in, 1, MPI_INT, size, w));
    FAILS(MPI_ERR_ROOT, MPI_Bcast(in, 1, MPI_INT, -1, w));
    FAILS(MPI_ERR_ROOT, MPI_Bcast(in, 1, MPI_INT, MPI_ROOT, w));
    FAILS(MPI_ERR_COUNT, MPI_Bcast(in, -1, MPI_INT, 0, w));
    FAILS(MPI_ERR_TYPE, MPI_Bcast(in, 1, MPI_DATATYPE_NULL, 0, w));
    FAILS(MPI_ERR_BUFFER, MPI_Bcast(NULL, 1, MPI_INT, 0, w));
    FAILS(MPI_ERR_BUFFER, MPI_Bcast(MPI_IN_PLACE, 1, MPI_INT, 0, w));
    FAILS(MPI_ERR_ARG, MPI_Ibcast(in, 1, MPI_INT, 0, w, NULL));
    FAILS(MPI_ERR_ARG, MPI_Ibarrier(w, NULL));
    still_works();

    FAILS(MPI_ERR_ROOT, MPI_Gather(in, 1, MPI_INT, out, 1, MPI_INT, size, w));
    FAILS(MPI_ERR_COUNT, MPI_Gather(in, -1, MPI_INT, out, 1, MPI_INT, rank, w));
    FAILS(MPI_ERR_COUNT, MPI_Gather(in, 1, MPI_INT, out, -1, MPI_INT, rank, w));
    FAILS(MPI_ERR_TYPE, MPI_Gather(in, 1, MPI_INT, out, 1, MPI_DATATYPE_NULL, rank, w));
    FAILS(MPI_ERR_BUFFER, MPI_Gather(out + rank, 1, MPI_INT, out, 1, MPI_INT, rank, w));
    FAILS(MPI_ERR_BUFFER, MPI_Gather(in, 1, MPI_INT, NULL, 1, MPI_INT, rank, w));
    FAILS(MPI_ERR_BUFFER, MPI_Gather(in, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, rank, w));
    if (size > 1)
        FAILS(MPI_ERR_BUFFER, MPI_Gather(MPI_IN_PLACE, 1, MPI_INT, out, 1, MPI_INT,
                                         (rank + 1) % size, w));
    FAILS(MPI_ERR_ARG, MPI_Gatherv(in, 1, MPI_INT, out, NULL, displs, MPI_INT, rank, w));
    FAILS(MPI_ERR_ARG, MPI_Gatherv(in, 1, MPI_INT, out, counts, NULL, MPI_INT, rank, w));
    FAILS(MPI_ERR_COUNT, MPI_Gatherv(in, 1, MPI_INT, out, negative, displs, MPI_INT, rank, w));
    FAILS(MPI_ERR_ARG, MPI_Igatherv(in, 1, MPI_INT, out, NULL, displs, MPI_INT, rank, w, &request));
    CHECK(request == MPI_REQUEST_NULL, "a request was made");
    FAILS(MPI_ERR_BUFFER, MPI_Scatter(MPI_IN_PLACE, 1, MPI_INT, out, 1, MPI_INT, rank, w));
    FAILS(MPI_ERR_BUFFER, MPI_Scatter(out, 1, MPI_INT, out + rank, 1, MPI_INT, rank, w));
    FAILS(MPI_ERR_COUNT, MPI_Scatter(in, 1, MPI_INT, out, -1, MPI_INT, 0, w));
    FAILS(MPI_ERR_ARG, MPI_Scatterv(in, counts, NULL, MPI_INT, out, 1, MPI_INT, rank, w));
    if (size > 1)
        FAILS(MPI_ERR_BUFFER, MPI_Scatter(in, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT,
                                          (rank + 1) % size, w));
    still_works();

    FAILS(MPI_ERR_BUFFER, MPI_Allgather(in, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, w));
    FAILS(MPI_ERR_BUFFER, MPI_Allgather(out + rank, 1, MPI_INT, out, 1, MPI_INT, w));
    FAILS(MPI_ERR_COUNT, MPI_Allgather(in, -3, MPI_INT, out, 1, MPI_INT, w));
    FAILS(MPI_ERR_TYPE, MPI_Allgather(in, 1, (MPI_Datatype)7, out, 1, MPI_INT, w));
    FAILS(MPI_ERR_COUNT, MPI_Allgatherv(in, 1, MPI_INT, out, negative, displs, MPI_INT, w));
    FAILS(MPI_ERR_ARG, MPI_Allgatherv(in, 1, MPI_INT, out, counts, NULL, MPI_INT, w));
    FAILS(MPI_ERR_BUFFER, MPI_Alltoall(in, 1, MPI_INT, in, 1, MPI_INT, w));
    FAILS(MPI_ERR_BUFFER, MPI_Alltoall(in, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, w));
    FAILS(MPI_ERR_COUNT, MPI_Alltoall(in, 1, MPI_INT, out, -1, MPI_INT, w));
    FAILS(MPI_ERR_ARG, MPI_Alltoallv(in, counts, NULL, MPI_INT, out, counts, displs, MPI_INT, w));
    FAILS(MPI_ERR_ARG, MPI_Alltoallv(in, counts, displs, MPI_INT, out, NULL, displs, MPI_INT, w));
    FAILS(MPI_ERR_COUNT,
          MPI_Alltoallv(in, negative, displs, MPI_INT, out, counts, displs, MPI_INT, w));
    FAILS(MPI_ERR_ARG, MPI_Alltoallw(in, counts, displs, NULL, out, counts, displs, types, w));
    types[0] = MPI_DATATYPE_NULL;
    FAILS(MPI_ERR_TYPE, MPI_Alltoallw(in, counts, displs, types, out, counts, displs, types, w));
    still_works();

    FAILS(MPI_ERR_OP, MPI_Reduce(in, out, 1, MPI_INT, MPI_OP_NULL, 0, w));
    FAILS(MPI_ERR_OP, MPI_Reduce(in, out, 1, MPI_INT, MPI_REPLACE, 0, w));
    FAILS(MPI_ERR_OP, MPI_Reduce(in, out, 1, MPI_DOUBLE, MPI_BAND, 0, w));
    FAILS(MPI_ERR_OP, MPI_Allreduce(in, out, 1, MPI_WCHAR, MPI_SUM, w));
    FAILS(MPI_ERR_OP, MPI_Allreduce(in, out, 1, MPI_INT, MPI_MAXLOC, w));
    FAILS(MPI_ERR_OP, MPI_Iallreduce(in, out, 1, MPI_BYTE, MPI_MAX, w, &request));
    FAILS(MPI_ERR_ROOT, MPI_Reduce(in, out, 1, MPI_INT, MPI_SUM, -5, w));
    FAILS(MPI_ERR_BUFFER, MPI_Reduce(in, in, 1, MPI_INT, MPI_SUM, rank, w));
    FAILS(MPI_ERR_BUFFER, MPI_Reduce(in, NULL, 1, MPI_INT, MPI_SUM, rank, w));
    FAILS(MPI_ERR_BUFFER, MPI_Reduce(in, MPI_IN_PLACE, 1, MPI_INT, MPI_SUM, rank, w));
    if (size > 1)
        FAILS(MPI_ERR_BUFFER,
              MPI_Reduce(MPI_IN_PLACE, out, 1, MPI_INT, MPI_SUM, (rank + 1) % size, w));
    FAILS(MPI_ERR_COUNT, MPI_Allreduce(in, out, -1, MPI_INT, MPI_SUM, w));
    FAILS(MPI_ERR_TYPE, MPI_Allreduce(in, out, 1, MPI_DATATYPE_NULL, MPI_SUM, w));
    FAILS(MPI_ERR_BUFFER, MPI_Allreduce(in, in, 1, MPI_INT, MPI_SUM, w));
    FAILS(MPI_ERR_BUFFER, MPI_Allreduce(NULL, out, 1, MPI_INT, MPI_SUM, w));
    FAILS(MPI_ERR_BUFFER, MPI_Scan(in, in, 1, MPI_INT, MPI_SUM, w));
    FAILS(MPI_ERR_BUFFER, MPI_Exscan(in, MPI_IN_PLACE, 1, MPI_INT, MPI_SUM, w));
    FAILS(MPI_ERR_BUFFER, MPI_Reduce_scatter_block(in, in, 1, MPI_INT, MPI_SUM, w));
    FAILS(MPI_ERR_COUNT, MPI_Reduce_scatter(in, out, negative, MPI_INT, MPI_SUM, w));
    FAILS(MPI_ERR_ARG, MPI_Reduce_scatter(in, out, NULL, MPI_INT, MPI_SUM, w));
    FAILS(MPI_ERR_BUFFER, MPI_Reduce_local(in, in, 1, MPI_INT, MPI_SUM));
    FAILS(MPI_ERR_OP, MPI_Reduce_local(in, out, 1, MPI_INT, MPI_NO_OP));
    still_works();

    FAILS(MPI_ERR_ARG, MPI_Op_create(NULL, 1, &op));
    FAILS(MPI_ERR_ARG, MPI_Op_create(user, 1, NULL));
    op = MPI_SUM;
    FAILS(MPI_ERR_OP, MPI_Op_free(&op));
    op = MPI_OP_NULL;
    FAILS(MPI_ERR_OP, MPI_Op_free(&op));
    FAILS(MPI_ERR_OP, MPI_Op_commutative(MPI_OP_NULL, &flag));
    FAILS(MPI_ERR_ARG, MPI_Op_commutative(MPI_SUM, NULL));
    OK(MPI_Op_create(user, 1, &op));
    MPI_Op freed = op;
    OK(MPI_Op_free(&op));
    FAILS(MPI_ERR_OP, MPI_Allreduce(in, out, 1, MPI_INT, freed, w));
    still_works();

    /* Nothing of NULL is nothing. */
    OK(MPI_Bcast(NULL, 0, MPI_INT, 0, w));
    OK(MPI_Allreduce(NULL, NULL, 0, MPI_INT, MPI_SUM, w));
    OK(MPI_Allgather(NULL, 0, MPI_INT, NULL, 0, MPI_INT, w));
    OK(MPI_Alltoall(NULL, 0, MPI_INT, NULL, 0, MPI_INT, w));

    /* Too much for the receiver; who gets it from there depends on the algorithm. The root is through before the
     * others come: one that comes late may hear from them that they expect less. */
    if (size == 2 || size == 3) {
        int word = 0, class = MPI_SUCCESS;
        for (int nonblocking = 0; nonblocking < 2; nonblocking++) {
            int code;
            if (rank != 0)
                OK(MPI_Recv(&word, 1, MPI_INT, 0, 5, w, MPI_STATUS_IGNORE));
            if (nonblocking) {
                OK(MPI_Ibcast(in, rank == 0 ? 8 : 4, MPI_INT, 0, w, &request));
                code = MPI_Wait(&request, MPI_STATUS_IGNORE);
                CHECK(request == MPI_REQUEST_NULL, "not null");
            } else {
                code = MPI_Bcast(in, rank == 0 ? 8 : 4, MPI_INT, 0, w);
            }
            MPI_Error_class(code, &class);
            CHECK(class == (rank == 0 ? MPI_SUCCESS : MPI_ERR_TRUNCATE), "class %d", class);
            for (int other = 1; rank == 0 && other < size; other++)
                OK(MPI_Send(&word, 1, MPI_INT, other, 5, w));
        }
        still_works();
    }
    MPI_Finalize();
    return 0;
}
