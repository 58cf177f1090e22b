/* ranks: 1 2 3 */
/* variants: shm tcp */
/* Sessions before, beside and after MPI_Init and MPI_Finalize (MPI-4.1 chapter 11); intercommunicators of
 * groups; a session that only one process opens. */
#include "fails.h"

static MPI_Session open_session(void) {
    MPI_Session session;
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    return session;
}

/* What all processes do together on a communicator of a session's. */
static void use(MPI_Session session, const char *tag) {
    MPI_Group group;
    MPI_Comm comm;
    int rank, size, sum;
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    OK(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    OK(MPI_Group_free(&group));
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Comm_size(comm, &size));
    check_rank = rank;
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm));
    CHECK_EQ(sum, size * (size - 1) / 2);
    /* Longer than eager messages are. */
    size_t length = 200000;
    char *out = allocate(length), *in = allocate(length);
    fill(out, length, (uint64_t)rank);
    OK(MPI_Sendrecv(out, (int)length, MPI_CHAR, (rank + 1) % size, 3, in, (int)length, MPI_CHAR,
                    (rank - 1 + size) % size, 3, comm, MPI_STATUS_IGNORE));
    CHECK(is_filled(in, length, (uint64_t)((rank - 1 + size) % size)));
    free(out);
    free(in);
    OK(MPI_Comm_free(&comm));
}

/* The even against the odd ranks. */
static void between(MPI_Session session) {
    MPI_Group all, even, odd;
    MPI_Comm inter;
    int rank, size;
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &all));
    OK(MPI_Group_size(all, &size));
    OK(MPI_Group_rank(all, &rank));
    if (size > 1) {
        int range[1][3] = {{0, size - 1, 2}};
        OK(MPI_Group_range_incl(all, 1, range, &even));
        OK(MPI_Group_range_excl(all, 1, range, &odd));
        MPI_Group mine = rank % 2 ? odd : even, others = rank % 2 ? even : odd;
        int remote, leader, last;
        OK(MPI_Group_size(mine, &leader));
        OK(MPI_Group_size(others, &last));
        OK(MPI_Intercomm_create_from_groups(mine, leader - 1, others, last - 1, "between", MPI_INFO_NULL,
                                            MPI_ERRORS_RETURN, &inter));
        OK(MPI_Comm_remote_size(inter, &remote));
        CHECK_EQ(remote, last);
        int sum, expected = 0;
        for (int other = !(rank % 2); other < size; other += 2) {
            expected += other;
        }
        OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, inter));
        CHECK_EQ(sum, expected);
        OK(MPI_Comm_free(&inter));
        /* A group that this process is not in. */
        FAILS(MPI_Comm_create_from_group(others, "", MPI_INFO_NULL, MPI_ERRORS_RETURN, &inter),
              MPI_ERR_GROUP);
        OK(MPI_Group_free(&even));
        OK(MPI_Group_free(&odd));
    }
    OK(MPI_Group_free(&all));
}

int main(int argc, char **argv) {
    setenv("WEFT_INITIAL_ERRHANDLER", "mpi_errors_return", 1);
    int flag, value, level;
    /* Before, and gone again. */
    MPI_Session before = open_session();
    use(before, "one");
    OK(MPI_Session_finalize(&before));
    before = open_session();
    use(before, "one");
    /* Beside. */
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level));
    CHECK_EQ(level, MPI_THREAD_FUNNELED);
    OK(MPI_Query_thread(&level));
    CHECK_EQ(level, MPI_THREAD_FUNNELED);
    OK(MPI_Is_thread_main(&flag));
    CHECK(flag);
    int rank = world_rank();
    MPI_Session beside = open_session();
    use(beside, "two");
    use(before, "two");
    between(beside);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Session_finalize(&before));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    /* Local: one process alone opens and closes as it likes. */
    if (rank == 0) {
        for (int i = 0; i < 10; i++) {
            MPI_Session alone = open_session();
            OK(MPI_Session_finalize(&alone));
        }
    }
    OK(MPI_Finalize());
    OK(MPI_Finalized(&flag));
    CHECK(flag);
    /* After: what is open stays, and the world is gone. */
    use(beside, "three");
    FAILS(MPI_Comm_rank(MPI_COMM_WORLD, &value), MPI_ERR_COMM);
    FAILS(MPI_Init(&argc, &argv), MPI_ERR_OTHER);
    OK(MPI_Session_finalize(&beside));
    FAILS(MPI_Comm_rank(MPI_COMM_SELF, &value), MPI_ERR_OTHER);
    for (int i = 0; i < 5; i++) {
        MPI_Session after = open_session();
        use(after, "four");
        OK(MPI_Session_finalize(&after));
    }
    return 0;
}
