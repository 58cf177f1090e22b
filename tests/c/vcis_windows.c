/* Windows with their own VCIs: the hints in force, threads that share several VCIs, ordered and unordered accumulates,
 * all kinds of synchronization, and flushes that end while another thread continues.
 * ranks: 1 2 3
 * variants: shm shm-2copy ofi
 * env: WEFT_NUM_VCIS=8
 * cflags: -pthread
 * timeout: 60
 */
#include "vcis.h"
#include <pthread.h>

enum { THREADS = 3, ROUNDS = 40, CELLS = 64, LONG = 3000 };

static int rank, size;
static MPI_Win win;
static long *base;
static _Atomic int over;

static MPI_Win make(const char *text, int created) {
    MPI_Info info = text ? hints(text) : MPI_INFO_NULL;
    MPI_Aint bytes = (MPI_Aint)sizeof(long) * THREADS * (CELLS + LONG);
    if (created) {
        base = (long *)allocate((size_t)bytes);
        OK(MPI_Win_create(base, bytes, sizeof(long), info, MPI_COMM_WORLD, &win));
    } else {
        OK(MPI_Win_allocate(bytes, sizeof(long), info, MPI_COMM_WORLD, &base, &win));
    }
    if (text) {
        OK(MPI_Info_free(&info));
    }
    memset(base, 0, (size_t)bytes);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    return win;
}

/* Each thread has cells in the right neighbour's memory; cell 0 is everybody's. */
static void *work(void *argument) {
    int thread = *(int *)argument, right = (rank + 1) % size;
    MPI_Aint mine = thread * (CELLS + LONG);
    long *data = (long *)allocate(sizeof(long) * LONG), *back = (long *)allocate(sizeof(long) * LONG);
    for (int round = 1; round <= ROUNDS; round++) {
        long one = 1, value = round * 100 + thread, got = -1, old = -1;
        int count = round % 8 == 0 ? LONG : 5;
        OK(MPI_Put(&value, 1, MPI_LONG, right, mine + 1, 1, MPI_LONG, win));
        for (int i = 0; i < count; i++) {
            data[i] = value + i;
            back[i] = -1;
        }
        OK(MPI_Put(data, count, MPI_LONG, right, mine + CELLS, count, MPI_LONG, win));
        OK(MPI_Accumulate(&one, 1, MPI_LONG, right, 0, 1, MPI_LONG, MPI_SUM, win));
        OK(MPI_Accumulate(&one, 1, MPI_LONG, right, mine + 2, 1, MPI_LONG, MPI_SUM, win));
        OK(MPI_Win_flush(right, win));
        OK(MPI_Get(&got, 1, MPI_LONG, right, mine + 1, 1, MPI_LONG, win));
        OK(MPI_Get(back, count, MPI_LONG, right, mine + CELLS, count, MPI_LONG, win));
        OK(MPI_Fetch_and_op(NULL, &old, MPI_LONG, right, mine + 2, MPI_NO_OP, win));
        OK(round % 2 ? MPI_Win_flush_local(right, win) : MPI_Win_flush_all(win));
        CHECK_EQ(got, value);
        CHECK_EQ(old, round);
        CHECK_EQ(memcmp(data, back, sizeof(long) * (size_t)count), 0);
        MPI_Request request;
        got = -1;
        OK(MPI_Rget(&got, 1, MPI_LONG, right, mine + 1, 1, MPI_LONG, win, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK_EQ(got, value);
        long expected = round - 1;
        OK(MPI_Compare_and_swap(&(long){round}, &expected, &got, MPI_LONG, right, mine + 3, win));
        OK(MPI_Win_flush(right, win));
        CHECK_EQ(got, expected);
    }
    free(data);
    free(back);
    return NULL;
}

static void threads_work(void) {
    pthread_t threads[THREADS];
    int numbers[THREADS];
    OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        CHECK_EQ(pthread_create(&threads[i], NULL, work, &numbers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win));
    CHECK_EQ(base[0], THREADS * ROUNDS);
    OK(MPI_Win_unlock(rank, win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* Puts by all threads must be there after each kind of epoch. */
static void *put(void *argument) {
    long value = *(long *)argument;
    OK(MPI_Put(&value, 1, MPI_LONG, (rank + 1) % size, 10 + value % 10, 1, MPI_LONG, win));
    return NULL;
}

static void put_by_threads(long round) {
    pthread_t threads[THREADS];
    long values[THREADS];
    for (int i = 0; i < THREADS; i++) {
        values[i] = round * 10 + i;
        CHECK_EQ(pthread_create(&threads[i], NULL, put, &values[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
}

static void arrived(long round) {
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(base[10 + i], round * 10 + i);
    }
}

static void epochs(void) {
    MPI_Group all, left, right;
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    OK(MPI_Win_get_group(win, &all));
    OK(MPI_Group_incl(all, 1, &to, &right));
    OK(MPI_Group_incl(all, 1, &from, &left));
    OK(MPI_Win_fence(0, win));
    put_by_threads(1);
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    arrived(1);
    OK(MPI_Win_post(left, 0, win));
    OK(MPI_Win_start(right, 0, win));
    put_by_threads(2);
    OK(MPI_Win_complete(win));
    OK(MPI_Win_wait(win));
    arrived(2);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, win));
    put_by_threads(3);
    OK(MPI_Win_unlock(to, win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    arrived(3);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Group_free(&all));
    OK(MPI_Group_free(&left));
    OK(MPI_Group_free(&right));
}

static void *go_on(void *unused) {
    long values[8][8], value = 3;
    int to = (rank + 1) % size;
    for (int round = 0; !over; round++) {
        for (int i = 0; i < 8; i++) {
            OK(MPI_Get(&values[round % 8][i], 1, MPI_LONG, to, 1, 1, MPI_LONG, win));
        }
        OK(MPI_Put(&value, 1, MPI_LONG, to, 20, 1, MPI_LONG, win));
        if (round % 8 == 0) {
            OK(MPI_Win_flush_local(to, win));
        }
    }
    OK(MPI_Win_flush(to, win));
    return unused;
}

static void flush_beside(void) {
    pthread_t thread;
    long value = 7;
    int to = (rank + 1) % size;
    over = 0;
    OK(MPI_Win_lock_all(0, win));
    CHECK_EQ(pthread_create(&thread, NULL, go_on, NULL), 0);
    for (int i = 0; i < 8; i++) {
        OK(MPI_Put(&value, 1, MPI_LONG, to, 30, 1, MPI_LONG, win));
        OK(i % 2 ? MPI_Win_flush(to, win) : MPI_Win_flush_all(win));
    }
    over = 1;
    CHECK_EQ(pthread_join(thread, NULL), 0);
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void all(void) {
    threads_work();
    epochs();
    flush_beside();
}

static void end(int created) {
    long *memory = base;
    OK(MPI_Win_free(&win));
    if (created) {
        free(memory);
    }
}

int main(int argc, char **argv) {
    int provided;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    rank = world_rank(), size = world_size();

    make(NULL, 0);
    CHECK(win_has(win, "weft_num_vcis", ""));
    all();
    end(0);
    make("weft_num_vcis=1", 1);
    CHECK(win_has(win, "weft_num_vcis", "1"));
    /* A window keeps the VCIs that it has. */
    MPI_Info info = hints("weft_num_vcis=3 vci=2 accumulate_ordering=none");
    OK(MPI_Win_set_info(win, info));
    OK(MPI_Info_free(&info));
    CHECK(win_has(win, "weft_num_vcis", "1") && win_has(win, "vci", ""));
    all();
    end(1);
    for (int created = 0; created < 2; created++) {
        make("weft_num_vcis=3", created);
        CHECK(win_has(win, "weft_num_vcis", "3"));
        all();
        end(created);
        make("weft_num_vcis=4 accumulate_ordering=none", created);
        CHECK(win_has(win, "weft_num_vcis", "4") && win_has(win, "accumulate_ordering", "none"));
        all();
        end(created);
    }
    make("vci=5", 0);
    CHECK(win_has(win, "vci", "5"));
    all();
    end(0);
    /* No such VCI; no promise that messages could be received by one thread; not all say the same. */
    make("vci=8", 0);
    CHECK(win_has(win, "vci", ""));
    end(0);
    make("weft_num_vcis=1 weft_lockless=true weft_tag_sender_bits=0:2", 0);
    CHECK(win_has(win, "weft_num_vcis", "1") && win_has(win, "weft_lockless", ""));
    CHECK(win_has(win, "weft_tag_sender_bits", ""));
    end(0);
    if (size > 1) {
        make(rank ? "weft_num_vcis=2" : "weft_num_vcis=1", 0);
        CHECK(win_has(win, "weft_num_vcis", ""));
        threads_work();
        end(0);
    }
    OK(MPI_Finalize());
    return 0;
}
