/* What a traced call takes, and the same call by its name with a P, which nobody traces: medians of many batches by
 * turns, which are shorter than a turn of the kernel's, so that others on the machine are in few of them. And whether the
 * profile library is there. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCHES = 2001, CALLS = 100 };

static int by_size(const void *one, const void *other) {
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

static int is_profiled(void) {
    char line[4096];
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        found |= strstr(line, "libweft_profile") != NULL;
    if (maps)
        fclose(maps);
    return found;
}

static double median(double *times) {
    qsort(times, BATCHES, sizeof times[0], by_size);
    return times[BATCHES / 2] / CALLS * 1e9;
}

int main(int argc, char **argv) {
    static double adds[BATCHES], plain[BATCHES];
    double in = 1, sum;
    MPI_Init(&argc, &argv);
    for (int batch = 0; batch < BATCHES; batch++) {
        double began = PMPI_Wtime();
        for (int i = 0; i < CALLS; i++)
            MPI_Allreduce(&in, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF);
        double between = PMPI_Wtime();
        for (int i = 0; i < CALLS; i++)
            PMPI_Allreduce(&in, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF);
        plain[batch] = PMPI_Wtime() - between;
        adds[batch] = between - began - plain[batch];
    }
    printf("%s %.1f %.1f\n", is_profiled() ? "profiled" : "plain", median(adds), median(plain));
    return MPI_Finalize();
}
