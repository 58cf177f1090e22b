/* Threads that share one communicator and receive with wildcards: each message comes to exactly one.
 * ranks: 1 3
 * cflags: -pthread
 * timeout: 60
 * case: recv
 * case: mprobe
 * case: nonblocking
 */
#include "check.h"
#include <pthread.h>
#include <sched.h>

enum { THREADS = 4, EACH = 800, MAX = 20000 };

static int rank, size;
static enum { RECV, MPROBE, NONBLOCKING } way;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int total;
static unsigned char *seen;

struct head {
    int from, thread, number;
};

static int size_of(const struct head *head) {
    uint64_t state = (uint64_t)(head->from * 1000000 + head->thread * 10000 + head->number);
    return (int)sizeof *head +
           (int)(random_below(&state, 20) == 0 ? random_below(&state, MAX - sizeof *head)
                                               : random_below(&state, 60));
}

static uint64_t key_of(const struct head *head) {
    return (uint64_t)head->from * 77777777 + (uint64_t)(head->thread * 100000 + head->number);
}

/* Messages to each rank in turn, then one to each that says that there are no more. */
static void *sender(void *argument) {
    char *data = allocate(MAX);
    for (int i = 0; i < EACH; i++) {
        struct head head = {rank, *(int *)argument, i};
        int bytes = size_of(&head), to = i % size;
        memcpy(data, &head, sizeof head);
        fill(data + sizeof head, (size_t)bytes - sizeof head, key_of(&head));
        if (i % 5) {
            OK(MPI_Send(data, bytes, MPI_CHAR, to, i % 3, MPI_COMM_WORLD));
        } else {
            MPI_Request request;
            OK(MPI_Issend(data, bytes, MPI_CHAR, to, i % 3, MPI_COMM_WORLD, &request));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
    }
    for (int to = 0; to < size; to++) {
        OK(MPI_Send(NULL, 0, MPI_CHAR, to, 50, MPI_COMM_WORLD));
    }
    free(data);
    return NULL;
}

static int handle(const char *data, const MPI_Status *status) {
    struct head head;
    int count;
    OK(MPI_Get_count(status, MPI_CHAR, &count));
    if (status->MPI_TAG == 50) {
        return 0;
    }
    CHECK(count >= (int)sizeof head);
    memcpy(&head, data, sizeof head);
    CHECK_EQ(head.from, status->MPI_SOURCE);
    CHECK_EQ(head.number % 3, status->MPI_TAG);
    CHECK_EQ(head.number % size, rank);
    CHECK(head.thread >= 0 && head.thread < THREADS && head.number < EACH);
    CHECK_EQ(count, size_of(&head));
    CHECK(is_filled(data + sizeof head, (size_t)count - sizeof head, key_of(&head)));
    pthread_mutex_lock(&lock);
    CHECK_EQ(seen[(head.from * THREADS + head.thread) * EACH + head.number]++, 0);
    total++;
    pthread_mutex_unlock(&lock);
    return 1;
}

/* Receives until it has its share of the last messages. A sender's last one is matched after all its others. */
static void *receiver(void *unused) {
    char *data = allocate(MAX);
    MPI_Status status;
    for (int ends = 0; ends < size;) {
        if (way == RECV) {
            OK(MPI_Recv(data, MAX, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
        } else if (way == MPROBE) {
            MPI_Message message;
            int count;
            OK(MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status));
            OK(MPI_Get_count(&status, MPI_CHAR, &count));
            OK(MPI_Mrecv(data, count, MPI_CHAR, &message, &status));
        } else {
            MPI_Request request;
            int flag = 0;
            OK(MPI_Irecv(data, MAX, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
                         &request));
            while (!flag) {
                OK(MPI_Test(&request, &flag, &status));
                sched_yield(); /* eight threads have two cores */
            }
        }
        ends += !handle(data, &status);
    }
    free(data);
    return unused;
}

int main(int argc, char **argv) {
    CHECK_EQ(argc, 2);
    way = strcmp(argv[1], "recv") == 0 ? RECV : strcmp(argv[1], "mprobe") == 0 ? MPROBE : NONBLOCKING;
    int provided, numbers[THREADS];
    pthread_t senders[THREADS], receivers[THREADS];
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    rank = world_rank(), size = world_size();
    MPI_Comm quiet;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &quiet));
    seen = calloc((size_t)(size * THREADS * EACH), 1);
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        CHECK_EQ(pthread_create(&receivers[i], NULL, receiver, NULL), 0);
        CHECK_EQ(pthread_create(&senders[i], NULL, sender, &numbers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(senders[i], NULL), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(receivers[i], NULL), 0);
    }
    int expected = 0;
    for (int i = 0; i < EACH; i++) {
        expected += i % size == rank ? size * THREADS : 0;
    }
    barrier(quiet);
    CHECK_EQ(total, expected);
    int flag = -1;
    OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    CHECK_EQ(flag, 0);
    OK(MPI_Comm_free(&quiet));
    OK(MPI_Finalize());
    return 0;
}
