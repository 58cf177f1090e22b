/* How long a call takes: the median of many batches, which are shorter than a turn of the kernel's, so that others on
 * the machine are in few of them. And whether the profile library is there. */
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

int main(int argc, char **argv) {
    static double times[BATCHES];
    double in = 1, sum;
    MPI_Init(&argc, &argv);
    for (int batch = 0; batch < BATCHES; batch++) {
        double began = MPI_Wtime();
        for (int i = 0; i < CALLS; i++)
            MPI_Allreduce(&in, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF);
        times[batch] = (MPI_Wtime() - began) / CALLS;
    }
    qsort(times, BATCHES, sizeof times[0], by_size);
    printf("%s %.1f\n", is_profiled() ? "profiled" : "plain", times[BATCHES / 2] * 1e9);
    return MPI_Finalize();
}
