/* A program compiled and linked with another library of this ABI runs with Weft in its place.
 * ranks: 1 2 4
 * variants: shm ofi hydra
 * compiler: mpicc.mpich
 * cflags: -w
 */
#include "check.h"

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), size = world_size(), length;
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    OK(MPI_Get_library_version(version, &length));
    CHECK(strstr(version, "Weft") != NULL);

    /* Pi, by adding up rectangles. */
    double sum = 0, pi = 0, part;
    int steps = 100000;
    for (int i = rank; i < steps; i += size) {
        double x = (i + 0.5) / steps;
        sum += 4 / (1 + x * x) / steps;
    }
    if (rank == 0) {
        MPI_Status status;
        pi = sum;
        for (int i = 1; i < size; i++) {
            OK(MPI_Recv(&part, 1, MPI_DOUBLE, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &status));
            CHECK(status.MPI_SOURCE > 0 && status.MPI_SOURCE < size);
            CHECK_EQ(status.MPI_TAG, 3);
            pi += part;
        }
    } else {
        OK(MPI_Send(&sum, 1, MPI_DOUBLE, 0, 3, MPI_COMM_WORLD));
    }
    OK(MPI_Bcast(&pi, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD));
    CHECK(pi > 3.14159265 && pi < 3.14159266);
    double all = 0;
    OK(MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
    CHECK(all > 3.14159265 && all < 3.14159266);
    static char large[1 << 20];
    MPI_Request requests[2];
    MPI_Status statuses[2];
    static char out[1 << 20];
    fill(out, sizeof out, (uint64_t)rank);
    OK(MPI_Irecv(large, sizeof large, MPI_CHAR, (rank + size - 1) % size, 9, MPI_COMM_WORLD,
                 &requests[0]));
    OK(MPI_Isend(out, sizeof out, MPI_CHAR, (rank + 1) % size, 9, MPI_COMM_WORLD, &requests[1]));
    OK(MPI_Waitall(2, requests, statuses));
    CHECK(is_filled(large, sizeof large, (uint64_t)((rank + size - 1) % size)));
    OK(MPI_Get_count(&statuses[0], MPI_CHAR, &length));
    CHECK_EQ(length, 1 << 20);
    OK(MPI_Finalize());
    return 0;
}
