//! Colors for splitting communicators by hardware resources or process sets (MPI-4.1 section
//! 7.4.2).
//!
//! Processes with the same color form a communicator; processes without a color get none.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use crate::bootstrap::hardware::{KINDS, SHARED_MEMORY, resources};
use mpi_core::Result;
use mpi_core::comm::Comm;

use crate::lifecycle::runtime::Runtime;

/// Returns the color by the node, whose processes share memory.
pub fn shared(runtime: &Runtime, comm: &Comm) -> u64 {
    runtime.node_within(comm) >> 1
}

/// Returns a number that identifies an instance of a resource type across nodes.
fn number(node: u64, kind: usize, instance: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    (node, kind, instance).hash(&mut hasher);
    hasher.finish() >> 1
}

/// Returns the color by the instance of a resource type that this process is bound to.
pub fn guided(runtime: &Runtime, comm: &Comm, kind: &str) -> Option<u64> {
    if kind == SHARED_MEMORY {
        return Some(shared(runtime, comm));
    }
    let index = KINDS.iter().position(|name| *name == kind)?;
    let instance = resources()[index].instance?;
    Some(number(runtime.node_within(comm), index, instance))
}

/// Returns the same color for all members of a process set, none for others.
pub fn by_pset(runtime: &Runtime, comm: &Comm, pset: &str) -> Option<u64> {
    match pset {
        "mpi://WORLD" => Some(0),
        "mpi://SELF" => Some(runtime.process.me().into()),
        "mpix://SHARED_MEMORY" => Some(shared(runtime, comm)),
        other => {
            let me = runtime.world.comm.rank();
            let sets = runtime.pmi.psets().ok()?;
            let set = sets.iter().find(|set| set.name == other)?;
            set.ranks.contains(&me).then_some(0)
        }
    }
}

/// Returns the color by the coarsest resource type that divides the communicator, and the type's
/// name.
///
/// # Errors
/// The members cannot exchange their instances.
pub fn unguided(runtime: &Runtime, comm: &Comm) -> Result<Option<(u64, &'static str)>> {
    const NONE: u64 = u64::MAX;
    let (mut own, node) = ([NONE; KINDS.len()], runtime.node_within(comm));
    for (index, resource) in resources().iter().enumerate() {
        if let Some(instance) = resource.instance {
            own[index] = number(node, index, instance);
        }
    }
    let all = mpi_coll::gather_all_u64(&runtime.process, comm, own)?;
    let divides = |kind: &usize| {
        let first = all[0][*kind];
        all.iter().any(|one| one[*kind] != first)
    };
    let chosen = (0..KINDS.len()).find(divides);
    let own = chosen.map(|kind| (own[kind], KINDS[kind]));
    Ok(own.filter(|(color, _)| *color != NONE))
}
