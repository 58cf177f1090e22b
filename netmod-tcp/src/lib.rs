//! Weft's transport over plain TCP sockets: nothing to install, one connection per pair of VCIs.
//!
//! # How the contract is met
//! - **Active messages** are frames ([`wire`]) on a connection that either side makes at first
//!   contact ([`connect`]). A short message is one `send` and nothing else; one `recv` brings all
//!   that have arrived ([`receive`]). A lane polls the few connections used last directly and the
//!   others by epoll, so that a ping-pong makes no other system calls.
//! - **Long messages** are written from the program's memory and, if a receive is posted, read into
//!   it, without a copy in between.
//! - **Put, get, atomics** are frames with at most one answer each; a flush is one round trip for
//!   everything before it, since frames stay in order. Small puts leave with the frames that
//!   follow.
//! - **Streams**: long gets, by which rendezvous messages are fetched, can use several connections,
//!   over several interfaces ([`streams`]).
//! - **Signals** are frames whose data the target's poll stores.
//! - **Waiting**: the epoll descriptor is the doorbell.
//! - **Loss**: a connection that ends without a [`wire`] farewell is the loss of its process; a
//!   silent host is detected after 10 seconds by the kernel's keep-alive and by unanswered packets
//!   ([`silence`]). A connection that breaks while both processes live is reported as a loss, too:
//!   resending would need a copy of every message.
//! - **Strangers** at the port must prove that they know the job's secret ([`hello`]), and cost
//!   bounded slots and time until then ([`netmod_kit::admission`]).

#![deny(unsafe_code)]

mod buffer;
mod calls;
mod config;
mod congestion;
mod conn;
mod connect;
#[doc(hidden)]
#[allow(unsafe_code, reason = "memory that operations write")]
pub mod fuzzing;
#[allow(unsafe_code, reason = "memory that programs lend")]
mod gather;
mod hello;
mod interfaces;
#[allow(unsafe_code, reason = "memory that programs lend")]
mod lane;
mod ops;
mod park;
#[allow(
    unsafe_code,
    reason = "calls of the kernel that rustix lacks or that programs' memory is named in"
)]
mod progress;
#[allow(unsafe_code, reason = "memory that programs lend")]
mod receive;
mod record;
mod registration;
#[allow(unsafe_code, reason = "memory that programs lend")]
mod remote;
#[allow(unsafe_code, reason = "memory that programs lend")]
mod shared;
mod silence;
mod socket;
#[allow(unsafe_code, reason = "memory that programs lend")]
mod streams;
mod subnet;
#[cfg(test)]
#[allow(unsafe_code, reason = "memory that programs lend")]
mod tests;
#[allow(unsafe_code, reason = "memory that programs lend")]
mod transport;
mod wire;

pub use config::{Config, VARIABLES};
pub use interfaces::addresses;
pub use registration::NETMOD;

/// The control variable for the ports on which connections are accepted.
pub const PORTS_VARIABLE: &str = config::PORTS.name;
/// The control variable for encryption, which no other transport between nodes has.
pub const ENCRYPT_VARIABLE: &str = config::ENCRYPT.name;
/// The control variable for the interfaces to use.
pub const INTERFACE_VARIABLE: &str = config::INTERFACE.name;
pub use transport::TcpTransport;
