//! Configuration of a process.

use std::sync::Arc;

use netmod::{Peer, SharedMemory, Transport};

use super::source::Sources;
use super::stall::Watch;
use crate::vci::{CriticalSections, Router};
use crate::wait::{Clock, WaitPolicy};

/// Configuration of a process.
pub struct Config {
    /// Number of this process.
    pub me: Peer,
    /// Transports to peers, in the order in which [`Router::route`] counts them from 1. Number 0 is
    /// the loopback, which the process adds.
    pub transports: Vec<Arc<dyn Transport>>,
    /// Selects the transport to a peer. Never asked for `me`.
    pub router: Arc<dyn Router>,
    /// Policy of waits.
    pub wait: WaitPolicy,
    /// Clock of waits and loss checks. `None` is the machine's monotonic clock.
    pub clock: Option<Arc<dyn Clock>>,
    /// Observer of waits without progress.
    pub watch: Option<Arc<dyn Watch>>,
    /// Bytes. Longest message that is sent eagerly; transports may allow less. `None` takes the
    /// default of each transport ([`netmod::Limits::eager`]).
    pub eager_limit: Option<usize>,
    /// Bytes. Limit of unexpected eager messages at a receiver, per stream.
    pub window: u32,
    /// Maximum number of VCIs.
    pub max_vcis: usize,
    /// Whether several threads may call concurrently.
    pub threads: Threads,
    /// How concurrent calls exclude each other.
    pub critical: CriticalSections,
    /// Whether VCIs cache free requests, which is faster.
    pub request_caches: bool,
    /// Node number of each process, arbitrary but equal on all processes. Empty if unknown.
    pub nodes: Vec<u32>,
    /// Allocator of memory shared by the processes of this node.
    pub shared_memory: Option<Arc<dyn SharedMemory>>,
    /// Progress sources that need settings.
    pub sources: Sources,
}

/// How the operating system schedules the ranks of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scheduling {
    /// In one group: with more ranks than cores, a yield gives the core to another rank.
    Together,
    /// Each in its own session or control group: a yield is no more than a poll.
    Apart,
}

/// The threads that call MPI.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Threads {
    /// Any number of threads concurrently (`MPI_THREAD_MULTIPLE`).
    Many,
    /// One thread at a time (lower thread levels; MPI-3.1 section 12.4.3): no locks are taken until
    /// threads are [admitted](super::Process::admit_threads).
    One(OneAtATime),
}

/// The promise that calls on a process never overlap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OneAtATime(());

impl OneAtATime {
    /// Makes the promise.
    ///
    /// # Safety
    /// Until [`Process::admit_threads`](super::Process::admit_threads) is called, no two threads are
    /// inside functions of the process at the same time, and each call happens before the next.
    /// Debug builds panic if they detect a violation.
    pub const unsafe fn promise() -> OneAtATime {
        OneAtATime(())
    }
}
