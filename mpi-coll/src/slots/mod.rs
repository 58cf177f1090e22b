//! Memory that a communicator's ranks share for collectives: within a node, and over a network.

pub mod arenas;
pub(crate) mod control_words;
pub(crate) mod copy_measurement;
pub(crate) mod copy_result;
pub(crate) mod nearness;
pub(crate) mod network;
pub(crate) mod setup;
pub(crate) mod share;
pub(crate) mod shared;
pub(crate) mod slot_flag;
