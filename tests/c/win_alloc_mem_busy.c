/* A put to a window on memory of MPI_Alloc_mem becomes visible to a target that only polls its memory, also if the
 * kernel does not support CMA.
 * ranks: 2
 * variants: shm shm-2copy
 */
#include "check.h"

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    volatile long *memory;
    MPI_Win win;
    OK(MPI_Alloc_mem(1 << 16, MPI_INFO_NULL, &memory));
    memory[3] = 0;
    OK(MPI_Win_create((void *)memory, 1 << 16, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    OK(MPI_Win_lock_all(0, win));
    if (world_rank() == 0) {
        long value = 42;
        OK(MPI_Put(&value, 1, MPI_LONG, 1, 3, 1, MPI_LONG, win));
        OK(MPI_Win_flush(1, win));
    } else {
        while (memory[3] != 42) {
        }
    }
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_free(&win));
    OK(MPI_Free_mem((void *)memory));
    OK(MPI_Finalize());
    return 0;
}
