/* MPI_Compare_and_swap and MPI_Fetch_and_op of elements of 16 bytes (MPI-4.1 section 12.3.4: of all integers and logicals, Fortran's
 * too), of which all is compared, replaced and given; and of the datatypes of MPI_Type_create_f90_integer, which are
 * predefined (sections 2.4 and 6.9.2).
 *
 * ranks: 1 2 3
 * case: auto
 * case: passive
 * env: WEFT_RMA_PASSIVE=on
 */
#include "rma.h"

typedef unsigned __int128 wide;

static wide number(uint64_t upper, uint64_t lower)
{
    return (wide)upper << 64 | lower;
}

static wide swap(struct window *w, MPI_Datatype type, int target, MPI_Aint at, wide compare, wide new)
{
    /* Beside the result nothing is written. */
    wide found[3] = {7, 8, 9};
    OK(MPI_Compare_and_swap(&new, &compare, found + 1, type, target, w->start[target] + at, w->win));
    OK(MPI_Win_flush(target, w->win));
    CHECK(found[0] == 7 && found[2] == 9);
    return found[1];
}

static wide at_place(struct window *w, int target, MPI_Aint at)
{
    wide found;
    OK(MPI_Get(&found, 16, MPI_BYTE, target, w->start[target] + at, 16, MPI_BYTE, w->win));
    OK(MPI_Win_flush(target, w->win));
    return found;
}

static void swaps(struct window *w, int rank, int target, MPI_Datatype type, MPI_Aint at)
{
    wide first = number(5 + (uint64_t)rank, 1), other = number(6 + (uint64_t)rank, 1), new = number(~7ull, 2);
    /* What is around it stays. */
    OK(MPI_Put(&first, 16, MPI_BYTE, target, w->start[target] + at, 16, MPI_BYTE, w->win));
    wide around[2] = {at_place(w, target, at - 16), at_place(w, target, at + 16)};
    CHECK(swap(w, type, target, at, other, new) == first);
    CHECK(at_place(w, target, at) == first);
    CHECK(swap(w, type, target, at, number(5 + (uint64_t)rank, 2), new) == first);
    CHECK(at_place(w, target, at) == first);
    CHECK(swap(w, type, target, at, first, new) == first);
    CHECK(at_place(w, target, at) == new);
    CHECK(swap(w, type, target, at, new, first) == new);
    CHECK(at_place(w, target, at - 16) == around[0] && at_place(w, target, at + 16) == around[1]);
    if (type == MPI_INTEGER16) {
        wide one = number(1, ~0ull), found = 0;
        OK(MPI_Fetch_and_op(&one, &found, type, target, w->start[target] + at, MPI_SUM, w->win));
        OK(MPI_Win_flush(target, w->win));
        CHECK(found == first);
        CHECK(at_place(w, target, at) == first + one);
    }
}

/* All add to one number, which is longer than the processor compares. */
static void compete(struct window *w, int rank, int size)
{
    enum { TIMES = 50 };
    wide step = number(1, 1), seen;
    for (int i = 0; i < TIMES; i++) {
        wide found = at_place(w, 0, 64);
        do {
            seen = found;
            found = swap(w, MPI_INTEGER16, 0, 64, seen, seen + step);
        } while (found != seen);
    }
    OK(MPI_Win_unlock_all(w->win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock_all(0, w->win));
    if (rank == 0) {
        wide all = TIMES * (wide)size;
        CHECK(at_place(w, 0, 64) == (all << 64 | all));
    }
}

static void unnamed(struct window *w, int target, MPI_Aint at)
{
    MPI_Datatype type;
    int first = 40, new = 50, found = 0;
    OK(MPI_Type_create_f90_integer(9, &type));
    OK(MPI_Put(&first, 1, MPI_INT, target, w->start[target] + at, 1, MPI_INT, w->win));
    OK(MPI_Win_flush(target, w->win));
    OK(MPI_Compare_and_swap(&new, &first, &found, type, target, w->start[target] + at, w->win));
    OK(MPI_Win_flush(target, w->win));
    CHECK_EQ(found, 40);
    OK(MPI_Fetch_and_op(&first, &found, type, target, w->start[target] + at, MPI_SUM, w->win));
    OK(MPI_Win_flush(target, w->win));
    CHECK_EQ(found, 50);
    OK(MPI_Fetch_and_op(NULL, &found, type, target, w->start[target] + at, MPI_NO_OP, w->win));
    OK(MPI_Win_flush(target, w->win));
    CHECK_EQ(found, 90);
}

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), size = world_size();
    for (int kind = 0; kind < KINDS; kind++) {
        struct window w = window_make((enum kind)kind, 128 + 64 * size, 1);
        OK(MPI_Win_lock_all(0, w.win));
        if (rank != size - 1 || size == 1) {
            /* Each a place of its own at the last one. */
            MPI_Aint mine = 128 + 64 * rank;
            swaps(&w, rank, size - 1, MPI_INTEGER16, mine + 16);
            swaps(&w, rank, size - 1, MPI_LOGICAL16, mine + 20);
            unnamed(&w, size - 1, mine + 16);
        }
        compete(&w, rank, size);
        OK(MPI_Win_unlock_all(w.win));
        window_free(&w);
    }
    OK(MPI_Finalize());
    return 0;
}
