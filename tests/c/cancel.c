/* Cancelling: an operation is either cancelled, or completes as if MPI_Cancel had not been called (MPI-5.0 section
 * 3.8.4).
 * ranks: 2
 * timeout: 40
 */
#include "check.h"

static const int sizes[] = {0, 8, 8000, 60000, 1 << 20};
enum { SIZES = sizeof sizes / sizeof *sizes, MAX = 1 << 20 };
static char *data;

static int cancelled(const MPI_Status *status) {
    int flag = -1;
    OK(MPI_Test_cancelled(status, &flag));
    return flag;
}

/* A message to oneself has been sent before. */
static void to_oneself(void) {
    MPI_Request request;
    MPI_Status status;
    int out = 5, in = 0, count;
    OK(MPI_Irecv(&in, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &request));
    OK(MPI_Send(&out, 1, MPI_INT, 0, 1, MPI_COMM_SELF));
    OK(MPI_Cancel(&request));
    OK(MPI_Wait(&request, &status));
    CHECK_EQ(cancelled(&status), 0);
    OK(MPI_Get_count(&status, MPI_INT, &count));
    CHECK_EQ(count, 1);
    CHECK_EQ(in, 5);
}

static void receives(int rank) {
    MPI_Request request;
    MPI_Status status;
    to_oneself();
    for (int i = 0; i < SIZES; i++) {
        int bytes = sizes[i], count;
        if (rank == 0) {
            /* Nobody sends yet. */
            memset(data, 0x11, MAX);
            OK(MPI_Irecv(data, MAX, MPI_CHAR, 1, 1, MPI_COMM_WORLD, &request));
            OK(MPI_Cancel(&request));
            CHECK(request != MPI_REQUEST_NULL);
            OK(MPI_Wait(&request, &status));
            CHECK_EQ(cancelled(&status), 1);
            CHECK_EQ(request, MPI_REQUEST_NULL);
            /* The message finds the next receive, and the cancelled one's buffer is left alone. */
            char *other = allocate(MAX);
            barrier(MPI_COMM_WORLD);
            OK(MPI_Recv(other, MAX, MPI_CHAR, 1, 1, MPI_COMM_WORLD, &status));
            CHECK_EQ(cancelled(&status), 0);
            CHECK(is_filled(other, (size_t)bytes, (uint64_t)i));
            CHECK(all_bytes(data, MAX, 0x11));
            free(other);

            /* It has matched already. */
            OK(MPI_Irecv(data, MAX, MPI_CHAR, 1, 2, MPI_COMM_WORLD, &request));
            barrier(MPI_COMM_WORLD);
            OK(MPI_Recv(NULL, 0, MPI_CHAR, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            OK(MPI_Cancel(&request));
            OK(MPI_Wait(&request, &status));
            CHECK_EQ(cancelled(&status), 0);
            OK(MPI_Get_count(&status, MPI_CHAR, &count));
            CHECK_EQ(count, bytes);
            CHECK(is_filled(data, (size_t)bytes, (uint64_t)i));
        } else {
            fill(data, (size_t)bytes, (uint64_t)i);
            barrier(MPI_COMM_WORLD);
            OK(MPI_Send(data, bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD));
            barrier(MPI_COMM_WORLD);
            OK(MPI_Isend(data, bytes, MPI_CHAR, 0, 2, MPI_COMM_WORLD, &request));
            OK(MPI_Send(NULL, 0, MPI_CHAR, 0, 3, MPI_COMM_WORLD));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
    }
    /* By MPI_Request_free instead of waiting, and several in the middle of a queue. */
    if (rank == 0) {
        MPI_Request requests[9];
        MPI_Status statuses[9];
        int values[9];
        memset(values, 0, sizeof values);
        for (int i = 0; i < 9; i++) {
            OK(MPI_Irecv(&values[i], 1, MPI_INT, 1, 5, MPI_COMM_WORLD, &requests[i]));
        }
        for (int i = 0; i < 9; i += 2) {
            OK(MPI_Cancel(&requests[i]));
        }
        OK(MPI_Request_free(&requests[4]));
        barrier(MPI_COMM_WORLD);
        OK(MPI_Waitall(9, requests, statuses));
        for (int i = 0; i < 9; i++) {
            if (i != 4) {
                CHECK_EQ(cancelled(&statuses[i]), i % 2 == 0);
            }
            CHECK_EQ(values[i], i % 2 ? i / 2 + 100 : 0);
        }
    } else {
        barrier(MPI_COMM_WORLD);
        for (int i = 0; i < 4; i++) {
            int value = i + 100;
            OK(MPI_Send(&value, 1, MPI_INT, 0, 5, MPI_COMM_WORLD));
        }
    }
}

/* Rank 0 asks for a send to be given back while rank 1 may be about to receive it. */
static void sends(int rank) {
    uint64_t state = 4711 + (uint64_t)rank;
    int given_back = 0, delivered = 0;
    for (int round = 0; round < 400; round++) {
        int bytes = sizes[round % SIZES], flag;
        MPI_Request request;
        MPI_Status status;
        if (rank == 0) {
            fill(data, (size_t)bytes, (uint64_t)round);
            if (round % 3 == 0) {
                OK(MPI_Isend(data, bytes, MPI_CHAR, 1, 6, MPI_COMM_WORLD, &request));
            } else {
                OK(MPI_Issend(data, bytes, MPI_CHAR, 1, 6, MPI_COMM_WORLD, &request));
            }
            if (random_below(&state, 2)) {
                nap((double)random_below(&state, 200) * 1e-6);
            }
            OK(MPI_Cancel(&request));
            if (round % 2) {
                OK(MPI_Wait(&request, &status));
            } else {
                for (flag = 0; !flag;) {
                    OK(MPI_Test(&request, &flag, &status));
                }
            }
            flag = cancelled(&status);
            given_back += flag;
            delivered += !flag;
            OK(MPI_Send(&flag, 1, MPI_INT, 1, 7, MPI_COMM_WORLD));
            barrier(MPI_COMM_WORLD);
        } else {
            int polls = (int)random_below(&state, 40), gone, seen = 0;
            for (int i = 0; i < polls; i++) {
                OK(MPI_Iprobe(0, 8, MPI_COMM_WORLD, &seen, MPI_STATUS_IGNORE));
            }
            memset(data, 0, (size_t)bytes);
            OK(MPI_Irecv(data, MAX, MPI_CHAR, 0, 6, MPI_COMM_WORLD, &request));
            OK(MPI_Recv(&gone, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            if (gone) {
                OK(MPI_Cancel(&request));
            }
            OK(MPI_Wait(&request, &status));
            CHECK_EQ(cancelled(&status), gone);
            if (!gone) {
                CHECK(is_filled(data, (size_t)bytes, (uint64_t)round));
            }
            barrier(MPI_COMM_WORLD);
        }
    }
    if (rank == 0) {
        CHECK_EQ(given_back + delivered, 400);
    }
}

/* Sends that nobody receives can be given back: the receiver is in MPI, but elsewhere. */
static void unmatched_sends(int rank) {
    for (int i = 0; i < SIZES; i++) {
        MPI_Request request;
        MPI_Status status;
        if (rank == 0) {
            OK(MPI_Issend(data, sizes[i], MPI_CHAR, 1, 9, MPI_COMM_WORLD, &request));
            OK(MPI_Cancel(&request));
            OK(MPI_Wait(&request, &status));
            CHECK_EQ(cancelled(&status), 1);
        }
        barrier(MPI_COMM_WORLD);
        if (rank == 1) {
            int flag = -1;
            OK(MPI_Iprobe(0, 9, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
            CHECK_EQ(flag, 0);
        }
        barrier(MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank();
    data = allocate(MAX);
    receives(rank);
    unmatched_sends(rank);
    sends(rank);
    OK(MPI_Finalize());
    return 0;
}
