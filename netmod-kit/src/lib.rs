//! What Weft's transports share: tables of peers, small messages that travel together, copies.
//!
//! The contract is in [`netmod`]; nothing here is needed to fulfil it.

#![forbid(unsafe_op_in_unsafe_fn)]

pub mod bundle;
mod copy;
mod peer_table;

pub use copy::copy;
pub use peer_table::PeerTable;
