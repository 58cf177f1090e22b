//! Collective operations on communicators: schedules run over the process's own messages and over slots.
//!
//! What an algorithm does is the crate `mpi-sched`, which knows neither processes nor communicators. This
//! crate says which of its schedules a call takes on a communicator ([`plan`]), keeps them, and runs
//! them: a blocking call to its end ([`exec`]), a nonblocking one as others make progress
//! ([`nonblocking`]). A run goes by messages, by slots that the ranks of a node share, or by slots that ranks
//! write to over a network ([`slots`]).
//!
//! The crate stands above `mpi-core` and uses nothing of it but its public functions. What it keeps with a
//! communicator is an attachment that `mpi-core` does not look into, and it registers with the process as a
//! source of progress.

mod agreement;
mod exec;
mod nonblocking;
pub mod persistent;
mod plan;
pub mod slots;
mod sync;

pub use exec::blocking::{barrier, call, greatest_u64};
pub use exec::buffers::{Buffers, Holder};
pub use exec::exchange::{broadcast_u64, gather_all_u64};
pub use exec::quick;
pub use exec::run::{collective, collective_for};
pub use nonblocking::started;
pub use plan::call::{Call, Root};
pub use plan::registration::{Collectives, arenas, by_node, choices};
pub use plan::state::set_comm_choices;
