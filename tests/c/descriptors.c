/* A program that closes the library's descriptors ends with an error instead of hanging.
 * ranks: 2
 * variants: ofi
 * timeout: 20
 * exit: 101
 * stderr: the program has closed the descriptor
 */
#include "check.h"
#include <unistd.h>

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    barrier(MPI_COMM_WORLD);
    if (world_rank() == 0) {
        for (int fd = 3; fd < 200; fd++) {
            close(fd);
        }
    } else {
        /* It is not this one that notices first. */
        nap(3);
    }
    int word = 0;
    /* Nobody sends it. */
    OK(MPI_Recv(&word, 1, MPI_INT, 1 - world_rank(), 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Finalize());
    return 0;
}
