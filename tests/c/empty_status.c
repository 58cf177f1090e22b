/* The empty status of a call that has nothing to complete: any source, any tag, no data, not
 * cancelled, MPI_ERROR = MPI_SUCCESS (MPI-5.0 3.7.3). The error field of other statuses of calls
 * that return one is left alone (3.2.5).
 * ranks: 1
 * variants: shm
 */
#include "check.h"

enum { N = 3 };

static MPI_Status status, statuses[N];
static int f, at, n, indices[N];

static void mark(MPI_Status *one) {
    MPI_Status received;
    int value = 7;
    OK(MPI_Sendrecv(&value, 1, MPI_INT, 0, 9, &value, 1, MPI_INT, 0, 9, MPI_COMM_SELF, &received));
    *one = received;
    OK(MPI_Status_set_cancelled(one, 1));
    one->MPI_ERROR = MPI_ERR_OTHER;
}

static void is_empty(const MPI_Status *one) {
    int count = -1, flag = -1;
    CHECK_EQ(one->MPI_SOURCE, MPI_ANY_SOURCE);
    CHECK_EQ(one->MPI_TAG, MPI_ANY_TAG);
    CHECK_EQ(one->MPI_ERROR, MPI_SUCCESS);
    OK(MPI_Get_count(one, MPI_INT, &count));
    CHECK_EQ(count, 0);
    OK(MPI_Test_cancelled(one, &flag));
    CHECK_EQ(flag, 0);
}

/* `call` fills in `status`, with the empty one. */
#define EMPTY(call)                                                                                \
    do {                                                                                           \
        mark(&status);                                                                             \
        OK(call);                                                                                  \
        is_empty(&status);                                                                         \
    } while (0)

/* Likewise for the first `count` of `statuses`. */
#define EMPTIES(count, call)                                                                       \
    do {                                                                                           \
        for (int i = 0; i < N; i++) {                                                              \
            mark(&statuses[i]);                                                                    \
        }                                                                                          \
        OK(call);                                                                                  \
        for (int i = 0; i < count; i++) {                                                          \
            is_empty(&statuses[i]);                                                                \
        }                                                                                          \
    } while (0)

/* All calls with one request that is null or inactive, and as often in an array. */
static void all_calls(MPI_Request request) {
    MPI_Request all[N] = {request, MPI_REQUEST_NULL, request};
    EMPTY(MPI_Wait(&request, &status));
    EMPTY(MPI_Test(&request, &f, &status));
    CHECK_EQ(f, 1);
    EMPTY(MPI_Request_get_status(request, &f, &status));
    CHECK_EQ(f, 1);
    for (int count = 0; count <= N; count += N) {
        EMPTY(MPI_Waitany(count, all, &at, &status));
        CHECK_EQ(at, MPI_UNDEFINED);
        EMPTY(MPI_Testany(count, all, &at, &f, &status));
        CHECK_EQ(at, MPI_UNDEFINED);
        EMPTY(MPI_Request_get_status_any(count, all, &at, &f, &status));
        CHECK_EQ(at, MPI_UNDEFINED);
        CHECK_EQ(f, 1);
        EMPTIES(count, MPI_Waitall(count, all, statuses));
        EMPTIES(count, MPI_Testall(count, all, &f, statuses));
        EMPTIES(count, MPI_Request_get_status_all(count, all, &f, statuses));
        CHECK_EQ(f, 1);
        OK(MPI_Request_get_status_some(count, all, &n, indices, statuses));
        CHECK_EQ(n, MPI_UNDEFINED);
    }
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    world_rank();
    int value = 1, other = 2;
    MPI_Request inactive[6];
    all_calls(MPI_REQUEST_NULL);
    OK(MPI_Send_init(&value, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &inactive[0]));
    OK(MPI_Recv_init(&value, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_SELF, &inactive[1]));
    OK(MPI_Psend_init(&value, 1, 1, MPI_INT, 0, 2, MPI_COMM_SELF, MPI_INFO_NULL, &inactive[2]));
    OK(MPI_Precv_init(&other, 1, 1, MPI_INT, 0, 2, MPI_COMM_SELF, MPI_INFO_NULL, &inactive[3]));
    OK(MPI_Precv_init(&other, 1, 1, MPI_INT, MPI_PROC_NULL, 2, MPI_COMM_SELF, MPI_INFO_NULL,
                      &inactive[4]));
    OK(MPI_Allreduce_init(&value, &other, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF, MPI_INFO_NULL,
                          &inactive[5]));
    for (int i = 0; i < 6; i++) {
        all_calls(inactive[i]);
    }
    /* Again after they were used. */
    OK(MPI_Startall(6, inactive));
    OK(MPI_Pready(0, inactive[2]));
    MPI_Request receive;
    OK(MPI_Irecv(&other, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &receive));
    OK(MPI_Waitall(6, inactive, MPI_STATUSES_IGNORE));
    mark(&status);
    OK(MPI_Wait(&receive, &status));
    CHECK_EQ(status.MPI_TAG, 1);
    CHECK_EQ(status.MPI_ERROR, MPI_ERR_OTHER);
    for (int i = 0; i < 6; i++) {
        all_calls(inactive[i]);
        OK(MPI_Request_free(&inactive[i]));
    }
    mark(&status);
    OK(MPI_Recv(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_SELF, &status));
    CHECK_EQ(status.MPI_SOURCE, MPI_PROC_NULL);
    CHECK_EQ(status.MPI_ERROR, MPI_ERR_OTHER);
    OK(MPI_Finalize());
    return 0;
}
