/* Generalized requests: callbacks in the right order, all ways of completion, errors of callbacks.
 * ranks: 1
 * variants: shm
 */
#include "fails.h"

typedef struct {
    int queries, frees, cancels, told_complete; /* calls so far */
    int query_code, free_code, cancel_code;     /* to be returned */
    int count, cancelled;                       /* to be told */
    int order, freed_at, queried_at;
} Op;

static int clock_ = 0;

static int query(void *extra, MPI_Status *status) {
    Op *op = extra;
    CHECK_EQ(op->frees, 0);
    op->queries++;
    op->queried_at = ++clock_;
    OK(MPI_Status_set_elements(status, MPI_INT, op->count));
    OK(MPI_Status_set_cancelled(status, op->cancelled));
    status->MPI_SOURCE = 17;
    status->MPI_TAG = 18;
    return op->query_code;
}

static int release(void *extra) {
    Op *op = extra;
    op->frees++;
    op->freed_at = ++clock_;
    return op->free_code;
}

static int cancel(void *extra, int complete) {
    Op *op = extra;
    op->cancels++;
    op->told_complete = complete;
    return op->cancel_code;
}

static void begin(Op *op, MPI_Request *request) {
    memset(op, 0, sizeof *op);
    op->count = 3;
    OK(MPI_Grequest_start(query, release, cancel, op, request));
    CHECK(*request != MPI_REQUEST_NULL);
}

static void told(const MPI_Status *status, int cancelled) {
    int count, flag;
    OK(MPI_Get_count(status, MPI_INT, &count));
    OK(MPI_Test_cancelled(status, &flag));
    CHECK_EQ(count, 3);
    CHECK_EQ(flag, cancelled);
    CHECK(status->MPI_SOURCE == 17 && status->MPI_TAG == 18);
}

/* Requests of all kinds in one array. */
static void mixed(void) {
    enum { GENERALIZED, PERSISTENT, RECEIVE, SEND, NOTHING, KINDS };
    Op op;
    for (int round = 0; round < 40; round++) {
        MPI_Request requests[KINDS], handle, persistent;
        int in[2] = {0, 0}, out = 4, seen = 0;
        begin(&op, &requests[GENERALIZED]);
        handle = requests[GENERALIZED];
        OK(MPI_Recv_init(&in[0], 1, MPI_INT, 0, 1, MPI_COMM_SELF, &requests[PERSISTENT]));
        persistent = requests[PERSISTENT];
        OK(MPI_Start(&requests[PERSISTENT]));
        OK(MPI_Irecv(&in[1], 1, MPI_INT, 0, 2, MPI_COMM_SELF, &requests[RECEIVE]));
        requests[NOTHING] = MPI_REQUEST_NULL;
        OK(MPI_Isend(&out, 1, MPI_INT, 0, 3, MPI_COMM_SELF, &requests[SEND]));
        OK(MPI_Recv(&out, 1, MPI_INT, 0, 3, MPI_COMM_SELF, MPI_STATUS_IGNORE));
        int index, flag, indices[KINDS], count;
        MPI_Status statuses[KINDS];
        OK(MPI_Testall(KINDS, requests, &flag, statuses));
        CHECK_EQ(flag, 0);
        OK(MPI_Waitany(KINDS, requests, &index, statuses));
        CHECK_EQ(index, SEND);
        OK(MPI_Testany(KINDS, requests, &index, &flag, statuses));
        CHECK(index == MPI_UNDEFINED && flag == 0);
        OK(MPI_Testsome(KINDS, requests, &count, indices, statuses));
        CHECK_EQ(count, 0);
        for (int step = 0; step < 3; step++) {
            int kind = (round + step) % 3;
            if (kind == GENERALIZED) {
                OK(MPI_Grequest_complete(handle));
            } else {
                out = 10 * kind;
                OK(MPI_Send(&out, 1, MPI_INT, 0, kind, MPI_COMM_SELF));
            }
            if (round % 4 == 0) {
                OK(MPI_Waitany(KINDS, requests, &index, statuses));
                CHECK_EQ(index, kind);
                if (kind == GENERALIZED) {
                    told(statuses, 0);
                }
            } else if (round % 4 == 1) {
                OK(MPI_Waitsome(KINDS, requests, &count, indices, statuses));
                CHECK(count == 1 && indices[0] == kind);
                if (kind == GENERALIZED) {
                    told(statuses, 0);
                }
            } else if (round % 4 == 2) {
                OK(MPI_Testany(KINDS, requests, &index, &flag, MPI_STATUS_IGNORE));
                CHECK(flag == 1 && index == kind);
            } else {
                seen++;
                continue;
            }
            CHECK_EQ(requests[kind], kind == PERSISTENT ? persistent : MPI_REQUEST_NULL);
        }
        if (seen) {
            if (round % 8 == 3) {
                OK(MPI_Waitall(KINDS, requests, statuses));
            } else {
                OK(MPI_Testall(KINDS, requests, &flag, statuses));
                CHECK_EQ(flag, 1);
            }
            told(&statuses[GENERALIZED], 0);
        }
        CHECK(in[0] == 10 && in[1] == 20);
        CHECK(op.queries == 1 && op.frees == 1 && op.queried_at < op.freed_at);
        OK(MPI_Request_free(&requests[PERSISTENT]));
        FAILS(MPI_Wait(&handle, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
        FAILS(MPI_Grequest_complete(handle), MPI_ERR_REQUEST);
    }
}

int main(int argc, char **argv) {
    Op op, two[2];
    MPI_Request request, copy, requests[2];
    MPI_Status status, statuses[2];
    int flag;
    OK(MPI_Init(&argc, &argv));
    world_rank();
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));

    /* Plainly. */
    begin(&op, &request);
    OK(MPI_Test(&request, &flag, &status));
    CHECK(flag == 0 && op.queries == 0);
    OK(MPI_Request_get_status(request, &flag, &status));
    CHECK(flag == 0 && op.queries == 0);
    OK(MPI_Grequest_complete(request));
    CHECK(op.queries == 0 && op.frees == 0);
    for (int i = 1; i <= 3; i++) {
        OK(MPI_Request_get_status(request, &flag, &status));
        told(&status, 0);
        CHECK(flag == 1 && op.queries == i && op.frees == 0);
    }
    OK(MPI_Wait(&request, &status));
    told(&status, 0);
    CHECK(request == MPI_REQUEST_NULL && op.queries == 4 && op.frees == 1);

    /* The status is queried even when it is ignored. */
    begin(&op, &request);
    OK(MPI_Grequest_complete(request));
    OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
    CHECK(flag == 1 && op.queries == 1 && op.frees == 1 && op.queried_at < op.freed_at);

    /* Cancelling is up to the callback, which hears whether it comes too late. */
    begin(&op, &request);
    OK(MPI_Cancel(&request));
    CHECK(op.cancels == 1 && op.told_complete == 0);
    op.cancelled = 1;
    OK(MPI_Grequest_complete(request));
    OK(MPI_Cancel(&request));
    CHECK(op.cancels == 2 && op.told_complete != 0);
    op.cancel_code = MPI_ERR_OTHER;
    FAILS(MPI_Cancel(&request), MPI_ERR_OTHER);
    OK(MPI_Wait(&request, &status));
    told(&status, 1);

    /* Freed after completion, and before. */
    begin(&op, &request);
    OK(MPI_Grequest_complete(request));
    OK(MPI_Request_free(&request));
    CHECK(request == MPI_REQUEST_NULL && op.queries == 0 && op.frees == 1);
    begin(&op, &request);
    copy = request;
    OK(MPI_Request_free(&request));
    CHECK(request == MPI_REQUEST_NULL && op.frees == 0);
    FAILS(MPI_Test(&copy, &flag, &status), MPI_ERR_REQUEST);
    OK(MPI_Grequest_complete(copy));
    CHECK(op.queries == 0 && op.frees == 1);
    FAILS(MPI_Grequest_complete(copy), MPI_ERR_REQUEST);

    /* Callbacks that fail. */
    int class_, code;
    OK(MPI_Add_error_class(&class_));
    OK(MPI_Add_error_code(class_, &code));
    OK(MPI_Add_error_string(code, "the operation went wrong"));
    begin(&op, &request);
    op.query_code = MPI_ERR_ARG;
    op.free_code = code;
    OK(MPI_Grequest_complete(request));
    CHECK_EQ(MPI_Wait(&request, &status), code);
    CHECK(request == MPI_REQUEST_NULL && op.frees == 1);
    begin(&op, &request);
    op.query_code = code;
    OK(MPI_Grequest_complete(request));
    CHECK_EQ(MPI_Request_get_status(request, &flag, &status), code);
    CHECK_EQ(MPI_Waitany(1, &request, &flag, &status), code);
    CHECK(request == MPI_REQUEST_NULL && op.frees == 1);
    begin(&two[0], &requests[0]);
    begin(&two[1], &requests[1]);
    two[1].free_code = code;
    OK(MPI_Grequest_complete(requests[0]));
    OK(MPI_Grequest_complete(requests[1]));
    FAILS(MPI_Waitall(2, requests, statuses), MPI_ERR_IN_STATUS);
    CHECK(statuses[0].MPI_ERROR == MPI_SUCCESS && statuses[1].MPI_ERROR == code);
    CHECK(requests[0] == MPI_REQUEST_NULL && requests[1] == MPI_REQUEST_NULL);
    begin(&op, &request);
    op.free_code = code;
    OK(MPI_Grequest_complete(request));
    CHECK_EQ(MPI_Request_free(&request), code);

    mixed();

    /* Wrong uses. */
    FAILS(MPI_Grequest_start(NULL, release, cancel, &op, &request), MPI_ERR_ARG);
    FAILS(MPI_Grequest_start(query, NULL, cancel, &op, &request), MPI_ERR_ARG);
    FAILS(MPI_Grequest_start(query, release, NULL, &op, &request), MPI_ERR_ARG);
    FAILS(MPI_Grequest_start(query, release, cancel, &op, NULL), MPI_ERR_ARG);
    FAILS(MPI_Grequest_complete(MPI_REQUEST_NULL), MPI_ERR_REQUEST);
    int value;
    OK(MPI_Irecv(&value, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &request));
    FAILS(MPI_Grequest_complete(request), MPI_ERR_REQUEST);
    OK(MPI_Cancel(&request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    begin(&op, &request);
    FAILS(MPI_Start(&request), MPI_ERR_REQUEST);
    OK(MPI_Grequest_complete(request));
    FAILS(MPI_Grequest_complete(request), MPI_ERR_REQUEST);
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Finalize());
    return 0;
}
