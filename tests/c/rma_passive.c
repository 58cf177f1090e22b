/* On one node a computing target delays no origin of passive target accesses.
 *
 * variants: shm
 */
#include "rma.h"

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank();
    for (int kind = 0; kind < KINDS; kind++) {
        struct window w = window_make((enum kind)kind, 4096, 1);
        MPI_Aint at = w.start[0];
        OK(MPI_Barrier(MPI_COMM_WORLD));
        double from = MPI_Wtime();
        if (rank == 0) {
            nap(0.3);
        } else {
            int64_t one = 1, old, data[64];
            for (int i = 0; i < 64; i++) {
                data[i] = i;
            }
            for (int i = 0; i < 100; i++) {
                OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w.win));
                OK(MPI_Accumulate(data, 64, MPI_INT64_T, 0, at, 64, MPI_INT64_T, MPI_SUM, w.win));
                OK(MPI_Put(data, 64, MPI_INT64_T, 0, at + 1024, 64, MPI_INT64_T, w.win));
                OK(MPI_Win_flush(0, w.win));
                OK(MPI_Get(data, 64, MPI_INT64_T, 0, at + 1024, 64, MPI_INT64_T, w.win));
                OK(MPI_Win_unlock(0, w.win));
                OK(MPI_Win_lock_all(0, w.win));
                OK(MPI_Fetch_and_op(&one, &old, MPI_INT64_T, 0, at, MPI_SUM, w.win));
                OK(MPI_Win_flush(0, w.win));
                CHECK_EQ(old, i);
                OK(MPI_Win_unlock_all(w.win));
            }
            CHECK(MPI_Wtime() - from < 0.25);
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
        if (rank == 0) {
            for (int i = 1; i < 64; i++) {
                CHECK_EQ(((int64_t *)w.base)[i], 100 * i);
            }
        }
        window_free(&w);
    }
    OK(MPI_Finalize());
    return 0;
}
