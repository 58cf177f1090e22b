/* MPI_Win_free returns when all ranks have called it (section 11.2.5): what a rank does between its last access
 * and the call may still use the memory of others.
 * ranks: 3
 * variants: shm shm-2copy ofi
 */
#define _GNU_SOURCE
#include "check.h"
#include <unistd.h>

static void free_late(MPI_Win win, int late)
{
    int rank = world_rank();
    double left = 0, back, first;
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == late)
        usleep(150000);
    /* One clock for all: the ranks share a node. */
    left = MPI_Wtime();
    OK(MPI_Win_free(&win));
    back = MPI_Wtime();
    OK(MPI_Allreduce(&back, &first, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD));
    OK(MPI_Bcast(&left, 1, MPI_DOUBLE, late, MPI_COMM_WORLD));
    CHECK(first >= left);
}

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    static long memory[4];
    void *base;
    MPI_Win win;
    for (int late = 0; late < 3; late++) {
        OK(MPI_Win_create(memory, sizeof memory, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
        free_late(win, late);
        OK(MPI_Win_allocate(64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
        free_late(win, late);
        OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
        free_late(win, late);
    }
    OK(MPI_Finalize());
    return 0;
}
