/* Reductions of values with indices (MPI-4.1, section 6.9.4), most of whose types have gaps: MPI_MINLOC and MPI_MAXLOC to all
 * and to one, in place and not, of one element and of many, as often as takes them to the slots of a node; equal values give
 * the lowest index, and nothing is written past the end.
 *
 * ranks: 1 2 3 5
 * variants: shm shm-2copy tcp
 * timeout: 60
 */
#include "check.h"

enum { AGAIN = 6, MOST = 300, PAST = 0x5a };

static int me, all;

/* The value of `rank` in element i of round k: few different ones, so that many are equal. */
static int value(int rank, int i, int k)
{
    return (rank * 7 + i * 3 + k) % 5 - 2;
}

/* What MPI_MINLOC (sign 1) or MPI_MAXLOC (-1) gives. */
static void best(int i, int k, int sign, int *found, int *index)
{
    *found = value(0, i, k);
    *index = 100;
    for (int rank = 1; rank < all; rank++)
        if (sign * value(rank, i, k) < sign * *found) {
            *found = value(rank, i, k);
            *index = 100 + rank;
        }
}

#define TEST(NAME, VALUE, INDEX, TYPE)                                                                                  \
    static void NAME(int count, int k, int sign, int root, int in_place)                                               \
    {                                                                                                                  \
        typedef struct { VALUE value; INDEX index; } pair;                                                             \
        static pair in[MOST], out[MOST + 1];                                                                           \
        MPI_Op op = sign > 0 ? MPI_MINLOC : MPI_MAXLOC;                                                                \
        int takes = root < 0 || root == me;                                                                            \
        memset(out, PAST, sizeof out);                                                                                 \
        for (int i = 0; i < count; i++) {                                                                              \
            pair *to = in_place && takes ? out + i : in + i;                                                           \
            to->value = (VALUE)value(me, i, k);                                                                        \
            to->index = (INDEX)(100 + me);                                                                             \
        }                                                                                                              \
        const void *from = in_place && takes ? MPI_IN_PLACE : in;                                                      \
        if (root < 0)                                                                                                  \
            OK(MPI_Allreduce(from, out, count, TYPE, op, MPI_COMM_WORLD));                                             \
        else                                                                                                           \
            OK(MPI_Reduce(from, out, count, TYPE, op, root, MPI_COMM_WORLD));                                          \
        for (int i = 0; takes && i < count; i++) {                                                                     \
            int found, index;                                                                                          \
            best(i, k, sign, &found, &index);                                                                          \
            CHECK(out[i].value == (VALUE)found && out[i].index == (INDEX)index);                                       \
        }                                                                                                              \
        unsigned char *end = (unsigned char *)(out + (takes ? count : 0));                                             \
        for (size_t i = 0; i < sizeof(pair); i++)                                                                      \
            CHECK(end[i] == PAST);                                                                                     \
    }

TEST(of_short, short, int, MPI_SHORT_INT)
TEST(of_int, int, int, MPI_2INT)
TEST(of_float, float, int, MPI_FLOAT_INT)
TEST(of_long, long, int, MPI_LONG_INT)
TEST(of_double, double, int, MPI_DOUBLE_INT)
TEST(of_long_double, long double, int, MPI_LONG_DOUBLE_INT)

int main(int argc, char **argv)
{
    static const int counts[] = {0, 1, 2, 3, 10, 16, 17, 33, 100, MOST};
    void (*const tests[])(int, int, int, int, int) = {of_short, of_int, of_float, of_long, of_double, of_long_double};
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &me));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &all));
    for (int k = 0; k < AGAIN; k++)
        for (unsigned c = 0; c < sizeof counts / sizeof *counts; c++)
            for (unsigned t = 0; t < sizeof tests / sizeof *tests; t++)
                for (int root = -1; root < all; root++) {
                    tests[t](counts[c], k, 1, root, 0);
                    tests[t](counts[c], k, -1, root, 1);
                }
    OK(MPI_Finalize());
    return 0;
}
