/* Ranks that disagree about how much data there is, in calls that go by messages: whoever doesn't get the data
 * that it expects is told so, also where others have passed it on, and nobody waits for ever.
 *
 * ranks: 2 4 5
 * variants: shm ofi
 * timeout: 30
 */
#include "coll.h"

enum { MOST = 4000 };
static int in[8 * MOST], out[8 * MOST];

/* What a rank gets of a call in which the rank `odd` has another count. */
static int call(int kind, int n, MPI_Comm comm) {
    const MPI_Datatype t = MPI_INT;
    switch (kind) {
    case 0: return MPI_Bcast(out, n, t, 0, comm);
    case 1: return MPI_Allreduce(in, out, n, t, MPI_SUM, comm);
    case 2: return MPI_Reduce(in, out, n, t, MPI_SUM, 0, comm);
    case 3: return MPI_Scatter(in, n, t, out, n, t, 0, comm);
    default: return MPI_Allgather(in, n, t, out, n, t, comm);
    }
}

static void disagree(int kind, int odd, int theirs, int all) {
    MPI_Comm comm;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    for (int i = 0; i < 8 * MOST; i++) {
        in[i] = rank + 1;
        out[i] = kind == 0 && rank == 0 ? 7 : -1;
    }
    int n = rank == odd ? theirs : all, code = call(kind, n, comm), told = code != MPI_SUCCESS, sum = 0;
    int class = MPI_ERR_TRUNCATE;
    if (told)
        OK(MPI_Error_class(code, &class));
    CHECK(class == MPI_ERR_TRUNCATE, "class %d", class);
    /* Who succeeds has the data of a call in which all agree. */
    int sums = size * (size + 1) / 2;
    for (int i = 0; !told && i < n; i++) {
        if (kind == 0)
            CHECK(out[i] == 7, "kind %d odd %d %d/%d: out[%d] is %d", kind, odd, theirs, all, i, out[i]);
        if (kind == 1 || (kind == 2 && rank == 0))
            CHECK(out[i] == sums, "kind %d odd %d %d/%d: out[%d] is %d", kind, odd, theirs, all, i, out[i]);
        if (kind == 3)
            CHECK(out[i] == 1, "kind %d odd %d %d/%d: out[%d] is %d", kind, odd, theirs, all, i, out[i]);
    }
    OK(MPI_Allreduce(&told, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK(sum > 0, "kind %d, rank %d has %d instead of %d: nobody was told", kind, odd, theirs, all);
    /* In a broadcast with another amount at the root, all others are told. */
    if (kind == 0 && odd == 0)
        CHECK(sum == size - 1, "%d of %d ranks were told", sum, size);
    OK(MPI_Comm_free(&comm));
}

int main(int argc, char **argv) {
    start(&argc, &argv);
    for (int kind = 0; kind < 5; kind++)
        for (int odd = 0; odd < size; odd++) {
            disagree(kind, odd, 10, 20);
            disagree(kind, odd, 20, 10);
            /* Both sides take the same algorithm: where they do not, they may wait for each other. */
            disagree(kind, odd, 2100, 2000);
        }
    MPI_Finalize();
    return 0;
}
