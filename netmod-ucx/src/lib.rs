//! Weft's transport over UCX (its upper layer, UCP), version 1.13 and newer.
//!
//! The library is opened at run time ([`Config::library`]), so a program that never uses it needs
//! none. One context serves the process; each VCI has a worker of its own, so lanes share nothing
//! that is written on the hot path on our side. Endpoints are made when a peer is first talked to.
//!
//! # How the contract is met
//! - **Active messages** are UCP's, always eager; the 16 bytes in front of the core's header name
//!   the sender and number the message ([`order`] says why). Each is put together in a buffer of a
//!   bounded pool, which it leaves at once unless the network is slow. Small ones of a burst travel
//!   together ([`netmod_kit::bundle`]).
//! - **Remote memory** is UCP's put, get and atomics, which UCX carries out by the adapter where
//!   that can and by messages of its own elsewhere. Keys travel in the contract's two words if they
//!   fit, otherwise they are asked for at first use ([`keys`]). A flush is UCP's flush of the
//!   endpoints that were written to.
//! - **Loss of a peer** is UCX's error handling for peers. A process that ends in good order says so
//!   first (when it has drained): a connection that breaks without that is a loss.

mod address;
mod bundling;
mod config;
mod connect;
mod devices;
#[allow(missing_docs)]
mod ffi;
mod inbox;
mod keys;
mod lane;
mod library;
mod ops;
mod order;
mod peers;
mod pull;
mod pulls;
mod registration;
mod remote;
mod shared;
mod transport;
mod wire;

pub use config::Config;
pub use registration::NETMOD;
pub use transport::UcxTransport;
