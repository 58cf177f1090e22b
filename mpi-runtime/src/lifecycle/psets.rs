//! The named process sets of sessions (MPI-4.1 section 11.3.1).

use mpi_core::group::Group;
use mpi_core::{Class, Error, Result};

use crate::lifecycle::runtime::Runtime;

/// A named process set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pset {
    /// All processes of the job.
    World,
    /// This process.
    Own,
    /// The processes of this node, which can share memory.
    SharedMemory,
    /// A set defined by the launcher, by its number.
    Launcher(usize),
}

/// The predefined sets, in the order in which `MPI_Session_get_nth_pset` returns them.
const PSETS: [(&str, Pset); 3] = [
    ("mpi://WORLD", Pset::World),
    ("mpi://SELF", Pset::Own),
    ("mpix://SHARED_MEMORY", Pset::SharedMemory),
];

/// Returns all sets: the predefined ones, then the launcher's.
///
/// # Errors
/// The launcher does not answer.
pub fn psets(runtime: &Runtime) -> Result<Vec<(&str, Pset)>> {
    let from_launcher = runtime.pmi.psets().map_err(|error| {
        let why = format!("the launcher did not list its process sets: {error}");
        Error::new(Class::Other, why)
    })?;
    let own = from_launcher.iter().enumerate();
    let own = own.map(|(number, set)| (set.name.as_str(), Pset::Launcher(number)));
    Ok(PSETS.into_iter().chain(own).collect())
}

/// Returns the set of a name. Case is ignored in the names of MPI's sets.
///
/// # Errors
/// [`Class::Arg`] if there is none.
pub fn pset(runtime: &Runtime, name: &[u8]) -> Result<Pset> {
    let same = |known: &str, pset| match pset {
        Pset::Launcher(_) => known.as_bytes() == name,
        _ => known.as_bytes().eq_ignore_ascii_case(name),
    };
    let all = psets(runtime)?;
    let found = all.iter().find(|(known, pset)| same(known, *pset));
    found.map(|(_, pset)| *pset).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        let why = format!(
            "there is no process set {:?}; there are {}",
            String::from_utf8_lossy(name),
            names.join(", ")
        );
        Error::new(Class::Arg, why)
    })
}

impl Pset {
    /// Returns the processes of the set.
    ///
    /// # Errors
    /// The launcher cannot provide the node of a process.
    pub fn group(self, runtime: &Runtime) -> Result<Group> {
        let world = runtime.world.comm.local();
        Ok(match self {
            Pset::World => world.clone(),
            Pset::Own => runtime.self_comm.comm.local().clone(),
            Pset::Launcher(number) => {
                let from_launcher = runtime.pmi.psets().unwrap_or_default();
                let ranks = from_launcher.get(number).map_or(&[][..], |set| &set.ranks);
                world.of_ranks(ranks)
            }
            Pset::SharedMemory => {
                let me = runtime.process.me();
                let mut here = Vec::new();
                for rank in 0..world.size() {
                    let peer = world.peer(rank);
                    let is_here = peer == me
                        || runtime.neighbours.has(peer).map_err(|error| {
                            Error::new(
                                Class::Other,
                                format!("the node of rank {rank} is unknown: {}", error.0),
                            )
                        })?;
                    if is_here {
                        here.push(rank);
                    }
                }
                world.of_ranks(&here)
            }
        })
    }
}
