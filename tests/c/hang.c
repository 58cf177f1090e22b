/* A job that hangs is reported with its call sites when its time is over.
 * ranks: 2
 * variants: shm
 * timeout: 4
 * idle: yes
 * exit: 124
 * stderr: ran into its time limit of
 * stderr: process 0 is waiting in MPI_Recv, called by main at 
 * stderr: process 1 is waiting in MPI_Ssend, called by main at 
 * stderr: hang.c:
 * stderr: receive, not matched: rank 1, tag 42
 * stderr: unexpected message: rank 1, tag 43, context 0x0, 12 bytes, from process 1
 * stderr: send, waiting for its receive: from rank 1, tag 44, context 0x0, 0 of 4 bytes, to process 0
 */
#include "check.h"

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    int data[3] = {1, 2, 3};
    if (world_rank() == 0) {
        MPI_Recv(data, 1, MPI_INT, 1, 42, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Send(data, 3, MPI_INT, 0, 43, MPI_COMM_WORLD);
        MPI_Ssend(data, 1, MPI_INT, 0, 44, MPI_COMM_WORLD);
    }
    return 0;
}
