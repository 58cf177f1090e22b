//! Rounds of progress that complete collectives, by which messages don't wait for ever.

use std::sync::atomic::{AtomicU32, Ordering};

/// Rounds, each of which completes a collective, of which one looks for messages.
const ROUNDS: u32 = 16;

/// Counts rounds of progress that completed a collective.
#[derive(Default)]
pub(crate) struct Rounds(AtomicU32);

impl Rounds {
    /// Counts one. Returns whether that is enough for this round of progress: of so many in turn one goes
    /// on all the same, since there may be messages that others wait for.
    pub fn is_enough(&self) -> bool {
        let next = self.0.load(Ordering::Relaxed).wrapping_add(1);
        self.0.store(next, Ordering::Relaxed);
        !next.is_multiple_of(ROUNDS)
    }
}
