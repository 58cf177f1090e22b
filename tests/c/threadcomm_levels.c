/* Thread communicators after a level below MPI_THREAD_MULTIPLE: threads call MPI at the same time from MPIX_Threadcomm_init on,
 * on what was made before, too: communicators with and without a VCI of their own, those of a session, windows, schedules,
 * requests that are under way, and handles.
 * ranks: 1 2 3
 * variants: shm tcp
 * cflags: -pthread
 * timeout: 60
 * case: single
 * case: funneled
 * case: session
 * case: global
 * env: WEFT_CRITICAL_SECTION=global
 * case: once
 */
#include "points.h"
#include <pthread.h>

enum { THREADS = 3, ROUNDS = 20, WARM = 12, LONG = 32, LONG_EVERY = 4 };

/* What each thread has for itself, made before there are threads. */
struct own {
    MPI_Comm comm, hinted;
    MPI_Win win;
    int *memory;
    MPI_Request sum, pair[2];
    int summand, total, sent, received;
};

static int size, rank, threads_here, key;
static MPI_Comm threadcomm, shared, hinted, of_session;
static MPI_Win counters, messages;
static int64_t *counted, words[4];
static struct own own[THREADS];

static int next(void) { return (rank + 1) % size; }
static int before(void) { return (rank + size - 1) % size; }

/* A ring on a communicator of processes; all threads may use it, each with its tag. */
static void ring(MPI_Comm comm, int tag, int round) {
    int out[64], in[64];
    MPI_Status status;
    for (int i = 0; i < 64; i++) {
        out[i] = round * 1000 + tag * 100 + i + rank;
    }
    int count = 1 + round % 64;
    OK(MPI_Sendrecv(out, count, MPI_INT, next(), tag, in, 64, MPI_INT, before(), tag, comm, &status));
    CHECK_EQ(status.MPI_TAG, tag);
    for (int i = 0; i < count; i++) {
        CHECK_EQ(in[i], round * 1000 + tag * 100 + i + before());
    }
}

/* Collectives on a communicator of one thread's, by schedules and short ways that calls before have left. */
static void collect(struct own *mine, int round) {
    MPI_Comm comm = mine->comm;
    int root = round % size, number = rank == root ? round : -1, sum = -1, all[8];
    MPI_Request request;
    OK(MPI_Barrier(comm));
    OK(MPI_Bcast(&number, 1, MPI_INT, root, comm));
    CHECK_EQ(number, round);
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm));
    CHECK_EQ(sum, size * (size - 1) / 2);
    OK(MPI_Allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, comm));
    CHECK_EQ(all[size - 1], size - 1);
    OK(MPI_Iallreduce(&round, &sum, 1, MPI_INT, MPI_SUM, comm, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_EQ(sum, size * round);
    mine->summand = round, mine->total = -1;
    OK(MPI_Start(&mine->sum));
    OK(MPI_Wait(&mine->sum, MPI_STATUS_IGNORE));
    CHECK_EQ(mine->total, size * round);
    mine->sent = round + rank, mine->received = -1;
    OK(MPI_Startall(2, mine->pair));
    OK(MPI_Waitall(2, mine->pair, MPI_STATUSES_IGNORE));
    CHECK_EQ(mine->received, round + before());
}

/* Adds to words that all threads of all processes add to, one by one and many at once. */
static void count(int target, int round) {
    int64_t one = 1, was = -1, ones[LONG];
    for (int i = 0; i < LONG; i++) {
        ones[i] = 1;
    }
    if (round % LONG_EVERY == 0) {
        OK(MPI_Accumulate(ones, LONG, MPI_INT64_T, target, 0, LONG, MPI_INT64_T, MPI_SUM, counters));
    }
    OK(MPI_Fetch_and_op(&one, &was, MPI_INT64_T, target, 0, MPI_SUM, counters));
    OK(MPI_Win_flush(target, counters));
    CHECK(was >= 0);
    OK(MPI_Accumulate(&one, 1, MPI_INT64_T, target, 1, 1, MPI_INT64_T, MPI_SUM, counters));
    OK(MPI_Fetch_and_op(&one, &was, MPI_INT64_T, target, 0, MPI_SUM, messages));
    OK(MPI_Win_flush(target, messages));
    CHECK(was >= 0);
}

/* Reads and writes under a lock that nobody else has. */
static void change_alone(struct own *mine, int target) {
    int value = -1;
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, mine->win));
    OK(MPI_Get(&value, 1, MPI_INT, target, 0, 1, MPI_INT, mine->win));
    OK(MPI_Win_flush(target, mine->win));
    value++;
    OK(MPI_Put(&value, 1, MPI_INT, target, 0, 1, MPI_INT, mine->win));
    OK(MPI_Win_unlock(target, mine->win));
}

/* Makes, names and frees objects. */
static void make_handles(struct own *mine, int round) {
    MPI_Datatype type;
    char name[MPI_MAX_OBJECT_NAME];
    int length, flag, *value;
    OK(MPI_Type_contiguous(1 + round % 5, MPI_INT, &type));
    OK(MPI_Type_commit(&type));
    OK(MPI_Type_set_name(type, "some integers"));
    OK(MPI_Type_get_name(type, name, &length));
    CHECK_EQ(length, 13);
    OK(MPI_Comm_set_attr(mine->comm, key, mine));
    OK(MPI_Comm_get_attr(mine->comm, key, &value, &flag));
    CHECK(flag && (void *)value == (void *)mine);
    OK(MPI_Comm_delete_attr(mine->comm, key));
    OK(MPI_Type_free(&type));
}

static void *region(void *unused) {
    (void)unused;
    int me, total, number;
    OK(MPIX_Threadcomm_start(threadcomm));
    OK(MPI_Comm_rank(threadcomm, &me));
    OK(MPI_Comm_size(threadcomm, &total));
    CHECK_EQ(total, size * threads_here);
    number = me - rank * threads_here;
    CHECK(number >= 0 && number < threads_here);
    struct own *mine = &own[number];
    talk(threadcomm, me, total);
    for (int round = 0; round < ROUNDS; round++) {
        int sum, target = (me + round) % size;
        ring(shared, number, round);
        ring(hinted, number, round);
        ring(mine->hinted, number, round);
        if (of_session != MPI_COMM_NULL) {
            ring(of_session, number, round);
        }
        collect(mine, round);
        count(target, round);
        change_alone(mine, target);
        make_handles(mine, round);
        OK(MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, threadcomm));
        CHECK_EQ(sum, total * (total - 1) / 2);
    }
    OK(MPIX_Threadcomm_finish(threadcomm));
    return NULL;
}

static void make(void) {
    MPI_Info info;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "weft_num_vcis", "1"));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &shared));
    OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &hinted));
    OK(MPI_Win_allocate(LONG * sizeof *counted, sizeof *counted, MPI_INFO_NULL, MPI_COMM_WORLD, &counted,
                        &counters));
    memset(counted, 0, LONG * sizeof *counted);
    OK(MPI_Win_create(words, sizeof words, sizeof *words, info, MPI_COMM_WORLD, &messages));
    for (int i = 0; i < threads_here; i++) {
        struct own *mine = &own[i];
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &mine->comm));
        OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &mine->hinted));
        OK(MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &mine->memory,
                            &mine->win));
        *mine->memory = 0;
        OK(MPI_Allreduce_init(&mine->summand, &mine->total, 1, MPI_INT, MPI_SUM, mine->comm,
                              MPI_INFO_NULL, &mine->sum));
        OK(MPI_Send_init(&mine->sent, 1, MPI_INT, next(), i, mine->comm, &mine->pair[0]));
        OK(MPI_Recv_init(&mine->received, 1, MPI_INT, before(), i, mine->comm, &mine->pair[1]));
    }
    OK(MPI_Info_free(&info));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock_all(0, counters));
    OK(MPI_Win_lock_all(0, messages));
}

/* What threads do, by one of them: schedules, slots and short ways are there then. */
static void warm_up(void) {
    for (int round = 0; round < WARM; round++) {
        for (int i = 0; i < threads_here; i++) {
            ring(shared, i, round);
            ring(hinted, i, round);
            collect(&own[i], round);
            change_alone(&own[i], round % size);
            make_handles(&own[i], round);
        }
        count(round % size, round);
    }
}

static void free_all(void) {
    OK(MPI_Win_free(&counters));
    OK(MPI_Win_free(&messages));
    OK(MPI_Comm_free(&shared));
    OK(MPI_Comm_free(&hinted));
    for (int i = 0; i < threads_here; i++) {
        OK(MPI_Request_free(&own[i].sum));
        OK(MPI_Request_free(&own[i].pair[0]));
        OK(MPI_Request_free(&own[i].pair[1]));
        OK(MPI_Win_free(&own[i].win));
        OK(MPI_Comm_free(&own[i].comm));
        OK(MPI_Comm_free(&own[i].hinted));
    }
}

/* A session, opened beside the world at its level, and a communicator of it. */
static MPI_Session open_session(void) {
    MPI_Session session;
    MPI_Group group;
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    OK(MPI_Comm_create_from_group(group, "threads", MPI_INFO_NULL, MPI_ERRORS_RETURN, &of_session));
    OK(MPI_Group_free(&group));
    for (int round = 0; round < WARM; round++) {
        ring(of_session, 0, round);
    }
    return session;
}

/* Starts the threads; what is under way meanwhile was begun before them, or before they were admitted. */
static void run_region(MPI_Request *requests, int *arrived) {
    pthread_t threads[THREADS];
    for (int i = 0; i < threads_here; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, region, NULL), 0);
    }
    for (int i = 0; i < threads_here; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    int sent = 4711 + rank;
    OK(MPI_Send(&sent, 1, MPI_INT, next(), 99, shared));
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    CHECK_EQ(*arrived, 4711 + before());
}

int main(int argc, char **argv) {
    const char *level = argc > 1 ? argv[1] : "single";
    int wanted = strcmp(level, "funneled") == 0 ? MPI_THREAD_FUNNELED : MPI_THREAD_SINGLE;
    int provided = MPI_THREAD_SINGLE, still, sum, arrived = -1;
    MPI_Session session = MPI_SESSION_NULL;
    if (wanted == MPI_THREAD_SINGLE) {
        OK(MPI_Init(&argc, &argv));
        OK(MPI_Query_thread(&provided));
    } else {
        OK(MPI_Init_thread(&argc, &argv, wanted, &provided));
    }
    CHECK_EQ(provided, wanted);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    rank = world_rank(), size = world_size();
    threads_here = strcmp(level, "once") == 0 ? 1 : THREADS;
    of_session = MPI_COMM_NULL;
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL));
    if (strcmp(level, "session") == 0) {
        session = open_session();
    }
    make();
    warm_up();
    /* Under way while threads are admitted: a receive, a collective, and a lock. */
    MPI_Request requests[2];
    OK(MPI_Irecv(&arrived, 1, MPI_INT, before(), 99, shared, &requests[0]));
    OK(MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, shared, &requests[1]));
    OK(MPI_Barrier(MPI_COMM_WORLD)); /* Nobody waits for that lock any more. */
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, own[0].win));
    OK(MPIX_Threadcomm_init(MPI_COMM_WORLD, threads_here, &threadcomm));
    OK(MPI_Win_unlock(rank, own[0].win));
    OK(MPI_Query_thread(&still));
    CHECK_EQ(still, provided);
    run_region(requests, &arrived);
    CHECK_EQ(sum, size * (size - 1) / 2);
    OK(MPIX_Threadcomm_free(&threadcomm));
    /* One thread again, and then threads again. */
    warm_up();
    OK(MPIX_Threadcomm_init(MPI_COMM_WORLD, threads_here, &threadcomm));
    arrived = -1;
    OK(MPI_Irecv(&arrived, 1, MPI_INT, before(), 99, shared, &requests[0]));
    OK(MPI_Ibarrier(shared, &requests[1]));
    run_region(requests, &arrived);
    OK(MPIX_Threadcomm_free(&threadcomm));
    /* Nothing was counted twice, and nothing was lost. */
    OK(MPI_Win_unlock_all(counters));
    OK(MPI_Win_unlock_all(messages));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    int64_t got[4] = {counted[0], counted[1], counted[2], words[0]}, all[4];
    int calls = 2 * size * (ROUNDS * threads_here + WARM), long_ones = calls / LONG_EVERY;
    int changed[THREADS], changes[THREADS];
    for (int i = 0; i < threads_here; i++) {
        changed[i] = *own[i].memory;
    }
    OK(MPI_Allreduce(got, all, 4, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD));
    OK(MPI_Allreduce(changed, changes, threads_here, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK_EQ(all[0], calls + long_ones);
    CHECK_EQ(all[1], calls + long_ones);
    CHECK_EQ(all[2], long_ones);
    CHECK_EQ(all[3], calls);
    for (int i = 0; i < threads_here; i++) {
        CHECK_EQ(changes[i], 2 * size * (ROUNDS + WARM));
    }
    free_all();
    if (session != MPI_SESSION_NULL) {
        OK(MPI_Comm_free(&of_session));
        OK(MPI_Session_finalize(&session));
    }
    OK(MPI_Comm_free_keyval(&key));
    OK(MPI_Finalize());
    return 0;
}
