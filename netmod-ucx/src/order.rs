//! Restores the sending order of a stream's messages.
//!
//! UCX keeps order within one of its internal connections, but an endpoint may have several (more
//! than one rail, a long message in pieces next to a short one) and guarantees no order between
//! them. So messages are numbered, and one that arrives early waits here.

use crate::wire::Head;
use std::collections::BTreeMap;

type Early = BTreeMap<u32, (Head, Vec<u8>)>;

/// The state of one stream at its receiver.
#[derive(Default)]
pub(crate) struct Order {
    next: u32,
    /// Messages that arrived early, by number.
    early: Option<Box<Early>>,
}

impl Order {
    /// Handles a received message. Returns whether it is the next one; [`Order::next`] then returns
    /// those that waited for it. Otherwise the message is kept, or dropped if it is a duplicate.
    #[inline]
    pub(crate) fn arrived(&mut self, head: &Head, payload: &[u8]) -> bool {
        if head.seq == self.next {
            self.next = self.next.wrapping_add(1);
            return true;
        }
        self.keep(head, payload);
        false
    }

    #[cold]
    fn keep(&mut self, head: &Head, payload: &[u8]) {
        if (head.seq.wrapping_sub(self.next) as i32) > 0 {
            let early = self.early.get_or_insert_default();
            early.entry(head.seq).or_insert((*head, payload.to_vec()));
        }
    }

    /// Returns the next waiting message, if there is one.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<(Head, Vec<u8>)> {
        let early = self.early.as_mut()?;
        let found = early.remove(&self.next);
        if found.is_some() {
            self.next = self.next.wrapping_add(1);
        }
        if early.is_empty() {
            self.early = None;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::MessageKind;
    use netmod::Header;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_order_of_arrival_becomes_the_order_of_sending(
            arrivals in Just((0..50_u32).collect::<Vec<_>>()).prop_shuffle(),
            first in prop_oneof![Just(0_u32), Just(u32::MAX - 20)],
            repeated in 0usize..50,
        ) {
            let mut order = Order { next: first, early: None };
            let mut got = Vec::new();
            let mut sent = arrivals.clone();
            sent.push(arrivals[repeated]);
            for i in sent {
                let seq = first.wrapping_add(i);
                let head = Head { peer: 1, vci: 2, kind: MessageKind::Message, seq, header: Header::default() };
                if order.arrived(&head, &[i as u8]) {
                    got.push(i);
                    while let Some((head, payload)) = order.next() {
                        prop_assert_eq!(head.seq, first.wrapping_add(payload[0].into()));
                        got.push(payload[0].into());
                    }
                }
            }
            prop_assert_eq!(got, (0..50).collect::<Vec<_>>());
            prop_assert!(order.early.is_none());
        }
    }
}
