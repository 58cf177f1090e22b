//! Collectives that run while their caller goes on.

pub(crate) mod in_slots;
pub mod started;
