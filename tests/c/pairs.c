/* Every rank exchanges with every other at the same time, small and large.
 * ranks: 2 8
 * timeout: 60
 * variants: shm shm-2copy ofi hosts hosts4 verbs-hosts
 */
#include "check.h"

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), size = world_size();
    static const int sizes[] = {4, 3000, 100000};
    enum { MAX = 100000 };
    char *out = allocate((size_t)size * MAX), *in = allocate((size_t)size * MAX);
    MPI_Request *requests = allocate(sizeof *requests * 2 * (size_t)size);
    for (int round = 0; round < 30; round++) {
        int bytes = sizes[round % 3];
        for (int peer = 0; peer < size; peer++) {
            fill(out + peer * MAX, (size_t)bytes, (uint64_t)(rank * 10000 + peer * 100 + round));
        }
        memset(in, 0, (size_t)size * MAX);
        for (int i = 0; i < size; i++) {
            int peer = (rank + i) % size;
            OK(MPI_Irecv(in + peer * MAX, bytes, MPI_CHAR, peer, round, MPI_COMM_WORLD,
                         &requests[2 * i]));
            OK(MPI_Isend(out + peer * MAX, bytes, MPI_CHAR, peer, round, MPI_COMM_WORLD,
                         &requests[2 * i + 1]));
        }
        OK(MPI_Waitall(2 * size, requests, MPI_STATUSES_IGNORE));
        for (int peer = 0; peer < size; peer++) {
            CHECK(is_filled(in + peer * MAX, (size_t)bytes,
                            (uint64_t)(peer * 10000 + rank * 100 + round)));
        }
    }
    OK(MPI_Finalize());
    return 0;
}
