//! Collective operations on communicators: schedules run over messages and over slots.
//!
//! Algorithms are in the crate `mpi-sched`, which knows neither processes nor communicators. This
//! crate chooses a schedule for a call on a communicator ([`plan`]), keeps it for later calls, and
//! runs it: a blocking call to its end ([`exec`]), a nonblocking one as progress is made
//! ([`nonblocking`]). A run uses messages, slots that the ranks of a node share, or slots that
//! ranks write to over a network ([`slots`]).
//!
//! The crate uses only public functions of `mpi-core`. A communicator's collective state is an
//! attachment that `mpi-core` does not interpret, and the crate registers with the process as a
//! source of progress.

mod agreement;
mod exec;
mod nonblocking;
pub mod persistent;
mod plan;
pub mod slots;
mod sync;

pub use exec::blocking::{barrier, call, call_with_handles, greatest_u64};
pub use exec::buffers::{Buffers, Holder};
pub use exec::exchange::{broadcast_u64, gather_all_u64};
pub use exec::phase::{NodeContext, PhasePlan};
pub use exec::repeated;
pub use exec::run::{collective, collective_for};
pub use mpi_sched::Collective;
pub use nonblocking::started;
pub use plan::cache::Handles;
pub use plan::call::{Call, Root};
pub use plan::registration::{Collectives, arenas, by_node, choices};
pub use plan::state::set_comm_choices;
