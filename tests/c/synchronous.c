/* A synchronous send is not complete before its receive has begun, a standard one of moderate size is.
 * ranks: 2
 * variants: shm shm-2copy ofi ucx verbs
 */
#include "check.h"

static const int sizes[] = {0, 8, 5000, 8176, 8177, 8184, 8192, 100000, 3 << 20};
enum { MAX = 3 << 20 };

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank();
    char *data = allocate(MAX);
    MPI_Comm world = MPI_COMM_WORLD;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int bytes = sizes[i], flag = -1;
        if (rank == 0) {
            MPI_Request request;
            fill(data, (size_t)bytes, i);
            OK(MPI_Issend(data, bytes, MPI_CHAR, 1, 1, world, &request));
            OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
            CHECK_EQ(flag, 0);
            /* The receiver has been busy in MPI, and so has seen it. */
            OK(MPI_Sendrecv(NULL, 0, MPI_CHAR, 1, 2, NULL, 0, MPI_CHAR, 1, 2, world,
                            MPI_STATUS_IGNORE));
            for (int again = 0; again < 100; again++) {
                OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
                CHECK_EQ(flag, 0);
            }
            nap(0.01);
            OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
            CHECK_EQ(flag, 0);
            OK(MPI_Send(NULL, 0, MPI_CHAR, 1, 3, world));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));

            double began_there, ended;
            OK(MPI_Ssend(data, bytes, MPI_CHAR, 1, 4, world));
            ended = now();
            OK(MPI_Recv(&began_there, 1, MPI_DOUBLE, 1, 5, world, MPI_STATUS_IGNORE));
            CHECK(ended >= began_there);
        } else {
            OK(MPI_Sendrecv(NULL, 0, MPI_CHAR, 0, 2, NULL, 0, MPI_CHAR, 0, 2, world,
                            MPI_STATUS_IGNORE));
            OK(MPI_Probe(0, 1, world, MPI_STATUS_IGNORE));
            OK(MPI_Recv(NULL, 0, MPI_CHAR, 0, 3, world, MPI_STATUS_IGNORE));
            OK(MPI_Recv(data, bytes, MPI_CHAR, 0, 1, world, MPI_STATUS_IGNORE));
            CHECK(is_filled(data, (size_t)bytes, i));

            OK(MPI_Probe(0, 4, world, MPI_STATUS_IGNORE));
            nap(0.02);
            double began = now();
            OK(MPI_Recv(data, bytes, MPI_CHAR, 0, 4, world, MPI_STATUS_IGNORE));
            OK(MPI_Send(&began, 1, MPI_DOUBLE, 0, 5, world));
        }
    }
    OK(MPI_Finalize());
    return 0;
}
