/* MPI_Waitany and MPI_Testany among many requests, of which most are null, pending or of kinds of their own: each
 * message is found once, and requests that don't exist are refused.
 *
 * ranks: 2
 * variants: shm tcp
 */
#include "fails.h"

enum { MANY = 2000 };

static MPI_Request requests[MANY];
static int data[MANY];
static char seen[MANY];

/* Receives MANY messages, which come in another order than their receives stand in. */
static void all(int testing)
{
    int found, flag;
    MPI_Status status;
    memset(seen, 0, sizeof seen);
    if (world_rank() == 0) {
        for (int i = 0; i < MANY; i++) {
            int at = i * 7 % MANY;
            OK(MPI_Send(&at, 1, MPI_INT, 1, at, MPI_COMM_WORLD));
        }
        return;
    }
    for (int i = 0; i < MANY; i++) {
        OK(MPI_Irecv(data + i, 1, MPI_INT, 0, i, MPI_COMM_WORLD, requests + i));
    }
    for (int left = MANY; left > 0;) {
        flag = 1;
        if (testing) {
            OK(MPI_Testany(MANY, requests, &found, &flag, &status));
        } else {
            OK(MPI_Waitany(MANY, requests, &found, &status));
        }
        if (flag) {
            CHECK(found >= 0 && found < MANY && !seen[found]);
            seen[found] = 1;
            CHECK(requests[found] == MPI_REQUEST_NULL);
            CHECK_EQ(status.MPI_TAG, found);
            CHECK_EQ(data[found], found);
            left--;
        } else {
            CHECK_EQ(found, MPI_UNDEFINED);
        }
    }
    OK(MPI_Waitany(MANY, requests, &found, &status));
    CHECK_EQ(found, MPI_UNDEFINED);
    OK(MPI_Testany(MANY, requests, &found, &flag, &status));
    CHECK_EQ(flag, 1);
    CHECK_EQ(found, MPI_UNDEFINED);
}

static int ignored(void *state, MPI_Status *status)
{
    (void)state;
    return MPI_Status_set_elements(status, MPI_BYTE, 0);
}

static int freed(void *state)
{
    (void)state;
    return MPI_SUCCESS;
}

static int cancelled(void *state, int complete)
{
    (void)state, (void)complete;
    return MPI_SUCCESS;
}

/* Others than receives among them. */
static void mixed(int rank)
{
    MPI_Request some[4] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status status;
    int found, flag, value = 5, got = 0, other = 1 - rank;
    OK(MPI_Irecv(&got, 1, MPI_INT, other, 1, MPI_COMM_WORLD, some + 1));
    OK(MPI_Recv_init(&got, 1, MPI_INT, other, 2, MPI_COMM_WORLD, some + 2));
    OK(MPI_Grequest_start(ignored, freed, cancelled, NULL, some + 3));
    OK(MPI_Testany(4, some, &found, &flag, &status));
    CHECK_EQ(flag, 0);
    OK(MPI_Grequest_complete(some[3]));
    OK(MPI_Waitany(4, some, &found, &status));
    CHECK_EQ(found, 3);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Isend(&value, 1, MPI_INT, other, 1, MPI_COMM_WORLD, some));
    for (int left = 2; left > 0; left--) {
        OK(MPI_Waitany(4, some, &found, &status));
        CHECK(found == 0 || found == 1);
        CHECK(some[found] == MPI_REQUEST_NULL);
    }
    CHECK_EQ(got, 5);
    /* A persistent one that isn't active is as good as none. */
    OK(MPI_Waitany(4, some, &found, &status));
    CHECK_EQ(found, MPI_UNDEFINED);
    some[3] = (MPI_Request)0x12345;
    FAILS(MPI_Waitany(4, some, &found, &status), MPI_ERR_REQUEST);
    FAILS(MPI_Testany(4, some, &found, &flag, &status), MPI_ERR_REQUEST);
    FAILS(MPI_Waitany(-1, some, &found, &status), MPI_ERR_COUNT);
    FAILS(MPI_Waitany(4, NULL, &found, &status), MPI_ERR_ARG);
    OK(MPI_Request_free(some + 2));
}

/* A send that is cut short is told by its own request. */
static void failing(int rank)
{
    int long_one[2] = {1, 2}, found = -1;
    MPI_Status status;
    MPI_Request some[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    if (rank == 0) {
        OK(MPI_Send(long_one, 2, MPI_INT, 1, 3, MPI_COMM_WORLD));
    } else {
        OK(MPI_Irecv(long_one, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, some + 1));
        FAILS(MPI_Waitany(2, some, &found, &status), MPI_ERR_TRUNCATE);
        CHECK_EQ(found, 1);
        CHECK(some[1] == MPI_REQUEST_NULL);
    }
}

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    all(0);
    all(1);
    mixed(world_rank());
    failing(world_rank());
    OK(MPI_Finalize());
    return 0;
}
