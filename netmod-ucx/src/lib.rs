//! Weft's transport over UCX (its upper layer, UCP), version 1.13 and newer.
//!
//! The library is opened at run time ([`Config::library`]), so programs that do not use it do not
//! need it. One context serves the process; each VCI has its own worker, so lanes share no data
//! that Weft writes on the hot path. Endpoints are made at first contact with a peer.
//!
//! # How the contract is met
//! - **Active messages** are UCP's, always eager; the 16 bytes before the core's header name the
//!   sender and number the message (see [`order`]). Each is assembled in a buffer of a bounded
//!   pool, which is free again immediately unless the network is slow. Small messages of a burst
//!   are bundled ([`netmod_kit::bundle`]).
//! - **Remote memory** is UCP's put, get and atomics, which UCX carries out by the adapter where
//!   possible and by its own messages elsewhere. Keys travel in the contract's two words if they
//!   fit; otherwise they are requested at first use ([`keys`]). A flush is UCP's flush of the
//!   endpoints that were written to.
//! - **Loss of a peer** is detected by UCX's error handling for peers. A process that finalizes
//!   sends a farewell when it has drained: a connection that breaks without one is a loss.

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
mod registration;
mod remote;
mod shared;
mod transport;
mod wire;

pub use config::Config;
pub use registration::NETMOD;
pub use transport::UcxTransport;
