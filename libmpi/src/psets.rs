//! The sets of processes that sessions know by name (MPI-4.1 section 11.3.1).

use mpi_core::group::Group;
use mpi_core::{Class, Error, Result};

use crate::runtime::Runtime;

/// A set of processes that has a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pset {
    /// All processes of the job.
    World,
    /// This process.
    Own,
    /// The processes of this node, which can share memory.
    SharedMemory,
}

/// The sets that there are, in the order in which they are told.
pub const PSETS: [(&str, Pset); 3] = [
    ("mpi://WORLD", Pset::World),
    ("mpi://SELF", Pset::Own),
    ("mpix://SHARED_MEMORY", Pset::SharedMemory),
];

/// The set of a name.
///
/// # Errors
/// [`Class::Arg`] if there is none.
pub fn pset(name: &[u8]) -> Result<Pset> {
    let found = PSETS
        .iter()
        .find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name));
    found.map(|(_, pset)| *pset).ok_or_else(|| {
        let names = PSETS.map(|(name, _)| name).join(", ");
        let why = format!(
            "there is no process set {:?}; there are {names}",
            String::from_utf8_lossy(name)
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
