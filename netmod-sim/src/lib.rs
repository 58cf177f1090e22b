//! A simulated transport, for tests.
//!
//! It connects any number of simulated processes within one process of the operating system, in
//! virtual time. Everything that happens follows from the seed and from the order in which lanes
//! are called, so a failure comes back when its seed is given again.
//!
//! A test makes a [`Simulation`], gives each simulated process its [`Simulation::transport`], and
//! then by turns lets processes act and [`Simulation::step`]s to the next delivery. A delivered
//! message lies at its receiver until the lane is polled.
//!
//! What it can do to a protocol: delay by size and at random, let messages between different VCIs
//! overtake each other (never within one stream from a lane to a VCI of a peer, which the contract
//! keeps in order), refuse for want of room, read memory at once, late, or not at all, lose a peer.
//! And it notices what no protocol may do: using memory that has been withdrawn.
//!
//! Nothing is allocated for a process or a pair of processes that never communicates, so jobs of a
//! million processes fit.

mod config;
mod event;
mod lane;
mod log;
mod memory;
mod rng;
mod simulation;
mod watch;
mod world;

pub use config::{Get, Latency, SimConfig};
pub use rng::Rng;
pub use simulation::{Delivery, Simulation, Traffic};
