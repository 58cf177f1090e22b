/* A thread that waits on one VCI progresses requests on others. Without this (a control variable turns it off) the
 * same program hangs, which is tested, too.
 * ranks: 2
 * variants: shm ofi
 * cflags: -pthread
 * timeout: 30
 * case: hybrid
 * case: global
 * case: alone
 * exit: 42
 * stderr: it hangs
 */
#include "check.h"
#include <pthread.h>

static MPI_Comm comms[2];
static pthread_barrier_t both;
static _Atomic int ended;

static void *receive(void *argument) {
    int thread = *(int *)argument;
    char byte = 0;
    MPI_Request request;
    OK(MPI_Irecv(&byte, 1, MPI_CHAR, 0, 0, comms[thread], &request));
    pthread_barrier_wait(&both);
    if (thread == 0) {
        pthread_barrier_wait(&both);
    }
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    if (thread == 1) {
        pthread_barrier_wait(&both);
    }
    CHECK_EQ(byte, 1 + thread);
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
    int provided, numbers[] = {0, 1}, hangs = strcmp(argv[1], "alone") == 0;
    if (hangs) {
        setenv("WEFT_PROGRESS_ROUND", "0", 1);
    } else if (strcmp(argv[1], "global") == 0) {
        setenv("WEFT_PROGRESS_ROUND", "1", 1);
    }
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    MPI_Info info;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "weft_num_vcis", "1"));
    for (int i = 0; i < 2; i++) {
        OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comms[i]));
    }
    OK(MPI_Info_free(&info));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (world_rank() == 0) {
        pthread_t watcher;
        if (hangs) {
            CHECK_EQ(pthread_create(&watcher, NULL, watch, NULL), 0);
        }
        for (char i = 0; i < 2; i++) {
            char byte = (char)(1 + i);
            OK(MPI_Ssend(&byte, 1, MPI_CHAR, 1, 0, comms[(int)i]));
        }
        ended = 1;
    } else {
        pthread_t threads[2];
        CHECK_EQ(pthread_barrier_init(&both, NULL, 2), 0);
        for (int i = 0; i < 2; i++) {
            CHECK_EQ(pthread_create(&threads[i], NULL, receive, &numbers[i]), 0);
        }
        for (int i = 0; i < 2; i++) {
            CHECK_EQ(pthread_join(threads[i], NULL), 0);
        }
    }
    for (int i = 0; i < 2; i++) {
        OK(MPI_Comm_free(&comms[i]));
    }
    OK(MPI_Finalize());
    return 0;
}
