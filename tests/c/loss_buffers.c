/* A process is lost during a collective: after the call, or its request, has failed, the buffers belong to the
 * program. Late members must neither write to them nor read their new content.
 * ranks: 4
 * variants: shm shm-2copy ofi
 * waits: yes
 * launcher: -disable-auto-cleanup
 * timeout: 30
 * exit: 137
 * stderr: was killed by signal 9, SIGKILL
 * stderr: the others go on
 * case: alltoallv
 * case: gatherv
 * case: iallreduce
 * case: ialltoallv
 * case: alltoallv-long
 * case: ialltoallv-long
 */
#include "check.h"
#include <signal.h>

enum { SHORT = 500, LONG = 200000 };
static const unsigned char OURS = 0x5a, THEIRS = 0x33;

static int call(const char *name, int *in, int *out, int n, MPI_Request *request) {
    int counts[4] = {n, n, n, n}, at[4] = {0, n, 2 * n, 3 * n};
    const MPI_Datatype t = MPI_INT;
    if (strncmp(name, "alltoallv", 9) == 0)
        return MPI_Alltoallv(in, counts, at, t, out, counts, at, t, MPI_COMM_WORLD);
    if (strncmp(name, "gatherv", 7) == 0)
        return MPI_Gatherv(in, n, t, out, counts, at, t, 0, MPI_COMM_WORLD);
    if (strncmp(name, "iallreduce", 10) == 0)
        return MPI_Iallreduce(in, out, 4 * n, t, MPI_BOR, MPI_COMM_WORLD, request);
    return MPI_Ialltoallv(in, counts, at, t, out, counts, at, t, MPI_COMM_WORLD, request);
}

static void check_all(const void *data, size_t len, unsigned char expected) {
    const unsigned char *bytes = data;
    for (size_t i = 0; i < len; i++)
        CHECK_EQ(bytes[i], expected);
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    CHECK_EQ(argc, 2);
    int rank = world_rank(), is_long = strstr(argv[1], "-long") != NULL, n = is_long ? LONG : SHORT;
    size_t len = 4 * sizeof(int) * (size_t)n;
    int *in = malloc(len), *out = malloc(len), pids[4], pid = getpid();
    MPI_Comm others;
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_split(MPI_COMM_WORLD, rank == 2, rank, &others));
    OK(MPI_Allgather(&pid, 1, MPI_INT, pids, 1, MPI_INT, MPI_COMM_WORLD));
    sigset_t go, ready;
    sigemptyset(&go);
    sigemptyset(&ready);
    sigaddset(&ready, SIGUSR2);
    CHECK_EQ(sigprocmask(SIG_BLOCK, &ready, NULL), 0);
    sigaddset(&go, SIGUSR1);
    CHECK_EQ(sigprocmask(SIG_BLOCK, &go, NULL), 0);
    barrier_left_last_by(2, MPI_COMM_WORLD);
    if (rank == 2) {
        CHECK_EQ(kill(pids[1], SIGUSR2) | kill(pids[3], SIGUSR2), 0);
        nap(0.05); /* the others wait, by then */
        raise(SIGKILL);
    }
    memset(in, THEIRS, len);
    memset(out, 0, len);
    if (rank != 0) {
        /* Late, and knows nothing of the loss. Long data is another's to read until this rank takes part. */
        struct timespec limit = {15, 0}, now = {0, 0};
        /* There rank 0 waits for rank 1 first, and over a network doesn't ask for rank 2 meanwhile. */
        int is_chain = strcmp(argv[1], "iallreduce") == 0;
        if (is_chain)
            limit.tv_sec = 1;
        int any;
        while (sigtimedwait(&ready, NULL, &now) != SIGUSR2)
            OK(MPI_Iprobe(0, 77, others, &any, MPI_STATUS_IGNORE));
        if (is_long)
            nap(0.8);
        else
            CHECK(sigtimedwait(&go, NULL, &limit) == SIGUSR1 || is_chain);
    }
    MPI_Request request = MPI_REQUEST_NULL;
    int code = call(argv[1], in, out, n, &request);
    if (code == MPI_SUCCESS && request != MPI_REQUEST_NULL)
        code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (rank == 0) {
        CHECK_EQ(class_of(code), MPIX_ERR_PROC_FAILED);
        memset(in, OURS, len);
        memset(out, OURS, len);
        for (int i = 1; i < 4; i += 2)
            CHECK_EQ(kill(pids[i], SIGUSR1), 0);
    } else if (code != MPI_SUCCESS) {
        CHECK_EQ(class_of(code), MPIX_ERR_PROC_FAILED);
    }
    /* What was on its way has come when the others have met here. */
    OK(MPI_Barrier(others));
    OK(MPI_Barrier(others));
    if (rank == 0)
        check_all(out, len, OURS);
    else {
        for (size_t i = 0; i < len; i++) {
            unsigned char byte = ((unsigned char *)out)[i];
            CHECK(byte == 0 || byte == THEIRS);
        }
    }
    free(in);
    free(out);
    OK(MPI_Comm_free(&others));
    OK(MPI_Finalize());
    return 0;
}
