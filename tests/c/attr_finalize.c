/* ranks: 1 2
 * local: attributes
 */
/* Attributes of MPI_COMM_SELF go first in MPI_Finalize, the last set first, while MPI still works
   (MPI-3.1 section 8.7.1). */
#include "check.h"

static int next = 9, keys[10];

static int drop(MPI_Comm comm, int keyval, void *value, void *extra) {
    int finalized = -1, flag, size, index = (int)(MPI_Aint)value;
    CHECK_EQ(comm, MPI_COMM_SELF);
    CHECK(extra == (void *)keys);
    CHECK_EQ(index, next);
    CHECK_EQ(keyval, keys[index]);
    next--;
    OK(MPI_Finalized(&finalized));
    CHECK_EQ(finalized, 0);
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    /* Those before are still there, and messages move. */
    void *other;
    if (index > 0) {
        OK(MPI_Comm_get_attr(MPI_COMM_SELF, keys[index - 1], &other, &flag));
        CHECK(flag && other == (void *)(MPI_Aint)(index - 1));
    }
    int rank = world_rank(), got = -1;
    OK(MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 3, &got, 1, MPI_INT,
                    (rank + size - 1) % size, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_EQ(got, (rank + size - 1) % size);
    return MPI_SUCCESS;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    for (int i = 0; i < 10; i++) {
        OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, drop, &keys[i], keys));
    }
    for (int i = 0; i < 10; i++) {
        OK(MPI_Comm_set_attr(MPI_COMM_SELF, keys[i], (void *)(MPI_Aint)i));
    }
    MPI_Finalize();
    if (next != -1) {
        fprintf(stderr, "%d attributes were not deleted\n", next + 1);
        return 1;
    }
    return 0;
}
