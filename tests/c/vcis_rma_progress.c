/* Two processes, one of them with two threads, read from each other by windows that have a VCI each,
 * and wait in opposite orders. A thread that waits on one VCI also progresses requests on others. Without this
 * (a control variable turns it off) the same program hangs, which is tested, too.
 * ranks: 2
 * variants: ofi
 * cflags: -pthread
 * timeout: 30
 * case: hybrid
 * case: global
 * case: alone
 * exit: 42
 * stderr: it hangs
 */
#include "vcis.h"
#include <pthread.h>

static MPI_Win wins[2];
static int *bases[2], other;
static pthread_barrier_t both;
static _Atomic int ended;

static void *read_(void *argument) {
    int thread = *(int *)argument, value = -1;
    OK(MPI_Get(&value, 1, MPI_INT, other, 0, 1, MPI_INT, wins[thread]));
    pthread_barrier_wait(&both);
    if (thread == 0) {
        pthread_barrier_wait(&both);
    }
    OK(MPI_Win_flush(other, wins[thread]));
    if (thread == 1) {
        pthread_barrier_wait(&both);
    }
    CHECK_EQ(value, 10 * other + thread);
    return NULL;
}

static void *watch(void *unused) {
    nap(1);
    if (!ended) {
        fprintf(stderr, "it hangs\n");
        MPI_Abort(MPI_COMM_WORLD, 42);
    }
    return unused;
}

int main(int argc, char **argv) {
    CHECK_EQ(argc, 2);
    int provided, numbers[] = {0, 1}, values[2] = {-1, -1}, hangs = strcmp(argv[1], "alone") == 0;
    if (hangs) {
        setenv("WEFT_PROGRESS_ROUND", "0", 1);
    } else if (strcmp(argv[1], "global") == 0) {
        setenv("WEFT_PROGRESS_ROUND", "1", 1);
    }
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    int rank = world_rank();
    other = 1 - rank;
    MPI_Info info = hints("weft_num_vcis=1");
    for (int i = 0; i < 2; i++) {
        OK(MPI_Win_allocate(sizeof(int), sizeof(int), info, MPI_COMM_WORLD, &bases[i], &wins[i]));
        CHECK(win_has(wins[i], "weft_num_vcis", "1"));
        *bases[i] = 10 * rank + i;
        OK(MPI_Win_lock_all(MPI_MODE_NOCHECK, wins[i]));
    }
    OK(MPI_Info_free(&info));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0) {
        pthread_t watcher;
        if (hangs) {
            CHECK_EQ(pthread_create(&watcher, NULL, watch, NULL), 0);
        }
        for (int i = 0; i < 2; i++) {
            OK(MPI_Get(&values[i], 1, MPI_INT, 1, 0, 1, MPI_INT, wins[i]));
        }
        for (int i = 0; i < 2; i++) {
            OK(MPI_Win_flush(1, wins[i]));
            CHECK_EQ(values[i], 10 + i);
        }
        ended = 1;
    } else {
        pthread_t threads[2];
        CHECK_EQ(pthread_barrier_init(&both, NULL, 2), 0);
        for (int i = 0; i < 2; i++) {
            CHECK_EQ(pthread_create(&threads[i], NULL, read_, &numbers[i]), 0);
        }
        for (int i = 0; i < 2; i++) {
            CHECK_EQ(pthread_join(threads[i], NULL), 0);
        }
    }
    for (int i = 0; i < 2; i++) {
        OK(MPI_Win_unlock_all(wins[i]));
        OK(MPI_Win_free(&wins[i]));
    }
    OK(MPI_Finalize());
    return 0;
}
