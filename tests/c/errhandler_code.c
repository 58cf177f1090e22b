/* The code that an error handler leaves is what the call returns (MPI-5.0 9.3.1), for handlers of all
 * kinds of objects; MPI_X_call_errhandler succeeds all the same.
 * ranks: 1
 * variants: shm
 * build: c
 * build: mpich compiler=mpicc.mpich -DNO_SESSIONS
 * build: openmpi compiler=mpicc.openmpi -DNO_SESSIONS
 */
#include "check.h"

static int next, calls;

static void of_comm(MPI_Comm *comm, int *code, ...) {
    (void)comm;
    CHECK(*code != MPI_SUCCESS);
    *code = next, calls++;
}

static void of_win(MPI_Win *win, int *code, ...) {
    (void)win;
    CHECK(*code != MPI_SUCCESS);
    *code = next, calls++;
}

static void of_file(MPI_File *file, int *code, ...) {
    (void)file;
    CHECK(*code != MPI_SUCCESS);
    *code = next, calls++;
}

#ifndef NO_SESSIONS
static void of_session(MPI_Session *session, int *code, ...) {
    (void)session;
    CHECK(*code != MPI_SUCCESS);
    *code = next, calls++;
}
#endif

/* The call raises an error, and returns what the handler says. */
#define RETURNS(call)                                                                              \
    do {                                                                                           \
        int before = calls;                                                                        \
        next = MPI_SUCCESS;                                                                        \
        CHECK_EQ(call, MPI_SUCCESS);                                                               \
        next = MPI_ERR_OTHER;                                                                      \
        CHECK_EQ(call, MPI_ERR_OTHER);                                                             \
        next = 123456;                                                                             \
        CHECK_EQ(call, 123456);                                                                    \
        CHECK_EQ(calls - before, 3);                                                               \
    } while (0)

int main(int argc, char **argv) {
    int value = 0, flag, truncated[2] = {1, 2};
    MPI_Errhandler comm, win, file;
    MPI_File none;
    MPI_Win window;
    MPI_Request request;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_create_errhandler(of_comm, &comm));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, comm));
    RETURNS(MPI_Send(&value, 1, MPI_INT, 77, 0, MPI_COMM_WORLD));
    RETURNS(MPI_Bcast(&value, 1, MPI_INT, 77, MPI_COMM_WORLD));
    RETURNS(MPI_Comm_rank(MPI_COMM_NULL, &value));
    for (int i = 0; i < 2; i++) {
        OK(MPI_Irecv(&value, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, &request));
        OK(MPI_Send(truncated, 2, MPI_INT, 0, 1, MPI_COMM_WORLD));
        next = i ? MPI_ERR_OTHER : MPI_SUCCESS;
        CHECK_EQ(i ? MPI_Wait(&request, MPI_STATUS_IGNORE)
                   : MPI_Test(&request, &flag, MPI_STATUS_IGNORE),
                 next);
        CHECK(request == MPI_REQUEST_NULL);
    }
    OK(MPI_Comm_call_errhandler(MPI_COMM_WORLD, MPI_ERR_NAME));

    OK(MPI_Win_create_errhandler(of_win, &win));
    OK(MPI_Win_create(&value, sizeof value, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window));
    OK(MPI_Win_set_errhandler(window, win));
    RETURNS(MPI_Put(&value, 1, MPI_INT, 77, 0, 1, MPI_INT, window));
    OK(MPI_Win_call_errhandler(window, MPI_ERR_NAME));
    OK(MPI_Win_free(&window));

    OK(MPI_File_create_errhandler(of_file, &file));
    OK(MPI_File_set_errhandler(MPI_FILE_NULL, file));
    RETURNS(MPI_File_open(MPI_COMM_SELF, "/no/such/file", MPI_MODE_RDONLY, MPI_INFO_NULL, &none));
    OK(MPI_File_call_errhandler(MPI_FILE_NULL, MPI_ERR_NAME));
#ifndef NO_SESSIONS
    MPI_Session session;
    MPI_Errhandler of_sessions;
    MPI_Group group;
    OK(MPI_Session_create_errhandler(of_session, &of_sessions));
    OK(MPI_Session_init(MPI_INFO_NULL, of_sessions, &session));
    RETURNS(MPI_Group_from_session_pset(session, "mpi://MOON", &group));
    OK(MPI_Session_call_errhandler(session, MPI_ERR_NAME));
    OK(MPI_Session_finalize(&session));
    OK(MPI_Errhandler_free(&of_sessions));
#endif
    OK(MPI_Errhandler_free(&comm));
    OK(MPI_Errhandler_free(&win));
    OK(MPI_Errhandler_free(&file));
    OK(MPI_Finalize());
    return 0;
}
