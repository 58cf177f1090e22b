//! Collective operations on communicators: schedules run over the process's own messages and over slots.
//!
//! What an algorithm does is the crate `mpi-sched`, which knows neither processes nor communicators. This
//! room says which of its schedules a call takes on a communicator ([`call`](Call)), keeps them, and runs
//! them: a blocking call to its end (`blocking`, `run`), a nonblocking one as others make progress
//! (`started`). A run goes by messages, by slots that the ranks of a node share, or by slots that ranks
//! write to over a network; `port` has one port for each.

mod agreement;
mod blocking;
mod buffers;
mod cache;
mod call;
mod copying;
mod exchange;
mod found;
mod in_slots;
mod inquiry;
mod nearness;
mod network;
mod nonblocking;
mod one_copy;
pub mod persistent;
mod port;
mod progress_note;
pub mod quick;
mod registration;
mod rooted;
mod rounds;
mod run;
mod scheduled;
mod setup;
mod share;
mod shared;
mod site;
mod slot_flag;
pub mod started;
mod state;
mod straight;
mod words;
mod writes;

pub use blocking::{barrier, call, greatest_u64};
pub use buffers::{Buffers, Holder};
pub use call::{Call, Root};
pub use exchange::{broadcast_u64, gather_all_u64};
pub use registration::{Collectives, arenas, by_node, choices};
pub use run::{collective, collective_for};
pub use state::set_comm_choices;
