/* Communication with MPI_PROC_NULL returns immediately and has no effect.
 * ranks: 1
 * variants: shm
 */
#include "check.h"

static void nobody(const MPI_Status *status) {
    int count = -1;
    CHECK_EQ(status->MPI_SOURCE, MPI_PROC_NULL);
    CHECK_EQ(status->MPI_TAG, MPI_ANY_TAG);
    OK(MPI_Get_count(status, MPI_INT, &count));
    CHECK_EQ(count, 0);
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    world_rank();
    int data[4] = {1, 2, 3, 4};
    MPI_Comm comm = MPI_COMM_WORLD;
    MPI_Status status, statuses[5];
    MPI_Request requests[5];
    OK(MPI_Send(data, 4, MPI_INT, MPI_PROC_NULL, 0, comm));
    OK(MPI_Ssend(data, 4, MPI_INT, MPI_PROC_NULL, 0, comm));
    OK(MPI_Rsend(data, 4, MPI_INT, MPI_PROC_NULL, 0, comm));
    OK(MPI_Bsend(data, 4, MPI_INT, MPI_PROC_NULL, 0, comm));
    OK(MPI_Recv(data, 4, MPI_INT, MPI_PROC_NULL, 0, comm, &status));
    nobody(&status);
    OK(MPI_Recv(data, 4, MPI_INT, MPI_PROC_NULL, MPI_ANY_TAG, comm, MPI_STATUS_IGNORE));
    for (int round = 0; round < 2; round++) {
        OK(MPI_Isend(data, 4, MPI_INT, MPI_PROC_NULL, 0, comm, &requests[0]));
        OK(MPI_Issend(data, 4, MPI_INT, MPI_PROC_NULL, 0, comm, &requests[1]));
        OK(MPI_Irsend(data, 4, MPI_INT, MPI_PROC_NULL, 0, comm, &requests[2]));
        OK(MPI_Ibsend(data, 4, MPI_INT, MPI_PROC_NULL, 0, comm, &requests[3]));
        OK(MPI_Irecv(data, 4, MPI_INT, MPI_PROC_NULL, 0, comm, &requests[4]));
        int flag = 0;
        OK(MPI_Request_get_status(requests[4], &flag, &status));
        CHECK_EQ(flag, 1);
        nobody(&status);
        if (round == 0) {
            OK(MPI_Waitall(5, requests, statuses));
            nobody(&statuses[4]);
        } else {
            for (int i = 0; i < 5; i++) {
                OK(MPI_Cancel(&requests[i]));
                OK(MPI_Test(&requests[i], &flag, &status));
                CHECK_EQ(flag, 1);
                OK(MPI_Test_cancelled(&status, &flag));
                CHECK_EQ(flag, 0);
            }
        }
    }
    OK(MPI_Sendrecv(data, 4, MPI_INT, MPI_PROC_NULL, 0, data, 4, MPI_INT, MPI_PROC_NULL, 0, comm,
                    &status));
    nobody(&status);
    OK(MPI_Sendrecv_replace(data, 4, MPI_INT, MPI_PROC_NULL, 0, MPI_PROC_NULL, 0, comm, &status));
    nobody(&status);
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(data[i], i + 1);
    }
    OK(MPI_Finalize());
    return 0;
}
