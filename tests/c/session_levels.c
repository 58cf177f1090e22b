/* Levels of thread support of sessions (MPI-5.0 sections 11.3.1 and 11.6): at least the requested one and that of the
 * world; an invalid value is an error.
 * ranks: 1
 * variants: shm
 */
#include "fails.h"

static MPI_Info asking(const char *level) {
    MPI_Info info;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "thread_level", level));
    return info;
}

static void refused(const char *level) {
    MPI_Session session = MPI_SESSION_NULL;
    MPI_Info info = asking(level);
    FAILS(MPI_Session_init(info, MPI_ERRORS_RETURN, &session), MPI_ERR_INFO_VALUE);
    OK(MPI_Info_free(&info));
}

static void gets(const char *wanted, const char *expected) {
    MPI_Session session;
    MPI_Info info = MPI_INFO_NULL, used;
    char value[32];
    int length = sizeof value, flag;
    if (wanted) {
        info = asking(wanted);
    }
    OK(MPI_Session_init(info, MPI_ERRORS_RETURN, &session));
    OK(MPI_Session_get_info(session, &used));
    OK(MPI_Info_get_string(used, "thread_level", &length, value, &flag));
    CHECK(flag);
    if (strcmp(value, expected)) {
        fprintf(stderr, "%s instead of %s\n", value, expected);
    }
    CHECK(!strcmp(value, expected));
    OK(MPI_Info_free(&used));
    OK(MPI_Session_finalize(&session));
    if (wanted) {
        OK(MPI_Info_free(&info));
    }
}

int main(int argc, char **argv) {
    setenv("WEFT_INITIAL_ERRHANDLER", "mpi_errors_return", 1);
    refused("MPI_THREAD_LOTS");
    refused("\xff");
    refused("3");
    gets(NULL, "MPI_THREAD_SINGLE");
    gets("MPI_THREAD_SERIALIZED", "MPI_THREAD_SERIALIZED");
    gets("MPI_THREAD_MULTIPLE", "MPI_THREAD_MULTIPLE");
    int provided;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    world_rank();
    gets(NULL, "MPI_THREAD_MULTIPLE");
    gets("MPI_THREAD_FUNNELED", "MPI_THREAD_MULTIPLE");
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    refused("MPI_THREAD_LOTS");
    OK(MPI_Finalize());
    gets("MPI_THREAD_SINGLE", "MPI_THREAD_SINGLE");
    return 0;
}
