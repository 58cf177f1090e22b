//! How a thread waits: the one policy of the library.
//!
//! Spinning is right when each rank has a core and wrong when it hasn't. A waiter spins for a
//! bounded number of polls, then gives up the processor between polls, then sleeps on the
//! transports' doorbells. With more ranks than cores it yields from the first fruitless poll on:
//! whoever is waited for needs the core.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use netmod::Doorbell;

/// The policy's numbers, from the environment and from what the launcher says.
#[derive(Clone, Copy, Debug)]
pub struct WaitPolicy {
    /// Fruitless polls before the first yield.
    pub spins: u32,
    /// Yields before the first sleep.
    pub yields: u32,
    /// The longest sleep. Bounded, because not every event rings (a message between two VCIs of one
    /// process, a transport without a doorbell).
    pub nap: Duration,
    /// A round over all open VCIs is made after this many fruitless polls of one's own. With 0 there
    /// is none, and correct programs can wait forever.
    pub global_every: u32,
    /// Threads of this process that can wait at once and still have a core each.
    pub waiters: u32,
}

/// So many fruitless polls before a thread looks whether it is one of too many.
const FIRST_DOUBT: u32 = 8;

/// The numbers where there are more waiting threads than cores.
const CROWDED: (u32, u32) = (4, 200);

impl WaitPolicy {
    /// The policy for `ranks` processes on `cores` cores.
    pub fn for_share(ranks: usize, cores: usize) -> Self {
        let crowded = ranks > cores;
        WaitPolicy {
            spins: if crowded { CROWDED.0 } else { 20_000 },
            yields: if crowded { CROWDED.1 } else { 2_000 },
            nap: Duration::from_millis(10),
            global_every: 64,
            waiters: (cores / ranks.max(1)).max(1) as u32,
        }
    }

    /// The policy while more than [`WaitPolicy::waiters`] threads wait.
    pub(crate) fn crowded(self) -> Self {
        WaitPolicy {
            spins: self.spins.min(CROWDED.0),
            yields: self.yields.min(CROWDED.1),
            ..self
        }
    }
}

/// What a waiter should do next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    Spin,
    Yield,
    Sleep,
}

/// Counts the fruitless polls of one wait.
#[derive(Default)]
pub(crate) struct Patience {
    fruitless: u32,
}

impl Patience {
    /// After a fruitless poll.
    #[inline(always)]
    pub fn next(&mut self, policy: &WaitPolicy) -> Step {
        self.fruitless = self.fruitless.saturating_add(1);
        if self.fruitless <= policy.spins {
            Step::Spin
        } else if self.fruitless <= policy.spins.saturating_add(policy.yields) {
            Step::Yield
        } else {
            Step::Sleep
        }
    }

    /// Whether it is time to see how many others wait.
    #[inline(always)]
    pub fn is_first_doubt(&self) -> bool {
        self.fruitless == FIRST_DOUBT
    }

    /// Whether it is time for a round over all VCIs.
    #[inline(always)]
    pub fn global_round(&self, policy: &WaitPolicy) -> bool {
        match policy.global_every {
            0 => false,
            every => self.fruitless % every == every - 1,
        }
    }

    /// After a fruitless poll by somebody who does not wait: whether it is time for a round.
    #[inline(always)]
    pub fn global_round_after_next(&mut self, policy: &WaitPolicy) -> bool {
        self.fruitless = self.fruitless.wrapping_add(1);
        self.global_round(policy)
    }

    /// After a poll that brought something.
    #[inline(always)]
    pub fn reset(&mut self) {
        self.fruitless = 0;
    }
}

/// A thread's place among those of its process that have been waiting for a while.
#[derive(Default)]
pub(crate) struct Waiting<'a>(Option<&'a AtomicU32>);

impl<'a> Waiting<'a> {
    /// Takes a place, once.
    #[cold]
    pub fn join(&mut self, waiters: &'a AtomicU32) {
        if self.0.is_none() {
            waiters.fetch_add(1, Ordering::Relaxed);
            self.0 = Some(waiters);
        }
    }

    /// Takes a place if as many wait already as have a core: then it is no use to spin for long.
    /// Nothing is written otherwise, so that threads with a core each share nothing.
    #[cold]
    pub fn join_a_crowd(&mut self, waiters: &'a AtomicU32, limit: u32) {
        if waiters.load(Ordering::Relaxed) >= limit {
            self.join(waiters);
        }
    }

    /// Whether more than `limit` wait, this thread among them.
    #[inline(always)]
    pub fn more_than(&self, limit: u32) -> bool {
        self.0
            .is_some_and(|waiters| waiters.load(Ordering::Relaxed) > limit)
    }
}

impl Drop for Waiting<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(waiters) = self.0 {
            waiters.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Sleeps until one of the doorbells rings, at most for `nap`.
pub(crate) fn sleep(doorbells: &[Doorbell], nap: Duration) {
    let futexes = doorbells.iter().filter_map(|bell| match bell {
        Doorbell::Futex(word) => Some(*word),
        _ => None,
    });
    let fds: Vec<libc::pollfd> = doorbells
        .iter()
        .filter_map(|bell| match bell {
            Doorbell::Fd(fd) => Some(libc::pollfd {
                fd: *fd,
                events: libc::POLLIN,
                revents: 0,
            }),
            _ => None,
        })
        .collect();
    let silent = doorbells.iter().any(|bell| matches!(bell, Doorbell::None));
    match (futexes.collect::<Vec<_>>().as_slice(), fds.is_empty()) {
        // Two kinds of bell cannot be waited for together: look at both, often.
        _ if silent => std::thread::sleep(nap.min(Duration::from_micros(50))),
        ([word], true) => futex_wait(*word, nap),
        ([], false) => poll_fds(fds, nap),
        ([], true) => std::thread::sleep(nap),
        _ => std::thread::sleep(nap.min(Duration::from_micros(50))),
    }
}

fn futex_wait(word: *const AtomicU32, nap: Duration) {
    let timeout = libc::timespec {
        tv_sec: nap.as_secs() as libc::time_t,
        tv_nsec: nap.subsec_nanos() as libc::c_long,
    };
    // SAFETY: the doorbell's word outlives the transport, which outlives the waiter; the kernel
    // reads the word and the timeout only. 1 is what an armed doorbell holds.
    unsafe {
        libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT, 1u32, &timeout);
    }
}

fn poll_fds(mut fds: Vec<libc::pollfd>, nap: Duration) {
    let millis = nap.as_millis().max(1) as libc::c_int;
    // SAFETY: the array is valid and as long as said.
    unsafe {
        libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, millis);
    }
}
