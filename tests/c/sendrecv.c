/* MPI_Sendrecv and MPI_Sendrecv_replace around a ring, along a line with open ends, and with oneself.
 * ranks: 1 2 3
 */
#include "check.h"

static const int sizes[] = {0, 1, 8, 88, 89, 8184, 8185, 65536, 1 << 20, 5 << 20};
enum { MAX = 5 << 20, GUARD = 16 };

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), size = world_size();
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    char *out = allocate(MAX), *in = allocate(MAX + GUARD);
    MPI_Status status;
    int count;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int bytes = sizes[i];
        uint64_t mine = (uint64_t)(bytes * 10 + rank), theirs = (uint64_t)(bytes * 10 + left);
        fill(out, (size_t)bytes, mine);
        memset(in, 0xee, (size_t)bytes + GUARD);
        OK(MPI_Sendrecv(out, bytes, MPI_CHAR, right, 3, in, bytes + GUARD, MPI_CHAR, left, 3,
                        MPI_COMM_WORLD, &status));
        OK(MPI_Get_count(&status, MPI_CHAR, &count));
        CHECK_EQ(count, bytes);
        CHECK_EQ(status.MPI_SOURCE, left);
        CHECK_EQ(status.MPI_TAG, 3);
        CHECK(is_filled(in, (size_t)bytes, theirs));
        CHECK(all_bytes(in + bytes, GUARD, 0xee));

        OK(MPI_Sendrecv(out, bytes, MPI_CHAR, right, 4, in, bytes, MPI_CHAR, MPI_ANY_SOURCE,
                        MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK(is_filled(in, (size_t)bytes, theirs));

        OK(MPI_Sendrecv_replace(out, bytes, MPI_CHAR, right, 5, left, 5, MPI_COMM_WORLD, &status));
        OK(MPI_Get_count(&status, MPI_CHAR, &count));
        CHECK_EQ(count, bytes);
        CHECK_EQ(status.MPI_SOURCE, left);
        CHECK(is_filled(out, (size_t)bytes, theirs));

        /* Along a line. */
        int up = rank + 1 < size ? rank + 1 : MPI_PROC_NULL, down = rank ? rank - 1 : MPI_PROC_NULL;
        fill(out, (size_t)bytes, mine);
        memset(in, 0xee, (size_t)bytes + GUARD);
        OK(MPI_Sendrecv(out, bytes, MPI_CHAR, up, 6, in, bytes, MPI_CHAR, down, 6, MPI_COMM_WORLD,
                        &status));
        OK(MPI_Get_count(&status, MPI_CHAR, &count));
        if (down == MPI_PROC_NULL) {
            CHECK_EQ(status.MPI_SOURCE, MPI_PROC_NULL);
            CHECK_EQ(status.MPI_TAG, MPI_ANY_TAG);
            CHECK_EQ(count, 0);
            CHECK(all_bytes(in, (size_t)bytes, 0xee));
        } else {
            CHECK_EQ(count, bytes);
            CHECK(is_filled(in, (size_t)bytes, theirs));
        }
        OK(MPI_Sendrecv_replace(out, bytes, MPI_CHAR, up, 7, down, 7, MPI_COMM_WORLD, &status));
        CHECK(is_filled(out, (size_t)bytes, down == MPI_PROC_NULL ? mine : theirs));
    }
    /* Types may differ if the data is the same. */
    int ints[6] = {rank, 1, 2, 3, 4, 5}, got[6] = {0};
    OK(MPI_Sendrecv(ints, 6, MPI_INT, right, 8, got, 24, MPI_BYTE, left, 8, MPI_COMM_WORLD, &status));
    CHECK_EQ(got[0], left);
    CHECK_EQ(got[5], 5);
    OK(MPI_Get_count(&status, MPI_INT, &count));
    CHECK_EQ(count, 6);
    OK(MPI_Get_count(&status, MPI_DOUBLE, &count));
    CHECK_EQ(count, 3);
    OK(MPI_Sendrecv(ints, 5, MPI_INT, right, 8, got, 6, MPI_INT, left, 8, MPI_COMM_WORLD, &status));
    OK(MPI_Get_count(&status, MPI_DOUBLE, &count));
    CHECK_EQ(count, MPI_UNDEFINED);
    OK(MPI_Finalize());
    return 0;
}
