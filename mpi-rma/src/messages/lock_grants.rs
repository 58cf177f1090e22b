//! Answers to lock requests of origins, and the locks of lost holders.

use std::sync::atomic::Ordering;

use netmod::Peer;

use crate::messages::lock_queue::{GRANTED, Waiter};
use crate::messages::service::{Service, State};
use mpi_core::process::Process;
use mpi_types::error::Result;
use netmod_kit::event;

impl Service {
    /// Grants the lock to the first origins of the queue while it is free.
    pub(crate) fn grant(&self, process: &Process, state: &mut State) -> Result<()> {
        while let Some(next) = state.lock.next() {
            event!(
                Rma,
                Debug,
                "the lock of this rank is granted to rank {}",
                next.from.0
            );
            self.answer_lock(process, state, next, GRANTED)?;
        }
        Ok(())
    }

    /// Answers an origin's lock request. A lost origin leaves the lock.
    fn answer_lock(
        &self,
        process: &Process,
        state: &mut State,
        to: Waiter,
        word: u64,
    ) -> Result<()> {
        if !self.try_answer(process, state, to.from, to.tag, self.word(word))? {
            state.lock.leave(to.from.0);
        }
        Ok(())
    }

    /// Returns the processes that hold the lock if other ranks wait for it.
    pub(crate) fn holders_awaited(&self) -> Vec<Peer> {
        let holders = self.state.try_lock().map(|state| state.lock.awaited());
        let members = self.comm.local();
        let holders = holders.unwrap_or_default().into_iter();
        holders.map(|rank| members.peer(rank)).collect()
    }

    /// Frees the locks of lost holders. `losses` is the number of losses that this call covers.
    #[cold]
    pub(crate) fn free_locks_of_lost(&self, process: &Process, losses: u32) -> Result<()> {
        let Some(mut state) = self.state.try_lock() else {
            // The next round of progress sees that `losses_seen` is stale, and tries again.
            return Ok(());
        };
        self.losses_seen.store(losses, Ordering::Relaxed);
        let found = state.lock.remove_lost(|rank| self.is_lost(process, rank));
        if let Some((dead, waiting)) = found {
            event!(
                Rma,
                Info,
                "rank {dead} held the lock of this rank and is lost"
            );
            for waiter in waiting {
                self.answer_lock(process, &mut state, waiter, 1 + u64::from(dead))?;
            }
        }
        self.grant(process, &mut state)
    }
}
