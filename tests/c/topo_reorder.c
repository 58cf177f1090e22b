/* MPI_Cart_create and MPI_Cart_map give ranks anew by node: with four ranks on each node, a grid of
 * 2 x 4 or 2 x 6 is cut into squares and not into rows.
 * ranks: 8 12
 * variants: shm
 * env: WEFT_COLL_NODE=4
 */
#include "check.h"

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int size = world_size(), rank = world_rank(), me, mapped;
    int dims[2] = {2, size / 2}, periods[2] = {0, 0}, source, dest;
    MPI_Comm plain, cart;
    OK(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &plain));
    OK(MPI_Comm_rank(plain, &me));
    CHECK_EQ(me, rank);
    OK(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 1, &cart));
    OK(MPI_Comm_rank(cart, &me));
    OK(MPI_Cart_map(MPI_COMM_WORLD, 2, dims, periods, &mapped));
    CHECK_EQ(mapped, me);

    /* Neighbours on other nodes: each of the borders between nodes is two links long. */
    int cut = 0, total;
    for (int dim = 0; dim < 2; dim++) {
        int node = rank / 4, other = -1;
        OK(MPI_Cart_shift(cart, dim, 1, &source, &dest));
        OK(MPI_Sendrecv(&node, 1, MPI_INT, dest, 0, &other, 1, MPI_INT, source, 0, cart,
                        MPI_STATUS_IGNORE));
        cut += source != MPI_PROC_NULL && other != node;
    }
    OK(MPI_Allreduce(&cut, &total, 1, MPI_INT, MPI_SUM, cart));
    CHECK_EQ(total, 2 * (size / 4 - 1));
    OK(MPI_Comm_free(&cart));
    OK(MPI_Comm_free(&plain));
    MPI_Finalize();
    return 0;
}
