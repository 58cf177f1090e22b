//! Sessions by handle, and the sets of processes that they know (MPI-4.1 section 11.3).

use std::ffi::c_int;
use std::sync::Arc;

use mpi_core::group::Group;
use mpi_core::{Class, Error, Result};
use parking_lot::Mutex;

use crate::abi::{
    MPI_SESSION_NULL, MPI_Session, MPI_THREAD_FUNNELED, MPI_THREAD_MULTIPLE, MPI_THREAD_SERIALIZED,
    MPI_THREAD_SINGLE,
};
use crate::bsend::Buffered;
use crate::errhandler::Attached;
use crate::library::LIBRARY;
use crate::runtime::Runtime;

/// A session.
pub struct SessionObject {
    /// Its error handler.
    pub errhandler: Mutex<Attached>,
    /// The buffer for buffered sends on communicators that come from it.
    pub bsend: Arc<Buffered>,
    /// The thread level that it got.
    pub thread_level: c_int,
}

/// The session behind a handle.
pub fn get(handle: MPI_Session) -> Result<&'static SessionObject> {
    LIBRARY.sessions.get(handle).ok_or_else(|| invalid(handle))
}

/// A handle for a session.
pub fn insert(session: SessionObject) -> Result<MPI_Session> {
    LIBRARY.sessions.insert(Arc::new(session)).ok_or_else(|| {
        Error::new(
            Class::NoMem,
            "all 67,108,864 session handles are in use; finalize some",
        )
    })
}

/// Takes a session out.
pub fn remove(handle: MPI_Session) -> Result<()> {
    let removed = LIBRARY.sessions.remove(handle);
    removed.map(drop).ok_or_else(|| invalid(handle))
}

#[cold]
fn invalid(handle: MPI_Session) -> Error {
    let what = if handle == MPI_SESSION_NULL {
        "session is MPI_SESSION_NULL".to_string()
    } else {
        format!("session {handle:#x} does not exist; it was never opened, or has been finalized")
    };
    Error::new(Class::Session, what)
}

/// The names of thread levels.
pub const LEVELS: [(&str, c_int); 4] = [
    ("MPI_THREAD_SINGLE", MPI_THREAD_SINGLE),
    ("MPI_THREAD_FUNNELED", MPI_THREAD_FUNNELED),
    ("MPI_THREAD_SERIALIZED", MPI_THREAD_SERIALIZED),
    ("MPI_THREAD_MULTIPLE", MPI_THREAD_MULTIPLE),
];

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
