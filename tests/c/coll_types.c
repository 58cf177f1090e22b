/* Collectives on derived datatypes: gaps, other orders, structs with user operations, absolute
 * addresses.
 *
 * ranks: 1 2 3 4 7 8
 * timeout: 60
 */
#include "coll.h"
#include <stddef.h>

enum { ROWS = 30, COLUMNS = 8 };

/* A column of a matrix, so that the next one starts an element further on. */
static MPI_Datatype column_type(int rows)
{
    MPI_Datatype vector, column;
    OK(MPI_Type_vector(rows, 1, COLUMNS, MPI_INT, &vector));
    OK(MPI_Type_create_resized(vector, 0, sizeof(int), &column));
    OK(MPI_Type_commit(&column));
    OK(MPI_Type_free(&vector));
    return column;
}

static void columns(int rows)
{
    MPI_Datatype column = column_type(rows);
    size_t cells = (size_t)rows * COLUMNS;
    int *matrix = ints(cells), *line = ints(cells), *other = ints(cells * size);
    int columns = COLUMNS < size ? COLUMNS : size;
    for (int root = 0; root < size; root += 2) {
        /* Columns 2 and 3 go from the root; nothing else changes. */
        for (size_t i = 0; i < cells; i++)
            matrix[i] = rank == root ? value(root, (int)i, rows) : -1;
        OK(MPI_Bcast(matrix + 2, 2, column, root, MPI_COMM_WORLD));
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < COLUMNS; c++) {
                int got = matrix[r * COLUMNS + c], have = rank == root || c == 2 || c == 3;
                int want = have ? value(root, r * COLUMNS + c, rows) : -1;
                CHECK(got == want, "row %d, column %d from %d: %d", r, c, root, got);
            }
    }
    /* Rank r's line becomes column r everywhere. */
    for (int r = 0; r < rows; r++)
        line[r] = value(rank, r, 1);
    if (size <= COLUMNS) {
        for (size_t i = 0; i < cells; i++)
            matrix[i] = -1;
        OK(MPI_Allgather(line, rows, MPI_INT, matrix, 1, column, MPI_COMM_WORLD));
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < COLUMNS; c++)
                CHECK(matrix[r * COLUMNS + c] == (c < size ? value(c, r, 1) : -1), "%d, %d", r, c);
        for (size_t i = 0; i < cells; i++)
            matrix[i] = -1;
        OK(MPI_Gather(line, rows, MPI_INT, matrix, 1, column, size - 1, MPI_COMM_WORLD));
        for (int r = 0; r < rows && rank == size - 1; r++)
            for (int c = 0; c < COLUMNS; c++)
                CHECK(matrix[r * COLUMNS + c] == (c < size ? value(c, r, 1) : -1), "%d, %d", r, c);
        for (size_t i = 0; i < cells; i++)
            matrix[i] = value(rank, (int)i, 2);
        for (int i = 0; i < rows; i++)
            line[i] = -1;
        OK(MPI_Scatter(matrix, 1, column, line, rows, MPI_INT, 0, MPI_COMM_WORLD));
        for (int r = 0; r < rows; r++)
            CHECK(line[r] == value(0, r * COLUMNS + rank, 2), "row %d", r);
        /* A transposition: column r goes to rank r as a line, and in place. */
        for (size_t i = 0; i < cells * size; i++)
            other[i] = -1;
        OK(MPI_Alltoall(matrix, 1, column, other, rows, MPI_INT, MPI_COMM_WORLD));
        for (int from = 0; from < size; from++)
            for (int r = 0; r < rows; r++)
                CHECK(other[from * rows + r] == value(from, r * COLUMNS + rank, 2), "%d", r);
        OK(MPI_Alltoall(MPI_IN_PLACE, 0, MPI_INT, matrix, 1, column, MPI_COMM_WORLD));
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < COLUMNS; c++) {
                int got = matrix[r * COLUMNS + c];
                int want = c < size ? value(c, r * COLUMNS + rank, 2)
                                    : value(rank, r * COLUMNS + c, 2);
                CHECK(got == want, "row %d, column %d", r, c);
            }
    }
    /* Every rank another type: columns from even ranks, lines from odd ones. */
    int *counts = ints(size), *from = ints(size), *to = ints(size), *lens = ints(size);
    size_t room = size * sizeof(MPI_Datatype) / sizeof(int);
    MPI_Datatype *sent = (MPI_Datatype *)ints(room), *got = (MPI_Datatype *)ints(room);
    for (int r = 0; r < size; r++) {
        int odd = (rank + r) % 2;
        counts[r] = odd ? rows : 1;
        sent[r] = odd ? MPI_INT : column;
        from[r] = (int)sizeof(int) * (odd ? 0 : r % columns);
        lens[r] = rows;
        got[r] = MPI_INT;
        to[r] = (int)sizeof(int) * r * rows;
    }
    for (size_t i = 0; i < cells; i++)
        matrix[i] = value(rank, (int)i, 3);
    OK(MPI_Alltoallw(matrix, counts, from, sent, other, lens, to, got, MPI_COMM_WORLD));
    for (int r = 0; r < size; r++)
        for (int i = 0; i < rows; i++) {
            int odd = (rank + r) % 2;
            int place = odd ? i : i * COLUMNS + rank % columns;
            CHECK(other[r * rows + i] == value(r, place, 3), "rank %d's %d", r, i);
        }
    free(counts);
    free(from);
    free(to);
    free(lens);
    free(sent);
    free(got);
    free(matrix);
    free(line);
    free(other);
    OK(MPI_Type_free(&column));
}

/* A struct with a gap, joined by an operation that does not commute: x -> m x + c. */
struct map {
    char gap;
    unsigned m;
    char more;
    double c;
};

static MPI_Datatype map_type;

static void compose(void *in, void *inout, int *len, MPI_Datatype *datatype)
{
    struct map *a = in, *b = inout;
    MPI_Aint lb, extent;
    int bytes;
    CHECK(*datatype == map_type, "another handle: %lx", (unsigned long)*datatype);
    OK(MPI_Type_get_extent(*datatype, &lb, &extent));
    OK(MPI_Type_size(*datatype, &bytes));
    CHECK(extent == sizeof(struct map) && bytes == 12, "extent %ld, size %d", (long)extent, bytes);
    for (int i = 0; i < *len; i++) {
        b[i].c = (double)(((unsigned)a[i].c * b[i].m + (unsigned)b[i].c) % 65536);
        b[i].m = a[i].m * b[i].m % 65536;
    }
}

static struct map one(int r, int i)
{
    struct map map = {'x', 2 * (unsigned)(r + i) + 3, 'y', i * 17 + r};
    return map;
}

static struct map composed(int i, int first, int last)
{
    struct map all = one(first, i);
    for (int r = first + 1; r < last; r++) {
        struct map next = one(r, i);
        all.c = (double)(((unsigned)all.c * next.m + (unsigned)next.c) % 65536);
        all.m = all.m * next.m % 65536;
    }
    return all;
}

static void check_map(struct map got, int i, int ranks)
{
    struct map want = composed(i, 0, ranks);
    CHECK(got.m % 65536 == want.m % 65536 && got.c == want.c, "element %d of %d ranks", i, ranks);
}

static void structs(int n)
{
    int lens[2] = {1, 1};
    MPI_Aint places[2] = {offsetof(struct map, m), offsetof(struct map, c)};
    MPI_Datatype parts[2] = {MPI_UNSIGNED, MPI_DOUBLE}, raw;
    MPI_Op op;
    OK(MPI_Type_create_struct(2, lens, places, parts, &raw));
    OK(MPI_Type_create_resized(raw, 0, sizeof(struct map), &map_type));
    OK(MPI_Type_commit(&map_type));
    OK(MPI_Type_free(&raw));
    OK(MPI_Op_create(compose, 0, &op));
    struct map *own = malloc((n * size + 1) * sizeof *own), *all = malloc((n * size + 1) * sizeof *all);
    for (int i = 0; i < n * size; i++)
        own[i] = one(rank, i);
    memset(all, 'z', (n * size + 1) * sizeof *all);
    OK(MPI_Allreduce(own, all, n, map_type, op, MPI_COMM_WORLD));
    for (int i = 0; i < n; i++) {
        check_map(all[i], i, size);
        CHECK(all[i].gap == 'z' && all[i].more == 'z', "wrote into gaps");
    }
    for (int root = 0; root < size; root++) {
        OK(MPI_Reduce(own, all, n, map_type, op, root, MPI_COMM_WORLD));
        for (int i = 0; i < n && rank == root; i++)
            check_map(all[i], i, size);
    }
    OK(MPI_Scan(own, all, n, map_type, op, MPI_COMM_WORLD));
    for (int i = 0; i < n; i++)
        check_map(all[i], i, rank + 1);
    OK(MPI_Exscan(own, all, n, map_type, op, MPI_COMM_WORLD));
    for (int i = 0; i < n && rank > 0; i++)
        check_map(all[i], i, rank);
    OK(MPI_Reduce_scatter_block(own, all, n, map_type, op, MPI_COMM_WORLD));
    for (int i = 0; i < n; i++) {
        struct map want = composed(rank * n + i, 0, size);
        CHECK(all[i].m % 65536 == want.m % 65536 && all[i].c == want.c, "element %d", i);
    }
    /* Type and operation are freed while it runs. */
    MPI_Request request;
    OK(MPI_Iallreduce(own, all, n, map_type, op, MPI_COMM_WORLD, &request));
    OK(MPI_Op_free(&op));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int i = 0; i < n; i++)
        check_map(all[i], i, size);
    OK(MPI_Type_free(&map_type));
    free(own);
    free(all);
}

static void freed(void *in, void *inout, int *len, MPI_Datatype *datatype)
{
    int bytes = 0;
    OK(MPI_Type_size(*datatype, &bytes));
    CHECK(bytes == 2 * (int)sizeof(int), "%d", bytes);
    for (int i = 0; i < 2 * *len; i++)
        ((int *)inout)[i] += ((int *)in)[i];
}

/* The datatype's handle is freed before the operation is used. */
static void freed_type(void)
{
    MPI_Datatype pair;
    MPI_Op op;
    MPI_Request request;
    int own[2] = {rank, 1}, all[2] = {0, 0};
    OK(MPI_Type_contiguous(2, MPI_INT, &pair));
    OK(MPI_Type_commit(&pair));
    OK(MPI_Op_create(freed, 1, &op));
    OK(MPI_Iallreduce(own, all, 1, pair, op, MPI_COMM_WORLD, &request));
    OK(MPI_Type_free(&pair));
    OK(MPI_Op_free(&op));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(all[0] == size * (size - 1) / 2 && all[1] == size, "%d %d", all[0], all[1]);
}

/* Addresses in the type, and MPI_BOTTOM for the buffer. */
static void absolute(void)
{
    int a = rank == 0 ? 11 : -1, lens[2] = {1, 1};
    double b = rank == 0 ? 2.5 : -1;
    MPI_Aint places[2];
    MPI_Datatype parts[2] = {MPI_INT, MPI_DOUBLE}, both;
    OK(MPI_Get_address(&a, &places[0]));
    OK(MPI_Get_address(&b, &places[1]));
    OK(MPI_Type_create_struct(2, lens, places, parts, &both));
    OK(MPI_Type_commit(&both));
    OK(MPI_Bcast(MPI_BOTTOM, 1, both, 0, MPI_COMM_WORLD));
    CHECK(a == 11 && b == 2.5, "%d %g", a, b);
    OK(MPI_Type_free(&both));
}

static void errors(void)
{
    MPI_Datatype type;
    int in[8] = {0}, out[8] = {0};
    OK(MPI_Type_vector(2, 1, 2, MPI_INT, &type));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    FAILS(MPI_ERR_TYPE, MPI_Bcast(in, 1, type, 0, MPI_COMM_WORLD));
    FAILS(MPI_ERR_TYPE, MPI_Allgather(in, 2, MPI_INT, out, 1, type, MPI_COMM_WORLD));
    OK(MPI_Type_commit(&type));
    FAILS(MPI_ERR_OP, MPI_Allreduce(in, out, 1, type, MPI_SUM, MPI_COMM_WORLD));
    OK(MPI_Bcast(in, 1, type, 0, MPI_COMM_WORLD));
    OK(MPI_Type_free(&type));
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    columns(ROWS);
    columns(1);
    columns(20000);
    structs(1);
    structs(5);
    structs(3000);
    freed_type();
    absolute();
    errors();
    MPI_Finalize();
    return 0;
}
