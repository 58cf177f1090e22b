/* One thread waits for a generalized request that another thread completes.
 * ranks: 2
 * cflags: -pthread
 * variants: shm ofi
 */
#include "check.h"
#include <pthread.h>

enum { ROUNDS = 100 };
static int rank, frees;
static MPI_Request work;
static pthread_barrier_t meet;

static int query(void *extra, MPI_Status *status) {
    OK(MPI_Status_set_elements(status, MPI_INT, *(int *)extra));
    return MPI_SUCCESS;
}

static int release(void *extra) {
    (void)extra;
    __atomic_fetch_add(&frees, 1, __ATOMIC_SEQ_CST);
    return MPI_SUCCESS;
}

static int cancel(void *extra, int complete) {
    (void)extra;
    (void)complete;
    return MPI_SUCCESS;
}

static void *worker(void *unused) {
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&meet);
        if (round % 10 == 0) {
            nap(0.002);
        }
        OK(MPI_Grequest_complete(work));
    }
    return unused;
}

int main(int argc, char **argv) {
    int provided, index;
    pthread_t thread;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    rank = world_rank();
    pthread_barrier_init(&meet, NULL, 2);
    CHECK(pthread_create(&thread, NULL, worker, NULL) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        int in = -1, out = round, told = round, count;
        MPI_Request requests[3];
        MPI_Status statuses[3];
        OK(MPI_Grequest_start(query, release, cancel, &told, &work));
        requests[0] = work;
        pthread_barrier_wait(&meet);
        if (round % 4 == 0) {
            OK(MPI_Wait(&requests[0], &statuses[0]));
        } else if (round % 4 == 1) {
            OK(MPI_Waitany(1, requests, &index, &statuses[0]));
            CHECK_EQ(index, 0);
        } else if (round % 4 == 2) {
            OK(MPI_Irecv(&in, 1, MPI_INT, 1 - rank, round, MPI_COMM_WORLD, &requests[1]));
            OK(MPI_Isend(&out, 1, MPI_INT, 1 - rank, round, MPI_COMM_WORLD, &requests[2]));
            OK(MPI_Waitall(3, requests, statuses));
            CHECK_EQ(in, round);
        } else {
            OK(MPI_Request_free(&requests[0]));
            CHECK_EQ(requests[0], MPI_REQUEST_NULL);
            while (__atomic_load_n(&frees, __ATOMIC_SEQ_CST) <= round) {
                nap(0.0001);
            }
            continue;
        }
        CHECK_EQ(requests[0], MPI_REQUEST_NULL);
        OK(MPI_Get_count(&statuses[0], MPI_INT, &count));
        CHECK_EQ(count, round);
        CHECK_EQ(__atomic_load_n(&frees, __ATOMIC_SEQ_CST), round + 1);
    }
    pthread_join(thread, NULL);
    OK(MPI_Finalize());
    return 0;
}
