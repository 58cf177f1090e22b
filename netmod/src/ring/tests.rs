//! Positions, sequence numbers and bodies of a queue.

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
    let mut sender = SenderView {
        head: start,
        ..SenderView::default()
    };
    let mut receiver = ReceiverView {
        next: start,
        tell_at: start,
        ..ReceiverView::default()
    };
    for position in start..start + 12 {
        assert_eq!(receiver.peek(&cells), None);
        assert_eq!(claim(&ends, cells.len(), &mut sender), Some(position));
        publish(&cells[position as usize & 3], position);
        assert_eq!(receiver.peek(&cells), Some(position));
        receiver.advance(&ends, &cells);
    }
}

/// A queue of all cells, on which messages lie in bodies.
struct Queue {
    ends: Ends,
    cells: Vec<Cell>,
}

impl Queue {
    fn new() -> Queue {
        Queue {
            ends: Ends {
                tail: Padded(AtomicU64::new(0)),
                head: Padded(AtomicU64::new(0)),
            },
            cells: (0..CELLS).map(|_| Cell::empty()).collect(),
        }
    }

    fn send(&self, position: u64, len: usize) {
        let cell = &self.cells[position as usize & (CELLS - 1)];
        // SAFETY: the cell was claimed by the caller.
        unsafe { cell.set_envelope([(len as u64) << 32, 0, 0, 0]) };
        publish(cell, position);
    }
}

/// Two senders, who know of the receiver at different times, messages of all lengths, and a receiver that is now quick, now
/// slow: nothing that is unread shares memory with what is written.
#[test]
fn a_body_is_taken_again_when_its_message_has_been_read() {
    let queue = Queue::new();
    let mut senders = [SenderView::default(), SenderView::default()];
    let mut receiver = ReceiverView::default();
    let mut unread = std::collections::VecDeque::new();
    let (mut few, mut late) = (0, 0);
    let mut dice = 1_u64;
    let end = 4 * u64::from(PAID);
    while receiver.next < end {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let slow = receiver.next / 500 % 3 == 2;
        let sender = &mut senders[(dice >> 40) as usize % 2];
        let receives = (dice >> 50).is_multiple_of(8) == slow;
        if receives && !unread.is_empty() {
            assert!(receiver.peek(&queue.cells).is_some());
            receiver.advance(&queue.ends, &queue.cells);
            unread.pop_front();
        } else if let Some(position) = claim(&queue.ends, CELLS, sender) {
            let len = [100, SHORT, SHORT + 1, LONGEST][(dice >> 43) as usize % 4];
            let answers = !(dice >> 46).is_multiple_of(64);
            let foreseen = sender.foresee_body(position, len, answers);
            let Body { offset, .. } = sender.take_body(&queue.ends, position, len, answers);
            let is_few = bodies::is_few(offset);
            assert!(offset == foreseen || is_few);
            assert!(offset + len <= ROOM);
            let apart = |&(from, to): &(usize, usize)| offset + len <= from || to <= offset;
            assert!(unread.iter().all(apart), "{position}");
            few += u64::from(is_few);
            late += u64::from(is_few && receiver.next > end - 1000);
            unread.push_back((offset, offset + len));
            queue.send(position, len);
        }
    }
    assert!(few > u64::from(PAID) / 4 && late == 0, "{few} {late}");
}

/// A receiver that keeps up has the first messages in few bodies. The more there are the more cells have their own, each of
/// which is met once.
#[test]
fn cells_have_bodies_of_their_own_as_they_pay() {
    for len in [SHORT, LONGEST] {
        let queue = Queue::new();
        let (mut sender, mut receiver) = (SenderView::default(), ReceiverView::default());
        let mut met = std::collections::HashSet::new();
        let mut own = 0;
        for number in 0..2 * PAID {
            let position = claim(&queue.ends, CELLS, &mut sender).expect("there is room");
            let Body { offset, is_first } = sender.take_body(&queue.ends, position, len, true);
            let is_new = met.insert(offset);
            assert!(is_first || !is_new, "{number}");
            own += usize::from(is_new && !bodies::is_few(offset));
            assert!(own as u32 * 64 <= number, "{number}");
            assert!(number < PAID || !bodies::is_few(offset));
            queue.send(position, len);
            receiver.advance(&queue.ends, &queue.cells);
        }
        assert_eq!(met.len(), FEW + CELLS);
    }
}
