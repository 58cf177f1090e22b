/* A thread that waits long for a message takes little of its core, also with MPI_THREAD_MULTIPLE, and
 * wakes for a message from another process, from another thread, and for what that completes.
 * ranks: 2
 * variants: shm ofi
 * env: WEFT_SPIN=100
 * env: WEFT_YIELD=100
 * cflags: -pthread
 * timeout: 40
 */
#include "vcis.h"
#include <pthread.h>

static MPI_Request general;

static double used(void) {
    struct timespec now;
    CHECK_EQ(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now), 0);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int none(void *state, MPI_Status *status) {
    (void)state;
    OK(MPI_Status_set_elements(status, MPI_CHAR, 0));
    OK(MPI_Status_set_cancelled(status, 0));
    return MPI_SUCCESS;
}

static int nothing(void *state) {
    (void)state;
    return MPI_SUCCESS;
}

static int no_cancel(void *state, int complete) {
    (void)state;
    (void)complete;
    return MPI_SUCCESS;
}

static void *help(void *unused) {
    nap(0.3);
    OK(MPI_Send(NULL, 0, MPI_CHAR, 0, 5, MPI_COMM_SELF));
    nap(0.3);
    OK(MPI_Grequest_complete(general));
    return unused;
}

int main(int argc, char **argv) {
    int provided;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    MPI_Comm own = dup_with(MPI_COMM_WORLD, "weft_num_vcis=1");
    int rank = world_rank();
    OK(MPI_Barrier(own));
    for (int i = 0; i < 2; i++) {
        MPI_Comm comm = i ? own : MPI_COMM_WORLD;
        if (rank == 0) {
            nap(0.6);
            OK(MPI_Send(NULL, 0, MPI_CHAR, 1, i, comm));
        } else {
            double before = used();
            OK(MPI_Recv(NULL, 0, MPI_CHAR, 0, i, comm, MPI_STATUS_IGNORE));
            double took = used() - before;
            if (took > 0.1) {
                fprintf(stderr, "waiting took %.3f s of the core\n", took);
            }
            CHECK(took <= 0.1);
        }
    }
    pthread_t helper;
    MPI_Request kept;
    OK(MPI_Grequest_start(none, nothing, no_cancel, NULL, &kept));
    general = kept;
    CHECK_EQ(pthread_create(&helper, NULL, help, NULL), 0);
    OK(MPI_Recv(NULL, 0, MPI_CHAR, 0, 5, MPI_COMM_SELF, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&kept, MPI_STATUS_IGNORE));
    CHECK_EQ(pthread_join(helper, NULL), 0);
    OK(MPI_Comm_free(&own));
    OK(MPI_Finalize());
    return 0;
}
