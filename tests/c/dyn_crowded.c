/* Two jobs that are connected have more processes than cores, though neither has alone: they give the core up to each
 * other while they wait.
 * ranks: 1
 * variants: shm tcp
 * timeout: 60
 * stdout: gentle
 */
#define _GNU_SOURCE
#include "fails.h"

#include <sched.h>
#include <sys/resource.h>

#define CHILDREN 2
#define ROUNDS 2000

static double used(void) {
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* Passes a message around all ranks, which share a core: a waiting rank must not spin. */
static void circle(MPI_Comm all, int rank, int size) {
    char token = 0;
    for (int i = 0; i < ROUNDS; i++) {
        if (rank > 0) {
            OK(MPI_Recv(&token, 1, MPI_CHAR, rank - 1, 0, all, MPI_STATUS_IGNORE));
        }
        OK(MPI_Send(&token, 1, MPI_CHAR, (rank + 1) % size, 0, all));
        if (rank == 0) {
            OK(MPI_Recv(&token, 1, MPI_CHAR, size - 1, 0, all, MPI_STATUS_IGNORE));
        }
    }
}

int main(int argc, char **argv) {
    /* Each job has as many cores as the larger has processes; both together have one more. */
    setenv("WEFT_LOCAL_CORES", "2", 1);
    OK(MPI_Init(&argc, &argv));
    static char self[4096];
    CHECK(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    cpu_set_t first, before;
    CHECK(sched_getaffinity(0, sizeof before, &before) == 0);
    CPU_ZERO(&first);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &before)) {
            CPU_SET(cpu, &first);
            break;
        }
    }
    MPI_Comm inter, all;
    OK(MPI_Comm_get_parent(&inter));
    int is_child = inter != MPI_COMM_NULL;
    if (!is_child) {
        OK(MPI_Comm_spawn(self, MPI_ARGV_NULL, CHILDREN, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
    }
    OK(MPI_Intercomm_merge(inter, is_child, &all));
    int rank, size;
    OK(MPI_Comm_rank(all, &rank));
    OK(MPI_Comm_size(all, &size));
    CHECK_EQ(size, CHILDREN + 1);
    CHECK(sched_setaffinity(0, sizeof first, &first) == 0);
    OK(MPI_Barrier(all));
    double took = used();
    circle(all, rank, size);
    took = used() - took;
    if (getenv("WEFT_TEST_SHOW")) {
        fprintf(stderr, "rank %d: %.3f s of the core\n", rank, took);
    }
    /* A wait that spins takes two milliseconds and more of the core. */
    CHECK(took < 0.5 * ROUNDS * 2e-3);
    CHECK(sched_setaffinity(0, sizeof before, &before) == 0);
    OK(MPI_Comm_disconnect(&all));
    OK(MPI_Comm_disconnect(&inter));
    if (!is_child) {
        printf("gentle\n");
    }
    OK(MPI_Finalize());
    return 0;
}
