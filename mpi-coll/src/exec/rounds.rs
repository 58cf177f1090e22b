//! Bounds how long collectives that complete may keep progress from messages.

use std::sync::atomic::{AtomicU32, Ordering};

/// Rounds that complete a collective, of which one also polls for messages.
const ROUNDS: u32 = 16;

/// Counts rounds of progress that completed a collective.
#[derive(Default)]
pub(crate) struct Rounds(AtomicU32);

impl Rounds {
    /// Counts one. Returns whether this round of progress may end here: every [`ROUNDS`]th goes on
    /// and polls for messages.
    pub fn is_enough(&self) -> bool {
        let next = self.0.load(Ordering::Relaxed).wrapping_add(1);
        self.0.store(next, Ordering::Relaxed);
        !next.is_multiple_of(ROUNDS)
    }
}
