//! Weft's transport over plain TCP sockets: nothing to install, one connection per pair of VCIs.
//!
//! # How the contract is met
//! - **Active messages** are frames ([`wire`]) on a connection that is made at first contact, from
//!   either side ([`connect`]). A short message is one `send` with nothing else before or after it;
//!   one `recv` brings as many as have come ([`receive`]). A lane looks directly at the few
//!   connections that were last in use and asks epoll for the others, so that a ping-pong makes no
//!   other system calls.
//! - **Long messages** are written straight from the program's memory and, where somebody waits for
//!   them, read straight into it.
//! - **Put, get, atomics** are frames with at most one answer each; a flush is one round trip for
//!   everything before it, since frames stay in order. Small puts leave with what follows them.
//! - **Streams**: long gets, which is how long messages are fetched, can be shared by several
//!   connections, over several interfaces ([`streams`]).
//! - **Signals** are frames that the target's poll stores at once.
//! - **Waiting**: the epoll descriptor is the doorbell.
//! - **Loss**: a connection that ends without a farewell is the loss of its process; a silent host
//!   shows by the kernel's keep-alive, and by what it owes an answer to ([`silence`]), after 10 seconds.
//!   A connection that breaks while both processes live is reported as a loss, too: numbering and
//!   keeping what was sent would cost every message a copy.
//! - **Strangers** at the port have to prove that they know the job's secret ([`hello`]), and cost bounded slots and
//!   time until then ([`netmod_kit::admission`]).

#![deny(unsafe_code)]

mod buffer;
mod calls;
mod config;
mod congestion;
mod conn;
mod connect;
mod exposure;
#[doc(hidden)]
#[allow(unsafe_code, reason = "memory that operations write")]
pub mod fuzzing;
#[allow(unsafe_code, reason = "memory that programs lend")]
mod gather;
mod hello;
#[allow(unsafe_code, reason = "getifaddrs is a C list")]
mod interfaces;
#[allow(unsafe_code, reason = "memory that programs lend")]
mod lane;
mod look;
mod ops;
mod park;
#[allow(
    unsafe_code,
    reason = "calls of the kernel that rustix lacks or that programs' memory is named in"
)]
mod pipe;
#[allow(unsafe_code, reason = "memory that programs lend")]
mod places;
#[allow(unsafe_code, reason = "memory that programs lend")]
mod receive;
mod record;
mod registration;
#[allow(unsafe_code, reason = "memory that programs lend")]
mod remote;
mod shared;
mod silence;
#[allow(unsafe_code, reason = "memory that programs lend")]
mod streams;
mod subnet;
#[cfg(test)]
#[allow(unsafe_code, reason = "memory that programs lend")]
mod tests;
#[allow(unsafe_code, reason = "memory that programs lend")]
mod transport;
mod ways;
mod wire;

pub use config::{Config, VARIABLES};
pub use interfaces::addresses;
pub use registration::NETMOD;

/// The control variable that says on which ports connections are accepted.
pub const PORTS_VARIABLE: &str = config::PORTS.name;
/// The control variable that names the interfaces to use.
pub const INTERFACE_VARIABLE: &str = config::INTERFACE.name;
pub use transport::TcpTransport;
