//! The transport between the processes of a node.
//!
//! Small messages go through a queue of cells that each receiving VCI has in shared memory. Large
//! data is copied once, from one process's memory to the other's, by the kernel
//! (`process_vm_readv`), or twice, through pipes in the sender's shared memory, whichever is measured
//! to be quicker. Memory per VCI is fixed: one queue and the pipes' room, whatever the number of senders, and a
//! peer's queue is mapped when first sent to.

mod choice;
mod config;
mod ends;
mod hand_over;
mod lane;
mod lent;
mod live;
mod liveness;
mod measured;
mod pipes;
mod room;
mod segment;
mod sending;
mod shape;
mod shared_copy;
mod shared_segment;
mod single_copy;
mod transport;
mod turns;
mod wake_up;

pub use config::{Config, SingleCopy, VARIABLES};
pub use shared_segment::SharedSegments;
pub use transport::Shm;
