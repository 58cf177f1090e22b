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
    let mut sender = SenderView { head: start };
    let mut receiver = ReceiverView {
        next: start,
        tell_at: start,
    };
    for position in start..start + 12 {
        assert_eq!(receiver.peek(&cells), None);
        assert_eq!(claim(&ends, cells.len(), &mut sender), Some(position));
        publish(&cells[position as usize & 3], position);
        assert_eq!(receiver.peek(&cells), Some(position));
        receiver.advance(&ends, &cells);
    }
}

/// Two senders, who know of the receiver at different times, and a receiver that is now quick, now slow.
#[test]
fn a_body_is_taken_again_when_its_message_has_been_read() {
    let ends = Ends {
        tail: Padded(AtomicU64::new(0)),
        head: Padded(AtomicU64::new(0)),
    };
    let cells: Vec<Cell> = (0..CELLS).map(|_| Cell::empty()).collect();
    let mut senders = [SenderView::default(), SenderView::default()];
    let mut receiver = ReceiverView::default();
    let mut unread = std::collections::VecDeque::new();
    let mut few = 0;
    let mut dice = 1_u64;
    while receiver.next < EARLY + 4 * CELLS as u64 {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let slow = receiver.next / 500 % 3 == 2;
        let sender = &mut senders[(dice >> 40) as usize % 2];
        let receives = (dice >> 50).is_multiple_of(8) == slow;
        if receives && !unread.is_empty() {
            assert!(receiver.peek(&cells).is_some());
            receiver.advance(&ends, &cells);
            unread.pop_front();
        } else if let Some(position) = claim(&ends, CELLS, sender) {
            let foreseen = sender.body(position);
            let (number, _) = sender.take_body(&ends, position);
            assert!(number == foreseen || foreseen < CELLS);
            assert!(number < BODIES && !unread.contains(&number), "{position}");
            assert!(number < CELLS || position < EARLY);
            few += u64::from(number >= CELLS);
            unread.push_back(number);
            publish(&cells[position as usize & (CELLS - 1)], position);
        }
    }
    assert!(few > EARLY / 3, "{few}");
}

/// A receiver that keeps up has the first messages in few bodies, of which each is met once.
#[test]
fn the_first_messages_take_few_bodies() {
    let ends = Ends {
        tail: Padded(AtomicU64::new(0)),
        head: Padded(AtomicU64::new(0)),
    };
    let cells: Vec<Cell> = (0..CELLS).map(|_| Cell::empty()).collect();
    let (mut sender, mut receiver) = (SenderView::default(), ReceiverView::default());
    for number in 0..EARLY + 2 * CELLS as u64 {
        let position = claim(&ends, CELLS, &mut sender).expect("there is room");
        let (body, is_first) = sender.take_body(&ends, position);
        assert_eq!(body >= CELLS, number < EARLY);
        let first = number
            .checked_sub(EARLY)
            .map_or(number < FEW as u64, |late| late < CELLS as u64);
        assert_eq!(is_first, first, "{number}");
        publish(&cells[position as usize & (CELLS - 1)], position);
        receiver.advance(&ends, &cells);
    }
}
