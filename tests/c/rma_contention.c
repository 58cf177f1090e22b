/* Many ranks change the same words concurrently under shared and exclusive locks.
 *
 * ranks: 2 8
 */
#include "rma.h"

#define ROUNDS 60

struct pair {
    double value;
    int where;
};

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), size = world_size();
    for (int kind = 0; kind < KINDS; kind++) {
        struct window w = window_make((enum kind)kind, 256, 1);
        MPI_Aint at = w.start[0];
        int one = 1, old, seen[3] = {-1, -1, -1};
        OK(MPI_Win_lock_all(0, w.win));
        for (int i = 0; i < ROUNDS; i++) {
            OK(MPI_Fetch_and_op(&one, &old, MPI_INT, 0, at, MPI_SUM, w.win));
            OK(MPI_Win_flush(0, w.win));
            CHECK(old > seen[0]);
            seen[0] = old;
            /* By hand: add 1 with compare and swap. */
            int expected, wanted, found = 0;
            OK(MPI_Fetch_and_op(NULL, &found, MPI_INT, 0, at + 4, MPI_NO_OP, w.win));
            OK(MPI_Win_flush(0, w.win));
            do {
                expected = found;
                wanted = found + 1;
                OK(MPI_Compare_and_swap(&wanted, &expected, &found, MPI_INT, 0, at + 4, w.win));
                OK(MPI_Win_flush(0, w.win));
            } while (found != expected);
            /* Elements that no processor changes at once. */
            long double part = 1;
            double _Complex complex_part = 2;
            struct pair candidate = {rank * ROUNDS + i, rank};
            OK(MPI_Accumulate(&part, 1, MPI_LONG_DOUBLE, 0, at + 16, 1, MPI_LONG_DOUBLE, MPI_SUM, w.win));
            OK(MPI_Accumulate(&complex_part, 1, MPI_C_DOUBLE_COMPLEX, 0, at + 32, 1,
                              MPI_C_DOUBLE_COMPLEX, MPI_SUM, w.win));
            OK(MPI_Accumulate(&candidate, 1, MPI_DOUBLE_INT, 0, at + 48, 1, MPI_DOUBLE_INT,
                              MPI_MAXLOC, w.win));
            /* And one that is not aligned, and a short one. */
            short small = 1;
            OK(MPI_Accumulate(&one, 1, MPI_INT, 0, at + 65, 1, MPI_INT, MPI_SUM, w.win));
            OK(MPI_Accumulate(&small, 1, MPI_SHORT, 0, at + 70, 1, MPI_SHORT, MPI_SUM, w.win));
            double half = 0.5;
            OK(MPI_Accumulate(&half, 1, MPI_DOUBLE, 0, at + 72, 1, MPI_DOUBLE, MPI_SUM, w.win));
        }
        OK(MPI_Win_unlock_all(w.win));
        /* Get, add, put: right only if nobody else is between. */
        for (int i = 0; i < ROUNDS / 4; i++) {
            int value = 0;
            OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w.win));
            OK(MPI_Get(&value, 1, MPI_INT, 0, at + 80, 1, MPI_INT, w.win));
            OK(MPI_Win_flush(0, w.win));
            value++;
            OK(MPI_Put(&value, 1, MPI_INT, 0, at + 80, 1, MPI_INT, w.win));
            OK(MPI_Win_unlock(0, w.win));
            /* Readers between writers. */
            int now = -1;
            OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w.win));
            OK(MPI_Get(&now, 1, MPI_INT, 0, at + 80, 1, MPI_INT, w.win));
            OK(MPI_Win_unlock(0, w.win));
            CHECK(now >= value && now <= size * ROUNDS / 4);
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
        if (rank == 0) {
            OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w.win));
            int all = size * ROUNDS;
            int misaligned;
            short small;
            memcpy(&misaligned, w.base + 65, 4);
            memcpy(&small, w.base + 70, 2);
            CHECK_EQ(((int *)w.base)[0], all);
            CHECK_EQ(((int *)w.base)[1], all);
            CHECK(*(long double *)(w.base + 16) == all);
            CHECK(*(double _Complex *)(w.base + 32) == 2 * all);
            CHECK_EQ(((struct pair *)(w.base + 48))->value, size * ROUNDS - 1);
            CHECK_EQ(((struct pair *)(w.base + 48))->where, size - 1);
            CHECK_EQ(misaligned, all);
            CHECK_EQ(small, all);
            CHECK(*(double *)(w.base + 72) == all / 2.0);
            CHECK_EQ(((int *)w.base)[20], size * (ROUNDS / 4));
            OK(MPI_Win_unlock(0, w.win));
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
        window_free(&w);
    }
    OK(MPI_Finalize());
    return 0;
}
