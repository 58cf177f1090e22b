/* MPI_Graph_create, MPI_Graph_map, MPI_Dist_graph_create and MPI_Dist_graph_create_adjacent give ranks
 * anew by node: a ring whose neighbours are dealt to different nodes comes to be cut once per node, and
 * each process has the edges of the rank that it got.
 * ranks: 8 12
 * variants: shm
 * env: WEFT_COLL_NODE=4
 */
#include "check.h"

static int size, rank;

/* The ring visits ranks 0, 4, 8, 1, 5, 9, …: at first, all neighbours are on different nodes. */
static int step(int place, int by) {
    int nodes = size / 4, at = place % 4 * nodes + place / 4;
    at = (at + by + size) % size;
    return at % nodes * 4 + at / nodes;
}

/* How many links of the ring are between nodes, seen from the communicator's neighbours. */
static int links_between_nodes(MPI_Comm comm, int before, int after) {
    int node = rank / 4, other = -1, cut, total;
    OK(MPI_Sendrecv(&node, 1, MPI_INT, after, 0, &other, 1, MPI_INT, before, 0, comm,
                    MPI_STATUS_IGNORE));
    cut = other != node;
    OK(MPI_Allreduce(&cut, &total, 1, MPI_INT, MPI_SUM, comm));
    return total;
}

static void check_dist(MPI_Comm comm, int weighted) {
    int me, in, out, flag, source[1], destination[1], in_weight[1] = {-1}, out_weight[1] = {-1};
    OK(MPI_Comm_rank(comm, &me));
    OK(MPI_Dist_graph_neighbors_count(comm, &in, &out, &flag));
    CHECK(in == 1 && out == 1 && flag == weighted);
    OK(MPI_Dist_graph_neighbors(comm, 1, source, in_weight, 1, destination, out_weight));
    CHECK_EQ(source[0], step(me, -1));
    CHECK_EQ(destination[0], step(me, 1));
    if (weighted) {
        CHECK_EQ(in_weight[0], 10 + source[0]);
        CHECK_EQ(out_weight[0], 10 + me);
    }
    CHECK_EQ(links_between_nodes(comm, source[0], destination[0]), size / 4);
    int got = -1;
    OK(MPI_Neighbor_alltoall(&me, 1, MPI_INT, &got, 1, MPI_INT, comm));
    CHECK_EQ(got, source[0]);
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    rank = world_rank(), size = world_size();
    int before = step(rank, -1), after = step(rank, 1), me, mapped, index[12], edges[12];
    MPI_Comm comm;

    for (int i = 0; i < size; i++) {
        index[i] = i + 1;
        edges[i] = step(i, 1);
    }
    OK(MPI_Graph_create(MPI_COMM_WORLD, size, index, edges, 0, &comm));
    CHECK_EQ(links_between_nodes(comm, before, after), size);
    OK(MPI_Comm_free(&comm));
    OK(MPI_Graph_create(MPI_COMM_WORLD, size, index, edges, 1, &comm));
    OK(MPI_Comm_rank(comm, &me));
    CHECK_EQ(links_between_nodes(comm, step(me, -1), step(me, 1)), size / 4);
    OK(MPI_Graph_map(MPI_COMM_WORLD, size, index, edges, &mapped));
    CHECK_EQ(mapped, me);
    OK(MPI_Comm_free(&comm));

    int in_weight = 10 + before, out_weight = 10 + rank;
    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &before, &in_weight, 1, &after, &out_weight,
                                      MPI_INFO_NULL, 1, &comm));
    check_dist(comm, 1);
    OK(MPI_Comm_free(&comm));
    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &before, MPI_UNWEIGHTED, 1, &after,
                                      MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm));
    OK(MPI_Comm_rank(comm, &me));
    CHECK_EQ(me, rank);
    OK(MPI_Comm_free(&comm));
    /* All edges given by one process. */
    int sources[12], ones[12], to[12];
    for (int i = 0; i < size; i++)
        sources[i] = i, ones[i] = 1, to[i] = step(i, 1);
    OK(MPI_Dist_graph_create(MPI_COMM_WORLD, rank == 3 ? size : 0, sources, ones, to, MPI_UNWEIGHTED,
                             MPI_INFO_NULL, 1, &comm));
    check_dist(comm, 0);
    OK(MPI_Comm_free(&comm));
    OK(MPI_Finalize());
    return 0;
}
