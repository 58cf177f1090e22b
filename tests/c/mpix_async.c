/* Functions that progress calls until they are done: by waits, tests and progress calls, for streams, from within each
 * other, asleep, and at the end.
 * ranks: 1 2
 * variants: shm tcp
 */
#include "fails.h"

typedef struct {
    int calls, needed, inside, done;
    double first, longest, last; /* seconds: when first called, between two calls */
} Task;

static int rank, size;

static int count_down(MPIX_Async_thing thing) {
    Task *task = MPIX_Async_get_state(thing);
    double now = MPI_Wtime();
    CHECK_EQ(task->done, 0);
    CHECK_EQ(task->inside++, 0);
    if (!task->calls) task->first = task->last = now;
    if (now - task->last > task->longest) task->longest = now - task->last;
    task->last = now;
    task->done = ++task->calls == task->needed;
    task->inside--;
    return task->done ? MPIX_ASYNC_DONE : MPIX_ASYNC_NOPROGRESS;
}

static Task task_of(int needed) {
    Task task;
    memset(&task, 0, sizeof task);
    task.needed = needed;
    return task;
}

/* By calls that are in vain at first. */
static void progress(void) {
    Task task = task_of(10);
    int flag, peer = (rank + 1) % size, in = -1;
    MPI_Request request;
    OK(MPIX_Async_start(count_down, &task, MPIX_STREAM_NULL));
    CHECK_EQ(task.calls, 0);
    while (!task.done) {
        int before = task.calls;
        OK(MPIX_Stream_progress(MPIX_STREAM_NULL));
        CHECK(task.calls > before);
    }
    /* It is called no more. */
    for (int i = 0; i < 10; i++) OK(MPIX_Stream_progress(MPIX_STREAM_NULL));
    CHECK_EQ(task.calls, 10);

    task = task_of(30);
    OK(MPIX_Async_start(count_down, &task, MPIX_STREAM_NULL));
    OK(MPI_Irecv(&in, 1, MPI_INT, peer, 1, MPI_COMM_WORLD, &request));
    while (!task.done) {
        OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
        CHECK(!flag);
    }
    task = task_of(30);
    OK(MPIX_Async_start(count_down, &task, MPIX_STREAM_NULL));
    while (!task.done) {
        OK(MPI_Iprobe(peer, 2, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
        CHECK(!flag);
    }
    barrier(MPI_COMM_WORLD);
    OK(MPI_Send(&rank, 1, MPI_INT, (rank + size - 1) % size, 1, MPI_COMM_WORLD));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_EQ(in, peer);
}

/* Each sends what its peer waits for, in a barrier, a receive, a collective, a window's lock. */
static int send_late(MPIX_Async_thing thing) {
    Task *task = MPIX_Async_get_state(thing);
    if (++task->calls < 3) return MPIX_ASYNC_NOPROGRESS;
    OK(MPI_Send(&rank, 1, MPI_INT, 1 - rank, 4, MPI_COMM_WORLD));
    task->done = 1;
    return MPIX_ASYNC_DONE;
}

static int out_, sum_;
static MPI_Request collective;
static MPI_Comm own;

/* A step of a collective that the other waits for. */
static int start_late(MPIX_Async_thing thing) {
    Task *task = MPIX_Async_get_state(thing);
    int flag = 0;
    if (task->calls++ == 0) {
        OK(MPI_Iallreduce(&out_, &sum_, 1, MPI_INT, MPI_SUM, own, &collective));
        return MPIX_ASYNC_NOPROGRESS;
    }
    OK(MPI_Test(&collective, &flag, MPI_STATUS_IGNORE));
    task->done = flag;
    return flag ? MPIX_ASYNC_DONE : MPIX_ASYNC_NOPROGRESS;
}

static void waits(void) {
    Task task = task_of(0);
    int in = -1;
    if (size == 2) {
        OK(MPIX_Async_start(send_late, &task, MPIX_STREAM_NULL));
        OK(MPI_Recv(&in, 1, MPI_INT, 1 - rank, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_EQ(in, 1 - rank);
        while (!task.done) OK(MPIX_Stream_progress(MPIX_STREAM_NULL));
    }
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &own));
    out_ = rank + 1;
    for (int round = 0; round < 8; round++) {
        /* Rank 1 waits for rank 0's answer, which needs the collective that both functions carry out. */
        task = task_of(0);
        sum_ = 0;
        OK(MPIX_Async_start(start_late, &task, MPIX_STREAM_NULL));
        if (size == 2 && rank == 1) {
            OK(MPI_Recv(&in, 1, MPI_INT, 0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        }
        while (!task.done) OK(MPIX_Stream_progress(MPIX_STREAM_NULL));
        CHECK_EQ(sum_, size * (size + 1) / 2);
        if (size == 2 && rank == 0) OK(MPI_Send(&rank, 1, MPI_INT, 1, 6, MPI_COMM_WORLD));
    }
    OK(MPI_Comm_free(&own));
}

/* Those of a stream are called by its progress alone. */
static void streams(void) {
    MPIX_Stream stream, other;
    MPI_Comm comm;
    Task task = task_of(20), any = task_of(1000000);
    int in = -1, to = (rank + 1) % size, from = (rank + size - 1) % size;
    OK(MPIX_Stream_create(MPI_INFO_NULL, &stream));
    OK(MPIX_Stream_create(MPI_INFO_NULL, &other));
    OK(MPIX_Async_start(count_down, &task, stream));
    OK(MPIX_Async_start(count_down, &any, MPIX_STREAM_NULL));
    for (int i = 0; i < 100; i++) {
        OK(MPIX_Stream_progress(MPIX_STREAM_NULL));
        OK(MPIX_Stream_progress(other));
        OK(MPI_Sendrecv(&rank, 1, MPI_INT, to, 3, &in, 1, MPI_INT, from, 3, MPI_COMM_WORLD,
                        MPI_STATUS_IGNORE));
    }
    CHECK_EQ(task.calls, 0);
    CHECK(any.calls >= 100);
    FAILS(MPIX_Stream_free(&stream), MPIX_ERR_STREAM);
    OK(MPIX_Stream_progress(stream));
    CHECK_EQ(task.calls, 1);
    /* So is a wait on a communicator of it. */
    OK(MPIX_Stream_comm_create(MPI_COMM_WORLD, stream, &comm));
    MPI_Request request;
    OK(MPI_Irecv(&in, 1, MPI_INT, from, 3, comm, &request));
    for (int flag = 0; !task.done;) {
        OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
        CHECK(!flag);
    }
    barrier(MPI_COMM_WORLD);
    OK(MPI_Send(&rank, 1, MPI_INT, to, 3, comm));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_EQ(task.calls, 20);
    OK(MPI_Comm_free(&comm));
    OK(MPIX_Stream_free(&stream));
    stream = other;
    OK(MPIX_Stream_free(&other));
    FAILS(MPIX_Async_start(count_down, &task, stream), MPIX_ERR_STREAM);
    any.needed = any.calls + 1;
    while (!any.done) OK(MPIX_Stream_progress(MPIX_STREAM_NULL));
}

static int live, spawned;

/* A tree of functions: each starts two, which are not called from within it. */
static int grow(MPIX_Async_thing thing) {
    intptr_t depth = (intptr_t)MPIX_Async_get_state(thing);
    CHECK_EQ(live++, 0);
    for (int i = 0; depth > 0 && i < 2; i++) {
        void *state = (void *)(depth - 1);
        spawned++;
        if (i) {
            OK(MPIX_Async_spawn(thing, grow, state, MPIX_STREAM_NULL));
        } else {
            OK(MPIX_Async_start(grow, state, MPIX_STREAM_NULL));
        }
    }
    FAILS(MPIX_Async_spawn(NULL, grow, NULL, MPIX_STREAM_NULL), MPI_ERR_ARG);
    OK(MPIX_Stream_progress(MPIX_STREAM_NULL));
    spawned--;
    live--;
    return MPIX_ASYNC_DONE;
}

/* Waits for a message that another function sends. */
static int wait_within(MPIX_Async_thing thing) {
    Task *task = MPIX_Async_get_state(thing);
    int in = -1;
    CHECK_EQ(task->inside++, 0);
    task->calls++;
    OK(MPI_Recv(&in, 1, MPI_INT, (rank + 1) % size, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_EQ(in, (rank + 1) % size);
    task->inside--;
    task->done = 1;
    return MPIX_ASYNC_DONE;
}

static int send_within(MPIX_Async_thing thing) {
    Task *task = MPIX_Async_get_state(thing);
    if (++task->calls < 3) return MPIX_ASYNC_NOPROGRESS;
    OK(MPI_Send(&rank, 1, MPI_INT, (rank + size - 1) % size, 8, MPI_COMM_WORLD));
    task->done = 1;
    return MPIX_ASYNC_DONE;
}

static void within(void) {
    Task waits = task_of(0), sends = task_of(0);
    spawned = 1;
    OK(MPIX_Async_start(grow, (void *)(intptr_t)6, MPIX_STREAM_NULL));
    while (spawned) OK(MPIX_Stream_progress(MPIX_STREAM_NULL));
    OK(MPIX_Async_start(wait_within, &waits, MPIX_STREAM_NULL));
    OK(MPIX_Async_start(send_within, &sends, MPIX_STREAM_NULL));
    while (!waits.done || !sends.done) OK(MPIX_Stream_progress(MPIX_STREAM_NULL));
    CHECK_EQ(waits.calls, 1);
}

/* A rank that waits for long goes on calling: at least every millisecond or so. */
static void asleep(void) {
    Task task = task_of(100000000);
    int in = -1;
    if (size < 2) return;
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0) {
        OK(MPIX_Async_start(count_down, &task, MPIX_STREAM_NULL));
        OK(MPI_Recv(&in, 1, MPI_INT, 1, 11, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK(task.last - task.first > 0.4);
        /* On a busy machine a few take longer. */
        CHECK(task.calls > 100);
        task.needed = task.calls + 1;
        while (!task.done) OK(MPIX_Stream_progress(MPIX_STREAM_NULL));
    } else {
        nap(0.5);
        OK(MPI_Send(&rank, 1, MPI_INT, 0, 11, MPI_COMM_WORLD));
    }
}

int main(int argc, char **argv) {
    static Task last, of_stream;
    MPIX_Stream stream;
    OK(MPI_Init(&argc, &argv));
    rank = world_rank();
    size = world_size();
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    FAILS(MPIX_Async_start(NULL, NULL, MPIX_STREAM_NULL), MPI_ERR_ARG);
    CHECK(MPIX_Async_get_state(NULL) == NULL);
    progress();
    waits();
    streams();
    within();
    asleep();
    /* MPI_Finalize ends when all are done, whatever they belong to. */
    last = of_stream = task_of(3000);
    OK(MPIX_Stream_create(MPI_INFO_NULL, &stream));
    OK(MPIX_Async_start(count_down, &last, MPIX_STREAM_NULL));
    OK(MPIX_Async_start(count_down, &of_stream, stream));
    OK(MPI_Finalize());
    CHECK(last.done && last.calls == 3000);
    CHECK(of_stream.done && of_stream.calls == 3000);
    return 0;
}
