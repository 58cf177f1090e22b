//! Positions, sequence numbers and bodies of a ring.

use super::*;

/// Cells whose messages need bodies.
const LONG: u64 = INLINE as u64 + 1;

/// Sequence numbers wrap after 2³² messages; positions do not.
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
        publish_at: start,
    };
    for position in start..start + 12 {
        assert_eq!(receiver.peek(&cells), None);
        assert_eq!(claim(&ends, cells.len(), &mut sender), Some(position));
        publish(&cells[position as usize & 3], position);
        assert_eq!(receiver.peek(&cells), Some(position));
        receiver.advance(&ends, &cells);
    }
}

/// Two senders with different views of the receiver, which is now fast, now slow.
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
    let (mut few, mut own) = (0, 0);
    let mut dice = 1_u64;
    let end = LATE + 2 * CELLS as u64 * PAYS;
    while receiver.next < end {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let slow = receiver.next / 500 % 3 == 2;
        let sender = &mut senders[(dice >> 40) as usize % 2];
        let receives = (dice >> 50).is_multiple_of(8) == slow;
        if receives && !unread.is_empty() {
            assert!(receiver.peek(&cells).is_some());
            receiver.advance(&ends, &cells);
            unread.pop_front();
        } else if let Some(position) = claim(&ends, CELLS, sender) {
            let answers = !(dice >> 45).is_multiple_of(4);
            let foreseen = sender.body(position, answers);
            let (number, _) = sender.take_body(&ends, position, answers);
            let kind = |number| (number >= CELLS) as u32 + (number >= CELLS + FEW) as u32;
            assert!(number == foreseen || kind(number) > kind(foreseen));
            assert!(number < BODIES && !unread.contains(&number), "{position}");
            few += u64::from(number >= CELLS && position >= EARLY);
            own += u64::from(number < CELLS && position < LATE);
            assert!(number < CELLS || position < LATE + CELLS as u64 * PAYS);
            unread.push_back(number);
            let cell = &cells[position as usize & (CELLS - 1)];
            // SAFETY: the cell was claimed by `claim` and is not yet published.
            unsafe { cell.set_envelope([LONG << 32, 0, 0, 0]) };
            publish(cell, position);
        }
    }
    assert!(few > LATE / 3 && own > LATE / 8, "{few} {own}");
}

/// A receiver that keeps up gets early messages in few bodies, each of which is first used once.
/// Replies move on to the cells' bodies as that pays off, streams sooner.
#[test]
fn the_first_messages_take_few_bodies() {
    for (answers, until, end) in [
        (true, LATE, LATE + 2 * CELLS as u64 * PAYS),
        (false, EARLY, EARLY + 2 * CELLS as u64),
    ] {
        let ends = Ends {
            tail: Padded(AtomicU64::new(0)),
            head: Padded(AtomicU64::new(0)),
        };
        let cells: Vec<Cell> = (0..CELLS).map(|_| Cell::empty()).collect();
        let (mut sender, mut receiver) = (SenderView::default(), ReceiverView::default());
        let mut met = std::collections::HashSet::new();
        for number in 0..end {
            let position = claim(&ends, CELLS, &mut sender).expect("there is room");
            let (body, is_first) = sender.take_body(&ends, position, answers);
            assert!(body >= CELLS || number >= until);
            let is_new = met.insert(body);
            assert!(is_first || !is_new, "{number}");
            let paid = number.saturating_sub(LATE) / PAYS;
            assert!(
                !answers || met.len() as u64 <= FEWEST as u64 + paid,
                "{number} {body} {}",
                met.len()
            );
            let cell = &cells[position as usize & (CELLS - 1)];
            // SAFETY: the cell was claimed by `claim` and is not yet published.
            unsafe { cell.set_envelope([LONG << 32, 0, 0, 0]) };
            publish(cell, position);
            receiver.advance(&ends, &cells);
        }
        assert_eq!(met.len(), CELLS + FEWEST);
    }
}
