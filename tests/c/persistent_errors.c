/* Wrong uses of persistent requests.
 * ranks: 1
 * variants: shm
 */
#include "fails.h"

int main(int argc, char **argv) {
    MPI_Request request, other, many[2];
    int value = 0, data = 3, wrong = -1;
    OK(MPI_Init(&argc, &argv));
    world_rank();
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    FAILS(MPI_Send_init(&data, -1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request), MPI_ERR_COUNT);
    FAILS(MPI_Send_init(&data, 1, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_WORLD, &request), MPI_ERR_TYPE);
    FAILS(MPI_Ssend_init(&data, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, &request), MPI_ERR_RANK);
    FAILS(MPI_Rsend_init(&data, 1, MPI_INT, 0, -5, MPI_COMM_WORLD, &request), MPI_ERR_TAG);
    FAILS(MPI_Bsend_init(&data, 1, MPI_INT, 0, 0, MPI_COMM_NULL, &request), MPI_ERR_COMM);
    FAILS(MPI_Recv_init(&value, 1, MPI_INT, 7, 0, MPI_COMM_WORLD, &request), MPI_ERR_RANK);
    FAILS(MPI_Recv_init(NULL, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request), MPI_ERR_BUFFER);
    FAILS(MPI_Recv_init(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, NULL), MPI_ERR_ARG);

    /* Not to be started. */
    request = MPI_REQUEST_NULL;
    FAILS(MPI_Start(&request), MPI_ERR_REQUEST);
    FAILS(MPI_Start(NULL), MPI_ERR_ARG);
    FAILS(MPI_Startall(-1, &request), MPI_ERR_COUNT);
    FAILS(MPI_Startall(1, NULL), MPI_ERR_ARG);
    FAILS(MPI_Start(&wrong), MPI_ERR_REQUEST);
    OK(MPI_Startall(0, NULL));
    OK(MPI_Irecv(&value, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &request));
    FAILS(MPI_Start(&request), MPI_ERR_REQUEST);
    OK(MPI_Send(&data, 1, MPI_INT, 0, 1, MPI_COMM_SELF));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));

    /* Active already; of several, none is started. */
    OK(MPI_Recv_init(&value, 1, MPI_INT, 0, 2, MPI_COMM_SELF, &request));
    OK(MPI_Recv_init(&value, 1, MPI_INT, 0, 3, MPI_COMM_SELF, &other));
    FAILS(MPI_Cancel(&request), MPI_ERR_REQUEST);
    OK(MPI_Start(&request));
    FAILS(MPI_Start(&request), MPI_ERR_REQUEST);
    many[0] = other;
    many[1] = request;
    FAILS(MPI_Startall(2, many), MPI_ERR_REQUEST);
    int flag = 0;
    OK(MPI_Request_get_status(other, &flag, MPI_STATUS_IGNORE));
    CHECK_EQ(flag, 1);
    FAILS(MPI_Grequest_complete(request), MPI_ERR_REQUEST);

    /* An error of the communication, told when it is completed; the request stays. */
    int two[2] = {1, 2};
    OK(MPI_Send(two, 2, MPI_INT, 0, 2, MPI_COMM_SELF));
    FAILS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
    CHECK(request != MPI_REQUEST_NULL);
    OK(MPI_Start(&request));
    OK(MPI_Send(two, 2, MPI_INT, 0, 2, MPI_COMM_SELF));
    MPI_Status status;
    FAILS(MPI_Waitall(1, &request, &status), MPI_ERR_IN_STATUS);
    CHECK_EQ(class_of(status.MPI_ERROR), MPI_ERR_TRUNCATE);
    CHECK(request != MPI_REQUEST_NULL);
    OK(MPI_Start(&request));
    OK(MPI_Send(&data, 1, MPI_INT, 0, 2, MPI_COMM_SELF));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_EQ(value, 3);

    /* Gone. */
    MPI_Request copy = request;
    OK(MPI_Request_free(&request));
    FAILS(MPI_Request_free(&request), MPI_ERR_REQUEST);
    FAILS(MPI_Start(&copy), MPI_ERR_REQUEST);
    FAILS(MPI_Wait(&copy, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
    OK(MPI_Request_free(&other));

    /* No buffer attached. */
    OK(MPI_Bsend_init(&data, 1, MPI_INT, 0, 2, MPI_COMM_SELF, &request));
    FAILS(MPI_Start(&request), MPI_ERR_BUFFER);
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Request_free(&request));
    OK(MPI_Finalize());
    return 0;
}
