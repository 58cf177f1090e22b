/* MPI_Testall, MPI_Testany and MPI_Testsome over receives and a generalized request whose function has to be called for the
 * receives before it to complete (MPIX_Grequest_start): each of them calls it.
 * ranks: 1
 * variants: shm tcp
 */
#include "check.h"

enum { RECEIVES = 3 };

static MPI_Request all[RECEIVES + 1];
static int polls, got[RECEIVES];

static int query(void *extra, MPI_Status *status) {
    (void)extra;
    OK(MPI_Status_set_elements(status, MPI_INT, 0));
    return MPI_Status_set_cancelled(status, 0);
}

static int release(void *extra) {
    (void)extra;
    return MPI_SUCCESS;
}

static int cancel(void *extra, int complete) {
    (void)extra;
    (void)complete;
    return MPI_SUCCESS;
}

/* With the fifth call the receives get what they wait for, and it is complete itself. */
static int poll_(void *extra, MPI_Status *status) {
    (void)status;
    if (++polls == 5) {
        for (int i = 0; i < RECEIVES; i++) {
            int value = 40 + i;
            OK(MPI_Send(&value, 1, MPI_INT, 0, i, MPI_COMM_SELF));
        }
        OK(MPI_Grequest_complete(*(MPI_Request *)extra));
    }
    return MPI_SUCCESS;
}

static void begin(void) {
    static MPI_Request own;
    polls = 0;
    for (int i = 0; i < RECEIVES; i++)
        OK(MPI_Irecv(got + i, 1, MPI_INT, 0, i, MPI_COMM_SELF, all + i));
    OK(MPIX_Grequest_start(query, release, cancel, poll_, NULL, &own, &own));
    all[RECEIVES] = own;
}

static void ended(void) {
    for (int i = 0; i < RECEIVES; i++) {
        CHECK_EQ(got[i], 40 + i);
        CHECK(all[i] == MPI_REQUEST_NULL);
        got[i] = 0;
    }
    CHECK(all[RECEIVES] == MPI_REQUEST_NULL);
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    int flag = 0, calls = 0, index, some, indices[RECEIVES + 1];
    begin();
    while (!flag) {
        CHECK(++calls < 100000);
        OK(MPI_Testall(RECEIVES + 1, all, &flag, MPI_STATUSES_IGNORE));
    }
    ended();
    begin();
    for (int left = RECEIVES + 1; left > 0;) {
        CHECK(++calls < 200000);
        OK(MPI_Testany(RECEIVES + 1, all, &index, &flag, MPI_STATUS_IGNORE));
        left -= flag;
    }
    ended();
    begin();
    for (int left = RECEIVES + 1; left > 0;) {
        CHECK(++calls < 300000);
        OK(MPI_Testsome(RECEIVES + 1, all, &some, indices, MPI_STATUSES_IGNORE));
        left -= some;
    }
    ended();
    OK(MPI_Finalize());
    return 0;
}
