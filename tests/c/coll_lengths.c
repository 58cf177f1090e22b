/* Lengths that differ between ranks so that they choose different algorithms, for messages and writes over a
 * network. No rank hangs, and at least one gets an error. Over 3, 4 and 5 ranks 216 combinations start
 * together; a few (with any argument, all) are then repeated as blocking calls in turn.
 *
 * ranks: 3 4 5
 * variants: shm shm-2copy tcp ofi hosts
 * timeout: 60
 */
#include "coll.h"
#include <unistd.h>

enum { KINDS = 9, PAIRS = 8, MOST = 1 << 19 };
static const int pairs[PAIRS][2] = {
    {0, 1}, {1, 13}, {13, 20000}, {20000, 13}, {1, MOST}, {MOST, 1}, {3000, MOST}, {MOST, 20000},
};

static int *in, *out;

/* Buffers that calls share are only read, or written without anybody looking. */
static int start_call(int kind, int n, MPI_Comm comm, MPI_Request *request)
{
    const MPI_Datatype t = MPI_INT;
    switch (kind) {
    case 0: return MPI_Ibcast(out, n, t, 0, comm, request);
    case 1: return MPI_Iallreduce(in, out, n, t, MPI_SUM, comm, request);
    case 2: return MPI_Iallgather(in, n, t, out, n, t, comm, request);
    case 3: return MPI_Ialltoall(in, n, t, out, n, t, comm, request);
    case 4: return MPI_Ireduce(in, out, n, t, MPI_SUM, 1, comm, request);
    case 5: return MPI_Igather(in, n, t, out, n, t, 1, comm, request);
    case 6: return MPI_Iscatter(in, n, t, out, n, t, 0, comm, request);
    case 7: return MPI_Iscan(in, out, n, t, MPI_SUM, comm, request);
    default: return MPI_Ireduce_scatter_block(in, out, n, t, MPI_SUM, comm, request);
    }
}

static int call(int kind, int n, MPI_Comm comm)
{
    const MPI_Datatype t = MPI_INT;
    switch (kind) {
    case 0: return MPI_Bcast(out, n, t, 0, comm);
    case 1: return MPI_Allreduce(in, out, n, t, MPI_SUM, comm);
    case 2: return MPI_Allgather(in, n, t, out, n, t, comm);
    case 3: return MPI_Alltoall(in, n, t, out, n, t, comm);
    case 4: return MPI_Reduce(in, out, n, t, MPI_SUM, 1, comm);
    case 5: return MPI_Gather(in, n, t, out, n, t, 1, comm);
    case 6: return MPI_Scatter(in, n, t, out, n, t, 0, comm);
    case 7: return MPI_Scan(in, out, n, t, MPI_SUM, comm);
    default: return MPI_Reduce_scatter_block(in, out, n, t, MPI_SUM, comm);
    }
}

static MPI_Comm fresh(void)
{
    MPI_Comm comm;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    return comm;
}

/* Who is the odd one out changes from one to the next. */
static int amount(int kind, int pair)
{
    return pairs[pair][rank == (kind + pair) % size];
}

static int check_class(int code)
{
    int class;
    if (code == MPI_SUCCESS)
        return 0;
    OK(MPI_Error_class(code, &class));
    CHECK(class == MPI_ERR_TRUNCATE, "class %d", class);
    return 1;
}

static void all_together(void)
{
    static MPI_Comm comms[KINDS][PAIRS];
    static MPI_Request requests[KINDS][PAIRS];
    int told[KINDS][PAIRS] = {{0}}, all[KINDS][PAIRS];
    for (int kind = 0; kind < KINDS; kind++)
        for (int pair = 0; pair < PAIRS; pair++)
            comms[kind][pair] = fresh();
    double began = MPI_Wtime();
    for (int kind = 0; kind < KINDS; kind++)
        for (int pair = 0; pair < PAIRS; pair++) {
            int code = start_call(kind, amount(kind, pair), comms[kind][pair], &requests[kind][pair]);
            told[kind][pair] = check_class(code);
            if (code)
                requests[kind][pair] = MPI_REQUEST_NULL;
        }
    for (int kind = 0; kind < KINDS; kind++)
        for (int pair = 0; pair < PAIRS; pair++) {
            int code = MPI_SUCCESS, done = 0;
            while (!done && code == MPI_SUCCESS) {
                code = MPI_Test(&requests[kind][pair], &done, MPI_STATUS_IGNORE);
                CHECK(MPI_Wtime() - began < 30, "kind %d, %d and %d: a hang", kind, pairs[pair][0],
                      pairs[pair][1]);
            }
            told[kind][pair] |= check_class(code);
        }
    OK(MPI_Allreduce(told, all, KINDS * PAIRS, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    for (int kind = 0; kind < KINDS; kind++)
        for (int pair = 0; pair < PAIRS; pair++) {
            /* Who expects nothing waits for nobody, and nobody notices what is sent. */
            CHECK(all[kind][pair] || pair == 0, "kind %d, %d and %d: nobody was told", kind, pairs[pair][0],
                  pairs[pair][1]);
            OK(MPI_Comm_free(&comms[kind][pair]));
        }
}

/* `before` barriers come first: with enough of them there are slots where there can be. */
static void one(int kind, int pair, int before)
{
    MPI_Comm comm = fresh();
    for (int i = 0; i < before; i++)
        OK(MPI_Barrier(comm));
    double began = MPI_Wtime();
    int told = check_class(call(kind, amount(kind, pair), comm)), all = 0;
    double took = MPI_Wtime() - began;
    CHECK(took < 10, "kind %d, %d and %d: %f s", kind, pairs[pair][0], pairs[pair][1], took);
    OK(MPI_Allreduce(&told, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK(all || pair == 0, "kind %d, %d and %d after %d: nobody was told", kind, pairs[pair][0], pairs[pair][1],
          before);
    if (before == 0) {
        int sum = 0, mine = rank;
        OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm));
        CHECK(sum == size * (size - 1) / 2, "%d", sum);
    }
    OK(MPI_Comm_free(&comm));
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    in = calloc((size_t)size * MOST, sizeof *in);
    out = calloc((size_t)size * MOST, sizeof *out);
    int each = argc > 1, count = 0;
    all_together();
    for (int kind = 0; kind < KINDS; kind++)
        for (int pair = 0; pair < PAIRS; pair++)
            if (each || (kind * PAIRS + pair) % 29 == 7) {
                one(kind, pair, 0);
                count++;
            }
    if (each && rank == 0)
        printf("%d combinations together, and %d by themselves\n", KINDS * PAIRS, count);
    one(1, 2, 6);
    one(0, 3, 6);
    MPI_Finalize();
    free(in);
    free(out);
    return 0;
}
