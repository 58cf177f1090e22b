/* Every rank says who it is, and talks to every other. */
#include "../check.h"
#include <unistd.h>

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), size = world_size();
    for (int step = 0; step < size; step++) {
        int to = (rank + step) % size, from = (rank + size - step) % size, got = -1;
        OK(MPI_Sendrecv(&rank, 1, MPI_INT, to, 3, &got, 1, MPI_INT, from, 3, MPI_COMM_WORLD,
                        MPI_STATUS_IGNORE));
        CHECK(got == from);
    }
    MPI_Comm node;
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
    int here;
    OK(MPI_Comm_size(node, &here));
    OK(MPI_Comm_free(&node));
    if (argc > 2 && strcmp(argv[1], "wait") == 0) {
        if (rank == 0) {
            FILE *sign = fopen(argv[2], "w");
            CHECK(sign != NULL && fclose(sign) == 0);
            MPI_Recv(&here, 1, MPI_INT, 1, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        nap(60);
    }
    if (argc > 2 && strcmp(argv[1], "talk") == 0) {
        /* Until the network fails. */
        for (long i = 0;; i++) {
            if (i == 3000 && rank == 0) {
                FILE *sign = fopen(argv[2], "w");
                CHECK(sign != NULL && fclose(sign) == 0);
            }
            MPI_Sendrecv(&rank, 1, MPI_INT, 1 - rank, 9, &here, 1, MPI_INT, 1 - rank, 9,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
    if (argc > 1 && rank == 1) {
        /* The others wait for a rank that is gone. */
        MPI_Abort(MPI_COMM_WORLD, 7);
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    char line[100];
    int length = snprintf(line, sizeof line, "rank %d of %d, %d here\n", rank, size, here);
    CHECK(write(1, line, (size_t)length) == length);
    OK(MPI_Finalize());
    return 0;
}
