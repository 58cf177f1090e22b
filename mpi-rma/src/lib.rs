//! One-sided communication (MPI-3.1 chapter 11): windows, transfers, synchronisation.
//!
//! All members of a window reach each other in one of four ways, so that each window has one
//! domain of atomicity:
//!
//! - *mapped*: they are on one node and its memory is shared memory that all have mapped: what MPI
//!   allocates, by `MPI_Alloc_mem` too. Transfers are copies and the processor's atomic operations.
//! - *copied*: they are on one node, but the memory is the program's own. The kernel copies between
//!   address spaces; accumulates do so under a lock of the target's.
//! - *passive*: over networks that do all that is needed without targets' processors. Synchronisation is by
//!   words that the network's atomics change, and accumulates take turns by such.
//! - *messages*: all else. Targets carry out what origins ask for while they make progress.
//!
//! In the first two ways synchronisation is by words in shared memory. In the first three no target need
//! enter the library for an origin to go on.
//!
//! The way is the window's, for synchronisation and accumulates. Puts and gets go the shortest way
//! that there is between two processes: in a window over several nodes, those of one node reach
//! each other's memory directly, and others by the network's remote memory, where it has some. That
//! mixes no domains: puts and gets are not atomic in themselves (section 11.7), the program orders
//! them against accumulates by synchronisation, and all synchronisation goes by messages or the network there,
//! before which a direct copy is complete, and what went by the network has been flushed.
//!
//! This crate stands above `mpi-core`, whose process knows nothing of windows: [`Windows`] registers
//! with it as a source of progress.

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
pub use mapped::fast_path::{Atomic, Change, Word};
pub use messages::progress_thread::{end_serving, keep_serving};
#[doc(hidden)]
pub use messages::serve::fuzzing;
/// How transfers copy between places that may overlap.
pub use netmod_kit::copy_overlapping;
pub use network::PassiveTargets;
pub use network::capabilities::NetworkAtomics;
pub use window::buffers::{Form, Origin, Target};
pub use window::promise::Promise;
pub use window::registry::Windows;
pub use window::shared_alloc::{alloc_shared, free_shared};
pub use window::{Flavor, Hints, Window};
