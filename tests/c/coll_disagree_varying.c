/* Mismatched collectives with varying block lengths or neighbours: a rank that would hang gets an error in bounded time,
 * and no rank takes the data of another call. If no rank needs data of the mismatched one, an error is not required.
 *
 * ranks: 2 4
 * variants: shm shm-2copy
 * timeout: 30
 */
#include "coll.h"

enum { KINDS = 7, MOST = 40000 };
static int in[4 * MOST], out[4 * MOST], counts[4], places[4], bytes[4];
static MPI_Datatype types[4];

static int call(int kind, int n, MPI_Comm comm)
{
    const MPI_Datatype t = MPI_INT;
    for (int i = 0; i < size; i++) {
        counts[i] = n;
        places[i] = i * n;
        bytes[i] = i * n * (int)sizeof(int);
        types[i] = t;
    }
    switch (kind) {
    case 0: return MPI_Gatherv(in, n, t, out, counts, places, t, 0, comm);
    case 1: return MPI_Gatherv(in, n, t, out, counts, places, t, 1, comm);
    case 2: return MPI_Scatterv(in, counts, places, t, out, n, t, 0, comm);
    case 3: return MPI_Scatterv(in, counts, places, t, out, n, t, 1, comm);
    case 4: return MPI_Neighbor_allgather(in, n, t, out, n, t, comm);
    case 5: return MPI_Neighbor_alltoallv(in, counts, places, t, out, counts, places, t, comm);
    default: return MPI_Alltoallw(in, counts, bytes, types, out, counts, bytes, types, comm);
    }
}

/* Whether a call needs data, or word, of others for the last rank, or of the last rank for others. */
static int needs(int kind, int last)
{
    int is_root = kind % 2 == size - 1;
    switch (kind) {
    case 0:
    case 1: return is_root == last;
    case 2:
    case 3: return is_root != last;
    default: return 1;
    }
}

/* The last rank calls something else. */
static void disagree(int most, int least, int n)
{
    MPI_Comm comm;
    int class = MPI_SUCCESS, told, all = 0;
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &from, MPI_UNWEIGHTED, 1, &to, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                      &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    for (int i = 0; i < 8; i++) {
        OK(call(most, n, comm));
        OK(call(least, n, comm));
        OK(MPI_Barrier(comm));
    }
    for (int i = 0; i < size * n; i++)
        out[i] = -1;
    double began = MPI_Wtime();
    int code = call(rank == size - 1 ? least : most, n, comm);
    told = code != MPI_SUCCESS;
    for (int i = 0; i < size * n && rank < size - 1; i++)
        CHECK(out[i] < size, "%d and %d: the last rank's data has come, which is another call's", most, least);
    /* Who needed nobody's data is told with the next call that does. */
    if (!told)
        told = MPI_Barrier(comm) != MPI_SUCCESS;
    MPI_Error_class(code, &class);
    CHECK(!code || class == MPI_ERR_TRUNCATE || class == MPI_ERR_ROOT || class == MPI_ERR_OTHER, "class %d", class);
    OK(MPI_Allreduce(&told, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    /* Who sends much waits until it is wanted. */
    CHECK(all == size || (all == 0 && !needs(most, 0) && !needs(least, 1)), "%d and %d, %d elements: %d of %d are told",
          most, least, n, all, size);
    CHECK(MPI_Wtime() - began < 5, "%d and %d took %g s", most, least, MPI_Wtime() - began);
    OK(MPI_Comm_free(&comm));
}

int main(int argc, char **argv)
{
    static const int lengths[] = {1, 700, MOST};
    start(&argc, &argv);
    for (int i = 0; i < 4 * MOST; i++)
        in[i] = rank + 1;
    for (int l = 0; l < 3; l++)
        for (int most = 0; most < KINDS; most++)
            for (int least = 0; least < KINDS; least++)
                if (most != least)
                    disagree(most, least, lengths[l]);
    OK(MPI_Finalize());
    return 0;
}
