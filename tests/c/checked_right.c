/* Programs that use MPI rightly, and of which mpiexec -check has nothing to say: requests of sends that are complete at
 * once, which are all alike, waited for by copies and in another order; and threads that make and free
 * communicators, so that what one gives back another gets at once.
 * ranks: 4
 * variants: shm
 * launcher: -check
 * cflags: -pthread
 * timeout: 60
 */
#include <pthread.h>

#include "check.h"

enum { THREADS = 3, ROUNDS = 60 };

static int size;

static void copies(void) {
    static int one[4], other[4], got[4];
    static char buffer[4096];
    void *back;
    int bytes;
    MPI_Request request, copies[2];
    OK(MPI_Buffer_attach(buffer, sizeof buffer));
    OK(MPI_Ibsend(one, 4, MPI_INT, check_rank, 1, MPI_COMM_WORLD, &request));
    copies[0] = request;
    OK(MPI_Ibsend(other, 4, MPI_INT, check_rank, 2, MPI_COMM_WORLD, &request));
    copies[1] = request;
    OK(MPI_Wait(&copies[1], MPI_STATUS_IGNORE));
    OK(MPI_Recv(other, 4, MPI_INT, check_rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&copies[0], MPI_STATUS_IGNORE));
    OK(MPI_Recv(got, 4, MPI_INT, check_rank, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    OK(MPI_Buffer_detach(&back, &bytes));
}

static void *make_and_free(void *argument) {
    int tag = *(int *)argument;
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Group world, some;
        MPI_Comm comm, twin;
        int out = round % size, sum = 0, place;
        OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
        OK(MPI_Group_excl(world, 1, &out, &some));
        OK(MPI_Group_rank(some, &place));
        if (place != MPI_UNDEFINED) {
            OK(MPI_Comm_create_group(MPI_COMM_WORLD, some, tag, &comm));
            OK(MPI_Allreduce(&check_rank, &sum, 1, MPI_INT, MPI_SUM, comm));
            CHECK_EQ(sum, size * (size - 1) / 2 - out);
            OK(MPI_Comm_dup(comm, &twin));
            OK(MPI_Comm_free(&comm));
            OK(MPI_Barrier(twin));
            OK(MPI_Comm_free(&twin));
        }
        OK(MPI_Group_free(&some));
        OK(MPI_Group_free(&world));
    }
    return NULL;
}

int main(void) {
    int provided, tags[THREADS];
    pthread_t threads[THREADS];
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided);
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    copies();
    for (int i = 0; i < THREADS; i++) {
        tags[i] = i;
        CHECK_EQ(pthread_create(&threads[i], NULL, make_and_free, &tags[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    MPI_Finalize();
    return 0;
}
