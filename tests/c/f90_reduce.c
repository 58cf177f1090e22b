/* The datatypes of MPI_Type_create_f90_real, _complex and _integer are unnamed predefined ones (MPI-4.1 section 2.4),
 * so predefined operations accept them (section 6.9.2) but not datatypes derived from them.
 *
 * ranks: 1 3
 * local: datatypes
 */
#include "fails.h"

enum { MOST = 3000 };

static MPI_Datatype real, whole, both;

static void reduces(int count, int rank, int size)
{
    static float out[2 * MOST], in[2 * MOST];
    static int numbers[MOST], sums[MOST];
    float all = (float)(size * (size + 1) / 2);
    for (int i = 0; i < 2 * count; i++) {
        out[i] = (float)((rank + 1) * (i % 7));
    }
    for (int i = 0; i < count; i++) {
        numbers[i] = rank + i;
    }
    OK(MPI_Allreduce(out, in, count, real, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < count; i++) {
        CHECK(in[i] == all * (float)(i % 7));
    }
    OK(MPI_Allreduce(out, in, count, both, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < 2 * count; i++) {
        CHECK(in[i] == all * (float)(i % 7));
    }
    MPI_Request request;
    OK(MPI_Ireduce(numbers, sums, count, whole, MPI_MAX, 0, MPI_COMM_WORLD, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int i = 0; i < count && rank == 0; i++) {
        CHECK_EQ(sums[i], size - 1 + i);
    }
    /* The one side names it, the other doesn't. */
    OK(MPI_Scan(numbers, sums, count, rank == 0 ? whole : MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < count; i++) {
        CHECK_EQ(sums[i], (rank + 1) * i + rank * (rank + 1) / 2);
    }
}

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), size = world_size();
    OK(MPI_Type_create_f90_real(6, 30, &real));
    OK(MPI_Type_create_f90_complex(6, 30, &both));
    OK(MPI_Type_create_f90_integer(9, &whole));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    reduces(1, rank, size);
    reduces(MOST, rank, size);
    float one = 2, two = 3;
    OK(MPI_Reduce_local(&one, &two, 1, real, MPI_PROD));
    CHECK(two == 6);
    FAILS(MPI_Reduce_local(&one, &two, 1, real, MPI_BAND), MPI_ERR_OP);
    MPI_Datatype derived;
    OK(MPI_Type_contiguous(1, real, &derived));
    OK(MPI_Type_commit(&derived));
    FAILS(MPI_Reduce_local(&one, &two, 1, derived, MPI_SUM), MPI_ERR_OP);
    OK(MPI_Type_free(&derived));
    OK(MPI_Finalize());
    return 0;
}
