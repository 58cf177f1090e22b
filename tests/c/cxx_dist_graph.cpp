/* Dist graphs of the C++ bindings (MPI-2.2, sections 7.5.4 and 7.5.5): made by each rank for itself and by
 * one for all, with weights and without, asked for, duplicated, and given to callbacks as what they are.
 * ranks: 1 2 3
 * variants: shm
 */
#include <mpi.h>

#include <cstdio>
#include <cstdlib>

#define CHECK(condition)                                                              \
    do {                                                                              \
        if (!(condition)) {                                                           \
            std::fprintf(stderr, "line %d: %s is not so\n", __LINE__, #condition);    \
            std::abort();                                                             \
        }                                                                             \
    } while (0)

static int rank, size, before, after;

/* A ring, from the rank before and to that after, and each rank's edge to itself. */
static void look(const MPI::Distgraphcomm &comm, int weight)
{
    int in = -1, out = -1;
    bool weighted = weight == 0;
    comm.Get_dist_neighbors_count(rank, &in, &out, weighted);
    CHECK(in == 2 && out == 2 && weighted == (weight != 0));
    int sources[2] = {-1, -1}, destinations[2] = {-1, -1}, from[2] = {0, 0}, to[2] = {0, 0};
    comm.Get_dist_neighbors(2, sources, from, 2, destinations, to);
    CHECK(sources[0] + sources[1] == before + rank && destinations[0] + destinations[1] == after + rank);
    CHECK(from[0] == weight && to[1] == weight);

    int sent[2] = {rank, rank}, received[2] = {-1, -1};
    MPI_Neighbor_alltoall(sent, 1, MPI_INT, received, 1, MPI_INT, comm);
    CHECK(received[0] == sources[0] && received[1] == sources[1]);
}

static int removed;

static int remove(MPI::Comm &comm, int, void *, void *)
{
    CHECK(dynamic_cast<MPI::Distgraphcomm *>(&comm) != NULL);
    removed++;
    return MPI::SUCCESS;
}

int main(int argc, char **argv)
{
    MPI::Init(argc, argv);
    rank = MPI::COMM_WORLD.Get_rank();
    size = MPI::COMM_WORLD.Get_size();
    before = (rank + size - 1) % size;
    after = (rank + 1) % size;

    MPI::Distgraphcomm none;
    CHECK(none == MPI::COMM_NULL);
    const int sources[2] = {before, rank}, destinations[2] = {after, rank}, weights[2] = {7, 7};
    MPI::Distgraphcomm own = MPI::COMM_WORLD.Dist_graph_create_adjacent(2, sources, 2, destinations,
        MPI::INFO_NULL, false);
    CHECK(own.Get_topology() == MPI::DIST_GRAPH);
    look(own, 0);
    own.Free();
    own = MPI::COMM_WORLD.Dist_graph_create_adjacent(2, sources, weights, 2, destinations, weights,
        MPI::INFO_NULL, false);
    look(own, 7);
    MPI::Distgraphcomm twin = own.Dup();
    look(twin, 7);
    twin.Free();
    MPI::Intracomm &base = own;
    MPI::Comm &clone = base.Clone();
    MPI::Distgraphcomm *graph = dynamic_cast<MPI::Distgraphcomm *>(&clone);
    CHECK(graph != NULL);
    look(*graph, 7);
    int key = MPI::Comm::Create_keyval(MPI::Comm::NULL_COPY_FN, remove, NULL);
    clone.Set_attr(key, NULL);
    clone.Free();
    CHECK(removed == 1 && clone == MPI::COMM_NULL);
    delete &clone;
    MPI::Comm::Free_keyval(key);
    own.Free();

    /* Rank 0 tells the edges of all. */
    int from[3], degrees[3], to[6], heavy[6];
    for (int i = 0; i < size; i++) {
        from[i] = i;
        degrees[i] = 2;
        to[2 * i] = (i + 1) % size;
        to[2 * i + 1] = i;
        heavy[2 * i] = heavy[2 * i + 1] = 9;
    }
    const int told = rank == 0 ? size : 0;
    MPI::Distgraphcomm all = MPI::COMM_WORLD.Dist_graph_create(told, from, degrees, to,
        MPI::INFO_NULL, false);
    look(all, 0);
    all.Free();
    all = MPI::COMM_WORLD.Dist_graph_create(told, from, degrees, to, heavy, MPI::INFO_NULL, false);
    look(all, 9);
    all.Set_errhandler(MPI::ERRORS_THROW_EXCEPTIONS);
    bool thrown = false;
    try {
        const int wrong[1] = {size};
        all.Dist_graph_create_adjacent(1, wrong, 1, wrong, MPI::INFO_NULL, false);
    } catch (MPI::Exception &error) {
        thrown = true;
    }
    CHECK(thrown);
    all.Free();
    MPI::Finalize();
    return 0;
}
