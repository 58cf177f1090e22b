/* Threads of several ranks use one window at the same time.
 *
 * ranks: 2 4
 * cflags: -pthread
 */
#include "rma.h"
#include <pthread.h>

#define THREADS 4
#define ROUNDS 40

static struct window w;
static int size;

static void *work(void *argument)
{
    int self = *(int *)argument;
    for (int i = 0; i < ROUNDS; i++) {
        int target = (self + i) % size;
        int64_t one = 1, old = -1, value[8], back[8];
        for (int j = 0; j < 8; j++) {
            value[j] = check_rank * 1000 + self * 100 + i + j;
        }
        /* Each thread of each rank has a place of its own in each target. */
        MPI_Aint place = w.start[target] + 64 + 64 * (check_rank * THREADS + self);
        OK(MPI_Fetch_and_op(&one, &old, MPI_INT64_T, target, w.start[target], MPI_SUM, w.win));
        OK(MPI_Put(value, 8, MPI_INT64_T, target, place, 8, MPI_INT64_T, w.win));
        OK(MPI_Win_flush(target, w.win));
        CHECK(old >= 0);
        MPI_Request request;
        OK(MPI_Rget(back, 8, MPI_INT64_T, target, place, 8, MPI_INT64_T, w.win, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK(memcmp(value, back, sizeof value) == 0);
        long double quarter = 0.25L;
        OK(MPI_Accumulate(&quarter, 1, MPI_LONG_DOUBLE, target, w.start[target] + 16, 1,
                          MPI_LONG_DOUBLE, MPI_SUM, w.win));
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int provided;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    world_rank();
    size = world_size();
    for (int kind = 0; kind < KINDS; kind++) {
        pthread_t threads[THREADS];
        int numbers[THREADS];
        w = window_make((enum kind)kind, 64 + 64 * size * THREADS, 1);
        OK(MPI_Win_lock_all(0, w.win));
        for (int i = 0; i < THREADS; i++) {
            numbers[i] = i;
            CHECK_EQ(pthread_create(&threads[i], NULL, work, &numbers[i]), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            CHECK_EQ(pthread_join(threads[i], NULL), 0);
        }
        OK(MPI_Win_unlock_all(w.win));
        OK(MPI_Barrier(MPI_COMM_WORLD));
        int64_t mine = 0, all = 0;
        memcpy(&mine, w.base, 8);
        OK(MPI_Allreduce(&mine, &all, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD));
        CHECK_EQ(all, size * THREADS * ROUNDS);
        CHECK(*(long double *)(w.base + 16) == mine / 4.0L);
        window_free(&w);
    }
    OK(MPI_Finalize());
    return 0;
}
