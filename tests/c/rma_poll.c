/* A rank that polls its own or its node's memory for another rank's change makes progress by flushes or
 * requests alone.
 *
 * ranks: 2 4
 * variants: shm ofi hosts ucx
 */
#include "rma.h"

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), size = world_size(), last = size - 1;
    for (int kind = CREATED; kind <= ALLOCATED; kind++) {
        struct window w = window_make((enum kind)kind, 64, 8);
        OK(MPI_Win_lock_all(MPI_MODE_NOCHECK, w.win));
        for (int64_t round = 1; round <= 5; round++) {
            int64_t found = 0;
            if (rank == last) {
                nap(0.02);
                OK(MPI_Put(&round, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, w.win));
                OK(MPI_Win_flush(0, w.win));
            } else if (rank == 0) {
                while (found != round) {
                    if (round == 5) {
                        MPI_Request request;
                        OK(MPI_Rget(&found, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, w.win, &request));
                        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
                        continue;
                    }
                    OK(MPI_Get(&found, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, w.win));
                    if (round == 1) {
                        OK(MPI_Win_flush(0, w.win));
                    } else if (round == 2) {
                        OK(MPI_Win_flush_local(0, w.win));
                    } else if (round == 3) {
                        OK(MPI_Win_flush_all(w.win));
                    } else {
                        OK(MPI_Win_flush_local_all(w.win));
                    }
                }
            }
            OK(MPI_Barrier(MPI_COMM_WORLD));
        }
        OK(MPI_Win_unlock_all(w.win));
        window_free(&w);
    }
    OK(MPI_Finalize());
    return 0;
}
