/* A communicator's first collective is nonblocking and still in progress when persistent ones are created, at which
 * time the ranks of a node set up shared slots: the calls must not be confused. The same for the first blocking one
 * after it, with a late rank.
 * ranks: 2 3 4
 * timeout: 60
 */
#include "check.h"

enum { LONG = 14348, SHORT = 300 };

int main(void) {
    static int from[LONG], to[LONG], in[SHORT], out[SHORT];
    int size;
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int round = 0; round < 8; round++) {
        MPI_Comm comm;
        MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        for (int i = 0; i < LONG; i++) {
            from[i] = check_rank + i;
        }
        for (int i = 0; i < SHORT; i++) {
            in[i] = check_rank * i;
        }
        if (round % 2 == 0) {
            OK(MPI_Iallreduce(from, to, LONG, MPI_INT, MPI_SUM, comm, &requests[0]));
        }
        OK(MPI_Allreduce_init(in, out, SHORT, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &requests[1]));
        OK(MPI_Start(&requests[1]));
        if (check_rank == round % size) {
            usleep(20000);
        }
        OK(MPI_Barrier(comm));
        MPI_Request persistent = requests[1];
        OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        for (int i = 0; i < LONG && round % 2 == 0; i++) {
            CHECK_EQ(to[i], size * (size - 1) / 2 + size * i);
        }
        for (int i = 0; i < SHORT; i++) {
            CHECK_EQ(out[i], size * (size - 1) / 2 * i);
        }
        OK(MPI_Request_free(&persistent));
        OK(MPI_Comm_free(&comm));
    }
    MPI_Finalize();
    return 0;
}
