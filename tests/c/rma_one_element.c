/* Accumulates of one element: each operation on each predefined datatype does, and finds, what MPI_Reduce_local says, and
 * is refused where that is; by all ranks at the same time no change is lost. Comparing and swapping bytes and logicals.
 *
 * ranks: 1 2 3
 * variants: shm tcp hosts
 */
#include <complex.h>

#include "rma.h"

enum { ROOM = 64, TIMES = 70, EACH = 200 };

static int rank, size;

enum sort { BITS, TRUTH, REAL32, REAL64, REAL_LONG, TWO32, TWO64, PAIR };

static const struct {
    MPI_Datatype type;
    enum sort sort;
    /* Length of the first of a pair, or of bits. */
    int len;
} TYPES[] = {
    {MPI_BYTE, BITS, 1}, {MPI_CHAR, BITS, 1}, {MPI_SIGNED_CHAR, BITS, 1}, {MPI_UNSIGNED_CHAR, BITS, 1},
    {MPI_SHORT, BITS, 2}, {MPI_UNSIGNED_SHORT, BITS, 2}, {MPI_INT, BITS, 4}, {MPI_UNSIGNED, BITS, 4},
    {MPI_LONG, BITS, 8}, {MPI_UNSIGNED_LONG, BITS, 8}, {MPI_LONG_LONG, BITS, 8}, {MPI_INT8_T, BITS, 1},
    {MPI_INT16_T, BITS, 2}, {MPI_UINT32_T, BITS, 4}, {MPI_UINT64_T, BITS, 8}, {MPI_AINT, BITS, 8},
    {MPI_OFFSET, BITS, 8}, {MPI_COUNT, BITS, 8}, {MPI_INTEGER, BITS, 4}, {MPI_WCHAR, BITS, 4},
    {MPI_C_BOOL, TRUTH, 1}, {MPI_LOGICAL, TRUTH, 4}, {MPI_FLOAT, REAL32, 4}, {MPI_REAL, REAL32, 4},
    {MPI_DOUBLE, REAL64, 8}, {MPI_DOUBLE_PRECISION, REAL64, 8}, {MPI_LONG_DOUBLE, REAL_LONG, 16},
    {MPI_C_FLOAT_COMPLEX, TWO32, 8}, {MPI_COMPLEX, TWO32, 8}, {MPI_C_DOUBLE_COMPLEX, TWO64, 16},
    {MPI_2INT, PAIR, 4}, {MPI_SHORT_INT, PAIR, 2},
};
enum { HOW_MANY = sizeof TYPES / sizeof *TYPES };

static const MPI_Op OPS[] = {MPI_SUM, MPI_PROD, MPI_MAX, MPI_MIN, MPI_LAND, MPI_LOR, MPI_LXOR,
                             MPI_BAND, MPI_BOR, MPI_BXOR, MPI_MAXLOC, MPI_MINLOC, MPI_REPLACE, MPI_NO_OP};
enum { OPERATIONS = sizeof OPS / sizeof *OPS };

static uint64_t state = 12345;

/* A value of type number `t`. */
static void value(void *at, int t)
{
    int n = (int)random_below(&state, 200) - 100, m = (int)random_below(&state, 20) - 10;
    memset(at, 0, ROOM);
    switch (TYPES[t].sort) {
    case BITS:
        for (int i = 0; i < TYPES[t].len; i++)
            ((char *)at)[i] = (char)random_below(&state, 256);
        break;
    case TRUTH: *(char *)at = (char)(n & 1); break;
    case REAL32: *(float *)at = (float)n / 8; break;
    case REAL64: *(double *)at = n / 8.0; break;
    case REAL_LONG: *(long double *)at = n / 8.0L; break;
    case TWO32: *(float complex *)at = (float)n / 8 + (float)m * I; break;
    case TWO64: *(double complex *)at = n / 8.0 + m * I; break;
    case PAIR:
        if (TYPES[t].len == 4) {
            ((int *)at)[0] = m;
            ((int *)at)[1] = n;
        } else {
            struct { short value; int place; } pair = {(short)m, n};
            memset(at, 0, sizeof pair);
            memcpy(at, &pair, sizeof pair);
        }
        break;
    }
}

/* Whether two values are the same, gaps aside. */
static int same(const void *a, const void *b, MPI_Datatype type)
{
    char packed[2][ROOM] = {{0}};
    int place[2] = {0, 0};
    OK(MPI_Pack(a, 1, type, packed[0], ROOM, &place[0], MPI_COMM_SELF));
    OK(MPI_Pack(b, 1, type, packed[1], ROOM, &place[1], MPI_COMM_SELF));
    /* A long double has 6 bytes without a meaning. */
    int len = type == MPI_LONG_DOUBLE ? 10 : place[0];
    return memcmp(packed[0], packed[1], (size_t)len) == 0;
}

/* One operation on one type, by each of the three calls. */
static void one(struct window *w, int target, int t, MPI_Op op)
{
    MPI_Datatype type = TYPES[t].type;
    MPI_Aint at = w->start[target] + 2 * ROOM;
    _Alignas(16) char before[ROOM], operand[ROOM], after[ROOM], found[ROOM], now[ROOM];
    value(before, t);
    value(operand, t);
    memcpy(after, before, ROOM);
    int valid = 1;
    if (op == MPI_REPLACE)
        memcpy(after, operand, ROOM);
    else if (op != MPI_NO_OP) {
        /* Accumulates take bytes for numbers, unlike reductions: benchmarks do. */
        MPI_Datatype like = type == MPI_BYTE ? MPI_SIGNED_CHAR : type;
        valid = MPI_Reduce_local(operand, after, 1, like, op) == MPI_SUCCESS;
    }
    for (int how = 0; how < 3; how++) {
        if (how == 1 && op == MPI_NO_OP)
            continue;
        OK(MPI_Put(before, 1, type, target, at, 1, type, w->win));
        OK(MPI_Win_flush(target, w->win));
        memset(found, 0, ROOM);
        const void *origin = op == MPI_NO_OP ? NULL : operand;
        int rc, class = MPI_SUCCESS;
        if (how == 0)
            rc = MPI_Fetch_and_op(origin, found, type, target, at, op, w->win);
        else if (how == 1)
            rc = MPI_Accumulate(origin, 1, type, target, at, 1, type, op, w->win);
        else
            rc = MPI_Get_accumulate(origin, 1, type, found, 1, type, target, at, 1, type, op, w->win);
        OK(MPI_Error_class(rc, &class));
        CHECK_EQ(class, valid ? MPI_SUCCESS : MPI_ERR_OP);
        OK(MPI_Win_flush(target, w->win));
        if (!valid)
            continue;
        if (how != 1)
            CHECK(same(found, before, type));
        memset(now, 0, ROOM);
        OK(MPI_Get(now, 1, type, target, at, 1, type, w->win));
        OK(MPI_Win_flush(target, w->win));
        CHECK(same(now, after, type));
    }
}

static void swap(struct window *w, int target, MPI_Datatype type)
{
    MPI_Aint at = w->start[target] + 2 * ROOM;
    int64_t zero = 0, one = 1, found;
    OK(MPI_Put(&zero, 8, MPI_BYTE, target, at, 8, MPI_BYTE, w->win));
    OK(MPI_Win_flush(target, w->win));
    for (int i = 0; i < 4; i++) {
        /* Found are 0, 1, 1, 0: the second finds another value than it asks for, the third takes it back. */
        int64_t new = i == 2 ? zero : one, compare = i == 2 ? one : zero;
        found = 0;
        OK(MPI_Compare_and_swap(&new, &compare, &found, type, target, at, w->win));
        OK(MPI_Win_flush(target, w->win));
        CHECK_EQ(found, i == 1 || i == 2);
    }
    OK(MPI_Get(&found, 8, MPI_BYTE, target, at, 8, MPI_BYTE, w->win));
    OK(MPI_Win_flush(target, w->win));
    CHECK_EQ(found, 1);
    FAILS(MPI_Compare_and_swap(&one, &zero, &found, MPI_FLOAT, target, at, w->win), MPI_ERR_TYPE);
}

/* More than one element, in what is called one. */
static void derived(struct window *w, int target)
{
    MPI_Aint at = w->start[target] + 2 * ROOM;
    MPI_Datatype two;
    OK(MPI_Type_contiguous(2, MPI_INT, &two));
    OK(MPI_Type_commit(&two));
    int values[2] = {7, -7}, found[2];
    OK(MPI_Accumulate(values, 1, two, target, at, 1, two, MPI_REPLACE, w->win));
    OK(MPI_Accumulate(values, 1, two, target, at, 1, two, MPI_MAX, w->win));
    OK(MPI_Accumulate(values, 1, two, target, at, 1, two, MPI_PROD, w->win));
    OK(MPI_Get_accumulate(NULL, 0, MPI_BYTE, found, 1, two, target, at, 1, two, MPI_NO_OP, w->win));
    OK(MPI_Win_flush(target, w->win));
    CHECK_EQ(found[0], 49);
    CHECK_EQ(found[1], 49);
    FAILS(MPI_Fetch_and_op(values, found, two, target, at, MPI_MAX, w->win), MPI_ERR_TYPE);
    OK(MPI_Type_free(&two));
}

/* All ranks at once, on elements of rank 0. */
static void together(struct window *w)
{
    MPI_Aint at = w->start[0];
    uint32_t three = 3, product = 1;
    float half = 0.5F, sum = 0;
    char ones = 1;
    if (rank == 0) {
        OK(MPI_Accumulate(&product, 1, MPI_UINT32_T, 0, at, 1, MPI_UINT32_T, MPI_REPLACE, w->win));
        OK(MPI_Accumulate(&sum, 1, MPI_FLOAT, 0, at + 4, 1, MPI_FLOAT, MPI_REPLACE, w->win));
        OK(MPI_Win_flush(0, w->win));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < EACH; i++) {
        uint32_t found;
        int mine = rank * EACH + i, least;
        OK(MPI_Fetch_and_op(&three, &found, MPI_UINT32_T, 0, at, MPI_PROD, w->win));
        OK(MPI_Accumulate(&half, 1, MPI_FLOAT, 0, at + 4, 1, MPI_FLOAT, MPI_SUM, w->win));
        OK(MPI_Fetch_and_op(&mine, &least, MPI_INT, 0, at + 8, MPI_MAX, w->win));
        /* A byte among others: an even number of changes in all. */
        OK(MPI_Accumulate(&ones, 1, MPI_BYTE, 0, at + 12 + rank, 1, MPI_BYTE, MPI_BXOR, w->win));
        OK(MPI_Win_flush(0, w->win));
        CHECK_EQ(found % 2, 1);
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    int most;
    char bytes[4];
    for (int i = 0; i < EACH * size; i++)
        three *= 3;
    OK(MPI_Fetch_and_op(NULL, &product, MPI_UINT32_T, 0, at, MPI_NO_OP, w->win));
    OK(MPI_Fetch_and_op(NULL, &sum, MPI_FLOAT, 0, at + 4, MPI_NO_OP, w->win));
    OK(MPI_Fetch_and_op(NULL, &most, MPI_INT, 0, at + 8, MPI_NO_OP, w->win));
    OK(MPI_Get(bytes, 4, MPI_BYTE, 0, at + 12, 4, MPI_BYTE, w->win));
    OK(MPI_Win_flush(0, w->win));
    CHECK_EQ(3 * product, three);
    CHECK(sum == (float)(EACH * size) / 2);
    CHECK_EQ(most, EACH * size - 1);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(bytes[i], 0);
}

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    rank = world_rank();
    size = world_size();
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    for (int kind = CREATED; kind <= DYNAMIC; kind++) {
        if (kind == SHARED)
            continue;
        struct window w = window_make((enum kind)kind, 4 * ROOM, 1);
        OK(MPI_Win_set_errhandler(w.win, MPI_ERRORS_RETURN));
        OK(MPI_Win_lock_all(0, w.win));
        if (rank == size - 1) {
            for (int i = 0; i < TIMES; i++) {
                int target = i % size;
                /* Each operation meets each type once in all. */
                for (int t = i % 5; t < HOW_MANY; t += 5)
                    one(&w, target, t, OPS[(i / 5 + t) % OPERATIONS]);
            }
            swap(&w, 0, MPI_BYTE);
            swap(&w, 0, MPI_C_BOOL);
            swap(&w, 0, MPI_LOGICAL);
            swap(&w, 0, MPI_INT16_T);
            derived(&w, 0);
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
        together(&w);
        OK(MPI_Win_unlock_all(w.win));
        window_free(&w);
    }
    OK(MPI_Finalize());
    return 0;
}
