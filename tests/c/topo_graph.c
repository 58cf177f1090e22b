/* ranks: 1 2 4 5
 * local: topologies
 */
/* Graph and distributed graph topologies (MPI-3.1 sections 7.5.3 to 7.5.5). */
#include "fails.h"

static int size, rank;

static int compare(const void *a, const void *b) {
    return *(const int *)a - *(const int *)b;
}

/* A ring in which each process has its successor and its predecessor as neighbours. */
static void ring_graph(void) {
    int index[64], edges[128], n, m, got[2], got_index[64], got_edges[128];
    for (int i = 0; i < size; i++) {
        index[i] = 2 * (i + 1);
        edges[2 * i] = (i + 1) % size;
        edges[2 * i + 1] = (i + size - 1) % size;
    }
    MPI_Comm graph, dup;
    OK(MPI_Graph_create(MPI_COMM_WORLD, size, index, edges, 1, &graph));
    OK(MPI_Comm_dup(graph, &dup));
    OK(MPI_Comm_free(&graph));
    graph = dup;
    OK(MPI_Topo_test(graph, &n));
    CHECK_EQ(n, MPI_GRAPH);
    OK(MPI_Graphdims_get(graph, &n, &m));
    CHECK(n == size && m == 2 * size);
    OK(MPI_Graph_get(graph, 64, 128, got_index, got_edges));
    CHECK(!memcmp(index, got_index, size * sizeof(int)));
    CHECK(!memcmp(edges, got_edges, 2 * size * sizeof(int)));
    for (int i = 0; i < size; i++) {
        OK(MPI_Graph_neighbors_count(graph, i, &n));
        CHECK_EQ(n, 2);
        OK(MPI_Graph_neighbors(graph, i, 2, got));
        CHECK(got[0] == edges[2 * i] && got[1] == edges[2 * i + 1]);
    }
    OK(MPI_Graph_map(MPI_COMM_WORLD, size, index, edges, &n));
    CHECK_EQ(n, rank);
    MPI_Comm_set_errhandler(graph, MPI_ERRORS_RETURN);
    FAILS(MPI_Graph_neighbors(graph, size, 2, got), MPI_ERR_RANK);
    FAILS(MPI_Graph_neighbors(graph, 0, 1, got), MPI_ERR_ARG);
    FAILS(MPI_Graph_get(graph, 0, 128, got_index, got_edges), MPI_ERR_ARG);
    FAILS(MPI_Cartdim_get(graph, &n), MPI_ERR_TOPOLOGY);
    OK(MPI_Comm_free(&graph));

    /* Fewer nodes than processes. */
    int none[1] = {0};
    OK(MPI_Graph_create(MPI_COMM_WORLD, 1, none, NULL, 0, &graph));
    CHECK_EQ(graph == MPI_COMM_NULL, rank != 0);
    if (rank == 0) {
        OK(MPI_Comm_free(&graph));
    }
    OK(MPI_Graph_create(MPI_COMM_WORLD, 0, NULL, NULL, 0, &graph));
    CHECK_EQ(graph, MPI_COMM_NULL);

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int bad_index[1] = {-1}, bad_edges[1] = {size}, good_index[1] = {1};
    FAILS(MPI_Graph_create(MPI_COMM_WORLD, 1, bad_index, bad_edges, 0, &graph), MPI_ERR_ARG);
    FAILS(MPI_Graph_create(MPI_COMM_WORLD, 1, good_index, bad_edges, 0, &graph), MPI_ERR_ARG);
    FAILS(MPI_Graph_create(MPI_COMM_WORLD, -1, good_index, bad_edges, 0, &graph), MPI_ERR_ARG);
    FAILS(MPI_Graph_create(MPI_COMM_WORLD, 1, NULL, NULL, 0, &graph), MPI_ERR_ARG);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

/* The edges r -> r + 1 with weight r and r -> r (a loop) with weight 100 + r. */
static void check_ring(MPI_Comm comm, int weighted) {
    int in, out, flag, sources[2], destinations[2], in_weights[2] = {-1, -1};
    int out_weights[2] = {-1, -1}, before = (rank + size - 1) % size, n;
    OK(MPI_Topo_test(comm, &n));
    CHECK_EQ(n, MPI_DIST_GRAPH);
    OK(MPI_Dist_graph_neighbors_count(comm, &in, &out, &flag));
    CHECK(in == 2 && out == 2 && flag == weighted);
    OK(MPI_Dist_graph_neighbors(comm, 2, sources, in_weights, 2, destinations, out_weights));
    int want[2] = {before, rank};
    CHECK((sources[0] == want[0] && sources[1] == want[1]) ||
          (sources[0] == want[1] && sources[1] == want[0]));
    CHECK((destinations[0] == (rank + 1) % size && destinations[1] == rank) ||
          (destinations[1] == (rank + 1) % size && destinations[0] == rank));
    if (weighted) {
        int have[4] = {in_weights[0], in_weights[1], out_weights[0], out_weights[1]};
        int expect[4] = {before, 100 + rank, rank, 100 + rank};
        qsort(have, 2, sizeof(int), compare);
        qsort(have + 2, 2, sizeof(int), compare);
        CHECK(!memcmp(have, expect, sizeof have));
    } else {
        CHECK(in_weights[0] == -1 && out_weights[1] == -1);
    }
    /* Less room: the first. */
    int first[1], last = sources[0];
    OK(MPI_Dist_graph_neighbors(comm, 1, first, MPI_UNWEIGHTED, 0, NULL, MPI_UNWEIGHTED));
    CHECK_EQ(first[0], last);
}

static void dist_graphs(void) {
    MPI_Comm graph, dup;
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    int sources[2] = {before, rank}, destinations[2] = {next, rank};
    int in_weights[2] = {before, 100 + rank}, out_weights[2] = {rank, 100 + rank};
    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, sources, in_weights, 2, destinations,
                                      out_weights, MPI_INFO_NULL, 0, &graph));
    check_ring(graph, 1);
    OK(MPI_Comm_dup(graph, &dup));
    check_ring(dup, 1);
    OK(MPI_Comm_free(&dup));
    OK(MPI_Comm_free(&graph));
    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, sources, MPI_UNWEIGHTED, 2, destinations,
                                      MPI_UNWEIGHTED, MPI_INFO_NULL, 1, &graph));
    check_ring(graph, 0);
    OK(MPI_Comm_free(&graph));

    /* Each describes the edges of its successor. */
    int degree = 2, ends[2] = {(next + 1) % size, next}, weights[2] = {next, 100 + next};
    OK(MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &next, &degree, ends, weights, MPI_INFO_NULL, 0,
                             &graph));
    check_ring(graph, 1);
    OK(MPI_Comm_free(&graph));
    OK(MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &next, &degree, ends, MPI_UNWEIGHTED,
                             MPI_INFO_NULL, 0, &graph));
    check_ring(graph, 0);
    OK(MPI_Comm_free(&graph));

    /* The last one describes them all. */
    int all[64], degrees[64], all_ends[128], all_weights[128], n = rank == size - 1 ? size : 0;
    for (int i = 0; i < size; i++) {
        all[i] = i, degrees[i] = 2;
        all_ends[2 * i] = (i + 1) % size, all_ends[2 * i + 1] = i;
        all_weights[2 * i] = i, all_weights[2 * i + 1] = 100 + i;
    }
    OK(MPI_Dist_graph_create(MPI_COMM_WORLD, n, all, degrees, all_ends,
                             n ? all_weights : MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, 0, &graph));
    check_ring(graph, 1);
    OK(MPI_Comm_free(&graph));

    /* Nobody has an edge. */
    int in, out, weighted;
    OK(MPI_Dist_graph_create(MPI_COMM_WORLD, 0, NULL, NULL, NULL, MPI_WEIGHTS_EMPTY, MPI_INFO_NULL,
                             0, &graph));
    OK(MPI_Dist_graph_neighbors_count(graph, &in, &out, &weighted));
    CHECK(in == 0 && out == 0 && weighted);
    OK(MPI_Comm_free(&graph));

    /* Wrong uses. */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int wrong[2] = {size, 0}, negative[2] = {-1, 1};
    FAILS(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, wrong, MPI_UNWEIGHTED, 0, NULL,
                                         MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph), MPI_ERR_ARG);
    FAILS(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, sources, negative, 0, NULL,
                                         MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, 0, &graph), MPI_ERR_ARG);
    FAILS(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, sources, MPI_UNWEIGHTED, 2,
                                         destinations, out_weights, MPI_INFO_NULL, 0, &graph),
          MPI_ERR_ARG);
    FAILS(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, -1, sources, MPI_UNWEIGHTED, 0, NULL,
                                         MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph), MPI_ERR_ARG);
    FAILS(MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &next, negative, ends, MPI_UNWEIGHTED,
                                MPI_INFO_NULL, 0, &graph), MPI_ERR_ARG);
    FAILS(MPI_Dist_graph_create(MPI_COMM_WORLD, 1, wrong, &degree, ends, MPI_UNWEIGHTED,
                                MPI_INFO_NULL, 0, &graph), MPI_ERR_ARG);
    FAILS(MPI_Dist_graph_neighbors_count(MPI_COMM_WORLD, &in, &out, &weighted), MPI_ERR_TOPOLOGY);
    if (size > 1) {
        /* Found out together. */
        FAILS(MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &next, &degree, ends,
                                    rank ? weights : MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph),
              MPI_ERR_ARG);
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    size = world_size(), rank = world_rank();
    ring_graph();
    dist_graphs();
    MPI_Finalize();
    return 0;
}
