/* Sends 64 MiB six times between two ranks and checks all of it. Makes the file of its first argument
   after three of them; with a second argument says how long each took. */
#include "../check.h"

enum { TIMES = 6, WORDS = 8 << 20 };

static uint64_t word(int turn, uint64_t at) {
    return (at + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)turn << 56;
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank();
    uint64_t *data = malloc(WORDS * sizeof *data);
    CHECK(data != NULL);
    for (int turn = 0; turn < TIMES; turn++) {
        for (uint64_t at = 0; at < WORDS; at++) {
            data[at] = rank == 0 ? word(turn, at) : 0;
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
        if (rank == 0 && argc > 1 && turn == TIMES / 2) {
            FILE *sign = fopen(argv[1], "w");
            CHECK(sign != NULL && fclose(sign) == 0);
        }
        double began = MPI_Wtime();
        if (rank == 0) {
            OK(MPI_Send(data, WORDS, MPI_UINT64_T, 1, turn, MPI_COMM_WORLD));
            continue;
        }
        OK(MPI_Recv(data, WORDS, MPI_UINT64_T, 0, turn, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        if (argc > 2) {
            printf("%.3f s\n", MPI_Wtime() - began);
        }
        for (uint64_t at = 0; at < WORDS; at++) {
            CHECK(data[at] == word(turn, at));
        }
    }
    if (rank == 1) {
        puts("passed");
    }
    free(data);
    OK(MPI_Finalize());
    return 0;
}
