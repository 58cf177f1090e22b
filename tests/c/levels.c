/* Requests each thread level and queries it; threads query whether they are the main thread.
 * ranks: 1 2
 * variants: shm single
 * cflags: -pthread
 * case: 0
 * case: 1
 * case: 2
 * case: 3
 */
#include "check.h"
#include <pthread.h>

static void *other(void *unused) {
    int flag = -1;
    OK(MPI_Is_thread_main(&flag));
    CHECK_EQ(flag, 0);
    return unused;
}

int main(int argc, char **argv) {
    CHECK_EQ(argc, 2);
    int wanted[] = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED,
                    MPI_THREAD_MULTIPLE};
    CHECK(wanted[0] < wanted[1] && wanted[1] < wanted[2] && wanted[2] < wanted[3]);
    int level = wanted[atoi(argv[1])], provided = -1, flag = -1;
    OK(MPI_Init_thread(&argc, &argv, level, &provided));
    world_rank();
    CHECK_EQ(provided, level);
    OK(MPI_Query_thread(&provided));
    CHECK_EQ(provided, level);
    OK(MPI_Is_thread_main(&flag));
    CHECK_EQ(flag, 1);
    if (level > MPI_THREAD_SINGLE) {
        pthread_t thread;
        CHECK_EQ(pthread_create(&thread, NULL, other, NULL), 0);
        CHECK_EQ(pthread_join(thread, NULL), 0);
    }
    barrier(MPI_COMM_WORLD);
    OK(MPI_Finalize());
    return 0;
}
