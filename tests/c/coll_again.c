/* Repeated barriers and allreduces, which take a fast path: a call with other arguments, correct or wrong, is handled
 * as at the first time.
 *
 * ranks: 1 2 4 9
 * variants: shm shm-2copy
 * timeout: 30
 */
#include "coll.h"

enum { WARM = 12 };

/* Allreduces of this kind take the short way from here on, where there is one. */
static void warm(MPI_Comm comm)
{
    for (int i = 0; i < WARM; i++) {
        int one = i + rank, all = -1;
        OK(MPI_Barrier(comm));
        OK(MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, comm));
        CHECK(all == size * i + size * (size - 1) / 2, "%d: %d", i, all);
    }
}

static void other_calls(MPI_Comm comm)
{
    int in[3] = {rank, 1, -rank}, out[3];
    double real = rank, most = -1;
    warm(comm);
    for (int i = 0; i < 3; i++) {
        OK(MPI_Allreduce(in, out, 3, MPI_INT, MPI_MAX, comm));
        CHECK(out[0] == size - 1 && out[1] == 1 && out[2] == 0, "%d %d %d", out[0], out[1], out[2]);
        OK(MPI_Allreduce(in, out, 1, MPI_INT, MPI_MIN, comm));
        CHECK(out[0] == 0, "%d", out[0]);
        OK(MPI_Allreduce(&real, &most, 1, MPI_DOUBLE, MPI_MAX, comm));
        CHECK(most == size - 1, "%g", most);
        OK(MPI_Allreduce(in, out, 0, MPI_INT, MPI_MIN, comm));
    }
    for (int i = 0; i < WARM; i++) {
        int place = rank + i;
        OK(MPI_Allreduce(MPI_IN_PLACE, &place, 1, MPI_INT, MPI_SUM, comm));
        CHECK(place == size * i + size * (size - 1) / 2, "%d: %d", i, place);
        OK(MPI_Allreduce_c(in, out, 1, MPI_INT, MPI_SUM, comm));
        CHECK(out[0] == size * (size - 1) / 2, "%d", out[0]);
    }
}

/* Predefined operations are for predefined datatypes, whatever others are made of. */
static void made_types(MPI_Comm comm)
{
    for (int i = 0; i < WARM; i++) {
        int pair[2] = {rank, i}, sums[2] = {0, 0};
        MPI_Datatype type;
        if (i % 2)
            MPI_Type_dup(MPI_INT, &type);
        else
            MPI_Type_contiguous(2, MPI_INT, &type);
        MPI_Type_commit(&type);
        FAILS(MPI_ERR_OP, MPI_Allreduce(pair, sums, 1, type, MPI_SUM, comm));
        MPI_Type_free(&type);
    }
}

static void wrong_calls(MPI_Comm comm)
{
    int in = 1, out = 0;
    MPI_Comm freed;
    warm(comm);
    FAILS(MPI_ERR_COUNT, MPI_Allreduce(&in, &out, -1, MPI_INT, MPI_SUM, comm));
    FAILS(MPI_ERR_TYPE, MPI_Allreduce(&in, &out, 1, MPI_DATATYPE_NULL, MPI_SUM, comm));
    FAILS(MPI_ERR_OP, MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_OP_NULL, comm));
    FAILS(MPI_ERR_OP, MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_MAXLOC, comm));
    FAILS(MPI_ERR_OP, MPI_Allreduce(&in, &out, 1, MPI_FLOAT, MPI_BAND, comm));
    FAILS(MPI_ERR_BUFFER, MPI_Allreduce(&in, &in, 1, MPI_INT, MPI_SUM, comm));
    FAILS(MPI_ERR_BUFFER, MPI_Allreduce(NULL, &out, 1, MPI_INT, MPI_SUM, comm));
    FAILS(MPI_ERR_BUFFER, MPI_Allreduce(&in, NULL, 1, MPI_INT, MPI_SUM, comm));
    FAILS(MPI_ERR_BUFFER, MPI_Allreduce(&in, MPI_IN_PLACE, 1, MPI_INT, MPI_SUM, comm));
    FAILS(MPI_ERR_BUFFER, MPI_Allreduce(MPI_IN_PLACE, NULL, 1, MPI_INT, MPI_SUM, comm));
    FAILS(MPI_ERR_COMM, MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_NULL));
    FAILS(MPI_ERR_COMM, MPI_Barrier(MPI_COMM_NULL));
    MPI_Comm_dup(comm, &freed);
    warm(freed);
    MPI_Comm old = freed;
    MPI_Comm_free(&freed);
    FAILS(MPI_ERR_COMM, MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, old));
    FAILS(MPI_ERR_COMM, MPI_Barrier(old));
    warm(comm);
}

/* Who does something else than the others, in the midst of calls that come again, is told so, and they are. */
static void disagreement(MPI_Comm world)
{
    if (size == 1)
        return;
    for (int kind = 0; kind < 2; kind++) {
        int in[2] = {1, 1}, out[2], code;
        MPI_Comm comm;
        MPI_Comm_dup(world, &comm);
        warm(comm);
        if (rank != 0)
            code = MPI_Allreduce(in, out, 1, MPI_INT, MPI_SUM, comm);
        else if (kind == 0)
            code = MPI_Barrier(comm);
        else
            code = MPI_Allreduce(in, out, 2, MPI_INT, MPI_SUM, comm);
        CHECK(code != MPI_SUCCESS, "kind %d", kind);
    }
}

/* The blocking call before which slots for nonblocking ones are made is the same on all ranks, and takes part. */
static void between_nonblocking_calls(MPI_Comm world)
{
    MPI_Comm comm;
    MPI_Comm_dup(world, &comm);
    warm(comm);
    for (int i = 0; i < WARM; i++) {
        int in = rank, one = -1, other = -1;
        MPI_Request request;
        OK(MPI_Iallreduce(&in, &one, 1, MPI_INT, MPI_SUM, comm, &request));
        OK(MPI_Allreduce(&in, &other, 1, MPI_INT, MPI_SUM, comm));
        OK(MPI_Barrier(comm));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK(one == other && one == size * (size - 1) / 2, "%d %d", one, other);
    }
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    other_calls(MPI_COMM_WORLD);
    made_types(MPI_COMM_WORLD);
    wrong_calls(MPI_COMM_WORLD);
    between_nonblocking_calls(MPI_COMM_WORLD);
    disagreement(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
