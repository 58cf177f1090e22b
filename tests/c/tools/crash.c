/* Ranks that die by SIGABRT and leave a core: those that the arguments name; one with a slash behind it in a folder of
 * that name; one with a dot when it is asked to end. The others wait. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static void asked(int signal) {
    (void)signal;
    abort();
}

int main(int argc, char **argv) {
    int rank;
    struct rlimit most;
    /* The process's own memory is enough, and is written in no time. */
    FILE *filter = fopen("/proc/self/coredump_filter", "w");
    if (filter) {
        fputs("1", filter);
        fclose(filter);
    }
    getrlimit(RLIMIT_CORE, &most);
    most.rlim_cur = most.rlim_max;
    setrlimit(RLIMIT_CORE, &most);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 1; i < argc; i++)
        if (atoi(argv[i]) == rank && strchr(argv[i], '.'))
            signal(SIGTERM, asked);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 1; i < argc; i++) {
        if (atoi(argv[i]) != rank || strchr(argv[i], '.'))
            continue;
        if (strchr(argv[i], '/') && (mkdir(argv[i], 0700) != 0 || chdir(argv[i]) != 0))
            return 3;
        abort();
    }
    for (;;)
        pause();
}
