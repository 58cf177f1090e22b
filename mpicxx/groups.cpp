/* Communicators: their members, names, attributes and topologies, and new ones from old ones. */
#include "call.h"

using weft::Array;
using weft::call;
using weft::check;

namespace MPI {

bool Comm::Is_inter() const
{
    int flag = 0;
    check(MPI_Comm_test_inter(handle, &flag));
    return flag != 0;
}

int Comm::Get_topology() const
{
    int topology = MPI_UNDEFINED;
    check(MPI_Topo_test(handle, &topology));
    return topology;
}

void Comm::Set_attr(int comm_keyval, const void *attribute_val)
{
    check(MPI_Comm_set_attr(handle, comm_keyval, const_cast<void *>(attribute_val)));
}

int Comm::Compare(const Comm &comm1, const Comm &comm2)
{
    int result = MPI_UNEQUAL;
    check(MPI_Comm_compare(comm1, comm2, &result));
    return result;
}

Intercomm Comm::Get_parent()
{
    MPI_Comm parent = MPI_COMM_NULL;
    check(MPI_Comm_get_parent(&parent));
    return parent;
}

Intercomm Comm::Join(int fd)
{
    MPI_Comm other = MPI_COMM_NULL;
    check(CALL(MPI_Comm_join, fd, &other));
    return other;
}

/* A duplicate, of the class that is asked for. */
template <class To> static To duplicate(MPI_Comm handle)
{
    MPI_Comm twin = MPI_COMM_NULL;
    check(MPI_Comm_dup(handle, &twin));
    return twin;
}

Intracomm Intracomm::Dup() const
{
    return duplicate<Intracomm>(handle);
}

Intercomm Intercomm::Dup() const
{
    return duplicate<Intercomm>(handle);
}

Cartcomm Cartcomm::Dup() const
{
    return duplicate<Cartcomm>(handle);
}

Graphcomm Graphcomm::Dup() const
{
    return duplicate<Graphcomm>(handle);
}

Distgraphcomm Distgraphcomm::Dup() const
{
    return duplicate<Distgraphcomm>(handle);
}

/* MPI-2.2, section 16.1.5: a new object, which the caller deletes. */
Nullcomm &Nullcomm::Clone() const
{
    return *new Nullcomm();
}

Intracomm &Intracomm::Clone() const
{
    return *new Intracomm(Dup());
}

Intercomm &Intercomm::Clone() const
{
    return *new Intercomm(Dup());
}

Cartcomm &Cartcomm::Clone() const
{
    return *new Cartcomm(Dup());
}

Graphcomm &Graphcomm::Clone() const
{
    return *new Graphcomm(Dup());
}

Distgraphcomm &Distgraphcomm::Clone() const
{
    return *new Distgraphcomm(Dup());
}

Intercomm Intercomm::Create(const Group &group) const
{
    MPI_Comm comm = MPI_COMM_NULL;
    check(MPI_Comm_create(handle, group, &comm));
    return comm;
}

Intercomm Intracomm::Create_intercomm(int local_leader, const Comm &peer_comm, int remote_leader,
    int tag) const
{
    MPI_Comm comm = MPI_COMM_NULL;
    check(MPI_Intercomm_create(handle, local_leader, peer_comm, remote_leader, tag, &comm));
    return comm;
}

Cartcomm Intracomm::Create_cart(int ndims, const int dims[], const bool periods[], bool reorder) const
{
    MPI_Comm comm = MPI_COMM_NULL;
    Array<int> wraps(ndims, periods);
    check(MPI_Cart_create(handle, ndims, dims, wraps, reorder, &comm));
    return comm;
}

Graphcomm Intracomm::Create_graph(int nnodes, const int index[], const int edges[], bool reorder) const
{
    MPI_Comm comm = MPI_COMM_NULL;
    check(MPI_Graph_create(handle, nnodes, index, edges, reorder, &comm));
    return comm;
}

int Cartcomm::Get_dim() const
{
    int ndims = 0;
    check(MPI_Cartdim_get(handle, &ndims));
    return ndims;
}

void Cartcomm::Get_topo(int maxdims, int dims[], bool periods[], int coords[]) const
{
    /* No truth value: what the call leaves so is not one of the dimensions. */
    const int none = -1;
    Array<int> wraps(maxdims);
    for (int i = 0; i < maxdims; i++)
        wraps[i] = none;
    check(MPI_Cart_get(handle, maxdims, dims, wraps, coords));
    for (int i = 0; i < maxdims && wraps[i] != none; i++)
        periods[i] = wraps[i] != 0;
}

int Cartcomm::Get_cart_rank(const int coords[]) const
{
    int rank = MPI_UNDEFINED;
    check(MPI_Cart_rank(handle, coords, &rank));
    return rank;
}

Cartcomm Cartcomm::Sub(const bool remain_dims[]) const
{
    MPI_Comm comm = MPI_COMM_NULL;
    int ndims = 0, topology = MPI_UNDEFINED;
    /* What is no grid is an error of the call itself, and only of that one. */
    if (handle != MPI_COMM_NULL && !weft::asked(topology, PMPI_Topo_test, handle))
        return comm;
    if (topology == MPI_CART)
        check(PMPI_Cartdim_get(handle, &ndims));
    Array<int> remain(ndims, remain_dims);
    check(MPI_Cart_sub(handle, remain, &comm));
    return comm;
}

int Cartcomm::Map(int ndims, const int dims[], const bool periods[]) const
{
    int rank = MPI_UNDEFINED;
    Array<int> wraps(ndims, periods);
    check(MPI_Cart_map(handle, ndims, dims, wraps, &rank));
    return rank;
}

void Graphcomm::Get_dims(int nnodes[], int nedges[]) const
{
    check(MPI_Graphdims_get(handle, nnodes, nedges));
}

void Graphcomm::Get_topo(int maxindex, int maxedges, int index[], int edges[]) const
{
    check(MPI_Graph_get(handle, maxindex, maxedges, index, edges));
}

/* Without weights in C++ is MPI_UNWEIGHTED in C (MPI-2.2, section 7.5.4). */

Distgraphcomm Intracomm::Dist_graph_create_adjacent(int indegree, const int sources[],
    const int sourceweights[], int outdegree, const int destinations[], const int destweights[],
    const Info &info, bool reorder) const
{
    MPI_Comm comm = MPI_COMM_NULL;
    check(MPI_Dist_graph_create_adjacent(handle, indegree, sources, sourceweights, outdegree,
        destinations, destweights, info, reorder, &comm));
    return comm;
}

Distgraphcomm Intracomm::Dist_graph_create_adjacent(int indegree, const int sources[], int outdegree,
    const int destinations[], const Info &info, bool reorder) const
{
    return Dist_graph_create_adjacent(indegree, sources, MPI_UNWEIGHTED, outdegree, destinations,
        MPI_UNWEIGHTED, info, reorder);
}

Distgraphcomm Intracomm::Dist_graph_create(int n, const int sources[], const int degrees[],
    const int destinations[], const int weights[], const Info &info, bool reorder) const
{
    MPI_Comm comm = MPI_COMM_NULL;
    check(MPI_Dist_graph_create(handle, n, sources, degrees, destinations, weights, info, reorder,
        &comm));
    return comm;
}

Distgraphcomm Intracomm::Dist_graph_create(int n, const int sources[], const int degrees[],
    const int destinations[], const Info &info, bool reorder) const
{
    return Dist_graph_create(n, sources, degrees, destinations, MPI_UNWEIGHTED, info, reorder);
}

void Distgraphcomm::Get_dist_neighbors_count(int, int indegree[], int outdegree[],
    bool &weighted) const
{
    int flag = 0;
    check(MPI_Dist_graph_neighbors_count(handle, indegree, outdegree, &flag));
    weighted = flag != 0;
}

void Distgraphcomm::Get_dist_neighbors(int maxindegree, int sources[], int sourceweights[],
    int maxoutdegree, int destinations[], int destweights[]) const
{
    check(MPI_Dist_graph_neighbors(handle, maxindegree, sources, sourceweights, maxoutdegree,
        destinations, destweights));
}

Intercomm Intracomm::Spawn(const char *command, const char *argv[], int maxprocs, const Info &info,
    int root, int errcodes[]) const
{
    MPI_Comm comm = MPI_COMM_NULL;
    check(CALL(MPI_Comm_spawn, command, const_cast<char **>(argv), maxprocs, MPI_Info(info), root,
        handle, &comm, errcodes));
    return comm;
}

Intercomm Intracomm::Spawn(const char *command, const char *argv[], int maxprocs, const Info &info,
    int root) const
{
    return Spawn(command, argv, maxprocs, info, root, MPI_ERRCODES_IGNORE);
}

Intercomm Intracomm::Spawn_multiple(int count, const char *commands[], const char **argvs[],
    const int maxprocs[], const Info infos[], int root, int errcodes[])
{
    MPI_Comm comm = MPI_COMM_NULL;
    int rank = MPI_UNDEFINED;
    if (handle != MPI_COMM_NULL && !weft::asked(rank, PMPI_Comm_rank, handle))
        return comm;
    /* They are read at the root alone. */
    Array<MPI_Info> told(rank == root ? count : 0, infos);
    check(CALL(MPI_Comm_spawn_multiple, count, const_cast<char **>(commands),
        const_cast<char ***>(argvs), maxprocs, static_cast<const MPI_Info *>(told), root, handle,
        &comm, errcodes));
    return comm;
}

Intercomm Intracomm::Spawn_multiple(int count, const char *commands[], const char **argvs[],
    const int maxprocs[], const Info infos[], int root)
{
    return Spawn_multiple(count, commands, argvs, maxprocs, infos, root, MPI_ERRCODES_IGNORE);
}

void Group::Translate_ranks(const Group &group1, int n, const int ranks1[], const Group &group2,
    int ranks2[])
{
    check(MPI_Group_translate_ranks(group1, n, ranks1, group2, ranks2));
}

int Group::Compare(const Group &group1, const Group &group2)
{
    int result = MPI_UNEQUAL;
    check(MPI_Group_compare(group1, group2, &result));
    return result;
}

Group Group::Union(const Group &group1, const Group &group2)
{
    MPI_Group group = MPI_GROUP_NULL;
    check(MPI_Group_union(group1, group2, &group));
    return group;
}

Group Group::Intersect(const Group &group1, const Group &group2)
{
    MPI_Group group = MPI_GROUP_NULL;
    check(MPI_Group_intersection(group1, group2, &group));
    return group;
}

Group Group::Difference(const Group &group1, const Group &group2)
{
    MPI_Group group = MPI_GROUP_NULL;
    check(MPI_Group_difference(group1, group2, &group));
    return group;
}

Group Group::Range_incl(int n, const int ranges[][3]) const
{
    MPI_Group group = MPI_GROUP_NULL;
    check(MPI_Group_range_incl(handle, n, const_cast<int(*)[3]>(ranges), &group));
    return group;
}

Group Group::Range_excl(int n, const int ranges[][3]) const
{
    MPI_Group group = MPI_GROUP_NULL;
    check(MPI_Group_range_excl(handle, n, const_cast<int(*)[3]>(ranges), &group));
    return group;
}

} // namespace MPI
