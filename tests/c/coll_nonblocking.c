/* Nonblocking collectives, several at a time, with point-to-point messages in between, completed in all orders: also
 * more than there are shared slots, and on communicators that are freed meanwhile.
 *
 * ranks: 1 2 3 4 7 8
 * timeout: 60
 */
#include "coll.h"

enum { KINDS = 17, ROUNDS = 40 };

static unsigned long long seed;

static void nap(double seconds)
{
    double end = MPI_Wtime() + seconds;
    while (MPI_Wtime() < end)
        ;
}

static unsigned next(void)
{
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (unsigned)(seed >> 33);
}

/* Where they take place. */
static MPI_Comm comm;

static void *keep[4 * KINDS * ROUNDS];
static int kept;

static int *buffer(size_t count)
{
    return keep[kept++] = ints(count);
}

/* One operation under way, with what its result shall be. */
struct op {
    int kind, n, root;
    int *in, *out, *counts, *displs, *bytes;
    MPI_Datatype *types;
};

static void post(struct op *o, int kind, int n, int root, MPI_Request *request)
{
    const MPI_Comm w = comm;
    const MPI_Datatype t = MPI_INT;
    size_t all = (size_t)n * size;
    o->kind = kind;
    o->n = n;
    o->root = root;
    o->in = buffer(all);
    o->out = buffer(all);
    o->counts = buffer(size);
    o->displs = buffer(size);
    o->bytes = buffer(size);
    o->types = (MPI_Datatype *)buffer(size * sizeof(MPI_Datatype) / sizeof(int));
    for (size_t i = 0; i < all; i++)
        o->in[i] = value(rank, (int)i, kind);
    for (int r = 0; r < size; r++) {
        o->counts[r] = n;
        o->displs[r] = r * n;
        o->bytes[r] = r * n * (int)sizeof(int);
        o->types[r] = t;
    }
    int *in = o->in, *out = o->out, *c = o->counts, *d = o->displs, *b = o->bytes;
    switch (kind) {
    case 0: OK(MPI_Ibarrier(w, request)); break;
    case 1:
        for (int i = 0; i < n; i++)
            out[i] = rank == root ? value(root, i, kind) : -1;
        OK(MPI_Ibcast(out, n, t, root, w, request));
        break;
    case 2: OK(MPI_Igather(in, n, t, out, n, t, root, w, request)); break;
    case 3: OK(MPI_Igatherv(in, n, t, out, c, d, t, root, w, request)); break;
    case 4: OK(MPI_Iscatter(in, n, t, out, n, t, root, w, request)); break;
    case 5: OK(MPI_Iscatterv(in, c, d, t, out, n, t, root, w, request)); break;
    case 6: OK(MPI_Iallgather(in, n, t, out, n, t, w, request)); break;
    case 7: OK(MPI_Iallgatherv(in, n, t, out, c, d, t, w, request)); break;
    case 8: OK(MPI_Ialltoall(in, n, t, out, n, t, w, request)); break;
    case 9: OK(MPI_Ialltoallv(in, c, d, t, out, c, d, t, w, request)); break;
    case 10: OK(MPI_Ialltoallw(in, c, b, o->types, out, c, b, o->types, w, request)); break;
    case 11: OK(MPI_Ireduce(in, out, n, t, MPI_SUM, root, w, request)); break;
    case 12: OK(MPI_Iallreduce(in, out, n, t, MPI_SUM, w, request)); break;
    case 13: OK(MPI_Ireduce_scatter_block(in, out, n, t, MPI_SUM, w, request)); break;
    case 14: OK(MPI_Ireduce_scatter(in, out, c, t, MPI_SUM, w, request)); break;
    case 15: OK(MPI_Iscan(in, out, n, t, MPI_SUM, w, request)); break;
    case 16: OK(MPI_Iexscan(in, out, n, t, MPI_SUM, w, request)); break;
    }
    /* The arrays are needed during the call only... for the counts the standard says otherwise, so
     * they stay. */
}

static int sum(int i, int k, int ranks)
{
    unsigned total = 0;
    for (int r = 0; r < ranks; r++)
        total += (unsigned)value(r, i, k);
    return (int)total;
}

static void verify(const struct op *o)
{
    int n = o->n, k = o->kind, all = n * size;
    for (int i = 0; i < all; i++) {
        int r = i / (n ? n : 1), j = i % (n ? n : 1), want = -1, first = i < n;
        switch (k) {
        case 1: if (first) want = value(o->root, i, k); break;
        case 2: case 3: if (rank == o->root) want = value(r, j, k); break;
        case 4: case 5: if (first) want = value(o->root, rank * n + i, k); break;
        case 6: case 7: want = value(r, j, k); break;
        case 8: case 9: case 10: want = value(r, rank * n + j, k); break;
        case 11: if (first && rank == o->root) want = sum(i, k, size); break;
        case 12: if (first) want = sum(i, k, size); break;
        case 13: case 14: if (first) want = sum(rank * n + i, k, size); break;
        case 15: if (first) want = sum(i, k, rank + 1); break;
        case 16: if (first && rank > 0) want = sum(i, k, rank); break;
        }
        CHECK(o->out[i] == want, "kind %d, n %d, root %d, element %d: %d, not %d", k, n, o->root, i,
              o->out[i], want);
    }
}

/* Any order of completion, mixed with messages round a ring. */
static void mixed(int round)
{
    struct op ops[8];
    MPI_Request requests[10];
    int got = -1, token = value(rank, round, 0), left = (rank + size - 1) % size;
    int several = 1 + (int)(next() % 8);
    OK(MPI_Irecv(&got, 1, MPI_INT, left, round, MPI_COMM_WORLD, &requests[8]));
    for (int i = 0; i < several; i++) {
        int n = (int)(next() % 4 ? next() % 50 : next() % 5000);
        int kind = (int)(next() % KINDS), root = (int)(next() % (unsigned)size);
        post(&ops[i], kind, n, root, &requests[i]);
        if (i == several / 2)
            OK(MPI_Isend(&token, 1, MPI_INT, (rank + 1) % size, round, MPI_COMM_WORLD,
                         &requests[9]));
    }
    unsigned way = next() % 4;
    MPI_Status statuses[8];
    if (way == 0) {
        OK(MPI_Waitall(several, requests, statuses));
    } else if (way == 1) {
        for (int i = several; i-- > 0;)
            OK(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
    } else if (way == 2) {
        for (int i = 0; i < several; i++)
            for (int done = 0; !done;)
                OK(MPI_Test(&requests[(i * 5 + rank) % several], &done, MPI_STATUS_IGNORE));
        OK(MPI_Waitall(several, requests, MPI_STATUSES_IGNORE));
    } else {
        for (int i = 0; i < several; i++) {
            int which = -1;
            OK(MPI_Waitany(several, requests, &which, MPI_STATUS_IGNORE));
            CHECK(which >= 0 && which < several, "%d", which);
            verify(&ops[which]);
        }
    }
    for (int i = 0; i < several; i++) {
        CHECK(requests[i] == MPI_REQUEST_NULL, "not null");
        verify(&ops[i]);
    }
    OK(MPI_Waitall(2, requests + 8, MPI_STATUSES_IGNORE));
    CHECK(got == value(left, round, 0), "%d", got);
}

/* Every kind alone, and all of them at once. */
static void all_kinds(void)
{
    struct op ops[KINDS];
    MPI_Request requests[KINDS];
    for (int kind = 0; kind < KINDS; kind++) {
        post(&ops[kind], kind, 10, size / 2, &requests[kind]);
        OK(MPI_Wait(&requests[kind], MPI_STATUS_IGNORE));
        verify(&ops[kind]);
    }
    for (int kind = 0; kind < KINDS; kind++)
        post(&ops[kind], kind, 3000, size - 1, &requests[kind]);
    /* A blocking one overtakes them. */
    int one = 1, total = 0;
    OK(MPI_Allreduce(&one, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK(total == size, "%d", total);
    int done = 0;
    while (!done)
        OK(MPI_Testall(KINDS, requests, &done, MPI_STATUSES_IGNORE));
    for (int kind = 0; kind < KINDS; kind++)
        verify(&ops[kind]);
}

/* Nobody leaves a barrier before the last has come. */
static void barriers(void)
{
    MPI_Request request;
    int done = 0, late = size - 1;
    for (int round = 0; round < 3; round++) {
        if (rank == late) {
            for (int r = 0; r < size - 1; r++) {
                int token;
                OK(MPI_Recv(&token, 1, MPI_INT, r, 900 + round, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                CHECK(token == 0, "rank %d left the barrier early", r);
            }
            OK(MPI_Ibarrier(MPI_COMM_WORLD, &request));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        } else {
            OK(MPI_Ibarrier(MPI_COMM_WORLD, &request));
            for (int i = 0; i < 100; i++)
                OK(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
            OK(MPI_Send(&done, 1, MPI_INT, late, 900 + round, MPI_COMM_WORLD));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
    }
}

/* Far more than have slots, each rank completing them in an order of its own, with blocking ones before,
 * between and behind; the communicator is freed before they are complete. */
static void burst(int round)
{
    enum { MANY = 50 };
    static const int lengths[] = {0, 1, 2, 12, 13, 100, 1024, 2048, 2049, 4096, 5000, 8192, 8193};
    struct op ops[MANY];
    MPI_Request requests[MANY];
    int order[MANY], one = 1, total = 0;
    unsigned long long own = seed * 31 + (unsigned)rank;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    int early = (int)(next() % 3), late = (int)(next() % (unsigned)size);
    for (int i = 0; i < early * 6; i++) {
        post(&ops[i], (int)(next() % KINDS), 5, 0, &requests[i]);
        OK(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
        verify(&ops[i]);
        OK(MPI_Barrier(comm));
    }
    if (rank == late)
        nap(0.002);
    for (int i = 0; i < MANY; i++) {
        int n = lengths[next() % (next() % 4 ? 6 : 13)];
        post(&ops[i], (int)(next() % KINDS), n, (int)(next() % (unsigned)size), &requests[i]);
        order[i] = i;
        if (i % 10 == 7) {
            OK(MPI_Allreduce(&one, &total, 1, MPI_INT, MPI_SUM, comm));
            CHECK(total == size, "round %d: %d", round, total);
        }
    }
    if (early)
        OK(MPI_Comm_free(&comm));
    for (int i = MANY - 1; i > 0; i--) {
        own = own * 6364136223846793005ULL + 1442695040888963407ULL;
        int other = (int)((own >> 33) % (unsigned)(i + 1)), kept_one = order[i];
        order[i] = order[other];
        order[other] = kept_one;
    }
    for (int i = 0; i < MANY; i++) {
        OK(MPI_Wait(&requests[order[i]], MPI_STATUS_IGNORE));
        verify(&ops[order[i]]);
    }
    if (!early) {
        OK(MPI_Barrier(comm));
        OK(MPI_Comm_free(&comm));
    }
    comm = MPI_COMM_WORLD;
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    comm = MPI_COMM_WORLD;
    const char *given = getenv("COLL_SEED");
    seed = given ? strtoull(given, NULL, 10) : 20240611;
    all_kinds();
    barriers();
    for (int round = 0; round < ROUNDS; round++) {
        mixed(round);
        if (round % 4 == 0)
            burst(round);
        while (kept > 0)
            free(keep[--kept]);
    }
    MPI_Finalize();
    return 0;
}
