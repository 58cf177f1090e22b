//! Waiting: progress until something has come about, and sleep in between.

#![deny(unsafe_code)]

use std::sync::atomic::Ordering;
use std::time::Duration;

use netmod::VciId;

use super::{Process, Vcis, loan};
use crate::error::{Class, Error, Result};
use crate::pt2pt::request::{Request, RequestId, Status};
use crate::wait::{self, Backoff, Step, Waiting, WakeUpList};

impl Process {
    /// Waits for a request and frees it.
    #[inline]
    pub fn wait(&self, id: RequestId) -> Result<(Status, Option<Error>)> {
        self.wait_here(id)?;
        self.finish(id)
    }

    /// Waits until a request is complete.
    #[inline]
    pub fn wait_for(&self, id: RequestId) -> Result<()> {
        let Some(request) = self.requests.get(id) else {
            return Err(Error::new(Class::Request, "the request does not exist"));
        };
        self.wait_for_found(id, request)
    }

    /// As [`Process::wait_for`], of a request that has been looked up.
    #[inline(never)]
    pub(super) fn wait_for_found(&self, id: RequestId, request: &Request) -> Result<()> {
        let done = || Ok(request.is_done().then_some(()));
        self.wait_unless(request.vci(), done, || self.check_interruption(id))
    }

    /// As [`Process::wait_for`] in a call that starts the request itself: a receive from any source that a loss
    /// interrupts ends there, and is freed.
    #[inline(never)]
    pub fn wait_here(&self, id: RequestId) -> Result<()> {
        self.wait_for(id)
            .or_else(|error| self.end_interrupted(id, error))
    }

    /// Waits for the receive of a call that also sends (MPI-5.0 section 3.10). Returns false if the send failed first: the
    /// receive has then been ended and freed, since the call must raise the error of the send without waiting for a
    /// message that may never come.
    #[inline(never)]
    pub fn wait_beside(&self, receive: RequestId, send: RequestId) -> Result<bool> {
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
        loan::end(self, receive)?;
        Ok(false)
    }

    /// Ends an operation whose call has failed otherwise, and frees the request. Waits only while another process reads or
    /// writes the memory.
    #[cold]
    pub fn end_operation(&self, id: RequestId) -> Result<()> {
        loan::end(self, id)
    }

    /// Waits for a request of a list. Fails with [`Class::ProcFailedPending`] as soon as any process is lost: the caller
    /// must then look at the whole list, because another request of it may have failed.
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
        self.wait_despite_loss(request.vci(), || Ok(request.is_done().then_some(())))?;
        if !request.status().is_cancelled() {
            return Ok(());
        }
        self.finish(id)?;
        Err(error.of_class(Class::ProcFailed))
    }

    /// Waits until `done` yields a value. It is called again after each round of progress on `vci` (and, now and then,
    /// on all others).
    ///
    /// # Errors
    /// Any process of the own job is lost, since the condition may need all of them.
    #[inline]
    pub fn wait_until<T>(
        &self,
        vci: VciId,
        mut done: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        self.wait_despite_loss(vci, || match done()? {
            None => self.first_loss().map_or(Ok(None), Err),
            value => Ok(value),
        })
    }

    /// As [`Process::wait_despite_loss`] for what may come about on several VCIs.
    pub fn wait_until_among<T>(
        &self,
        vcis: &Vcis,
        mut done: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        let [first, _, ..] = *vcis.get() else {
            return self.wait_despite_loss(vcis.get()[0], done);
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

    /// As [`Process::wait_until_among`] where looking takes long, as through many requests: looks when something has
    /// happened, where other threads may have brought it about, and now and then.
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

    /// Waits until `done` yields a value. It is called again after each round of progress on `vci` (and, now and then,
    /// on all others). Losses end the wait only if `done` says so.
    #[inline]
    pub fn wait_despite_loss<T>(
        &self,
        vci: VciId,
        done: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        self.wait_unless(vci, done, || Ok(()))
    }

    /// As [`Process::wait_despite_loss`]; after a round that has brought nothing, `stop` may end it.
    #[inline]
    pub fn wait_unless<T>(
        &self,
        vci: VciId,
        mut done: impl FnMut() -> Result<Option<T>>,
        stop: impl Fn() -> Result<()>,
    ) -> Result<T> {
        let mut backoff = Backoff::default();
        let mut waiting = Waiting::default();
        loop {
            if let Some(value) = done()? {
                return Ok(value);
            }
            if self.poll_one(vci)?.0 {
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

    /// Waits until `done` yields a value that depends on stores of other processes of the node. Stores wake no sleeper,
    /// so naps are short, and grow with the time waited.
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
        // Who is waited for needs the core, and has no message for us to look for in between.
        let mut backoff = match self.is_oversubscribed() {
            true => Backoff::after(self.wait.spins),
            false => Backoff::since(self.clock().now()),
        };
        loop {
            if self.poll_one(vci)?.0 {
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

    /// Makes progress until everything that this process sent has left it.
    pub fn drain(&self) -> Result<()> {
        self.drain_unless(|| false)
    }

    /// As [`Process::drain`], as long as it is not to `stop`.
    ///
    /// # Errors
    /// Those of messages, and that a process is lost.
    pub fn drain_unless(&self, stop: impl Fn() -> bool) -> Result<()> {
        // Numbers below the highest may never have been opened.
        for vci in self.open_vcis() {
            let over = || Ok((stop() || self.lock(vci)?.drained()).then_some(()));
            self.wait_until(vci, over)?;
        }
        Ok(())
    }

    /// Waits until all that this process has sent has been received, as far as it lies in its own memory.
    ///
    /// # Errors
    /// Those of messages, and that a process is lost.
    pub fn wait_for_receivers(&self) -> Result<()> {
        for vci in self.open_vcis() {
            self.wait_until(vci, || Ok(self.lock(vci)?.pipes_are_taken().then_some(())))?;
        }
        Ok(())
    }

    /// As [`Process::drain`], but gives up, and returns false, when nothing has happened for so long:
    /// who is to take in what is left may have nothing to do with it any more.
    ///
    /// # Errors
    /// Those of messages.
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

    /// Looks whether there are, after processes of other jobs have come or gone.
    pub(super) fn count_neighbours(&self) {
        let (ranks, cores) = self.wait.share;
        let neighbours = self.foreign().neighbours();
        let crowded = neighbours > 0 && ranks.saturating_add(neighbours) > cores;
        self.crowded.store(crowded, Ordering::Relaxed);
    }

    /// How often to look at a flag in shared memory before looking for messages.
    #[inline]
    pub fn looks(&self) -> u32 {
        if self.is_oversubscribed() { 1 } else { 64 }
    }

    /// The same for who has looked so often before: what others ask of this process meanwhile, as in its created windows, waits
    /// for that long.
    #[inline]
    pub fn looks_between(&self) -> u32 {
        const LOOKS_AT_WORK: u32 = 4;
        match self.sources.have_work() {
            true => self.looks().min(LOOKS_AT_WORK),
            false => self.looks(),
        }
    }

    /// After a fruitless test or probe: programs make them in loops, in which whoever they wait for
    /// may need the core. With more ranks than cores each gives it up, otherwise one in many.
    pub fn yield_after_test(&self) {
        let every = if self.is_oversubscribed() { 1 } else { 1024 };
        let tests = self.count_test();
        if tests.is_multiple_of(every) {
            let naps = tests.is_multiple_of(wait::TESTS_PER_NAP)
                && self.wait.yield_useless
                && self.is_oversubscribed();
            let yielded = !naps && self.yield_core();
            if !yielded && tests.is_multiple_of(wait::TESTS_PER_NAP) {
                self.clock().sleep(wait::SHORT_NAP);
            }
            // On a busy machine a thousand of these would take seconds.
            self.check_peers();
        }
    }

    /// Gives up the core, by a short sleep where a yield would cost a slice: for those who wait for words in shared
    /// memory by themselves.
    pub fn give_up_core(&self) {
        if !self.yield_core() {
            self.clock().sleep(wait::SHORT_NAP);
        }
    }

    /// Yields the core, unless other programs would take it for a slice. Returns whether it did.
    fn yield_core(&self) -> bool {
        let contended = !self.is_oversubscribed() && wait::is_core_contended();
        !contended && self.yields.give_up_core(self.clock())
    }

    /// Counts a fruitless test, and returns how many there were before. Threads count in places of their own, as
    /// far as there are enough; where two share one, a few get lost.
    #[inline]
    fn count_test(&self) -> u32 {
        let here = 0_u8;
        // Stacks lie apart by some MiB.
        let place = (&raw const here).addr() >> 20;
        let place = (place ^ place >> 4) % self.fruitless_tests.len();
        let tests = &self.fruitless_tests[place];
        let before = tests.load(Ordering::Relaxed);
        tests.store(before.wrapping_add(1), Ordering::Relaxed);
        before
    }

    /// Between two fruitless polls. Returns whether it is time to sleep.
    ///
    /// Invariant: no deadlock whichever VCI is waited on; the round over all VCIs carries on what
    /// others wait for.
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
                // On a busy machine a long time passes before the first sleep.
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

    /// After many fruitless polls: gives up the core, if that pays. Returns whether it is time to sleep.
    #[cold]
    #[inline(never)]
    fn rest<'a>(&'a self, step: Step, waiting: &mut Waiting<'a>) -> bool {
        if step == Step::Yield && self.yields.give_up_core(self.clock()) {
            return false;
        }
        if self.is_threaded() {
            // Where no yields came before, it has not yet.
            waiting.join(&self.waiters);
        }
        true
    }

    /// Sleeps until something may have happened. Returns what was waited for if that is there.
    ///
    /// One thread sleeps on the wake-ups of all VCIs, while no other waits; others wake it if they
    /// bring something about. Where more than one waits, they take short naps.
    #[cold]
    pub(super) fn sleep<T>(
        &self,
        vci: VciId,
        nap: Duration,
        backoff: &mut Backoff,
        waiting: &Waiting<'_>,
        done: &mut dyn FnMut() -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        if let Some(stillness) = &self.stillness
            && stillness.look(self.clock().now(), backoff)
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
        // A transport may make progress when it is asked to wake somebody: VCIs on their own get none.
        let alone = self.wait.global_every == 0;
        for number in self.open_vcis().filter(|one| !alone || *one == vci) {
            let slot = self.vci(number)?;
            // Another thread that looks after its VCI sees what comes there.
            let state = match number == vci {
                true => Some(slot.lock()),
                false if slot.is_served() => None,
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
        // Another thread may have brought it about before it saw that it must wake this one.
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
            // A lane that can't be slept on has something to do that nothing has come of for long, such as a
            // message that waits for its connection: whoever is to make that may need this core.
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
        // Another thread may have disconnected from those that a lane led to.
        if !sound && closings() == closed_before {
            return Err(Error::new(
                Class::Other,
                "a file descriptor of the transport between nodes has been closed by the program; \
                 close only those that the program has opened itself",
            ));
        }
        if self.is_threaded() {
            // What woke it is taken in at once, whichever VCI it is on, unless VCIs are on their own.
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
