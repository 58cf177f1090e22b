//! One-sided communication (MPI-3.1 chapter 11): windows, transfers, synchronization.
//!
//! Each window has one access mode for synchronization and accumulates, the same for all members,
//! and so one domain of atomicity:
//!
//! - *mapped*: all members are on one node and have mapped the window's memory, because MPI
//!   allocated it (`MPI_Alloc_mem` included). Transfers are copies and the processor's atomic
//!   operations.
//! - *copied*: all members are on one node, but the memory is the program's own. Transfers are CMA
//!   copies by the kernel; accumulates make them under a lock of the target.
//! - *network*: the network does everything without the targets' processors. Synchronization and
//!   the order of accumulates go by words that the network's atomics change.
//! - *messages*: everything else. Targets carry out the origins' requests while they make progress.
//!
//! Each mode implements `Atomicity`, for accumulates, in its folder.
//!
//! The mapped and the copied mode synchronize by words in shared memory. In all modes but messages
//! an origin goes on even if the target never enters the library.
//!
//! Puts and gets take the fastest path between two processes, whatever the window's mode. That is
//! the target's `Route`, which is chosen when the window is created, and implements `TargetMemory`:
//! in a window over several nodes, members of one node copy directly, and others use the network's
//! remote memory where it has some. That mixes no domains of atomicity. Puts and gets are not
//! atomic (section 11.7), so the program orders them against accumulates by synchronization; and
//! synchronization goes by messages or the network there, after direct copies are complete and
//! remote accesses flushed.
//!
//! `mpi-core` knows nothing of windows: [`Windows`] registers with its process as a source of
//! progress.

mod copied;
mod epochs;
mod locks;
mod mapped;
mod messages;
mod network;
mod primitives;
mod window;

pub use copied::kernel_copy::kernel_copies;
pub use epochs::FenceAssert;
pub use mapped::fast_path::{ElementUpdate, IntegerOp, IntegerUpdate, SwapUpdate, Update};
pub use messages::progress_thread::{end_serving, keep_serving};
#[doc(hidden)]
pub use messages::serve::fuzzing;
/// Copies bytes between ranges that may overlap.
pub use netmod_kit::copy_overlapping;
pub use network::PassiveTargets;
pub use network::capabilities::NetworkAtomics;
pub use window::apply::Word;
pub use window::buffers::{Completion, Origin, Target};
pub use window::counters::Awaited;
pub use window::promise::Promise;
pub use window::registry::Windows;
pub use window::shared_alloc::{alloc_shared, free_shared};
pub use window::{Flavor, Hints, Window};
