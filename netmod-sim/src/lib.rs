//! A simulated transport, for tests.
//!
//! It connects any number of simulated processes within one process of the operating system, in
//! virtual time. All events follow from the seed and from the order in which lanes are called, so a
//! failure is reproduced by its seed.
//!
//! A test makes a [`Simulation`], gives each simulated process its [`Simulation::transport`], and
//! then alternates between calls of the processes and [`Simulation::step`]s to the next delivery. A
//! delivered message waits at its receiver until the lane is polled.
//!
//! The network can delay messages by size and at random, let messages between different VCIs
//! overtake each other (never within one stream from a lane to a peer's VCI, which the contract
//! keeps in order), refuse messages for lack of space, read memory immediately, late, or not at
//! all, and lose a peer. It panics if a protocol uses memory that has been withdrawn.
//!
//! A process or a pair of processes that never communicates allocates no memory, so jobs of a
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
