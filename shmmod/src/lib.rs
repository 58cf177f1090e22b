//! The transport between the processes of a node.
//!
//! Short messages go through a ring of cells that each receiving VCI has in shared memory. Long
//! messages are copied once, from one process's memory to the other's, by the kernel (CMA,
//! `process_vm_readv`), or twice, through pipelines in the sender's shared memory, as `policy`
//! decides. Memory per VCI is fixed: one ring and the memory of its pipelines, whatever the number
//! of senders. A peer's ring is mapped on the first send to it.

mod cma;
mod config;
mod ends;
mod lane;
mod memory;
mod open_pipe;
mod overcommit;
mod pipes;
mod policy;
mod segment;
mod sending;
mod shared_segment;
mod transport;
mod wake_up;

pub use config::{Config, SingleCopy, VARIABLES};
pub use memory::{inherit, inherited_id, meet};
pub use shared_segment::SharedSegments;
pub use transport::Shm;
