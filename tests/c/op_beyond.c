/* Reductions beyond the standard, as programs of this ABI expect them: logical operations on all
 * numbers, MPI_CHARACTER as the integer that C's char is, and the same for MPI_BYTE in accumulates.
 *
 * ranks: 2
 * local: operations
 */
#include "fails.h"

#include <limits.h>

/* On aarch64 and ppc64le C's char is unsigned. */
enum { IS_SIGNED = CHAR_MIN < 0 };

static int size, rank;

#define LOGICAL(type, datatype)                                                                    \
    do {                                                                                           \
        type in[3] = {(type)(rank + 3), 0, rank ? (type)0 : (type)5}, out[3];                      \
        OK(MPI_Allreduce(in, out, 3, datatype, MPI_LAND, MPI_COMM_WORLD));                         \
        CHECK(out[0] == 1 && out[1] == 0 && out[2] == 0);                                \
        OK(MPI_Allreduce(in, out, 3, datatype, MPI_LOR, MPI_COMM_WORLD));                          \
        CHECK(out[0] == 1 && out[1] == 0 && out[2] == 1);                                          \
        OK(MPI_Allreduce(in, out, 3, datatype, MPI_LXOR, MPI_COMM_WORLD));                         \
        CHECK(out[0] == 0 && out[1] == 0 && out[2] == 1);    \
    } while (0)

static void accumulates(MPI_Datatype type, int is_signed) {
    static signed char memory[6];
    static const signed char at[6] = {6, -5, 7, 0, 100, -128}, in[6] = {3, 3, 0, 2, 100, -1};
    const struct {
        MPI_Op op;
        signed char want[6];
    } cases[] = {
        {MPI_SUM, {9, -2, 7, 2, -56, 127}},  {MPI_PROD, {18, -15, 0, 0, 16, -128}},
        {MPI_MAX, {6, is_signed ? 3 : -5, 7, 2, 100, -1}},
        {MPI_MIN, {3, is_signed ? -5 : 3, 0, 0, 100, -128}},
        {MPI_LAND, {1, 1, 0, 0, 1, 1}},      {MPI_LOR, {1, 1, 1, 1, 1, 1}},
        {MPI_LXOR, {0, 0, 1, 1, 0, 0}},      {MPI_BAND, {2, 3, 0, 0, 100, -128}},
        {MPI_REPLACE, {3, 3, 0, 2, 100, -1}},
    };
    MPI_Win win;
    OK(MPI_Win_create(memory, sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    int peer = (rank + 1) % size;
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        memcpy(memory, at, sizeof memory);
        signed char found[6];
        OK(MPI_Win_fence(0, win));
        OK(MPI_Accumulate(in, 5, type, peer, 0, 5, type, cases[i].op, win));
        OK(MPI_Get_accumulate(&in[5], 1, type, found, 1, type, peer, 5, 1, type, cases[i].op, win));
        OK(MPI_Win_fence(0, win));
        CHECK_EQ(found[0], at[5]);
        for (int k = 0; k < 6; k++) {
            CHECK_EQ(memory[k], cases[i].want[k]);
        }
        OK(MPI_Win_fence(0, win));
    }
    OK(MPI_Win_free(&win));
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    rank = world_rank(), size = world_size();
    LOGICAL(MPI_Aint, MPI_AINT);
    LOGICAL(MPI_Offset, MPI_OFFSET);
    LOGICAL(MPI_Count, MPI_COUNT);
    LOGICAL(float, MPI_FLOAT);
    LOGICAL(double, MPI_DOUBLE);
    LOGICAL(long double, MPI_LONG_DOUBLE);
    LOGICAL(double, MPI_DOUBLE_PRECISION);
    LOGICAL(int, MPI_INTEGER);
    accumulates(MPI_CHAR, IS_SIGNED);
    accumulates(MPI_SIGNED_CHAR, 1);
    accumulates(MPI_CHARACTER, IS_SIGNED);
    accumulates(MPI_BYTE, IS_SIGNED);

    char c = (char)(rank + 1), sum;
    OK(MPI_Allreduce(&c, &sum, 1, MPI_CHARACTER, MPI_SUM, MPI_COMM_WORLD));
    CHECK_EQ(sum, size * (size + 1) / 2);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    FAILS(MPI_Allreduce(&c, &sum, 1, MPI_BYTE, MPI_SUM, MPI_COMM_WORLD), MPI_ERR_OP);
    FAILS(MPI_Allreduce(&c, &sum, 1, MPI_BYTE, MPI_LAND, MPI_COMM_WORLD), MPI_ERR_OP);
    double d = 1, e;
    FAILS(MPI_Allreduce(&d, &e, 1, MPI_DOUBLE, MPI_BAND, MPI_COMM_WORLD), MPI_ERR_OP);
    OK(MPI_Finalize());
    return 0;
}
