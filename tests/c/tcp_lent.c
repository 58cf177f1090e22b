/* Long messages read directly from the sender's buffer: a sender that changes the buffer as soon as MPI allows, while
 * receivers are late, does not change the message. Single and many messages, unaligned, between many ranks, and with
 * the protocol chosen by measurement.
 *
 * ranks: 2 4
 * variants: tcp tcp-hosts
 * timeout: 60
 * case: lent
 * case: copied
 * case: measured
 */
#include "check.h"
#include <unistd.h>

enum { LONGEST = 3 << 20, MANY = 24 };

static int rank, ranks;

static unsigned char value(int from, int number, size_t place)
{
    return (unsigned char)(place * 131 >> 5 ^ place >> 13 ^ (size_t)(37 * number + 11 * from));
}

static void paint(unsigned char *data, size_t bytes, int number)
{
    for (size_t i = 0; i < bytes; i++)
        data[i] = value(rank, number, i);
}

static void verify(const unsigned char *data, size_t bytes, int from, int number)
{
    for (size_t i = 0; i < bytes; i++)
        CHECK_EQ(data[i], value(from, number, i));
}

/* Lengths around where pages, pipes and ways begin. */
static const int LENGTHS[] = {65537, 70000, 131072, 262143, 1048576, 1048577, LONGEST};
enum { COUNT = sizeof LENGTHS / sizeof *LENGTHS };

/* From each rank to the next, and the memory written over at once. */
static void one_by_one(unsigned char *mine, unsigned char *theirs)
{
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    for (int number = 0; number < 8 * COUNT; number++) {
        size_t bytes = (size_t)LENGTHS[number % COUNT];
        unsigned char *from = mine + number % 3;
        MPI_Request request;
        paint(from, bytes, number);
        if (number % 5 == 4 && rank % 2)
            usleep(3000);
        OK(MPI_Irecv(theirs, LONGEST, MPI_BYTE, before, 1, MPI_COMM_WORLD, &request));
        OK(MPI_Send(from, (int)bytes, MPI_BYTE, next, 1, MPI_COMM_WORLD));
        memset(from, 0xee, bytes);
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        verify(theirs, bytes, before, number);
    }
}

/* Windows of messages, some received late and in another order, each piece of memory written over when its own
 * request is done. */
static void many(unsigned char *mine, unsigned char *theirs)
{
    enum { EACH = 100000 };
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    for (int round = 0; round < 12; round++) {
        MPI_Request sends[MANY], receives[MANY];
        for (int i = 0; i < MANY; i++) {
            paint(mine + i * EACH, EACH, round + i);
            OK(MPI_Isend(mine + i * EACH, EACH, MPI_BYTE, next, i, MPI_COMM_WORLD, &sends[i]));
        }
        for (int i = 0; i < MANY; i++) {
            int tag = round % 2 ? MANY - 1 - i : i;
            OK(MPI_Irecv(theirs + tag * EACH, EACH, MPI_BYTE, before, tag, MPI_COMM_WORLD, &receives[tag]));
        }
        for (int i = 0; i < MANY; i++) {
            int done;
            OK(MPI_Waitany(MANY, sends, &done, MPI_STATUS_IGNORE));
            memset(mine + done * EACH, 0xee, EACH);
        }
        OK(MPI_Waitall(MANY, receives, MPI_STATUSES_IGNORE));
        for (int i = 0; i < MANY; i++)
            verify(theirs + i * EACH, EACH, before, round + i);
    }
}

/* Memory of a window, which its owner writes as soon as the epoch has ended. */
static void gets(unsigned char *mine, unsigned char *theirs)
{
    MPI_Win win;
    OK(MPI_Win_create(mine, LONGEST, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    for (int round = 0; round < 10; round++) {
        int target = (rank + 1 + round % (ranks - 1)) % ranks;
        paint(mine, LONGEST, round);
        OK(MPI_Win_fence(0, win));
        OK(MPI_Get(theirs, LONGEST / 2, MPI_BYTE, target, 0, LONGEST / 2, MPI_BYTE, win));
        OK(MPI_Get(theirs + LONGEST / 2, LONGEST / 2, MPI_BYTE, target, LONGEST / 2, LONGEST / 2, MPI_BYTE, win));
        OK(MPI_Win_fence(0, win));
        memset(mine, 0xee, LONGEST);
        verify(theirs, LONGEST / 2 * 2, target, round);
        OK(MPI_Win_fence(0, win));
    }
    OK(MPI_Win_free(&win));
}

int main(int argc, char **argv)
{
    CHECK(argc > 1);
    const char *way = !strcmp(argv[1], "lent") ? "1" : !strcmp(argv[1], "copied") ? "0" : "auto";
    setenv("WEFT_TCP_ZCOPY", way, 1);
    OK(MPI_Init(&argc, &argv));
    rank = world_rank();
    OK(MPI_Comm_size(MPI_COMM_WORLD, &ranks));
    unsigned char *mine = allocate(LONGEST + 8), *theirs = allocate(LONGEST);
    one_by_one(mine, theirs);
    many(mine, theirs);
    gets(mine, theirs);
    free(mine);
    free(theirs);
    OK(MPI_Finalize());
    return 0;
}
