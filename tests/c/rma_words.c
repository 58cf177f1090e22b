/* Accumulates on single words of 8 bytes, which a transport may carry out by itself, between others that
 * go by messages: an origin's are carried out in order, and those of all origins one after another, also
 * where threads make progress.
 *
 * ranks: 2 4
 * variants: shm ofi hosts
 * cflags: -pthread
 */
#include <pthread.h>

#include "rma.h"

enum { ROUNDS = 200, WORDS = 64 };

static int64_t fetch(MPI_Win win, int target, int at, MPI_Op op, int64_t value)
{
    int64_t found = -1;
    OK(MPI_Fetch_and_op(&value, &found, MPI_INT64_T, target, 8 * at, op, win));
    OK(MPI_Win_flush(target, win));
    return found;
}

/* What each operation does, and what it finds. */
static void each(MPI_Win win, int target)
{
    CHECK_EQ(fetch(win, target, 0, MPI_REPLACE, 12), 0);
    CHECK_EQ(fetch(win, target, 0, MPI_SUM, -5), 12);
    CHECK_EQ(fetch(win, target, 0, MPI_BOR, 8), 7);
    CHECK_EQ(fetch(win, target, 0, MPI_BAND, 12), 15);
    CHECK_EQ(fetch(win, target, 0, MPI_BXOR, 5), 12);
    CHECK_EQ(fetch(win, target, 0, MPI_MAX, 100), 9);
    CHECK_EQ(fetch(win, target, 0, MPI_NO_OP, 77), 100);
    int64_t compare = 100, new = 3, found = 0;
    OK(MPI_Compare_and_swap(&new, &compare, &found, MPI_INT64_T, target, 0, win));
    OK(MPI_Win_flush(target, win));
    CHECK_EQ(found, 100);
    OK(MPI_Compare_and_swap(&compare, &compare, &found, MPI_INT64_T, target, 0, win));
    OK(MPI_Win_flush(target, win));
    CHECK_EQ(found, 3);
    double half = 0.5, was = 1;
    OK(MPI_Fetch_and_op(&half, &was, MPI_DOUBLE, target, 8, MPI_REPLACE, win));
    OK(MPI_Win_flush(target, win));
    CHECK(was == 0);
    OK(MPI_Fetch_and_op(&half, &was, MPI_DOUBLE, target, 8, MPI_SUM, win));
    OK(MPI_Win_flush(target, win));
    CHECK(was == 0.5);
    OK(MPI_Fetch_and_op(NULL, &was, MPI_DOUBLE, target, 8, MPI_NO_OP, win));
    OK(MPI_Win_flush(target, win));
    CHECK(was == 1);
    /* Results and words that are not aligned. */
    char place[24] = {0};
    int64_t one = 1;
    OK(MPI_Get_accumulate(&one, 1, MPI_INT64_T, place + 3, 1, MPI_INT64_T, target, 20, 1, MPI_INT64_T,
                          MPI_SUM, win));
    OK(MPI_Win_flush(target, win));
    OK(MPI_Get_accumulate(&one, 1, MPI_INT64_T, place + 5, 1, MPI_INT64_T, target, 20, 1, MPI_INT64_T,
                          MPI_SUM, win));
    OK(MPI_Win_flush(target, win));
    memcpy(&found, place + 5, 8);
    CHECK_EQ(found, 1);
    /* Beyond the memory nothing is done. */
    FAILS(MPI_Fetch_and_op(&one, &found, MPI_INT64_T, target, 8 * WORDS - 4, MPI_SUM, win),
          MPI_ERR_RMA_RANGE);
    MPI_Request request;
    OK(MPI_Rget_accumulate(&one, 1, MPI_INT64_T, &found, 1, MPI_INT64_T, target, 0, 1, MPI_INT64_T,
                           MPI_SUM, win, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_EQ(found, 3);
}

/* One word and several by turns, in bursts of several lengths: each finds what those before have left. */
static void in_order(MPI_Win win, int target)
{
    int64_t next = 0, three[3], found[40];
    OK(MPI_Win_flush(target, win));
    for (int burst = 1; burst <= 40; burst++) {
        for (int i = 0; i < burst; i++) {
            if ((i + burst) % 3 == 0) {
                three[0] = three[1] = three[2] = next;
                OK(MPI_Accumulate(three, 3, MPI_INT64_T, target, 8 * 10, 3, MPI_INT64_T, MPI_REPLACE, win));
                OK(MPI_Win_flush_local(target, win));
            } else {
                OK(MPI_Accumulate(&next, 1, MPI_INT64_T, target, 8 * 10, 1, MPI_INT64_T, MPI_REPLACE, win));
                OK(MPI_Win_flush_local(target, win));
            }
            OK(MPI_Fetch_and_op(NULL, &found[i], MPI_INT64_T, target, 8 * 10, MPI_NO_OP, win));
            next++;
        }
        OK(MPI_Win_flush(target, win));
        for (int i = 0; i < burst; i++)
            CHECK_EQ(found[i], next - burst + i);
    }
}

static void *add(void *argument)
{
    MPI_Win win = *(MPI_Win *)argument;
    int64_t two[2] = {1, 1}, found;
    for (int i = 0; i < ROUNDS; i++) {
        OK(MPI_Fetch_and_op(two, &found, MPI_INT64_T, 0, 8 * 20, MPI_SUM, win));
        if (i % 4 == 0)
            OK(MPI_Win_flush(0, win));
        OK(MPI_Accumulate(two, 2, MPI_INT64_T, 0, 8 * 20, 2, MPI_INT64_T, MPI_SUM, win));
        if (i % 7 == 0)
            OK(MPI_Win_flush(0, win));
    }
    OK(MPI_Win_flush(0, win));
    return NULL;
}

int main(int argc, char **argv)
{
    int level;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level));
    CHECK_EQ(level, MPI_THREAD_MULTIPLE);
    int rank = world_rank(), size = world_size();
    for (int kind = CREATED; kind <= ALLOCATED; kind++) {
        struct window w = window_make((enum kind)kind, 8 * WORDS, 1);
        OK(MPI_Win_set_errhandler(w.win, MPI_ERRORS_RETURN));
        OK(MPI_Win_lock_all(0, w.win));
        if (rank == size - 1) {
            each(w.win, 0);
            in_order(w.win, 0);
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
        pthread_t other;
        CHECK_EQ(pthread_create(&other, NULL, add, &w.win), 0);
        add(&w.win);
        CHECK_EQ(pthread_join(other, NULL), 0);
        OK(MPI_Barrier(MPI_COMM_WORLD));
        if (rank == 0) {
            CHECK_EQ(fetch(w.win, 0, 20, MPI_NO_OP, 0), 4 * ROUNDS * size);
            CHECK_EQ(fetch(w.win, 0, 21, MPI_NO_OP, 0), 2 * ROUNDS * size);
        }
        OK(MPI_Win_unlock_all(w.win));
        window_free(&w);
    }
    OK(MPI_Finalize());
    return 0;
}
