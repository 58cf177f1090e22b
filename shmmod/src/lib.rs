//! The transport between the processes of a node.
//!
//! Small messages go through a queue of cells that each receiving VCI has in shared memory, large
//! data is copied once, from one process's memory to the other's, by the kernel
//! (`process_vm_readv`). Memory per VCI is fixed: one queue, whatever the number of senders, and a
//! peer's queue is mapped when first sent to.

mod config;
mod ends;
mod lane;
mod room;
mod segment;
mod shared_segment;
mod single_copy;
mod transport;
mod wake_up;

pub use config::{Config, VARIABLES};
pub use shared_segment::SharedSegments;
pub use transport::Shm;
