/* Where a new communicator or datatype can't be made, although the arguments look right, the variable
 * for it holds the null handle, as libraries of this ABI have it.
 *
 * ranks: 1 2
 * local: handles
 */
#include "fails.h"

static int fails(int object, int keyval, void *extra, void *in, void *out, int *flag) {
    (void)object, (void)keyval, (void)extra, (void)in, (void)out, (void)flag;
    return MPI_ERR_OTHER;
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    int size = world_size(), key;
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    MPI_Comm comm, made = MPI_COMM_SELF;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_create_keyval(fails, MPI_COMM_NULL_DELETE_FN, &key, NULL));
    OK(MPI_Comm_set_attr(comm, key, NULL));
    FAILS(MPI_Comm_dup(comm, &made), MPI_ERR_OTHER);
    CHECK(made == MPI_COMM_NULL);
    made = MPI_COMM_SELF;
    FAILS(MPI_Comm_dup_with_info(comm, MPI_INFO_NULL, &made), MPI_ERR_OTHER);
    CHECK(made == MPI_COMM_NULL);
    made = MPI_COMM_SELF;
    MPI_Request request;
    FAILS(MPI_Comm_idup(comm, &made, &request), MPI_ERR_OTHER);
    CHECK(made == MPI_COMM_NULL);
    made = MPI_COMM_SELF;
    int dims[2] = {size, 2}, periods[2] = {0, 0};
    int code = MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &made);
    CHECK(code != MPI_SUCCESS);
    CHECK(made == MPI_COMM_NULL);
    OK(MPI_Comm_free_keyval(&key));

    MPI_Datatype pair, twin = MPI_INT;
    OK(MPI_Type_create_keyval(fails, MPI_TYPE_NULL_DELETE_FN, &key, NULL));
    OK(MPI_Type_contiguous(2, MPI_INT, &pair));
    OK(MPI_Type_set_attr(pair, key, NULL));
    FAILS(MPI_Type_dup(pair, &twin), MPI_ERR_OTHER);
    CHECK(twin == MPI_DATATYPE_NULL);

    /* Each process has a grid of its own where no dimension is kept, and one more of that. */
    int none[1] = {0};
    MPI_Comm line, point[2];
    OK(MPI_Cart_create(MPI_COMM_WORLD, 1, &size, periods, 0, &line));
    for (int i = 0; i < 2; i++) {
        int n, topology;
        OK(MPI_Cart_sub(i == 0 ? line : point[0], none, &point[i]));
        OK(MPI_Topo_test(point[i], &topology));
        CHECK_EQ(topology, MPI_CART);
        OK(MPI_Cartdim_get(point[i], &n));
        CHECK_EQ(n, 0);
        OK(MPI_Comm_size(point[i], &n));
        CHECK_EQ(n, 1);
    }
    OK(MPI_Comm_free(&point[0]));
    OK(MPI_Comm_free(&point[1]));
    OK(MPI_Comm_free(&line));

    /* The name that the libraries of this ABI give to both. */
    char name[MPI_MAX_OBJECT_NAME];
    int length;
    OK(MPI_Type_get_name(MPI_C_FLOAT_COMPLEX, name, &length));
    CHECK(strcmp(name, "MPI_C_COMPLEX") == 0);
    OK(MPI_Type_get_name(MPI_C_COMPLEX, name, &length));
    CHECK(strcmp(name, "MPI_C_COMPLEX") == 0);
    OK(MPI_Finalize());
    return 0;
}
