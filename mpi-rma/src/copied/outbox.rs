//! What a member has left to others in rings, for all threads of its process.

use mpi_types::error::Result;

use crate::copied::rings::published::Published;
use crate::primitives::{AtomicU32, Mutex, Ordering};

/// How a window asks targets for small accesses; chosen when it is created.
pub(crate) enum RequestPath {
    /// By a ring to each target.
    Rings(Outbox),
    /// By the targets' request slots.
    Slots,
    /// Not at all.
    None,
}

/// What a member has left to others.
pub(crate) struct Outbox {
    targets: Box<[Mutex<Published>]>,
    /// A bit for each target that something has been left to.
    left: AtomicU32,
}

impl Outbox {
    pub fn new(members: usize) -> Outbox {
        Outbox {
            targets: (0..members).map(|_| Mutex::default()).collect(),
            left: AtomicU32::new(0),
        }
    }

    /// Whether nothing has been left, or all that was has been settled; what came of it can be seen then.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        // Acquire, here and below: who finds that another thread has settled it sees what came of it.
        self.left.load(Ordering::Acquire) == 0
    }

    /// Whether something has been left to a target that has not been settled.
    pub fn has_left(&self, target: u32) -> bool {
        self.left.load(Ordering::Acquire) & 1 << target != 0
    }

    /// Has `push` leave something to a target.
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

    /// Has `settle` complete what has been left to a target, or to each of all.
    ///
    /// # Errors
    /// The first of `settle`, which is called for the others nevertheless.
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
                // Not before: another thread whose access this was would not wait for it.
                if published.is_empty() {
                    self.left.fetch_and(!(1 << rank), Ordering::Release);
                }
            }
        }
        result
    }
}
