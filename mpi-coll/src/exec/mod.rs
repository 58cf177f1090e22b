//! Executors: run a schedule over messages, over the slots of a node and over those of a network.

pub(crate) mod blocking;
pub(crate) mod buffers;
pub(crate) mod exchange;
pub(crate) mod port;
pub(crate) mod progress_note;
pub mod quick;
pub(crate) mod rooted;
pub(crate) mod rounds;
pub(crate) mod run;
pub(crate) mod straight;
