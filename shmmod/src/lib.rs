//! The transport between the processes of a node.
//!
//! Small messages go through a queue of cells that each receiving VCI has in shared memory, large
//! data is copied once, from one process's memory to the other's, by the kernel
//! (`process_vm_readv`). Memory per VCI is fixed: one queue, whatever the number of senders, and a
//! peer's queue is mapped when first sent to.

#![cfg_attr(loom, allow(unused))]

#[cfg(not(loom))]
mod config;
#[cfg(not(loom))]
mod lane;
mod ring;
#[cfg(not(loom))]
mod room;
#[cfg(not(loom))]
mod segment;
#[cfg(not(loom))]
mod shared_segment;
#[cfg(not(loom))]
mod single_copy;
mod sync;
#[cfg(not(loom))]
mod transport;
#[cfg(not(loom))]
mod wake_up;

#[cfg(not(loom))]
pub use config::{Config, VARIABLES};
#[cfg(not(loom))]
pub use shared_segment::SharedSegments;
#[cfg(not(loom))]
pub use transport::Shm;
