/* MPI_Finalize while messages are in flight in all directions and credits are still returned.
 * ranks: 2 5
 * timeout: 40
 * case: 1
 * case: 2
 */
#include "check.h"

int main(int argc, char **argv) {
    CHECK_EQ(argc, 2);
    uint64_t state = strtoull(argv[1], NULL, 10);
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), size = world_size();
    static char data[4096];
    enum { EACH = 150 };
    MPI_Request *requests = allocate(sizeof *requests * (size_t)(size * EACH));
    int count = 0;
    for (int peer = 0; peer < size; peer++) {
        for (int i = 0; i < EACH; i++) {
            OK(MPI_Irecv(data, sizeof data, MPI_CHAR, peer, 1, MPI_COMM_WORLD, &requests[count++]));
        }
    }
    state += (uint64_t)rank * 77;
    for (int i = 0; i < EACH; i++) {
        for (int peer = 0; peer < size; peer++) {
            static char out[4096];
            int bytes = (int)random_below(&state, sizeof out);
            OK(MPI_Send(out, bytes, MPI_CHAR, peer, 1, MPI_COMM_WORLD));
        }
    }
    OK(MPI_Waitall(count, requests, MPI_STATUSES_IGNORE));
    free(requests);
    nap((double)random_below(&state, 1000) * 1e-6);
    OK(MPI_Finalize());
    return 0;
}
