/* Threads that create communicators at the same time, each from its own parent, and from one parent with their own
 * tags (MPI-3.1 sections 6.4.2 and 12.4).
 * ranks: 2 4
 * cflags: -pthread
 * timeout: 60
 */
#include "fails.h"

#include <pthread.h>

enum { THREADS = 4, TURNS = 40 };

static int size, rank;
static MPI_Comm parents[THREADS];
static MPI_Group world;

static void ring(MPI_Comm comm, int value) {
    int n, me, got;
    OK(MPI_Comm_size(comm, &n));
    OK(MPI_Comm_rank(comm, &me));
    OK(MPI_Sendrecv(&value, 1, MPI_INT, (me + 1) % n, 0, &got, 1, MPI_INT, (me + n - 1) % n, 0,
                    comm, MPI_STATUS_IGNORE));
    CHECK_EQ(got, value);
}

static void *work(void *arg) {
    int index = *(int *)arg;
    for (int i = 0; i < TURNS; i++) {
        MPI_Comm one, two, three;
        MPI_Request request;
        int value = index * TURNS + i;
        OK(MPI_Comm_idup(parents[index], &one, &request));
        OK(MPI_Comm_create_group(MPI_COMM_WORLD, world, index, &two));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        OK(MPI_Comm_split(one, i, -rank, &three));
        ring(one, value);
        ring(two, value);
        ring(three, value);
        OK(MPI_Comm_free(&one));
        OK(MPI_Comm_free(&three));
        OK(MPI_Comm_free(&two));
    }
    return NULL;
}

int main(int argc, char **argv) {
    int provided, numbers[THREADS];
    pthread_t threads[THREADS];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    size = world_size(), rank = world_rank();
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    for (int i = 0; i < THREADS; i++) {
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &parents[i]));
    }
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        CHECK(pthread_create(&threads[i], NULL, work, &numbers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        OK(MPI_Comm_free(&parents[i]));
    }
    OK(MPI_Group_free(&world));
    MPI_Finalize();
    return 0;
}
