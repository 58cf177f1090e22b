//! Dynamic processes (MPI-3.1 chapter 10): ports, the sockets between the roots of two jobs, the
//! transports of a connection, and requests to the launcher. `mpi_comm::dynamic` connects the jobs.

pub mod client;
#[doc(hidden)]
pub mod fuzzing;
pub mod join;
pub mod opener;
pub mod ports;
pub mod socket;
pub mod spawn;

use std::collections::HashMap;
use std::sync::Arc;

use mpi_core::Process;
use mpi_core::comm::Comm;
use mpi_core::process::foreign::Identity;
use netmod_kit::admission;
use parking_lot::Mutex;
use pmi::Client;

use crate::dynamic::ports::Port;
use crate::handles::predefined::MPI_Comm;

/// Draws a number that no other process draws. Falls back on the time, as no secret depends on it.
fn random() -> [u8; 16] {
    admission::random().unwrap_or_else(|_| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.unwrap_or_default().as_nanos().to_ne_bytes()
    })
}

/// Sets the identity of this process among connected jobs.
pub fn introduce(process: &Process, pmi: &Client) {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    pmi.kvs_name().hash(&mut hasher);
    if !pmi.is_launched() {
        // A singleton is a job of its own.
        crate::bootstrap::host::name().hash(&mut hasher);
        std::process::id().hash(&mut hasher);
        random().hash(&mut hasher);
    }
    let own = Identity {
        job: hasher.finish().max(1),
        rank: pmi.rank(),
    };
    process.foreign().introduce(own, pmi.size());
}

/// The state of dynamic processes in a process.
#[derive(Default)]
pub struct Dynamic {
    /// The open ports by name.
    pub ports: Mutex<HashMap<String, Arc<Port>>>,
    /// The intercommunicator to the parents, if this process was spawned.
    pub parent: Mutex<Option<MPI_Comm>>,
}

/// Returns the members of both groups of a communicator.
pub fn members(comm: &Comm) -> Vec<u32> {
    let remote = comm.remote().into_iter().flat_map(|group| group.peers());
    comm.local().peers().chain(remote).collect()
}
