/* Generalized requests with functions that complete them: poll_fn and wait_fn in all ways of completion, classes, errors,
 * functions that call MPI.
 * ranks: 1 2
 * local: generalized requests
 */
#include "fails.h"

typedef struct {
    MPI_Request request;
    int polls, waits, queries, frees, cancels; /* calls so far */
    int needed;                                /* that poll_fn completes it with */
    int poll_code;
    int inside; /* calls of poll_fn under way */
} Op;

static int rank, size, most_inside, frees_in_poll;

static int query(void *extra, MPI_Status *status) {
    Op *op = extra;
    CHECK_EQ(op->frees, 0);
    op->queries++;
    OK(MPI_Status_set_elements(status, MPI_INT, op->needed));
    OK(MPI_Status_set_cancelled(status, 0));
    status->MPI_SOURCE = 17;
    status->MPI_TAG = 18;
    return MPI_SUCCESS;
}

static int release(void *extra) {
    Op *op = extra;
    frees_in_poll += op->inside;
    op->frees++;
    return MPI_SUCCESS;
}

static int cancel(void *extra, int complete) {
    Op *op = extra;
    op->cancels++;
    if (!complete) OK(MPI_Grequest_complete(op->request));
    return MPI_SUCCESS;
}

/* Completes the operation with the call that it needs. */
static int poll_(void *extra, MPI_Status *status) {
    Op *op = extra;
    CHECK(status != NULL);
    CHECK_EQ(op->frees, 0);
    op->inside++;
    if (op->inside > most_inside) most_inside = op->inside;
    if (++op->polls == op->needed) OK(MPI_Grequest_complete(op->request));
    op->inside--;
    return op->poll_code;
}

static void begin(Op *op, int needed) {
    memset(op, 0, sizeof *op);
    op->needed = needed;
    OK(MPIX_Grequest_start(query, release, cancel, poll_, NULL, op, &op->request));
    CHECK(op->request != MPI_REQUEST_NULL);
}

static void ended(const Op *op, const MPI_Status *status) {
    int count;
    CHECK(op->queries == 1 && op->frees == 1);
    CHECK_EQ(op->polls, op->needed);
    if (status) {
        OK(MPI_Get_count(status, MPI_INT, &count));
        CHECK_EQ(count, op->needed);
        CHECK(status->MPI_SOURCE == 17 && status->MPI_TAG == 18);
    }
}

static void completions(void) {
    Op op, ops[4];
    MPI_Request requests[4];
    MPI_Status status, statuses[4];
    int flag = 0, index, outcount, indices[4], tests = 0;

    begin(&op, 1);
    OK(MPI_Wait(&op.request, &status));
    CHECK_EQ(op.request, MPI_REQUEST_NULL);
    ended(&op, &status);

    /* A loop of tests gets there, and each test calls it. */
    begin(&op, 25);
    while (!flag) {
        OK(MPI_Test(&op.request, &flag, &status));
        tests++;
        CHECK(op.polls >= tests || flag);
    }
    ended(&op, &status);

    begin(&op, 25);
    for (flag = 0; !flag;) OK(MPI_Request_get_status(op.request, &flag, &status));
    CHECK(op.frees == 0 && op.polls == 25);
    op.queries = 0;
    OK(MPI_Wait(&op.request, &status));
    ended(&op, &status);

    /* What is complete is not polled for. */
    begin(&op, 3);
    OK(MPI_Grequest_complete(op.request));
    OK(MPI_Test(&op.request, &flag, &status));
    CHECK(flag && op.polls == 0 && op.queries == 1 && op.frees == 1);

    begin(&op, 1000000);
    OK(MPI_Cancel(&op.request));
    OK(MPI_Wait(&op.request, &status));
    CHECK(op.cancels == 1 && op.queries == 1 && op.frees == 1);

    for (int way = 0; way < 5; way++) {
        int left = 4;
        for (int i = 0; i < 4; i++) {
            begin(&ops[i], 5 + 10 * (3 - i));
            requests[i] = ops[i].request;
        }
        switch (way) {
        case 0:
            OK(MPI_Waitall(4, requests, statuses));
            break;
        case 1:
            for (flag = 0; !flag;) OK(MPI_Testall(4, requests, &flag, statuses));
            break;
        case 2:
            while (left--) {
                OK(MPI_Waitany(4, requests, &index, &status));
                statuses[index] = status;
                CHECK_EQ(index, left);
            }
            break;
        case 3:
            while (left) {
                OK(MPI_Testany(4, requests, &index, &flag, &status));
                if (flag) statuses[index] = status, left--;
            }
            break;
        default:
            while (left) {
                OK(MPI_Waitsome(4, requests, &outcount, indices, statuses));
                left -= outcount;
            }
        }
        for (int i = 0; i < 4; i++) {
            ended(&ops[i], way < 4 ? &statuses[i] : NULL);
            CHECK_EQ(requests[i], MPI_REQUEST_NULL);
        }
    }
}

/* One that the program has let go of is carried on by whatever waits, and freed once, out of its function. */
static void let_go(void) {
    Op op, other;
    begin(&op, 7);
    MPI_Request copy = op.request;
    OK(MPI_Request_free(&copy));
    CHECK_EQ(copy, MPI_REQUEST_NULL);
    begin(&other, 20);
    OK(MPI_Wait(&other.request, MPI_STATUS_IGNORE));
    CHECK(op.polls == 7 && op.frees == 1 && op.queries == 0);
    CHECK_EQ(frees_in_poll, 0);
}

static MPI_Request answer;
static int sent;

/* Sends what the other rank waits for. */
static int poll_send(void *extra, MPI_Status *status) {
    Op *op = extra;
    (void)status;
    op->polls++;
    if (!sent) {
        sent = 1;
        OK(MPI_Isend(&rank, 1, MPI_INT, 1 - rank, 5, MPI_COMM_WORLD, &answer));
        OK(MPI_Grequest_complete(op->request));
    }
    return MPI_SUCCESS;
}

/* Each rank's blocking receive, barrier or test goes on only by what the other's function does. */
static void while_others_are_waited_for(void) {
    for (int way = 0; way < 3; way++) {
        Op op;
        int in = -1, flag = 0;
        MPI_Request request;
        memset(&op, 0, sizeof op);
        sent = 0;
        OK(MPIX_Grequest_start(query, release, cancel, poll_send, NULL, &op, &op.request));
        if (way == 0) {
            OK(MPI_Recv(&in, 1, MPI_INT, 1 - rank, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        } else if (way == 1) {
            OK(MPI_Irecv(&in, 1, MPI_INT, 1 - rank, 5, MPI_COMM_WORLD, &request));
            while (!flag) OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
        } else {
            while (!flag) OK(MPI_Iprobe(1 - rank, 5, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
            OK(MPI_Recv(&in, 1, MPI_INT, 1 - rank, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        }
        CHECK_EQ(in, 1 - rank);
        OK(MPI_Wait(&op.request, MPI_STATUS_IGNORE));
        OK(MPI_Wait(&answer, MPI_STATUS_IGNORE));
        CHECK(op.queries == 1 && op.frees == 1);
        barrier(MPI_COMM_WORLD);
    }
}

static int waits[16], wait_calls;

/* Completes the last of those that it is called for. */
static int wait_(int count, void **states, double timeout, MPI_Status *status) {
    CHECK(count > 0 && timeout >= 0 && status != NULL);
    CHECK(wait_calls < 16);
    waits[wait_calls++] = count;
    for (int i = 0; i < count; i++) {
        Op *op = states[i];
        CHECK_EQ(op->frees, 0);
        op->waits++;
    }
    Op *op = states[count - 1];
    OK(MPI_Grequest_complete(op->request));
    return MPI_SUCCESS;
}

static int wait_fails(int count, void **states, double timeout, MPI_Status *status) {
    (void)count, (void)states, (void)timeout, (void)status;
    wait_calls++;
    return MPI_ERR_IO;
}

static void of_class(Op *op, MPIX_Grequest_class class, int needed) {
    memset(op, 0, sizeof *op);
    op->needed = needed;
    OK(MPIX_Grequest_class_allocate(class, op, &op->request));
}

static void classes(void) {
    MPIX_Grequest_class class, other, failing;
    MPI_Request requests[5];
    MPI_Status statuses[5];
    Op ops[5];
    OK(MPIX_Grequest_class_create(query, release, cancel, poll_, wait_, &class));
    OK(MPIX_Grequest_class_create(query, release, cancel, poll_, wait_, &other));
    OK(MPIX_Grequest_class_create(query, release, cancel, NULL, wait_fails, &failing));
    CHECK(class != other);

    of_class(&ops[0], class, 1000000);
    wait_calls = 0;
    OK(MPI_Wait(&ops[0].request, &statuses[0]));
    CHECK(wait_calls == 1 && waits[0] == 1 && ops[0].waits == 1 && ops[0].frees == 1);

    /* All of one class, some complete and some null. */
    for (int i = 0; i < 4; i++) {
        of_class(&ops[i], class, 1000000);
        requests[i] = ops[i].request;
    }
    requests[4] = MPI_REQUEST_NULL;
    OK(MPI_Grequest_complete(ops[1].request));
    wait_calls = 0;
    OK(MPI_Waitall(5, requests, statuses));
    CHECK(wait_calls == 3 && waits[0] == 3 && waits[1] == 2 && waits[2] == 1);
    CHECK(ops[0].waits == 3 && ops[1].waits == 0 && ops[2].waits == 2 && ops[3].waits == 1);
    for (int i = 0; i < 4; i++) CHECK(ops[i].queries == 1 && ops[i].frees == 1);

    /* Of two classes, or with others: polled for. */
    of_class(&ops[0], class, 10);
    of_class(&ops[1], other, 15);
    requests[0] = ops[0].request, requests[1] = ops[1].request;
    wait_calls = 0;
    OK(MPI_Waitany(2, requests, &(int){0}, statuses));
    CHECK_EQ(wait_calls, 0);
    OK(MPI_Waitall(2, requests, statuses));
    CHECK(ops[0].frees == 1 && ops[1].frees == 1);
    of_class(&ops[0], class, 10);
    of_class(&ops[1], other, 15);
    requests[0] = ops[0].request, requests[1] = ops[1].request;
    wait_calls = 0;
    for (int flag = 0; !flag;) OK(MPI_Testall(2, requests, &flag, statuses));
    CHECK(wait_calls == 0 && ops[0].polls == 10 && ops[1].polls == 15);

    of_class(&ops[0], failing, 1);
    wait_calls = 0;
    FAILS(MPI_Wait(&ops[0].request, statuses), MPI_ERR_IO);
    CHECK(wait_calls == 1 && ops[0].queries == 1 && ops[0].frees == 1);

    /* A function that completes its request without the others. */
    memset(&ops[0], 0, sizeof ops[0]);
    OK(MPIX_Grequest_start(query, release, cancel, NULL, wait_, &ops[0], &ops[0].request));
    wait_calls = 0;
    OK(MPI_Wait(&ops[0].request, statuses));
    CHECK(wait_calls == 1 && ops[0].frees == 1);

    FAILS(MPIX_Grequest_class_allocate(0, &ops[0], &requests[0]), MPI_ERR_ARG);
    FAILS(MPIX_Grequest_class_allocate(failing + 1, &ops[0], &requests[0]), MPI_ERR_ARG);
    FAILS(MPIX_Grequest_class_allocate(class, &ops[0], NULL), MPI_ERR_ARG);
    FAILS(MPIX_Grequest_class_create(query, release, NULL, poll_, NULL, &class), MPI_ERR_ARG);
}

static void errors(void) {
    Op op;
    MPI_Request request;
    begin(&op, 1000000);
    op.poll_code = MPI_ERR_IO;
    FAILS(MPI_Wait(&op.request, MPI_STATUS_IGNORE), MPI_ERR_IO);
    CHECK(op.polls == 1 && op.queries == 1 && op.frees == 1);
    FAILS(MPIX_Grequest_start(NULL, release, cancel, poll_, NULL, &op, &request), MPI_ERR_ARG);
    FAILS(MPIX_Grequest_start(query, NULL, cancel, poll_, NULL, &op, &request), MPI_ERR_ARG);
    FAILS(MPIX_Grequest_start(query, release, NULL, poll_, NULL, &op, &request), MPI_ERR_ARG);
    FAILS(MPIX_Grequest_start(query, release, cancel, poll_, NULL, &op, NULL), MPI_ERR_ARG);
    /* Without both it is as MPI_Grequest_start makes it. */
    memset(&op, 0, sizeof op);
    OK(MPIX_Grequest_start(query, release, cancel, NULL, NULL, &op, &op.request));
    request = op.request;
    OK(MPI_Grequest_complete(op.request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(op.queries == 1 && op.frees == 1);
}

static Op inner;

/* Waits for another such request, and exchanges messages; is not called from there. */
static int poll_waits(void *extra, MPI_Status *status) {
    Op *op = extra;
    int in = -1, peer = (rank + 1) % size, from = (rank + size - 1) % size;
    (void)status;
    CHECK_EQ(op->inside++, 0);
    op->polls++;
    OK(MPI_Wait(&inner.request, MPI_STATUS_IGNORE));
    OK(MPI_Sendrecv(&rank, 1, MPI_INT, peer, 9, &in, 1, MPI_INT, from, 9, MPI_COMM_WORLD,
                    MPI_STATUS_IGNORE));
    CHECK_EQ(in, from);
    OK(MPI_Grequest_complete(op->request));
    op->inside--;
    return MPI_SUCCESS;
}

/* Tests another until it is complete. */
static int poll_tests(void *extra, MPI_Status *status) {
    Op *op = extra;
    (void)status;
    CHECK_EQ(op->inside++, 0);
    op->polls++;
    for (int flag = 0; !flag;) OK(MPI_Test(&inner.request, &flag, MPI_STATUS_IGNORE));
    OK(MPI_Grequest_complete(op->request));
    op->inside--;
    return MPI_SUCCESS;
}

static void within(void) {
    Op op;
    MPIX_Grequest_poll_function *functions[] = {poll_waits, poll_tests};
    for (int i = 0; i < 2; i++) {
        memset(&op, 0, sizeof op);
        begin(&inner, 4);
        OK(MPIX_Grequest_start(query, release, cancel, functions[i], NULL, &op, &op.request));
        OK(MPI_Wait(&op.request, MPI_STATUS_IGNORE));
        CHECK(op.polls == 1 && op.frees == 1 && inner.frees == 1 && inner.polls == 4);
    }
}

enum { MANY = 300 };
static MPI_Request receives[MANY];

/* Done when its receive is. */
static int poll_receive(void *extra, MPI_Status *status) {
    Op *op = extra;
    int flag;
    (void)status;
    CHECK_EQ(op->inside++, 0);
    op->polls++;
    OK(MPI_Test(&receives[op->needed], &flag, MPI_STATUS_IGNORE));
    if (flag) OK(MPI_Grequest_complete(op->request));
    op->inside--;
    return MPI_SUCCESS;
}

/* Many whose functions test something: that must not have them call each other. */
static void many(void) {
    static Op ops[MANY];
    static int in[MANY];
    MPI_Request requests[MANY];
    int from = (rank + size - 1) % size, to = (rank + 1) % size;
    memset(ops, 0, sizeof ops);
    for (int i = 0; i < MANY; i++) {
        OK(MPI_Irecv(&in[i], 1, MPI_INT, from, i, MPI_COMM_WORLD, &receives[i]));
        ops[i].needed = i;
        OK(MPIX_Grequest_start(query, release, cancel, poll_receive, NULL, &ops[i],
                               &ops[i].request));
        requests[i] = ops[i].request;
    }
    for (int i = MANY - 1; i >= 0; i--) OK(MPI_Send(&i, 1, MPI_INT, to, i, MPI_COMM_WORLD));
    OK(MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < MANY; i++) CHECK(in[i] == i && ops[i].frees == 1 && ops[i].queries == 1);
}

int main(int argc, char **argv) {
    static Op last;
    OK(MPI_Init(&argc, &argv));
    rank = world_rank();
    size = world_size();
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    completions();
    let_go();
    if (size == 2) while_others_are_waited_for();
    classes();
    errors();
    within();
    many();
    CHECK_EQ(most_inside, 1);
    /* One that nobody waits for is brought to its end by MPI_Finalize. */
    begin(&last, 3000);
    MPI_Request copy = last.request;
    OK(MPI_Request_free(&copy));
    OK(MPI_Finalize());
    CHECK(last.polls == 3000 && last.frees == 1);
    return 0;
}
