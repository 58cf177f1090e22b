/* Eight threads of each rank do random point-to-point operations on communicators with different VCIs, and
 * create communicators meanwhile. Thread t communicates with thread t of the other rank; both use the same
 * random seed. WEFT_STRESS_SECONDS sets the duration, with a new seed in each round.
 * ranks: 2
 * variants: shm ofi ucx
 * env: WEFT_NUM_VCIS=12
 * cflags: -pthread
 * timeout: 90
 */
#include "check.h"
#include <pthread.h>

enum { THREADS = 8, STEPS = 120, MAX = 40000, KINDS = 5, BATCH = 6 };

static int rank;
static MPI_Comm comms[KINDS], mine[THREADS];

static MPI_Comm dup_with(MPI_Comm comm, const char *text) {
    char copy[200], *rest = copy;
    MPI_Info info;
    MPI_Comm made;
    OK(MPI_Info_create(&info));
    snprintf(copy, sizeof copy, "%s", text);
    for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(word, '=');
        *value = 0;
        OK(MPI_Info_set(info, word, value + 1));
    }
    OK(MPI_Comm_dup_with_info(comm, info, &made));
    OK(MPI_Info_free(&info));
    return made;
}

struct talk {
    MPI_Comm comm;
    int tag, any_source, bytes;
    uint64_t key;
    char *out, *in;
};

static void expect(struct talk *talk, MPI_Status *status, const char *in, int bytes, uint64_t key) {
    int count;
    OK(MPI_Get_count(status, MPI_CHAR, &count));
    CHECK_EQ(count, bytes);
    CHECK_EQ(status->MPI_SOURCE, 1 - rank);
    CHECK_EQ(status->MPI_TAG, talk->tag);
    CHECK(is_filled(in, (size_t)bytes, key + (uint64_t)(1 - rank)));
}

static void give(struct talk *talk, int way) {
    fill(talk->out, (size_t)talk->bytes, talk->key + (uint64_t)rank);
    OK((way ? MPI_Ssend : MPI_Send)(talk->out, talk->bytes, MPI_CHAR, 1 - rank, talk->tag,
                                    talk->comm));
}

static void take(struct talk *talk, int way) {
    int source = talk->any_source ? MPI_ANY_SOURCE : 1 - rank, flag = 0;
    MPI_Status status;
    MPI_Message message;
    switch (way) {
    case 0:
        OK(MPI_Probe(source, talk->tag, talk->comm, &status));
        CHECK_EQ(status.MPI_TAG, talk->tag);
        break;
    case 1:
        while (!flag) {
            OK(MPI_Iprobe(source, talk->tag, talk->comm, &flag, &status));
        }
        break;
    case 2:
        OK(MPI_Mprobe(source, talk->tag, talk->comm, &message, &status));
        OK(MPI_Mrecv(talk->in, MAX, MPI_CHAR, &message, &status));
        expect(talk, &status, talk->in, talk->bytes, talk->key);
        return;
    default:
        break;
    }
    OK(MPI_Recv(talk->in, MAX, MPI_CHAR, source, talk->tag, talk->comm, &status));
    expect(talk, &status, talk->in, talk->bytes, talk->key);
}

static void both(struct talk *talk, int way) {
    MPI_Request requests[2 * BATCH];
    MPI_Status statuses[2 * BATCH];
    int each = MAX / BATCH, bytes = talk->bytes % each, left = 2 * BATCH;
    for (int i = 0; i < BATCH; i++) {
        char *out = talk->out + i * each, *in = talk->in + i * each;
        fill(out, (size_t)bytes, talk->key + (uint64_t)(16 * i + rank));
        OK(MPI_Irecv(in, each, MPI_CHAR, 1 - rank, talk->tag, talk->comm, &requests[BATCH + i]));
        OK(MPI_Isend(out, bytes, MPI_CHAR, 1 - rank, talk->tag, talk->comm, &requests[i]));
    }
    if (way == 0) {
        OK(MPI_Waitall(2 * BATCH, requests, statuses));
    }
    while (way != 0 && left > 0) {
        int places[2 * BATCH], some = 0;
        MPI_Status found[2 * BATCH];
        OK((way == 1 ? MPI_Waitsome : MPI_Testsome)(2 * BATCH, requests, &some, places, found));
        for (int i = 0; i < some; i++) {
            statuses[places[i]] = found[i];
        }
        left -= some;
    }
    for (int i = 0; i < BATCH; i++) {
        expect(talk, &statuses[BATCH + i], talk->in + i * each, bytes,
               talk->key + (uint64_t)(16 * i));
    }
}

/* A receive that nothing is sent to, and one that something may be. */
static void cancel(struct talk *talk, int thread) {
    MPI_Request request;
    MPI_Status status;
    int cancelled = 0;
    OK(MPI_Irecv(talk->in, MAX, MPI_CHAR, 1 - rank, talk->tag + 4096, talk->comm, &request));
    OK(MPI_Cancel(&request));
    OK(MPI_Wait(&request, &status));
    OK(MPI_Test_cancelled(&status, &cancelled));
    CHECK_EQ(cancelled, 1);
    if (rank == thread % 2) {
        OK(MPI_Issend(talk->out, 1, MPI_CHAR, 1 - rank, talk->tag + 8192, talk->comm, &request));
        OK(MPI_Cancel(&request));
        OK(MPI_Wait(&request, &status));
        OK(MPI_Test_cancelled(&status, &cancelled));
        CHECK_EQ(cancelled, 1);
    }
}

/* On a communicator of their own receives with wildcards for everything get messages in the order in
 * which they were sent, whatever their tags and lengths. */
static void in_order(struct talk *talk) {
    MPI_Request requests[BATCH];
    MPI_Status status;
    int each = MAX / BATCH, count;
    for (int i = 0; i < BATCH; i++) {
        int bytes = (int)((talk->key >> (8 + i)) % (uint64_t)each);
        fill(talk->out + i * each, (size_t)bytes, talk->key + (uint64_t)(16 * i + rank));
        OK(MPI_Isend(talk->out + i * each, bytes, MPI_CHAR, 1 - rank, BATCH - i, talk->comm,
                     &requests[i]));
    }
    for (int i = 0; i < BATCH; i++) {
        if (i % 2) {
            OK(MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, talk->comm, &status));
            CHECK_EQ(status.MPI_TAG, BATCH - i);
        }
        OK(MPI_Recv(talk->in, each, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, talk->comm, &status));
        CHECK_EQ(status.MPI_TAG, BATCH - i);
        OK(MPI_Get_count(&status, MPI_CHAR, &count));
        CHECK_EQ(count, (int)((talk->key >> (8 + i)) % (uint64_t)each));
        CHECK(is_filled(talk->in, (size_t)count, talk->key + (uint64_t)(16 * i + 1 - rank)));
    }
    OK(MPI_Waitall(BATCH, requests, MPI_STATUSES_IGNORE));
}

static void *work(void *argument) {
    int thread = *(int *)argument;
    char *out = allocate(MAX), *in = allocate(MAX);
    uint64_t dice = check_seed * 64 + (uint64_t)thread;
    for (int step = 0; step < STEPS; step++) {
        int kind = (int)random_below(&dice, KINDS), what = (int)random_below(&dice, 12);
        int long_one = random_below(&dice, 6) == 0, way = (int)random_below(&dice, 3);
        int low = thread | (7 - thread) << 3 | (int)random_below(&dice, 8) << 6;
        struct talk talk = {comms[kind], low, kind != 3, 0, next_random(&dice) << 8, out, in};
        talk.bytes = (int)random_below(&dice, long_one ? MAX : 200);
        if (what < 5) {
            int sender = (int)random_below(&dice, 2);
            if (sender == rank) {
                give(&talk, way == 0);
            } else {
                take(&talk, what % 4);
            }
        } else if (what < 10) {
            both(&talk, way);
        } else if (what == 10) {
            cancel(&talk, thread);
        } else {
            const char *hints[] = {"weft_num_vcis=2 mpi_assert_no_any_tag=true", "weft_num_vcis=1",
                                   "weft_num_vcis=1 weft_lockless=true"};
            MPI_Comm made = dup_with(mine[thread], hints[way]);
            talk.comm = made;
            both(&talk, way);
            if (way) {
                in_order(&talk);
            }
            OK(MPI_Comm_free(&made));
        }
    }
    free(out);
    free(in);
    return NULL;
}

int main(int argc, char **argv) {
    int provided, numbers[THREADS];
    pthread_t threads[THREADS];
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    rank = world_rank();
    check_seed = choose_seed();
    OK(MPI_Bcast(&check_seed, 8, MPI_BYTE, 0, MPI_COMM_WORLD));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]));
    comms[1] = dup_with(MPI_COMM_WORLD, "weft_num_vcis=1");
    comms[2] = dup_with(MPI_COMM_WORLD, "weft_num_vcis=4 mpi_assert_no_any_tag=true");
    comms[3] = dup_with(MPI_COMM_WORLD, "weft_num_vcis=2 mpi_assert_no_any_source=true");
    comms[4] = dup_with(MPI_COMM_WORLD, "weft_tag_sender_bits=0:3 weft_tag_receiver_bits=3:3 "
                                        "mpi_assert_no_any_tag=true");
    for (int i = 0; i < THREADS; i++) {
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &mine[i]));
    }
    const char *seconds = getenv("WEFT_STRESS_SECONDS");
    double end = MPI_Wtime() + (seconds ? atof(seconds) : 0);
    int more = 1;
    for (int round = 1; more; round++) {
        for (int i = 0; i < THREADS; i++) {
            numbers[i] = i;
            CHECK_EQ(pthread_create(&threads[i], NULL, work, &numbers[i]), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            CHECK_EQ(pthread_join(threads[i], NULL), 0);
        }
        more = MPI_Wtime() < end;
        check_seed++;
        OK(MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD));
        if (!more && seconds && rank == 0) {
            fprintf(stderr, "%d rounds of %d steps of %d threads\n", round, STEPS, THREADS);
        }
    }
    for (int i = 0; i < THREADS; i++) {
        OK(MPI_Comm_free(&mine[i]));
    }
    for (int i = 0; i < KINDS; i++) {
        OK(MPI_Comm_free(&comms[i]));
    }
    OK(MPI_Finalize());
    return 0;
}
