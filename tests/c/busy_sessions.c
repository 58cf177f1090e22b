/* Barriers beside busy programs that each have a session of their own. The kernel schedules each session as
 * a group (sched(7), "The autogroup feature"), so a rank that has used up its slice waits for a slice of each
 * of them. MPI_Barrier must take half the time there of a barrier that spins.
 * ranks: 2
 * variants: shm
 * needs: autogroups
 * alone: yes
 * timeout: 120
 */
#include "check.h"
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { BUSY = 8, BARRIERS = 200, BLOCKS = 5, TRIES = 3, LINE = 64, SECONDS = 110 };

static pid_t busy[BUSY];

/* Starts programs on the core of this rank. They end with it. */
static void start_busy(void) {
    for (int i = 0; i < BUSY; i++) {
        CHECK((busy[i] = fork()) >= 0);
        if (busy[i] == 0) {
            setsid();
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            alarm(SECONDS);
            for (volatile int on = 1; on;) {
            }
        }
    }
}

static void end_busy(void) {
    for (int i = 0; i < BUSY; i++) {
        kill(busy[i], SIGKILL);
        waitpid(busy[i], NULL, 0);
    }
}

static double clock_now(clockid_t clock) {
    struct timespec time;
    CHECK(clock_gettime(clock, &time) == 0);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Takes up to 8 ms of processor time, so that the slices of the two ranks begin at different times. */
static void compute(void) {
    double until = clock_now(CLOCK_THREAD_CPUTIME_ID) + 8e-3 * rand() / RAND_MAX;
    while (clock_now(CLOCK_THREAD_CPUTIME_ID) < until) {
    }
}

/* A counter of each rank, in shared memory. */
static atomic_int *own, *other;

static void meet_spinning(void) {
    int count = atomic_fetch_add(own, 1) + 1;
    while (atomic_load(other) < count) {
    }
}

static void meet(void) { OK(MPI_Barrier(MPI_COMM_WORLD)); }

/* Seconds of a block of barriers. */
static double block(void (*call)(void)) {
    compute();
    double start = clock_now(CLOCK_MONOTONIC);
    for (int i = 0; i < BARRIERS; i++) {
        call();
    }
    return clock_now(CLOCK_MONOTONIC) - start;
}

int main(int argc, char **argv) {
    start_busy();
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), unit, good = 0;
    MPI_Win win;
    MPI_Aint bytes;
    char *memory;
    OK(MPI_Win_allocate_shared(LINE, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
    own = (atomic_int *)memory;
    atomic_store(own, 0);
    OK(MPI_Win_shared_query(win, 1 - rank, &bytes, &unit, &memory));
    other = (atomic_int *)memory;
    OK(MPI_Barrier(MPI_COMM_WORLD));
    srand((unsigned)rank + 1);
    double spun = 0, waited = 0;
    for (int try = 0; try < TRIES && !good; try++) {
        spun = waited = 0;
        for (int i = 0; i < BLOCKS; i++) {
            spun += block(meet_spinning);
            waited += block(meet);
        }
        good = 2 * waited <= spun;
        OK(MPI_Bcast(&good, 1, MPI_INT, 0, MPI_COMM_WORLD));
    }
    end_busy();
    if (rank == 0 && !good) {
        fprintf(stderr, "%d barriers beside %d busy sessions take %.3f s, spinning %.3f s\n",
                BLOCKS * BARRIERS, 2 * BUSY, waited, spun);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    OK(MPI_Win_free(&win));
    OK(MPI_Finalize());
    return 0;
}
