/* Two ranks lock all, and access each other only when others queue for exclusive locks of both: these wait
 * for the two, who must not wait behind them.
 *
 * ranks: 4
 * variants: shm ofi hosts ucx
 */
#include "rma.h"

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank();
    for (int kind = 0; kind < KINDS; kind++) {
        int on_node, size;
        MPI_Comm node;
        OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
        OK(MPI_Comm_size(node, &on_node));
        OK(MPI_Comm_free(&node));
        OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
        if (kind == SHARED && on_node < size) {
            continue;
        }
        struct window w = window_make((enum kind)kind, 64, 1);
        int one = 1, other = rank ^ 1;
        if (rank >= 2) {
            OK(MPI_Win_lock_all(0, w.win));
            OK(MPI_Send(&one, 1, MPI_INT, rank - 2, 0, MPI_COMM_WORLD));
            /* They ask for their locks. */
            for (int i = 0; i < 20; i++) {
                int flag;
                OK(MPI_Iprobe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
                nap(0.01);
            }
            OK(MPI_Accumulate(&one, 1, MPI_INT, other, w.start[other], 1, MPI_INT, MPI_SUM, w.win));
            OK(MPI_Win_unlock_all(w.win));
        } else {
            OK(MPI_Recv(&one, 1, MPI_INT, rank + 2, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank + 2, 0, w.win));
            OK(MPI_Accumulate(&one, 1, MPI_INT, rank + 2, w.start[rank + 2], 1, MPI_INT, MPI_SUM,
                              w.win));
            OK(MPI_Win_unlock(rank + 2, w.win));
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
        int sum;
        memcpy(&sum, w.base, sizeof sum);
        CHECK_EQ(sum, rank >= 2 ? 2 : 0);
        OK(MPI_Barrier(MPI_COMM_WORLD));
        window_free(&w);
    }
    OK(MPI_Finalize());
    return 0;
}
