/* ranks: 1 2 4 6
 * local: topologies
 */
/* Cartesian topologies (MPI-3.1 section 7.5). */
#include "fails.h"

static int size, rank;

/* Neighbours agree about each other, by messages in both directions of each dimension. */
static void shifts(MPI_Comm cart, int ndims) {
    for (int dim = 0; dim < ndims; dim++) {
        for (int disp = -2; disp <= 2; disp++) {
            int source, dest, me, got = -5;
            OK(MPI_Cart_shift(cart, dim, disp, &source, &dest));
            OK(MPI_Comm_rank(cart, &me));
            OK(MPI_Sendrecv(&me, 1, MPI_INT, dest, dim, &got, 1, MPI_INT, source, dim, cart,
                            MPI_STATUS_IGNORE));
            CHECK_EQ(got, source == MPI_PROC_NULL ? -5 : source);
        }
    }
}

static void grid(int ndims, int reorder, int periodic) {
    int dims[4] = {0}, periods[4], got_dims[4], got_periods[4], coords[4], back[4], n, me, all;
    MPI_Comm cart, dup;
    OK(MPI_Dims_create(size, ndims, dims));
    for (int i = 0; i < ndims; i++) {
        periods[i] = periodic ? i + 3 : 0;
        CHECK(i == 0 || dims[i] <= dims[i - 1]);
    }
    OK(MPI_Cart_create(MPI_COMM_WORLD, ndims, dims, periods, reorder, &cart));
    OK(MPI_Topo_test(cart, &n));
    CHECK_EQ(n, MPI_CART);
    OK(MPI_Cartdim_get(cart, &n));
    CHECK_EQ(n, ndims);
    OK(MPI_Comm_rank(cart, &me));
    OK(MPI_Comm_size(cart, &all));
    CHECK_EQ(all, size);
    OK(MPI_Cart_get(cart, ndims, got_dims, got_periods, coords));
    int want = 0;
    for (int i = 0; i < ndims; i++) {
        CHECK_EQ(got_dims[i], dims[i]);
        CHECK_EQ(got_periods[i], periodic);
        CHECK(coords[i] >= 0 && coords[i] < dims[i]);
        want = want * dims[i] + coords[i];
    }
    CHECK_EQ(me, want);
    for (int r = 0; r < size; r++) {
        OK(MPI_Cart_coords(cart, r, ndims, back));
        if (periodic && ndims > 0) {
            back[0] += 5 * dims[0];
            back[ndims - 1] -= 3 * dims[ndims - 1];
        }
        OK(MPI_Cart_rank(cart, back, &n));
        CHECK_EQ(n, r);
    }
    shifts(cart, ndims);

    /* A duplicate has the topology too. */
    OK(MPI_Comm_dup(cart, &dup));
    OK(MPI_Topo_test(dup, &n));
    CHECK_EQ(n, MPI_CART);
    shifts(dup, ndims);
    OK(MPI_Comm_free(&dup));

    /* Each dimension alone, and none. */
    for (int keep = 0; keep <= ndims; keep++) {
        int remain[4] = {0}, sub_dims[1], sub_periods[1], sub_coords[1], sub_rank;
        remain[keep] = keep < ndims;
        OK(MPI_Cart_sub(cart, remain, &dup));
        OK(MPI_Cartdim_get(dup, &n));
        CHECK_EQ(n, keep < ndims);
        OK(MPI_Comm_size(dup, &n));
        CHECK_EQ(n, keep < ndims ? dims[keep] : 1);
        if (keep < ndims) {
            OK(MPI_Cart_get(dup, 1, sub_dims, sub_periods, sub_coords));
            OK(MPI_Comm_rank(dup, &sub_rank));
            CHECK_EQ(sub_dims[0], dims[keep]);
            CHECK_EQ(sub_periods[0], periodic);
            CHECK_EQ(sub_coords[0], coords[keep]);
            CHECK_EQ(sub_rank, coords[keep]);
            shifts(dup, 1);
        }
        OK(MPI_Comm_free(&dup));
    }
    OK(MPI_Comm_free(&cart));
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    size = world_size(), rank = world_rank();
    for (int ndims = 1; ndims <= 4; ndims++) {
        grid(ndims, 0, 0);
        grid(ndims, 1, 1);
    }

    /* Smaller than the communicator, and without dimensions: the first processes. */
    MPI_Comm cart;
    int one[1] = {size > 1 ? size - 1 : 1}, flag[1] = {0}, n, source, dest;
    for (int reorder = 0; reorder < 2; reorder++) {
        OK(MPI_Cart_create(MPI_COMM_WORLD, 1, one, flag, reorder, &cart));
        CHECK_EQ(cart == MPI_COMM_NULL, rank >= one[0]);
        if (cart != MPI_COMM_NULL) {
            OK(MPI_Cart_shift(cart, 0, 1, &source, &dest));
            CHECK_EQ(source, rank == 0 ? MPI_PROC_NULL : rank - 1);
            CHECK_EQ(dest, rank == one[0] - 1 ? MPI_PROC_NULL : rank + 1);
            OK(MPI_Comm_free(&cart));
        }
        OK(MPI_Cart_create(MPI_COMM_WORLD, 0, NULL, NULL, reorder, &cart));
        CHECK_EQ(cart == MPI_COMM_NULL, rank != 0);
        if (rank == 0) {
            OK(MPI_Cartdim_get(cart, &n));
            CHECK_EQ(n, 0);
            OK(MPI_Comm_free(&cart));
        }
    }
    OK(MPI_Cart_map(MPI_COMM_WORLD, 1, one, flag, &n));
    CHECK(rank < one[0] ? n >= 0 && n < one[0] : n == MPI_UNDEFINED);

    /* Wrong uses. */
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    int dims[2] = {1, 0}, big[2] = {size, 2}, periods[2] = {0, 0}, coords[2];
    FAILS(MPI_Cart_create(MPI_COMM_WORLD, 2, big, periods, 0, &cart), MPI_ERR_DIMS);
    FAILS(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &cart), MPI_ERR_DIMS);
    FAILS(MPI_Cart_create(MPI_COMM_WORLD, -1, dims, periods, 0, &cart), MPI_ERR_DIMS);
    FAILS(MPI_Cart_create(MPI_COMM_WORLD, 1, NULL, periods, 0, &cart), MPI_ERR_ARG);
    FAILS(MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, NULL), MPI_ERR_ARG);
    FAILS(MPI_Cart_create(MPI_COMM_NULL, 1, dims, periods, 0, &cart), MPI_ERR_COMM);
    FAILS(MPI_Cart_get(MPI_COMM_WORLD, 2, dims, periods, coords), MPI_ERR_TOPOLOGY);
    FAILS(MPI_Cart_shift(MPI_COMM_WORLD, 0, 1, &source, &dest), MPI_ERR_TOPOLOGY);
    FAILS(MPI_Graphdims_get(MPI_COMM_WORLD, &n, &n), MPI_ERR_TOPOLOGY);
    FAILS(MPI_Dims_create(0, 1, dims), MPI_ERR_ARG);
    int fixed[2] = {7, 0}, negative[2] = {-1, 0};
    FAILS(MPI_Dims_create(8, 2, fixed), MPI_ERR_DIMS);
    FAILS(MPI_Dims_create(8, 2, negative), MPI_ERR_DIMS);
    /* Nothing is left to choose: nnodes has only to be a multiple of the product (section 8.5.2). */
    int divisor[2] = {2, 1};
    OK(MPI_Dims_create(8, 2, divisor));
    CHECK(divisor[0] == 2 && divisor[1] == 1);
    int other[2] = {3, 1};
    FAILS(MPI_Dims_create(8, 2, other), MPI_ERR_DIMS);
    OK(MPI_Topo_test(MPI_COMM_WORLD, &n));
    CHECK_EQ(n, MPI_UNDEFINED);

    int line[1] = {size};
    OK(MPI_Cart_create(MPI_COMM_WORLD, 1, line, periods, 0, &cart));
    OK(MPI_Comm_set_errhandler(cart, MPI_ERRORS_RETURN));
    coords[0] = size;
    FAILS(MPI_Cart_rank(cart, coords, &n), MPI_ERR_ARG);
    FAILS(MPI_Cart_coords(cart, size, 1, coords), MPI_ERR_RANK);
    FAILS(MPI_Cart_coords(cart, 0, 0, coords), MPI_ERR_DIMS);
    FAILS(MPI_Cart_get(cart, 0, dims, periods, coords), MPI_ERR_DIMS);
    FAILS(MPI_Cart_shift(cart, 1, 1, &source, &dest), MPI_ERR_DIMS);
    FAILS(MPI_Cart_sub(cart, NULL, &cart), MPI_ERR_ARG);
    OK(MPI_Comm_free(&cart));
    MPI_Finalize();
    return 0;
}
