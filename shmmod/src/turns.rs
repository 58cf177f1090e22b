//! How two processes send long messages to each other: by turns, both at once, or in one direction.

/// So often each must have sent in turn before it is relied on.
const ENOUGH: u32 = 2;
/// Of so many messages it is counted which way they go.
const COUNTED: u32 = 64;

/// How a message has come.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Came {
    /// It was read where it was.
    #[default]
    Read,
    /// Through a pipe.
    Piped,
    /// Through memory that changes hands.
    ByHand,
}

/// What is known of one peer.
#[derive(Default, Debug)]
pub(crate) struct Turns {
    /// Since the last message there one of this length has come from there.
    received: Option<usize>,
    /// How the last one came.
    came: Came,
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
        let len = received.filter(|_| self.count >= ENOUGH)?;
        Some((len, self.came == Came::ByHand))
    }

    /// Whether the message that goes there now answers one that was read.
    pub fn answers_read(&self) -> bool {
        self.count >= ENOUGH && self.came == Came::Read
    }

    /// A long message has come from there. Whether one went there since the one before.
    pub fn receive(&mut self, len: usize, came: Came) -> bool {
        self.arrived += 1;
        self.forget();
        let is_turn = self.received.is_none();
        (self.received, self.came) = (Some(len), came);
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
            let came = [Came::ByHand, Came::Read, Came::Piped][number % 3];
            assert!(turns.receive(number, came));
            let turn = (number, number % 3 == 0);
            assert_eq!(turns.send(), (number > 1).then_some(turn));
            assert_eq!(turns.answers_read(), number > 1 && came == Came::Read);
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
                both.receive(1, Came::Piped);
            }
            one.receive(1, Came::Piped);
            turns.send();
            turns.receive(1, Came::Piped);
            assert!(message == 0 || both.are_both_ways());
            assert!(!one.are_both_ways() && (message < 8 || !turns.are_both_ways()));
        }
    }

    #[test]
    fn messages_in_a_row_are_no_turns() {
        let mut turns = Turns::default();
        for _ in 0..50 {
            assert!(turns.receive(1, Came::ByHand) && !turns.receive(1, Came::ByHand));
            turns.send();
            assert!(turns.send().is_none());
        }
    }
}
