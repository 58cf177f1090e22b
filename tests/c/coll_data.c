/* Collectives that move data: every function, from nothing to large, from every root, in place.
 *
 * ranks: 1 2 3 4 5 7 8
 * timeout: 60
 */
#include "coll.h"

static const int counts[] = {0, 1, 3, 16, 100, 1025, 20000, 100003};

static void barrier(void)
{
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Barrier(MPI_COMM_SELF));
}

static void bcast(int n, int root)
{
    int *data = ints(n);
    for (int i = 0; i < n; i++)
        data[i] = rank == root ? value(root, i, n) : -1;
    OK(MPI_Bcast(data, n, MPI_INT, root, MPI_COMM_WORLD));
    for (int i = 0; i < n; i++)
        CHECK(data[i] == value(root, i, n), "element %d of %d from %d", i, n, root);
    CHECK(data[n] == -1, "wrote beyond the end");
    /* Counts and types may differ where the data is the same. */
    for (int i = 0; i < n; i++)
        data[i] = rank == root ? value(root, i, 1) : -1;
    if (rank % 2)
        OK(MPI_Bcast(data, n * (int)sizeof(int), MPI_BYTE, root, MPI_COMM_WORLD));
    else
        OK(MPI_Bcast(data, n * (int)sizeof(int), MPI_CHAR, root, MPI_COMM_WORLD));
    for (int i = 0; i < n; i++)
        CHECK(data[i] == value(root, i, 1), "element %d of %d from %d", i, n, root);
    free(data);
}

static void gather_scatter(int n, int root, int in_place)
{
    size_t all = (size_t)n * size;
    int *own = ints(n), *whole = ints(all);
    in_place = in_place && rank == root;
    for (int i = 0; i < n; i++)
        own[i] = value(rank, i, n);
    if (in_place)
        memcpy(whole + (size_t)rank * n, own, n * sizeof(int));
    OK(MPI_Gather(in_place ? MPI_IN_PLACE : own, n, MPI_INT, rank == root ? whole : NULL,
                  rank == root ? n : -7, rank == root ? MPI_INT : MPI_DATATYPE_NULL, root,
                  MPI_COMM_WORLD));
    if (rank == root) {
        for (int r = 0; r < size; r++)
            for (int i = 0; i < n; i++)
                CHECK(whole[(size_t)r * n + i] == value(r, i, n), "rank %d's %d of %d", r, i, n);
        CHECK(whole[all] == -1, "wrote beyond the end");
        for (size_t i = 0; i < all; i++)
            whole[i] = value((int)(i / (n ? n : 1)), (int)(i % (n ? n : 1)), 5);
    }
    for (int i = 0; i < n; i++)
        own[i] = -1;
    OK(MPI_Scatter(rank == root ? whole : NULL, rank == root ? n : -7,
                   rank == root ? MPI_INT : MPI_DATATYPE_NULL, in_place ? MPI_IN_PLACE : own, n,
                   MPI_INT, root, MPI_COMM_WORLD));
    for (int i = 0; i < n; i++)
        CHECK((in_place ? whole + (size_t)rank * n : own)[i] == value(rank, i, 5), "%d of %d", i, n);
    CHECK(own[n] == -1, "wrote beyond the end");
    free(own);
    free(whole);
}

/* Rank r has (n + r) % 5 * n / 4 elements, which lie in reverse order with a gap after each. */
static int amount(int n, int r)
{
    return (n + r) % 5 * n / 4;
}

static size_t layout(int n, int *count, int *displ)
{
    size_t at = 0;
    for (int r = size - 1; r >= 0; r--) {
        count[r] = amount(n, r);
        displ[r] = (int)at;
        at += count[r] + 1;
    }
    return at;
}

static void gatherv_scatterv(int n, int root, int in_place)
{
    int *count = ints(size), *displ = ints(size);
    size_t all = layout(n, count, displ);
    int mine = amount(n, rank);
    int *own = ints(mine), *whole = ints(all);
    in_place = in_place && rank == root;
    for (int i = 0; i < mine; i++)
        own[i] = value(rank, i, n);
    if (in_place)
        memcpy(whole + displ[rank], own, mine * sizeof(int));
    OK(MPI_Gatherv(in_place ? MPI_IN_PLACE : own, mine, MPI_INT, whole,
                   rank == root ? count : NULL, rank == root ? displ : NULL, MPI_INT, root,
                   MPI_COMM_WORLD));
    if (rank == root)
        for (int r = 0; r < size; r++) {
            for (int i = 0; i < count[r]; i++)
                CHECK(whole[displ[r] + i] == value(r, i, n), "rank %d's %d of %d", r, i, n);
            CHECK(whole[displ[r] + count[r]] == -1, "wrote into a gap");
        }
    for (int r = 0; r < size && rank == root; r++)
        for (int i = 0; i < count[r]; i++)
            whole[displ[r] + i] = value(r, i, 6);
    for (int i = 0; i < mine; i++)
        own[i] = -1;
    OK(MPI_Scatterv(whole, rank == root ? count : NULL, rank == root ? displ : NULL, MPI_INT,
                    in_place ? MPI_IN_PLACE : own, mine, MPI_INT, root, MPI_COMM_WORLD));
    for (int i = 0; i < mine; i++)
        CHECK((in_place ? whole + displ[rank] : own)[i] == value(rank, i, 6), "%d of %d", i, mine);
    free(own);
    free(whole);
    free(count);
    free(displ);
}

static void allgather(int n, int in_place)
{
    size_t all = (size_t)n * size;
    int *own = ints(n), *whole = ints(all);
    for (int i = 0; i < n; i++)
        own[i] = whole[(size_t)rank * n + i] = value(rank, i, n);
    OK(MPI_Allgather(in_place ? MPI_IN_PLACE : own, in_place ? -1 : n,
                     in_place ? MPI_DATATYPE_NULL : MPI_INT, whole, n, MPI_INT, MPI_COMM_WORLD));
    for (int r = 0; r < size; r++)
        for (int i = 0; i < n; i++)
            CHECK(whole[(size_t)r * n + i] == value(r, i, n), "rank %d's %d of %d", r, i, n);
    CHECK(whole[all] == -1, "wrote beyond the end");
    free(own);
    free(whole);
}

static void allgatherv(int n, int in_place)
{
    int *count = ints(size), *displ = ints(size);
    size_t all = layout(n, count, displ);
    int mine = amount(n, rank);
    int *own = ints(mine), *whole = ints(all);
    for (int i = 0; i < mine; i++)
        own[i] = whole[displ[rank] + i] = value(rank, i, n);
    OK(MPI_Allgatherv(in_place ? MPI_IN_PLACE : own, mine, MPI_INT, whole, count, displ, MPI_INT,
                      MPI_COMM_WORLD));
    for (int r = 0; r < size; r++) {
        for (int i = 0; i < count[r]; i++)
            CHECK(whole[displ[r] + i] == value(r, i, n), "rank %d's %d of %d", r, i, n);
        CHECK(whole[displ[r] + count[r]] == -1, "wrote into a gap");
    }
    free(own);
    free(whole);
    free(count);
    free(displ);
}

static void alltoall(int n, int in_place)
{
    size_t all = (size_t)n * size;
    int *out = ints(all), *in = ints(all);
    for (size_t i = 0; i < all; i++)
        out[i] = value(rank, (int)i, n);
    if (in_place)
        memcpy(in, out, all * sizeof(int));
    OK(MPI_Alltoall(in_place ? MPI_IN_PLACE : out, n, MPI_INT, in, n, MPI_INT, MPI_COMM_WORLD));
    for (int r = 0; r < size; r++)
        for (int i = 0; i < n; i++)
            CHECK(in[(size_t)r * n + i] == value(r, rank * n + i, n), "rank %d's %d of %d", r, i, n);
    CHECK(in[all] == -1, "wrote beyond the end");
    free(out);
    free(in);
}

/* What rank a sends to rank b; the same both ways where it is in place. */
static int between(int n, int a, int b, int in_place)
{
    return in_place ? (a + b + n) % 4 * n / 3 : (2 * a + b + n) % 4 * n / 3;
}

static void alltoallv(int n, int in_place, int typed)
{
    int *sent = ints(size), *got = ints(size), *from = ints(size), *to = ints(size);
    MPI_Datatype *types = malloc(size * sizeof(MPI_Datatype));
    int out_len = 0, in_len = 0;
    for (int r = 0; r < size; r++) {
        types[r] = MPI_INT;
        sent[r] = between(n, rank, r, in_place);
        got[r] = between(n, r, rank, in_place);
        from[r] = out_len;
        out_len += sent[r];
    }
    for (int r = size - 1; r >= 0; r--) {
        to[r] = in_len;
        in_len += got[r] + 1;
    }
    int *out = ints(out_len), *in = ints(in_len);
    for (int r = 0; r < size; r++)
        for (int i = 0; i < sent[r]; i++) {
            out[from[r] + i] = value(rank, i, r);
            if (in_place)
                in[to[r] + i] = value(rank, i, r);
        }
    if (typed) {
        for (int r = 0; r < size; r++) {
            from[r] *= (int)sizeof(int);
            to[r] *= (int)sizeof(int);
            if (got[r] == 0 && sent[r] == 0)
                types[r] = MPI_DATATYPE_NULL;
        }
        OK(MPI_Alltoallw(in_place ? MPI_IN_PLACE : out, in_place ? NULL : sent,
                         in_place ? NULL : from, in_place ? NULL : types, in, got, to, types,
                         MPI_COMM_WORLD));
        for (int r = 0; r < size; r++)
            to[r] /= (int)sizeof(int);
    } else {
        OK(MPI_Alltoallv(in_place ? MPI_IN_PLACE : out, in_place ? NULL : sent,
                         in_place ? NULL : from, in_place ? MPI_DATATYPE_NULL : MPI_INT, in, got,
                         to, MPI_INT, MPI_COMM_WORLD));
    }
    for (int r = 0; r < size; r++) {
        for (int i = 0; i < got[r]; i++)
            CHECK(in[to[r] + i] == value(r, i, rank), "rank %d's %d of %d", r, i, n);
        CHECK(in[to[r] + got[r]] == -1, "wrote into a gap");
    }
    free(out);
    free(in);
    free(types);
    free(sent);
    free(got);
    free(from);
    free(to);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    barrier();
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        int n = counts[k];
        for (int root = 0; root < size; root++) {
            if (n > 2000 && root % 3)
                continue;
            bcast(n, root);
            for (int in_place = 0; in_place < 2; in_place++) {
                gather_scatter(n, root, in_place);
                gatherv_scatterv(n, root, in_place);
            }
        }
        for (int in_place = 0; in_place < 2; in_place++) {
            allgather(n, in_place);
            allgatherv(n, in_place);
            alltoall(n, in_place);
            alltoallv(n, in_place, 0);
            alltoallv(n, in_place, 1);
        }
    }
    barrier();
    MPI_Finalize();
    return 0;
}
