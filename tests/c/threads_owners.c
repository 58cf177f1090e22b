/* VCIs change hands: threads come and go, each first alone on its communicator for many calls, so that the lock leans to
 * it, then all on one, then now here and now there, while the main thread accesses a window.
 * ranks: 2 4
 * cflags: -pthread
 * timeout: 60
 */
#include "check.h"
#include <pthread.h>

enum { THREADS = 3, GENERATIONS = 6, ROUNDS = 30, MANY = 16, FEW = 2, LONG = 100000, ADDED = 40 };

static int rank, peer;
static MPI_Comm shared, own[THREADS];

struct job {
    int thread, generation;
};

static MPI_Comm comm_of(const struct job *job, int round) {
    switch (job->generation % 3) {
    case 0: return own[job->thread];
    case 1: return shared;
    default: return round % 2 ? own[job->thread] : shared;
    }
}

static void *exchange_(void *argument) {
    const struct job *job = argument;
    char *given[MANY], *taken[MANY];
    for (int i = 0; i < MANY; i++) {
        given[i] = malloc(LONG);
        taken[i] = malloc(LONG);
    }
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Comm comm = comm_of(job, round);
        int bytes = round % 7 == 0 ? LONG : round % 3 == 0 ? 3000 : 8;
        int count = bytes == LONG ? FEW : MANY, number = 0, done = 0;
        MPI_Request requests[2 * MANY];
        for (int i = 0; i < count; i++) {
            memset(given[i], job->thread * MANY + i + round, bytes);
            memset(taken[i], -1, bytes);
            OK(MPI_Irecv(taken[i], bytes, MPI_BYTE, peer, job->thread * MANY + i, comm, &requests[number++]));
        }
        for (int i = 0; i < count; i++)
            OK(MPI_Isend(given[i], bytes, MPI_BYTE, peer, job->thread * MANY + i, comm, &requests[number++]));
        if (round % 5)
            OK(MPI_Waitall(number, requests, MPI_STATUSES_IGNORE));
        else
            while (!done)
                OK(MPI_Testall(number, requests, &done, MPI_STATUSES_IGNORE));
        for (int i = 0; i < count; i++)
            CHECK(memcmp(taken[i], given[i], bytes) == 0);
        /* Longer than an owner may stay away. */
        if (round % 8 == job->thread)
            usleep(300);
    }
    for (int i = 0; i < MANY; i++) {
        free(given[i]);
        free(taken[i]);
    }
    return NULL;
}

int main(int argc, char **argv) {
    int provided, size, *sums;
    MPI_Win win;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    check_rank = rank;
    peer = rank ^ 1;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &shared));
    for (int i = 0; i < THREADS; i++)
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &own[i]));
    OK(MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &sums, &win));
    *sums = 0;
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int generation = 0; generation < GENERATIONS; generation++) {
        pthread_t threads[THREADS];
        struct job jobs[THREADS];
        for (int i = 0; i < THREADS; i++) {
            jobs[i] = (struct job){i, generation};
            CHECK_EQ(pthread_create(&threads[i], NULL, exchange_, &jobs[i]), 0);
        }
        OK(MPI_Win_lock_all(0, win));
        for (int i = 0; i < ADDED; i++) {
            int one = 1, before;
            OK(MPI_Fetch_and_op(&one, &before, MPI_INT, (rank + 1) % size, 0, MPI_SUM, win));
            OK(MPI_Win_flush_all(win));
        }
        OK(MPI_Win_unlock_all(win));
        for (int i = 0; i < THREADS; i++)
            CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win));
    CHECK_EQ(*sums, GENERATIONS * ADDED);
    OK(MPI_Win_unlock(rank, win));
    OK(MPI_Win_free(&win));
    OK(MPI_Comm_free(&shared));
    for (int i = 0; i < THREADS; i++)
        OK(MPI_Comm_free(&own[i]));
    OK(MPI_Finalize());
    return 0;
}
