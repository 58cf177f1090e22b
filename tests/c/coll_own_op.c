/* Reductions by functions of the program (MPI-4.1 section 6.9.5), of every length about where the ways change: in the order
 * of ranks where they don't commute, in place and not, to all and to each root, with the same bits on all ranks.
 * ranks: 1 2 3
 * variants: shm tcp
 * timeout: 60
 */
#include "fails.h"

enum { MOST = 2600 };

static long own[MOST], got[MOST];

/* An element is a function x -> a x + b of 32-bit numbers, a above b. One after the other they don't commute. */
static long after(long first, long second) {
    uint32_t a = (uint32_t)((uint64_t)first >> 32), b = (uint32_t)first;
    uint32_t c = (uint32_t)((uint64_t)second >> 32), d = (uint32_t)second;
    return (long)((uint64_t)(a * c) << 32 | (uint32_t)(b * c + d));
}

static void compose(void *in, void *inout, int *count, MPI_Datatype *datatype) {
    CHECK(*datatype == MPI_LONG);
    for (int i = 0; i < *count; i++) {
        ((long *)inout)[i] = after(((long *)in)[i], ((long *)inout)[i]);
    }
}

static void add(void *in, void *inout, int *count, MPI_Datatype *datatype) {
    CHECK(*datatype == MPI_LONG);
    for (int i = 0; i < *count; i++) {
        ((long *)inout)[i] += ((long *)in)[i];
    }
}

/* What rank `rank` has at `i`. */
static long operand(int rank, int i, int again) {
    return (long)(2 + rank) << 32 | (7 * rank + i + again);
}

static long expected(int size, int i, int again, int commutes) {
    long result = operand(0, i, again);
    for (int rank = 1; rank < size; rank++) {
        long next = operand(rank, i, again);
        result = commutes ? result + next : after(result, next);
    }
    return result;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank = world_rank(), size = world_size();
    for (int commutes = 0; commutes < 2; commutes++) {
        MPI_Op op;
        OK(MPI_Op_create(commutes ? add : compose, commutes, &op));
        for (int count = 1; count <= MOST; count = count < 16 ? count + 1 : count * 5 / 4) {
            for (int root = -1; root < size; root++) {
                for (int in_place = 0; in_place < 2; in_place++) {
                    for (int again = 0; again < 3; again++) {
                        int takes = root < 0 || root == rank;
                        for (int i = 0; i < count; i++) {
                            own[i] = operand(rank, i, again);
                            got[i] = in_place ? own[i] : -1;
                        }
                        const void *send = in_place && takes ? MPI_IN_PLACE : own;
                        if (root < 0) {
                            OK(MPI_Allreduce(send, got, count, MPI_LONG, op, MPI_COMM_WORLD));
                        } else {
                            void *result = takes ? got : NULL;
                            OK(MPI_Reduce(send, result, count, MPI_LONG, op, root, MPI_COMM_WORLD));
                        }
                        for (int i = 0; takes && i < count; i++) {
                            CHECK_EQ(got[i], expected(size, i, again, commutes));
                        }
                    }
                }
            }
        }
        OK(MPI_Op_free(&op));
    }
    MPI_Finalize();
    return 0;
}
