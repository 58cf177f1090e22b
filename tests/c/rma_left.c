/* Small accesses to created and dynamic windows, which a node's ranks leave to each other until an epoch ends, mixed with
 * long ones and ones with gaps, which go other ways: in every kind of epoch, with targets that wait in the library and
 * targets that compute. Nothing is lost or done twice, accumulates keep their order whatever ways they go, those of several
 * ranks and threads are atomic to each other, and results are there when the epoch or the flush is over.
 * ranks: 2 3 4 7 17
 * timeout: 120
 */
#include "check.h"
#include <pthread.h>

enum { SMALL = 64, LONG = 4000, SLOTS = 200, ROUNDS = 12 };

static int rank, ranks, threads;
static long *memory; /* SMALL + LONG + SLOTS for each rank, then the counters */
static MPI_Aint bases[64];
static MPI_Win win;
static int dynamic;

static MPI_Aint at(int target, size_t index) {
    return dynamic ? bases[target] + (MPI_Aint)(index * sizeof(long)) : (MPI_Aint)index;
}

static size_t share(int of) {
    return (size_t)of * (SMALL + LONG + SLOTS);
}

static size_t total(void) {
    return share(ranks) + 8;
}

/* A target that has nothing to do with the library for a while. */
static void compute(int round) {
    if ((round + rank) % 3 == 0)
        usleep(2000);
}

/* What one rank puts to another in an epoch: many single words, and a long stretch. */
static void put_all(int target, int round, long *source, MPI_Datatype every_other) {
    for (int i = 0; i < SMALL; i++) {
        source[i] = 1000000L * round + 1000 * rank + i;
        OK(MPI_Put(source + i, 1, MPI_LONG, target, at(target, share(rank) + i), 1, MPI_LONG, win));
        if (i == SMALL / 2) {
            for (int k = 0; k < LONG; k++)
                source[SMALL + k] = round + rank + k;
            OK(MPI_Put(source + SMALL, LONG, MPI_LONG, target, at(target, share(rank) + SMALL), LONG,
                       MPI_LONG, win));
        }
    }
    /* Some words at once, and with gaps on both sides. */
    for (int k = 0; k < SLOTS; k++)
        source[SMALL + LONG + k] = round * 7 + k;
    OK(MPI_Put(source + SMALL + LONG, 20, MPI_LONG, target, at(target, share(rank) + SMALL + LONG), 20,
               MPI_LONG, win));
    OK(MPI_Put(source + SMALL + LONG + 20, 1, every_other, target,
               at(target, share(rank) + SMALL + LONG + 20), 1, every_other, win));
}

static void check_all(int from, int round) {
    const long *mine = memory + share(from);
    for (int i = 0; i < SMALL; i++)
        CHECK_EQ(mine[i], 1000000L * round + 1000 * from + i);
    for (int k = 0; k < LONG; k++)
        CHECK_EQ(mine[SMALL + k], round + from + k);
    for (int k = 0; k < 20; k++)
        CHECK_EQ(mine[SMALL + LONG + k], round * 7 + k);
    for (int k = 20; k < 80; k++)
        CHECK_EQ(mine[SMALL + LONG + k], k % 2 ? 0 : round * 7 + k);
}

static void get_all(int target, int from, long *found) {
    for (int i = 0; i < SMALL; i++)
        OK(MPI_Get(found + i, 1, MPI_LONG, target, at(target, share(from) + i), 1, MPI_LONG, win));
    OK(MPI_Get(found + SMALL, LONG, MPI_LONG, target, at(target, share(from) + SMALL), LONG, MPI_LONG, win));
}

static void check_found(int from, int round, const long *found) {
    for (int i = 0; i < SMALL; i++)
        CHECK_EQ(found[i], 1000000L * round + 1000 * from + i);
    for (int k = 0; k < LONG; k++)
        CHECK_EQ(found[SMALL + k], round + from + k);
}

static void fences(MPI_Datatype every_other) {
    long *source = allocate((SMALL + LONG + SLOTS) * sizeof(long));
    long *found = allocate((SMALL + LONG + SLOTS) * sizeof(long));
    OK(MPI_Win_fence(MPI_MODE_NOPRECEDE, win));
    for (int round = 1; round <= ROUNDS; round++) {
        int target = (rank + round) % ranks, from = (rank - round % ranks + ranks) % ranks;
        put_all(target, round, source, every_other);
        compute(round);
        OK(MPI_Win_fence(0, win));
        check_all(from, round);
        /* And read back what others have written elsewhere. */
        int other = (rank + 1) % ranks;
        get_all(other, (other - round % ranks + ranks) % ranks, found);
        compute(round + 1);
        OK(MPI_Win_fence(0, win));
        check_found((other - round % ranks + ranks) % ranks, round, found);
    }
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    free(source);
    free(found);
}

static void posts(MPI_Datatype every_other) {
    long *source = allocate((SMALL + LONG + SLOTS) * sizeof(long));
    MPI_Group all, to, of;
    OK(MPI_Win_get_group(win, &all));
    for (int round = 1; round <= ROUNDS; round++) {
        int target = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
        OK(MPI_Group_incl(all, 1, &target, &to));
        OK(MPI_Group_incl(all, 1, &from, &of));
        OK(MPI_Win_post(of, 0, win));
        OK(MPI_Win_start(to, 0, win));
        put_all(target, 100 + round, source, every_other);
        OK(MPI_Win_complete(win));
        /* The source may be used again. */
        memset(source, -1, SMALL * sizeof(long));
        compute(round);
        OK(MPI_Win_wait(win));
        check_all(from, 100 + round);
        OK(MPI_Group_free(&to));
        OK(MPI_Group_free(&of));
    }
    OK(MPI_Group_free(&all));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    free(source);
}

/* Locks, with targets that wait, compute, or lock others themselves. */
static void locks(MPI_Datatype every_other) {
    long *source = allocate((SMALL + LONG + SLOTS) * sizeof(long));
    long *found = allocate((SMALL + LONG + SLOTS) * sizeof(long));
    for (int round = 1; round <= ROUNDS; round++) {
        int target = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
        OK(MPI_Win_lock(round % 2 ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, target, 0, win));
        put_all(target, 200 + round, source, every_other);
        OK(MPI_Win_flush(target, win));
        get_all(target, rank, found);
        OK(MPI_Win_flush_local(target, win));
        check_found(rank, 200 + round, found);
        memset(found, 0, SMALL * sizeof(long));
        MPI_Request requests[SMALL];
        for (int i = 0; i < SMALL; i++)
            OK(MPI_Rget(found + i, 1, MPI_LONG, target, at(target, share(rank) + i), 1, MPI_LONG, win,
                        requests + i));
        OK(MPI_Waitall(SMALL, requests, MPI_STATUSES_IGNORE));
        check_found(rank, 200 + round, found);
        OK(MPI_Win_unlock(target, win));
        compute(round);
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win));
        check_all(from, 200 + round);
        OK(MPI_Win_unlock(rank, win));
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    free(source);
    free(found);
}

/* Accumulates of one origin to one place come in the order of the calls (section 12.7.2), whatever their length: a word
 * alone, a stretch that begins with it, one with gaps. */
static void order(MPI_Datatype every_other) {
    long *source = allocate(LONG * sizeof(long)), before[SMALL], two;
    size_t place = share(rank) + SMALL;
    int target = (rank + 1) % ranks;
    OK(MPI_Win_lock_all(0, win));
    for (int round = 0; round < 60; round++) {
        for (int k = 0; k < LONG; k++)
            source[k] = 3 + k;
        long start = round + 5, twice = 2, one = 1, sum = 2 * start + 3, compare = 2 * sum + 1;
        OK(MPI_Accumulate(&start, 1, MPI_LONG, target, at(target, place), 1, MPI_LONG, MPI_REPLACE, win));
        OK(MPI_Accumulate(&twice, 1, MPI_LONG, target, at(target, place), 1, MPI_LONG, MPI_PROD, win));
        if (round % 3 == 0)
            OK(MPI_Accumulate(source, LONG, MPI_LONG, target, at(target, place), LONG, MPI_LONG, MPI_SUM,
                              win));
        else if (round % 3 == 1)
            OK(MPI_Accumulate(source, 1, every_other, target, at(target, place), 1, every_other, MPI_SUM,
                              win));
        else
            OK(MPI_Accumulate(source, 1, MPI_LONG, target, at(target, place), 1, MPI_LONG, MPI_SUM, win));
        OK(MPI_Get_accumulate(&twice, 1, MPI_LONG, before, 1, MPI_LONG, target, at(target, place), 1, MPI_LONG,
                              MPI_PROD, win));
        OK(MPI_Fetch_and_op(&one, before + 1, MPI_LONG, target, at(target, place), MPI_SUM, win));
        OK(MPI_Compare_and_swap(&one, &compare, before + 2, MPI_LONG, target, at(target, place), win));
        OK(MPI_Get_accumulate(NULL, 0, MPI_LONG, &two, 1, MPI_LONG, target, at(target, place), 1, MPI_LONG,
                              MPI_NO_OP, win));
        OK(MPI_Win_flush(target, win));
        CHECK_EQ(before[0], sum);
        CHECK_EQ(before[1], 2 * sum);
        CHECK_EQ(before[2], compare);
        CHECK_EQ(two, 1);
        compute(round);
    }
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    free(source);
}

/* Counters that all change at once, by words and as parts of long accumulates. */
enum { ADDS = 300 };

static void *add(void *number) {
    long one = 1, ones[600], before[ADDS];
    size_t counters = share(ranks);
    unsigned state = (unsigned)(rank * 7 + *(int *)number);
    for (int i = 0; i < 600; i++)
        ones[i] = 1;
    for (int i = 0; i < ADDS; i++) {
        int target = (int)((state = state * 1103515245u + 12345u) >> 16) % ranks;
        OK(MPI_Accumulate(&one, 1, MPI_LONG, target, at(target, counters), 1, MPI_LONG, MPI_SUM, win));
        OK(MPI_Fetch_and_op(&one, before + i, MPI_LONG, target, at(target, counters + 1), MPI_SUM, win));
        OK(MPI_Accumulate(ones, i % 5 ? 3 : 600, MPI_LONG, target,
                          at(target, counters + 4 - (i % 5 ? 3 : 600)), i % 5 ? 3 : 600, MPI_LONG, MPI_SUM,
                          win));
        if (i % 7 == 0)
            OK(MPI_Win_flush(target, win));
        if (i % 50 == 0)
            usleep(200);
    }
    /* The results come to memory of this call's. */
    OK(MPI_Win_flush_all(win));
    for (int i = 0; i < ADDS; i++)
        CHECK(before[i] >= 0 && before[i] < 4L * ADDS * ranks);
    return NULL;
}

static void counts(void) {
    long *own = memory + share(ranks), sums[4], mine[4];
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win));
    memset(own - 600, 0, (600 + 8) * sizeof(long));
    OK(MPI_Win_unlock(rank, win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock_all(0, win));
    pthread_t helper;
    int zero = 0, first = 1;
    if (threads)
        CHECK(pthread_create(&helper, NULL, add, &zero) == 0);
    add(&first);
    if (threads)
        CHECK(pthread_join(helper, NULL) == 0);
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win));
    memcpy(mine, own, sizeof mine);
    OK(MPI_Win_unlock(rank, win));
    OK(MPI_Allreduce(mine, sums, 4, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
    long each = (long)ADDS * ranks * (threads ? 2 : 1);
    /* The first word is counted up alone; all are parts of the longer ones, which end at the fourth. */
    CHECK_EQ(sums[0], each + each / 5);
    CHECK_EQ(sums[1], each + each);
    CHECK_EQ(sums[2], each);
    CHECK_EQ(sums[3], each);
}

static void all_of_it(MPI_Datatype every_other) {
    fences(every_other);
    posts(every_other);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    locks(every_other);
    order(every_other);
    counts();
}

int main(int argc, char **argv) {
    int provided;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    check_rank = rank = world_rank();
    ranks = world_size();
    threads = provided == MPI_THREAD_MULTIPLE;
    MPI_Datatype every_other;
    OK(MPI_Type_vector(30, 1, 2, MPI_LONG, &every_other));
    OK(MPI_Type_commit(&every_other));
    memory = calloc(total(), sizeof(long));
    CHECK(memory != NULL);
    OK(MPI_Win_create(memory, (MPI_Aint)(total() * sizeof(long)), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD,
                      &win));
    all_of_it(every_other);
    OK(MPI_Win_free(&win));
    memset(memory, 0, total() * sizeof(long));
    dynamic = 1;
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    OK(MPI_Win_attach(win, memory, (MPI_Aint)(total() * sizeof(long))));
    MPI_Aint own;
    OK(MPI_Get_address(memory, &own));
    OK(MPI_Allgather(&own, 1, MPI_AINT, bases, 1, MPI_AINT, MPI_COMM_WORLD));
    all_of_it(every_other);
    OK(MPI_Win_detach(win, memory));
    OK(MPI_Win_free(&win));
    OK(MPI_Type_free(&every_other));
    free(memory);
    OK(MPI_Finalize());
    return 0;
}
