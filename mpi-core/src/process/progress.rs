//! The progress loop: rounds of progress over one VCI, some VCIs or all.

#![deny(unsafe_code)]

use std::sync::atomic::Ordering;

use netmod::VciId;

use super::{Process, Vcis};
use crate::Result;
use crate::vci::VciGuard;

impl Process {
    /// Makes one round of progress on a VCI unless another thread holds it; after many fruitless
    /// rounds, also on all other VCIs. Returns whether anything happened.
    ///
    /// Invariant: a thread that polls one VCI long enough progresses all VCIs. Programs that test
    /// or probe on one communicator must also complete operations that they began on another
    /// (MPI-3.1 section 3.7.4).
    #[inline]
    pub fn poll(&self, vci: VciId) -> Result<bool> {
        let (any, all_due) = self.poll_one(vci)?;
        if all_due && self.open.load(Ordering::Relaxed) > 1 {
            return Ok(any | self.round(Some(vci))?);
        }
        Ok(any)
    }

    /// Makes one round of progress on a VCI in a wait, which makes the rounds over all VCIs after
    /// fruitless polls itself. Returns whether anything happened.
    #[inline]
    pub(super) fn poll_in_wait(&self, vci: VciId) -> Result<bool> {
        let (any, all_due) = self.poll_one(vci)?;
        if any && all_due && self.open.load(Ordering::Relaxed) > 1 {
            self.round(Some(vci))?;
        }
        Ok(any)
    }

    /// Makes one round of progress on a VCI and on the sources. Returns whether anything happened,
    /// and whether a round over all VCIs is due: after some polls in which nothing happened, or more
    /// in which something did. A program that repeats short waits has only the latter.
    #[inline]
    pub(super) fn poll_one(&self, vci: VciId) -> Result<(bool, bool)> {
        // Stores of other processes do not depend on messages, so that they are read first.
        if self.sources.await_stores() && self.sources.advance_by_stores(self)? {
            return Ok((true, false));
        }
        let (any, all_due) = match self.vci(vci)?.try_lock() {
            Some(mut state) => {
                let any = state.progress();
                if state.has_news() {
                    self.sources.note_moved();
                    self.handle_news(state);
                    return Ok((true, false));
                }
                let all_due = match any {
                    true => state.count_fruitful(),
                    false => state.backoff.global_round_after_next(&self.wait),
                };
                if !any {
                    state.vacate();
                }
                (any, all_due)
            }
            None => (false, false),
        };
        let mut any = any;
        if self.sources.have_work() {
            any |= self.sources.advance_with(self, vci, any)?;
        }
        if any {
            self.wakeup.notify();
        }
        Ok((any, all_due))
    }

    /// Makes one round of progress on a VCI only, unless another thread holds it. Returns whether
    /// anything happened.
    pub fn progress_on(&self, vci: VciId) -> Result<bool> {
        let state = self.vci(vci)?.try_lock();
        Ok(state.is_some_and(|state| self.progress(state)))
    }

    /// Makes one round of progress on a locked VCI and unlocks it.
    pub(super) fn progress(&self, mut state: VciGuard<'_>) -> bool {
        let any = state.progress();
        if any {
            self.sources.note_moved();
        }
        if state.has_news() {
            self.handle_news(state);
            return true;
        }
        any
    }

    /// Makes one round of progress over all open VCIs except `but`, unless `WEFT_PROGRESS_ROUND` is 0.
    #[cold]
    pub(super) fn round(&self, but: Option<VciId>) -> Result<bool> {
        match self.wait.global_every {
            0 => Ok(false),
            _ => self.poll_others(but),
        }
    }

    /// Makes one round of progress over all open VCIs except `but`. Skips VCIs that other threads
    /// hold or use exclusively.
    pub(super) fn poll_others(&self, but: Option<VciId>) -> Result<bool> {
        let mut any = false;
        for number in self.open_vcis().filter(|vci| Some(*vci) != but) {
            let mut moved = false;
            if let Some(state) = self.vci(number)?.visit() {
                moved = self.progress(state);
            }
            any |= moved;
            if self.sources.have_work() {
                any |= self.sources.advance_on(self, number, moved)?;
            }
        }
        if self.sources.have_work() {
            any |= self.sources.advance(self)?;
        }
        if any {
            self.wakeup.notify();
        }
        Ok(any)
    }

    /// Whether only one VCI is open.
    pub fn has_one_vci(&self) -> bool {
        self.open.load(Ordering::Relaxed) <= 1
    }

    /// Makes one round of progress over all open VCIs.
    pub fn poll_all(&self) -> Result<bool> {
        self.poll_others(None)
    }

    /// Makes one round of progress on each of `vcis` and, sometimes, over all VCIs. Returns whether
    /// anything happened.
    pub fn poll_among(&self, vcis: &Vcis) -> Result<bool> {
        let (mut any, mut all_due) = (false, false);
        for vci in vcis.get() {
            let (one, due) = self.poll_one(*vci)?;
            (any, all_due) = (any | one, all_due | due);
        }
        if all_due && self.open.load(Ordering::Relaxed) > 1 {
            any |= self.round(None)?;
        }
        Ok(any)
    }
}
