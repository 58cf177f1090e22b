/* Ranks that wait for locks and in epochs of a window are reported with these when the launcher asks for a report.
 * ranks: 2
 * variants: shm shm-2copy ofi
 * timeout: 20
 * case: lock
 * stderr: MPI_Win_lock: waits for an exclusive lock of rank 1
 * case: lock-all
 * stderr: exclusive locks
 * case: start
 * stderr: MPI_Win_start: waits for MPI_Win_post of rank 1
 * case: wait
 * stderr: MPI_Win_wait: waits for MPI_Win_complete of 1 origins
 */
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    CHECK_EQ(argc, 2);
    int rank = world_rank(), pid = (int)getpid(), other = 1 - rank;
    const char *what = argv[1];
    int is_lock = strncmp(what, "lock", 4) == 0, is_all = strcmp(what, "lock-all") == 0;
    static long memory[2];
    long one = 1;
    MPI_Win win;
    MPI_Group world, of_other;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_incl(world, 1, &other, &of_other));
    OK(MPI_Win_create(memory, sizeof memory, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    OK(MPI_Bcast(&pid, 1, MPI_INT, 0, MPI_COMM_WORLD));
    if (rank == 1 && is_lock)
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 1) {
        /* Often, since on a busy machine the other may not be there yet. Over networks this one's progress
         * is needed to put the other off. */
        int flag;
        for (int i = 0; i < 60; i++) {
            OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
            nap(0.01);
            if (i % 10 == 9)
                kill(pid, SIGQUIT);
        }
        nap(0.1);
        if (is_lock) {
            OK(MPI_Win_unlock(1, win));
        } else if (strcmp(what, "start") == 0) {
            OK(MPI_Win_post(of_other, 0, win));
            OK(MPI_Win_wait(win));
        } else {
            OK(MPI_Win_start(of_other, 0, win));
            OK(MPI_Win_complete(win));
        }
    } else if (is_all) {
        OK(MPI_Win_lock_all(0, win));
        OK(MPI_Accumulate(&one, 1, MPI_LONG, 1, 0, 1, MPI_LONG, MPI_SUM, win));
        OK(MPI_Win_unlock_all(win));
    } else if (is_lock) {
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win));
        OK(MPI_Win_unlock(1, win));
    } else if (strcmp(what, "start") == 0) {
        OK(MPI_Win_start(of_other, 0, win));
        OK(MPI_Win_complete(win));
    } else {
        OK(MPI_Win_post(of_other, 0, win));
        OK(MPI_Win_wait(win));
    }
    OK(MPI_Win_free(&win));
    OK(MPI_Finalize());
    return 0;
}
