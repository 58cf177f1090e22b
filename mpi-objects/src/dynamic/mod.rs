//! Processes that come and go (MPI-3.1 chapter 10): what a process keeps of them, and what is asked of the launcher.
//! Ports and sockets are mpi-init's (`dynamic`), how jobs are connected is mpi-comm's (`dynamic`).

pub mod spawn;

use std::collections::HashMap;
use std::sync::Arc;

use mpi_core::comm::Comm;
pub use mpi_init::dynamic::introduce;
use mpi_init::dynamic::ports::Port;
use parking_lot::Mutex;

use crate::predefined::MPI_Comm;

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
