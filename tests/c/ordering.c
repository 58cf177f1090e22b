/* Messages with one tag from one sender never overtake each other, for all sizes and kinds of receives (MPI-5.0
 * section 3.5).
 * ranks: 2 5
 * variants: shm shm-2copy ofi ucx ucx-hosts verbs
 * timeout: 40
 */
#include "check.h"

enum { COUNT = 1500, MAX = 120000, DEPTH = 16 };

struct head {
    int sender, number, bytes;
};

static uint64_t seed;

static int size_of(int sender, int number) {
    uint64_t state = seed ^ (uint64_t)(sender * 1000003 + number);
    switch (random_below(&state, 8)) {
    case 0:
        return (int)(sizeof(struct head) + random_below(&state, MAX - sizeof(struct head)));
    case 1:
        return (int)(sizeof(struct head) + 8150 + random_below(&state, 60));
    case 2:
        return (int)(sizeof(struct head) + 70 + random_below(&state, 30));
    default:
        return (int)(sizeof(struct head) + random_below(&state, 64));
    }
}

static uint64_t content(int sender, int number) {
    return seed * 31 + (uint64_t)sender * 1000000 + (uint64_t)number;
}

static void send_all(int rank) {
    static char data[DEPTH][MAX];
    MPI_Request requests[DEPTH];
    for (int i = 0; i < DEPTH; i++) {
        requests[i] = MPI_REQUEST_NULL;
    }
    uint64_t state = seed + (uint64_t)rank;
    for (int number = 0; number < COUNT; number++) {
        int place = number % DEPTH, bytes = size_of(rank, number);
        OK(MPI_Wait(&requests[place], MPI_STATUS_IGNORE));
        struct head head = {rank, number, bytes};
        memcpy(data[place], &head, sizeof head);
        fill(data[place] + sizeof head, (size_t)bytes - sizeof head, content(rank, number));
        switch (random_below(&state, 6)) {
        case 0:
            OK(MPI_Issend(data[place], bytes, MPI_BYTE, 0, 9, MPI_COMM_WORLD, &requests[place]));
            break;
        case 1:
            OK(MPI_Send(data[place], bytes, MPI_BYTE, 0, 9, MPI_COMM_WORLD));
            break;
        default:
            OK(MPI_Isend(data[place], bytes, MPI_BYTE, 0, 9, MPI_COMM_WORLD, &requests[place]));
        }
    }
    OK(MPI_Waitall(DEPTH, requests, MPI_STATUSES_IGNORE));
}

static int *next;

static void got(const char *data, const MPI_Status *status) {
    struct head head;
    memcpy(&head, data, sizeof head);
    int count = -1, sender = status->MPI_SOURCE;
    OK(MPI_Get_count(status, MPI_BYTE, &count));
    CHECK_EQ(status->MPI_TAG, 9);
    CHECK_EQ(head.sender, sender);
    CHECK_EQ(head.number, next[sender]);
    CHECK_EQ(head.bytes, size_of(sender, next[sender]));
    CHECK_EQ(count, head.bytes);
    CHECK(is_filled(data + sizeof head, (size_t)count - sizeof head, content(sender, head.number)));
    next[sender]++;
}

static void receive_all(int size) {
    static char data[DEPTH][MAX];
    MPI_Request requests[DEPTH];
    next = calloc((size_t)size, sizeof *next);
    uint64_t state = seed + 99;
    int left = COUNT * (size - 1);
    while (left > 0) {
        MPI_Status statuses[DEPTH], status;
        int depth = 1 + (int)random_below(&state, DEPTH), source = MPI_ANY_SOURCE;
        depth = depth < left ? depth : left;
        int tag = random_below(&state, 2) ? 9 : MPI_ANY_TAG;
        if (random_below(&state, 4) == 0) {
            nap(0.0005); /* lets some become unexpected */
        }
        switch (random_below(&state, 4)) {
        case 0: /* receives posted in advance; those posted earlier match earlier messages */
            for (int i = 0; i < depth; i++) {
                OK(MPI_Irecv(data[i], MAX, MPI_BYTE, source, tag, MPI_COMM_WORLD, &requests[i]));
            }
            OK(MPI_Waitall(depth, requests, statuses));
            for (int i = 0; i < depth; i++) {
                got(data[i], &statuses[i]);
            }
            left -= depth;
            break;
        case 1: /* from one sender only, if it has any left */
            source = 1 + (int)random_below(&state, (uint64_t)size - 1);
            if (next[source] < COUNT) {
                OK(MPI_Recv(data[0], MAX, MPI_BYTE, source, tag, MPI_COMM_WORLD, &status));
                CHECK_EQ(status.MPI_SOURCE, source);
                got(data[0], &status);
                left--;
            }
            break;
        case 2: { /* seen first */
            int count;
            OK(MPI_Probe(source, tag, MPI_COMM_WORLD, &status));
            OK(MPI_Get_count(&status, MPI_BYTE, &count));
            OK(MPI_Recv(data[0], count, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD,
                        &statuses[0]));
            CHECK_EQ(statuses[0].MPI_SOURCE, status.MPI_SOURCE);
            got(data[0], &statuses[0]);
            left--;
            break;
        }
        default: { /* taken out of matching */
            MPI_Message message;
            OK(MPI_Mprobe(source, tag, MPI_COMM_WORLD, &message, &status));
            OK(MPI_Mrecv(data[0], MAX, MPI_BYTE, &message, &status));
            CHECK_EQ(message, MPI_MESSAGE_NULL);
            got(data[0], &status);
            left--;
        }
        }
    }
    free(next);
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), size = world_size();
    if (rank == 0) {
        seed = choose_seed();
        for (int i = 1; i < size; i++) {
            OK(MPI_Send(&seed, 1, MPI_UINT64_T, i, 0, MPI_COMM_WORLD));
        }
        check_seed = seed;
        receive_all(size);
    } else {
        OK(MPI_Recv(&seed, 1, MPI_UINT64_T, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        check_seed = seed;
        send_all(rank);
    }
    OK(MPI_Finalize());
    return 0;
}
