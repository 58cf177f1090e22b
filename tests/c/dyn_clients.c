/* Many clients, each a job, of one server (MPI-3.1 section 10.4) connect and disconnect concurrently; some die before
 * they are accepted, or between acceptance and disconnecting. The server continues without growth of descriptors or
 * memory. An argument sets the number of concurrent clients (default 10) and prints figures.
 * ranks: 1
 * variants: shm tcp
 * timeout: 60
 * stdout: served
 */
#include "fails.h"

#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>

#define ROUNDS 5
#define MOST 200

static int descriptors(void) {
    int count = 0;
    DIR *all = opendir("/proc/self/fd");
    while (readdir(all)) {
        count++;
    }
    closedir(all);
    return count;
}

/* Resident memory in KiB. */
static long memory(void) {
    long all = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(fscanf(file, "%ld %ld", &all, &resident) == 2);
    fclose(file);
    return resident * 4;
}

static void client(const char *port, int number) {
    MPI_Comm server;
    OK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &server));
    OK(MPI_Send(&number, 1, MPI_INT, 0, 0, server));
    if (number % 10 == 9) {
        raise(SIGKILL);
    }
    int answer = -1;
    OK(MPI_Recv(&answer, 1, MPI_INT, 0, 0, server, MPI_STATUS_IGNORE));
    CHECK_EQ(answer, number + 1);
    OK(MPI_Comm_disconnect(&server));
}

int main(int argc, char **argv) {
    if (argc > 2) {
        /* Started without a launcher: a job of its own. */
        OK(MPI_Init(&argc, &argv));
        client(argv[1], atoi(argv[2]));
        OK(MPI_Finalize());
        return 0;
    }
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    char port[MPI_MAX_PORT_NAME], number[16];
    OK(MPI_Open_port(MPI_INFO_NULL, port));
    int at_once = argc > 1 ? atoi(argv[1]) : 10, started = 0, lost = 0, before = 0;
    CHECK(at_once > 0 && at_once <= MOST && at_once % 10 == 0);
    long start = 0;
    double begin = MPI_Wtime();
    static pid_t pids[ROUNDS * MOST];
    MPI_Comm clients[MOST];
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < at_once; i++, started++) {
            snprintf(number, sizeof number, "%d", started);
            pids[started] = fork();
            if (pids[started] == 0) {
                unsetenv("PMI_FD");
                unsetenv("PMI_RANK");
                unsetenv("PMI_SIZE");
                execl("/proc/self/exe", argv[0], port, number, (char *)NULL);
                _exit(1);
            }
        }
        int seen[MOST] = {0};
        for (int i = 0; i < at_once; i++) {
            OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &clients[i]));
        }
        for (int i = 0; i < at_once; i++) {
            int got = -1;
            OK(MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, clients[i], MPI_STATUS_IGNORE));
            CHECK(got / at_once == round && !seen[got % at_once]);
            seen[got % at_once] = 1;
            if (got % 10 == 9) {
                /* It dies now: receives from it end, and others do not notice. */
                FAILS(MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 0, clients[i], MPI_STATUS_IGNORE),
                      MPIX_ERR_PROC_FAILED);
                FAILS(MPI_Comm_disconnect(&clients[i]), MPIX_ERR_PROC_FAILED);
                CHECK_EQ(clients[i], MPI_COMM_NULL);
                lost++;
                continue;
            }
            got++;
            OK(MPI_Send(&got, 1, MPI_INT, 0, 0, clients[i]));
        }
        for (int i = 0; i < at_once; i++) {
            if (clients[i] != MPI_COMM_NULL) {
                OK(MPI_Comm_disconnect(&clients[i]));
            }
        }
        for (int i = started - at_once; i < started; i++) {
            int status = -1;
            CHECK_EQ(waitpid(pids[i], &status, 0), pids[i]);
            CHECK(i % 10 == 9 ? WIFSIGNALED(status) : status == 0);
        }
        if (round == 1) {
            before = descriptors();
            start = memory();
        }
    }
    if (argc > 1) {
        printf("%d rounds of %d clients at once, %.0f ms each, %d killed between accept and disconnect; at the end and after the "
               "second: descriptors %d, %d; memory %ld KiB, %ld KiB\n",
               ROUNDS, at_once, 1e3 * (MPI_Wtime() - begin) / ROUNDS, lost, descriptors(), before, memory(), start);
    }
    CHECK_EQ(lost, started / 10);
    CHECK_EQ(descriptors(), before);
    CHECK(memory() - start < 4096);
    OK(MPI_Close_port(port));
    printf("served\n");
    OK(MPI_Finalize());
    return 0;
}
