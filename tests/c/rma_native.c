/* Puts and gets between nodes use the network's remote memory access if it has any, by performance variables. Data of
 * every layout arrive over any path, requests complete, and another thread's continuous puts delay no flush.
 *
 * ranks: 2
 * variants: ofi hosts ucx verbs verbs-hosts ofi-verbs ucx-verbs
 * cflags: -pthread
 * case: native
 * case: messages
 */
#include "rma.h"
#include <pthread.h>
#include <stdatomic.h>

enum { LONG = 1 << 20, SIZE = LONG + 4096 };

static int rank, size, native;
static MPI_T_pvar_session session;
static MPI_T_pvar_handle puts_, gets_;

static MPI_T_pvar_handle counter(const char *name) {
    MPI_T_pvar_handle handle;
    int index, count;
    OK(MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_COUNTER, &index));
    OK(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count));
    OK(MPI_T_pvar_start(session, handle));
    return handle;
}

static unsigned long count(MPI_T_pvar_handle handle) {
    unsigned long value;
    OK(MPI_T_pvar_read(session, handle, &value));
    return value;
}

static void pattern(char *data, int len, int seed) {
    for (int i = 0; i < len; i++) {
        data[i] = (char)(i * 7 + i / 251 + seed);
    }
}

/* Lengths around what transports treat differently, at places that are not aligned. */
static void lengths(struct window *w, int other) {
    static const int LENGTHS[] = {1, 7, 8, 500, 4095, 4096, 4097, 20000, 70001, LONG};
    enum { HOW_MANY = sizeof LENGTHS / sizeof *LENGTHS };
    /* Where everything is emulated, long messages take long. */
    int how_many = native ? HOW_MANY : HOW_MANY - 2;
    char *data = allocate(SIZE), *back = allocate(SIZE);
    unsigned long puts = count(puts_), gets = count(gets_);
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, other, 0, w->win));
    for (int i = 0; i < how_many; i++) {
        int len = LENGTHS[i], at = i * 13 % 29;
        pattern(data, len, i + rank);
        memset(back, 0, (size_t)len + 1);
        OK(MPI_Put(data, len, MPI_CHAR, other, w->start[other] + at, len, MPI_CHAR, w->win));
        OK(MPI_Win_flush(other, w->win));
        OK(MPI_Get(back, len, MPI_CHAR, other, w->start[other] + at, len, MPI_CHAR, w->win));
        OK(MPI_Win_flush_local(other, w->win));
        CHECK_EQ(memcmp(data, back, (size_t)len), 0);
        CHECK_EQ(back[len], 0);
        /* The buffer is the program's again when the request is complete. */
        MPI_Request request;
        pattern(data, len, i + rank + 1);
        OK(MPI_Rput(data, len, MPI_CHAR, other, w->start[other] + at, len, MPI_CHAR, w->win, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        memset(data, 0, (size_t)len);
        OK(MPI_Win_flush(other, w->win));
        OK(MPI_Rget(back, len, MPI_CHAR, other, w->start[other] + at, len, MPI_CHAR, w->win, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        pattern(data, len, i + rank + 1);
        CHECK_EQ(memcmp(data, back, (size_t)len), 0);
    }
    OK(MPI_Win_unlock(other, w->win));
    if (w->kind != DYNAMIC) {
        CHECK_EQ(count(puts_) - puts, native ? 2 * how_many : 0);
        CHECK_EQ(count(gets_) - gets, native ? 2 * how_many : 0);
    }
    free(data);
    free(back);
}

/* Gaps on either side: few long runs go one by one, many short ones in a message, unless the target's processor is
 * not to be needed: over verbs all go one by one. */
static void gaps(struct window *w, int other) {
    const char *netmod = getenv("WEFT_NETMOD");
    int passive = netmod != NULL && strcmp(netmod, "verbs") == 0;
    char *data = allocate(SIZE), *back = allocate(SIZE);
    MPI_Datatype few, many;
    OK(MPI_Type_vector(3, 3000, 5000, MPI_CHAR, &few));
    OK(MPI_Type_vector(1500, 6, 9, MPI_CHAR, &many));
    OK(MPI_Type_commit(&few));
    OK(MPI_Type_commit(&many));
    MPI_Datatype types[] = {few, many, MPI_CHAR};
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, other, 0, w->win));
    for (int here = 0; here < 3; here++) {
        for (int there = 0; there < 3; there++) {
            MPI_Datatype mine = types[here], theirs = types[there];
            int my_count = here == 2 ? 9000 : 1, their_count = there == 2 ? 9000 : 1;
            char packed[2][9000];
            int place = 0;
            unsigned long puts = count(puts_);
            pattern(data, SIZE, here * 3 + there);
            memset(back, 0, SIZE);
            OK(MPI_Put(data, my_count, mine, other, w->start[other], their_count, theirs, w->win));
            OK(MPI_Win_flush(other, w->win));
            OK(MPI_Get(back, my_count, mine, other, w->start[other], their_count, theirs, w->win));
            OK(MPI_Win_flush(other, w->win));
            OK(MPI_Pack(data, my_count, mine, packed[0], 9000, &place, MPI_COMM_WORLD));
            place = 0;
            OK(MPI_Pack(back, my_count, mine, packed[1], 9000, &place, MPI_COMM_WORLD));
            CHECK_EQ(memcmp(packed[0], packed[1], 9000), 0);
            if (w->kind != DYNAMIC) {
                CHECK_EQ(count(puts_) - puts, native && (there != 1 || passive));
            }
        }
    }
    OK(MPI_Win_unlock(other, w->win));
    OK(MPI_Type_free(&few));
    OK(MPI_Type_free(&many));
    free(data);
    free(back);
}

/* What a fence, or complete and wait, end is in the memory. */
static void epochs(struct window *w) {
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    MPI_Group world, one, other;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_incl(world, 1, &to, &one));
    OK(MPI_Group_incl(world, 1, &from, &other));
    for (int round = 0; round < 16; round++) {
        int len = round % 4 == 3 ? 100000 : 8 << round % 4;
        char *data = allocate((size_t)len), *expected = allocate((size_t)len);
        pattern(data, len, rank + round);
        pattern(expected, len, from + round);
        if (round < 8) {
            OK(MPI_Win_fence(0, w->win));
            OK(MPI_Put(data, len, MPI_CHAR, to, w->start[to], len, MPI_CHAR, w->win));
            OK(MPI_Win_fence(0, w->win));
        } else {
            OK(MPI_Win_post(other, 0, w->win));
            OK(MPI_Win_start(one, 0, w->win));
            OK(MPI_Put(data, len, MPI_CHAR, to, w->start[to], len, MPI_CHAR, w->win));
            OK(MPI_Win_complete(w->win));
            OK(MPI_Win_wait(w->win));
        }
        CHECK_EQ(memcmp(w->base, expected, (size_t)len), 0);
        free(data);
        free(expected);
        /* The next data comes only when this has been looked at. */
        OK(MPI_Barrier(MPI_COMM_WORLD));
        if (round == 7) {
            OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win));
        }
    }
    OK(MPI_Group_free(&world));
    OK(MPI_Group_free(&one));
    OK(MPI_Group_free(&other));
}

static struct window shared;
static atomic_int stop;
static int target;

static void *put_on(void *unused) {
    char data[64] = {1};
    while (!stop) {
        OK(MPI_Put(data, 64, MPI_CHAR, target, shared.start[target], 64, MPI_CHAR, shared.win));
    }
    return unused;
}

/* A flush waits for what came before it. */
static void threads(void) {
    pthread_t thread;
    char data[4096] = {2};
    target = (rank + 1) % size;
    OK(MPI_Win_lock_all(0, shared.win));
    stop = 0;
    CHECK_EQ(pthread_create(&thread, NULL, put_on, NULL), 0);
    for (int i = 0; i < 10; i++) {
        OK(MPI_Put(data, 4096, MPI_CHAR, target, shared.start[target] + 4096, 4096, MPI_CHAR,
                   shared.win));
        OK(MPI_Win_flush(target, shared.win));
    }
    stop = 1;
    CHECK_EQ(pthread_join(thread, NULL), 0);
    OK(MPI_Win_unlock_all(shared.win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

int main(int argc, char **argv) {
    int provided;
    CHECK_EQ(argc, 2);
    native = strcmp(argv[1], "native") == 0;
    setenv("WEFT_RMA_NATIVE", native ? "1" : "0", 1);
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    OK(MPI_T_pvar_session_create(&session));
    rank = world_rank();
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    puts_ = counter("rma_native_puts");
    gets_ = counter("rma_native_gets");
    for (int kind = 0; kind <= DYNAMIC; kind++) {
        if (kind == SHARED) {
            continue;
        }
        struct window w = window_make((enum kind)kind, SIZE, 1);
        for (int turn = 0; turn < size; turn++) {
            if (turn == rank) {
                int other = (rank + 1) % size;
                lengths(&w, other);
                gaps(&w, other);
            }
            OK(MPI_Barrier(MPI_COMM_WORLD));
        }
        epochs(&w);
        if (kind == ALLOCATED) {
            shared = w;
            threads();
        }
        window_free(&w);
    }
    OK(MPI_Finalize());
    return 0;
}
