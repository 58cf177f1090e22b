//! Weft's transport over InfiniBand verbs: InfiniBand, RoCE, and Soft-RoCE for tests.
//!
//! libibverbs is opened at run time ([`Config::library`]), so a program that never uses it needs
//! none. One device and port serve the process. Each VCI has its own queues: a completion queue, a
//! shared receive queue with its buffers, and a reliable connection (RC queue pair) to each peer's VCI
//! that it talks to, made at first contact by datagrams. How much VCIs share instead is for the user
//! to say ([`Sharing`]).
//!
//! # How the contract is met
//! - **Active messages** are sends: inline up to what the device takes, through registered buffers
//!   above. The 16 bytes in front of each name the connection. Only one work request in 64 tells
//!   of its end, unless buffers run short.
//! - **Flow control**: a peer's VCI may have [`Config::window`] messages in our receive queue, for
//!   which buffers are posted when it connects; how many were taken comes back with any message, or
//!   by a short one. So "receiver not ready" does not arise until there are more peers than buffers,
//!   and then adapters retry without end.
//! - **Get and put** are RDMA reads and writes, up to [`Config::copy_most`] through buffers, beyond
//!   that in registered memory (`memory.rs` says how long registrations live). The end of a
//!   write means that it has arrived; a flush waits for those.
//! - **Atomics** are the adapter's fetch-and-add and compare-and-swap; the others are loops over
//!   compare-and-swap. Adapters without atomics have them emulated by messages.
//! - **Loss of a peer** shows when its adapter does not answer. Idle connections are asked once a
//!   second by a write of nothing, while somebody waits.
//!
//! Memory that is exposed must be real memory of this process. An access beyond it breaks the
//! connection, as the hardware has it.

mod buffers;
mod calls;
mod config;
mod connect;
mod datagrams;
mod device;
mod emulation;
mod engine;
mod events;
mod ffi;
mod lane;
mod library;
mod memory;
mod names;
mod objects;
mod ops;
mod peers;
mod progress;
mod queue;
mod registration;
mod remote;
mod shared;
mod transport;
mod wire;

pub use config::{Atomics, Config, Sharing};
pub use registration::NETMOD;
pub use transport::{Resources, VerbsTransport};
