//! The queue of a receiving VCI: many senders, one receiver, fixed cells.
//!
//! A sender claims a cell by moving `tail` on, writes it, and publishes it by storing its sequence
//! number, all in one cache line for a small message. The receiver reads cells in order and never
//! writes to them: it tells senders how far it is by `head`, now and then. So a message costs the
//! transfer of the cell's line and nothing else: `tail` stays with the senders, and `head` is read
//! only by a sender that has filled the queue as far as it knew.
//!
//! Invariant: cell `p % n` is written for position `p` only when `head > p - n`, that is when the
//! receiver is done with it; it is read for `p` only when its sequence number is `p + 1`.

use crate::sync::{AtomicU32, AtomicU64, Ordering, UnsafeCell};

/// What is written next to the payload: source, length and header.
pub(crate) type Envelope = [u64; 4];

/// Payload bytes that fit into a cell itself.
pub(crate) const INLINE: usize = 88;

/// One message, or the front of one whose payload lies in the body of the same number.
#[repr(C, align(128))]
pub(crate) struct Cell {
    sequence: AtomicU32,
    pub envelope: UnsafeCell<Envelope>,
    pub inline: UnsafeCell<[u8; INLINE]>,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Cell>() == 128);

/// A word alone in its cache lines.
#[repr(C, align(128))]
pub(crate) struct Padded<T>(pub T);

/// The queue's words, shared by all.
#[repr(C)]
pub(crate) struct Ends {
    /// Positions claimed by senders.
    pub tail: Padded<AtomicU64>,
    /// Positions the receiver is done with.
    pub head: Padded<AtomicU64>,
}

/// What a sender keeps for itself.
#[derive(Default)]
pub(crate) struct SenderView {
    head: u64,
}

/// What the receiver keeps for itself.
#[derive(Default)]
pub(crate) struct ReceiverView {
    next: u64,
    told: u64,
}

/// Claims a cell: its position, or `None` if the queue is full.
#[inline(always)]
pub(crate) fn claim(ends: &Ends, cells: usize, view: &mut SenderView) -> Option<u64> {
    let mut position = ends.tail.0.load(Ordering::Relaxed);
    loop {
        if position.wrapping_sub(view.head) >= cells as u64 {
            // Acquire: the receiver's reads of the cell come before our writes to it.
            view.head = ends.head.0.load(Ordering::Acquire);
            if position.wrapping_sub(view.head) >= cells as u64 {
                return None;
            }
        }
        match ends.tail.0.compare_exchange_weak(
            position,
            position + 1,
            Ordering::Relaxed,
            Ordering::Relaxed,
        ) {
            Ok(_) => return Some(position),
            Err(now) => position = now,
        }
    }
}

/// Makes a cell that was claimed and written visible to the receiver.
#[inline(always)]
pub(crate) fn publish(cell: &Cell, position: u64) {
    cell.sequence
        .store((position as u32).wrapping_add(1), Ordering::Release);
}

impl ReceiverView {
    /// The next position, if its message is there.
    #[inline(always)]
    pub fn peek(&self, cells: &[Cell]) -> Option<u64> {
        let cell = &cells[self.next as usize & (cells.len() - 1)];
        let expected = (self.next as u32).wrapping_add(1);
        let ready = cell.sequence.load(Ordering::Acquire) == expected;
        ready.then_some(self.next)
    }

    /// Is done with the position that `peek` gave.
    #[inline(always)]
    pub fn advance(&mut self, ends: &Ends, cells: &[Cell]) {
        self.next += 1;
        if self.next - self.told >= cells.len() as u64 / 4 {
            self.tell(ends);
        }
    }

    /// Tells the senders.
    fn tell(&mut self, ends: &Ends) {
        ends.head.0.store(self.next, Ordering::Release);
        self.told = self.next;
    }
}

impl Cell {
    #[cfg(test)]
    fn empty() -> Self {
        Cell {
            sequence: AtomicU32::new(0),
            envelope: UnsafeCell::new([0; 4]),
            inline: UnsafeCell::new([0; INLINE]),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Sequence numbers are shorter than positions: they start again after 2³² messages.
    #[test]
    fn sequence_numbers_wrap() {
        let start = u64::from(u32::MAX) - 5;
        let ends = Ends {
            tail: Padded(AtomicU64::new(start)),
            head: Padded(AtomicU64::new(start)),
        };
        let cells: Vec<Cell> = (0..4).map(|_| Cell::empty()).collect();
        let mut sender = SenderView { head: start };
        let mut receiver = ReceiverView {
            next: start,
            told: start,
        };
        for position in start..start + 12 {
            assert_eq!(receiver.peek(&cells), None);
            assert_eq!(claim(&ends, cells.len(), &mut sender), Some(position));
            publish(&cells[position as usize & 3], position);
            assert_eq!(receiver.peek(&cells), Some(position));
            receiver.advance(&ends, &cells);
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    struct Queue {
        ends: Ends,
        cells: Vec<Cell>,
    }

    // SAFETY: cells are handed over as the module says; loom checks that they are.
    unsafe impl Sync for Queue {}
    // SAFETY: nothing in it is bound to a thread.
    unsafe impl Send for Queue {}

    fn queue(cells: usize) -> Arc<Queue> {
        Arc::new(Queue {
            ends: Ends {
                tail: Padded(AtomicU64::new(0)),
                head: Padded(AtomicU64::new(0)),
            },
            cells: (0..cells).map(|_| Cell::empty()).collect(),
        })
    }

    fn send(queue: &Queue, view: &mut SenderView, value: u64) -> bool {
        let Some(position) = claim(&queue.ends, queue.cells.len(), view) else {
            return false;
        };
        let cell = &queue.cells[position as usize & (queue.cells.len() - 1)];
        // SAFETY: claimed.
        cell.envelope
            .with_mut(|envelope| unsafe { (*envelope)[0] = value });
        publish(cell, position);
        true
    }

    fn receive(queue: &Queue, view: &mut ReceiverView) -> Option<u64> {
        let position = view.peek(&queue.cells)?;
        let cell = &queue.cells[position as usize & (queue.cells.len() - 1)];
        // SAFETY: published, and not yet released.
        let value = cell.envelope.with(|envelope| unsafe { (*envelope)[0] });
        view.advance(&queue.ends, &queue.cells);
        Some(value)
    }

    /// Two senders, a queue that wraps: nothing lost, nothing twice, order per sender, no data race.
    #[test]
    fn messages_arrive_once_and_in_order_per_sender() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let queue = queue(4);
            let senders: Vec<_> = [10, 20]
                .into_iter()
                .map(|base| {
                    let queue = queue.clone();
                    thread::spawn(move || {
                        let mut view = SenderView::default();
                        (0..2).filter(|i| send(&queue, &mut view, base + i)).count()
                    })
                })
                .collect();
            let mut view = ReceiverView::default();
            let mut got = Vec::new();
            got.extend(receive(&queue, &mut view));
            let sent: usize = senders
                .into_iter()
                .map(|sender| sender.join().unwrap())
                .sum();
            while let Some(value) = receive(&queue, &mut view) {
                got.push(value);
            }
            assert_eq!(got.len(), sent);
            for base in [10, 20] {
                let of_one: Vec<_> = got.iter().filter(|v| **v / 10 == base / 10).collect();
                assert!(of_one.is_sorted());
            }
        });
    }

    /// One sender overtakes a full queue: cells are reused only when the receiver is done.
    #[test]
    fn full_queues_refuse_and_recover() {
        loom::model(|| {
            let queue = queue(4);
            let sender = {
                let queue = queue.clone();
                thread::spawn(move || {
                    let mut view = SenderView::default();
                    (0..5).filter(|i| send(&queue, &mut view, *i)).count() as u64
                })
            };
            let mut view = ReceiverView::default();
            let mut got = Vec::new();
            got.extend(receive(&queue, &mut view));
            got.extend(receive(&queue, &mut view));
            let sent = sender.join().unwrap();
            while let Some(value) = receive(&queue, &mut view) {
                got.push(value);
            }
            assert!(sent >= 4);
            assert_eq!(got.len() as u64, sent);
            assert!(got.is_sorted());
        });
    }
}
