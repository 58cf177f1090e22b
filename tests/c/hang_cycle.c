/* A job that hangs in a cycle: the launcher reports which ranks wait for which.
 * ranks: 4
 * variants: shm tcp
 * timeout: 4
 * idle: yes
 * exit: 124
 * stderr: ranks 0-2 wait in MPI_Bcast, called by main at 
 * stderr: ; rank 3 waits in MPI_Recv, called by main at 
 * stderr: They wait for each other: 
 * stderr: -> 3
 */
#include "check.h"

int main(int argc, char **argv) {
    int data;
    OK(MPI_Init(&argc, &argv));
    if (world_rank() == 3)
        MPI_Recv(&data, 1, MPI_INT, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Bcast(&data, 1, MPI_INT, 3, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    return 0;
}
