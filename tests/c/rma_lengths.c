/* Atomic operations on integers of 1, 2, 4 and 8 bytes: what each finds and leaves, by all ranks at the same
 * time on elements that lie side by side, and between long accumulates on the same memory.
 *
 * ranks: 1 2 4
 * variants: shm shm-2copy tcp hosts
 */
#include "rma.h"

enum { EACH = 60, SIDE = 16, BYTES = 256 };

static const struct {
    MPI_Datatype type;
    int len;
} types[] = {{MPI_CHAR, 1},     {MPI_SIGNED_CHAR, 1}, {MPI_UNSIGNED_CHAR, 1}, {MPI_SHORT, 2},
             {MPI_UINT16_T, 2}, {MPI_INT, 4},         {MPI_UINT32_T, 4},      {MPI_INT64_T, 8}};

/* An integer of that length; little-endian, as everywhere here. */
static int64_t value_of(const void *at, int len)
{
    int64_t value = 0;
    memcpy(&value, at, (size_t)len);
    return value;
}

static int64_t fetch(MPI_Win win, int64_t operand, MPI_Datatype type, int len, int to, MPI_Aint at, MPI_Op op)
{
    int64_t found = -1;
    OK(MPI_Fetch_and_op(&operand, &found, type, to, at, op, win));
    OK(MPI_Win_flush(to, win));
    /* Nothing is written behind the element. */
    CHECK(len == 8 || found >> (8 * len) == -1);
    return value_of(&found, len);
}

/* One rank alone, on rank `to`. */
static void each(MPI_Win win, MPI_Datatype type, int len, int to)
{
    const MPI_Aint at = 64;
    CHECK_EQ(fetch(win, 100, type, len, to, at, MPI_REPLACE), 0);
    CHECK_EQ(fetch(win, 27, type, len, to, at, MPI_SUM), 100);
    CHECK_EQ(fetch(win, 15, type, len, to, at, MPI_BAND), 127);
    CHECK_EQ(fetch(win, 48, type, len, to, at, MPI_BOR), 15);
    CHECK_EQ(fetch(win, 1, type, len, to, at, MPI_BXOR), 63);
    CHECK_EQ(fetch(win, 5, type, len, to, at, MPI_MIN), 62);
    CHECK_EQ(fetch(win, 99, type, len, to, at, MPI_NO_OP), 5);
    int64_t compare = 4, new = 9, found = -1, result = -1;
    OK(MPI_Compare_and_swap(&new, &compare, &found, type, to, at, win));
    OK(MPI_Win_flush(to, win));
    CHECK_EQ(value_of(&found, len), 5);
    compare = 5;
    OK(MPI_Compare_and_swap(&new, &compare, &found, type, to, at, win));
    OK(MPI_Win_flush(to, win));
    CHECK_EQ(value_of(&found, len), 5);
    OK(MPI_Accumulate(&new, 1, type, to, at, 1, type, MPI_SUM, win));
    OK(MPI_Win_flush(to, win));
    OK(MPI_Get_accumulate(NULL, 0, type, &result, 1, type, to, at, 1, type, MPI_NO_OP, win));
    OK(MPI_Win_flush(to, win));
    CHECK_EQ(value_of(&result, len), 18);
    /* A sum that doesn't fit goes round within the element. */
    int64_t most = -1, none = 0;
    CHECK_EQ(fetch(win, most, type, len, to, at, MPI_REPLACE), 18);
    fetch(win, 1, type, len, to, at, MPI_SUM);
    CHECK_EQ(fetch(win, 0, type, len, to, at, MPI_NO_OP), 0);
    OK(MPI_Get(&none, 8, MPI_BYTE, to, at, 8, MPI_BYTE, win));
    OK(MPI_Win_flush(to, win));
    CHECK_EQ(none, 0);
}

/* All at once on rank 0: each element is added to by every rank, while its neighbours are, too. */
static void together(struct window *w, MPI_Datatype type, int len, int rank, int size)
{
    char ones[SIDE * 8] = {0};
    for (int i = 0; i < SIDE; i++) {
        ones[i * len] = 1;
    }
    memset(w->base, 0, BYTES);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock_all(0, w->win));
    for (int i = 0; i < EACH; i++) {
        int64_t one = 1, found;
        MPI_Aint at = w->start[0] + (i + rank) % SIDE * len;
        if (i % 3 == 0) {
            OK(MPI_Accumulate(&one, 1, type, 0, at, 1, type, MPI_SUM, w->win));
        } else if (i % 20 == 1) {
            /* So many elements that they are added at once. */
            OK(MPI_Accumulate(ones, SIDE, type, 0, w->start[0], SIDE, type, MPI_SUM, w->win));
        } else {
            OK(MPI_Fetch_and_op(&one, &found, type, 0, at, MPI_SUM, w->win));
            OK(MPI_Win_flush(0, w->win));
        }
    }
    OK(MPI_Win_unlock_all(w->win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0) {
        int64_t expected[SIDE] = {0};
        for (int i = 0; i < EACH; i++) {
            for (int r = 0; r < size; r++) {
                for (int k = 0; k < SIDE; k++) {
                    int whole = i % 3 != 0 && i % 20 == 1;
                    expected[k] += whole || (i + r) % SIDE == k;
                }
            }
        }
        OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w->win));
        for (int k = 0; k < SIDE; k++) {
            int64_t all = len == 8 ? -1 : (1LL << 8 * len) - 1;
            CHECK_EQ(value_of(w->base + k * len, len), expected[k] & all);
        }
        OK(MPI_Win_unlock(0, w->win));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), size = world_size();
    for (enum kind kind = CREATED; kind < DYNAMIC; kind++) {
        struct window w = window_make(kind, BYTES, 1);
        for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
            if (rank == size - 1) {
                OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w.win));
                each(w.win, types[i].type, types[i].len, 0);
                OK(MPI_Win_unlock(0, w.win));
            }
            OK(MPI_Barrier(MPI_COMM_WORLD));
            together(&w, types[i].type, types[i].len, rank, size);
        }
        /* Elements that are not aligned, none at all, and what is wrong. */
        OK(MPI_Win_set_errhandler(w.win, MPI_ERRORS_RETURN));
        int16_t two = 2, old = 7;
        char one = 1, was;
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, w.win));
        memset(w.base, 0, 8);
        OK(MPI_Fetch_and_op(&two, &old, MPI_SHORT, rank, 3, MPI_SUM, w.win));
        OK(MPI_Win_flush(rank, w.win));
        CHECK_EQ(old, 0);
        OK(MPI_Fetch_and_op(&two, &old, MPI_SHORT, rank, 3, MPI_SUM, w.win));
        OK(MPI_Win_flush(rank, w.win));
        CHECK_EQ(old, 2);
        OK(MPI_Win_unlock(rank, w.win));
        FAILS(MPI_Fetch_and_op(&one, &was, MPI_CHAR, rank, 0, MPI_SUM, w.win), MPI_ERR_RMA_SYNC);
        OK(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, w.win));
        FAILS(MPI_Fetch_and_op(&one, &was, MPI_CHAR, rank, BYTES, MPI_SUM, w.win), MPI_ERR_RMA_RANGE);
        FAILS(MPI_Fetch_and_op(&two, &old, MPI_SHORT, rank, -2, MPI_SUM, w.win), MPI_ERR_DISP);
        FAILS(MPI_Compare_and_swap(&two, &two, &old, MPI_SHORT, rank, BYTES - 1, w.win), MPI_ERR_RMA_RANGE);
        float half = 0.5f, whole;
        FAILS(MPI_Fetch_and_op(&half, &whole, MPI_FLOAT, rank, 0, MPI_BXOR, w.win), MPI_ERR_OP);
        FAILS(MPI_Fetch_and_op(NULL, &was, MPI_CHAR, rank, 0, MPI_SUM, w.win), MPI_ERR_BUFFER);
        OK(MPI_Win_unlock(rank, w.win));
        window_free(&w);
    }
    OK(MPI_Finalize());
    return 0;
}
