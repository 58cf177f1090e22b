/* MPIX_EQUAL, an extension of MPICH's: whether all ranks have the same data, as one int.
 * ranks: 1 2 3
 */
#include "fails.h"

enum { N = 1000 };

static int data[2 * N];

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), size = world_size(), others = size > 1, equal[2] = {-1, -1}, out = -1;
    MPI_Comm comm = MPI_COMM_WORLD;
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    OK(MPI_Allreduce(&rank, equal, 1, MPI_INT, MPIX_EQUAL, comm));
    CHECK(equal[0] == !others && equal[1] == -1);
    OK(MPI_Allreduce(&size, equal, 1, MPI_INT, MPIX_EQUAL, comm));
    CHECK_EQ(equal[0], 1);
    /* Any datatype; what lies in gaps is no data. */
    MPI_Datatype vector;
    OK(MPI_Type_vector(N, 1, 2, MPI_INT, &vector));
    OK(MPI_Type_commit(&vector));
    for (int i = 0; i < 2 * N; i++) {
        data[i] = i % 2 ? 100 * i + rank : i;
    }
    OK(MPI_Allreduce(data, equal, 1, vector, MPIX_EQUAL, comm));
    CHECK(equal[0] == 1 && equal[1] == -1);
    data[2 * N - 2] += rank == size - 1;
    for (int root = 0; root < size; root++) {
        out = -1;
        OK(MPI_Reduce(data, &out, 1, vector, MPIX_EQUAL, root, comm));
        CHECK_EQ(out, rank == root ? !others : -1);
        OK(MPI_Reduce(data, &out, N - 1, MPI_2INT, MPIX_EQUAL, root, comm));
        CHECK_EQ(out, rank == root ? !others : -1);
    }
    OK(MPI_Reduce_local(&size, &size, 0, MPI_INT, MPI_SUM));
    OK(MPI_Allreduce(MPI_IN_PLACE, data, 1, MPI_INT, MPIX_EQUAL, comm));
    CHECK_EQ(data[0], 1);
    OK(MPI_Allreduce(NULL, equal, 0, MPI_INT, MPIX_EQUAL, comm));
    CHECK_EQ(equal[0], 1);
    OK(MPI_Type_free(&vector));
    MPI_Request request;
    FAILS(MPI_Iallreduce(&rank, equal, 1, MPI_INT, MPIX_EQUAL, comm, &request), MPI_ERR_OP);
    FAILS(MPI_Scan(&rank, equal, 1, MPI_INT, MPIX_EQUAL, comm), MPI_ERR_OP);
    FAILS(MPI_Allreduce(&rank, equal, -1, MPI_INT, MPIX_EQUAL, comm), MPI_ERR_COUNT);
    /* Names of error classes and codes before MPI-4.1. */
    int class_, code;
    OK(MPI_Add_error_class(&class_));
    OK(MPI_Add_error_code(class_, &code));
    OK(MPI_Add_error_string(code, "x"));
    OK(MPIX_Delete_error_string(code));
    OK(MPIX_Delete_error_code(code));
    OK(MPIX_Delete_error_class(class_));
    OK(MPI_Finalize());
    return 0;
}
