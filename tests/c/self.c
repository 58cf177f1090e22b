/* Messages to oneself, in every size and mode that does not wait for itself.
 * ranks: 1 2
 * variants: shm ofi single
 */
#include "check.h"

static const int sizes[] = {0, 1, 89, 8184, 8185, 100000, 4 << 20};
enum { MAX = 4 << 20 };

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    char *out = allocate(MAX), *in = allocate(MAX);
    MPI_Comm comms[2] = {MPI_COMM_WORLD, MPI_COMM_SELF};
    for (int which = 0; which < 2; which++) {
        MPI_Comm comm = comms[which];
        int me = which ? 0 : world_rank();
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            int bytes = sizes[i], flag, count;
            MPI_Request send, receive;
            MPI_Status status;
            uint64_t seed = i * 10;
            /* The receive first. */
            for (int synchronous = 0; synchronous < 4; synchronous++) {
                fill(out, (size_t)bytes, ++seed);
                OK(MPI_Irecv(in, bytes, MPI_CHAR, me, 1, comm, &receive));
                if (synchronous == 0) {
                    OK(MPI_Send(out, bytes, MPI_CHAR, me, 1, comm));
                } else if (synchronous == 1) {
                    OK(MPI_Ssend(out, bytes, MPI_CHAR, me, 1, comm));
                } else if (synchronous == 2) {
                    OK(MPI_Rsend(out, bytes, MPI_CHAR, me, 1, comm));
                } else {
                    OK(MPI_Issend(out, bytes, MPI_CHAR, me, 1, comm, &send));
                    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
                }
                OK(MPI_Wait(&receive, &status));
                CHECK_EQ(status.MPI_SOURCE, me);
                CHECK(is_filled(in, (size_t)bytes, seed));
            }
            /* The send first. */
            for (int synchronous = 0; synchronous < 2; synchronous++) {
                fill(out, (size_t)bytes, ++seed);
                if (synchronous) {
                    OK(MPI_Issend(out, bytes, MPI_CHAR, me, 2, comm, &send));
                    OK(MPI_Test(&send, &flag, MPI_STATUS_IGNORE));
                    CHECK_EQ(flag, 0);
                } else {
                    OK(MPI_Isend(out, bytes, MPI_CHAR, me, 2, comm, &send));
                }
                OK(MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status));
                OK(MPI_Get_count(&status, MPI_CHAR, &count));
                CHECK_EQ(count, bytes);
                CHECK_EQ(status.MPI_SOURCE, me);
                OK(MPI_Recv(in, bytes, MPI_CHAR, MPI_ANY_SOURCE, 2, comm, &status));
                CHECK(is_filled(in, (size_t)bytes, seed));
                OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
            }
            fill(out, (size_t)bytes, ++seed);
            OK(MPI_Sendrecv(out, bytes, MPI_CHAR, me, 3, in, bytes, MPI_CHAR, me, 3, comm, &status));
            CHECK(is_filled(in, (size_t)bytes, seed));
        }
        /* Many at once. */
        enum { MANY = 5000 };
        static MPI_Request requests[2 * MANY];
        static int values[MANY], got[MANY];
        for (int i = 0; i < MANY; i++) {
            values[i] = i * 3;
            OK(MPI_Isend(&values[i], 1, MPI_INT, me, 4, comm, &requests[i]));
        }
        for (int i = 0; i < MANY; i++) {
            OK(MPI_Irecv(&got[i], 1, MPI_INT, me, 4, comm, &requests[MANY + i]));
        }
        OK(MPI_Waitall(2 * MANY, requests, MPI_STATUSES_IGNORE));
        for (int i = 0; i < MANY; i++) {
            CHECK_EQ(got[i], i * 3);
        }
    }
    OK(MPI_Finalize());
    return 0;
}
