/* A fast sender cannot exhaust a receiver that is busy elsewhere.
 * ranks: 2 4
 * variants: shm ofi ucx
 * timeout: 60
 * case: small
 * case: large
 */
#include "check.h"

/* Resident memory in KiB. */
static long resident(void) {
    FILE *file = fopen("/proc/self/status", "r");
    CHECK(file != NULL);
    char line[256];
    long value = -1;
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "VmRSS: %ld", &value) == 1) {
            break;
        }
    }
    fclose(file);
    CHECK(value > 0);
    return value;
}

int main(int argc, char **argv) {
    CHECK_EQ(argc, 2);
    int small = strcmp(argv[1], "small") == 0;
    int messages = small ? 200000 : 20000, words = small ? 4 : 1024;
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), size = world_size();
    messages /= size - 1;
    static int data[1024];
    barrier(MPI_COMM_WORLD);
    if (rank != 0) {
        for (int i = 0; i < messages; i++) {
            data[0] = i;
            data[words - 1] = rank;
            OK(MPI_Send(data, words, MPI_INT, 0, 1, MPI_COMM_WORLD));
        }
        OK(MPI_Send(data, 1, MPI_INT, 0, 2, MPI_COMM_WORLD));
    } else {
        long before = resident();
        nap(0.3);
        /* In MPI, too, but without receiving them. */
        double until = MPI_Wtime() + 0.3;
        while (MPI_Wtime() < until) {
            int flag;
            OK(MPI_Iprobe(MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
        }
        long grown = resident() - before;
        /* A window of 1 MiB for each sender's messages, and what it costs to keep them; libfabric's
         * ofi_rxm has 16 KiB for each small one. */
        int ofi = getenv("WEFT_SHM") && strcmp(getenv("WEFT_SHM"), "0") == 0;
        long each = ofi ? 256L * 1024 : 8L * 1024;
        CHECK(grown < each * (size - 1) + 8192);
        int *next = calloc((size_t)size, sizeof *next);
        for (int i = 0; i < messages * (size - 1); i++) {
            MPI_Status status;
            OK(MPI_Recv(data, words, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status));
            CHECK_EQ(data[0], next[status.MPI_SOURCE]++);
            CHECK_EQ(data[words - 1], status.MPI_SOURCE);
        }
        for (int from = 1; from < size; from++) {
            OK(MPI_Recv(data, 1, MPI_INT, from, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        }
        grown = resident() - before;
        CHECK(grown < 2 * each * (size - 1) + 16384);
        free(next);
    }
    OK(MPI_Finalize());
    return 0;
}
