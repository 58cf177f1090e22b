//! Pending queues: actions that wait for space, in order per address.

#![deny(unsafe_code)]

use std::collections::{BTreeMap, VecDeque};

use crate::pt2pt::engine::{Action, Address};

/// Most addresses that keep an empty queue, so that occasional waits allocate no memory.
const KEPT: usize = 64;

/// Actions that found no space. Addresses take turns in their own order, so that runs over the
/// simulated transport can be repeated.
#[derive(Default)]
pub(super) struct Queues {
    by_address: BTreeMap<Address, VecDeque<Action>>,
    /// Number of queues that are not empty, plus the transfers.
    filled: usize,
    /// Transfers that are polled as often as the queues are retried.
    transfers: usize,
    /// Kept for its memory.
    addresses: Vec<Address>,
}

impl Queues {
    /// Returns whether nothing waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Returns whether an action waits for space.
    pub fn has_actions(&self) -> bool {
        self.filled > self.transfers
    }

    /// Sets the number of transfers to poll.
    pub fn set_transfers(&mut self, transfers: usize) {
        self.filled = self.filled - self.transfers + transfers;
        self.transfers = transfers;
    }

    /// Returns what waits for an address, if anything does.
    pub fn get(&self, to: &Address) -> Option<&VecDeque<Action>> {
        self.by_address.get(to).filter(|queue| !queue.is_empty())
    }

    /// Queues an action behind others for its address. Returns it if none wait.
    pub fn join(&mut self, to: &Address, action: Action) -> Option<Action> {
        match self.by_address.get_mut(to) {
            Some(queue) if !queue.is_empty() => {
                queue.push_back(action);
                None
            }
            _ => Some(action),
        }
    }

    /// Queues the first action for an address.
    pub fn begin(&mut self, to: Address, action: Action) {
        self.by_address.entry(to).or_default().push_back(action);
        self.filled += 1;
    }

    /// Takes all that waits for an address, to be given back by [`Queues::give_back`].
    pub fn take(&mut self, to: &Address) -> Option<VecDeque<Action>> {
        let queue = self
            .by_address
            .get_mut(to)
            .filter(|queue| !queue.is_empty())?;
        self.filled -= 1;
        Some(std::mem::take(queue))
    }

    /// Takes back the rest of a queue from [`Queues::take`], if no other has begun for its address.
    pub fn give_back(&mut self, to: Address, queue: VecDeque<Action>) {
        if !queue.is_empty() {
            self.filled += 1;
        } else if self.by_address.len() > KEPT {
            self.by_address.remove(&to);
            return;
        }
        self.by_address.insert(to, queue);
    }

    /// Returns the addresses for which actions wait, in memory to give back by [`Queues::keep`].
    pub fn addresses(&mut self) -> Vec<Address> {
        let mut addresses = std::mem::take(&mut self.addresses);
        let filled = self
            .by_address
            .iter()
            .filter(|(_, queue)| !queue.is_empty());
        addresses.extend(filled.map(|(to, _)| *to));
        addresses
    }

    /// Takes back the memory of [`Queues::addresses`].
    pub fn keep(&mut self, mut addresses: Vec<Address>) {
        addresses.clear();
        self.addresses = addresses;
    }

    /// Drops the queues of some addresses.
    pub fn retain(&mut self, keeps: impl Fn(&Address) -> bool) {
        self.by_address.retain(|to, _| keeps(to));
        let filled = self.by_address.values().filter(|queue| !queue.is_empty());
        self.filled = filled.count() + self.transfers;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pt2pt::wire::Name;

    fn action(peer: u32) -> (Address, Action) {
        let to = Address { peer, vci: 0 };
        (to, Action::Launch(to, Name::from_word(u64::from(peer))))
    }

    #[test]
    fn what_waits_is_counted_by_address_and_kept_in_order() {
        let mut queues = Queues::default();
        let (to, first) = action(3);
        assert!(queues.is_empty() && queues.take(&to).is_none());
        let first = queues.join(&to, first).unwrap();
        queues.begin(to, first);
        assert!(queues.join(&to, action(3).1).is_none());
        let (other, second) = action(1);
        queues.begin(other, second);
        let addresses = queues.addresses();
        assert_eq!(addresses, [other, to]);
        queues.keep(addresses);
        let mut taken = queues.take(&to).unwrap();
        assert_eq!((taken.len(), queues.get(&to).is_none()), (2, true));
        taken.clear();
        queues.give_back(to, taken);
        assert!(!queues.is_empty() && queues.addresses() == [other]);
        queues.retain(|address| *address != other);
        assert!(queues.is_empty());
        for peer in 10..10 + 2 * KEPT as u32 {
            let (to, action) = action(peer);
            queues.begin(to, action);
        }
        for peer in 10..10 + 2 * KEPT as u32 {
            let to = action(peer).0;
            let mut queue = queues.take(&to).unwrap();
            queue.clear();
            queues.give_back(to, queue);
        }
        assert!(queues.is_empty() && queues.by_address.len() <= KEPT);
    }
}
