/* One of several targets dies in an access epoch of MPI_Win_start: MPI_Win_complete returns, with an error if it
 * needed the dead target's answer, and completes the epoch at the other targets. After its return nothing is
 * written to the origin's memory.
 * ranks: 4
 * variants: shm ofi ucx tcp
 * launcher: -disable-auto-cleanup
 * timeout: 25
 * exit: 137
 * stderr: was killed by signal 9, SIGKILL
 * stderr: the others go on
 */
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>

enum { ORIGIN = 0, DEAD = 2, RANKS = 4, LENGTH = 1 << 15 };

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank();
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    MPI_Comm others;
    OK(MPI_Comm_split(MPI_COMM_WORLD, rank == DEAD, rank, &others));
    MPI_Group world, of_origin, of_targets;
    int origin = ORIGIN;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_incl(world, 1, &origin, &of_origin));
    OK(MPI_Group_excl(world, 1, &origin, &of_targets));
    long *base;
    static long own[LENGTH], got[RANKS][LENGTH];
    MPI_Win windows[2];
    OK(MPI_Win_allocate(sizeof own, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &windows[0]));
    OK(MPI_Win_create(own, sizeof own, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &windows[1]));
    for (int i = 0; i < LENGTH; i++)
        base[i] = own[i] = rank + 1;
    for (int i = 0; i < 2; i++) {
        OK(MPI_Win_set_errhandler(windows[i], MPI_ERRORS_RETURN));
        if (rank == ORIGIN)
            OK(MPI_Win_start(of_targets, MPI_MODE_NOCHECK, windows[i]));
        else
            OK(MPI_Win_post(of_origin, MPI_MODE_NOCHECK, windows[i]));
    }
    /* It dies when all the others have posted and started, and none of them needs it any more. */
    if (rank == DEAD) {
        for (int i = 0; i < RANKS - 1; i++)
            OK(MPI_Recv(NULL, 0, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        raise(SIGKILL);
    }
    OK(MPI_Barrier(others));
    OK(MPI_Send(NULL, 0, MPI_INT, DEAD, 0, MPI_COMM_WORLD));
    double began = MPI_Wtime();
    for (int i = 0; i < 2; i++) {
        if (rank == ORIGIN) {
            int code, failed = 0;
            memset(got, 0, sizeof got);
            for (int target = 1; target < RANKS; target++) {
                code = MPI_Get(got[target], LENGTH, MPI_LONG, target, 0, LENGTH, MPI_LONG, windows[i]);
                failed |= code != MPI_SUCCESS;
                CHECK(code == MPI_SUCCESS || (target == DEAD && class_of(code) == MPIX_ERR_PROC_FAILED));
            }
            code = MPI_Win_complete(windows[i]);
            failed |= code != MPI_SUCCESS;
            CHECK(code == MPI_SUCCESS || class_of(code) == MPIX_ERR_PROC_FAILED);
            for (int target = 1; target < RANKS; target++) {
                int came = got[target][0] == target + 1 && got[target][LENGTH - 1] == target + 1;
                CHECK(came || failed);
                CHECK(came || target == DEAD);
            }
            memset(got, 7, sizeof got);
            nap(0.1);
            for (int k = 0; k < RANKS * LENGTH; k++)
                CHECK_EQ(((char *)got)[k * sizeof(long)], 7);
        } else {
            OK(MPI_Win_wait(windows[i]));
        }
    }
    CHECK(MPI_Wtime() - began < 20);
    OK(MPI_Barrier(others));
    OK(MPI_Finalize());
    return 0;
}
