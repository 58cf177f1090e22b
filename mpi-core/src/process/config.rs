//! What a process is made from.

use std::cell::UnsafeCell;
use std::sync::Arc;

use netmod::{Peer, SharedMemory, Transport};

use super::source::Sources;
use super::stillness::Watch;
use crate::vci::{CriticalSections, Router};
use crate::wait::{Clock, WaitPolicy};

/// What a process is made from.
pub struct Config {
    /// This process.
    pub me: Peer,
    /// Transports to other processes, in the order that [`Router::route`] counts them from 1; 0 is
    /// the way to oneself, which the process adds.
    pub transports: Vec<Arc<dyn Transport>>,
    /// Finds the transport for a peer. Not asked for `me`.
    pub router: Arc<dyn Router>,
    /// How to wait.
    pub wait: WaitPolicy,
    /// What tells the time to waits and loss checks. `None`: the machine's monotonic clock.
    pub clock: Option<Arc<dyn Clock>>,
    /// Who is told how long nothing happens in waits.
    pub watch: Option<Arc<dyn Watch>>,
    /// The longest message sent eagerly, in bytes; transports may allow less. `None`: as is best for
    /// each transport ([`netmod::Limits::eager`]).
    pub eager_limit: Option<usize>,
    /// Bytes of eager messages that may lie unexpected at a receiver, per stream.
    pub window: u32,
    /// The greatest number of VCIs.
    pub max_vcis: usize,
    /// Whether several threads may call at once.
    pub threads: Threads,
    /// What keeps them from each other, if so.
    pub critical: CriticalSections,
    /// Whether VCIs keep free requests for themselves, as is best.
    pub request_caches: bool,
    /// The node of each process, as numbers of whatever kind, the same on all processes; empty if
    /// that is unknown.
    pub nodes: Vec<u32>,
    /// Memory that processes of this node can have in common.
    pub shared_memory: Option<Arc<dyn SharedMemory>>,
    /// What makes progress beside messages, if it needs settings.
    pub sources: Sources,
}

/// How the ranks of a node are scheduled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scheduling {
    /// Who yields its core gives it to another one of them, if there are more than cores.
    Together,
    /// Each by itself (by sessions or control groups): a yield is no more than a poll.
    Apart,
}

/// Who calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Threads {
    /// Any number of threads at once (`MPI_THREAD_MULTIPLE`).
    Many,
    /// One at a time (the levels below; MPI-3.1 section 12.4.3): no locks are taken, until others are
    /// [admitted](super::Process::admit_threads).
    One(OneAtATime),
}

/// The promise that calls on a process never overlap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OneAtATime(());

impl OneAtATime {
    /// Gives the promise.
    ///
    /// # Safety
    /// Until [`Process::admit_threads`](super::Process::admit_threads) is called, no two threads are within functions of the
    /// process at the same time, and what one has done there happens before what the next does. (Debug builds panic if they find two.)
    pub const unsafe fn promise() -> OneAtATime {
        OneAtATime(())
    }
}

/// Whether several threads may call at once. It is no atomic, so that a look costs one instruction: waits look often.
pub(super) struct Threaded(UnsafeCell<bool>);

// SAFETY: it is written by `set` only, whose caller keeps all looks away meanwhile.
unsafe impl Sync for Threaded {}

impl Threaded {
    pub fn new(threaded: bool) -> Threaded {
        Threaded(UnsafeCell::new(threaded))
    }

    #[inline(always)]
    pub fn get(&self) -> bool {
        // SAFETY: nobody writes meanwhile (see `set`).
        unsafe { *self.0.get() }
    }

    /// Sets it, for good.
    ///
    /// # Safety
    /// No other thread looks at it meanwhile, and looks of other threads later come after this.
    pub unsafe fn set(&self) {
        // SAFETY: the caller's contract.
        unsafe { *self.0.get() = true };
    }
}
