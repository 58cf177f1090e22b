//! The lock of this process's part of a window: telling origins that they have it.

use std::sync::atomic::Ordering;

use netmod::Peer;

use crate::messages::lock_queue::{GRANTED, Waiter};
use crate::messages::service::{Service, State};
use mpi_core::process::Process;
use mpi_types::error::Result;

impl Service {
    /// Grants the lock to those whose turn it is.
    pub(crate) fn grant(&self, process: &Process, state: &mut State) -> Result<()> {
        while let Some(next) = state.lock.next() {
            self.answer_lock(process, state, next, GRANTED)?;
        }
        Ok(())
    }

    /// Tells an origin what became of its wish for the lock. If it is lost it does not have it.
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

    /// The processes that have the lock, if others wait for it.
    pub(crate) fn holders_awaited(&self) -> Vec<Peer> {
        let holders = self.state.try_lock().map(|state| state.lock.awaited());
        let members = self.comm.local();
        let holders = holders.unwrap_or_default().into_iter();
        holders.map(|rank| members.peer(rank)).collect()
    }

    /// After a loss: locks that the dead held are free.
    #[cold]
    pub(crate) fn free_locks_of_lost(&self, process: &Process, losses: u32) -> Result<()> {
        let Some(mut state) = self.state.try_lock() else {
            return Ok(()); // Whoever has it comes by here, too.
        };
        self.losses_seen.store(losses, Ordering::Relaxed);
        let found = state.lock.remove_lost(|rank| self.is_lost(process, rank));
        if let Some((dead, waiting)) = found {
            for waiter in waiting {
                self.answer_lock(process, &mut state, waiter, 1 + u64::from(dead))?;
            }
        }
        self.grant(process, &mut state)
    }
}
