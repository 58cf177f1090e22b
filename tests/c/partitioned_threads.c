/* Threads mark partitions ready and look for those of others: on a communicator with one VCI, and on one with a
 * VCI for each thread. All partitions of a group are often marked at the same moment.
 * ranks: 2
 * cflags: -pthread
 * timeout: 90
 */
#include "check.h"
#include <pthread.h>

enum { THREADS = 4, EACH = 16, PARTITIONS = THREADS * EACH, ROUNDS = 15 };
static int rank;
static MPI_Request requests[2];
static char *out, *in;
static size_t bytes;
static int scattered, round_now;
static pthread_barrier_t line;

/* What a partition holds, cheap to make. */
static char content(int from, int round, int partition) {
    return (char)(from * 31 + round * 7 + partition);
}

static void *work(void *argument) {
    int me = (int)(intptr_t)argument, flag;
    for (int round = 0; round < ROUNDS; round++) {
        if (me == 0) {
            memset(in, 0, PARTITIONS * bytes);
            round_now = round;
            OK(MPI_Startall(2, requests));
        }
        pthread_barrier_wait(&line);
        for (int i = 0; i < EACH; i++) {
            int partition = scattered ? i * THREADS + me : me * EACH + i;
            memset(out + (size_t)partition * bytes, content(rank, round, partition), bytes);
            OK(MPI_Pready(partition, requests[0]));
        }
        /* Those of another thread on the other side. */
        for (int i = EACH; i-- > 0;) {
            int partition = (me + 1) % THREADS * EACH + i;
            for (flag = 0; !flag;) {
                OK(MPI_Parrived(requests[1], partition, &flag));
            }
            CHECK(all_bytes(in + (size_t)partition * bytes, bytes, content(1 - rank, round, partition)));
        }
        pthread_barrier_wait(&line);
        if (me == 0) {
            OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        }
    }
    return NULL;
}

static void run(MPI_Comm comm, size_t size, int scatter) {
    pthread_t threads[THREADS];
    bytes = size;
    scattered = scatter;
    out = allocate(PARTITIONS * bytes);
    in = allocate(PARTITIONS * bytes);
    OK(MPI_Psend_init(out, PARTITIONS, (MPI_Count)bytes, MPI_CHAR, 1 - rank, 4, comm, MPI_INFO_NULL, &requests[0]));
    OK(MPI_Precv_init(in, PARTITIONS, (MPI_Count)bytes, MPI_CHAR, 1 - rank, 4, comm, MPI_INFO_NULL, &requests[1]));
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    OK(MPI_Request_free(&requests[0]));
    OK(MPI_Request_free(&requests[1]));
    free(out);
    free(in);
}

int main(int argc, char **argv) {
    int provided;
    MPI_Info info;
    MPI_Comm comm;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    rank = world_rank();
    CHECK_EQ(pthread_barrier_init(&line, NULL, THREADS), 0);
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "weft_num_vcis", "4"));
    OK(MPI_Info_set(info, "mpi_assert_no_any_tag", "true"));
    OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm));
    OK(MPI_Info_free(&info));
    run(MPI_COMM_WORLD, 64, 0);
    run(MPI_COMM_WORLD, 4096, 1);
    run(comm, 64, 1);
    run(comm, 4096, 0);
    run(comm, 40000, 1);
    OK(MPI_Comm_free(&comm));
    OK(MPI_Finalize());
    return 0;
}
