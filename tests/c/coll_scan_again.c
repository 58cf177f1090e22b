/* Scans, exscans and reduce-scatters that come again, which take a short way within a node: right for all lengths and
 * datatypes, in place and not, in the order of ranks, beside other collectives; nothing is written that is not the result's.
 *
 * ranks: 1 2 3 5
 * variants: shm shm-2copy
 * timeout: 60
 */
#include "coll.h"

#define CHECK_EQ(got, want) CHECK((got) == (want), "%d and not %d", got, want)

enum { AGAIN = 8, MOST = 3000 };

static double in[8 * MOST], out[8 * MOST], first[8 * MOST];
static int counts[64];

/* What rank `of` gives at `i` in round `k`: small whole numbers, so that sums are exact. */
static double given(int of, int i, int k)
{
    return (of + 1) * 1000 + i % 97 + k;
}

static void check(int kind, int n, int i, int k, double got, double want)
{
    CHECK(got == want, "kind %d, %d elements, element %d, round %d: %g and not %g", kind, n, i, k, got, want);
}

static void scans(MPI_Comm comm, int n, int in_place, int exclusive, int k)
{
    double *own = in_place ? out : in;
    for (int i = 0; i <= n; i++) {
        out[i] = -1;
        own[i] = given(rank, i, k);
    }
    if (in_place)
        out[n] = -1;
    if (exclusive)
        OK(MPI_Exscan(in_place ? MPI_IN_PLACE : in, rank || in_place ? out : NULL, n, MPI_DOUBLE, MPI_SUM, comm));
    else
        OK(MPI_Scan(in_place ? MPI_IN_PLACE : in, out, n, MPI_DOUBLE, MPI_SUM, comm));
    for (int i = 0; i < n; i++) {
        double sum = 0;
        for (int r = 0; r < rank + !exclusive; r++)
            sum += given(r, i, k);
        /* At rank 0 an exscan leaves the receive buffer as it was. */
        if (exclusive && rank == 0)
            sum = in_place ? given(0, i, k) : -1;
        check(exclusive, n, i, k, out[i], sum);
        CHECK(own[i] == given(rank, i, k) || in_place, "the send buffer was changed");
    }
    CHECK(out[n] == -1, "kind %d, %d elements, round %d: written past the end", exclusive, n, k);
}

/* Rank r gets `n` elements, or, if they vary, n + r of them and none at rank 1. */
static int block(int r, int n, int vary)
{
    return !vary ? n : r == 1 ? 0 : n + r;
}

static void reduce_scatter(MPI_Comm comm, int n, int in_place, int vary, int k)
{
    int all = 0, before = 0, mine = block(rank, n, vary);
    for (int r = 0; r < size; r++) {
        counts[r] = block(r, n, vary);
        before += r < rank ? counts[r] : 0;
        all += counts[r];
    }
    double *own = in_place ? out : in;
    for (int i = 0; i <= all; i++) {
        out[i] = -1;
        own[i] = given(rank, i, k);
    }
    if (vary)
        OK(MPI_Reduce_scatter(in_place ? MPI_IN_PLACE : in, out, counts, MPI_DOUBLE, MPI_SUM, comm));
    else
        OK(MPI_Reduce_scatter_block(in_place ? MPI_IN_PLACE : in, out, n, MPI_DOUBLE, MPI_SUM, comm));
    for (int i = 0; i < mine; i++) {
        double sum = 0;
        for (int r = 0; r < size; r++)
            sum += given(r, before + i, k);
        check(2 + vary, n, i, k, out[i], sum);
    }
    if (!in_place)
        CHECK(out[mine] == -1, "kind %d, %d elements, round %d: written past the end", 2 + vary, n, k);
}

/* Whatever comes between them. */
static void between(MPI_Comm comm, int k)
{
    int word = k, sum;
    if (k % 3 == 0)
        OK(MPI_Barrier(comm));
    if (k % 4 == 1) {
        OK(MPI_Allreduce(&word, &sum, 1, MPI_INT, MPI_SUM, comm));
        CHECK_EQ(sum, k * size);
    }
    if (k % 5 == 2) {
        OK(MPI_Bcast(&word, 1, MPI_INT, k % size, comm));
        CHECK_EQ(word, k);
    }
}

static void lengths(MPI_Comm comm)
{
    static const int n[] = {1, 2, 5, 6, 31, 250, 600, MOST / 8};
    for (int l = 0; l < 8; l++)
        for (int kind = 0; kind < 8; kind++)
            for (int k = 0; k < AGAIN; k++) {
                if (kind < 4)
                    scans(comm, n[l], kind & 1, kind >> 1, k);
                else
                    reduce_scatter(comm, n[l], kind & 1, (kind >> 1) & 1, k);
                if (l % 2)
                    between(comm, k);
            }
    /* By turns, so that none is the latest of its kind for long. */
    for (int k = 0; k < 200; k++) {
        scans(comm, 1 + k % 3, k % 5 == 0, k % 2, k);
        reduce_scatter(comm, 1 + k % 2, k % 7 == 0, k % 3 == 0, k);
        between(comm, k);
    }
}

/* One who only gives runs ahead of those who wait for him, by more calls than there are slots. */
static void ahead(MPI_Comm comm)
{
    for (int k = 0; k < 1000; k++) {
        int own = rank + k, before = -1;
        OK(MPI_Exscan(&own, &before, 1, MPI_INT, MPI_SUM, comm));
        CHECK_EQ(before, rank == 0 ? -1 : rank * (rank - 1) / 2 + rank * k);
    }
}

/* Floating-point sums are the same bits each time, short way or not, and those of the ranks' order. */
static void same_bits(MPI_Comm comm)
{
    for (int k = 0; k < 3 * AGAIN; k++) {
        for (int i = 0; i < 40; i++)
            in[i] = 1.0 / (3 + rank + i);
        OK(MPI_Scan(in, out, 20, MPI_DOUBLE, MPI_SUM, comm));
        OK(MPI_Reduce_scatter_block(in, out + 20, 20 / size, MPI_DOUBLE, MPI_PROD, comm));
        if (k == 0)
            memcpy(first, out, 40 * sizeof(double));
        CHECK(memcmp(first, out, (size_t)(20 + 20 / size) * sizeof(double)) == 0, "other bits in round %d", k);
    }
}

/* Other datatypes and operations of the same count are other calls. */
static void others(MPI_Comm comm)
{
    for (int k = 0; k < 3 * AGAIN; k++) {
        short small[3] = {(short)rank, (short)-rank, (short)k}, least[3];
        OK(MPI_Scan(small, least, 3, MPI_SHORT, MPI_MIN, comm));
        CHECK(least[0] == 0 && least[1] == -rank && least[2] == k, "%d %d %d", least[0], least[1], least[2]);
        float real[3] = {(float)rank, 1, 2}, sum[3];
        OK(MPI_Scan(real, sum, 3, MPI_FLOAT, MPI_SUM, comm));
        CHECK(sum[0] == (float)(rank * (rank + 1) / 2) && sum[1] == (float)(rank + 1), "%g %g", sum[0], sum[1]);
        struct {
            double value;
            int where;
        } pair = {rank % 2 ? 7 : 3, rank}, most;
        OK(MPI_Scan(&pair, &most, 1, MPI_DOUBLE_INT, MPI_MAXLOC, comm));
        CHECK(most.value == (rank ? 7 : 3) && most.where == (rank ? 1 : 0), "%g at %d", most.value, most.where);
        long double wide = rank + 1, product;
        OK(MPI_Scan(&wide, &product, 1, MPI_LONG_DOUBLE, MPI_PROD, comm));
        long double factorial = 1;
        for (int r = 1; r <= rank + 1; r++)
            factorial *= r;
        CHECK(product == factorial, "%Lg", product);
    }
}

/* What is wrong is found as at the first time. */
static void wrong(MPI_Comm comm)
{
    int one = 1, two = 0, class;
    OK(MPI_Scan(&one, &two, 1, MPI_INT, MPI_SUM, comm));
    MPI_Error_class(MPI_Scan(&one, &one, 1, MPI_INT, MPI_SUM, comm), &class);
    CHECK_EQ(class, MPI_ERR_BUFFER);
    MPI_Error_class(MPI_Scan(&one, &two, -1, MPI_INT, MPI_SUM, comm), &class);
    CHECK_EQ(class, MPI_ERR_COUNT);
    MPI_Error_class(MPI_Scan(&one, &two, 1, MPI_INT, MPI_OP_NULL, comm), &class);
    CHECK_EQ(class, MPI_ERR_OP);
    OK(MPI_Scan(&one, &two, 1, MPI_INT, MPI_SUM, comm));
    CHECK_EQ(two, rank + 1);
}

int main(int argc, char **argv)
{
    MPI_Comm comm;
    start(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    lengths(MPI_COMM_WORLD);
    ahead(comm);
    same_bits(comm);
    others(comm);
    wrong(comm);
    OK(MPI_Comm_free(&comm));
    MPI_Finalize();
    return 0;
}
