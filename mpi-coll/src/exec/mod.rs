//! Executors: run a schedule over messages, over a node's slots and over a network's slots.

pub(crate) mod blocking;
pub(crate) mod buffers;
pub(crate) mod exchange;
pub(crate) mod execute;
pub(crate) mod phase;
pub(crate) mod port;
pub(crate) mod progress_note;
pub mod repeated;
pub(crate) mod rounds;
pub(crate) mod run;
pub(crate) mod unscheduled;
