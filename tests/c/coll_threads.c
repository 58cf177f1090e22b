/* Threads that run collectives at the same time, each on its own communicator, and one that completes the request of
 * another.
 *
 * ranks: 1 2 3 4
 * timeout: 60
 * cflags: -pthread
 */
#include "coll.h"
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 150 };

static MPI_Comm comms[THREADS];

static void *work(void *argument)
{
    int t = *(int *)argument, n = 1 + 37 * t;
    MPI_Comm comm = comms[t];
    int *own = ints(n), *all = ints(n), *many = ints((size_t)n * size);
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Request requests[3];
        for (int i = 0; i < n; i++)
            own[i] = value(rank, i, round + t);
        OK(MPI_Iallreduce(own, all, n, MPI_INT, MPI_MAX, comm, &requests[0]));
        OK(MPI_Iallgather(own, n, MPI_INT, many, n, MPI_INT, comm, &requests[1]));
        OK(MPI_Ibarrier(comm, &requests[2]));
        int root = round % size, word = rank == root ? value(root, t, round) : -1;
        OK(MPI_Bcast(&word, 1, MPI_INT, root, comm));
        CHECK(word == value(root, t, round), "thread %d, round %d", t, round);
        OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
        for (int i = 0; i < n; i++)
            CHECK(all[i] == value(size - 1, i, round + t), "thread %d, round %d", t, round);
        for (int i = 0; i < n * size; i++)
            CHECK(many[i] == value(i / n, i % n, round + t), "thread %d, round %d", t, round);
    }
    free(own);
    free(all);
    free(many);
    return NULL;
}

static MPI_Request handed;

static void *wait_for_it(void *unused)
{
    (void)unused;
    OK(MPI_Wait(&handed, MPI_STATUS_IGNORE));
    return NULL;
}

int main(int argc, char **argv)
{
    int provided, numbers[THREADS];
    pthread_t threads[THREADS];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(provided == MPI_THREAD_MULTIPLE, "%d", provided);
    for (int t = 0; t < THREADS; t++)
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[t]));
    for (int t = 0; t < THREADS; t++) {
        numbers[t] = t;
        pthread_create(&threads[t], NULL, work, &numbers[t]);
    }
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    for (int round = 0; round < 20; round++) {
        int one = 1, all = 0;
        OK(MPI_Iallreduce(&one, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &handed));
        pthread_create(&threads[0], NULL, wait_for_it, NULL);
        work(&numbers[1]);
        pthread_join(threads[0], NULL);
        CHECK(all == size, "%d", all);
        if (round == 2)
            break;
    }
    for (int t = 0; t < THREADS; t++)
        OK(MPI_Comm_free(&comms[t]));
    MPI_Finalize();
    return 0;
}
