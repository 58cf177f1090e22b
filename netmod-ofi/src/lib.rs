//! Weft's transport over libfabric (OFI), version 1.17 and newer.
//!
//! The library is opened at run time ([`Config::library`]), so programs that do not use it do not
//! need it. One fabric and one domain serve the process; each VCI has its own endpoint (reliable
//! datagrams), completion queue and address vector, so lanes share no data that Weft writes on the
//! hot path.
//!
//! # How the contract is met
//! - **Active messages** are `fi_inject` up to the provider's inject size and copies through a
//!   bounded pool of eager buffers above it. The 8 bytes before each name the sender. Small
//!   messages of a burst are bundled ([`netmod_kit::bundle`]).
//! - **Get and put** are `fi_read` and `fi_write` where the provider has them with delivery
//!   completion; a put's completion then means that it is visible at the target, so a flush waits
//!   for the completions of what was issued before it. Small puts go through an eager buffer and
//!   are complete when issued.
//! - **Atomics** are the provider's if its hardware or threads carry them out ([`Offload::Auto`]);
//!   otherwise the target's poll answers messages by the processor's atomics, so they mix with the
//!   target's own.
//! - If the provider lacks remote memory, get and put are emulated by messages, too.
//!
//! Exposed memory must be real memory of this process; access beyond it is an error at the peer.

mod address;
mod buffers;
mod bundling;
mod config;
mod connect;
mod emulation;
#[allow(missing_docs)]
mod ffi;
mod lane;
mod library;
mod links;
mod loss;
mod objects;
mod peers;
mod probe;
mod progress;
mod registration;
mod remote;
mod select;
mod shared;
mod transport;
mod watch;
mod wire;

pub use config::{Config, Offload};
pub use registration::NETMOD;
pub use transport::OfiTransport;
