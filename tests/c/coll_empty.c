/* Blocking collectives without data do not wait: a rank passes all of them before the others arrive, as with MPICH
 * (programs must not rely on it, MPI-3.1 section 5.13). Later collectives match correctly.
 *
 * ranks: 1 2 3 5
 * variants: shm tcp
 * timeout: 60
 */
#include "coll.h"

enum { ROUNDS = 12 };

/* A datatype without data, of which there may be many. */
static MPI_Datatype empty;

static void no_data(MPI_Comm comm)
{
    int zeros[8] = {0}, all[8] = {7, 7, 7, 7, 7, 7, 7, 7}, one = 5;
    for (int root = 0; root < size; root++) {
        OK(MPI_Bcast(&one, 0, MPI_INT, root, comm));
        OK(MPI_Bcast(&one, 3, empty, root, comm));
        OK(MPI_Reduce(&one, all, 0, MPI_INT, MPI_SUM, root, comm));
        OK(MPI_Gather(&one, 0, MPI_INT, all, 0, MPI_INT, root, comm));
        OK(MPI_Scatter(all, 0, MPI_INT, &one, 0, MPI_INT, root, comm));
    }
    OK(MPI_Allreduce(&one, all, 0, MPI_DOUBLE, MPI_SUM, comm));
    OK(MPI_Allreduce(MPI_IN_PLACE, all, 0, MPI_INT, MPI_MAX, comm));
    OK(MPI_Allgather(&one, 0, MPI_INT, all, 0, MPI_INT, comm));
    OK(MPI_Allgather(MPI_IN_PLACE, 0, MPI_INT, all, 0, MPI_INT, comm));
    OK(MPI_Allgatherv(&one, 0, MPI_INT, all, zeros, zeros, MPI_INT, comm));
    OK(MPI_Alltoall(&one, 0, MPI_INT, all, 0, MPI_INT, comm));
    OK(MPI_Alltoall(&one, 9, empty, all, 9, empty, comm));
    OK(MPI_Reduce_scatter(&one, all, zeros, MPI_INT, MPI_SUM, comm));
    OK(MPI_Reduce_scatter_block(&one, all, 0, MPI_INT, MPI_SUM, comm));
    OK(MPI_Scan(&one, all, 0, MPI_INT, MPI_SUM, comm));
    OK(MPI_Exscan(&one, all, 0, MPI_INT, MPI_SUM, comm));
    CHECK(one == 5 && all[0] == 7 && all[7] == 7, "%d %d %d", one, all[0], all[7]);
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    OK(MPI_Type_contiguous(0, MPI_INT, &empty));
    OK(MPI_Type_commit(&empty));
    for (int k = 0; k < ROUNDS; k++) {
        int first = k % size, sum = -1, word = rank == first ? k : -1;
        /* Each other rank comes when the first one has been through. */
        if (rank != first)
            OK(MPI_Recv(NULL, 0, MPI_INT, first, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        no_data(MPI_COMM_WORLD);
        for (int to = 0; to < size && rank == first; to++)
            if (to != first)
                OK(MPI_Send(NULL, 0, MPI_INT, to, 3, MPI_COMM_WORLD));
        OK(MPI_Allreduce(&k, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        CHECK(sum == k * size, "%d: %d", k, sum);
        OK(MPI_Bcast(&word, 1, MPI_INT, first, MPI_COMM_WORLD));
        CHECK(word == k, "%d: %d", k, word);
    }
    OK(MPI_Type_free(&empty));
    MPI_Finalize();
    return 0;
}
