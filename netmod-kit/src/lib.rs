//! Code that Weft's transports share.
//!
//! The contract is in [`netmod`]; a transport can fulfil it without this crate.
//!
//! - [`admission`]: listeners admit only connections that prove a secret.
//! - [`PeerTable`]: values by peer and VCI, for hot paths; [`NumberMap`]: by other numbers;
//!   [`Peers`]: a lane's endpoints and the processes that they belong to; [`LostPeers`]: peers that
//!   a lane has found lost, for the other lanes; [`Addresses`]: a transport's open VCIs.
//! - [`bridge`]: the transport of a connection between jobs, under the process's numbers.
//! - [`bundle`]: small messages that travel together. [`copy()`]: small copies without a call.
//! - [`Machine`]: what copies cost here. [`Nearness`]: whether another process's core shares a
//!   cache with this one's.
//! - [`remote`]: gets, puts and atomics in parts, with retries, flushes and losses;
//!   [`emulation`]: their parts by messages. Below them are [`Operations`] and [`Exposures`]: pending
//!   operations, and the exposed memory.
//! - [`events`]: events of protocols on standard error, in builds that have them.
//! - [`library`]: C libraries opened at run time; [`give_back_memory`]: freed memory that they
//!   leave in the allocator.
//! - [`spare`]: reused short buffers. [`usable`]: whether memory of the program can be read or
//!   written. [`interfaces`]: the host's network interfaces. [`socket_peer`]: the process at the
//!   other end of a socket; [`is_own`]: whether it runs as this process's user.
//! - [`Netmod`]: how a transport between nodes describes itself to libmpi, with its control
//!   [`variables`].
//! - `conformance` (a feature, for tests): the suite that every transport must pass.

#![forbid(unsafe_op_in_unsafe_fn)]

mod addresses;
pub mod admission;
pub mod bridge;
pub mod bundle;
#[cfg(feature = "conformance")]
pub mod conformance;
mod copy;
pub mod emulation;
pub mod events;
mod exposures;
mod fences;
pub mod interfaces;
pub mod library;
mod lost;
mod machine;
mod memory;
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
mod nearness;
mod node_file;
mod notice;
mod operations;
mod peer_table;
mod peers;
pub mod process_number;
mod registration;
pub mod remote;
mod same_user;
pub mod spare;
pub mod usable;
pub mod variables;

pub use addresses::Addresses;
pub use copy::{
    copy, copy_non_temporal, copy_overlapping, copy_to_far, copy_to_prefetched, copy_to_shared,
    is_virtual_machine, prefetch, prefetch_for_write, streaming_pays,
};
pub use exposures::{Exposures, Held, atomic_op};
pub use lost::LostPeers;
pub use machine::Machine;
pub use memory::give_back_memory;
pub use nearness::Nearness;
pub use node_file::{NODE_SPACE, node_file};
pub use notice::Notice;
pub use operations::Operations;
pub use peer_table::{NumberMap, PeerTable};
pub use peers::{Endpoint, Peers, Process};
pub use registration::{Netmod, Open, Start, need_rdma_device};
pub use same_user::{is_own, socket_peer};
