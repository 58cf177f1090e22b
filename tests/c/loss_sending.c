/* Ranks die while they send, at any instruction: what the others send to the same receiver arrives all the
 * same, in bounded time.
 * ranks: 6
 * variants: shm shm-2copy tcp ofi
 * launcher: -disable-auto-cleanup
 * timeout: 25
 * exit: 137
 * stderr: was killed by signal 9, SIGKILL
 * stderr: the others go on
 * case: 8
 * case: 8000
 */
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <sys/time.h>

/* Rank 0 receives, rank 1 lives, and all others die, one after the other. */
enum { RECEIVER = 0, OTHER = 1, FIRST = 2, RANKS = 6, DATA = 1, OF_OTHER = 2, GO = 3, LONGEST = 8000 };

static char data[LONGEST];

static void die(int signal)
{
    (void)signal;
    raise(SIGKILL);
}

/* Receives from a rank until it has died. */
static void outlive(int rank, int len)
{
    int code;
    OK(MPI_Send(NULL, 0, MPI_BYTE, rank, GO, MPI_COMM_WORLD));
    do
        code = MPI_Recv(data, len, MPI_BYTE, rank, DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    while (code == MPI_SUCCESS);
    CHECK_EQ(class_of(code), MPIX_ERR_PROC_FAILED);
}

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    CHECK_EQ(argc, 2);
    int rank = world_rank(), len = atoi(argv[1]), found;
    CHECK(world_size() == RANKS && len <= LONGEST);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    if (rank >= FIRST) {
        uint64_t seed = choose_seed() + (uint64_t)rank;
        struct itimerval when = {{0, 0}, {0, 2000 + (long)random_below(&seed, 10000)}};
        signal(SIGALRM, die);
        OK(MPI_Recv(NULL, 0, MPI_BYTE, RECEIVER, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        setitimer(ITIMER_REAL, &when, NULL);
        for (;;)
            OK(MPI_Send(data, len, MPI_BYTE, RECEIVER, DATA, MPI_COMM_WORLD));
    }
    double began = MPI_Wtime();
    for (int dead = FIRST; dead < RANKS; dead++) {
        if (rank == RECEIVER)
            outlive(dead, len);
        /* Both directions work. */
        MPI_Request request;
        OK(MPI_Isend(&dead, 1, MPI_INT, OTHER - rank, OF_OTHER, MPI_COMM_WORLD, &request));
        OK(MPI_Recv(&found, 1, MPI_INT, OTHER - rank, OF_OTHER, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_EQ(found, dead);
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    CHECK(MPI_Wtime() - began < 15);
    OK(MPI_Finalize());
    return 0;
}
