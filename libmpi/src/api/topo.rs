//! Virtual topologies (section 7.5).

use std::ffi::c_int;

use mpi_comm::topo::{self, Cart, DistGraph, Graph, Topology, Weights};
use mpi_core::comm::Comm;
use mpi_core::info::Info;
use mpi_core::{Class, Error, Result};
use mpi_runtime::handles::comms::CommObject;
use mpi_runtime::lifecycle::runtime::{Runtime, runtime};

use super::comm::{give, give_with_info, intra_only};
use super::{list, list_mut};
use crate::abi::{
    MPI_CART, MPI_COMM_NULL, MPI_Comm, MPI_DIST_GRAPH, MPI_GRAPH, MPI_PROC_NULL, MPI_UNDEFINED,
};
use crate::args::{LiveComm, Out};
use crate::data;

fn topology(comm: &Comm) -> Option<&Topology> {
    topo::topology(comm)
}

#[cold]
fn other(wanted: &str, found: Option<&Topology>) -> Error {
    let found = match found {
        None => "none",
        Some(Topology::Cart(_)) => "a Cartesian one",
        Some(Topology::Graph(_)) => "a graph",
        Some(Topology::DistGraph(_)) => "a distributed graph",
    };
    Error::new(
        Class::Topology,
        format!("the communicator's topology must be {wanted}, but it is {found}"),
    )
}

fn cart(object: &CommObject) -> Result<&Cart> {
    match topology(&object.comm) {
        Some(Topology::Cart(cart)) => Ok(cart),
        found => Err(other("Cartesian", found)),
    }
}

fn graph(object: &CommObject) -> Result<&Graph> {
    match topology(&object.comm) {
        Some(Topology::Graph(graph)) => Ok(graph),
        found => Err(other("a graph", found)),
    }
}

fn dist_graph(object: &CommObject) -> Result<&DistGraph> {
    match topology(&object.comm) {
        Some(Topology::DistGraph(graph)) => Ok(graph),
        found => Err(other("a distributed graph", found)),
    }
}

/// Checks a number of dimensions.
fn dimensions(ndims: c_int, name: &str) -> Result<usize> {
    usize::try_from(ndims).map_err(|_| {
        Error::new(
            Class::Dims,
            format!("{name} is {ndims}; it must be 0 or more"),
        )
    })
}

/// Returns the grid that a program describes.
///
/// # Safety
/// `dims` and `periods` are valid for `ndims` integers, or NULL.
unsafe fn grid(
    comm: &Comm,
    ndims: c_int,
    dims: *const c_int,
    periods: *const c_int,
) -> Result<Cart> {
    dimensions(ndims, "ndims")?;
    // SAFETY: the caller's contract.
    let (dims, periods) = unsafe {
        (
            list(ndims, "ndims", dims, "dims")?,
            list(ndims, "ndims", periods, "periods")?,
        )
    };
    let periods: Vec<bool> = periods.iter().map(|period| *period != 0).collect();
    Cart::new(comm.size(), dims, &periods)
}

/// Returns the graph that a program describes.
///
/// # Safety
/// `index` is valid for `nnodes` integers and `edges` for as many as the last of these, or they are
/// NULL.
unsafe fn nodes_and_edges(
    comm: &Comm,
    nnodes: c_int,
    index: *const c_int,
    edges: *const c_int,
) -> Result<Graph> {
    // SAFETY: the caller's contract.
    unsafe {
        let index = list(nnodes, "nnodes", index, "index")?;
        let count = Graph::edge_count(index)?;
        let edges = list(count as c_int, "the number of edges", edges, "edges")?;
        Graph::new(comm.size(), index, edges)
    }
}

/// Returns the number of this process's node, if ranks may be reordered by node.
fn node_if(runtime: &Runtime, reorder: c_int) -> Option<u64> {
    let process = &runtime.process;
    let node = process.node_of(process.me());
    (reorder != 0).then(|| node.map_or(runtime.node, u64::from))
}

/// Returns the calling process's new rank, as `find` computes it for the first `size` members, if
/// the nodes of all are known.
fn mapped(
    runtime: &Runtime,
    comm: &Comm,
    size: u32,
    find: impl FnOnce(&[u32]) -> Vec<u32>,
) -> c_int {
    let peers = comm.local().peers().take(size as usize);
    let nodes: Option<Vec<u32>> = peers.map(|peer| runtime.process.node_of(peer)).collect();
    match nodes {
        _ if comm.rank() >= size => MPI_UNDEFINED,
        Some(nodes) => find(&nodes)[comm.rank() as usize] as c_int,
        None => comm.rank() as c_int,
    }
}

/// `MPI_Cart_create`. Ranks are reordered by node if `reorder` allows it.
pub unsafe fn cart_create(
    comm_old: LiveComm,
    ndims: c_int,
    dims: *const c_int,
    periods: *const c_int,
    reorder: c_int,
    comm_cart: Out<MPI_Comm>,
) -> Result<()> {
    let (runtime, old) = (comm_old.runtime, comm_old.object);
    intra_only(&old.comm)?;
    dimensions(ndims, "ndims")?;
    // A program that ignores the error gets the null handle.
    comm_cart.set(MPI_COMM_NULL);
    // SAFETY: the caller's contract.
    let cart = unsafe { grid(&old.comm, ndims, dims, periods)? };
    let node = node_if(runtime, reorder);
    let made = mpi_comm::topo::create::create_cart(&runtime.process, &old.comm, cart, node)?;
    give(runtime, made, old, comm_cart)
}

/// `MPI_Dims_create`.
pub unsafe fn dims_create(nnodes: c_int, ndims: c_int, dims: *mut c_int) -> Result<()> {
    runtime()?;
    dimensions(ndims, "ndims")?;
    // SAFETY: the caller's contract.
    topo::dims_create(nnodes, unsafe { list_mut(ndims, "ndims", dims, "dims")? })
}

/// `MPI_Graph_create`. Ranks are reordered by node if `reorder` allows it.
pub unsafe fn graph_create(
    comm_old: LiveComm,
    nnodes: c_int,
    index: *const c_int,
    edges: *const c_int,
    reorder: c_int,
    comm_graph: Out<MPI_Comm>,
) -> Result<()> {
    let (runtime, old) = (comm_old.runtime, comm_old.object);
    intra_only(&old.comm)?;
    // SAFETY: the caller's contract.
    let graph = unsafe { nodes_and_edges(&old.comm, nnodes, index, edges)? };
    // A program that ignores the error gets the null handle.
    comm_graph.set(MPI_COMM_NULL);
    let made = mpi_comm::topo::create::create_graph(
        &runtime.process,
        &old.comm,
        graph,
        node_if(runtime, reorder),
    )?;
    give(runtime, made, old, comm_graph)
}

/// Returns the weights that a program passes.
///
/// # Safety
/// Unless it is one of the constants, `weights` is valid for `count` integers, or NULL.
unsafe fn weights<'a>(count: usize, weights: *const c_int, name: &str) -> Result<Weights<'a>> {
    // SAFETY: the exported variables are never changed.
    let (unweighted, empty) = unsafe {
        (
            data::MPI_UNWEIGHTED.get().read().cast_const(),
            data::MPI_WEIGHTS_EMPTY.get().read().cast_const(),
        )
    };
    if weights == unweighted {
        Ok(Weights::Unweighted)
    } else if weights == empty {
        Ok(Weights::Empty)
    } else {
        // SAFETY: the caller's contract.
        let list = unsafe { list(count as c_int, "the number of edges", weights, name)? };
        Ok(Weights::Given(list))
    }
}

/// `MPI_Dist_graph_create_adjacent`. If `reorder` allows it, processes of several nodes may
/// exchange ranks: the process with a rank in the new communicator has the edges that were passed
/// for it.
pub unsafe fn dist_graph_create_adjacent(
    comm_old: LiveComm,
    indegree: c_int,
    sources: *const c_int,
    sourceweights: *const c_int,
    outdegree: c_int,
    destinations: *const c_int,
    destweights: *const c_int,
    info: Option<&Info>,
    reorder: c_int,
    comm_dist_graph: Out<MPI_Comm>,
) -> Result<()> {
    let (runtime, old) = (comm_old.runtime, comm_old.object);
    intra_only(&old.comm)?;
    // SAFETY: the caller's contract.
    let graph = unsafe {
        let sources = list(indegree, "indegree", sources, "sources")?;
        let destinations = list(outdegree, "outdegree", destinations, "destinations")?;
        DistGraph::adjacent(
            old.comm.size(),
            sources,
            weights(sources.len(), sourceweights, "sourceweights")?,
            destinations,
            weights(destinations.len(), destweights, "destweights")?,
        )?
    };
    // A program that ignores the error gets the null handle.
    comm_dist_graph.set(MPI_COMM_NULL);
    let made = mpi_comm::topo::create::create_dist_graph(
        &runtime.process,
        &old.comm,
        graph,
        node_if(runtime, reorder),
    )?;
    give_with_info(runtime, Some(made), old, info, comm_dist_graph)
}

/// `MPI_Dist_graph_create`. `reorder` has the meaning as in [`dist_graph_create_adjacent`].
pub unsafe fn dist_graph_create(
    comm_old: LiveComm,
    n: c_int,
    sources: *const c_int,
    degrees: *const c_int,
    destinations: *const c_int,
    weights: *const c_int,
    info: Option<&Info>,
    reorder: c_int,
    comm_dist_graph: Out<MPI_Comm>,
) -> Result<()> {
    let (runtime, old) = (comm_old.runtime, comm_old.object);
    intra_only(&old.comm)?;
    // SAFETY: the caller's contract.
    let (edges, weighted) = unsafe {
        let sources = list(n, "n", sources, "sources")?;
        let degrees = list(n, "n", degrees, "degrees")?;
        if let Some(index) = degrees.iter().position(|degree| *degree < 0) {
            let degree = degrees[index];
            let why = format!("degrees[{index}] is {degree}; it must be 0 or more");
            return Err(Error::new(Class::Arg, why));
        }
        let count: i64 = degrees.iter().map(|degree| i64::from(*degree)).sum();
        let count = c_int::try_from(count).map_err(|_| {
            Error::new(
                Class::Arg,
                format!("degrees add up to {count}; the sum must fit in an int"),
            )
        })?;
        let destinations = list(count, "the number of edges", destinations, "destinations")?;
        let weights = self::weights(destinations.len(), weights, "weights")?;
        // No edges: any list of weights marks the graph as weighted.
        let edges = topo::edges(old.comm.size(), sources, degrees, destinations, weights)?;
        (edges, weights != Weights::Unweighted)
    };
    // A program that ignores the error gets the null handle.
    comm_dist_graph.set(MPI_COMM_NULL);
    let node = node_if(runtime, reorder);
    let made = mpi_comm::topo::create::create_dist_graph_of(
        &runtime.process,
        &old.comm,
        &edges,
        weighted,
        node,
    )?;
    give_with_info(runtime, Some(made), old, info, comm_dist_graph)
}

/// `MPI_Topo_test`.
pub fn topo_test(comm: LiveComm, status: Out<c_int>) -> Result<()> {
    let kind = match topology(&comm.comm) {
        None => MPI_UNDEFINED,
        Some(Topology::Cart(_)) => MPI_CART,
        Some(Topology::Graph(_)) => MPI_GRAPH,
        Some(Topology::DistGraph(_)) => MPI_DIST_GRAPH,
    };
    status.set(kind);
    Ok(())
}

/// Writes a list to an array with `room` elements.
///
/// # Safety
/// `out` is valid for `room` elements, or NULL.
unsafe fn fill<T: Copy>(
    values: impl ExactSizeIterator<Item = T>,
    out: *mut T,
    name: &str,
    room: (c_int, &str),
    class: Class,
) -> Result<()> {
    let (number, room_name) = room;
    let needed = values.len();
    if usize::try_from(number).is_ok_and(|number| number < needed) {
        return Err(Error::new(
            class,
            format!("{room_name} is {number}, but {needed} elements are to be written to {name}"),
        ));
    }
    // SAFETY: the caller's contract.
    let out = unsafe { list_mut(number, room_name, out, name)? };
    for (place, value) in out.iter_mut().zip(values) {
        *place = value;
    }
    Ok(())
}

/// `MPI_Graphdims_get`.
pub fn graphdims_get(comm: LiveComm, nnodes: Out<c_int>, nedges: Out<c_int>) -> Result<()> {
    let graph = graph(comm.object)?;
    nnodes.set(graph.size() as c_int);
    nedges.set(graph.edges().len() as c_int);
    Ok(())
}

/// `MPI_Graph_get`.
pub unsafe fn graph_get(
    comm: LiveComm,
    maxindex: c_int,
    maxedges: c_int,
    index: *mut c_int,
    edges: *mut c_int,
) -> Result<()> {
    let graph = graph(comm.object)?;
    let ends = graph.index().iter().map(|end| *end as c_int);
    let to = graph.edges().iter().map(|to| *to as c_int);
    // SAFETY: the caller's contract.
    unsafe {
        fill(ends, index, "index", (maxindex, "maxindex"), Class::Arg)?;
        fill(to, edges, "edges", (maxedges, "maxedges"), Class::Arg)
    }
}

/// `MPI_Cartdim_get`.
pub fn cartdim_get(comm: LiveComm, ndims: Out<c_int>) -> Result<()> {
    ndims.set(cart(comm.object)?.dimensions().len() as c_int);
    Ok(())
}

/// `MPI_Cart_get`.
pub unsafe fn cart_get(
    comm: LiveComm,
    maxdims: c_int,
    dims: *mut c_int,
    periods: *mut c_int,
    coords: *mut c_int,
) -> Result<()> {
    let object = comm.object;
    let cart = cart(object)?;
    let own = cart.coords(object.comm.rank() as c_int)?;
    let sizes = cart
        .dimensions()
        .iter()
        .map(|dimension| dimension.size as c_int);
    let wraps = cart.dimensions().iter();
    let wraps = wraps.map(|dimension| c_int::from(dimension.periodic));
    let room = (maxdims, "maxdims");
    // SAFETY: the caller's contract.
    unsafe {
        fill(sizes, dims, "dims", room, Class::Dims)?;
        fill(wraps, periods, "periods", room, Class::Dims)?;
        let own = own.map(|coord| coord as c_int);
        fill(own, coords, "coords", room, Class::Dims)
    }
}

/// `MPI_Cart_rank`.
pub unsafe fn cart_rank(comm: LiveComm, coords: *const c_int, rank: Out<c_int>) -> Result<()> {
    let cart = cart(comm.object)?;
    let ndims = cart.dimensions().len() as c_int;
    // SAFETY: the caller's contract.
    unsafe {
        let found = cart.rank(list(ndims, "ndims", coords, "coords")?)?;
        rank.set(found as c_int);
        Ok(())
    }
}

/// `MPI_Cart_coords`.
pub unsafe fn cart_coords(
    comm: LiveComm,
    rank: c_int,
    maxdims: c_int,
    coords: *mut c_int,
) -> Result<()> {
    let found = cart(comm.object)?.coords(rank)?;
    let found = found.map(|coord| coord as c_int);
    // SAFETY: the caller's contract.
    unsafe { fill(found, coords, "coords", (maxdims, "maxdims"), Class::Dims) }
}

/// `MPI_Graph_neighbors_count`.
pub fn graph_neighbors_count(comm: LiveComm, rank: c_int, nneighbors: Out<c_int>) -> Result<()> {
    nneighbors.set(graph(comm.object)?.neighbours(rank)?.len() as c_int);
    Ok(())
}

/// `MPI_Graph_neighbors`.
pub unsafe fn graph_neighbors(
    comm: LiveComm,
    rank: c_int,
    maxneighbors: c_int,
    neighbors: *mut c_int,
) -> Result<()> {
    let found = graph(comm.object)?.neighbours(rank)?;
    let found = found.iter().map(|rank| *rank as c_int);
    let room = (maxneighbors, "maxneighbors");
    // SAFETY: the caller's contract.
    unsafe { fill(found, neighbors, "neighbors", room, Class::Arg) }
}

/// `MPI_Dist_graph_neighbors_count`.
pub fn dist_graph_neighbors_count(
    comm: LiveComm,
    indegree: Out<c_int>,
    outdegree: Out<c_int>,
    weighted: Out<c_int>,
) -> Result<()> {
    let graph = dist_graph(comm.object)?;
    indegree.set(graph.sources().len() as c_int);
    outdegree.set(graph.destinations().len() as c_int);
    weighted.set(c_int::from(graph.is_weighted()));
    Ok(())
}

/// Writes one side of `MPI_Dist_graph_neighbors`, as many elements as fit.
///
/// # Safety
/// `ranks` is valid for `room` integers, or NULL; so is `weights`, or it is `MPI_UNWEIGHTED`.
unsafe fn side(
    found: (&[u32], Option<&[i32]>),
    room: (c_int, &str),
    ranks: (*mut c_int, &str),
    weights: (*mut c_int, &str),
) -> Result<()> {
    // SAFETY: the caller's contract.
    let out = unsafe { list_mut(room.0, room.1, ranks.0, ranks.1)? };
    let count = out.len().min(found.0.len());
    for (place, rank) in out.iter_mut().zip(found.0) {
        *place = *rank as c_int;
    }
    // SAFETY: the exported variables are never changed.
    let unwanted = weights.0 == unsafe { data::MPI_UNWEIGHTED.get().read() };
    let Some(values) = found.1.filter(|_| !unwanted) else {
        return Ok(());
    };
    // SAFETY: the caller's contract.
    let out = unsafe { list_mut(count as c_int, room.1, weights.0, weights.1)? };
    out.copy_from_slice(&values[..count]);
    Ok(())
}

/// `MPI_Dist_graph_neighbors`.
pub unsafe fn dist_graph_neighbors(
    comm: LiveComm,
    maxindegree: c_int,
    sources: *mut c_int,
    sourceweights: *mut c_int,
    maxoutdegree: c_int,
    destinations: *mut c_int,
    destweights: *mut c_int,
) -> Result<()> {
    let graph = dist_graph(comm.object)?;
    // SAFETY: the caller's contract.
    unsafe {
        side(
            (graph.sources(), graph.source_weights()),
            (maxindegree, "maxindegree"),
            (sources, "sources"),
            (sourceweights, "sourceweights"),
        )?;
        side(
            (graph.destinations(), graph.destination_weights()),
            (maxoutdegree, "maxoutdegree"),
            (destinations, "destinations"),
            (destweights, "destweights"),
        )
    }
}

/// `MPI_Cart_shift`.
pub fn cart_shift(
    comm: LiveComm,
    direction: c_int,
    disp: c_int,
    rank_source: Out<c_int>,
    rank_dest: Out<c_int>,
) -> Result<()> {
    let object = comm.object;
    let own = object.comm.rank() as c_int;
    let (source, dest) = cart(object)?.shift(own, direction, disp)?;
    let rank = |found: Option<u32>| found.map_or(MPI_PROC_NULL, |rank| rank as c_int);
    rank_source.set(rank(source));
    rank_dest.set(rank(dest));
    Ok(())
}

/// `MPI_Cart_sub`.
pub unsafe fn cart_sub(
    comm: LiveComm,
    remain_dims: *const c_int,
    newcomm: Out<MPI_Comm>,
) -> Result<()> {
    let (runtime, old) = (comm.runtime, comm.object);
    let ndims = cart(old)?.dimensions().len() as c_int;
    // SAFETY: the caller's contract.
    let remain = unsafe { list(ndims, "ndims", remain_dims, "remain_dims")? };
    // A program that ignores the error gets the null handle.
    newcomm.set(MPI_COMM_NULL);
    let remain: Vec<bool> = remain.iter().map(|flag| *flag != 0).collect();
    // If no dimension remains, each process gets a grid of zero dimensions (MPI-4.1 section 8.5.7).
    let made = topo::create::create_cart_sub(&runtime.process, &old.comm, &remain)?;
    give(runtime, made, old, newcomm)
}

/// `MPI_Cart_map`: the rank that [`cart_create`] would give with `reorder`, as far as the launcher
/// reports the nodes of ranks (the call is local).
pub unsafe fn cart_map(
    comm: LiveComm,
    ndims: c_int,
    dims: *const c_int,
    periods: *const c_int,
    newrank: Out<c_int>,
) -> Result<()> {
    let (runtime, object) = (comm.runtime, comm.object);
    intra_only(&object.comm)?;
    // SAFETY: the caller's contract.
    let cart = unsafe { grid(&object.comm, ndims, dims, periods)? };
    let find = |nodes: &[u32]| topo::reorder(&cart, nodes);
    newrank.set(mapped(runtime, &object.comm, cart.size(), find));
    Ok(())
}

/// `MPI_Graph_map`: the rank that [`graph_create`] gives.
pub unsafe fn graph_map(
    comm: LiveComm,
    nnodes: c_int,
    index: *const c_int,
    edges: *const c_int,
    newrank: Out<c_int>,
) -> Result<()> {
    let (runtime, object) = (comm.runtime, comm.object);
    intra_only(&object.comm)?;
    // SAFETY: the caller's contract.
    let graph = unsafe { nodes_and_edges(&object.comm, nnodes, index, edges)? };
    let find = |nodes: &[u32]| topo::reorder_graph(&graph.links(), nodes);
    newrank.set(mapped(runtime, &object.comm, graph.size(), find));
    Ok(())
}
