/* A hang on communicators that have names: the launcher's summary names them.
 * ranks: 2
 * variants: shm tcp tcp-hosts
 * timeout: 4
 * idle: yes
 * exit: 124
 * stderr: , on 'solver'
 * stderr: rank 0 waits in MPI_Recv on 'solver', called by main at 
 * stderr: rank 1 waits in MPI_Ssend on 'other', called by main at 
 */
#include "check.h"

int main(int argc, char **argv) {
    int data = 0;
    MPI_Comm solver, other;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &solver));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &other));
    OK(MPI_Comm_set_name(solver, "solver"));
    OK(MPI_Comm_set_name(other, "other"));
    if (world_rank() == 0)
        MPI_Recv(&data, 1, MPI_INT, 1, 7, solver, MPI_STATUS_IGNORE);
    else
        MPI_Ssend(&data, 1, MPI_INT, 0, 7, other);
    return 0;
}
