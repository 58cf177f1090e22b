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

mod access;
mod accumulate;
mod acting;
mod apply;
mod atomics;
mod attached;
mod buffers;
mod control;
mod creation;
mod deferred;
mod directory;
mod epochs;
mod fast_locks;
mod fast_path;
mod fast_targets;
mod grants;
mod heap;
mod helper;
mod inbox;
mod kernel_copy;
mod key_exchange;
mod keys;
mod lanes;
mod lock_repair;
mod lock_word;
mod locks;
#[cfg(test)]
mod locks_testing;
mod member_lock;
mod members;
mod message;
mod native;
mod network_atomics;
mod outbox;
mod passive;
mod passive_accumulate;
mod passive_dynamic;
mod passive_locks;
mod passive_noted;
mod passive_pscw;
mod passive_queue;
mod passive_service;
mod passive_turn;
mod pending;
mod pieces;
mod primitives;
mod promise;
mod pscw;
mod queue;
mod regions;
mod remote_lock;
mod request_slot;
mod rings;
mod runs;
mod serve;
mod service;
mod service_signal;
mod share;
mod shared_alloc;
mod shared_pieces;
mod sync;
mod target_requests;
mod targets;
mod transfer;
mod watch;
mod window;
mod windows;
mod words;

pub use buffers::{Form, Origin, Target};
pub use epochs::FenceAssert;
pub use fast_path::{Atomic, Change, Word};
pub use helper::{end_serving, keep_serving};
pub use kernel_copy::kernel_copies;
/// How transfers copy between places that may overlap.
pub use netmod_kit::copy_overlapping;
pub use network_atomics::NetworkAtomics;
pub use passive::PassiveTargets;
pub use promise::Promise;
#[doc(hidden)]
pub use serve::fuzzing;
pub use shared_alloc::{alloc_shared, free_shared};
pub use window::{Flavor, Hints, Window};
pub use windows::Windows;
