//! Waiting for a condition: progress, backoff and sleep.

#![deny(unsafe_code)]

use std::sync::atomic::Ordering;
use std::time::Duration;

use netmod::VciId;
use netmod::breakdown::{Part, enter};

use super::{Process, Vcis, loan};
use crate::error::{Class, Error, Result};
use crate::pt2pt::request::{Request, RequestId, Status};
use crate::wait::{self, Backoff, Step, Waiting, WakeUpList, restart_skipping, skip_progress};

impl Process {
    /// Waits for a request and frees it.
    #[inline]
    pub fn wait(&self, id: RequestId) -> Result<(Status, Option<Error>)> {
        self.wait_own(id)?;
        self.finish(id)
    }

    /// Waits until a request is complete.
    #[inline]
    pub fn wait_for(&self, id: RequestId) -> Result<()> {
        let Some(request) = self.requests.get(id) else {
            return Err(Error::new(Class::Request, "the request does not exist"));
        };
        self.wait_for_request(id, request)
    }

    /// Waits until `request`, whose id is `id`, is complete.
    #[inline(never)]
    pub(super) fn wait_for_request(&self, id: RequestId, request: &Request) -> Result<()> {
        let done = || Ok(request.is_done().then_some(()));
        self.wait_unless(request.vci(), done, || self.check_interruption(id))
    }

    /// Waits for a request that the same call has started. If a failure interrupts a receive from
    /// any source, the receive is cancelled and freed.
    #[inline(never)]
    pub fn wait_own(&self, id: RequestId) -> Result<()> {
        self.wait_for(id)
            .or_else(|error| self.end_interrupted(id, error))
    }

    /// Waits for the receive of a call that also sends (MPI-5.0 section 3.10). Returns false if the
    /// send failed first: the receive has then been cancelled and freed, since the call must report
    /// the error of the send without waiting for a message that may never come.
    #[inline(never)]
    pub fn wait_receive_or_send(&self, receive: RequestId, send: RequestId) -> Result<bool> {
        let (Some(request), Some(sent)) = (self.requests.get(receive), self.requests.get(send))
        else {
            return Err(Error::new(Class::Request, "the request does not exist"));
        };
        let failed = || sent.is_done() && sent.has_failed();
        let done = || Ok((request.is_done() || failed()).then_some(()));
        self.wait_unless(request.vci(), done, || self.check_interruption(receive))
            .or_else(|error| self.end_interrupted(receive, error))?;
        if request.is_done() {
            return Ok(true);
        }
        loan::abort(self, receive)?;
        Ok(false)
    }

    /// Cancels and frees an operation whose call has failed otherwise. Waits only while a peer
    /// reads or writes the buffer.
    #[cold]
    pub fn end_operation(&self, id: RequestId) -> Result<()> {
        loan::abort(self, id)
    }

    /// Waits for a request of a list. Fails with [`Class::ProcFailedPending`] as soon as any
    /// process has failed: the caller must then check the whole list, because another of its
    /// requests may have failed.
    #[inline(never)]
    pub fn wait_in_list(&self, request: &Request) -> Result<()> {
        let done = || Ok(request.is_done().then_some(()));
        self.wait_unless(request.vci(), done, || match self.losses() {
            0 => Ok(()),
            _ => Err(Error::new(Class::ProcFailedPending, "a process is lost")),
        })
    }

    #[cold]
    fn end_interrupted(&self, id: RequestId, error: Error) -> Result<()> {
        if error.class() != Class::ProcFailedPending {
            return Err(error);
        }
        self.cancel(id)?;
        let Some(request) = self.requests.get(id) else {
            return Err(error);
        };
        self.wait_ignoring_loss(request.vci(), || Ok(request.is_done().then_some(())))?;
        if !request.status().is_cancelled() {
            return Ok(());
        }
        self.finish(id)?;
        Err(error.of_class(Class::ProcFailed))
    }

    /// Waits until `done` returns a value. Calls it after each round of progress on `vci`, and
    /// sometimes on all VCIs.
    ///
    /// # Errors
    /// If any process of the own job has failed, since the condition may need all of them.
    #[inline]
    pub fn wait_until<T>(
        &self,
        vci: VciId,
        mut done: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        self.wait_ignoring_loss(vci, || match done()? {
            None => self.first_loss().map_or(Ok(None), Err),
            value => Ok(value),
        })
    }

    /// Waits on several VCIs until `done` returns a value. Failures end the wait only if `done`
    /// returns an error.
    pub fn wait_until_among<T>(
        &self,
        vcis: &Vcis,
        mut done: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        let [first, _, ..] = *vcis.get() else {
            return self.wait_ignoring_loss(vcis.get()[0], done);
        };
        let mut backoff = Backoff::default();
        let mut waiting = Waiting::default();
        loop {
            if let Some(value) = done()? {
                return Ok(value);
            }
            if self.poll_among(vcis)? {
                backoff.reset();
            } else if self.idle(first, &mut backoff, &mut waiting)?
                && let Some(value) =
                    self.sleep(first, self.wait.nap, &mut backoff, &waiting, &mut done)?
            {
                return Ok(value);
            }
        }
    }

    /// Waits on several VCIs for a condition that is expensive to check, such as that of many
    /// requests. Calls `done` only after an event, after some fruitless polls, or always if other
    /// threads may complete it.
    pub fn wait_for_any<T>(
        &self,
        vcis: &Vcis,
        mut done: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        const LOOK_EVERY: u32 = 64;
        let first = vcis.get()[0];
        let mut backoff = Backoff::default();
        let mut waiting = Waiting::default();
        let mut fruitless = 0u32;
        loop {
            let mut look = self.is_threaded();
            if self.poll_among(vcis)? {
                backoff.reset();
                look = true;
            } else if self.idle(first, &mut backoff, &mut waiting)? {
                let nap = self.wait.nap;
                if let Some(value) = self.sleep(first, nap, &mut backoff, &waiting, &mut done)? {
                    return Ok(value);
                }
                look = true;
            }
            fruitless = fruitless.wrapping_add(1);
            if (look || fruitless.is_multiple_of(LOOK_EVERY))
                && let Some(value) = done()?
            {
                return Ok(value);
            }
        }
    }

    /// Waits until `done` returns a value. Calls it after each round of progress on `vci`, and
    /// sometimes on all VCIs. Failures end the wait only if `done` returns an error.
    #[inline]
    pub fn wait_ignoring_loss<T>(
        &self,
        vci: VciId,
        done: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        self.wait_unless(vci, done, || Ok(()))
    }

    /// Waits until `done` returns a value. After each fruitless round an error of `stop` ends the
    /// wait.
    #[inline]
    pub fn wait_unless<T>(
        &self,
        vci: VciId,
        mut done: impl FnMut() -> Result<Option<T>>,
        stop: impl Fn() -> Result<()>,
    ) -> Result<T> {
        let _part = enter(Part::Progress);
        let mut backoff = Backoff::default();
        let mut waiting = Waiting::default();
        loop {
            if let Some(value) = done()? {
                return Ok(value);
            }
            if self.poll_in_wait(vci)? {
                backoff.reset();
                continue;
            }
            stop()?;
            if self.idle(vci, &mut backoff, &mut waiting)?
                && let Some(value) =
                    self.sleep(vci, self.wait.nap, &mut backoff, &waiting, &mut done)?
            {
                return Ok(value);
            }
        }
    }

    /// Waits until `done` returns a value, where `done` reads shared memory that other processes
    /// write. Stores wake no sleeper, so naps are short and grow with the time waited.
    #[inline]
    pub fn wait_for_stores<T>(
        &self,
        vci: VciId,
        mut done: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        if let Some(value) = done()? {
            return Ok(value);
        }
        let mut waiting = Waiting::default();
        // The process that stores needs this core, and spinning here would only delay it.
        let mut backoff = match self.is_oversubscribed() {
            true => Backoff::after(self.wait.spins),
            false => Backoff::since(self.clock().now()),
        };
        loop {
            if self.poll_in_wait(vci)? {
                backoff.reset();
            } else {
                let nap = backoff.short_nap(&self.wait);
                if self.idle(vci, &mut backoff, &mut waiting)?
                    && let Some(value) = self.sleep(vci, nap, &mut backoff, &waiting, &mut done)?
                {
                    return Ok(value);
                }
            }
            if let Some(value) = done()? {
                return Ok(value);
            }
        }
    }

    /// Makes progress until all messages of this process have been sent.
    pub fn drain(&self) -> Result<()> {
        self.drain_unless(|| false)
    }

    /// Drains all VCIs until `stop` returns true.
    ///
    /// # Errors
    /// Errors of messages, and the failure of a process.
    pub fn drain_unless(&self, stop: impl Fn() -> bool) -> Result<()> {
        // A VCI below the highest one may never have been opened.
        for vci in self.open_vcis() {
            let over = || Ok((stop() || self.lock(vci)?.drained()).then_some(()));
            self.wait_until(vci, over)?;
        }
        Ok(())
    }

    /// Waits until receivers have taken all messages that lie in this process's memory.
    ///
    /// # Errors
    /// Errors of messages, and the failure of a process.
    pub fn wait_for_receivers(&self) -> Result<()> {
        for vci in self.open_vcis() {
            self.wait_until(vci, || Ok(self.lock(vci)?.pipes_are_taken().then_some(())))?;
        }
        Ok(())
    }

    /// Drains all VCIs. Gives up and returns false after `patience` without any progress, since the
    /// receivers of the remaining messages may be gone.
    ///
    /// # Errors
    /// Errors of messages.
    pub fn drain_within(&self, patience: Duration) -> Result<bool> {
        let mut until = self.clock().now() + patience;
        loop {
            let mut left = true;
            for vci in self.open_vcis() {
                left &= self.lock(vci)?.drained();
            }
            if left {
                return Ok(true);
            }
            if self.poll_all()? {
                until = self.clock().now() + patience;
            } else if self.clock().now() > until {
                return Ok(false);
            } else {
                self.clock().sleep(wait::SHORT_NAP);
            }
        }
    }

    /// Whether there are more ranks than cores.
    #[inline]
    pub fn is_oversubscribed(&self) -> bool {
        self.wait.spins <= self.wait_oversubscribed.spins || self.crowded.load(Ordering::Relaxed)
    }

    /// Updates [`Process::is_oversubscribed`] after processes of other jobs have connected or
    /// disconnected.
    pub(super) fn count_neighbours(&self) {
        let (ranks, cores) = self.wait.share;
        let neighbours = self.foreign().neighbours();
        let crowded = neighbours > 0 && ranks.saturating_add(neighbours) > cores;
        self.crowded.store(crowded, Ordering::Relaxed);
    }

    /// Number of polls of a flag in shared memory before messages are polled.
    #[inline]
    pub fn flag_polls(&self) -> u32 {
        if self.is_oversubscribed() { 1 } else { 64 }
    }

    /// Number of polls of a flag before messages are polled, between rounds of the same wait.
    /// Smaller while sources have work, such as peers' accesses to a window.
    #[inline]
    pub fn flag_polls_between_rounds(&self) -> u32 {
        const LOOKS_AT_WORK: u32 = 4;
        match self.sources.have_work() {
            true => self.flag_polls().min(LOOKS_AT_WORK),
            false => self.flag_polls(),
        }
    }

    /// Yields the core after fruitless tests and probes, since the process that a test loop waits
    /// for may need it. With more ranks than cores every test yields, otherwise one in 1024.
    pub fn yield_after_test(&self) {
        let every = if self.is_oversubscribed() { 1 } else { 1024 };
        let tests = self.fruitless_tests.count();
        if tests.is_multiple_of(every) {
            let naps = tests.is_multiple_of(wait::TESTS_PER_NAP)
                && self.wait.yield_useless
                && self.is_oversubscribed();
            let yielded = !naps && self.yield_core();
            if !yielded && tests.is_multiple_of(wait::TESTS_PER_NAP) {
                self.clock().sleep(wait::SHORT_NAP);
            }
            // On a busy machine 1024 yields take seconds, so that peers are checked here too.
            self.check_peers();
        }
    }

    /// Yields the core, or sleeps shortly where a yield would cost a time slice. For waits on
    /// shared memory outside of [`Process::wait_until`].
    pub fn yield_or_nap(&self) {
        if !self.yield_core() {
            self.clock().sleep(wait::SHORT_NAP);
        }
    }

    /// Yields the core, unless another program would keep it for a time slice. Returns whether it
    /// did.
    fn yield_core(&self) -> bool {
        let contended = !self.is_oversubscribed() && wait::is_core_contended();
        !contended && self.yields.yield_core(self.clock())
    }

    /// Makes progress on all VCIs in one of many calls that wait for nothing ([`skip_progress`]).
    #[inline]
    pub fn poll_sometimes(&self) -> Result<()> {
        if skip_progress() {
            return Ok(());
        }
        restart_skipping();
        self.round(None).map(drop)
    }

    /// Backs off between two fruitless polls. Returns whether it is time to sleep.
    ///
    /// Invariant: no deadlock whichever VCI is waited on, because the round over all VCIs
    /// progresses operations on the others.
    #[inline]
    pub(super) fn idle<'a>(
        &'a self,
        vci: VciId,
        backoff: &mut Backoff,
        waiting: &mut Waiting<'a>,
    ) -> Result<bool> {
        let crowded = self.crowded.load(Ordering::Relaxed);
        let oversubscribed = crowded || waiting.more_than(self.wait.waiters);
        let policy = match oversubscribed {
            true => &self.wait_oversubscribed,
            false => &self.wait,
        };
        let mut step = backoff.next(policy);
        if self.is_threaded() && backoff.is_first_check() {
            waiting.join_if_oversubscribed(&self.waiters, self.wait.waiters);
        }
        if backoff.global_round(&self.wait) {
            if self.is_threaded() {
                waiting.join(&self.waiters);
            }
            self.report_if_wanted();
            if step != Step::Spin {
                // On a busy machine the first sleep comes late, so that peers are checked here too.
                self.check_peers();
            }
            if self.losses.load(Ordering::Relaxed) != 0 && self.is_lockless(vci) {
                self.handle_losses_on(vci)?;
            }
            if self.open.load(Ordering::Relaxed) > 1 && self.poll_all()? {
                backoff.reset();
                return Ok(false);
            }
        }
        if step == Step::Spin {
            if !backoff.is_clock_due() || !self.has_spun_enough(backoff) {
                std::hint::spin_loop();
                return Ok(false);
            }
            backoff.end_spinning(policy);
            step = Step::Sleep;
        }
        Ok(self.rest(step, waiting))
    }

    /// Whether other programs need the core that this thread spins on.
    #[cold]
    #[inline(never)]
    fn has_spun_enough(&self, backoff: &mut Backoff) -> bool {
        self.wait.sleeps_early
            && backoff.spun(self.clock().now()) >= wait::SPIN_CONTENDED
            && wait::is_core_contended()
    }

    /// Yields the core after many fruitless polls, if yields pay. Returns whether it is time to
    /// sleep.
    #[cold]
    #[inline(never)]
    fn rest<'a>(&'a self, step: Step, waiting: &mut Waiting<'a>) -> bool {
        if step == Step::Yield && self.yields.yield_core(self.clock()) {
            return false;
        }
        if self.is_threaded() {
            // Not joined yet if the policy has no yields.
            waiting.join(&self.waiters);
        }
        true
    }

    /// Sleeps until an event may have happened. Returns the value of `done` if it has one.
    ///
    /// One thread sleeps on the wake-ups of all VCIs if no other thread waits; running threads wake
    /// it when they make progress. If several threads wait, they take short naps instead.
    #[cold]
    pub(super) fn sleep<T>(
        &self,
        vci: VciId,
        nap: Duration,
        backoff: &mut Backoff,
        waiting: &Waiting<'_>,
        done: &mut dyn FnMut() -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        if let Some(stall) = &self.stall
            && stall.look(self.clock().now(), backoff)
        {
            self.want_report();
        }
        self.report_if_wanted();
        self.check_peers();
        if self.sources.have_work() && self.sources.before_sleep(self, vci)? {
            backoff.reset();
            return Ok(None);
        }
        let nap = match self.sources.await_stores() {
            true => nap.min(backoff.short_nap(&self.wait)),
            false => nap,
        };
        let others_wait = self.is_threaded() && !waiting.is_alone();
        let woken_early =
            self.wait.yield_useless && self.woken_early.swap(false, Ordering::Relaxed);
        if others_wait
            || woken_early
            || backoff.take_short_nap()
            || (self.is_threaded() && !self.wakeup.arm())
        {
            self.clock().sleep(nap.min(wait::SHORT_NAP));
            return Ok(None);
        }
        let closings = || self.foreign().closings.load(Ordering::SeqCst);
        let closed_before = closings();
        let mut wake_ups = WakeUpList::new();
        let mut quiet = true;
        let mut armed = WakeUpList::new();
        // Arming a transport may make progress on it, so that in the mode of independent VCIs only
        // the own one is armed.
        let alone = self.wait.global_every == 0;
        for number in self.open_vcis().filter(|one| !alone || *one == vci) {
            let slot = self.vci(number)?;
            // The thread that serves another VCI sees what arrives there.
            let state = match number == vci {
                true => Some(slot.lock()),
                false if slot.has_active_owner() => None,
                false => slot.visit_blocking(),
            };
            if let Some(mut state) = state {
                quiet &= state.arm(&mut wake_ups).is_some();
                armed.push(number);
            }
        }
        let start = self.clock().now();
        let slept = || self.clock().now().saturating_sub(start);
        let mut sound = true;
        // Another thread may have completed the condition before it saw the armed wake-up.
        let value = if self.is_threaded() { done() } else { Ok(None) };
        if quiet && matches!(value, Ok(None)) {
            let local = self.is_threaded().then_some(&**self.wakeup);
            sound = wait::sleep(
                &wake_ups,
                local,
                nap,
                backoff.short_nap(&self.wait),
                self.clock(),
            );
            if self.wait.yield_useless && slept() < wait::SHORT_NAP {
                self.woken_early.store(true, Ordering::Relaxed);
            }
        } else if matches!(value, Ok(None)) {
            // A lane that refuses to be slept on has pending work without progress, such as a
            // message that waits for its connection. The process that completes the connection may
            // need this core.
            self.clock().sleep(nap.min(wait::SHORT_NAP));
        }
        for number in armed {
            let slot = self.vci(number)?;
            let state = match number == vci {
                true => Some(slot.lock()),
                false => slot.visit_blocking(),
            };
            if let Some(mut state) = state {
                state.disarm();
            }
        }
        if self.is_threaded() {
            self.wakeup.disarm();
        }
        // A closed descriptor is no error if another thread has disconnected from the job that its
        // lane led to.
        if !sound && closings() == closed_before {
            return Err(Error::new(
                Class::Other,
                "the program has closed the descriptor of a connection between nodes; \
                 close only those that the program has opened itself",
            ));
        }
        if self.is_threaded() {
            // Progress on whichever VCI caused the wake-up, unless VCIs are independent.
            if matches!(value, Ok(None)) {
                match self.wait.global_every {
                    0 => self.poll_one(vci).map(drop)?,
                    _ => self.poll_all().map(drop)?,
                }
                let value = done()?;
                if value.is_none() && slept() < self.wait.nap {
                    backoff.spurious_wakeup();
                }
                return Ok(value);
            }
        }
        value
    }
}
