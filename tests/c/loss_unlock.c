/* A target dies while its answer is pending: the lock of another target, whose answer is pending too, is
 * released all the same, and others get it.
 * ranks: 4
 * variants: shm shm-2copy ofi tcp
 * launcher: -disable-auto-cleanup
 * timeout: 25
 * exit: 137
 * stderr: was killed by signal 9, SIGKILL
 * stderr: the others go on
 * case: one
 * case: all
 */
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>

enum { ORIGIN = 0, TARGET = 1, DEAD = 2, NEXT = 3 };

int main(int argc, char **argv)
{
    static long memory[1 << 16], found[2][1 << 16];
    MPI_Win win;
    OK(MPI_Init(&argc, &argv));
    CHECK_EQ(argc, 2);
    int rank = world_rank(), all = strcmp(argv[1], "all") == 0;
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Win_create(memory, sizeof memory, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    memory[0] = 100 + rank;
    OK(MPI_Barrier(MPI_COMM_WORLD));
    double began = MPI_Wtime();
    if (rank == ORIGIN) {
        /* The targets answer as long as they are in MPI. */
        if (all)
            OK(MPI_Win_lock_all(0, win));
        for (int target = TARGET; target <= DEAD; target++) {
            long one = 0, old;
            if (!all)
                OK(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win));
            OK(MPI_Fetch_and_op(&one, &old, MPI_LONG, target, 0, MPI_SUM, win));
            OK(MPI_Win_flush(target, win));
            CHECK_EQ(old, 100 + target);
        }
        for (int target = TARGET; target <= DEAD; target++)
            OK(MPI_Send(NULL, 0, MPI_INT, target, 0, MPI_COMM_WORLD));
        nap(0.1);
        for (int target = TARGET; target <= DEAD; target++) {
            int len = sizeof found[0] / sizeof(long);
            OK(MPI_Get(found[target - 1], len, MPI_LONG, target, 0, len, MPI_LONG, win));
        }
        /* Without messages all is done at once, and DEAD still lives. */
        int code;
        if (all) {
            code = MPI_Win_unlock_all(win);
            CHECK(code == MPI_SUCCESS || class_of(code) == MPIX_ERR_PROC_FAILED);
        } else {
            OK(MPI_Win_unlock(TARGET, win));
            code = MPI_Win_unlock(DEAD, win);
            CHECK(code == MPI_SUCCESS || class_of(code) == MPIX_ERR_PROC_FAILED);
        }
        CHECK_EQ(found[0][0], 101);
        OK(MPI_Send(NULL, 0, MPI_INT, NEXT, 0, MPI_COMM_WORLD));
    } else if (rank == NEXT) {
        OK(MPI_Recv(NULL, 0, MPI_INT, ORIGIN, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, TARGET, 0, win));
        OK(MPI_Win_unlock(TARGET, win));
        OK(MPI_Send(NULL, 0, MPI_INT, TARGET, 0, MPI_COMM_WORLD));
    } else {
        OK(MPI_Recv(NULL, 0, MPI_INT, ORIGIN, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        nap(rank == DEAD ? 0.4 : 2);
        if (rank == DEAD)
            raise(SIGKILL);
        OK(MPI_Recv(NULL, 0, MPI_INT, NEXT, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    CHECK(MPI_Wtime() - began < 15);
    OK(MPI_Finalize());
    return 0;
}
