/* Error handlers of the program's: called with the communicator and the code, inherited by copies,
 * and alive as long as they are attached.
 * ranks: 1 2
 * variants: shm single
 */
#include "check.h"

static int calls, last_code;
static MPI_Comm last_comm;

static void handler(MPI_Comm *comm, int *code, ...) {
    calls++;
    last_comm = *comm;
    last_code = *code;
}

static void other(MPI_Comm *comm, int *code, ...) {
    (void)comm, (void)code;
    calls += 100;
}

static void provoke(MPI_Comm comm, int expected_calls) {
    int before = calls, value = 0;
    int code = MPI_Send(&value, 1, MPI_INT, 999, 0, comm);
    CHECK_EQ(class_of(code), MPI_ERR_RANK);
    CHECK_EQ(calls - before, expected_calls);
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    world_rank();
    MPI_Errhandler mine, second, got;
    OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &got));
    CHECK_EQ(got, MPI_ERRORS_ARE_FATAL);
    OK(MPI_Comm_create_errhandler(handler, &mine));
    OK(MPI_Comm_create_errhandler(other, &second));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, mine));
    provoke(MPI_COMM_WORLD, 1);
    CHECK_EQ(last_comm, MPI_COMM_WORLD);
    CHECK_EQ(class_of(last_code), MPI_ERR_RANK);

    /* It lives on without its handle, also in copies. */
    OK(MPI_Errhandler_free(&mine));
    CHECK_EQ(mine, MPI_ERRHANDLER_NULL);
    MPI_Comm copy, part;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    OK(MPI_Comm_split(MPI_COMM_WORLD, 0, 0, &part));
    provoke(copy, 1);
    CHECK_EQ(last_comm, copy);
    provoke(part, 1);
    CHECK_EQ(last_comm, part);
    OK(MPI_Comm_get_errhandler(copy, &got));
    OK(MPI_Comm_set_errhandler(copy, second));
    provoke(copy, 100);
    OK(MPI_Comm_set_errhandler(copy, got));
    OK(MPI_Errhandler_free(&got));
    provoke(copy, 1);
    OK(MPI_Comm_set_errhandler(part, MPI_ERRORS_RETURN));
    provoke(part, 0);

    /* Errors of requests go to the communicator of the operation. */
    if (world_size() == 1) {
        int data[4] = {0};
        MPI_Request request;
        OK(MPI_Irecv(data, 1, MPI_INT, 0, 1, copy, &request));
        OK(MPI_Send(data, 4, MPI_INT, 0, 1, copy));
        int before = calls;
        CHECK_EQ(class_of(MPI_Wait(&request, MPI_STATUS_IGNORE)), MPI_ERR_TRUNCATE);
        CHECK_EQ(calls - before, 1);
        CHECK_EQ(last_comm, copy);
    }
    /* Errors that belong to no communicator go to that of MPI_COMM_WORLD. */
    int rank, before = calls;
    CHECK_EQ(class_of(MPI_Comm_rank(MPI_COMM_NULL, &rank)), MPI_ERR_COMM);
    CHECK_EQ(calls - before, 1);
    before = calls;
    OK(MPI_Comm_call_errhandler(copy, MPI_ERR_OTHER));
    CHECK_EQ(calls - before, 1);
    CHECK_EQ(last_code, MPI_ERR_OTHER);
    /* One handle for each, whoever asks, which can be freed as often as it was given. */
    MPI_Errhandler again;
    OK(MPI_Comm_set_errhandler(part, second));
    OK(MPI_Comm_get_errhandler(part, &got));
    OK(MPI_Comm_get_errhandler(part, &again));
    CHECK_EQ(got, second);
    CHECK_EQ(again, second);
    OK(MPI_Errhandler_free(&got));
    OK(MPI_Errhandler_free(&again));
    OK(MPI_Errhandler_free(&second));
    OK(MPI_Comm_get_errhandler(part, &second));
    CHECK(second != MPI_ERRHANDLER_NULL);
    MPI_Errhandler young;
    OK(MPI_Comm_create_errhandler(handler, &young));
    CHECK(young != second);
    OK(MPI_Errhandler_free(&young));
    OK(MPI_Errhandler_free(&second));
    OK(MPI_Comm_free(&copy));
    OK(MPI_Comm_free(&part));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
    OK(MPI_Finalize());
    return 0;
}
