/* A target that computes for a second, and calls nothing of MPI, holds up no origin where the network does all that
 * is needed: locks of all kinds, puts, gets, accumulates on any type, flushes, and epochs of MPI_Win_start that it
 * has posted before (MPI_Win_start). What the origin takes doesn't depend on how long the target computes. Meanwhile it attaches
 * its memory anew, so that keys that origins know don't hold any more.
 *
 * ranks: 2 3
 * variants: verbs verbs-hosts
 * timeout: 60
 */
#include "rma.h"

/* Each time twice, of which the shorter counts: others need this machine, too. */
enum { ROUNDS = 6, TIMES = 3, TARGET = 0 };

static const double computes[ROUNDS] = {0, 0.3, 1, 0, 0.3, 1};

/* All that an origin does to the target, with everything its own but the first word. */
static double deeds(struct window *w, int round, int rank)
{
    MPI_Aint at = w->start[TARGET], own = at + 64 * rank;
    MPI_Win win = w->win;
    double began = MPI_Wtime();
    int64_t value = 100 * round + rank, back = -1, one = 1, found = -1;
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, TARGET, 0, win));
    OK(MPI_Put(&value, 1, MPI_INT64_T, TARGET, own, 1, MPI_INT64_T, win));
    OK(MPI_Win_flush(TARGET, win));
    OK(MPI_Get(&back, 1, MPI_INT64_T, TARGET, own, 1, MPI_INT64_T, win));
    OK(MPI_Win_flush(TARGET, win));
    CHECK_EQ(back, value);
    OK(MPI_Win_unlock(TARGET, win));

    double half[3] = {0.5, 0.5, 0.5}, before[3];
    OK(MPI_Win_lock(MPI_LOCK_SHARED, TARGET, 0, win));
    OK(MPI_Accumulate(half, 2, MPI_DOUBLE, TARGET, own + 8, 2, MPI_DOUBLE, MPI_SUM, win));
    OK(MPI_Get_accumulate(half, 3, MPI_DOUBLE, before, 3, MPI_DOUBLE, TARGET, own + 8, 3, MPI_DOUBLE, MPI_SUM, win));
    OK(MPI_Win_flush(TARGET, win));
    CHECK(before[0] == round + 0.5 && before[1] == round + 0.5 && before[2] == 0.5 * round);
    OK(MPI_Win_unlock(TARGET, win));

    int32_t compare = round, new = round + 1, old = -1;
    short three = 3;
    OK(MPI_Win_lock_all(0, win));
    OK(MPI_Fetch_and_op(&one, &found, MPI_INT64_T, TARGET, at, MPI_SUM, win));
    OK(MPI_Compare_and_swap(&new, &compare, &old, MPI_INT32_T, TARGET, own + 32, win));
    OK(MPI_Accumulate(&three, 1, MPI_SHORT, TARGET, own + 36, 1, MPI_SHORT, MPI_BXOR, win));
    OK(MPI_Win_flush_all(win));
    CHECK(found >= 0);
    CHECK_EQ(old, round);
    /* Every second byte: many runs. */
    MPI_Datatype every;
    char bytes[8] = "abcdefg", again[8] = "";
    OK(MPI_Type_vector(8, 1, 2, MPI_CHAR, &every));
    OK(MPI_Type_commit(&every));
    OK(MPI_Put(bytes, 8, MPI_CHAR, TARGET, own + 40, 1, every, win));
    OK(MPI_Win_flush(TARGET, win));
    OK(MPI_Get(again, 8, MPI_CHAR, TARGET, own + 40, 1, every, win));
    OK(MPI_Win_unlock_all(win));
    CHECK(strcmp(bytes, again) == 0);
    OK(MPI_Type_free(&every));

    return MPI_Wtime() - began;
}

/* The same in an epoch that the target has begun before it computes. */
static double posted_deeds(struct window *w, int round, int rank, MPI_Group target)
{
    MPI_Aint own = w->start[TARGET] + 64 * rank;
    double began = MPI_Wtime(), one = 1;
    int64_t value = 100 * round + rank;
    OK(MPI_Win_start(target, 0, w->win));
    OK(MPI_Put(&value, 1, MPI_INT64_T, TARGET, own, 1, MPI_INT64_T, w->win));
    OK(MPI_Accumulate(&one, 1, MPI_DOUBLE, TARGET, own + 8, 1, MPI_DOUBLE, MPI_SUM, w->win));
    OK(MPI_Win_complete(w->win));
    return MPI_Wtime() - began;
}

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), size = world_size(), zero = TARGET;
    MPI_Group world, target, origins;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_incl(world, 1, &zero, &target));
    OK(MPI_Group_excl(world, 1, &zero, &origins));
    for (int kind = CREATED; kind < KINDS; kind++) {
        if (kind == SHARED)
            continue;
        struct window w = window_make((enum kind)kind, 4096, 1);
        double took[ROUNDS];
        for (int posted = 0; posted < 2; posted++) {
            for (int round = 0; round < ROUNDS; round++) {
                if (rank == TARGET && kind == DYNAMIC && round > 0) {
                    OK(MPI_Win_detach(w.win, w.base));
                    OK(MPI_Win_attach(w.win, w.base, w.bytes));
                }
                if (rank == TARGET && round == 0)
                    memset(w.base, 0, (size_t)w.bytes);
                OK(MPI_Win_sync(w.win));
                if (rank == TARGET && posted)
                    OK(MPI_Win_post(origins, 0, w.win));
                OK(MPI_Barrier(MPI_COMM_WORLD));
                if (rank == TARGET)
                    nap(computes[round]);
                else
                    took[round] = posted ? posted_deeds(&w, round, rank, target) : deeds(&w, round, rank);
                if (rank == TARGET && posted)
                    OK(MPI_Win_wait(w.win));
                OK(MPI_Barrier(MPI_COMM_WORLD));
            }
            if (rank == TARGET) {
                int64_t *words = (int64_t *)w.base;
                OK(MPI_Win_sync(w.win));
                CHECK_EQ(words[0], posted ? 0 : ROUNDS * (size - 1));
                for (int origin = 1; origin < size; origin++) {
                    CHECK_EQ(words[8 * origin], 100 * (ROUNDS - 1) + origin);
                    double *sums = (double *)(words + 8 * origin + 1);
                    CHECK(sums[0] == ROUNDS);
                    CHECK(posted || (sums[1] == ROUNDS && sums[2] == 0.5 * ROUNDS));
                }
            } else {
                /* The slope of a straight line through the times. */
                double x = 0, y = 0, xx = 0, xy = 0;
                for (int round = 0; round < TIMES; round++) {
                    took[round] = took[round + TIMES] < took[round] ? took[round + TIMES] : took[round];
                    x += computes[round] / TIMES;
                    y += took[round] / TIMES;
                }
                for (int round = 0; round < TIMES; round++) {
                    xx += (computes[round] - x) * (computes[round] - x);
                    xy += (computes[round] - x) * (took[round] - y);
                }
                if (argc > 1)
                    printf("%s, %s: the target computes 0, 300, 1000 ms: rank %d takes %.1f, %.1f, %.1f ms, "
                           "slope %.3f\n",
                           kind == CREATED ? "created" : kind == ALLOCATED ? "allocated" : "dynamic",
                           posted ? "MPI_Win_start" : "locks", rank, 1e3 * took[0], 1e3 * took[1], 1e3 * took[2],
                           xy / xx);
                CHECK(xy / xx < 0.2);
            }
        }
        window_free(&w);
    }
    OK(MPI_Group_free(&world));
    OK(MPI_Group_free(&target));
    OK(MPI_Group_free(&origins));
    OK(MPI_Finalize());
    return 0;
}
