/* A rank that waits for a lock gets it: all ranks keep locking until each has had the lock 50 times.
 *
 * ranks: 4
 * variants: shm ofi
 */
#include "rma.h"

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), size = world_size();
    for (int kind = CREATED; kind <= ALLOCATED; kind++) {
        struct window w = window_make((enum kind)kind, 64, 1);
        OK(MPI_Barrier(MPI_COMM_WORLD));
        int least = 0;
        while (least < 50) {
            int counts[8] = {0}, turns;
            OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w.win));
            OK(MPI_Get(counts, size, MPI_INT, 0, w.start[0], size, MPI_INT, w.win));
            OK(MPI_Win_flush(0, w.win));
            turns = ++counts[rank];
            OK(MPI_Put(&turns, 1, MPI_INT, 0, w.start[0] + 4 * rank, 1, MPI_INT, w.win));
            OK(MPI_Win_unlock(0, w.win));
            least = counts[0];
            for (int i = 1; i < size; i++) {
                least = counts[i] < least ? counts[i] : least;
            }
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
        window_free(&w);
    }
    OK(MPI_Finalize());
    return 0;
}
