/* MPI_Comm_spawn whose children can't reach the parent's port, because one side has a separate network: an error in
 * bounded time that names the addresses, also if the children's launcher can't reach the port. The same if that
 * launcher, started by a singleton, is killed.
 * ranks: 1
 * variants: shm
 * timeout: 60
 * needs: containers
 * case: child
 * exit: 38
 * stdout: refused: MPI_ERR_SPAWN
 * stdout: : the port can't be reached (127.0.0.1:
 * stderr: the port can't be reached
 * case: parent
 * exit: 38
 * stdout: refused: MPI_ERR_SPAWN
 * stdout: : the port can't be reached (127.0.0.1:
 * stdout: the job's launcher can't reach the port of the process that spawned it (127.0.0.1:
 * stderr: the port can't be reached
 * case: killed
 * stdout: refused: MPI_ERR_SPAWN
 * stdout: the spawned job's launcher has ended, and no process of the job has reached this one at 127.0.0.1:
 */
#define _GNU_SOURCE
#include "ancestors.h"
#include "fails.h"

#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

/* Leaves the network for one with a loopback interface only. */
static void leave_network(void) {
    struct ifreq loopback = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    CHECK(unshare(CLONE_NEWNET) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &loopback) == 0);
    close(fd);
}

int main(int argc, char **argv) {
    CHECK(argc > 1);
    int is_child = argc > 2;
    if (strcmp(argv[1], "killed") == 0) {
        if (is_child) {
            /* It says first that the children have been started. */
            nap(1);
            kill(parent_of(getppid()), SIGKILL);
            pause();
        }
        unsetenv("PMI_FD");
        unsetenv("PMI_RANK");
        unsetenv("PMI_SIZE");
    } else if (is_child == (strcmp(argv[1], "child") == 0)) {
        leave_network();
    }
    MPI_Init(&argc, &argv);
    CHECK(!is_child);
    MPI_Comm inter;
    char *args[] = {argv[1], "spawned", NULL}, text[MPI_MAX_ERROR_STRING];
    int codes[2], class, length;
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    int code = MPI_Comm_spawn(argv[0], args, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter, codes);
    OK(MPI_Error_class(code, &class));
    CHECK_EQ(class, MPI_ERR_SPAWN);
    CHECK(inter == MPI_COMM_NULL);
    OK(MPI_Error_string(code, text, &length));
    printf("refused: %s\n", text);
    OK(MPI_Finalize());
    return 0;
}
