/* A manager that spawns 4 workers, merges, works and disconnects, again and again (MPI-3.1 sections 10.3 and 10.5.4):
 * processes, descriptors and memory are the same after the last round as after the third. The argument is the
 * number of rounds, 20 without.
 * ranks: 1
 * variants: shm tcp
 * timeout: 100
 * stdout: managed
 */
#include "fails.h"

#include <dirent.h>

#define WORKERS 4

static int entries(const char *directory) {
    int count = 0;
    DIR *all = opendir(directory);
    CHECK(all != NULL);
    while (readdir(all)) {
        count++;
    }
    closedir(all);
    return count;
}

/* Processes below this one's launcher: what ranks have left would be there. */
static int processes(void) {
    char path[64], line[256];
    int count = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)getppid(), (int)getppid());
    FILE *file = fopen(path, "r");
    CHECK(file != NULL);
    while (fscanf(file, "%255s", line) == 1) {
        count++;
    }
    fclose(file);
    return count;
}

static long memory(void) {
    long all = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(fscanf(file, "%ld %ld", &all, &resident) == 2);
    fclose(file);
    return resident * 4;
}

static void work(MPI_Comm inter, int high) {
    MPI_Comm all;
    OK(MPI_Intercomm_merge(inter, high, &all));
    int rank, sum = 0;
    OK(MPI_Comm_rank(all, &rank));
    for (int i = 0; i < 8; i++) {
        OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, all));
        CHECK_EQ(sum, WORKERS * (WORKERS + 1) / 2);
    }
    OK(MPI_Comm_free(&inter));
    OK(MPI_Comm_disconnect(&all));
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    MPI_Comm other;
    OK(MPI_Comm_get_parent(&other));
    if (other != MPI_COMM_NULL) {
        work(other, 1);
        OK(MPI_Finalize());
        return 0;
    }
    static char self[4096];
    CHECK(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    int rounds = argc > 1 ? atoi(argv[1]) : 20, files = 0, children = 0;
    long start = 0;
    double begin = MPI_Wtime();
    for (int round = 0; round < rounds; round++) {
        OK(MPI_Comm_spawn(self, MPI_ARGV_NULL, WORKERS, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other, MPI_ERRCODES_IGNORE));
        work(other, 0);
        if (round == 2) {
            files = entries("/proc/self/fd");
            start = memory();
        }
    }
    /* Launchers of jobs that have ended go a little later. */
    for (int i = 0; i < 500 && (children = processes()) > 1; i++) {
        nap(0.01);
    }
    if (argc > 1) {
        printf("%d rounds, %.1f ms each; at the end and after the third: descriptors %d, %d; memory %ld KiB, %ld KiB; "
               "children of the launcher %d\n",
               rounds, 1e3 * (MPI_Wtime() - begin) / rounds, entries("/proc/self/fd"), files, memory(), start, children);
    }
    CHECK_EQ(entries("/proc/self/fd"), files);
    CHECK(memory() - start < 2048);
    CHECK_EQ(children, 1); /* this process */
    printf("managed\n");
    OK(MPI_Finalize());
    return 0;
}
