//! Processes that come and go (MPI-3.1 chapter 10): ports, the sockets between the roots of jobs that meet, and
//! what is asked of the launcher. How jobs are connected is mpi-core's (`dynamic`).

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
use parking_lot::Mutex;
use pmi::Client;

use crate::abi::MPI_Comm;
use crate::dynamic::ports::Port;

/// What a process has of dynamic processes.
#[derive(Default)]
pub struct Dynamic {
    /// The ports that it has opened, by name.
    pub ports: Mutex<HashMap<String, Arc<Port>>>,
    /// The intercommunicator to the processes that have spawned this one.
    pub parent: Mutex<Option<MPI_Comm>>,
}

/// Says who this process is among connected jobs.
pub fn introduce(process: &Process, pmi: &Client) {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    pmi.kvs_name().hash(&mut hasher);
    if !pmi.is_launched() {
        // Nobody else is of this job.
        crate::identity::host().hash(&mut hasher);
        std::process::id().hash(&mut hasher);
        ports::random().hash(&mut hasher);
    }
    let own = Identity {
        job: hasher.finish().max(1),
        rank: pmi.rank(),
    };
    process.foreign().introduce(own, pmi.size());
}

/// All members of a communicator, of both groups.
pub fn members(comm: &Comm) -> Vec<u32> {
    let remote = comm.remote().into_iter().flat_map(|group| group.peers());
    comm.local().peers().chain(remote).collect()
}
