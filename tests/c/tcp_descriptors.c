/* More peers than descriptors: connections are closed and reopened, and no message is lost or duplicated.
 * ranks: 32
 * variants: tcp
 * timeout: 120
 * case: few
 * case: 64
 */
#include "check.h"
#include <fcntl.h>
#include <sys/resource.h>

enum { ROUNDS = 20, LONGEST = 100000, MOST = 64 };

struct message {
    int to, bytes;
};

/* What `rank` sends in a round, the same everywhere. */
static struct message plan(uint64_t seed, int round, int rank, int size) {
    uint64_t state = seed + (uint64_t)(round * size + rank) * 977;
    struct message message = {(int)random_below(&state, (uint64_t)size), 8};
    if (random_below(&state, 8) == 0) {
        message.bytes += (int)random_below(&state, LONGEST);
    }
    return message;
}

/* The limit below which `count` numbers are free. */
static int limit_with_free(int count) {
    int fd = 0;
    for (int free = 0; free < count; fd++) {
        free += fcntl(fd, F_GETFD) == -1;
    }
    return fd;
}

static void limit(int most) {
    struct rlimit limit = {(rlim_t)most, (rlim_t)most};
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

int main(int argc, char **argv) {
    CHECK_EQ(argc, 2);
    int few = strcmp(argv[1], "few") == 0;
    if (!few) {
        limit(64);
    }
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), size = world_size();
    if (few) {
        /* Room for eight connections of the 31. */
        limit(limit_with_free(8));
    }
    uint64_t seed = choose_seed();
    OK(MPI_Bcast(&seed, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD));
    check_seed = seed;

    static MPI_Request requests[MOST + 1];
    static char *data[MOST + 1];
    static int from[MOST + 1];
    for (int round = 0; round < ROUNDS; round++) {
        int count = 0;
        for (int other = 0; other < size; other++) {
            struct message message = plan(seed, round, other, size);
            if (message.to == rank) {
                data[count] = allocate((size_t)message.bytes);
                from[count] = other;
                OK(MPI_Irecv(data[count], message.bytes, MPI_BYTE, other, round, MPI_COMM_WORLD,
                             &requests[count]));
                count++;
            }
        }
        struct message mine = plan(seed, round, rank, size);
        char *out = allocate((size_t)mine.bytes);
        fill(out, (size_t)mine.bytes, seed + (uint64_t)(round * size + rank));
        OK(MPI_Isend(out, mine.bytes, MPI_BYTE, mine.to, round, MPI_COMM_WORLD, &requests[count]));
        OK(MPI_Waitall(count + 1, requests, MPI_STATUSES_IGNORE));
        for (int i = 0; i < count; i++) {
            struct message message = plan(seed, round, from[i], size);
            CHECK(is_filled(data[i], (size_t)message.bytes,
                            seed + (uint64_t)(round * size + from[i])));
            free(data[i]);
        }
        free(out);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    /* Nothing came twice. */
    int flag = -1;
    OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    CHECK_EQ(flag, 0);
    OK(MPI_Finalize());
    return 0;
}
