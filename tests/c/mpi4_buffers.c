/* ranks: 2
 * env: WEFT_EAGER_LIMIT=8184
 */
/* Buffers of communicators and sessions, flushing, MPI_BUFFER_AUTOMATIC (MPI-4.1 section 3.6). */
#include "fails.h"

#define LENGTH 200000

static char data[LENGTH], got[LENGTH];

/* Sends buffered messages from rank 0, which `take` receives. */
static void pass(MPI_Comm comm, int count) {
    int rank;
    OK(MPI_Comm_rank(comm, &rank));
    if (rank == 0) {
        for (int i = 0; i < count; i++) {
            fill(data, LENGTH, (uint64_t)i);
            OK(MPI_Bsend(data, LENGTH, MPI_CHAR, 1, i, comm));
        }
    }
}

static void take(MPI_Comm comm, int count) {
    int rank;
    OK(MPI_Comm_rank(comm, &rank));
    if (rank == 1) {
        for (int i = 0; i < count; i++) {
            OK(MPI_Recv(got, LENGTH, MPI_CHAR, 0, i, comm, MPI_STATUS_IGNORE));
            CHECK(is_filled(got, LENGTH, (uint64_t)i));
        }
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    int size = 2 * (LENGTH + MPI_BSEND_OVERHEAD), given, flag;
    world_rank();
    char *one = allocate((size_t)size), *two = allocate((size_t)size), *back;
    MPI_Comm comm;
    MPI_Request request;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Buffer_flush());
    OK(MPI_Buffer_iflush(&request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Comm_flush_buffer(comm));
    OK(MPI_Comm_detach_buffer(comm, &back, &given));
    CHECK(back == NULL && given == 0);
    FAILS(MPI_Comm_attach_buffer(comm, one, -1), MPI_ERR_ARG);
    FAILS(MPI_Comm_attach_buffer(comm, NULL, 7), MPI_ERR_BUFFER);
    FAILS(MPI_Comm_attach_buffer(MPI_COMM_NULL, one, 7), MPI_ERR_COMM);
    OK(MPI_Buffer_attach(one, size));
    OK(MPI_Comm_attach_buffer(comm, two, size));
    FAILS(MPI_Comm_attach_buffer(comm, two, size), MPI_ERR_BUFFER);
    FAILS(MPI_Buffer_iflush(NULL), MPI_ERR_ARG);
    /* Each has room for two of its own. */
    pass(comm, 2);
    pass(MPI_COMM_WORLD, 2);
    if (check_rank == 0) {
        FAILS(MPI_Bsend(data, LENGTH, MPI_CHAR, 1, 9, comm), MPI_ERR_BUFFER);
        OK(MPI_Comm_iflush_buffer(comm, &request));
        OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
        CHECK(!flag);
    }
    barrier(MPI_COMM_WORLD);
    take(comm, 2);
    if (check_rank == 0) {
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK_EQ(request, MPI_REQUEST_NULL);
    }
    /* There is room again, while the other buffer is full. */
    pass(comm, 2);
    take(MPI_COMM_WORLD, 2);
    OK(MPI_Buffer_flush());
    take(comm, 2);
    OK(MPI_Comm_flush_buffer(comm));
    OK(MPI_Comm_iflush_buffer(comm, &request));
    FAILS(MPI_Cancel(&request), MPI_ERR_REQUEST);
    OK(MPI_Request_free(&request));
    OK(MPI_Comm_detach_buffer(comm, &back, &given));
    CHECK(back == two && given == size);
    OK(MPI_Buffer_detach(&back, &given));
    CHECK(back == one && given == size);
    /* Memory of the library's. */
    /* Its size says nothing. */
    OK(MPI_Comm_attach_buffer(comm, MPI_BUFFER_AUTOMATIC, -5));
    pass(comm, 20);
    barrier(MPI_COMM_WORLD);
    take(comm, 20);
    OK(MPI_Comm_flush_buffer(comm));
    pass(comm, 3);
    take(comm, 3);
    OK(MPI_Comm_detach_buffer(comm, &back, &given));
    CHECK(back == MPI_BUFFER_AUTOMATIC);
    FAILS(MPI_Bsend(data, 1, MPI_CHAR, 0, 9, comm), MPI_ERR_BUFFER);
    OK(MPI_Comm_free(&comm));

    /* The buffer of a session serves communicators that come from it, and what is made of these. */
    MPI_Session session;
    MPI_Group group, part;
    MPI_Comm first, second;
    int ranks[] = {0, 1};
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    OK(MPI_Group_incl(group, 2, ranks, &part));
    OK(MPI_Comm_create_from_group(part, "buffers", MPI_INFO_NULL, MPI_ERRORS_RETURN, &first));
    OK(MPI_Comm_dup(first, &second));
    OK(MPI_Session_flush_buffer(session));
    OK(MPI_Session_iflush_buffer(session, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    FAILS(MPI_Session_attach_buffer(MPI_SESSION_NULL, one, size), MPI_ERR_SESSION);
    OK(MPI_Session_attach_buffer(session, one, size));
    pass(first, 1);
    pass(second, 1);
    if (check_rank == 0) {
        FAILS(MPI_Bsend(data, LENGTH, MPI_CHAR, 1, 9, second), MPI_ERR_BUFFER);
        FAILS(MPI_Bsend(data, 1, MPI_CHAR, 1, 9, MPI_COMM_WORLD), MPI_ERR_BUFFER);
    }
    OK(MPI_Session_iflush_buffer(session, &request));
    barrier(MPI_COMM_WORLD);
    take(first, 1);
    take(second, 1);
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Session_flush_buffer(session));
    FAILS(MPI_Session_detach_buffer(session, NULL, &given), MPI_ERR_ARG);
    OK(MPI_Session_detach_buffer(session, &back, &given));
    CHECK(back == one && given == size);
    OK(MPI_Comm_free(&second));
    OK(MPI_Comm_free(&first));
    OK(MPI_Group_free(&part));
    OK(MPI_Group_free(&group));
    OK(MPI_Session_finalize(&session));
    free(one);
    free(two);
    MPI_Finalize();
    return 0;
}
