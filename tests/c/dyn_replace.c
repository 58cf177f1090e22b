/* A process dies, the others shrink the communicator, spawn a substitute, merge with it and continue, many times:
 * MPI_Comm_spawn works on a communicator without the lost process. Descriptors and memory do not grow.
 * ranks: 3
 * variants: shm tcp
 * launcher: -disable-auto-cleanup
 * timeout: 240
 * idle: yes
 * exit: 137
 * stderr: was killed by signal 9, SIGKILL
 * case: others
 * stdout: replaced 30 times
 * case: anybody
 * stdout: replaced 6 times
 */
#include "ancestors.h"
#include "fails.h"

#include <dirent.h>
#include <signal.h>

/* How many turns there are (the second argument may say it), and whether rank 0, which counts, stays alive. */
static int turns, spares_first;

static char *self, *which;

static int descriptors(const char *dir) {
    DIR *all = opendir(dir);
    CHECK(all != NULL);
    int number = 0;
    while (readdir(all) != NULL) {
        number++;
    }
    closedir(all);
    return number;
}

/* KiB. */
static long resident(void) {
    long pages = 0, all = 0;
    FILE *from = fopen("/proc/self/statm", "r");
    CHECK(from != NULL && fscanf(from, "%ld %ld", &all, &pages) == 2);
    fclose(from);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void work(MPI_Comm comm) {
    int me, size, sum = 0, left = -1;
    OK(MPI_Comm_rank(comm, &me));
    OK(MPI_Comm_size(comm, &size));
    CHECK_EQ(size, 3);
    OK(MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, comm));
    CHECK_EQ(sum, 3);
    OK(MPI_Sendrecv(&me, 1, MPI_INT, (me + 1) % size, 1, &left, 1, MPI_INT, (me + 2) % size, 1, comm, MPI_STATUS_IGNORE));
    CHECK_EQ(left, (me + 2) % size);
    /* None gets an error if one that is through dies. */
    int flag = 1;
    OK(MPIX_Comm_agree(comm, &flag));
    CHECK_EQ(flag, 1);
}

/* Waits for somebody's death, and returns a communicator of those who are left. */
static MPI_Comm without_dead(MPI_Comm comm) {
    MPI_Comm left;
    int code = MPI_Barrier(comm);
    CHECK(code != MPI_SUCCESS);
    OK(MPIX_Comm_revoke(comm));
    OK(MPIX_Comm_shrink(comm, &left));
    OK(MPI_Comm_set_errhandler(left, MPI_ERRORS_RETURN));
    OK(MPI_Comm_free(&comm));
    return left;
}

static MPI_Comm merge(MPI_Comm inter, int high) {
    MPI_Comm all;
    OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
    OK(MPI_Intercomm_merge(inter, high, &all));
    OK(MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN));
    OK(MPI_Comm_free(&inter));
    return all;
}

int main(int argc, char **argv) {
    CHECK(argc > 1);
    self = argv[0];
    which = argv[1];
    spares_first = strcmp(which, "others") == 0;
    turns = argc > 2 ? atoi(argv[2]) : spares_first ? 30 : 6;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    char agent[64], launcher[64];
    snprintf(agent, sizeof agent, "/proc/%d/fd", (int)getppid());
    snprintf(launcher, sizeof launcher, "/proc/%d/fd", (int)parent_of(getppid()));
    MPI_Comm comm, inter;
    OK(MPI_Comm_get_parent(&inter));
    if (inter == MPI_COMM_NULL) {
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    } else {
        comm = merge(inter, 1);
    }
    int turn = 0, me, open[3] = {0, 0, 0};
    long memory = 0;
    for (;;) {
        OK(MPI_Bcast(&turn, 1, MPI_INT, 0, comm));
        OK(MPI_Comm_rank(comm, &me));
        check_rank = me;
        work(comm);
        if (turn == turns) {
            break;
        }
        int victim = spares_first ? 1 + turn % 2 : turn % 3;
        if (me == victim) {
            raise(SIGKILL);
        }
        comm = without_dead(comm);
        char *args[] = {which, argv[2], NULL};
        double began = MPI_Wtime();
        OK(MPI_Comm_spawn(self, args, 1, MPI_INFO_NULL, 0, comm, &inter, MPI_ERRCODES_IGNORE));
        CHECK(MPI_Wtime() - began < 20);
        OK(MPI_Comm_free(&comm));
        comm = merge(inter, 0);
        turn++;
        if (me == 0 && spares_first && turn == 10) {
            open[0] = descriptors("/proc/self/fd");
            open[1] = descriptors(agent);
            open[2] = descriptors(launcher);
            memory = resident();
        }
    }
    if (me == 0 && spares_first) {
        CHECK(descriptors("/proc/self/fd") <= open[0] + 2);
        CHECK(descriptors(agent) <= open[1] + 2);
        CHECK(descriptors(launcher) <= open[2] + 2);
        fprintf(stderr, "%ld KiB after 10 turns, %ld after %d\n", memory, resident(), turns);
        /* 50 KiB a turn. */
        CHECK(resident() < memory + 1024);
    }
    if (me == 0) {
        printf("replaced %d times\n", turns);
        fflush(stdout);
    }
    OK(MPI_Barrier(comm));
    OK(MPI_Comm_free(&comm));
    OK(MPI_Finalize());
    return 0;
}
