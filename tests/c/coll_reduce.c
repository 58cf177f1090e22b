/* Collectives that compute: every function, operations and datatypes, orders of operands.
 *
 * ranks: 1 2 3 4 5 7 8
 * timeout: 60
 */
#include "coll.h"

static const int counts[] = {0, 1, 2, 7, 100, 1030, 30000, 100003};

/* Sums of ints of all ranks. */

static int sum(int i, int k, int ranks)
{
    unsigned total = 0;
    for (int r = 0; r < ranks; r++)
        total += (unsigned)value(r, i, k);
    return (int)total;
}

static void reduce(int n, int root, int in_place)
{
    int *own = ints(n), *all = ints(n);
    in_place = in_place && rank == root;
    for (int i = 0; i < n; i++)
        own[i] = all[i] = value(rank, i, n);
    OK(MPI_Reduce(in_place ? MPI_IN_PLACE : own, rank == root ? all : NULL, n, MPI_INT, MPI_SUM,
                  root, MPI_COMM_WORLD));
    for (int i = 0; i < n; i++) {
        CHECK(own[i] == value(rank, i, n), "changed the send buffer");
        if (rank == root)
            CHECK(all[i] == sum(i, n, size), "element %d of %d", i, n);
    }
    CHECK(all[n] == -1, "wrote beyond the end");
    free(own);
    free(all);
}

static void allreduce(int n, int in_place)
{
    int *own = ints(n), *all = ints(n);
    for (int i = 0; i < n; i++)
        own[i] = all[i] = value(rank, i, n);
    OK(MPI_Allreduce(in_place ? MPI_IN_PLACE : own, all, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < n; i++) {
        CHECK(own[i] == value(rank, i, n), "changed the send buffer");
        CHECK(all[i] == sum(i, n, size), "element %d of %d", i, n);
    }
    CHECK(all[n] == -1, "wrote beyond the end");
    free(own);
    free(all);
}

static void scans(int n, int in_place)
{
    int *own = ints(n), *all = ints(n);
    for (int i = 0; i < n; i++)
        own[i] = all[i] = value(rank, i, n);
    OK(MPI_Scan(in_place ? MPI_IN_PLACE : own, all, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < n; i++)
        CHECK(all[i] == sum(i, n, rank + 1), "element %d of %d", i, n);
    for (int i = 0; i < n; i++)
        all[i] = in_place ? own[i] : -1;
    OK(MPI_Exscan(in_place ? MPI_IN_PLACE : own, all, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < n; i++)
        if (rank > 0)
            CHECK(all[i] == sum(i, n, rank), "element %d of %d", i, n);
        else
            CHECK(all[i] == (in_place ? own[i] : -1), "rank 0's receive buffer was used");
    CHECK(all[n] == -1, "wrote beyond the end");
    free(own);
    free(all);
}

static void reduce_scatter(int n, int in_place)
{
    size_t total = (size_t)n * size;
    int *own = ints(total), *mine = ints(total), *count = ints(size);
    for (size_t i = 0; i < total; i++)
        own[i] = mine[i] = value(rank, (int)i, n);
    OK(MPI_Reduce_scatter_block(in_place ? MPI_IN_PLACE : own, mine, n, MPI_INT, MPI_SUM,
                                MPI_COMM_WORLD));
    for (int i = 0; i < n; i++)
        CHECK(mine[i] == sum(rank * n + i, n, size), "element %d of %d", i, n);
    int at = 0, before = 0;
    for (int r = 0; r < size; r++) {
        count[r] = (r + n) % 3 * n / 2;
        if (r < rank)
            before += count[r];
        at += count[r];
    }
    for (int i = 0; i < at; i++)
        mine[i] = own[i];
    OK(MPI_Reduce_scatter(in_place ? MPI_IN_PLACE : own, mine, count, MPI_INT, MPI_SUM,
                          MPI_COMM_WORLD));
    for (int i = 0; i < count[rank]; i++)
        CHECK(mine[i] == sum(before + i, n, size), "element %d of %d", i, count[rank]);
    free(own);
    free(mine);
    free(count);
}

/* Every predefined operation on a datatype of every group. */

static void operations(void)
{
    double d = rank + 0.5, e = 0;
    OK(MPI_Allreduce(&d, &e, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
    CHECK(e == size - 0.5, "%g", e);
    OK(MPI_Allreduce(&d, &e, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD));
    CHECK(e == 0.5, "%g", e);
    long long l = rank + 1, m = 0, product = 1;
    for (int r = 0; r < size; r++)
        product *= r + 1;
    OK(MPI_Allreduce(&l, &m, 1, MPI_LONG_LONG, MPI_PROD, MPI_COMM_WORLD));
    CHECK(m == product, "%lld", m);
    unsigned short s[2] = {(unsigned short)(1 << rank), 1}, t[2];
    OK(MPI_Allreduce(s, t, 2, MPI_UNSIGNED_SHORT, MPI_BOR, MPI_COMM_WORLD));
    CHECK(t[0] == (1 << size) - 1 && t[1] == 1, "%x %x", t[0], t[1]);
    OK(MPI_Allreduce(s, t, 2, MPI_UNSIGNED_SHORT, MPI_BXOR, MPI_COMM_WORLD));
    CHECK(t[0] == (1 << size) - 1 && t[1] == size % 2, "%x %x", t[0], t[1]);
    OK(MPI_Allreduce(s, t, 2, MPI_UNSIGNED_SHORT, MPI_BAND, MPI_COMM_WORLD));
    CHECK(t[0] == (size == 1) && t[1] == 1, "%x %x", t[0], t[1]);
    int a[2] = {rank == 0, 1}, b[2];
    OK(MPI_Allreduce(a, b, 2, MPI_INT, MPI_LAND, MPI_COMM_WORLD));
    CHECK(b[0] == (size == 1) && b[1] == 1, "%d %d", b[0], b[1]);
    OK(MPI_Allreduce(a, b, 2, MPI_INT, MPI_LOR, MPI_COMM_WORLD));
    CHECK(b[0] == 1 && b[1] == 1, "%d %d", b[0], b[1]);
    OK(MPI_Allreduce(a, b, 2, MPI_INT, MPI_LXOR, MPI_COMM_WORLD));
    CHECK(b[0] == 1 && b[1] == size % 2, "%d %d", b[0], b[1]);
    struct { double value; int index; } at = {rank % 3, rank}, best;
    OK(MPI_Allreduce(&at, &best, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD));
    int top = size > 2 ? 2 : size - 1;
    CHECK(best.value == top && best.index == top, "%g at %d", best.value, best.index);
    OK(MPI_Allreduce(&at, &best, 1, MPI_DOUBLE_INT, MPI_MINLOC, MPI_COMM_WORLD));
    CHECK(best.value == 0 && best.index == 0, "%g at %d", best.value, best.index);
    float c[2] = {1.0f, (float)rank}, f[2];
    OK(MPI_Allreduce(c, f, 1, MPI_C_FLOAT_COMPLEX, MPI_SUM, MPI_COMM_WORLD));
    CHECK(f[0] == size && f[1] == size * (size - 1) / 2, "%g %g", f[0], f[1]);
}

/* Floating point: all ranks get the same bits. */

static void same_bits(int n)
{
    double *own = malloc(n * sizeof(double)), *all = malloc(n * sizeof(double));
    double *root = malloc(n * sizeof(double));
    for (int i = 0; i < n; i++)
        own[i] = 1.0 / (1 + rank * 37 + i);
    OK(MPI_Allreduce(own, all, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
    memcpy(root, all, n * sizeof(double));
    OK(MPI_Bcast(root, n, MPI_DOUBLE, 0, MPI_COMM_WORLD));
    CHECK(memcmp(root, all, n * sizeof(double)) == 0, "ranks differ");
    free(own);
    free(all);
    free(root);
}

/* An operation that does not commute: maps x -> m x + c modulo 2^32, one after the other. */

static MPI_Datatype expected;
static int called;

static void compose(void *in, void *inout, int *len, MPI_Datatype *datatype)
{
    unsigned *a = in, *b = inout;
    called++;
    CHECK(*datatype == expected, "another handle: %lx", (unsigned long)*datatype);
    CHECK(*len % 2 == 0, "a map was cut in two");
    for (int i = 0; i + 1 < *len; i += 2) {
        unsigned m = a[i] * b[i], c = a[i + 1] * b[i] + b[i + 1];
        b[i] = m;
        b[i + 1] = c;
    }
}

static void add(void *in, void *inout, int *len, MPI_Datatype *datatype)
{
    double *a = in, *b = inout;
    CHECK(*datatype == MPI_DOUBLE, "another handle: %lx", (unsigned long)*datatype);
    for (int i = 0; i < *len; i++)
        b[i] += a[i];
}

static void map(unsigned *at, int r, int i)
{
    at[0] = 2 * (unsigned)r + 3;
    at[1] = (unsigned)(i * 17 + r);
}

static void composed(unsigned *at, int i, int ranks)
{
    at[0] = 1;
    at[1] = 0;
    for (int r = 0; r < ranks; r++) {
        unsigned one[2];
        map(one, r, i);
        at[1] = at[1] * one[0] + one[1];
        at[0] *= one[0];
    }
}

static void ordered(void)
{
    MPI_Op op, sum_op;
    int flag = -1;
    OK(MPI_Op_create(compose, 0, &op));
    OK(MPI_Op_create(add, 1, &sum_op));
    OK(MPI_Op_commutative(op, &flag));
    CHECK(flag == 0, "%d", flag);
    OK(MPI_Op_commutative(sum_op, &flag));
    CHECK(flag == 1, "%d", flag);
    OK(MPI_Op_commutative(MPI_SUM, &flag));
    CHECK(flag == 1, "%d", flag);
    expected = MPI_UNSIGNED;
    /* One map only: longer vectors may be cut anywhere between elements. */
    unsigned own[2], all[2], right[2];
    for (int i = 0; i < 3; i++) {
        map(own, rank, i);
        composed(right, i, size);
        for (int root = 0; root < size; root++) {
            all[0] = all[1] = 0;
            OK(MPI_Reduce(own, all, 2, MPI_UNSIGNED, op, root, MPI_COMM_WORLD));
            if (rank == root)
                CHECK(all[0] == right[0] && all[1] == right[1], "to %d", root);
        }
        OK(MPI_Scan(own, all, 2, MPI_UNSIGNED, op, MPI_COMM_WORLD));
        composed(right, i, rank + 1);
        CHECK(all[0] == right[0] && all[1] == right[1], "scan");
        OK(MPI_Exscan(own, all, 2, MPI_UNSIGNED, op, MPI_COMM_WORLD));
        composed(right, i, rank);
        CHECK(rank == 0 || (all[0] == right[0] && all[1] == right[1]), "exscan");
    }
    double x[1000], y[1000];
    for (int i = 0; i < 1000; i++)
        x[i] = rank + i;
    OK(MPI_Allreduce(x, y, 1000, MPI_DOUBLE, sum_op, MPI_COMM_WORLD));
    for (int i = 0; i < 1000; i++)
        CHECK(y[i] == (double)size * i + size * (size - 1) / 2, "element %d", i);
    unsigned in[4] = {2, 5, 2, 5}, inout[4] = {3, 1, 3, 1};
    called = 0;
    OK(MPI_Reduce_local(in, inout, 4, MPI_UNSIGNED, op));
    CHECK(called == 1 && inout[0] == 6 && inout[1] == 16 && inout[3] == 16, "locally");
    int p[2] = {3, 4}, q[2] = {10, 20};
    OK(MPI_Reduce_local(p, q, 2, MPI_INT, MPI_SUM));
    CHECK(q[0] == 13 && q[1] == 24, "locally");
    OK(MPI_Op_free(&op));
    CHECK(op == MPI_OP_NULL, "not null");
    OK(MPI_Op_free(&sum_op));
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    operations();
    ordered();
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        int n = counts[k];
        for (int in_place = 0; in_place < 2; in_place++) {
            for (int root = 0; root < size; root++)
                if (n < 2000 || root % 3 == 0)
                    reduce(n, root, in_place);
            allreduce(n, in_place);
            scans(n, in_place);
            reduce_scatter(n, in_place);
        }
        same_bits(n);
    }
    MPI_Finalize();
    return 0;
}
