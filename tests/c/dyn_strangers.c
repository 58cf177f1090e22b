/* A stranger floods the ports of MPI_Open_port and MPI_Comm_spawn with connections that say nothing, garbage, or a hello
 * whose secret it does not know, while the process may have few descriptors: clients and children are accepted all the
 * same, and the program can open files.
 * ranks: 1
 * variants: shm
 * timeout: 120
 * alone: yes
 * stdout: admitted
 */
#include "fails.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { DESCRIPTORS = 128, FLOOD = 600 };

/* Whether a process has this socket. */
static int has_socket(int pid, unsigned long inode) {
    char dir[64], name[64], target[64];
    snprintf(dir, sizeof dir, "/proc/%d/fd", pid);
    DIR *all = opendir(dir);
    int found = 0;
    for (struct dirent *one; all != NULL && !found && (one = readdir(all)) != NULL;) {
        ssize_t length = readlinkat(dirfd(all), one->d_name, target, sizeof target - 1);
        target[length > 0 ? length : 0] = 0;
        snprintf(name, sizeof name, "socket:[%lu]", inode);
        found = strcmp(name, target) == 0;
    }
    if (all != NULL) {
        closedir(all);
    }
    return found;
}

/* The TCP ports at which a process listens. */
static int listeners(int pid, int *ports, int most) {
    int count = 0;
    const char *files[] = {"/proc/net/tcp", "/proc/net/tcp6"};
    for (int file = 0; file < 2; file++) {
        char line[512];
        FILE *from = fopen(files[file], "r");
        while (from != NULL && fgets(line, sizeof line, from) != NULL && count < most) {
            unsigned port, state;
            unsigned long inode;
            if (sscanf(line, " %*[^:]: %*[^:]:%x %*s %x %*s %*s %*s %*s %*s %lu", &port, &state, &inode) == 3 &&
                state == 10 && has_socket(pid, inode)) {
                ports[count++] = (int)port;
            }
        }
        if (from != NULL) {
            fclose(from);
        }
    }
    return count;
}

/* Opens a connection and says one of several things. */
static int attack(int port, int how) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    char said[200];
    for (size_t i = 0; i < sizeof said; i++) {
        said[i] = (char)rand();
    }
    if (fd < 0) {
        return -1;
    }
    connect(fd, (struct sockaddr *)&at, sizeof at);
    switch (how % 4) {
    case 1:
        send(fd, said, sizeof said, MSG_NOSIGNAL);
        break;
    case 2: /* A hello, as it may be recorded. */
        memcpy(said, how % 8 < 4 ? "WeftPrt\1c" : "WeftPrt\1e", 9);
        send(fd, said, 41, MSG_NOSIGNAL);
        break;
    case 3: /* The greeting of older versions. */
        memcpy(said, how % 8 < 4 ? "weftdyn1" : "weftend1", 8);
        send(fd, said, 24, MSG_NOSIGNAL);
        break;
    default:
        break;
    }
    return fd;
}

/* Floods all that a process listens at, until it is killed. */
static void flood(int pid) {
    static int open[FLOOD];
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    for (int i = 0; i < FLOOD; i++) {
        open[i] = -1;
    }
    for (unsigned turn = 0;; turn++) {
        int ports[16], count = listeners(pid, ports, 16);
        for (int i = 0; count > 0 && i < 20; i++) {
            int *place = &open[(20 * turn + i) % FLOOD];
            /* A connection with a challenge gets a wrong answer. */
            char challenge[64];
            if (*place >= 0 && recv(*place, challenge, sizeof challenge, MSG_DONTWAIT) > 0) {
                send(*place, challenge + 32, 32, MSG_NOSIGNAL);
            }
            if (*place >= 0) {
                close(*place);
            }
            *place = attack(ports[i % count], rand());
        }
        nap(0.002);
    }
}

int main(int argc, char **argv) {
    pid_t stranger = -1;
    int is_child = argc > 1;
    if (!is_child) {
        int self = getpid();
        stranger = fork();
        if (stranger == 0) {
            flood(self);
            _exit(1);
        }
        struct rlimit limit = {DESCRIPTORS, DESCRIPTORS};
        CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    }
    OK(MPI_Init(&argc, &argv));
    MPI_Comm parent, other;
    OK(MPI_Comm_get_parent(&parent));
    char port[MPI_MAX_PORT_NAME];
    if (is_child) {
        OK(MPI_Comm_connect(argv[1], MPI_INFO_NULL, 0, MPI_COMM_SELF, &other));
        OK(MPI_Comm_disconnect(&other));
        OK(MPI_Comm_disconnect(&parent));
        OK(MPI_Finalize());
        return 0;
    }
    OK(MPI_Open_port(MPI_INFO_NULL, port));
    for (int turn = 0; turn < 5; turn++) {
        char *args[] = {port, NULL};
        /* Nobody is in MPI_Comm_accept meanwhile. */
        nap(0.5);
        OK(MPI_Comm_spawn(argv[0], args, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &parent, MPI_ERRCODES_IGNORE));
        OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other));
        int files[4];
        for (int i = 0; i < 4; i++) {
            files[i] = open("/dev/null", O_RDONLY);
            CHECK(files[i] >= 0);
        }
        for (int i = 0; i < 4; i++) {
            close(files[i]);
        }
        OK(MPI_Comm_disconnect(&other));
        OK(MPI_Comm_disconnect(&parent));
    }
    CHECK_EQ(waitpid(stranger, NULL, WNOHANG), 0);
    kill(stranger, SIGKILL);
    CHECK_EQ(waitpid(stranger, NULL, 0), stranger);
    OK(MPI_Close_port(port));
    OK(MPI_Finalize());
    printf("admitted\n");
    return 0;
}
