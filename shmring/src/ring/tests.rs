//! Positions, sequence numbers and bodies of a ring.

use super::*;

/// Makes free records for `senders` and the shared one.
fn records(senders: usize) -> Vec<SenderRecord> {
    let record = |_| SenderRecord {
        pid: AtomicU32::new(0),
        claim: AtomicU64::new(0),
    };
    (0..=senders).map(record).collect()
}

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
    let records = records(1);
    for position in start..start + 12 {
        assert_eq!(receiver.peek(&cells), None);
        let claimed = claim(&ends, cells.len(), &mut sender, &records[0]);
        assert_eq!(claimed, Some(position));
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
    let records = records(1);
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
        } else if let Some(position) = claim(&ends, CELLS, sender, &records[0]) {
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
        let records = records(1);
        for number in 0..end {
            let position = claim(&ends, CELLS, &mut sender, &records[0]).unwrap();
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

/// Processes of a sender that lives, and of one that has died.
const ALIVE: u32 = 1;
const DEAD: u32 = 2;

fn exists(pid: u32) -> bool {
    pid == ALIVE
}

/// A claimed cell is skipped if its sender has died, whatever other senders have tried.
#[test]
fn only_cells_of_dead_senders_are_abandoned() {
    let ends = Ends {
        tail: Padded(AtomicU64::new(0)),
        head: Padded(AtomicU64::new(0)),
    };
    let records = records(3);
    let is_abandoned = |position| is_claimed_by_dead(&ends, &records, position, exists);
    let claim = |record| claim(&ends, 4, &mut SenderView::default(), record);
    let dead = SenderRecord::take(&records, DEAD);
    let [alive, other] = [ALIVE, ALIVE].map(|pid| SenderRecord::take(&records, pid));
    // It has died before it claimed the position.
    dead.set(0);
    assert!(!is_abandoned(0));
    // It has failed to claim the position that a living sender has claimed.
    assert_eq!(claim(alive), Some(0));
    assert!(!is_abandoned(0));
    // It has claimed the next one, which a living sender tries to claim.
    assert_eq!(claim(dead), Some(1));
    other.set(1);
    assert!(!is_abandoned(1));
    assert_eq!(claim(other), Some(2));
    assert!(!is_abandoned(0) && is_abandoned(1) && !is_abandoned(2));
    // Living senders that find the ring full name no position.
    assert_eq!(claim(alive), Some(3));
    other.set(1);
    assert_eq!(claim(other), None);
    assert!(is_abandoned(1));
}

#[test]
fn records_are_taken_again_when_they_are_free() {
    let ends = Ends {
        tail: Padded(AtomicU64::new(0)),
        head: Padded(AtomicU64::new(0)),
    };
    let records = records(2);
    let place = |record| std::ptr::from_ref::<SenderRecord>(record);
    let first = SenderRecord::take(&records, ALIVE);
    let second = SenderRecord::take(&records, DEAD);
    assert_eq!(
        [place(first), place(second)],
        [&raw const records[0], &raw const records[1]]
    );
    first.free();
    let again = SenderRecord::take(&records, ALIVE);
    assert_eq!(place(again), place(first));
    again.free();
    // A record behind a free one counts.
    assert_eq!(claim(&ends, 4, &mut SenderView::default(), second), Some(0));
    assert!(is_claimed_by_dead(&ends, &records, 0, exists));
    // With more senders than records nothing is known of some.
    let shared = [ALIVE, ALIVE].map(|pid| place(SenderRecord::take(&records, pid)));
    assert_eq!(shared[1], &raw const records[2]);
    assert!(!is_claimed_by_dead(&ends, &records, 0, exists));
}
