/* A mismatched collective while other ranks are still in the matching call before it: that call completes, whichever
 * rank is late; the mismatched call and all later ones return errors.
 *
 * ranks: 4
 * variants: shm shm-2copy
 * timeout: 30
 */
#include "coll.h"

enum { LONG = 1 << 16, KINDS = 8 };
static int in[LONG], out[4 * LONG];

/* The call before. Of the blocking ones those who only give are through while others have not come. */
static int before(int kind, MPI_Comm comm, MPI_Request *request)
{
    const MPI_Datatype t = MPI_INT;
    *request = MPI_REQUEST_NULL;
    switch (kind) {
    case 0: return MPI_Ibarrier(comm, request);
    case 1: return MPI_Iallreduce(in, out, 1, t, MPI_SUM, comm, request);
    case 2: return MPI_Iallreduce(in, out, LONG, t, MPI_SUM, comm, request);
    case 3: return MPI_Iallgather(in, 3, t, out, 3, t, comm, request);
    case 4: return MPI_Igather(in, 20, t, out, 20, t, 2, comm, request);
    case 5: return MPI_Reduce(in, out, 1, t, MPI_SUM, 2, comm);
    case 6: return MPI_Reduce(in, out, 200, t, MPI_SUM, 2, comm);
    default: return MPI_Gather(in, 20, t, out, 20, t, 2, comm);
    }
}

/* Something that ranks 0 and 1 call differently. */
static int later(int nonblocking, MPI_Comm comm)
{
    MPI_Request request;
    int one = 1, sum, code;
    if (!nonblocking)
        return rank == 0 ? MPI_Barrier(comm) : MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    code = rank == 0 ? MPI_Ibarrier(comm, &request)
                     : MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm, &request);
    return code == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : code;
}

static void check_result(int kind)
{
    int all = kind < 4 || rank == 2;
    if (!all)
        return;
    if (kind == 1 || kind == 2 || kind == 5 || kind == 6)
        for (int i = 0; i < (kind == 2 ? LONG : kind == 6 ? 200 : 1); i++)
            CHECK(out[i] == 10 + 4 * i, "kind %d: element %d is %d", kind, i, out[i]);
    if (kind == 3 || kind == 4 || kind == 7) {
        int n = kind == 3 ? 3 : 20;
        for (int i = 0; i < 4 * n; i++)
            CHECK(out[i] == i / n + 1 + i % n, "kind %d: element %d is %d", kind, i, out[i]);
    }
}

static void round_of(int kind, int nonblocking)
{
    MPI_Comm comm;
    MPI_Request request;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    for (int i = 0; i < 8; i++) {
        OK(MPI_Ibarrier(comm, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        OK(MPI_Barrier(comm));
    }
    memset(out, 0, sizeof out);
    if (rank == 3)
        for (int from = 0; from < 2; from++)
            OK(MPI_Recv(NULL, 0, MPI_INT, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(before(kind, comm, &request));
    if (rank < 2) {
        CHECK(later(nonblocking, comm) != MPI_SUCCESS, "kind %d, nonblocking %d: not told", kind, nonblocking);
        OK(MPI_Send(NULL, 0, MPI_INT, 3, 1, MPI_COMM_WORLD));
    }
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    check_result(kind);
    CHECK(MPI_Barrier(comm) != MPI_SUCCESS, "kind %d, nonblocking %d: not told afterwards", kind, nonblocking);
    OK(MPI_Comm_free(&comm));
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    for (int i = 0; i < LONG; i++)
        in[i] = rank + 1 + i;
    for (int kind = 0; kind < KINDS; kind++)
        for (int nonblocking = 0; nonblocking < 2; nonblocking++)
            round_of(kind, nonblocking);
    MPI_Finalize();
    return 0;
}
