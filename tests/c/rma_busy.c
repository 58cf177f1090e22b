/* A computing target that does not call MPI delays no puts and gets if the network has remote memory access.
 *
 * ranks: 2
 * variants: verbs verbs-hosts
 */
#include "rma.h"

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank();
    for (int kind = CREATED; kind <= ALLOCATED; kind++) {
        struct window w = window_make((enum kind)kind, 1 << 20, 1);
        volatile int64_t *word = (volatile int64_t *)w.base;
        OK(MPI_Win_lock_all(MPI_MODE_NOCHECK, w.win));
        OK(MPI_Barrier(MPI_COMM_WORLD));
        if (rank == 0) {
            /* Without a call of MPI, until the other is done. */
            for (int i = 0; word[0] != 42; i++) {
                CHECK(i < 3000);
                nap(0.01);
            }
            for (int i = 1; i < 50; i++) {
                CHECK_EQ(word[i], i);
            }
        } else {
            int64_t done = 42, back = -1;
            char *data = allocate(1 << 19);
            for (int64_t i = 1; i < 50; i++) {
                OK(MPI_Put(&i, 1, MPI_INT64_T, 0, 8 * i, 1, MPI_INT64_T, w.win));
                OK(MPI_Win_flush(0, w.win));
                OK(MPI_Get(&back, 1, MPI_INT64_T, 0, 8 * i, 1, MPI_INT64_T, w.win));
                OK(MPI_Win_flush(0, w.win));
                CHECK_EQ(back, i);
            }
            OK(MPI_Put(data, 1 << 19, MPI_CHAR, 0, 1 << 19, 1 << 19, MPI_CHAR, w.win));
            OK(MPI_Win_flush(0, w.win));
            OK(MPI_Put(&done, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, w.win));
            OK(MPI_Win_flush(0, w.win));
            free(data);
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPI_Win_unlock_all(w.win));
        window_free(&w);
    }
    OK(MPI_Finalize());
    return 0;
}
