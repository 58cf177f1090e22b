/* ranks: 1 2 4 */
/* Sessions alone (MPI-4.1 section 11.3): process sets, groups and communicators of them, error handlers,
 * open and closed again and again, without MPI_Init. */
#include "fails.h"

static int calls, of_comms;
static MPI_Session last;

static void on_session(MPI_Session *session, int *code, ...) {
    (void)code;
    last = *session;
    calls++;
}

static void on_comm(MPI_Comm *comm, int *code, ...) {
    (void)comm, (void)code;
    of_comms++;
}

static MPI_Comm comm_of(MPI_Session session, const char *pset, const char *tag) {
    MPI_Group group;
    MPI_Comm comm;
    OK(MPI_Group_from_session_pset(session, pset, &group));
    OK(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    OK(MPI_Group_free(&group));
    return comm;
}

static void psets(MPI_Session session, int size) {
    int count, length, flag, found = 0;
    char name[MPI_MAX_PSET_NAME_LEN], value[16];
    MPI_Info info;
    OK(MPI_Session_get_num_psets(session, MPI_INFO_NULL, &count));
    CHECK(count >= 3);
    for (int n = 0; n < count; n++) {
        length = 0;
        OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, n, &length, NULL));
        CHECK(length > 1 && length < MPI_MAX_PSET_NAME_LEN);
        int whole = length;
        OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, n, &length, name));
        CHECK(length == whole && (int)strlen(name) == length - 1);
        found += !strcmp(name, "mpi://WORLD") + !strcmp(name, "mpi://SELF");
        OK(MPI_Session_get_pset_info(session, name, &info));
        length = sizeof value;
        OK(MPI_Info_get_string(info, "mpi_size", &length, value, &flag));
        CHECK(flag && atoi(value) >= 1 && atoi(value) <= size);
        OK(MPI_Info_free(&info));
    }
    CHECK_EQ(found, 2);
    length = 4;
    memset(name, '#', sizeof name);
    OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, &length, name));
    CHECK(length > 4 && !memcmp(name, "mpi\0#", 5));
    FAILS(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, count, &length, name), MPI_ERR_ARG);
    FAILS(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, -1, &length, name), MPI_ERR_ARG);
    FAILS(MPI_Session_get_nth_pset(session, 123, 0, &length, name), MPI_ERR_INFO);
    FAILS(MPI_Session_get_pset_info(session, "mpi://MOON", &info), MPI_ERR_ARG);
    MPI_Group group;
    FAILS(MPI_Group_from_session_pset(session, "mpi://MOON", &group), MPI_ERR_ARG);
    FAILS(MPI_Group_from_session_pset(session, NULL, &group), MPI_ERR_ARG);
    FAILS(MPI_Session_get_num_psets(session, MPI_INFO_NULL, NULL), MPI_ERR_ARG);
}

static int open_close(int round) {
    MPI_Session session;
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    CHECK(session != MPI_SESSION_NULL);
    CHECK_EQ(MPI_Session_f2c(MPI_Session_c2f(session)), session);
    int up;
    OK(MPI_Initialized(&up));
    CHECK(!up);
    int rank, size, one, sum;
    FAILS(MPI_Comm_size(MPI_COMM_WORLD, &one), MPI_ERR_COMM);
    FAILS(MPI_Send(&one, 1, MPI_INT, 0, 0, MPI_COMM_WORLD), MPI_ERR_COMM);
    MPI_Comm world = comm_of(session, "mpi://WORLD", "here");
    MPI_Comm self = comm_of(session, "mpi://SELF", "here");
    MPI_Comm node = comm_of(session, "mpix://SHARED_MEMORY", "here");
    OK(MPI_Comm_rank(world, &rank));
    OK(MPI_Comm_size(world, &size));
    check_rank = rank;
    OK(MPI_Comm_size(self, &one));
    CHECK_EQ(one, 1);
    OK(MPI_Comm_size(node, &one));
    CHECK(one >= 1 && one <= size);
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, world));
    CHECK_EQ(sum, size * (size - 1) / 2);
    int got = -1;
    OK(MPI_Sendrecv(&round, 1, MPI_INT, (rank + 1) % size, 7, &got, 1, MPI_INT,
                    (rank - 1 + size) % size, 7, world, MPI_STATUS_IGNORE));
    CHECK_EQ(got, round);
    /* There is no world, but what MPICH lets pass. */
    FAILS(MPI_Comm_size(MPI_COMM_SELF, &one), MPI_ERR_COMM);
    OK(MPI_Comm_size(MPI_COMM_WORLD, &one));
    CHECK_EQ(one, size);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    FAILS(MPI_Query_thread(&one), MPI_ERR_OTHER);
    if (round == 0) {
        psets(session, size);
    }
    OK(MPI_Comm_free(&node));
    OK(MPI_Comm_free(&self));
    OK(MPI_Comm_disconnect(&world));
    MPI_Session copy = session;
    OK(MPI_Session_finalize(&session));
    CHECK_EQ(session, MPI_SESSION_NULL);
    FAILS(MPI_Session_finalize(&session), MPI_ERR_SESSION);
    FAILS(MPI_Session_finalize(&copy), MPI_ERR_SESSION);
    return size;
}

static void wrong(void) {
    MPI_Session session, other;
    MPI_Errhandler handler, of_comm, got;
    MPI_Group group;
    MPI_Comm comm = MPI_COMM_WORLD;
    MPI_Info info;
    int flag, length;
    char value[32], tag[MPI_MAX_STRINGTAG_LEN + 1];
    OK(MPI_Comm_create_errhandler(on_comm, &of_comm));
    FAILS(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, NULL), MPI_ERR_ARG);
    FAILS(MPI_Session_init(MPI_INFO_NULL, MPI_ERRHANDLER_NULL, &session), MPI_ERR_ERRHANDLER);
    FAILS(MPI_Session_init(12345, MPI_ERRORS_RETURN, &session), MPI_ERR_INFO);
    /* A handler of another kind is not called. */
    FAILS(MPI_Session_init(MPI_INFO_NULL, of_comm, &session), MPI_ERR_ERRHANDLER);
    CHECK_EQ(of_comms, 0);
    FAILS(MPI_Session_get_info(MPI_SESSION_NULL, &info), MPI_ERR_SESSION);
    FAILS(MPI_Session_create_errhandler(NULL, &handler), MPI_ERR_ARG);
    OK(MPI_Session_create_errhandler(on_session, &handler));
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "thread_level", "MPI_THREAD_MULTIPLE"));
    OK(MPI_Session_init(info, handler, &session));
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &other));
    OK(MPI_Info_free(&info));
    OK(MPI_Session_get_info(session, &info));
    length = sizeof value;
    OK(MPI_Info_get_string(info, "thread_level", &length, value, &flag));
    CHECK(flag && !strcmp(value, "MPI_THREAD_MULTIPLE"));
    OK(MPI_Info_free(&info));
    /* Its handler is called for what is wrong with it. */
    OK(MPI_Session_get_errhandler(session, &got));
    CHECK_EQ(got, handler);
    OK(MPI_Errhandler_free(&got));
    CHECK(MPI_Session_get_pset_info(session, "mpi://MOON", &info) != MPI_SUCCESS);
    CHECK(calls == 1 && last == session);
    OK(MPI_Session_call_errhandler(session, MPI_ERR_OTHER));
    CHECK_EQ(calls, 2);
    FAILS(MPI_Session_set_errhandler(other, of_comm), MPI_ERR_ERRHANDLER);
    OK(MPI_Group_from_session_pset(session, "mpi://SELF", &group));
    FAILS(MPI_Comm_create_from_group(group, "", MPI_INFO_NULL, handler, &comm), MPI_ERR_ERRHANDLER);
    CHECK_EQ(calls, 2);
    FAILS(MPI_Comm_create_from_group(group, NULL, MPI_INFO_NULL, of_comm, &comm), MPI_ERR_ARG);
    CHECK_EQ(of_comms, 1);
    OK(MPI_Group_free(&group));
    OK(MPI_Session_set_errhandler(session, MPI_ERRORS_RETURN));
    FAILS(MPI_Session_get_pset_info(session, "mpi://MOON", &info), MPI_ERR_ARG);
    FAILS(MPI_Session_get_errhandler(session, NULL), MPI_ERR_ARG);
    CHECK_EQ(calls, 2);
    OK(MPI_Errhandler_free(&handler));

    OK(MPI_Group_from_session_pset(session, "mpi://SELF", &group));
    memset(tag, 'a', sizeof tag - 1);
    tag[sizeof tag - 1] = 0;
    FAILS(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm), MPI_ERR_ARG);
    CHECK_EQ(comm, MPI_COMM_NULL);
    FAILS(MPI_Comm_create_from_group(group, NULL, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm), MPI_ERR_ARG);
    FAILS(MPI_Comm_create_from_group(group, "", 77, MPI_ERRORS_RETURN, &comm), MPI_ERR_INFO);
    FAILS(MPI_Comm_create_from_group(MPI_GROUP_NULL, "", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm),
          MPI_ERR_GROUP);
    OK(MPI_Comm_create_from_group(MPI_GROUP_EMPTY, "", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    CHECK_EQ(comm, MPI_COMM_NULL);
    FAILS(MPI_Intercomm_create_from_groups(group, 1, group, 0, "", MPI_INFO_NULL, MPI_ERRORS_RETURN,
                                           &comm), MPI_ERR_RANK);
    FAILS(MPI_Intercomm_create_from_groups(group, 0, group, 5, "", MPI_INFO_NULL, MPI_ERRORS_RETURN,
                                           &comm), MPI_ERR_RANK);
    FAILS(MPI_Intercomm_create_from_groups(group, 0, group, 0, "", MPI_INFO_NULL, MPI_ERRORS_RETURN,
                                           &comm), MPI_ERR_RANK);
    tag[MPI_MAX_STRINGTAG_LEN - 1] = 0;
    OK(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, of_comm, &comm));
    OK(MPI_Errhandler_free(&of_comm));
    OK(MPI_Comm_free(&comm));
    OK(MPI_Group_free(&group));
    OK(MPI_Session_finalize(&other));
    OK(MPI_Session_finalize(&session));
}

int main(void) {
    /* Errors that concern no session go to the initial error handler. */
    setenv("WEFT_INITIAL_ERRHANDLER", "mpi_errors_return", 1);
    for (int round = 0; round < 20; round++) {
        open_close(round);
    }
    wrong();
    int size;
    FAILS(MPI_Comm_size(MPI_COMM_WORLD, &size), MPI_ERR_OTHER);
    FAILS(MPI_Finalize(), MPI_ERR_OTHER);
    return 0;
}
