//! Jobs that meet (MPI-3.1 chapter 10): ports, the sockets between their roots, transports for a connection.

pub mod join;
pub mod opener;
pub mod ports;
pub mod socket;

use mpi_core::Process;
use mpi_core::process::foreign::Identity;
use pmi::Client;

/// Says who this process is among connected jobs.
pub fn introduce(process: &Process, pmi: &Client) {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    pmi.kvs_name().hash(&mut hasher);
    if !pmi.is_launched() {
        // Nobody else is of this job.
        crate::host::name().hash(&mut hasher);
        std::process::id().hash(&mut hasher);
        ports::random().hash(&mut hasher);
    }
    let own = Identity {
        job: hasher.finish().max(1),
        rank: pmi.rank(),
    };
    process.foreign().introduce(own, pmi.size());
}
