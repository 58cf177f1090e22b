//! How two processes send long messages to each other: by turns, both at once, or in one direction.

/// So often each must have sent in turn before it is relied on.
const ENOUGH: u32 = 2;
/// Of so many messages it is counted which way they go.
const COUNTED: u32 = 64;

/// What is known of one peer.
#[derive(Default, Debug)]
pub(crate) struct Turns {
    /// Since the last message there one has come from there: of this length, and by memory that changes hands or not.
    received: Option<(usize, bool)>,
    /// How many messages there followed one from there, without a break.
    count: u32,
    /// Messages there and from there, of late.
    sent: u32,
    arrived: u32,
}

/// A message that is sent by turns: the length of the one from there before it, and whether that came by memory that changes
/// hands.
pub(crate) type Turn = (usize, bool);

impl Turns {
    /// A long message goes there. None where the answer may not be expected.
    pub fn send(&mut self) -> Option<Turn> {
        self.sent += 1;
        self.forget();
        let received = self.received.take();
        self.count = match received {
            Some(_) => self.count.saturating_add(1),
            None => 0,
        };
        received.filter(|_| self.count >= ENOUGH)
    }

    /// A long message has come from there. Whether one went there since the one before.
    pub fn receive(&mut self, len: usize, by_hand: bool) -> bool {
        self.arrived += 1;
        self.forget();
        let is_turn = self.received.is_none();
        self.received = Some((len, by_hand));
        is_turn
    }

    /// Older messages count for less.
    fn forget(&mut self) {
        if self.sent + self.arrived >= COUNTED {
            (self.sent, self.arrived) = (self.sent / 2, self.arrived / 2);
        }
    }

    /// Whether about as many go there as come from there, and not by turns: then each process has the work of both sides.
    pub fn are_both_ways(&self) -> bool {
        let (less, more) = (self.sent.min(self.arrived), self.sent.max(self.arrived));
        self.count < ENOUGH && less >= COUNTED / 16 && 2 * less >= more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_count_from_the_third_message_on() {
        let mut turns = Turns::default();
        assert!(turns.send().is_none());
        for number in 1..100 {
            assert!(turns.receive(number, number % 3 == 0));
            let turn = (number, number % 3 == 0);
            assert_eq!(turns.send(), (number > 1).then_some(turn));
        }
    }

    #[test]
    fn both_ways_is_neither_by_turns_nor_in_one_direction() {
        let mut both = Turns::default();
        let mut one = Turns::default();
        let mut turns = Turns::default();
        for message in 0..1000 {
            // Windows of eight.
            for _ in 0..8 {
                both.send();
                one.send();
            }
            for _ in 0..8 {
                both.receive(1, false);
            }
            one.receive(1, false);
            turns.send();
            turns.receive(1, false);
            assert!(message == 0 || both.are_both_ways());
            assert!(!one.are_both_ways() && (message < 8 || !turns.are_both_ways()));
        }
    }

    #[test]
    fn messages_in_a_row_are_no_turns() {
        let mut turns = Turns::default();
        for _ in 0..50 {
            assert!(turns.receive(1, true) && !turns.receive(1, true));
            turns.send();
            assert!(turns.send().is_none());
        }
    }
}
