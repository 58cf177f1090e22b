/* A rank ends with 0 and without MPI_Finalize before anybody has sent it anything: that is said, and nothing of other users or
 * containers, by the rank that misses it and by the launcher.
 * ranks: 2
 * variants: shm
 * exit: 101
 * stderr: on this node has ended without MPI_Finalize
 * stderr: exited with code 0 without calling MPI_Finalize, and rank 0 on
 * case: send
 * case: receive
 */
#include "check.h"

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    CHECK_EQ(argc, 2);
    int word = 0;
    if (world_rank() == 1) {
        _exit(0);
    }
    nap(0.3);
    if (strcmp(argv[1], "send") == 0) {
        MPI_Send(&word, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
    } else {
        MPI_Recv(&word, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    return 77;
}
