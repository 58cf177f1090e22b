/* What a process exchanges with itself is complete at the first test (MPI-3.1 section 3.5: progress;
 * programs test once and then wait for something else): synchronous sends, cancels, all sizes.
 *
 * ranks: 1 2
 */
#include "check.h"

static int done(MPI_Request *request) {
    int flag;
    OK(MPI_Test(request, &flag, MPI_STATUS_IGNORE));
    return flag;
}

static void exchange(size_t n, MPI_Comm comm, int me) {
    char *from = allocate(n), *to = allocate(n);
    int count = (int)n, flag;
    MPI_Request send, receive;
    MPI_Status status;
    fill(from, n, n);

    OK(MPI_Issend(from, count, MPI_CHAR, me, 0, comm, &send));
    OK(MPI_Irecv(to, count, MPI_CHAR, me, 0, comm, &receive));
    CHECK(done(&send));
    CHECK(done(&receive));
    CHECK(is_filled(to, n, n));

    memset(to, 0, n);
    OK(MPI_Irecv(to, count, MPI_CHAR, MPI_ANY_SOURCE, 0, comm, &receive));
    OK(MPI_Issend(from, count, MPI_CHAR, me, 0, comm, &send));
    CHECK(done(&send));
    CHECK(done(&receive));
    CHECK(is_filled(to, n, n));

    memset(to, 0, n);
    OK(MPI_Issend(from, count, MPI_CHAR, me, 0, comm, &send));
    OK(MPI_Recv(to, count, MPI_CHAR, me, 0, comm, &status));
    CHECK(done(&send));
    CHECK(is_filled(to, n, n));

    /* Nobody receives: it is incomplete, and then cancelled. */
    OK(MPI_Issend(from, count, MPI_CHAR, me, 0, comm, &send));
    CHECK(!done(&send));
    OK(MPI_Iprobe(me, 0, comm, &flag, &status));
    CHECK(flag);
    OK(MPI_Cancel(&send));
    OK(MPI_Test(&send, &flag, &status));
    CHECK(flag);
    OK(MPI_Test_cancelled(&status, &flag));
    CHECK(flag);
    OK(MPI_Iprobe(me, 0, comm, &flag, &status));
    CHECK(!flag);

    OK(MPI_Irecv(to, count, MPI_CHAR, me, 0, comm, &receive));
    OK(MPI_Cancel(&receive));
    CHECK(done(&receive));
    free(from);
    free(to);
}

/* Many at once, and only the last is tested. */
static void many(MPI_Comm comm, int me) {
    enum { MANY = 500 };
    static int from[MANY], to[MANY];
    static MPI_Request sends[MANY], receives[MANY];
    for (int i = 0; i < MANY; i++) {
        from[i] = i;
        OK(MPI_Issend(&from[i], 1, MPI_INT, me, i % 7, comm, &sends[i]));
    }
    for (int i = 0; i < MANY; i++) {
        OK(MPI_Irecv(&to[i], 1, MPI_INT, me, i % 7, comm, &receives[i]));
    }
    int flag;
    OK(MPI_Testall(MANY, sends, &flag, MPI_STATUSES_IGNORE));
    CHECK(flag);
    OK(MPI_Testall(MANY, receives, &flag, MPI_STATUSES_IGNORE));
    CHECK(flag);
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(to[i], i);
    }

    /* Sends that need no acknowledgement. */
    for (int i = 0; i < MANY; i++) {
        OK(MPI_Irecv(&to[i], 1, MPI_INT, me, 0, comm, &receives[i]));
    }
    for (int i = 0; i < MANY; i++) {
        OK(MPI_Send(&from[i], 1, MPI_INT, me, 0, comm));
    }
    CHECK(done(&receives[MANY - 1]));
    OK(MPI_Testall(MANY, receives, &flag, MPI_STATUSES_IGNORE));
    CHECK(flag);
}

int main(int argc, char **argv) {
    static const size_t sizes[] = {0, 1, 1000, 20000, 100000, 4 << 20};
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        exchange(sizes[i], MPI_COMM_WORLD, rank);
        exchange(sizes[i], MPI_COMM_SELF, 0);
    }
    many(MPI_COMM_WORLD, rank);
    many(MPI_COMM_SELF, 0);
    OK(MPI_Finalize());
    return 0;
}
