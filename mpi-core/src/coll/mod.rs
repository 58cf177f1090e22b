//! Collective operations (MPI-3.1 chapter 5).
//!
//! An algorithm is written once, as a function that builds a [`Schedule`]: the steps of one rank.
//! A [`Run`] executes it over a [`Port`], in place for blocking calls and a piece at a time for
//! nonblocking ones.

pub mod allgather;
pub mod allreduce;
pub mod barrier;
pub mod bcast;
pub mod run;
pub mod schedule;
pub mod standin;
pub mod team;

#[cfg(test)]
mod sim;
#[cfg(test)]
mod tests;

pub use allreduce::{Allreduce, allreduce};
pub use barrier::{Barrier, barrier};
pub use bcast::{Bcast, bcast};
pub use run::{Port, Progress, Run};
pub use schedule::{Block, Buf, Schedule, Step, Type};
pub use team::{Ints, Layout, Part, Team};
