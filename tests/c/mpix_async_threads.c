/* Several threads wait beside a progress thread: progress functions and generalized requests' callbacks run in one
 * thread at a time, and objects that they complete are not freed during the call.
 * ranks: 2
 * cflags: -pthread
 * variants: shm tcp
 */
#include "check.h"
#include <pthread.h>

enum { THREADS = 3, ROUNDS = 150, TASKS = 4 };

typedef struct {
    int inside, calls, needed, done, freed;
    MPI_Request request;
    MPIX_Stream stream;
    pthread_t thread;
} Task;

static int rank;
static MPI_Comm comms[THREADS];

static int add(int *place, int what) { return __atomic_add_fetch(place, what, __ATOMIC_SEQ_CST); }
static int get(int *place) { return __atomic_load_n(place, __ATOMIC_SEQ_CST); }

static int run(MPIX_Async_thing thing) {
    Task *task = MPIX_Async_get_state(thing);
    CHECK_EQ(add(&task->inside, 1), 1);
    CHECK_EQ(get(&task->done), 0);
    if (task->stream != MPIX_STREAM_NULL) CHECK(pthread_equal(pthread_self(), task->thread));
    int done = add(&task->calls, 1) == get(&task->needed);
    if (done) add(&task->done, 1);
    CHECK_EQ(add(&task->inside, -1), 0);
    return done ? MPIX_ASYNC_DONE : MPIX_ASYNC_NOPROGRESS;
}

static int query(void *extra, MPI_Status *status) {
    (void)extra;
    OK(MPI_Status_set_elements(status, MPI_INT, 1));
    return MPI_SUCCESS;
}

/* Nobody may be in the poll function when this is called. */
static int release(void *extra) {
    Task *task = extra;
    CHECK_EQ(get(&task->inside), 0);
    CHECK_EQ(add(&task->freed, 1), 1);
    return MPI_SUCCESS;
}

static int cancel(void *extra, int complete) {
    (void)extra, (void)complete;
    return MPI_SUCCESS;
}

static int poll_(void *extra, MPI_Status *status) {
    Task *task = extra;
    (void)status;
    CHECK_EQ(add(&task->inside, 1), 1);
    CHECK_EQ(get(&task->freed), 0);
    if (add(&task->calls, 1) == get(&task->needed)) {
        OK(MPI_Grequest_complete(task->request));
        /* Others have time to find it complete. */
        for (int i = 0; i < 200; i++) CHECK_EQ(get(&task->freed), 0);
    }
    CHECK_EQ(add(&task->inside, -1), 0);
    return MPI_SUCCESS;
}

/* Exchanges messages, with requests and functions of its own and those of the others. */
static void *work(void *number) {
    int t = (int)(intptr_t)number;
    for (int round = 0; round < ROUNDS; round++) {
        Task task, other;
        int in = -1, out = 1000 * t + round;
        MPI_Request requests[3];
        memset(&task, 0, sizeof task);
        task.needed = 1 + round % 7;
        other = task;
        other.stream = MPIX_STREAM_NULL;
        OK(MPIX_Async_start(run, &other, MPIX_STREAM_NULL));
        OK(MPIX_Grequest_start(query, release, cancel, poll_, NULL, &task, &task.request));
        requests[0] = task.request;
        OK(MPI_Irecv(&in, 1, MPI_INT, 1 - rank, 0, comms[t], &requests[1]));
        if (round % 20 == 0) nap(0.001);
        OK(MPI_Isend(&out, 1, MPI_INT, 1 - rank, 0, comms[t], &requests[2]));
        if (round % 3 == 0) {
            OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
        } else if (round % 3 == 1) {
            for (int flag = 0; !flag;) OK(MPI_Testall(3, requests, &flag, MPI_STATUSES_IGNORE));
        } else {
            OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
            OK(MPI_Waitall(2, requests + 1, MPI_STATUSES_IGNORE));
        }
        CHECK_EQ(in, out);
        CHECK_EQ(get(&task.freed), 1);
        while (!get(&other.done)) OK(MPIX_Stream_progress(MPIX_STREAM_NULL));
        /* Whoever has called it last is out of it. */
        while (get(&other.inside)) {
        }
    }
    return NULL;
}

/* One with a stream of its own: only this thread calls its functions. */
static void *on_stream(void *unused) {
    MPIX_Stream stream;
    Task task;
    OK(MPIX_Stream_create(MPI_INFO_NULL, &stream));
    for (int round = 0; round < ROUNDS; round++) {
        memset(&task, 0, sizeof task);
        task.needed = 5;
        task.stream = stream;
        task.thread = pthread_self();
        OK(MPIX_Async_start(run, &task, stream));
        while (!get(&task.done)) OK(MPIX_Stream_progress(stream));
    }
    OK(MPIX_Stream_free(&stream));
    return unused;
}

int main(int argc, char **argv) {
    int provided;
    pthread_t threads[THREADS + 1];
    static Task tasks[TASKS];
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    rank = world_rank();
    for (int t = 0; t < THREADS; t++) OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[t]));
    for (int i = 0; i < TASKS; i++) {
        tasks[i].needed = 1000000000;
        tasks[i].stream = MPIX_STREAM_NULL;
        OK(MPIX_Async_start(run, &tasks[i], MPIX_STREAM_NULL));
    }
    OK(MPIX_Start_progress_thread(MPIX_STREAM_NULL));
    /* The progress thread calls while nobody else does. */
    int before = get(&tasks[0].calls);
    for (int i = 0; i < 2000 && get(&tasks[0].calls) == before; i++) nap(0.001);
    CHECK(get(&tasks[0].calls) > before);
    for (intptr_t t = 0; t < THREADS; t++) {
        CHECK(pthread_create(&threads[t], NULL, work, (void *)t) == 0);
    }
    CHECK(pthread_create(&threads[THREADS], NULL, on_stream, NULL) == 0);
    for (int t = 0; t <= THREADS; t++) pthread_join(threads[t], NULL);
    OK(MPIX_Stop_progress_thread(MPIX_STREAM_NULL));
    for (int i = 0; i < TASKS; i++) {
        CHECK_EQ(tasks[i].inside, 0);
        tasks[i].needed = tasks[i].calls + 1;
    }
    for (int t = 0; t < THREADS; t++) OK(MPI_Comm_free(&comms[t]));
    OK(MPI_Finalize());
    for (int i = 0; i < TASKS; i++) CHECK_EQ(tasks[i].done, 1);
    return 0;
}
