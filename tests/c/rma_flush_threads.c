/* A flush completes its thread's accesses even while another thread's flush of the same kind waits for a target
 * without progress.
 * ranks: 2
 * variants: shm tcp ofi
 * cflags: -pthread
 */
#include "rma.h"
#include <pthread.h>
#include <unistd.h>

enum { COUNT = 12 };

static MPI_Win win;

static void *flush(void *all)
{
    OK(all ? MPI_Win_flush_all(win) : MPI_Win_flush(1, win));
    return NULL;
}

static void together(const char *vcis, int all)
{
    MPI_Info info;
    int64_t *base, two = 2, old = -1, got = -1;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "weft_num_vcis", vcis));
    OK(MPI_Win_allocate(8, 8, info, MPI_COMM_WORLD, &base, &win));
    OK(MPI_Info_free(&info));
    *base = 1;
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock_all(0, win));
    if (check_rank == 0) {
        pthread_t thread;
        /* Makes sure that the lock is held. */
        OK(MPI_Fetch_and_op(NULL, &old, MPI_INT64_T, 1, 0, MPI_NO_OP, win));
        OK(MPI_Win_flush(1, win));
        OK(MPI_Send(NULL, 0, MPI_INT, 1, 0, MPI_COMM_WORLD));
        usleep(100000);
        for (int i = 0; i < COUNT; i++) {
            OK(MPI_Accumulate(&two, 1, MPI_INT64_T, 1, 0, 1, MPI_INT64_T, MPI_PROD, win));
        }
        CHECK(pthread_create(&thread, NULL, flush, all ? &two : NULL) == 0);
        usleep(100000);
        flush(all ? &two : NULL);
        OK(MPI_Fetch_and_op(NULL, &old, MPI_INT64_T, 1, 0, MPI_NO_OP, win));
        OK(MPI_Get(&got, 1, MPI_INT64_T, 1, 0, 1, MPI_INT64_T, win));
        OK(MPI_Win_flush(1, win));
        CHECK(old == 1 << COUNT);
        CHECK(got == 1 << COUNT);
        CHECK(pthread_join(thread, NULL) == 0);
    } else {
        OK(MPI_Recv(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        usleep(400000);
    }
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_free(&win));
}

int main(int argc, char **argv)
{
    int provided;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    CHECK(provided == MPI_THREAD_MULTIPLE);
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &check_rank));
    together("1", 0);
    together("3", 0);
    together("1", 1);
    OK(MPI_Finalize());
    return 0;
}
