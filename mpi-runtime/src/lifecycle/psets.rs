//! The sets of processes that sessions know by name (MPI-4.1 section 11.3.1).

use mpi_core::group::Group;
use mpi_core::{Class, Error, Result};

use crate::lifecycle::runtime::Runtime;

/// A set of processes that has a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pset {
    /// All processes of the job.
    World,
    /// This process.
    Own,
    /// The processes of this node, which can share memory.
    SharedMemory,
    /// A set that the launcher has a name for, by its number.
    Launcher(usize),
}

/// The sets that there always are, in the order in which they are told.
const PSETS: [(&str, Pset); 3] = [
    ("mpi://WORLD", Pset::World),
    ("mpi://SELF", Pset::Own),
    ("mpix://SHARED_MEMORY", Pset::SharedMemory),
];

/// All sets: after those that there always are come the launcher's.
///
/// # Errors
/// The launcher doesn't answer.
pub fn psets(runtime: &Runtime) -> Result<Vec<(&str, Pset)>> {
    let told = runtime.pmi.psets().map_err(|error| {
        let why = format!("the launcher's process sets could not be found out: {error}");
        Error::new(Class::Other, why)
    })?;
    let own = told.iter().enumerate();
    let own = own.map(|(number, set)| (set.name.as_str(), Pset::Launcher(number)));
    Ok(PSETS.into_iter().chain(own).collect())
}

/// The set of a name. Case doesn't matter in those of MPI.
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
    /// Its processes.
    ///
    /// # Errors
    /// Who shares memory can't be found out.
    pub fn group(self, runtime: &Runtime) -> Result<Group> {
        let world = runtime.world.comm.local();
        Ok(match self {
            Pset::World => world.clone(),
            Pset::Own => runtime.self_comm.comm.local().clone(),
            Pset::Launcher(number) => {
                let told = runtime.pmi.psets().unwrap_or_default();
                let ranks = told.get(number).map_or(&[][..], |set| &set.ranks);
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
                                format!("where rank {rank} is could not be found out: {}", error.0),
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
