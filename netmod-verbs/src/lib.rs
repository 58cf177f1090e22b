//! Weft's transport over InfiniBand verbs: InfiniBand, RoCE, and Soft-RoCE for tests.
//!
//! libibverbs is opened at run time ([`Config::library`]), so programs that do not use it do not
//! need it. One device and port serve the process. Each VCI has its own queues: a completion queue,
//! a shared receive queue with its buffers, and a reliable connection (RC queue pair) to each peer
//! VCI that it talks to, set up by datagrams at first contact. [`Sharing`] selects what VCIs share
//! instead.
//!
//! # How the contract is met
//! - **Active messages** are sends: inline up to the device's limit, through registered buffers
//!   above it. The 16 bytes before each name the connection. Only one work request in 64 is
//!   signalled, unless buffers run short.
//! - **Flow control**: a peer's VCI may have [`Config::window`] messages in the local receive
//!   queue, for which buffers are posted when it connects. Credit comes back with any message, or
//!   by a message of its own. So "receiver not ready" occurs only with more peers than buffers, and
//!   then adapters retry without limit.
//! - **Get and put** are RDMA reads and writes, up to [`Config::copy_most`] through buffers, beyond
//!   that in registered memory (`memory.rs` describes the lifetime of registrations). Completion of
//!   a write means that it has arrived; a flush waits for the completions.
//! - **Atomics** are the adapter's fetch-and-add and compare-and-swap; the others are loops over
//!   compare-and-swap. Without an adapter's atomics they are emulated by messages.
//! - **Loss of a peer** is detected when its adapter does not answer. While a thread waits, idle
//!   connections are probed once a second by an empty write.
//!
//! Exposed memory must be real memory of this process. An access beyond it breaks the connection,
//! as the hardware defines.

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
