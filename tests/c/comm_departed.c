/* A communicator freed with operations in progress (MPI-4.1 section 7.4.3): their errors go to its error handler
 * (section 9.3), and a new communicator is not affected.
 *
 * ranks: 1 2
 * variants: shm single tcp
 */
#include "check.h"

#define MANY 100

static int calls, others;

static void handler(MPI_Comm *comm, int *code, ...) {
    int rank;
    CHECK_EQ(class_of(*code), MPI_ERR_TRUNCATE);
    OK(MPI_Comm_rank(*comm, &rank)); /* it is given one that it may use */
    calls++;
}

static void other(MPI_Comm *comm, int *code, ...) {
    (void)comm, (void)code;
    others++;
}

static int rank, size, from, to;

static MPI_Comm copy_with(MPI_Errhandler errhandler) {
    MPI_Comm copy;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    OK(MPI_Comm_set_errhandler(copy, errhandler));
    return copy;
}

/* The receive is too short. `done`: the message is there before the communicator goes. */
static void truncated(MPI_Errhandler mine, MPI_Errhandler theirs, int persistent, int done) {
    int data[4] = {0}, room[4];
    MPI_Comm comm = copy_with(mine), next;
    MPI_Request receive, send;
    if (persistent) {
        OK(MPI_Recv_init(room, 1, MPI_INT, from, 0, comm, &receive));
        OK(MPI_Send_init(data, 4, MPI_INT, to, 0, comm, &send));
    } else {
        OK(MPI_Irecv(room, 1, MPI_INT, from, 0, comm, &receive));
        OK(MPI_Isend(data, 4, MPI_INT, to, 0, comm, &send));
    }
    if (done) {
        int flag = 0;
        while (!flag) MPI_Request_get_status(receive, &flag, MPI_STATUS_IGNORE);
    }
    OK(MPI_Comm_free(&comm));
    next = copy_with(theirs);
    if (persistent) {
        OK(MPI_Start(&receive));
        OK(MPI_Start(&send));
    }
    calls = others = 0;
    CHECK_EQ(class_of(MPI_Wait(&receive, MPI_STATUS_IGNORE)), MPI_ERR_TRUNCATE);
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    CHECK_EQ(calls, 1);
    CHECK_EQ(others, 0);
    if (persistent) {
        OK(MPI_Request_free(&receive));
        OK(MPI_Request_free(&send));
    }
    OK(MPI_Comm_free(&next));
}

/* The end of another communicator does not wait for a receive on one that is freed. */
static void disconnected(void) {
    MPI_Comm comm, next, last;
    MPI_Request receive;
    int value = -1;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Irecv(&value, 1, MPI_INT, from, 7, comm, &receive));
    MPI_Request send;
    OK(MPI_Send_init(&rank, 1, MPI_INT, to, 7, comm, &send));
    OK(MPI_Comm_free(&comm));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &next));
    OK(MPI_Comm_disconnect(&next));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &last));
    OK(MPI_Comm_free(&last));
    OK(MPI_Start(&send));
    OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    OK(MPI_Request_free(&send));
    CHECK_EQ(value, from);
}

/* A handle that was freed names nothing: its use is an error on no communicator. */
static void invalid(MPI_Errhandler mine) {
    MPI_Comm comm = copy_with(mine), known = comm;
    int value;
    OK(MPI_Comm_free(&comm));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    calls = 0;
    CHECK_EQ(class_of(MPI_Comm_rank(known, &value)), MPI_ERR_COMM);
    CHECK_EQ(calls, 0);
}

/* Handles come back once nothing names them. */
static void again(MPI_Errhandler mine) {
    MPI_Comm first, comm;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &first));
    MPI_Comm known = first;
    OK(MPI_Comm_free(&first));
    for (int round = 0; round < 10; round++) {
        MPI_Request requests[MANY];
        int values[MANY];
        for (int i = 0; i < MANY; i++) {
            comm = copy_with(mine);
            OK(MPI_Irecv(&values[i], 1, MPI_INT, from, i, comm, &requests[i]));
            OK(MPI_Send(&i, 1, MPI_INT, to, i, comm));
            OK(MPI_Comm_free(&comm));
        }
        OK(MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE));
        for (int i = 0; i < MANY; i++) CHECK_EQ(values[i], i);
    }
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    /* In MPICH's ABI handles are numbers, which grow where they don't come back. */
    CHECK((int)comm - (int)known < 6 * MANY);
    OK(MPI_Comm_free(&comm));
}

int main(int argc, char **argv) {
    MPI_Errhandler mine, theirs;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    check_rank = rank;
    from = (rank + size - 1) % size;
    to = (rank + 1) % size;
    OK(MPI_Comm_create_errhandler(handler, &mine));
    OK(MPI_Comm_create_errhandler(other, &theirs));
    for (int persistent = 0; persistent < 2; persistent++) {
        truncated(mine, theirs, persistent, 0);
        truncated(mine, MPI_ERRORS_ARE_FATAL, persistent, 0);
    }
    truncated(mine, theirs, 0, 1);
    disconnected();
    invalid(mine);
    again(mine);
    OK(MPI_Errhandler_free(&mine));
    OK(MPI_Errhandler_free(&theirs));
    OK(MPI_Finalize());
    return 0;
}
