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
use crate::args::{Array, ArrayMut, LiveComm, Out};
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
fn grid(comm: &Comm, dims: Array<c_int>, periods: Array<c_int>) -> Result<Cart> {
    dimensions(dims.length(), "ndims")?;
    let dims = dims.list()?;
    let periods: Vec<bool> = periods.list()?.iter().map(|period| *period != 0).collect();
    Cart::new(comm.size(), dims, &periods)
}

/// Returns the graph that a program describes.
///
/// # Safety
/// `edges` is valid for as many integers as the last of `index`, or NULL.
unsafe fn nodes_and_edges(comm: &Comm, index: Array<c_int>, edges: *const c_int) -> Result<Graph> {
    let index = index.list()?;
    let count = Graph::edge_count(index)?;
    // SAFETY: `edges` has that many elements (# Safety).
    let edges = unsafe { list(count as c_int, "the number of edges", edges, "edges")? };
    Graph::new(comm.size(), index, edges)
}

/// Returns the number of this process's node, if ranks may be reordered by node.
fn node_if(runtime: &Runtime, comm: &Comm, reorder: c_int) -> Option<u64> {
    let process = &runtime.process;
    let node = process.node_of(process.me());
    (reorder != 0).then(|| node.map_or_else(|| runtime.node_within(comm), u64::from))
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
pub fn cart_create(
    comm_old: LiveComm,
    dims: Array<c_int>,
    periods: Array<c_int>,
    reorder: c_int,
    comm_cart: Out<MPI_Comm>,
) -> Result<()> {
    let (runtime, old) = (comm_old.runtime, comm_old.object);
    intra_only(&old.comm)?;
    dimensions(dims.length(), "ndims")?;
    // A program that ignores the error gets the null handle.
    comm_cart.set(MPI_COMM_NULL);
    let cart = grid(&old.comm, dims, periods)?;
    let node = node_if(runtime, &old.comm, reorder);
    let made = mpi_comm::topo::create::create_cart(&runtime.process, &old.comm, cart, node)?;
    give(runtime, made, old, comm_cart)
}

/// `MPI_Dims_create`.
pub fn dims_create(nnodes: c_int, ndims: c_int, dims: ArrayMut<c_int>) -> Result<()> {
    runtime()?;
    dimensions(ndims, "ndims")?;
    topo::dims_create(nnodes, dims.list()?)
}

/// `MPI_Graph_create`. Ranks are reordered by node if `reorder` allows it.
pub unsafe fn graph_create(
    comm_old: LiveComm,
    index: Array<c_int>,
    edges: *const c_int,
    reorder: c_int,
    comm_graph: Out<MPI_Comm>,
) -> Result<()> {
    let (runtime, old) = (comm_old.runtime, comm_old.object);
    intra_only(&old.comm)?;
    // SAFETY: `edges` has as many elements as the last of `index` (arrays, chapter of the module
    // `api`).
    let graph = unsafe { nodes_and_edges(&old.comm, index, edges)? };
    // A program that ignores the error gets the null handle.
    comm_graph.set(MPI_COMM_NULL);
    let made = mpi_comm::topo::create::create_graph(
        &runtime.process,
        &old.comm,
        graph,
        node_if(runtime, &old.comm, reorder),
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
        // SAFETY: `weights` is NULL or has `count` elements (# Safety).
        let list = unsafe { list(count as c_int, "the number of edges", weights, name)? };
        Ok(Weights::Given(list))
    }
}

/// `MPI_Dist_graph_create_adjacent`. If `reorder` allows it, processes of several nodes may
/// exchange ranks: the process with a rank in the new communicator has the edges that were passed
/// for it.
pub unsafe fn dist_graph_create_adjacent(
    comm_old: LiveComm,
    sources: Array<c_int>,
    sourceweights: *const c_int,
    destinations: Array<c_int>,
    destweights: *const c_int,
    info: Option<&Info>,
    reorder: c_int,
    comm_dist_graph: Out<MPI_Comm>,
) -> Result<()> {
    let (runtime, old) = (comm_old.runtime, comm_old.object);
    intra_only(&old.comm)?;
    let (sources, destinations) = (sources.list()?, destinations.list()?);
    // SAFETY: each edge has a weight, unless they are constants (arrays, chapter of the module
    // `api`).
    let graph = unsafe {
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
        node_if(runtime, &old.comm, reorder),
    )?;
    give_with_info(runtime, Some(made), old, info, comm_dist_graph)
}

/// `MPI_Dist_graph_create`. `reorder` has the meaning as in [`dist_graph_create_adjacent`].
pub unsafe fn dist_graph_create(
    comm_old: LiveComm,
    sources: Array<c_int>,
    degrees: Array<c_int>,
    destinations: *const c_int,
    weights: *const c_int,
    info: Option<&Info>,
    reorder: c_int,
    comm_dist_graph: Out<MPI_Comm>,
) -> Result<()> {
    let (runtime, old) = (comm_old.runtime, comm_old.object);
    intra_only(&old.comm)?;
    let (sources, degrees) = (sources.list()?, degrees.list()?);
    // SAFETY: the other arrays have an element for each edge (arrays, chapter of the module `api`).
    let (edges, weighted) = unsafe {
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
    let node = node_if(runtime, &old.comm, reorder);
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

/// `MPI_Graphdims_get`.
pub fn graphdims_get(comm: LiveComm, nnodes: Out<c_int>, nedges: Out<c_int>) -> Result<()> {
    let graph = graph(comm.object)?;
    nnodes.set(graph.size() as c_int);
    nedges.set(graph.edges().len() as c_int);
    Ok(())
}

/// `MPI_Graph_get`.
pub fn graph_get(comm: LiveComm, index: ArrayMut<c_int>, edges: ArrayMut<c_int>) -> Result<()> {
    let graph = graph(comm.object)?;
    let ends = graph.index().iter().map(|end| *end as c_int);
    let to = graph.edges().iter().map(|to| *to as c_int);
    index.fill(ends, Class::Arg)?;
    edges.fill(to, Class::Arg)
}

/// `MPI_Cartdim_get`.
pub fn cartdim_get(comm: LiveComm, ndims: Out<c_int>) -> Result<()> {
    ndims.set(cart(comm.object)?.dimensions().len() as c_int);
    Ok(())
}

/// `MPI_Cart_get`.
pub fn cart_get(
    comm: LiveComm,
    dims: ArrayMut<c_int>,
    periods: ArrayMut<c_int>,
    coords: ArrayMut<c_int>,
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
    dims.fill(sizes, Class::Dims)?;
    periods.fill(wraps, Class::Dims)?;
    coords.fill(own.map(|coord| coord as c_int), Class::Dims)
}

/// `MPI_Cart_rank`.
pub unsafe fn cart_rank(comm: LiveComm, coords: *const c_int, rank: Out<c_int>) -> Result<()> {
    let cart = cart(comm.object)?;
    let ndims = cart.dimensions().len() as c_int;
    // SAFETY: there is a coordinate for each dimension (arrays, chapter of the module `api`).
    let coords = unsafe { list(ndims, "ndims", coords, "coords")? };
    rank.set(cart.rank(coords)? as c_int);
    Ok(())
}

/// `MPI_Cart_coords`.
pub fn cart_coords(comm: LiveComm, rank: c_int, coords: ArrayMut<c_int>) -> Result<()> {
    let found = cart(comm.object)?.coords(rank)?;
    coords.fill(found.map(|coord| coord as c_int), Class::Dims)
}

/// `MPI_Graph_neighbors_count`.
pub fn graph_neighbors_count(comm: LiveComm, rank: c_int, nneighbors: Out<c_int>) -> Result<()> {
    nneighbors.set(graph(comm.object)?.neighbours(rank)?.len() as c_int);
    Ok(())
}

/// `MPI_Graph_neighbors`.
pub fn graph_neighbors(comm: LiveComm, rank: c_int, neighbors: ArrayMut<c_int>) -> Result<()> {
    let found = graph(comm.object)?.neighbours(rank)?;
    neighbors.fill(found.iter().map(|rank| *rank as c_int), Class::Arg)
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
/// `weights` is valid for as many integers as `ranks` has, or NULL, or `MPI_UNWEIGHTED`.
unsafe fn side(
    found: (&[u32], Option<&[i32]>),
    ranks: ArrayMut<c_int>,
    weights: (*mut c_int, &str),
) -> Result<()> {
    let out = ranks.list()?;
    let count = out.len().min(found.0.len());
    for (place, rank) in out.iter_mut().zip(found.0) {
        *place = *rank as c_int;
    }
    // SAFETY: the exported variables are never changed.
    let unwanted = weights.0 == unsafe { data::MPI_UNWEIGHTED.get().read() };
    let Some(values) = found.1.filter(|_| !unwanted) else {
        return Ok(());
    };
    // SAFETY: `weights` has as many elements as the ranks, `count` at least (# Safety).
    let out = unsafe { list_mut(count as c_int, "the degree", weights.0, weights.1)? };
    out.copy_from_slice(&values[..count]);
    Ok(())
}

/// `MPI_Dist_graph_neighbors`.
pub unsafe fn dist_graph_neighbors(
    comm: LiveComm,
    sources: ArrayMut<c_int>,
    sourceweights: *mut c_int,
    destinations: ArrayMut<c_int>,
    destweights: *mut c_int,
) -> Result<()> {
    let graph = dist_graph(comm.object)?;
    let incoming = (graph.sources(), graph.source_weights());
    let outgoing = (graph.destinations(), graph.destination_weights());
    // SAFETY: each rank has a weight, unless they are `MPI_UNWEIGHTED` (arrays, chapter of the module
    // `api`).
    unsafe {
        side(incoming, sources, (sourceweights, "sourceweights"))?;
        side(outgoing, destinations, (destweights, "destweights"))
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
    // SAFETY: there is a flag for each dimension (arrays, chapter of the module `api`).
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
pub fn cart_map(
    comm: LiveComm,
    dims: Array<c_int>,
    periods: Array<c_int>,
    newrank: Out<c_int>,
) -> Result<()> {
    let (runtime, object) = (comm.runtime, comm.object);
    intra_only(&object.comm)?;
    let cart = grid(&object.comm, dims, periods)?;
    let find = |nodes: &[u32]| topo::reorder(&cart, nodes);
    newrank.set(mapped(runtime, &object.comm, cart.size(), find));
    Ok(())
}

/// `MPI_Graph_map`: the rank that [`graph_create`] gives.
pub unsafe fn graph_map(
    comm: LiveComm,
    index: Array<c_int>,
    edges: *const c_int,
    newrank: Out<c_int>,
) -> Result<()> {
    let (runtime, object) = (comm.runtime, comm.object);
    intra_only(&object.comm)?;
    // SAFETY: `edges` has as many elements as the last of `index` (arrays, chapter of the module
    // `api`).
    let graph = unsafe { nodes_and_edges(&object.comm, index, edges)? };
    let find = |nodes: &[u32]| topo::reorder_graph(&graph.links(), nodes);
    newrank.set(mapped(runtime, &object.comm, graph.size(), find));
    Ok(())
}
