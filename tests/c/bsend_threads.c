/* Threads flush the buffer (MPI-4.1 section 3.6) concurrently, and while another sends from it: each removes completed
 * messages for which the others wait.
 * ranks: 2
 * variants: shm tcp
 * env: WEFT_EAGER_LIMIT=8184
 * timeout: 60
 * stdout: flushed
 */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>

#define FLUSHES 3
#define ROUNDS 200
#define LONG 1000000

static atomic_int rounds;
static pthread_barrier_t start;

static void *flush(void *automatic) {
    for (int i = 0; i < ROUNDS; i++) {
        pthread_barrier_wait(&start);
        while (atomic_load(&rounds) <= i) {
            OK(MPI_Buffer_flush());
            if (automatic) {
                MPI_Request request;
                OK(MPI_Buffer_iflush(&request));
                OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            }
        }
    }
    return NULL;
}

static void send_all(void *automatic) {
    static char data[LONG];
    pthread_t flushes[FLUSHES];
    atomic_store(&rounds, 0);
    for (int i = 0; i < FLUSHES; i++) {
        CHECK(pthread_create(&flushes[i], NULL, flush, automatic) == 0);
    }
    for (int i = 0; i < ROUNDS; i++) {
        pthread_barrier_wait(&start);
        OK(MPI_Bsend(data, LONG, MPI_CHAR, 1, 0, MPI_COMM_WORLD));
        OK(MPI_Recv(NULL, 0, MPI_CHAR, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Bsend(data, 1, MPI_CHAR, 1, 2, MPI_COMM_WORLD));
        atomic_store(&rounds, i + 1);
    }
    for (int i = 0; i < FLUSHES; i++) {
        CHECK(pthread_join(flushes[i], NULL) == 0);
    }
}

int main(int argc, char **argv) {
    int provided;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    if (world_rank() == 0) {
        int size = 4 * (LONG + MPI_BSEND_OVERHEAD);
        void *memory = malloc(size);
        CHECK(pthread_barrier_init(&start, NULL, FLUSHES + 1) == 0);
        OK(MPI_Buffer_attach(memory, size));
        send_all(NULL);
        OK(MPI_Buffer_detach(&memory, &size));
        free(memory);
        OK(MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0));
        send_all(&start);
        OK(MPI_Buffer_detach(&memory, &size));
    } else {
        static char data[LONG];
        for (int i = 0; i < 2 * ROUNDS; i++) {
            /* All wait by then. */
            usleep(i % 20 * 100);
            OK(MPI_Recv(data, LONG, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            OK(MPI_Send(NULL, 0, MPI_CHAR, 0, 1, MPI_COMM_WORLD));
            OK(MPI_Recv(data, 1, MPI_CHAR, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        }
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (world_rank() == 0) {
        printf("flushed\n");
    }
    OK(MPI_Finalize());
    return 0;
}
