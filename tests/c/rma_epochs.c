/* Epochs one after another without anything between, to and from all ranks; many transfers in one.
 *
 * ranks: 2 3 5
 */
#include "rma.h"

#define ROUNDS 20
#define FLOOD 1500

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), size = world_size();
    MPI_Group all;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &all));
    for (int kind = 0; kind < KINDS; kind++) {
        struct window w = window_make((enum kind)kind, 8 * (FLOOD + 64), 1);
        int64_t *mine = (int64_t *)w.base;
        /* All post to all and start with all. */
        for (int round = 0; round < ROUNDS; round++) {
            OK(MPI_Win_post(all, round % 2 ? MPI_MODE_NOSTORE : 0, w.win));
            OK(MPI_Win_start(all, 0, w.win));
            int64_t value = 100 * round + rank, sum = round;
            for (int to = 0; to < size; to++) {
                OK(MPI_Put(&value, 1, MPI_INT64_T, to, w.start[to] + 8 * rank, 1, MPI_INT64_T,
                           w.win));
                OK(MPI_Accumulate(&sum, 1, MPI_INT64_T, to, w.start[to] + 8 * 32, 1, MPI_INT64_T,
                                  MPI_SUM, w.win));
            }
            OK(MPI_Win_complete(w.win));
            OK(MPI_Win_wait(w.win));
            for (int from = 0; from < size; from++) {
                CHECK_EQ(mine[from], 100 * round + from);
            }
            CHECK_EQ(mine[32], size * round * (round + 1) / 2);
        }
        /* Only even ranks access, only odd ones expose. */
        if (size > 1) {
            int ranges[2][3] = {{0, size - 1, 2}, {1, size - 1, 2}};
            MPI_Group even, odd;
            OK(MPI_Group_range_incl(all, 1, &ranges[0], &even));
            OK(MPI_Group_range_incl(all, 1, &ranges[1], &odd));
            for (int round = 0; round < ROUNDS; round++) {
                if (rank % 2 == 0) {
                    int64_t got[8] = {0};
                    OK(MPI_Win_start(odd, 0, w.win));
                    for (int to = 1; to < size; to += 2) {
                        OK(MPI_Get(&got[to], 1, MPI_INT64_T, to, w.start[to] + 8 * 40, 1,
                                   MPI_INT64_T, w.win));
                    }
                    OK(MPI_Win_complete(w.win));
                    for (int to = 1; to < size; to += 2) {
                        CHECK_EQ(got[to], 7 * round + to);
                    }
                } else {
                    mine[40] = 7 * round + rank;
                    OK(MPI_Win_post(even, 0, w.win));
                    OK(MPI_Win_wait(w.win));
                }
            }
            OK(MPI_Group_free(&even));
            OK(MPI_Group_free(&odd));
        }
        /* Fences in a row. */
        mine[48] = 0;
        OK(MPI_Win_fence(MPI_MODE_NOPRECEDE, w.win));
        for (int round = 0; round < ROUNDS; round++) {
            int64_t one = 1;
            for (int to = 0; to < size; to++) {
                OK(MPI_Accumulate(&one, 1, MPI_INT64_T, to, w.start[to] + 8 * 48, 1, MPI_INT64_T,
                                  MPI_SUM, w.win));
            }
            OK(MPI_Win_fence(0, w.win));
            int64_t now = 0;
            OK(MPI_Get(&now, 1, MPI_INT64_T, (rank + 1) % size, w.start[(rank + 1) % size] + 8 * 48,
                       1, MPI_INT64_T, w.win));
            OK(MPI_Win_fence(0, w.win));
            CHECK_EQ(now, size * (round + 1));
        }
        OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win));
        /* More at once than any queue holds, to one target and back. */
        int to = (rank + 1) % size, from = (rank + size - 1) % size;
        int64_t *back = calloc(FLOOD, 8);
        OK(MPI_Win_lock_all(0, w.win));
        for (int i = 0; i < FLOOD; i++) {
            int64_t value = 1000000 * rank + i;
            OK(MPI_Put(&value, 1, MPI_INT64_T, to, w.start[to] + 8 * (64 + i), 1, MPI_INT64_T, w.win));
        }
        OK(MPI_Win_flush(to, w.win));
        for (int i = 0; i < FLOOD; i++) {
            OK(MPI_Get(&back[i], 1, MPI_INT64_T, to, w.start[to] + 8 * (64 + i), 1, MPI_INT64_T,
                       w.win));
        }
        OK(MPI_Win_flush_local_all(w.win));
        OK(MPI_Win_unlock_all(w.win));
        OK(MPI_Barrier(MPI_COMM_WORLD));
        for (int i = 0; i < FLOOD; i++) {
            CHECK_EQ(back[i], 1000000 * rank + i);
            CHECK_EQ(mine[64 + i], 1000000 * from + i);
        }
        free(back);
        window_free(&w);
    }
    OK(MPI_Group_free(&all));
    OK(MPI_Finalize());
    return 0;
}
