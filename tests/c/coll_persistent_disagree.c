/* A mismatched persistent collective is an error of the init call on all ranks; the
 * communicator stays usable.
 * ranks: 2 3
 * variants: shm shm-2copy
 */
#include "fails.h"

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), size = world_size(), a[8] = {0}, b[8] = {0};
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Request request;
    OK(MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN));
    int last = rank == size - 1;
    FAILS(MPI_Allreduce_init(a, b, last ? 4 : 8, MPI_INT, MPI_SUM, world, MPI_INFO_NULL, &request),
          MPI_ERR_TRUNCATE);
    FAILS(MPI_Bcast_init(a, 1, MPI_INT, last ? 1 : 0, world, MPI_INFO_NULL, &request), MPI_ERR_ROOT);
    if (last) {
        FAILS(MPI_Barrier_init(world, MPI_INFO_NULL, &request), MPI_ERR_OTHER);
    } else {
        FAILS(MPI_Allreduce_init(a, b, 1, MPI_INT, MPI_SUM, world, MPI_INFO_NULL, &request), MPI_ERR_OTHER);
    }
    OK(MPI_Barrier_init(world, MPI_INFO_NULL, &request));
    for (int round = 0; round < 10; round++) {
        OK(MPI_Start(&request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        OK(MPI_Barrier(world));
    }
    OK(MPI_Request_free(&request));
    OK(MPI_Finalize());
    return 0;
}
