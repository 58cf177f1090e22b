/* Thousands of communicators, created in turn and at the same time.
 * ranks: 2 3
 * timeout: 90
 * case: churn
 * case: live
 */
#include "check.h"

static void use(MPI_Comm comm, int rank, int size, int value) {
    int got = -1;
    OK(MPI_Sendrecv(&value, 1, MPI_INT, (rank + 1) % size, 3, &got, 1, MPI_INT,
                    (rank + size - 1) % size, 3, comm, MPI_STATUS_IGNORE));
    CHECK_EQ(got, value);
}

int main(int argc, char **argv) {
    CHECK_EQ(argc, 2);
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), size = world_size();
    if (strcmp(argv[1], "churn") == 0) {
        for (int i = 0; i < 20000; i++) {
            MPI_Comm comm;
            OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
            if (i % 100 == 0) {
                use(comm, rank, size, i);
            }
            OK(MPI_Comm_free(&comm));
        }
    } else {
        enum { LIVE = 2000 };
        static MPI_Comm comms[LIVE];
        for (int i = 0; i < LIVE; i++) {
            OK(MPI_Comm_dup(i % 2 ? comms[i / 2] : MPI_COMM_WORLD, &comms[i]));
        }
        for (int i = 0; i < LIVE; i++) {
            use(comms[i], rank, size, i);
        }
        for (int i = 0; i < LIVE; i += 2) {
            OK(MPI_Comm_free(&comms[i]));
        }
        for (int i = 1; i < LIVE; i += 2) {
            use(comms[i], rank, size, i);
        }
        for (int i = 1; i < LIVE; i += 2) {
            OK(MPI_Comm_free(&comms[i]));
        }
    }
    OK(MPI_Finalize());
    return 0;
}
