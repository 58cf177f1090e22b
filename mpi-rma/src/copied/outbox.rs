//! A member's deferred accesses to all targets, shared by the threads of its process.

use mpi_types::error::Result;

use crate::copied::rings::published::Published;
use crate::primitives::{AtomicU32, Mutex, Ordering};

/// A member's deferred accesses.
pub(crate) struct Outbox {
    targets: Box<[Mutex<Published>]>,
    /// A bit per target with deferred accesses.
    left: AtomicU32,
}

impl Outbox {
    pub fn new(members: usize) -> Outbox {
        Outbox {
            targets: (0..members).map(|_| Mutex::default()).collect(),
            left: AtomicU32::new(0),
        }
    }

    /// Whether no access is deferred. The results of completed ones are visible then.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        // Acquire: if another thread has completed accesses, this one sees their results.
        self.left.load(Ordering::Acquire) == 0
    }

    /// Whether accesses to a target are deferred. The results of completed ones are visible if not.
    pub fn has_left(&self, target: u32) -> bool {
        self.left.load(Ordering::Acquire) & 1 << target != 0
    }

    /// Calls `push` to publish an access to a target.
    ///
    /// # Errors
    /// Those of `push`.
    pub fn leave(
        &self,
        target: u32,
        push: impl FnOnce(&mut Published) -> Result<()>,
    ) -> Result<()> {
        let mut published = self.targets[target as usize].lock();
        push(&mut published)?;
        if !self.has_left(target) {
            self.left.fetch_or(1 << target, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Calls `settle` to complete the deferred accesses to a target, or to each.
    ///
    /// # Errors
    /// The first error of `settle`, which is called for all targets nevertheless.
    pub fn settle(
        &self,
        target: Option<u32>,
        mut settle: impl FnMut(u32, &mut Published) -> Result<()>,
    ) -> Result<()> {
        let mut result = Ok(());
        for rank in 0..self.targets.len() as u32 {
            if target.is_none_or(|target| target == rank) && self.has_left(rank) {
                let mut published = self.targets[rank as usize].lock();
                result = result.and(settle(rank, &mut published));
                // Cleared last: another thread that finds the bit clear does not wait for its access.
                if published.is_empty() {
                    self.left.fetch_and(!(1 << rank), Ordering::Release);
                }
            }
        }
        result
    }
}
