//! Collective operations on communicators: schedules run over the process's own messages and over slots.
//!
//! What an algorithm does is the crate `mpi-coll`, which knows neither processes nor communicators. This
//! room says which of its schedules a call takes on a communicator ([`call`](Call)), keeps them, and runs
//! them: a blocking call to its end (`blocking`, `run`), a nonblocking one as others make progress
//! (`started`). A run goes by messages, by slots that the ranks of a node share, or by slots that ranks
//! write to over a network; `port` has one port for each.

mod agreement;
mod blocking;
mod cache;
mod call;
mod exchange;
mod inquiry;
mod network;
mod nonblocking;
pub mod persistent;
mod port;
mod quick;
mod registration;
mod run;
mod scheduled;
mod setup;
mod share;
mod shared;
mod slot_flag;
pub mod started;
mod state;
mod words;

use std::sync::Arc;

use crate::comm::Comm;
use crate::pt2pt::request::RequestId;
use mpi_coll::Choices;

pub use blocking::{barrier, call, greatest_u64};
pub use call::{Call, Root};
pub use exchange::{broadcast_u64, gather_all_u64};
pub use registration::{Collectives, choices};
pub use run::{collective, collective_for};
use state::CommState;

/// A collective's message: none if its send was complete at once.
type Message = Option<RequestId>;

/// Where a collective's data is.
#[derive(Clone, Copy, Debug)]
pub struct Buffers {
    /// The send buffer, if the schedule uses one.
    pub send: *const u8,
    /// The receive buffer, if the schedule uses one.
    pub recv: *mut u8,
}

impl Buffers {
    /// For schedules without data.
    pub const NONE: Buffers = Buffers {
        send: std::ptr::null(),
        recv: std::ptr::null_mut(),
    };
}

/// Something that keeps a communicator alive.
pub type Holder = Arc<dyn AsRef<Comm> + Send + Sync>;

/// Sets which algorithms the collectives of a communicator take; none for those of the process. All
/// members must set the same.
pub fn set_comm_choices(comm: &Comm, choices: Option<Choices>) {
    CommState::of(comm).set_choices(choices);
}
