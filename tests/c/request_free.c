/* Requests that are let go of are carried out all the same.
 * ranks: 2
 */
#include "check.h"

static const size_t sizes[] = {0, 8, 5000, 100000, 3 << 20};
enum { MAX = 3 << 20 };

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank();
    char *data = allocate(MAX);
    for (int round = 0; round < 20; round++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            int bytes = (int)sizes[i];
            uint64_t seed = (uint64_t)round * 10 + i;
            MPI_Request request;
            if (rank == 0) {
                fill(data, (size_t)bytes, seed);
                if (round % 2) {
                    OK(MPI_Isend(data, bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD, &request));
                } else {
                    OK(MPI_Issend(data, bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD, &request));
                }
                OK(MPI_Request_free(&request));
                CHECK_EQ(request, MPI_REQUEST_NULL);
                /* The buffer may be changed after the receiver's message. */
                OK(MPI_Recv(NULL, 0, MPI_CHAR, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            } else {
                memset(data, 0, (size_t)bytes);
                OK(MPI_Irecv(data, bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD, &request));
                OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
                CHECK(is_filled(data, (size_t)bytes, seed));
                OK(MPI_Send(NULL, 0, MPI_CHAR, 0, 2, MPI_COMM_WORLD));
            }

            /* A freed receive: a synchronous send completes when it has begun; for an eager message the
             * next message shows that it is complete. */
            if (bytes <= 5000) {
                if (rank == 0) {
                    OK(MPI_Ssend(data, bytes, MPI_CHAR, 1, 3, MPI_COMM_WORLD));
                    OK(MPI_Send(NULL, 0, MPI_CHAR, 1, 4, MPI_COMM_WORLD));
                } else {
                    memset(data, 0, (size_t)bytes);
                    OK(MPI_Irecv(data, bytes, MPI_CHAR, 0, 3, MPI_COMM_WORLD, &request));
                    OK(MPI_Request_free(&request));
                    CHECK_EQ(request, MPI_REQUEST_NULL);
                    OK(MPI_Recv(NULL, 0, MPI_CHAR, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                    CHECK(is_filled(data, (size_t)bytes, seed));
                }
            }
        }
    }
    /* One that nobody will match goes with MPI_Finalize. */
    OK(MPI_Finalize());
    free(data);
    return 0;
}
