/* MPI_UNIVERSE_SIZE (MPI-5.0 section 11.10.1) is the same in processes that are spawned, and in those that these spawn.
 * ranks: 1
 * variants: shm
 * timeout: 40
 * stdout: the same universe
 */
#include "check.h"

#include <sys/wait.h>

/* -1: the attribute is not set. */
static int universe(void) {
    int *size, flag;
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &size, &flag));
    return flag ? *size : -1;
}

/* A job of the same launcher whose universe has this size. */
static void run(char *self, char *size, char *expected) {
    char mine[64], launcher[4096];
    snprintf(mine, sizeof mine, "/proc/%d/exe", (int)getppid());
    ssize_t length = readlink(mine, launcher, sizeof launcher - 1);
    CHECK(length > 0);
    launcher[length] = 0;
    pid_t job = fork();
    if (job == 0) {
        execl(launcher, launcher, "-usize", size, "-n", "1", self, expected, "2", (char *)NULL);
        _exit(1);
    }
    int status = -1;
    CHECK_EQ(waitpid(job, &status, 0), job);
    CHECK_EQ(status, 0);
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    if (argc == 1) {
        run(argv[0], "40", "40");
        run(argv[0], "infinite", "-1");
        printf("the same universe\n");
        OK(MPI_Finalize());
        return 0;
    }
    /* The second argument says how many generations are to come. */
    MPI_Comm parent, children;
    int left = atoi(argv[2]);
    CHECK_EQ(universe(), atoi(argv[1]));
    OK(MPI_Comm_get_parent(&parent));
    if (left > 0) {
        char next[16], *args[] = {argv[1], next, NULL};
        snprintf(next, sizeof next, "%d", left - 1);
        OK(MPI_Comm_spawn(argv[0], args, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE));
        OK(MPI_Comm_disconnect(&children));
    }
    if (parent != MPI_COMM_NULL) {
        OK(MPI_Comm_disconnect(&parent));
    }
    OK(MPI_Finalize());
    return 0;
}
