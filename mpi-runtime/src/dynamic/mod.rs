//! Processes that come and go, and jobs that meet (MPI-3.1 chapter 10): ports, the sockets between their roots,
//! transports for a connection, and what is asked of the launcher. How jobs are connected is mpi-comm's (`dynamic`).

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

/// Draws a number that no other process draws. No secret depends on it: without random numbers it is made of the time.
fn random() -> [u8; 16] {
    admission::random().unwrap_or_else(|_| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.unwrap_or_default().as_nanos().to_ne_bytes()
    })
}

/// Says who this process is among connected jobs.
pub fn introduce(process: &Process, pmi: &Client) {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    pmi.kvs_name().hash(&mut hasher);
    if !pmi.is_launched() {
        // Nobody else is of this job.
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

/// What a process has of dynamic processes.
#[derive(Default)]
pub struct Dynamic {
    /// The ports that it has opened, by name.
    pub ports: Mutex<HashMap<String, Arc<Port>>>,
    /// The intercommunicator to the processes that have spawned this one.
    pub parent: Mutex<Option<MPI_Comm>>,
}

/// All members of a communicator, of both groups.
pub fn members(comm: &Comm) -> Vec<u32> {
    let remote = comm.remote().into_iter().flat_map(|group| group.peers());
    comm.local().peers().chain(remote).collect()
}
