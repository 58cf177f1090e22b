/* WEFT_HANG: if no rank makes progress, the launcher reports which ranks wait for which, and the job continues. A job
 * in which a rank computes, or ranks progress now and then, is not reported.
 * ranks: 3
 * variants: shm tcp tcp-hosts
 * env: WEFT_HANG=1
 * timeout: 40
 * idle: yes
 * cflags: -pthread
 * case: computing
 * case: slow
 * case: thread
 * case: cycle
 * exit: 3
 * stderr: no rank has made progress for 1 second (WEFT_HANG); the job goes on
 * stderr: is waiting in MPI_Recv, called by main at 
 * stderr: They wait for each other: 0 -> 1 -> 2 -> 0
 * stderr: rank 0 has aborted the job itself
 * case: collective
 * exit: 3
 * stderr: of the collective: waits for rank 
 * stderr: , on 'solver'
 * stderr: in MPI_Allreduce on 'solver', called by main at 
 * stderr: rank 2 waits in MPI_Recv, called by main at 
 * stderr: rank 0 has aborted the job itself
 */
#define _GNU_SOURCE
#include "check.h"
#include <pthread.h>

static void *compute(void *seconds) {
    for (double end = MPI_Wtime() + *(double *)seconds; MPI_Wtime() < end;)
        ;
    return NULL;
}

static void *compute_and_send(void *seconds) {
    compute(seconds);
    OK(MPI_Send(&(int){1}, 1, MPI_INT, 2, 0, MPI_COMM_WORLD));
    return NULL;
}

/* The job goes on after what is told: it ends much later, by this. */
static void *end_it(void *unused) {
    nap(6);
    fprintf(stderr, "rank 0 has aborted the job itself\n");
    MPI_Abort(MPI_COMM_WORLD, 3);
    return unused;
}

int main(int argc, char **argv) {
    int provided, data = 1, sum;
    pthread_t thread;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    CHECK_EQ(argc, 2);
    int rank = world_rank(), next = (rank + 1) % 3;
    MPI_Comm solver;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &solver));
    OK(MPI_Comm_set_name(solver, "solver"));
    if (strcmp(argv[1], "computing") == 0) {
        double seconds = 4;
        if (rank == 1)
            compute(&seconds);
        OK(MPI_Allreduce(&data, &sum, 1, MPI_INT, MPI_SUM, solver));
        CHECK_EQ(sum, 3);
    } else if (strcmp(argv[1], "slow") == 0) {
        /* Each waits longer than the limit in all, but not without anything happening. */
        for (int i = 0; i < 5; i++) {
            if (rank == i % 3)
                nap(0.6);
            OK(MPI_Barrier(solver));
        }
    } else if (strcmp(argv[1], "thread") == 0) {
        /* All wait in MPI while a thread computes. */
        double seconds = 3;
        if (rank == 0)
            OK(pthread_create(&thread, NULL, compute_and_send, &seconds));
        OK(MPI_Recv(&data, 1, MPI_INT, next, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        if (rank == 0)
            pthread_join(thread, NULL);
        else
            OK(MPI_Send(&data, 1, MPI_INT, rank - 1, 0, MPI_COMM_WORLD));
    } else {
        if (rank == 0)
            OK(pthread_create(&thread, NULL, end_it, NULL));
        if (strcmp(argv[1], "cycle") == 0 || rank == 2)
            OK(MPI_Recv(&data, 1, MPI_INT, next, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        else
            OK(MPI_Allreduce(&data, &sum, 1, MPI_INT, MPI_SUM, solver));
    }
    OK(MPI_Comm_free(&solver));
    OK(MPI_Finalize());
    return 0;
}
