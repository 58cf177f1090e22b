//! The wait policy of the library.
//!
//! A waiter spins for a bounded number of polls, then sleeps on the transports' wake-ups, the
//! doorbells that senders ring for a sleeper.
//!
//! - On a core that other programs compute on, it sleeps as soon as it has spun for
//!   [`SPIN_CONTENDED`] (see `run_delay`).
//! - With more ranks than cores it yields after a few fruitless polls, since the ranks that it
//!   waits for need the core, and sleeps soon. Where a yield costs a slice of another program, it
//!   sleeps at once (see `yields`).

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use netmod::WakeUp;
use smallvec::SmallVec;

mod clock;
mod counts;
mod run_delay;
mod wakeup;
mod yields;

pub use clock::Clock;
pub(crate) use clock::Monotonic;
pub use counts::{ThreadCounts, restart_skipping, skip_progress};
pub(crate) use run_delay::is_core_contended;
pub(crate) use wakeup::LocalWakeup;
pub(crate) use yields::Yields;

/// Parameters of the policy, from the environment and the launcher.
#[derive(Clone, Copy, Debug)]
pub struct WaitPolicy {
    /// Fruitless polls before the first yield.
    pub spins: u32,
    /// Yields before the first sleep.
    pub yields: u32,
    /// Whether a waiter on a contended core sleeps after [`SPIN_CONTENDED`].
    pub sleeps_early: bool,
    /// Longest sleep. Bounded, because some events ring no wake-up: a message between two VCIs of
    /// one process, or a transport without wake-ups.
    pub nap: Duration,
    /// Number of fruitless polls of one VCI between rounds over all open VCIs. 0 disables the
    /// rounds, with which correct programs can deadlock.
    pub global_every: u32,
    /// Number of threads of this process that can wait concurrently with a core each.
    pub waiters: u32,
    /// Number of the job's ranks on this node, and of their cores.
    pub share: (u32, u32),
    /// Whether a yield gives the core to none of the other ranks, so that a rank without a core
    /// sleeps instead.
    pub yield_useless: bool,
}

/// A list with one entry per wake-up. Short lists need no heap allocation, since waiters sleep
/// often.
pub(crate) type WakeUpList<T> = SmallVec<[T; 8]>;

/// Fruitless polls before a thread checks whether more threads wait than there are cores.
const FIRST_CHECK: u32 = 8;

/// Time that a waiter spins on a contended core: a quarter of the shortest slice, so that most of
/// it is left when the waiter is woken (docs/performance.md#among-busy-sessions).
pub(crate) const SPIN_CONTENDED: Duration = Duration::from_micros(150);

/// A spinning waiter reads the clock after each of this many fruitless polls.
const CLOCK_EVERY: u32 = 64;

/// `spins` and `yields` with more waiting threads than cores.
const OVERSUBSCRIBED: (u32, u32) = (4, 200);

impl WaitPolicy {
    /// The policy for `ranks` processes on `cores` cores.
    pub fn for_share(ranks: usize, cores: usize) -> Self {
        let oversubscribed = ranks > cores;
        WaitPolicy {
            spins: if oversubscribed {
                OVERSUBSCRIBED.0
            } else {
                50_000
            },
            yields: if oversubscribed { OVERSUBSCRIBED.1 } else { 0 },
            sleeps_early: true,
            nap: Duration::from_millis(10),
            global_every: 64,
            waiters: (cores / ranks.max(1)).max(1) as u32,
            share: (ranks as u32, cores as u32),
            yield_useless: false,
        }
    }

    /// Disables yields, because the ranks of a node are scheduled apart (in sessions or cgroups).
    pub(crate) fn set_yield_useless(&mut self) {
        self.yield_useless = true;
        if self.is_oversubscribed() {
            self.yields = 0;
        }
    }

    /// Whether there are more ranks than cores.
    pub fn is_oversubscribed(&self) -> bool {
        self.spins <= OVERSUBSCRIBED.0
    }

    /// Returns the policy while more than [`WaitPolicy::waiters`] threads wait.
    pub(crate) fn oversubscribed(self) -> Self {
        WaitPolicy {
            spins: self.spins.min(OVERSUBSCRIBED.0),
            yields: self.yields.min(OVERSUBSCRIBED.1),
            ..self
        }
    }
}

/// The next step of a waiter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    Spin,
    Yield,
    Sleep,
}

/// Counts the fruitless polls of one wait.
#[derive(Default)]
pub(crate) struct Backoff {
    fruitless: u32,
    /// Number of short naps before the next sleep.
    naps: u32,
    /// Start of the spinning, once known.
    since: Option<Duration>,
}

/// Number of short naps after a spurious wake-up, since more of them are likely.
const NAPS_AFTER_SPURIOUS: u32 = 200;

impl Backoff {
    /// Starts with a count of fruitless polls.
    pub fn after(fruitless: u32) -> Backoff {
        Backoff {
            fruitless,
            ..Backoff::default()
        }
    }

    /// Starts at time `now`.
    pub fn since(now: Duration) -> Backoff {
        Backoff {
            since: Some(now),
            ..Backoff::default()
        }
    }

    /// Counts a fruitless poll and returns the next step.
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

    /// Whether a spinning waiter must read the clock.
    #[inline(always)]
    pub fn is_clock_due(&self) -> bool {
        self.fruitless.is_multiple_of(CLOCK_EVERY)
    }

    /// Returns how long the waiter has spun since the clock was first read.
    pub fn spun(&mut self, now: Duration) -> Duration {
        now.saturating_sub(*self.since.get_or_insert(now))
    }

    /// Skips the remaining spins and yields: each fruitless poll now leads to a sleep.
    pub fn end_spinning(&mut self, policy: &WaitPolicy) {
        let awake = policy.spins.saturating_add(policy.yields);
        self.fruitless = self.fruitless.max(awake);
    }

    /// Returns the sleep time for an event without wake-up. Doubles after each
    /// [`NAPS_PER_DOUBLING`], so that it stays small compared with the whole wait.
    #[inline(always)]
    pub fn short_nap(&self, policy: &WaitPolicy) -> Duration {
        let awake = policy.spins.saturating_add(policy.yields);
        let doublings = self.fruitless.saturating_sub(awake) / NAPS_PER_DOUBLING;
        let length = SHORT_NAP * (1 << doublings.min(MAX_DOUBLINGS));
        policy.nap.min(length)
    }

    /// Whether it is time to check how many threads wait.
    #[inline(always)]
    pub fn is_first_check(&self) -> bool {
        self.fruitless == FIRST_CHECK
    }

    /// Whether a round over all VCIs is due.
    #[inline(always)]
    pub fn global_round(&self, policy: &WaitPolicy) -> bool {
        match policy.global_every {
            0 => false,
            every => self.fruitless % every == every - 1,
        }
    }

    /// Counts a fruitless poll outside of a wait. Returns whether a round over all VCIs is due.
    #[inline(always)]
    pub fn global_round_after_next(&mut self, policy: &WaitPolicy) -> bool {
        self.fruitless = self.fruitless.wrapping_add(1);
        self.global_round(policy)
    }

    /// Whether the next nap must be short; counts it.
    pub fn take_short_nap(&mut self) -> bool {
        let nap = self.naps > 0;
        self.naps = self.naps.saturating_sub(1);
        nap
    }

    /// Records a wake-up without an event for this thread.
    pub fn spurious_wakeup(&mut self) {
        self.naps = NAPS_AFTER_SPURIOUS;
    }

    /// Number of fruitless polls in a row.
    pub fn fruitless(&self) -> u32 {
        self.fruitless
    }

    /// Restarts after a successful poll.
    #[inline(always)]
    pub fn reset(&mut self) {
        self.fruitless = 0;
        self.since = None;
    }
}

/// A thread's membership among those of its process that have been waiting for a while.
#[derive(Default)]
pub(crate) struct Waiting<'a>(Option<&'a AtomicU32>);

impl<'a> Waiting<'a> {
    /// Joins the waiting threads, once.
    #[cold]
    pub fn join(&mut self, waiters: &'a AtomicU32) {
        if self.0.is_none() {
            waiters.fetch_add(1, Ordering::Relaxed);
            self.0 = Some(waiters);
        }
    }

    /// Joins if as many threads wait as have cores, since long spinning is then useless. Writes
    /// nothing otherwise, so that threads with a core each share no cache line.
    #[cold]
    pub fn join_if_oversubscribed(&mut self, waiters: &'a AtomicU32, limit: u32) {
        if waiters.load(Ordering::Relaxed) >= limit {
            self.join(waiters);
        }
    }

    /// Whether this thread has joined and no other has.
    pub fn is_alone(&self) -> bool {
        self.0
            .is_some_and(|waiters| waiters.load(Ordering::Relaxed) == 1)
    }

    /// Whether this thread has joined and more than `limit` threads wait.
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

/// Length of a nap if some events ring no wake-up.
pub(crate) const SHORT_NAP: Duration = Duration::from_micros(50);

/// Number of naps of one length (docs/performance.md#among-busy-sessions).
const NAPS_PER_DOUBLING: u32 = 32;

/// Doublings of [`SHORT_NAP`] in a long wait: a nap of 0.8 ms.
const MAX_DOUBLINGS: u32 = 4;

/// Number of fruitless tests between naps where yields are useless.
pub(crate) const TESTS_PER_NAP: u32 = 8;

/// Sleeps until a wake-up rings or another thread of the process wakes this one, for at most `nap`;
/// for `silent_nap` if a lane has no wake-up. Returns whether all descriptors are open: some
/// programs close descriptors that they did not open.
pub(crate) fn sleep(
    wake_ups: &[WakeUp],
    local: Option<&LocalWakeup>,
    nap: Duration,
    silent_nap: Duration,
    clock: &dyn Clock,
) -> bool {
    let futexes = wake_ups.iter().filter_map(|wake_up| match wake_up {
        WakeUp::Futex(word) => Some(*word),
        _ => None,
    });
    let poll = |fd: RawFd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    let mut fds: WakeUpList<libc::pollfd> = wake_ups
        .iter()
        .filter_map(|wake_up| match wake_up {
            WakeUp::Fd(fd) => Some(poll(*fd)),
            _ => None,
        })
        .collect();
    let silent = wake_ups
        .iter()
        .any(|wake_up| matches!(wake_up, WakeUp::None));
    let mut words: WakeUpList<*const AtomicU32> = futexes.collect();
    // Futexes and descriptors cannot be waited for together, so that both are polled often.
    if silent || (!words.is_empty() && !fds.is_empty()) {
        clock.sleep(silent_nap);
        return fds.is_empty() || poll_fds(fds, Duration::ZERO);
    }
    match local {
        Some(local) if fds.is_empty() => words.push(local.word()),
        Some(local) => match local.event() {
            Some(event) => fds.push(poll(event)),
            None => {
                clock.sleep(nap.min(SHORT_NAP));
                return true;
            }
        },
        None => {}
    }
    match (words.as_slice(), fds.is_empty()) {
        ([], true) => clock.sleep(nap),
        ([], false) => return poll_fds(fds, nap),
        ([word], _) => futex_wait(*word, nap),
        (several, _) => {
            if !futex_wait_any(several, nap) {
                clock.sleep(nap.min(SHORT_NAP));
            }
        }
    }
    true
}

/// Waits on several words at once. Returns whether the kernel supports that.
fn futex_wait_any(words: &[*const AtomicU32], nap: Duration) -> bool {
    /// The kernel's `struct futex_waitv`.
    #[repr(C)]
    struct Wait {
        value: u64,
        address: u64,
        flags: u32,
        reserved: u32,
    }
    const SIZE_32: u32 = 2;
    const MOST: usize = 128;
    if words.len() > MOST {
        return false;
    }
    let wait = |word: &*const AtomicU32| Wait {
        value: 1,
        address: word.expose_provenance() as u64,
        flags: SIZE_32,
        reserved: 0,
    };
    let waits: WakeUpList<Wait> = words.iter().map(wait).collect();
    let mut until = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes `until`; `waits` lives until the call returns, and the kernel only reads the
    // words, which outlive their transports ([`WakeUp::Futex`]).
    unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut until);
        let nanos = until.tv_nsec + libc::c_long::from(nap.subsec_nanos());
        until.tv_sec += nap.as_secs() as i64 + nanos / 1_000_000_000;
        until.tv_nsec = nanos % 1_000_000_000;
        let code = libc::syscall(
            libc::SYS_futex_waitv,
            waits.as_ptr(),
            waits.len() as libc::c_uint,
            0u32,
            &raw const until,
            libc::CLOCK_MONOTONIC,
        );
        code >= 0 || *libc::__errno_location() != libc::ENOSYS
    }
}

fn futex_wait(word: *const AtomicU32, nap: Duration) {
    let timeout = libc::timespec {
        tv_sec: nap.as_secs() as i64,
        tv_nsec: nap.subsec_nanos() as libc::c_long,
    };
    // SAFETY: the word outlives its transport ([`WakeUp::Futex`]); the kernel only reads the word
    // and `timeout`. An armed word holds 1.
    unsafe {
        libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT, 1u32, &timeout);
    }
}

/// Polls descriptors. Returns whether all of them are open.
fn poll_fds(mut fds: WakeUpList<libc::pollfd>, nap: Duration) -> bool {
    let millis = nap.as_nanos().div_ceil(1_000_000) as libc::c_int;
    // SAFETY: the pointer and length are those of `fds`, which lives until the call returns.
    unsafe {
        libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, millis);
    }
    fds.iter().all(|fd| fd.revents & libc::POLLNVAL == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn naps_are_short_compared_with_the_wait() {
        let policy = WaitPolicy::for_share(4, 2);
        let mut backoff = Backoff::default();
        backoff.end_spinning(&policy);
        let mut slept = Duration::ZERO;
        for _ in 0..1000 {
            assert_eq!(backoff.next(&policy), Step::Sleep);
            let nap = backoff.short_nap(&policy);
            assert!(
                nap == SHORT_NAP || 15 * nap <= slept,
                "{nap:?} after {slept:?}"
            );
            slept += nap;
        }
        assert_eq!(backoff.short_nap(&policy), 16 * SHORT_NAP);
    }
}
