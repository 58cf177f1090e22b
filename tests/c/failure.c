/* A rank that fails ends the others promptly wherever they wait, and the message names it.
 * ranks: 4
 * variants: shm ofi ucx
 * waits: yes
 * ends: 1.5
 * stderr: rank 2 on
 * case: killed-recv
 * exit: 137
 * stderr: was killed by signal 9, SIGKILL
 * case: killed-barrier
 * exit: 137
 * stderr: was killed by signal 9, SIGKILL
 * case: segv-recv
 * exit: 139
 * stderr: was killed by signal 11, SIGSEGV
 * case: exit-recv
 * exit: 3
 * stderr: exited with code 3 without calling MPI_Finalize
 * case: exit-barrier
 * exit: 3
 * stderr: exited with code 3 without calling MPI_Finalize
 * case: leave-recv
 * exit: 101
 * ends: 2.5
 * stderr: exited with code 0 without calling MPI_Finalize
 * case: abort-recv
 * exit: 42
 * stderr: MPI_Abort was called with error code 42
 * case: abort-barrier
 * exit: 42
 * stderr: MPI_Abort was called with error code 42
 * case: zero-recv
 * exit: 1
 * stderr: MPI_Abort was called with error code 0
 */
#include "check.h"
#include <signal.h>

int main(int argc, char **argv) {
    CHECK_EQ(argc, 2);
    char *how = argv[1], *where = strchr(how, '-');
    CHECK(where != NULL);
    *where++ = 0;
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), data = 0;
    barrier(MPI_COMM_WORLD);
    if (rank == 2) {
        nap(0.05); /* the others wait, by then */
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        printf("at %ld.%09ld\n", (long)now.tv_sec, now.tv_nsec);
        fflush(stdout);
        if (strcmp(how, "killed") == 0) {
            raise(SIGKILL);
        } else if (strcmp(how, "segv") == 0) {
            signal(SIGSEGV, SIG_DFL);
            raise(SIGSEGV);
        } else if (strcmp(how, "exit") == 0) {
            exit(3);
        } else if (strcmp(how, "leave") == 0) {
            exit(0);
        } else if (strcmp(how, "abort") == 0) {
            MPI_Abort(MPI_COMM_WORLD, 42);
        } else if (strcmp(how, "zero") == 0) {
            MPI_Abort(MPI_COMM_SELF, 0);
        }
        nap(30);
    }
    if (strcmp(where, "recv") == 0) {
        MPI_Recv(&data, 1, MPI_INT, 2, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Barrier(MPI_COMM_WORLD);
    }
    return 77;
}
