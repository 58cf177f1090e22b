/* Bothers whatever listens in its network namespace, as the user nobody: flood MODE SECONDS.
   idle: holds connections and says nothing; hello: the same, each with the hello of a process of a job, or of an agent,
   and no proof; port, server: the hello of clients of ports, or of name servers; endless: up to 9 MiB without a line's
   end; churn: connects and leaves; names: the same with sockets of abstract names. Does not call MPI. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define HELD 3000

static long made;

static void hold(int fd, int leave)
{
    static int held[HELD];
    static int next;
    made++;
    if (leave) {
        close(fd);
        return;
    }
    if (held[next])
        close(held[next]);
    held[next] = fd;
    next = (next + 1) % HELD;
}

static void hello(int fd, const char *mode, unsigned number)
{
    unsigned char bytes[53] = "WeftTCP\x02";
    size_t context = 13;
    if (strcmp(mode, "hello")) {
        memcpy(bytes, strcmp(mode, "port") ? "WeftNam\x01" : "WeftPrt\x01", 8);
        context = 1;
        bytes[8] = (strcmp(mode, "port") ? "gs" : "ce")[number % 2];
    } else if (number % 4 == 3) {
        memcpy(bytes, "WeftAgt\x02", 8);
        context = 4;
        bytes[8] = number / 4 % 2;
    } else {
        bytes[8] = number % 4;
        bytes[12] = (number + 1) % 4;
    }
    memset(bytes + 8 + context, number, 32);
    if (write(fd, bytes, 8 + context + 32) < 0)
        return;
}

/* Sends as much as the other end reads within 0.1 s. */
static void endless(int fd)
{
    static char bytes[65536];
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    memset(bytes, 'x', sizeof bytes);
    for (long left = 9 << 20; left > 0 && poll(&ready, 1, 100) == 1;) {
        ssize_t sent = send(fd, bytes, sizeof bytes, MSG_NOSIGNAL);
        if (sent < 0)
            return;
        left -= sent;
    }
}

static void connect_all(const char *table, int family, const char *mode, unsigned *number)
{
    FILE *file = fopen(table, "r");
    char line[512], address[64];
    unsigned port, state;
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, " %*d: %63[0-9A-F]:%x %*s %x", address, &port, &state) != 3 || state != 10)
            continue;
        /* The table is slow to read. */
        for (int i = 0; i < 200; i++) {
            int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0);
            if (fd < 0)
                continue;
            struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(port)};
            four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
            struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
            six.sin6_addr = in6addr_loopback;
            int failed = family == AF_INET ? connect(fd, (void *)&four, sizeof four)
                                           : connect(fd, (void *)&six, sizeof six);
            if (failed && errno != EINPROGRESS) {
                close(fd);
                continue;
            }
            if (!strcmp(mode, "endless"))
                endless(fd);
            else if (strcmp(mode, "idle") && strcmp(mode, "churn"))
                hello(fd, mode, (*number)++);
            hold(fd, !strcmp(mode, "churn"));
        }
    }
    if (file)
        fclose(file);
}

static void connect_names(void)
{
    FILE *file = fopen("/proc/net/unix", "r");
    char line[512];
    while (file && fgets(line, sizeof line, file)) {
        char *name = strstr(line, "@weft-");
        if (!name)
            continue;
        name[strcspn(name, "\n")] = 0;
        struct sockaddr_un at = {.sun_family = AF_UNIX};
        size_t len = strlen(name + 1);
        memcpy(at.sun_path + 1, name + 1, len);
        for (int i = 0; i < 1000; i++) {
            int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
            if (connect(fd, (void *)&at, offsetof(struct sockaddr_un, sun_path) + 1 + len)) {
                close(fd);
                break;
            }
            hold(fd, i % 2);
        }
    }
    if (file)
        fclose(file);
}

int main(int argc, char **argv)
{
    if (argc != 3 || setgid(65534) || setuid(65534))
        return 2;
    struct rlimit all = {HELD + 100, HELD + 100};
    setrlimit(RLIMIT_NOFILE, &all);
    time_t end = time(NULL) + atoi(argv[2]);
    unsigned number = 0;
    /* A busy machine takes longer to make as many connections. */
    long least = strcmp(argv[1], "endless") ? 2000 : 5;
    while (time(NULL) < end || (made <= least && time(NULL) < end + 30)) {
        if (!strcmp(argv[1], "names")) {
            connect_names();
            continue;
        }
        connect_all("/proc/net/tcp", AF_INET, argv[1], &number);
        connect_all("/proc/net/tcp6", AF_INET6, argv[1], &number);
    }
    printf("flood: %s, %ld connections\n", made > least ? "enough" : "too few", made);
    return 0;
}
