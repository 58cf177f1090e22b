/* Requests of nonblocking collectives and of one-sided operations can't be freed or cancelled
 * (MPI-3.1 sections 5.12 and 11.3.5), and stay good. The communicator that is wrong is named.
 *
 * ranks: 2
 */
#include "fails.h"

static int says(int code, const char *what) {
    char text[MPI_MAX_ERROR_STRING];
    int length;
    OK(MPI_Error_string(code, text, &length));
    return strstr(text, what) != NULL;
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), sum = -1, one = 1;
    MPI_Request request, copy;
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    for (int round = 0; round < 8; round++) {
        if (rank == 0) {
            /* The other rank doesn't take part yet. */
            if (round % 2) {
                OK(MPI_Ibarrier(MPI_COMM_WORLD, &request));
            } else {
                OK(MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
            }
            copy = request;
            FAILS(MPI_Request_free(&request), MPI_ERR_REQUEST);
            CHECK(request == copy);
            FAILS(MPI_Cancel(&request), MPI_ERR_REQUEST);
            OK(MPI_Send(&one, 1, MPI_INT, 1, 7, MPI_COMM_WORLD));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        } else {
            OK(MPI_Recv(&one, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            if (round % 2) {
                OK(MPI_Ibarrier(MPI_COMM_WORLD, &request));
            } else {
                OK(MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
            }
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
        CHECK_EQ(sum, 2);
    }
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    MPI_Comm inter;
    int code = MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_NULL, 1 - rank, 3, &inter);
    CHECK_EQ(class_of(code), MPI_ERR_COMM);
    CHECK(says(code, "peer_comm is MPI_COMM_NULL"));
    code = MPI_Intercomm_create(MPI_COMM_NULL, 0, MPI_COMM_WORLD, 1 - rank, 3, &inter);
    CHECK_EQ(class_of(code), MPI_ERR_COMM);
    CHECK(says(code, "local_comm is MPI_COMM_NULL"));
    OK(MPI_Finalize());
    return 0;
}
