/* The initial error handler, MPI_ERRORS_ABORT, and on whom errors without an object are raised
 * (MPI-4.1 sections 9.3 and 11.5).
 * variants: shm
 * case: return
 * case: self
 * case: abort
 * exit: 4
 * stderr: The job ends, because the error handler of MPI_COMM_WORLD is MPI_ERRORS_ABORT.
 */
#include "fails.h"

static int calls;

static void on_self(MPI_Comm *comm, int *code, ...) {
    (void)code;
    CHECK_EQ(*comm, MPI_COMM_SELF);
    calls++;
}

int main(int argc, char **argv) {
    const char *what = argv[1];
    MPI_Errhandler handler;
    int size;
    if (!strcmp(what, "return")) {
        /* For errors before MPI_Init, too. */
        setenv("WEFT_INITIAL_ERRHANDLER", "mpi_errors_return", 1);
        FAILS(MPI_Comm_size(MPI_COMM_WORLD, &size), MPI_ERR_OTHER);
        MPI_Init(&argc, &argv);
        OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler));
        CHECK_EQ(handler, MPI_ERRORS_RETURN);
        OK(MPI_Comm_get_errhandler(MPI_COMM_SELF, &handler));
        CHECK_EQ(handler, MPI_ERRORS_RETURN);
        FAILS(MPI_Comm_size(MPI_COMM_NULL, &size), MPI_ERR_COMM);
        FAILS(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRHANDLER_NULL), MPI_ERR_ERRHANDLER);
        MPI_Finalize();
        FAILS(MPI_Comm_size(MPI_COMM_WORLD, &size), MPI_ERR_OTHER);
        return 0;
    }
    MPI_Init(&argc, &argv);
    world_rank();
    if (!strcmp(what, "self")) {
        MPI_Datatype type = MPI_DATATYPE_NULL;
        /* Of MPI_COMM_WORLD, until the program chooses that of MPI_COMM_SELF. */
        OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
        FAILS(MPI_Type_commit(&type), MPI_ERR_TYPE);
        OK(MPI_Comm_create_errhandler(on_self, &handler));
        OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, handler));
        OK(MPI_Errhandler_free(&handler));
        CHECK(MPI_Type_commit(&type) != MPI_SUCCESS);
        CHECK_EQ(calls, 1);
        FAILS(MPI_Send(NULL, 0, MPI_INT, 77, 0, MPI_COMM_WORLD), MPI_ERR_RANK);
        CHECK_EQ(calls, 1);
        CHECK(MPI_Send(NULL, 0, MPI_INT, 0, 0, MPI_COMM_NULL) != MPI_SUCCESS);
        CHECK_EQ(calls, 2);
        MPI_Finalize();
        return 0;
    }
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ABORT));
    OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler));
    CHECK_EQ(handler, MPI_ERRORS_ABORT);
    OK(MPI_Errhandler_free(&handler));
    if (world_rank() == 0) {
        MPI_Send(NULL, 0, MPI_INT, 0, -5, MPI_COMM_WORLD);
    }
    nap(5);
    return 1;
}
