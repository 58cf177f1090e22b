/* The number of communicators is not bounded: 100,000 in turn, 16,000 at the same time.
 * ranks: 2
 * variants: shm
 * timeout: 60
 */
#include "fails.h"

enum { TURNS = 100000, LIVE = 16000 };

static MPI_Comm live[LIVE];

/* Resident memory in KiB. */
static long resident(void) {
    long pages = 0, unused;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &unused, &pages) != 2) pages = 0;
    if (file) fclose(file);
    return pages * 4;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int size, rank, i, got;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm comm;
    long before = 0;
    for (i = 0; i < TURNS; i++) {
        if (i == 1000) before = resident();
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Comm_free(&comm);
    }
    CHECK(resident() - before < 4096);

    before = resident();
    for (i = 0; i < LIVE; i++) MPI_Comm_dup(i ? live[i / 2] : MPI_COMM_WORLD, &live[i]);
    CHECK(resident() - before < 3 * LIVE);
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    for (i = 0; i < LIVE; i += 97) {
        int value = i + rank;
        MPI_Sendrecv(&value, 1, MPI_INT, to, 0, &got, 1, MPI_INT, from, 0, live[i],
                     MPI_STATUS_IGNORE);
        CHECK_EQ(got, i + from);
    }
    for (i = 0; i < LIVE; i++) MPI_Comm_free(&live[i]);
    MPI_Finalize();
    return 0;
}
