/* A message longer than its receive is an error of the right class; nothing is written beyond the buffer, and the job
 * continues.
 * ranks: 2
 * variants: shm shm-2copy ofi ucx verbs
 */
#include "check.h"

static const int sizes[] = {1, 8, 89, 8000, 8192, 70000, 2 << 20};
enum { MAX = 2 << 20, GUARD = 64 };

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank();
    char *data = allocate(MAX + GUARD);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int room = 0; room < 3; room++) {
            int bytes = sizes[i], shorter = room == 0 ? 0 : room == 1 ? bytes / 2 : bytes - 1;
            for (int way = 0; way < 5; way++) {
                if (rank == 0) {
                    MPI_Request request;
                    fill(data, (size_t)bytes, i);
                    if (way == 0) {
                        barrier(MPI_COMM_WORLD);
                    }
                    OK(MPI_Isend(data, bytes, MPI_CHAR, 1, 1, MPI_COMM_WORLD, &request));
                    if (way != 0) {
                        barrier(MPI_COMM_WORLD);
                    }
                    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
                    continue;
                }
                MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
                MPI_Status status, statuses[2];
                MPI_Message message;
                int code, flag = 0, index = -1;
                memset(data, 0xee, (size_t)bytes + GUARD);
                switch (way) {
                case 0: /* posted */
                    OK(MPI_Irecv(data, shorter, MPI_CHAR, 0, 1, MPI_COMM_WORLD, &requests[0]));
                    barrier(MPI_COMM_WORLD);
                    code = MPI_Wait(&requests[0], &status);
                    break;
                case 1: /* unexpected */
                    barrier(MPI_COMM_WORLD);
                    code = MPI_Recv(data, shorter, MPI_CHAR, 0, 1, MPI_COMM_WORLD, &status);
                    break;
                case 2: /* probed */
                    barrier(MPI_COMM_WORLD);
                    OK(MPI_Mprobe(0, 1, MPI_COMM_WORLD, &message, &status));
                    code = MPI_Mrecv(data, shorter, MPI_CHAR, &message, &status);
                    break;
                case 3: /* one of several */
                    barrier(MPI_COMM_WORLD);
                    OK(MPI_Irecv(data, shorter, MPI_CHAR, 0, 1, MPI_COMM_WORLD, &requests[1]));
                    code = MPI_Waitall(2, requests, statuses);
                    CHECK_EQ(class_of(code), MPI_ERR_IN_STATUS);
                    CHECK_EQ(statuses[0].MPI_ERROR, MPI_SUCCESS);
                    code = statuses[1].MPI_ERROR;
                    CHECK_EQ(requests[1], MPI_REQUEST_NULL);
                    status = statuses[1];
                    break;
                default: /* found by polling */
                    barrier(MPI_COMM_WORLD);
                    OK(MPI_Irecv(data, shorter, MPI_CHAR, 0, 1, MPI_COMM_WORLD, &requests[1]));
                    for (code = MPI_SUCCESS; code == MPI_SUCCESS && !flag;) {
                        code = MPI_Testany(2, requests, &index, &flag, &status);
                    }
                    CHECK_EQ(index, 1);
                }
                CHECK_EQ(class_of(code), MPI_ERR_TRUNCATE);
                CHECK_EQ(requests[0], MPI_REQUEST_NULL);
                CHECK_EQ(requests[1], MPI_REQUEST_NULL);
                CHECK_EQ(status.MPI_SOURCE, 0);
                CHECK_EQ(status.MPI_TAG, 1);
                CHECK(all_bytes(data + shorter, (size_t)(bytes - shorter) + GUARD, 0xee));
            }
        }
    }
    /* All is well after that. */
    for (int i = 0; i < 100; i++) {
        int value = i, got = -1;
        OK(MPI_Sendrecv(&value, 1, MPI_INT, 1 - rank, 2, &got, 1, MPI_INT, 1 - rank, 2,
                        MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_EQ(got, i);
    }
    OK(MPI_Finalize());
    return 0;
}
