/* A rank whose message came from another collective than its own is told at once which two have met.
 * ranks: 2
 * variants: shm tcp
 * timeout: 10
 * exit: 15
 * stderr: rank 0 and this rank disagree on which collective this is: bcast of 4 bytes with root 0 there, barrier of 0 bytes here
 */
#include "check.h"

int main(int argc, char **argv) {
    int data = 1;
    OK(MPI_Init(&argc, &argv));
    if (world_rank() == 0) {
        MPI_Bcast(&data, 1, MPI_INT, 0, MPI_COMM_WORLD);
        MPI_Recv(&data, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Barrier(MPI_COMM_WORLD);
    }
    return 0;
}
