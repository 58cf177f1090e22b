//! Lock-free structures in memory that processes of a node share.
//!
//! - [`ring`]: a queue of messages from many senders to one receiver.
//! - [`PipeWords`]: how far sender and receiver of a long message are.

#![forbid(unsafe_op_in_unsafe_fn)]

mod pipe;
pub mod ring;
mod sync;

pub use pipe::{PipeWords, RING, ReceiverProgress};
