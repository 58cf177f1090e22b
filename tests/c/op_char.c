/* Reductions of MPI_CHAR, which the standard leaves out and the libraries of this ABI take as the
 * integer that C's char is.
 *
 * ranks: 1 2 3
 * local: operations
 */
#include "check.h"

#define N 37

static int rank, size;

static char value(int r, int i) {
    return (char)((r * 31 + i * 7) % 50 - 25);
}

static void compare(MPI_Op op, char (*combine)(char, char)) {
    char own[N], all[N], through[N];
    for (int i = 0; i < N; i++) {
        own[i] = value(rank, i);
    }
    OK(MPI_Allreduce(own, all, N, MPI_CHAR, op, MPI_COMM_WORLD));
    memcpy(through, own, N);
    MPI_Request request;
    OK(MPI_Iallreduce(MPI_IN_PLACE, through, N, MPI_CHAR, op, MPI_COMM_WORLD, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int i = 0; i < N; i++) {
        char expected = value(0, i);
        for (int r = 1; r < size; r++) {
            expected = combine(expected, value(r, i));
        }
        CHECK_EQ(all[i], expected);
        CHECK_EQ(through[i], expected);
    }
}

static char add(char a, char b) {
    return (char)(a + b);
}

static char greatest(char a, char b) {
    return a > b ? a : b;
}

static char least(char a, char b) {
    return a < b ? a : b;
}

static char and_of(char a, char b) {
    return a && b;
}

static char bits(char a, char b) {
    return (char)(a ^ b);
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    check_rank = rank;

    compare(MPI_SUM, add);
    compare(MPI_MAX, greatest);
    compare(MPI_MIN, least);
    compare(MPI_BXOR, bits);
    if (size > 1) {
        compare(MPI_LAND, and_of);
    }

    OK(MPI_Finalize());
    return 0;
}
