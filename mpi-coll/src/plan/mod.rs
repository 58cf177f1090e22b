//! Planning of a collective call: its schedule, its executor, and what is kept for the next call.

pub(crate) mod cache;
pub(crate) mod call;
pub(crate) mod call_context;
pub(crate) mod in_slots;
pub(crate) mod registration;
pub(crate) mod select;
pub(crate) mod shape;
pub(crate) mod state;
pub(crate) mod writes;
