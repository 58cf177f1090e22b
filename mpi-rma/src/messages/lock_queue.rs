//! The lock of this process's part of a window, for origins that ask by messages: who has it, and who
//! queues.

use std::collections::{HashSet, VecDeque};

/// The answer to a wish for the lock: it is granted. Others say, counted from 1, which rank died that
/// had it.
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
    /// Its rank, and the lane by which it is answered.
    pub from: (u32, usize),
    pub tag: i32,
    pub exclusive: bool,
}

impl Queue {
    /// `first`: whoever holds another lock goes before all others: somebody in the queue may be waited
    /// for by somebody who waits for that one.
    pub fn join(&mut self, waiter: Waiter, first: bool) {
        match first {
            true => self.waiting.push_front(waiter),
            false => self.waiting.push_back(waiter),
        }
    }

    /// A rank gives the lock back.
    pub fn leave(&mut self, rank: u32) {
        self.shared.remove(&rank);
        if self.exclusive == Some(rank) {
            self.exclusive = None;
        }
    }

    /// The next whose turn it is, who has the lock from now on.
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

    /// Those who have the lock, if others wait for it.
    pub fn awaited(&self) -> Vec<u32> {
        match self.waiting.is_empty() {
            true => Vec::new(),
            false => self.shared.iter().chain(&self.exclusive).copied().collect(),
        }
    }

    /// Takes the lock from those who are lost, and them from the queue. If one of them had the lock, gives
    /// its rank and all who wait, who are to be told: what the lock protects may be in any state.
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
        queue.leave(7); // has nothing
        assert_eq!(granted(&mut queue), []);
        queue.leave(3);
        assert_eq!(granted(&mut queue), [4]);
    }

    #[test]
    fn the_lock_of_a_dead_holder_is_free_and_those_who_waited_are_told() {
        let mut queue = Queue::default();
        for (rank, exclusive) in [(1, true), (2, true), (3, false), (4, true)] {
            queue.join(waiter(rank, exclusive), false);
        }
        assert_eq!(granted(&mut queue), [1]);
        // One who only waited is no matter.
        assert_eq!(queue.remove_lost(|rank| rank == 2), None);
        let told = vec![waiter(3, false), waiter(4, true)];
        assert_eq!(queue.remove_lost(|rank| rank == 1), Some((1, told)));
        queue.join(waiter(4, true), false);
        assert_eq!(granted(&mut queue), [4]);
    }
}
