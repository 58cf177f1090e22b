/* Mismatched collectives: a rank that would hang or get wrong data gets an error in bounded time, whichever
 * algorithms the two calls use.
 *
 * ranks: 2 4
 * variants: shm shm-2copy
 * timeout: 30
 */
#include "coll.h"

enum { MOST = 1 << 19 };
static int in[4 * MOST], out[4 * MOST];

/* Counts on both sides of the limits between ways: in a slot's first line, in a slot, in several, single
 * copy, messages. */
static const int counts[] = {0, 1, 13, 3000, 20000, MOST};
enum { COUNTS = 6, KINDS = 9 };

static int call(int kind, int n, MPI_Comm comm, MPI_Request *request)
{
    const MPI_Datatype t = MPI_INT;
    if (request)
        switch (kind) {
        case 0: return MPI_Ibcast(out, n, t, 0, comm, request);
        case 1: return MPI_Iallreduce(in, out, n, t, MPI_SUM, comm, request);
        case 2: return MPI_Iallgather(in, n, t, out, n, t, comm, request);
        case 3: return MPI_Ialltoall(in, n, t, out, n, t, comm, request);
        case 4: return MPI_Ireduce(in, out, n, t, MPI_SUM, 1, comm, request);
        case 5: return MPI_Igather(in, n, t, out, n, t, 1, comm, request);
        case 6: return MPI_Iscatter(in, n, t, out, n, t, 0, comm, request);
        case 7: return MPI_Iscan(in, out, n, t, MPI_SUM, comm, request);
        default: return MPI_Ireduce_scatter_block(in, out, n / 4, t, MPI_SUM, comm, request);
        }
    switch (kind) {
    case 0: return MPI_Bcast(out, n, t, 0, comm);
    case 1: return MPI_Allreduce(in, out, n, t, MPI_SUM, comm);
    case 2: return MPI_Allgather(in, n, t, out, n, t, comm);
    case 3: return MPI_Alltoall(in, n, t, out, n, t, comm);
    case 4: return MPI_Reduce(in, out, n, t, MPI_SUM, 1, comm);
    case 5: return MPI_Gather(in, n, t, out, n, t, 1, comm);
    case 6: return MPI_Scatter(in, n, t, out, n, t, 0, comm);
    case 7: return MPI_Scan(in, out, n, t, MPI_SUM, comm);
    default: return MPI_Reduce_scatter_block(in, out, n / 4, t, MPI_SUM, comm);
    }
}

static MPI_Comm fresh(void)
{
    MPI_Comm comm;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    for (int i = 0; i < 8; i++) {
        MPI_Request request;
        OK(MPI_Ibarrier(comm, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        OK(MPI_Barrier(comm));
    }
    return comm;
}

/* How many ranks were told, and that no error is of another class than allowed. */
static int told(int code, int also)
{
    int class = MPI_SUCCESS, failed = code != MPI_SUCCESS, all = 0;
    MPI_Error_class(code, &class);
    CHECK(!failed || class == MPI_ERR_TRUNCATE || class == also, "class %d", class);
    OK(MPI_Allreduce(&failed, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    return all;
}

static void amounts(int kind, int few, int many, int nonblocking)
{
    MPI_Comm comm = fresh();
    MPI_Request request;
    int n = rank == size - 1 ? counts[many] : counts[few];
    double began = MPI_Wtime();
    int code = call(kind, n, comm, nonblocking ? &request : NULL);
    if (nonblocking && code == MPI_SUCCESS)
        code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    /* At the latest the next one of the same sort says so. */
    int next = MPI_SUCCESS;
    if (!nonblocking)
        next = MPI_Barrier(comm);
    else if ((next = MPI_Ibarrier(comm, &request)) == MPI_SUCCESS)
        next = MPI_Wait(&request, MPI_STATUS_IGNORE);
    double took = MPI_Wtime() - began;
    CHECK(took < 8, "kind %d, %d and %d: %f s", kind, counts[few], counts[many], took);
    int all = told(code ? code : next, MPI_ERR_OTHER);
    CHECK(all > 0, "kind %d, %d and %d, nonblocking %d: nobody was told", kind, counts[few], counts[many],
          nonblocking);
    OK(MPI_Comm_free(&comm));
}

/* Which collective, and which root. */
static void others(void)
{
    MPI_Comm comm = fresh();
    int code = rank == 0 ? MPI_Barrier(comm) : call(1, 1, comm, NULL);
    CHECK(told(code, MPI_ERR_OTHER) > 0, "a barrier and an allreduce");
    OK(MPI_Comm_free(&comm));
    comm = fresh();
    code = MPI_Bcast(out, 1, MPI_INT, rank == 0 ? 1 : 0, comm);
    int next = MPI_Barrier(comm);
    CHECK(told(code ? code : next, MPI_ERR_ROOT) > 0, "two roots");
    OK(MPI_Comm_free(&comm));
}

/* Descriptions that differ where the data is the same are no disagreement. */
static void agreements(void)
{
    MPI_Comm comm = fresh();
    MPI_Datatype pair;
    OK(MPI_Type_contiguous(2, MPI_INT, &pair));
    OK(MPI_Type_commit(&pair));
    for (int i = 0; i < 30; i++) {
        int n = 2 * (1 + i * i * 40);
        OK(MPI_Bcast(out, rank ? n : n / 2, rank ? MPI_INT : pair, 0, comm));
        OK(MPI_Gather(in, n, MPI_INT, out, n / 2, pair, i % size, comm));
        OK(MPI_Scatter(in, n / 2, pair, out, n, MPI_INT, i % size, comm));
        OK(MPI_Allgather(in, n, MPI_INT, out, n / 2, pair, comm));
        OK(MPI_Alltoall(in, n / 2, pair, out, n, MPI_INT, comm));
    }
    OK(MPI_Type_free(&pair));
    OK(MPI_Comm_free(&comm));
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    agreements();
    others();
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < 3; i++) {
            int few = (kind + 2 * i) % COUNTS, many = (few + 1 + (kind + i) % (COUNTS - 1)) % COUNTS;
            if (kind == 8 && counts[few] / 4 == counts[many] / 4)
                continue;
            amounts(kind, few, many, 0);
            amounts(kind, few, many, 1);
        }
    MPI_Finalize();
    return 0;
}
