/* A communicator with only short collectives takes little memory and time for its shared slots: their pages are allocated
 * at first use. With the argument "time" the program prints the time in microseconds.
 *
 * ranks: 2 4
 * variants: shm
 * timeout: 30
 */
#include "coll.h"

enum { COMMS = 20, CALLS = 70, MOST_KIB = 64 };

/* Of this process's memory that is shared, in KiB; -1 where the system doesn't say. */
static long shared_kib(void)
{
    char line[256];
    long found = -1;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (!strncmp(line, "RssShmem:", 9))
            found = atol(line + 9);
    if (status)
        fclose(status);
    return found;
}

static void use(MPI_Comm comm, int k)
{
    double one = rank + k, all = -1;
    int word = rank == 1 ? k : -1;
    OK(MPI_Barrier(comm));
    OK(MPI_Allreduce(&one, &all, 1, MPI_DOUBLE, MPI_SUM, comm));
    CHECK(all == size * k + size * (size - 1) / 2, "%d: %g", k, all);
    OK(MPI_Bcast(&word, 1, MPI_INT, 1, comm));
    CHECK(word == k, "%d: %d", k, word);
}

int main(int argc, char **argv)
{
    MPI_Comm comms[COMMS];
    double made = 0, freed = 0;
    start(&argc, &argv);
    for (int k = 0; k < CALLS; k++)
        use(MPI_COMM_WORLD, k);
    long before = shared_kib();
    for (int i = 0; i < COMMS; i++) {
        double from = MPI_Wtime();
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        for (int k = 0; k < CALLS; k++)
            use(comms[i], k);
        made += MPI_Wtime() - from;
    }
    long each = (shared_kib() - before) / COMMS;
    CHECK(before < 0 || each <= MOST_KIB, "%ld KiB for each communicator", each);
    for (int i = 0; i < COMMS; i++) {
        double from = MPI_Wtime();
        MPI_Comm_free(&comms[i]);
        freed += MPI_Wtime() - from;
    }
    if (argc > 1 && rank == 0)
        printf("dup and %d collectives %.0f, free %.0f; %ld KiB\n", 3 * CALLS, made / COMMS * 1e6, freed / COMMS * 1e6, each);
    MPI_Finalize();
    return 0;
}
