/* The default error handler of files (sections 8.3.3 and 13.7): MPI_ERRORS_RETURN until another is
 * set on MPI_FILE_NULL.
 * ranks: 1
 * variants: shm single
 */
#include "check.h"

static int calls, last_code;
static MPI_File last_file = (MPI_File)&calls;

static void handler(MPI_File *file, int *code, ...) {
    calls++;
    last_file = *file;
    last_code = *code;
}

static void of_comm(MPI_Comm *comm, int *code, ...) {
    (void)comm, (void)code;
    CHECK(!"the handler of another kind of object was called");
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    MPI_Errhandler mine, wrong, got;
    OK(MPI_File_get_errhandler(MPI_FILE_NULL, &got));
    CHECK_EQ(got, MPI_ERRORS_RETURN);
    OK(MPI_File_call_errhandler(MPI_FILE_NULL, MPI_ERR_NO_SUCH_FILE));
    CHECK_EQ(calls, 0);

    OK(MPI_File_create_errhandler(handler, &mine));
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, mine));
    OK(MPI_Errhandler_free(&mine));
    OK(MPI_File_call_errhandler(MPI_FILE_NULL, MPI_ERR_NO_SUCH_FILE));
    CHECK_EQ(calls, 1);
    CHECK_EQ(last_code, MPI_ERR_NO_SUCH_FILE);
    CHECK(last_file == MPI_FILE_NULL);

    /* Errors on files go to it, whatever the handler of MPI_COMM_WORLD is. */
    int code = MPI_File_set_errhandler((MPI_File)&calls, MPI_ERRORS_RETURN);
    CHECK_EQ(class_of(code), MPI_ERR_FILE);
    CHECK_EQ(calls, 2);
    CHECK_EQ(last_code, code);
    code = MPI_File_get_errhandler((MPI_File)&calls, &got);
    CHECK_EQ(class_of(code), MPI_ERR_FILE);
    code = MPI_File_call_errhandler((MPI_File)&calls, 1);
    CHECK_EQ(class_of(code), MPI_ERR_FILE);
    CHECK_EQ(calls, 4);
    code = MPI_File_get_errhandler(MPI_FILE_NULL, NULL);
    CHECK_EQ(class_of(code), MPI_ERR_ARG);
    OK(MPI_Comm_create_errhandler(of_comm, &wrong));
    code = MPI_File_set_errhandler(MPI_FILE_NULL, wrong);
    CHECK_EQ(class_of(code), MPI_ERR_ERRHANDLER);
    OK(MPI_Errhandler_free(&wrong));
    code = MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRHANDLER_NULL);
    CHECK_EQ(class_of(code), MPI_ERR_ERRHANDLER);
    CHECK_EQ(calls, 7);

    OK(MPI_File_get_errhandler(MPI_FILE_NULL, &got));
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    OK(MPI_File_call_errhandler(MPI_FILE_NULL, MPI_ERR_IO));
    CHECK_EQ(calls, 7);
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, got));
    OK(MPI_Errhandler_free(&got));
    OK(MPI_File_call_errhandler(MPI_FILE_NULL, MPI_ERR_IO));
    CHECK_EQ(calls, 8);
    OK(MPI_Finalize());
    return 0;
}
