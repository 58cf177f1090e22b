/* Short broadcasts, gathers, scatters, reductions, allgathers and alltoalls that come again, which take a short way within a node: right for all
 * lengths, roots and buffers, beside ranks that take the long way because their data has gaps, and in any order with
 * others; what is wrong is found as at the first time.
 *
 * ranks: 1 2 3 5
 * variants: shm shm-2copy
 * timeout: 60
 */
#include <unistd.h>
#include "coll.h"

/* The first calls come before there are slots, and before this kind of call is known. */
enum { AGAIN = 8, MOST = 40000, PAST = 0x5a };

static unsigned char *in, *out;

static unsigned char byte(int of, int to, int i, int k)
{
    return (unsigned char)(of * 37 + to * 91 + i * 7 + (i >> 8) * 5 + k * 13 + 1);
}

/* Nothing is written past the end. */
static void fill(unsigned char *buffer, size_t bytes)
{
    memset(buffer, PAST, bytes + 16);
}

static void past(const unsigned char *buffer, size_t bytes)
{
    for (int i = 0; i < 16; i++)
        CHECK(buffer[bytes + i] == PAST, "byte %d after the end is %d", i, buffer[bytes + i]);
}

static void bcast(MPI_Comm comm, int n, int root, int k)
{
    fill(out, n);
    for (int i = 0; rank == root && i < n; i++)
        out[i] = byte(root, 0, i, k);
    OK(MPI_Bcast(out, n, MPI_BYTE, root, comm));
    for (int i = 0; i < n; i++)
        CHECK(out[i] == byte(root, 0, i, k), "byte %d of %d, root %d, round %d", i, n, root, k);
    past(out, n);
}

/* What is not significant elsewhere than at the root is not looked at there. */
static void gather(MPI_Comm comm, int n, int root, int in_place, int k)
{
    int leads = rank == root, alone = leads && in_place;
    unsigned char *own = alone ? out + (size_t)rank * n : in;
    fill(out, (size_t)size * n);
    for (int i = 0; i < n; i++)
        own[i] = byte(rank, 0, i, k);
    OK(MPI_Gather(alone ? MPI_IN_PLACE : in, alone ? -5 : n, alone ? MPI_DATATYPE_NULL : MPI_BYTE, leads ? out : NULL,
                  leads ? n : -7, leads ? MPI_BYTE : MPI_DATATYPE_NULL, root, comm));
    for (int r = 0; leads && r < size; r++)
        for (int i = 0; i < n; i++)
            CHECK(out[(size_t)r * n + i] == byte(r, 0, i, k), "byte %d of %d of rank %d, round %d", i, n, r, k);
    if (!leads)
        CHECK(out[0] == PAST, "round %d", k);
    past(out, (size_t)size * n);
}

static void scatter(MPI_Comm comm, int n, int root, int in_place, int k)
{
    int leads = rank == root, alone = leads && in_place;
    fill(out, n);
    for (int r = 0; leads && r < size; r++)
        for (int i = 0; i < n; i++)
            in[(size_t)r * n + i] = byte(root, r, i, k);
    OK(MPI_Scatter(leads ? in : NULL, leads ? n : -7, leads ? MPI_BYTE : MPI_DATATYPE_NULL, alone ? MPI_IN_PLACE : out,
                   alone ? -5 : n, alone ? MPI_DATATYPE_NULL : MPI_BYTE, root, comm));
    for (int i = 0; i < n; i++)
        CHECK(out[i] == (alone ? PAST : byte(root, rank, i, k)), "byte %d of %d, root %d, round %d", i, n, root, k);
    past(out, n);
}

static void allgather(MPI_Comm comm, int n, int in_place, int k)
{
    unsigned char *own = in_place ? out + (size_t)rank * n : in;
    fill(out, (size_t)size * n);
    for (int i = 0; i < n; i++)
        own[i] = byte(rank, 0, i, k);
    OK(MPI_Allgather(in_place ? MPI_IN_PLACE : in, n, MPI_BYTE, out, n, MPI_BYTE, comm));
    for (int r = 0; r < size; r++)
        for (int i = 0; i < n; i++)
            CHECK(out[(size_t)r * n + i] == byte(r, 0, i, k), "byte %d of %d of rank %d, round %d", i, n, r, k);
    past(out, (size_t)size * n);
}

static void alltoall(MPI_Comm comm, int n, int in_place, int k)
{
    unsigned char *own = in_place ? out : in;
    fill(out, (size_t)size * n);
    for (int r = 0; r < size; r++)
        for (int i = 0; i < n; i++)
            own[(size_t)r * n + i] = byte(rank, r, i, k);
    OK(MPI_Alltoall(in_place ? MPI_IN_PLACE : in, n, MPI_BYTE, out, n, MPI_BYTE, comm));
    for (int r = 0; r < size; r++)
        for (int i = 0; i < n; i++)
            CHECK(out[(size_t)r * n + i] == byte(r, rank, i, k), "byte %d of %d of rank %d, round %d", i, n, r, k);
    past(out, (size_t)size * n);
}

static void reduce(MPI_Comm comm, int n, int root, int in_place, int k)
{
    int *mine = (int *)in, *sum = (int *)out;
    fill(out, n * sizeof(int));
    if (rank == root && in_place)
        mine = sum;
    for (int i = 0; i < n; i++)
        mine[i] = value(rank, i, k);
    OK(MPI_Reduce(mine == sum ? MPI_IN_PLACE : mine, rank == root ? sum : NULL, n, MPI_INT, MPI_SUM, root, comm));
    past(out, n * sizeof(int));
    if (rank != root) {
        CHECK(n == 0 || out[0] == PAST, "round %d", k);
        return;
    }
    for (int i = 0; i < n; i++) {
        int all = 0;
        for (int r = 0; r < size; r++)
            all += value(r, i, k);
        CHECK(sum[i] == all, "element %d of %d, root %d, round %d: %d", i, n, root, k, sum[i]);
    }
}

static void lengths(MPI_Comm comm)
{
    static const int some[] = {1, 2, 7, 8, 47, 48, 49, 64, 100, 512, 1024, 2047, 2048, 4096, 8191, 8192, 8193, 16384, 32768, MOST};
    for (size_t l = 0; l < sizeof some / sizeof *some; l++)
        for (int k = 0; k < AGAIN; k++) {
            int n = some[l], root = k % size;
            bcast(comm, n, root, k);
            gather(comm, n, root, k / 3 % 2, k);
            scatter(comm, n, root, k / 3 % 2, k);
            allgather(comm, n, k / 2 % 2, k);
            alltoall(comm, n, k / 2 % 2, k);
            reduce(comm, n / 4, root, k / 2 % 2, k);
        }
}

/* Data that is described otherwise takes the long way. */
static void beside_gaps(MPI_Comm comm)
{
    enum { N = 6 };
    MPI_Datatype apart;
    MPI_Type_vector(N, 1, 2, MPI_INT, &apart);
    MPI_Type_commit(&apart);
    for (int k = 0; k < 4 * AGAIN; k++) {
        int plain[N], gaps[2 * N], root = k % size;
        int odd = (rank + k / AGAIN) % 2;
        for (int i = 0; i < N; i++)
            plain[i] = gaps[2 * i] = rank == root ? value(root, i, k) : -1;
        if (odd)
            OK(MPI_Bcast(gaps, 1, apart, root, comm));
        else
            OK(MPI_Bcast(plain, N, MPI_INT, root, comm));
        for (int i = 0; i < N; i++)
            CHECK((odd ? gaps[2 * i] : plain[i]) == value(root, i, k), "element %d, round %d", i, k);
        int *all = ints((size_t)size * N), *spread = ints((size_t)size * N);
        for (int i = 0; i < N; i++)
            plain[i] = gaps[2 * i] = value(rank, i, k);
        OK(MPI_Allgather(odd ? gaps : plain, odd ? 1 : N, odd ? apart : MPI_INT, all, N, MPI_INT, comm));
        OK(MPI_Alltoall(all, N, MPI_INT, spread, N, MPI_INT, comm));
        for (int r = 0; r < size; r++)
            for (int i = 0; i < N; i++) {
                CHECK(all[r * N + i] == value(r, i, k), "element %d of rank %d, round %d", i, r, k);
                CHECK(spread[r * N + i] == value(rank, i, k), "element %d of rank %d, round %d", i, r, k);
            }
        OK(MPI_Gather(odd ? gaps : plain, odd ? 1 : N, odd ? apart : MPI_INT, spread, N, MPI_INT, root, comm));
        for (int i = 0; rank == root && i < size * N; i++)
            CHECK(spread[i] == value(i / N, i % N, k), "element %d, round %d", i, k);
        for (int i = 0; i < 2 * N; i++)
            gaps[i] = -1;
        OK(MPI_Scatter(all, N, MPI_INT, odd ? gaps : plain, odd ? 1 : N, odd ? apart : MPI_INT, root, comm));
        for (int i = 0; i < N; i++)
            CHECK((odd ? gaps[2 * i] : plain[i]) == value(rank, i, k), "element %d, round %d", i, k);
        free(all);
        free(spread);
    }
    MPI_Type_free(&apart);
}

static unsigned state;

static int random_below(int n)
{
    state = state * 1664525u + 1013904223u;
    return (int)((state >> 8) % (unsigned)n);
}

/* All kinds in any order, with roots that run ahead and ranks that are late. */
static void any_order(MPI_Comm comm)
{
    enum { CALLS = 3000 };
    static const int some[] = {1, 8, 8, 8, 40, 64, 1000, 3000, 9000};
    for (int k = 0; k < CALLS; k++) {
        int n = some[random_below(sizeof some / sizeof *some)], root = random_below(size);
        int kind = random_below(8), in_place = random_below(2), late = random_below(200);
        int streak = random_below(20) ? 1 : 100;
        if (late < size && late == rank)
            usleep(2000);
        for (int j = 0; j < streak; j++)
            switch (kind) {
            case 0: bcast(comm, n, root, k + j); break;
            case 1: allgather(comm, n, in_place, k + j); break;
            case 2: alltoall(comm, n, in_place, k + j); break;
            case 3: reduce(comm, n, root, in_place, k + j); break;
            case 4: gather(comm, n, root, in_place, k + j); break;
            case 5: scatter(comm, n, root, in_place, k + j); break;
            case 6: OK(MPI_Barrier(comm)); break;
            default: {
                int one = k + j + rank, all = -1;
                OK(MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, comm));
                CHECK(all == size * (k + j) + size * (size - 1) / 2, "%d: %d", k, all);
            }
            }
    }
}

static void warm(MPI_Comm comm)
{
    for (int k = 0; k < AGAIN; k++) {
        bcast(comm, 4, 0, k);
        gather(comm, 4, 0, 0, k);
        scatter(comm, 4, 0, 0, k);
        allgather(comm, 4, 0, k);
        alltoall(comm, 4, 0, k);
        reduce(comm, 1, 0, 0, k);
        int *a = (int *)in, *b = (int *)out, zero = 0;
        OK(MPI_Gather(a, 1, MPI_INT, b, 1, MPI_INT, 0, comm));
        OK(MPI_Scatter(a, 1, MPI_INT, b, 1, MPI_INT, 0, comm));
        OK(MPI_Bcast(&zero, 1, MPI_INT, 0, comm));
        OK(MPI_Allgather(a, 1, MPI_INT, b, 1, MPI_INT, comm));
        OK(MPI_Alltoall(a, 1, MPI_INT, b, 1, MPI_INT, comm));
    }
}

static void wrong_calls(MPI_Comm comm)
{
    int *a = (int *)in, *b = (int *)out;
    MPI_Datatype made;
    MPI_Comm freed;
    MPI_Type_contiguous(1, MPI_INT, &made);
    warm(comm);
    FAILS(MPI_ERR_ROOT, MPI_Bcast(a, 1, MPI_INT, size, comm));
    FAILS(MPI_ERR_ROOT, MPI_Bcast(a, 1, MPI_INT, -1, comm));
    FAILS(MPI_ERR_ROOT, MPI_Reduce(a, b, 1, MPI_INT, MPI_SUM, size, comm));
    FAILS(MPI_ERR_ROOT, MPI_Reduce(a, b, 1, MPI_INT, MPI_SUM, -5, comm));
    FAILS(MPI_ERR_ROOT, MPI_Gather(a, 1, MPI_INT, b, 1, MPI_INT, size, comm));
    FAILS(MPI_ERR_ROOT, MPI_Scatter(a, 1, MPI_INT, b, 1, MPI_INT, -1, comm));
    FAILS(MPI_ERR_COUNT, MPI_Bcast(a, -1, MPI_INT, 0, comm));
    FAILS(MPI_ERR_COUNT, MPI_Allgather(a, 1, MPI_INT, b, -1, MPI_INT, comm));
    FAILS(MPI_ERR_COUNT, MPI_Alltoall(a, -1, MPI_INT, b, 1, MPI_INT, comm));
    FAILS(MPI_ERR_TYPE, MPI_Bcast(a, 1, MPI_DATATYPE_NULL, 0, comm));
    FAILS(MPI_ERR_TYPE, MPI_Bcast(a, 1, made, 0, comm));
    FAILS(MPI_ERR_TYPE, MPI_Allgather(a, 1, made, b, 1, made, comm));
    FAILS(MPI_ERR_TYPE, MPI_Alltoall(a, 1, MPI_DATATYPE_NULL, b, 1, MPI_INT, comm));
    FAILS(MPI_ERR_OP, MPI_Reduce(a, b, 1, MPI_INT, MPI_OP_NULL, 0, comm));
    FAILS(MPI_ERR_OP, MPI_Reduce(a, b, 1, MPI_INT, MPI_MAXLOC, 0, comm));
    FAILS(MPI_ERR_BUFFER, MPI_Bcast(NULL, 1, MPI_INT, 0, comm));
    FAILS(MPI_ERR_BUFFER, MPI_Bcast(MPI_IN_PLACE, 1, MPI_INT, 0, comm));
    FAILS(MPI_ERR_BUFFER, MPI_Allgather(NULL, 1, MPI_INT, b, 1, MPI_INT, comm));
    FAILS(MPI_ERR_BUFFER, MPI_Allgather(a, 1, MPI_INT, NULL, 1, MPI_INT, comm));
    FAILS(MPI_ERR_BUFFER, MPI_Allgather(a, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, comm));
    FAILS(MPI_ERR_BUFFER, MPI_Allgather(b + rank, 1, MPI_INT, b, 1, MPI_INT, comm));
    FAILS(MPI_ERR_BUFFER, MPI_Alltoall(b, 1, MPI_INT, b, 1, MPI_INT, comm));
    FAILS(MPI_ERR_BUFFER, MPI_Alltoall(a, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, comm));
    FAILS(MPI_ERR_BUFFER, MPI_Alltoall(MPI_IN_PLACE, 1, MPI_INT, NULL, 1, MPI_INT, comm));
    FAILS(MPI_ERR_BUFFER, MPI_Reduce(NULL, b, 1, MPI_INT, MPI_SUM, 0, comm));
    FAILS(MPI_ERR_TYPE, MPI_Gather(a, 1, MPI_DATATYPE_NULL, b, 1, MPI_INT, 0, comm));
    FAILS(MPI_ERR_TYPE, MPI_Scatter(a, 1, MPI_INT, b, 1, MPI_DATATYPE_NULL, 0, comm));
    FAILS(MPI_ERR_BUFFER, MPI_Gather(NULL, 1, MPI_INT, b, 1, MPI_INT, 0, comm));
    FAILS(MPI_ERR_BUFFER, MPI_Scatter(a, 1, MPI_INT, NULL, 1, MPI_INT, 0, comm));
    if (rank == 0) {
        FAILS(MPI_ERR_COUNT, MPI_Gather(a, 1, MPI_INT, b, -1, MPI_INT, 0, comm));
        FAILS(MPI_ERR_COUNT, MPI_Scatter(a, -1, MPI_INT, b, 1, MPI_INT, 0, comm));
        FAILS(MPI_ERR_BUFFER, MPI_Gather(b, 1, MPI_INT, b, 1, MPI_INT, 0, comm));
        FAILS(MPI_ERR_BUFFER, MPI_Scatter(a, 1, MPI_INT, a, 1, MPI_INT, 0, comm));
        FAILS(MPI_ERR_BUFFER, MPI_Gather(a, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, 0, comm));
        FAILS(MPI_ERR_BUFFER, MPI_Scatter(NULL, 1, MPI_INT, b, 1, MPI_INT, 0, comm));
        FAILS(MPI_ERR_BUFFER, MPI_Reduce(a, a, 1, MPI_INT, MPI_SUM, 0, comm));
        FAILS(MPI_ERR_BUFFER, MPI_Reduce(a, NULL, 1, MPI_INT, MPI_SUM, 0, comm));
        FAILS(MPI_ERR_BUFFER, MPI_Reduce(a, MPI_IN_PLACE, 1, MPI_INT, MPI_SUM, 0, comm));
    } else {
        FAILS(MPI_ERR_BUFFER, MPI_Gather(MPI_IN_PLACE, 1, MPI_INT, b, 1, MPI_INT, 0, comm));
        FAILS(MPI_ERR_BUFFER, MPI_Scatter(a, 1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, 0, comm));
        FAILS(MPI_ERR_BUFFER, MPI_Reduce(MPI_IN_PLACE, b, 1, MPI_INT, MPI_SUM, 0, comm));
    }
    FAILS(MPI_ERR_COMM, MPI_Bcast(a, 1, MPI_INT, 0, MPI_COMM_NULL));
    MPI_Comm_dup(comm, &freed);
    warm(freed);
    MPI_Comm old = freed;
    MPI_Comm_free(&freed);
    FAILS(MPI_ERR_COMM, MPI_Bcast(a, 1, MPI_INT, 0, old));
    FAILS(MPI_ERR_COMM, MPI_Reduce(a, b, 1, MPI_INT, MPI_SUM, 0, old));
    FAILS(MPI_ERR_COMM, MPI_Gather(a, 1, MPI_INT, b, 1, MPI_INT, 0, old));
    FAILS(MPI_ERR_COMM, MPI_Scatter(a, 1, MPI_INT, b, 1, MPI_INT, 0, old));
    FAILS(MPI_ERR_COMM, MPI_Allgather(a, 1, MPI_INT, b, 1, MPI_INT, old));
    FAILS(MPI_ERR_COMM, MPI_Alltoall(a, 1, MPI_INT, b, 1, MPI_INT, old));
    MPI_Type_free(&made);
    warm(comm);
}

/* Who calls something else than rank 0, in the midst of calls that come again, is told so. */
static void disagreement(MPI_Comm world)
{
    if (size == 1)
        return;
    for (int kind = 0; kind < 7; kind++) {
        int *a = (int *)in, *b = (int *)out, code = MPI_SUCCESS;
        int other = rank == size - 1;
        MPI_Comm comm;
        MPI_Comm_dup(world, &comm);
        warm(comm);
        switch (kind) {
        case 0: code = MPI_Bcast(a, 1, other ? MPI_CHAR : MPI_INT, 0, comm); break;
        case 1: code = other ? MPI_Bcast(a, 1, MPI_INT, 0, comm) : MPI_Allgather(a, 1, MPI_INT, b, 1, MPI_INT, comm); break;
        case 2: code = other ? MPI_Alltoall(a, 1, MPI_INT, b, 1, MPI_INT, comm) : MPI_Allgather(a, 1, MPI_INT, b, 1, MPI_INT, comm); break;
        case 3: code = MPI_Reduce(a, b, 1 + other, MPI_INT, MPI_SUM, 0, comm); break;
        case 5: code = MPI_Gather(a, 1 + other, MPI_INT, b, 1, MPI_INT, 0, comm); break;
        case 6: code = other ? MPI_Bcast(a, 1, MPI_INT, 0, comm) : MPI_Scatter(a, 1, MPI_INT, b, 1, MPI_INT, 0, comm); break;
        default: code = MPI_Alltoall(a, 4 - 3 * other, MPI_BYTE, b, 4 - 3 * other, MPI_BYTE, comm);
        }
        /* Of a broadcast or scatter nobody waits for those that aren't the root, of a reduction or gather nobody but the root. */
        int told = kind == 0 || kind == 6 ? other : kind == 3 || kind == 5 ? rank == 0 : 1;
        CHECK(!told || code != MPI_SUCCESS, "kind %d", kind);
        MPI_Barrier(world);
    }
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    const char *seed = getenv("WEFT_TEST_SEED");
    state = seed ? (unsigned)strtoul(seed, NULL, 10) : 20261124u;
    in = malloc((size_t)(size + 1) * MOST + 16);
    out = malloc((size_t)(size + 1) * MOST + 16);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    lengths(MPI_COMM_WORLD);
    beside_gaps(MPI_COMM_WORLD);
    any_order(MPI_COMM_WORLD);
    wrong_calls(MPI_COMM_WORLD);
    disagreement(MPI_COMM_WORLD);
    free(in);
    free(out);
    MPI_Finalize();
    return 0;
}
