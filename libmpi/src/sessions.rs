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
