//! Jobs that meet (MPI-3.1 chapter 10): ports, the sockets between their roots, transports for a connection.

#[doc(hidden)]
pub mod fuzzing;
pub mod join;
pub mod opener;
pub mod ports;
pub mod socket;

use mpi_core::Process;
use mpi_core::process::foreign::Identity;
use netmod_kit::admission;
use pmi::Client;

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
        crate::host::name().hash(&mut hasher);
        std::process::id().hash(&mut hasher);
        random().hash(&mut hasher);
    }
    let own = Identity {
        job: hasher.finish().max(1),
        rank: pmi.rank(),
    };
    process.foreign().introduce(own, pmi.size());
}
