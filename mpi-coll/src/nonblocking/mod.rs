//! Collectives that run while their caller goes on.
//!
//! Nonblocking collectives of a node have slots of their own (`in_slots`), because several are
//! under way together and end in any order. Only a blocking collective may wait for other members,
//! so the next one after five nonblocking ones makes these slots. Where there are none, and in
//! programs without blocking collectives, messages are used.

pub(crate) mod in_slots;
pub mod started;
