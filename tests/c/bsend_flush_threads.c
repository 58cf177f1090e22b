/* Threads that wait until the attached buffer is empty (MPI_Buffer_flush and MPI_Buffer_iflush, MPI-4.1 section 3.6,
 * finally MPI_Buffer_detach) while others use and poll it: each wait ends, whichever thread detects the completion.
 * ranks: 2
 * variants: shm tcp
 * cflags: -pthread
 * timeout: 60
 */
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>

/* So long that they stay in the buffer until they are received. */
enum { MESSAGES = 60, BYTES = 1 << 20, FLUSHERS = 3 };
static char data[BYTES];
static atomic_int over;

static void *flush(void *argument) {
    while (!atomic_load(&over)) {
        if (argument) {
            MPI_Request request;
            OK(MPI_Buffer_iflush(&request));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        } else {
            OK(MPI_Buffer_flush());
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    int provided;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    if (world_rank() == 1) {
        for (int i = 0; i < MESSAGES; i++) {
            usleep(2000);
            OK(MPI_Recv(data, BYTES, MPI_CHAR, 0, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            CHECK_EQ(data[BYTES - 1], (char)i);
        }
        OK(MPI_Finalize());
        return 0;
    }
    pthread_t threads[FLUSHERS];
    int size = MESSAGES * (BYTES + MPI_BSEND_OVERHEAD);
    char *buffer = malloc(size);
    CHECK(buffer != NULL);
    OK(MPI_Buffer_attach(buffer, size));
    for (intptr_t i = 0; i < FLUSHERS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, flush, (void *)(i % 2)), 0);
    }
    for (int i = 0; i < MESSAGES; i++) {
        data[BYTES - 1] = (char)i;
        OK(MPI_Bsend(data, BYTES, MPI_CHAR, 1, i, MPI_COMM_WORLD));
    }
    OK(MPI_Buffer_flush());
    atomic_store(&over, 1);
    for (int i = 0; i < FLUSHERS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    void *detached;
    OK(MPI_Buffer_detach(&detached, &size));
    CHECK(detached == buffer);
    free(buffer);
    OK(MPI_Finalize());
    return 0;
}
