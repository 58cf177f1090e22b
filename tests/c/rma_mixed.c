/* In a window over several nodes, ranks of one node reach each other's memory directly: a put is seen
 * by a target that doesn't call MPI.
 *
 * ranks: 4
 * variants: shm hosts
 */
#include "rma.h"

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), place;
    MPI_Comm node;
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
    OK(MPI_Comm_rank(node, &place));
    int partner = rank;
    OK(MPI_Bcast(&partner, 1, MPI_INT, 1, node));
    for (int kind = CREATED; kind <= ALLOCATED; kind++) {
        struct window w = window_make((enum kind)kind, 4096, 1);
        OK(MPI_Win_fence(0, w.win));
        if (place == 0) {
            int64_t value = 42;
            OK(MPI_Put(&value, 1, MPI_INT64_T, partner, 64, 1, MPI_INT64_T, w.win));
        } else if (place == 1) {
            volatile int64_t *there = (volatile int64_t *)(w.base + 64);
            for (int i = 0; *there != 42; i++) {
                CHECK(i < 500);
                nap(0.01);
            }
        }
        /* Others too, from everywhere. */
        int64_t one = 1, sum = 0;
        OK(MPI_Accumulate(&one, 1, MPI_INT64_T, 0, 128, 1, MPI_INT64_T, MPI_SUM, w.win));
        OK(MPI_Win_fence(0, w.win));
        OK(MPI_Get(&sum, 1, MPI_INT64_T, 0, 128, 1, MPI_INT64_T, w.win));
        OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w.win));
        CHECK_EQ(sum, world_size());
        window_free(&w);
    }
    OK(MPI_Comm_free(&node));
    OK(MPI_Finalize());
    return 0;
}
