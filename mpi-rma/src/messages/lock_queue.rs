//! The lock of a target's window memory for origins that request it by messages: its holders and
//! its queue.

use std::collections::{HashSet, VecDeque};

/// Answer to a lock request: granted. Other values are 1 plus the rank of a holder that has failed.
pub(crate) const GRANTED: u64 = 0;

/// The lock.
#[derive(Default)]
pub(crate) struct Queue {
    /// Ranks.
    shared: HashSet<u32>,
    exclusive: Option<u32>,
    waiting: VecDeque<Waiter>,
}

/// An origin that waits for the lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Waiter {
    /// Its rank, and the lane of the answer.
    pub from: (u32, usize),
    pub tag: i32,
    pub exclusive: bool,
}

impl Queue {
    /// Adds an origin. `first`: it holds another lock of the window and goes to the front, since an
    /// origin ahead of it might depend on the release of that lock.
    pub fn join(&mut self, waiter: Waiter, first: bool) {
        match first {
            true => self.waiting.push_front(waiter),
            false => self.waiting.push_back(waiter),
        }
    }

    /// Releases a rank's lock.
    pub fn leave(&mut self, rank: u32) {
        self.shared.remove(&rank);
        if self.exclusive == Some(rank) {
            self.exclusive = None;
        }
    }

    /// Grants the lock to the first waiting origin, if it is free, and returns that origin.
    pub fn next(&mut self) -> Option<Waiter> {
        let first = *self.waiting.front()?;
        let free = self.exclusive.is_none() && (!first.exclusive || self.shared.is_empty());
        if !free {
            return None;
        }
        self.waiting.pop_front();
        match first.exclusive {
            true => self.exclusive = Some(first.from.0),
            false => {
                self.shared.insert(first.from.0);
            }
        }
        Some(first)
    }

    /// Returns the holders of the lock if other ranks wait for it.
    pub fn awaited(&self) -> Vec<u32> {
        match self.waiting.is_empty() {
            true => Vec::new(),
            false => self.shared.iter().chain(&self.exclusive).copied().collect(),
        }
    }

    /// Removes lost ranks from the holders and the queue. If one of them held the lock, returns its
    /// rank and all waiting origins. They must be answered with its loss, since the memory that the
    /// lock protects may be in any state.
    pub fn remove_lost(&mut self, is_lost: impl Fn(u32) -> bool) -> Option<(u32, Vec<Waiter>)> {
        self.waiting.retain(|waiter| !is_lost(waiter.from.0));
        let holders = self.shared.iter().chain(&self.exclusive).copied();
        let dead: Vec<u32> = holders.filter(|rank| is_lost(*rank)).collect();
        let last = *dead.last()?;
        for rank in dead {
            self.leave(rank);
        }
        Some((last, self.waiting.drain(..).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(rank: u32, exclusive: bool) -> Waiter {
        Waiter {
            from: (rank, 0),
            tag: 1,
            exclusive,
        }
    }

    fn granted(queue: &mut Queue) -> Vec<u32> {
        std::iter::from_fn(|| queue.next())
            .map(|one| one.from.0)
            .collect()
    }

    #[test]
    fn readers_share_and_a_writer_is_alone_in_the_order_of_the_queue() {
        let mut queue = Queue::default();
        for (rank, exclusive) in [(1, false), (2, false), (3, true), (4, false)] {
            queue.join(waiter(rank, exclusive), false);
        }
        assert_eq!(granted(&mut queue), [1, 2]);
        queue.leave(1);
        assert_eq!(granted(&mut queue), []);
        queue.join(waiter(5, false), true);
        assert_eq!(granted(&mut queue), [5]);
        queue.leave(2);
        queue.leave(5);
        assert_eq!(granted(&mut queue), [3]);
        queue.leave(7); // holds no lock
        assert_eq!(granted(&mut queue), []);
        queue.leave(3);
        assert_eq!(granted(&mut queue), [4]);
    }

    #[test]
    fn a_dead_holder_frees_the_lock_and_waiting_origins_are_returned() {
        let mut queue = Queue::default();
        for (rank, exclusive) in [(1, true), (2, true), (3, false), (4, true)] {
            queue.join(waiter(rank, exclusive), false);
        }
        assert_eq!(granted(&mut queue), [1]);
        // The loss of a rank that only waited affects no other.
        assert_eq!(queue.remove_lost(|rank| rank == 2), None);
        let waiting = vec![waiter(3, false), waiter(4, true)];
        assert_eq!(queue.remove_lost(|rank| rank == 1), Some((1, waiting)));
        queue.join(waiter(4, true), false);
        assert_eq!(granted(&mut queue), [4]);
    }
}
