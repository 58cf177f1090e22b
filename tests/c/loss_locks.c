/* A rank dies that holds the lock of a window, or that others wait for in an epoch: those who wait get
 * an error, in bounded time, and what it held is free for all who come later.
 * ranks: 4
 * variants: shm shm-2copy ofi ucx hosts
 * launcher: -disable-auto-cleanup
 * timeout: 25
 * exit: 137
 * stderr: was killed by signal 9, SIGKILL
 * stderr: the others go on
 * case: exclusive
 * case: shared
 * case: all
 * case: before-all
 * case: start
 * case: wait
 * case: fence
 * case: random
 */
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <sys/time.h>

enum { DEAD = 2, RANKS = 4 };

static MPI_Comm others;
static MPI_Win windows[2]; /* of memory of the library's, and of the program's */
static int rank;

static void failed(int code)
{
    CHECK_EQ(class_of(code), MPIX_ERR_PROC_FAILED);
}

/* A lock that is free works, at the second attempt at the latest. */
static void lock(int kind, int target, MPI_Win win)
{
    int code = MPI_Win_lock(kind, target, 0, win);
    if (code != MPI_SUCCESS) {
        failed(code);
        OK(MPI_Win_lock(kind, target, 0, win));
    }
}

static long add(long what, int target, MPI_Win win)
{
    long found = -1;
    OK(MPI_Fetch_and_op(&what, &found, MPI_LONG, target, 0, MPI_SUM, win));
    OK(MPI_Win_flush(target, win));
    return found;
}

/* All that can be locked among those who live works again. */
static void all_works(MPI_Win win)
{
    for (int target = 0; target < RANKS; target++) {
        if (target == DEAD)
            continue;
        lock(MPI_LOCK_EXCLUSIVE, target, win);
        add(1, target, win);
        OK(MPI_Win_unlock(target, win));
        lock(MPI_LOCK_SHARED, target, win);
        add(1, target, win);
        OK(MPI_Win_unlock(target, win));
    }
    int code = MPI_Win_lock_all(0, win);
    if (code != MPI_SUCCESS) {
        failed(code);
        OK(MPI_Win_lock_all(0, win));
    }
    add(1, (rank + 2) % RANKS == DEAD ? rank : (rank + 2) % RANKS, win);
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Barrier(others));
}

static void die(int signal)
{
    (void)signal;
    raise(SIGKILL);
}

/* Locks of all kinds at random until `end`; counts what was added to each. */
static void at_random(double end, long *added, MPI_Win win)
{
    unsigned seed = (unsigned)(rank + 4 * getpid());
    while (MPI_Wtime() < end) {
        int target = rand_r(&seed) % RANKS, how = rand_r(&seed) % 5, code;
        long one = 1, found;
        if (target == DEAD)
            continue;
        if (how == 0)
            code = MPI_Win_lock_all(0, win);
        else
            code = MPI_Win_lock(how < 3 ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, target, 0, win);
        if (code != MPI_SUCCESS) {
            failed(code);
            continue;
        }
        /* With all locked by messages this takes the lock, too. */
        code = MPI_Fetch_and_op(&one, &found, MPI_LONG, target, 0, MPI_SUM, win);
        if (code != MPI_SUCCESS)
            failed(code);
        else
            added[target]++;
        code = how == 0 ? MPI_Win_unlock_all(win) : MPI_Win_unlock(target, win);
        if (code != MPI_SUCCESS)
            failed(code);
    }
}

int main(int argc, char **argv)
{
    static long memory[2];
    OK(MPI_Init(&argc, &argv));
    CHECK_EQ(argc, 2);
    rank = world_rank();
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_split(MPI_COMM_WORLD, rank == DEAD, rank, &others));
    long *base;
    OK(MPI_Win_allocate(16, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &windows[0]));
    base[0] = base[1] = 0;
    OK(MPI_Win_create(memory, 16, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &windows[1]));
    MPI_Group world, of_dead, of_others;
    int dead = DEAD;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_incl(world, 1, &dead, &of_dead));
    OK(MPI_Group_excl(world, 1, &dead, &of_others));
    for (int i = 0; i < 2; i++)
        OK(MPI_Win_set_errhandler(windows[i], MPI_ERRORS_RETURN));
    const char *what = argv[1];
    int is_random = strcmp(what, "random") == 0, is_lock = 1;
    OK(MPI_Barrier(MPI_COMM_WORLD));

    if (rank == DEAD && is_random) {
        struct itimerval when = {{0, 0}, {0, 30000 + getpid() % 97 * 1500}};
        signal(SIGALRM, die);
        setitimer(ITIMER_REAL, &when, NULL);
        long added[RANKS];
        at_random(MPI_Wtime() + 20, added, windows[getpid() % 2]);
    }
    if (rank == DEAD) {
        for (int i = 0; i < 2; i++) {
            if (strcmp(what, "exclusive") == 0 || strcmp(what, "before-all") == 0) {
                OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, windows[i]));
                add(1, 0, windows[i]);
            } else if (strcmp(what, "shared") == 0) {
                OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, windows[i]));
            } else if (strcmp(what, "all") == 0) {
                OK(MPI_Win_lock_all(0, windows[i]));
                add(1, 0, windows[i]);
            } else if (strcmp(what, "wait") == 0) {
                OK(MPI_Win_start(of_others, 0, windows[i]));
            }
        }
    } else if (strcmp(what, "wait") == 0) {
        for (int i = 0; i < 2; i++)
            OK(MPI_Win_post(of_dead, 0, windows[i]));
    }
    /* (For its answers it needs the others to be in MPI, as they are here.) */
    if (!is_random)
        barrier_left_last_by(DEAD, MPI_COMM_WORLD);
    if (rank == DEAD) {
        nap(0.25); /* the others wait, by then, on a busy machine too */
        raise(SIGKILL);
    }

    long added[2][RANKS] = {{0}};
    double began = MPI_Wtime();
    for (int i = 0; i < 2; i++) {
        MPI_Win win = windows[i];
        if (is_random) {
            at_random(began + 0.25 * (i + 1), added[i], win);
        } else if (strcmp(what, "before-all") == 0) {
            int code = MPI_Win_lock_all(0, win);
            long found, one = 1;
            /* By messages the locks are taken one by one. */
            if (code == MPI_SUCCESS) {
                code = MPI_Fetch_and_op(&one, &found, MPI_LONG, 0, 0, MPI_SUM, win);
                if (i == 0)
                    CHECK(code != MPI_SUCCESS);
                OK(MPI_Win_unlock_all(win));
            }
            if (i == 0 || code != MPI_SUCCESS)
                failed(code);
        } else if (strcmp(what, "start") == 0) {
            failed(MPI_Win_start(of_dead, 0, win));
            is_lock = 0;
        } else if (strcmp(what, "wait") == 0) {
            failed(MPI_Win_wait(win));
            is_lock = 0;
        } else if (strcmp(what, "fence") == 0) {
            failed(MPI_Win_fence(0, win));
            is_lock = 0;
        } else {
            /* In the first window all wait when it dies. */
            int code = MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
            if (i == 0 || code != MPI_SUCCESS)
                failed(code);
            else
                OK(MPI_Win_unlock(0, win));
        }
    }
    CHECK(MPI_Wtime() - began < 15);
    OK(MPI_Barrier(others));
    if (is_lock) {
        for (int i = 0; i < 2; i++)
            all_works(windows[i]);
    }
    for (int i = 0; i < 2 && is_random; i++) {
        long all[RANKS];
        OK(MPI_Allreduce(added[i], all, RANKS, MPI_LONG, MPI_SUM, others));
        lock(MPI_LOCK_SHARED, rank, windows[i]);
        /* All that was added, what those added who made sure that all works, and the dead one's. */
        long found = add(0, rank, windows[i]);
        CHECK(found >= all[rank] + 6);
        OK(MPI_Win_unlock(rank, windows[i]));
    }
    OK(MPI_Barrier(others));
    OK(MPI_Finalize());
    return 0;
}
