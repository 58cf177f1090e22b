/* Large accumulates beside single ones on the same elements: none is lost, each is atomic.
 *
 * ranks: 2 4
 * variants: shm ofi
 */
#include "rma.h"

#define INTS 6000
#define ROUNDS 3
/* Elements of an accumulate. */
#define HOT 48

static unsigned next(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* A few cache lines, changed by vectors and one by one as fast as possible. */
static void hot(struct window *w, int rounds)
{
    int rank = world_rank(), one = 1, found, ones[HOT], old[HOT];
    /* Large ones are faster. All are to go on for about as long. */
    int own = rank % 2 ? rounds : 20 * rounds, all;
    for (int i = 0; i < HOT; i++) {
        ones[i] = 1;
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock_all(0, w->win));
    for (int i = 0; i < own; i++) {
        MPI_Aint at = w->start[0];
        if (rank % 2 == 0) {
            if (i % 4) {
                OK(MPI_Accumulate(ones, HOT, MPI_INT, 0, at, HOT, MPI_INT, MPI_SUM, w->win));
            } else {
                OK(MPI_Get_accumulate(ones, HOT, MPI_INT, old, HOT, MPI_INT, 0, at, HOT, MPI_INT,
                                      MPI_SUM, w->win));
                OK(MPI_Win_flush_local(0, w->win));
            }
        } else {
            for (int j = 0; j < HOT; j++) {
                OK(MPI_Fetch_and_op(&one, &found, MPI_INT, 0, at + 4 * j, MPI_SUM, w->win));
            }
            OK(MPI_Win_flush_local(0, w->win));
        }
    }
    OK(MPI_Win_unlock_all(w->win));
    OK(MPI_Allreduce(&own, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, w->win));
    for (int i = 0; rank == 0 && i < HOT; i++) {
        CHECK_EQ(((int *)w->base)[i], all);
    }
    memset(w->base, 0, HOT * sizeof(int));
    OK(MPI_Win_unlock(rank, w->win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), size = world_size();
    for (int kind = 0; kind < KINDS; kind++) {
        MPI_Aint bytes = INTS * (MPI_Aint)sizeof(int) * 2;
        struct window w = window_make((enum kind)kind, bytes, 1);
        MPI_Aint at = w.start[0], chars = at + INTS * (MPI_Aint)sizeof(int);
        int *ones = allocate(INTS * sizeof(int)), *old = allocate(INTS * sizeof(int));
        int *last = allocate(INTS * sizeof(int));
        int *mine = allocate(INTS * sizeof(int)), *all = allocate(INTS * sizeof(int));
        char *char_ones = allocate(INTS);
        MPI_Datatype every_third;
        unsigned state = (unsigned)(rank * 77 + kind);
        /* Shared windows are mapped, whatever the transport. */
        hot(&w, kind == SHARED ? 40000 / size : 10);
        memset(mine, 0, INTS * sizeof(int));
        memset(last, 0, INTS * sizeof(int));
        memset(char_ones, 1, INTS);
        for (int i = 0; i < INTS; i++) {
            ones[i] = 1;
        }
        OK(MPI_Type_vector(INTS / 3, 1, 3, MPI_INT, &every_third));
        OK(MPI_Type_commit(&every_third));
        OK(MPI_Win_lock_all(0, w.win));
        for (int round = 0; round < ROUNDS; round++) {
            if (rank % 2 == 0) {
                /* All elements at once, in every form. */
                switch (round % 3) {
                case 0:
                    OK(MPI_Accumulate(ones, INTS, MPI_INT, 0, at, INTS, MPI_INT, MPI_SUM, w.win));
                    break;
                case 1:
                    OK(MPI_Get_accumulate(ones, INTS, MPI_INT, old, INTS, MPI_INT, 0, at, INTS,
                                          MPI_INT, MPI_SUM, w.win));
                    OK(MPI_Win_flush(0, w.win));
                    for (int i = 0; i < INTS; i++) {
                        CHECK(old[i] >= last[i]);
                        last[i] = old[i] + 1;
                    }
                    break;
                default:
                    OK(MPI_Accumulate(ones, INTS / 3, MPI_INT, 0, at, 1, every_third, MPI_SUM, w.win));
                    for (int i = 0; i < INTS / 3; i++) {
                        mine[3 * i]++;
                    }
                    break;
                }
                if (round % 3 != 2) {
                    for (int i = 0; i < INTS; i++) {
                        mine[i]++;
                    }
                }
                OK(MPI_Accumulate(char_ones, INTS, MPI_SIGNED_CHAR, 0, chars, INTS, MPI_SIGNED_CHAR,
                                  MPI_SUM, w.win));
            } else {
                for (int i = 0; i < 5; i++) {
                    int place = (int)(next(&state) % INTS), one = 1, found;
                    OK(MPI_Fetch_and_op(&one, &found, MPI_INT, 0, at + 4 * place, MPI_SUM, w.win));
                    OK(MPI_Win_flush(0, w.win));
                    mine[place]++;
                    /* A few at once, and one by compare and swap. */
                    place = (int)(next(&state) % (INTS - 8));
                    OK(MPI_Accumulate(ones, 7, MPI_INT, 0, at + 4 * place, 7, MPI_INT, MPI_SUM, w.win));
                    for (int j = 0; j < 7; j++) {
                        mine[place + j]++;
                    }
                    place = (int)(next(&state) % INTS);
                    int expected, wanted;
                    OK(MPI_Fetch_and_op(NULL, &found, MPI_INT, 0, at + 4 * place, MPI_NO_OP, w.win));
                    OK(MPI_Win_flush(0, w.win));
                    do {
                        expected = found;
                        wanted = found + 1;
                        OK(MPI_Compare_and_swap(&wanted, &expected, &found, MPI_INT, 0,
                                                at + 4 * place, w.win));
                        OK(MPI_Win_flush(0, w.win));
                    } while (found != expected);
                    mine[place]++;
                }
            }
        }
        OK(MPI_Win_unlock_all(w.win));
        OK(MPI_Allreduce(mine, all, INTS, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        if (rank == 0) {
            OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w.win));
            for (int i = 0; i < INTS; i++) {
                CHECK_EQ(((int *)w.base)[i], all[i]);
                CHECK_EQ(w.base[INTS * sizeof(int) + (size_t)i], (size + 1) / 2 * ROUNDS);
            }
            OK(MPI_Win_unlock(0, w.win));
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPI_Type_free(&every_third));
        window_free(&w);
        free(ones);
        free(old);
        free(last);
        free(mine);
        free(all);
        free(char_ones);
    }
    OK(MPI_Finalize());
    return 0;
}
