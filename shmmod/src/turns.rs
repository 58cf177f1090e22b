//! Whether two processes send long messages to each other by turns.

/// So often each must have sent in turn before it is relied on.
const ENOUGH: u32 = 2;
/// One message in so many goes as if there were no turns, so that its time is measured (see [`crate::choice`]).
const EVERY: u32 = 32;

/// What is known of one peer.
#[derive(Default, Debug)]
pub(crate) struct Turns {
    /// Since the last message there one has come from there.
    has_received: bool,
    /// How many messages there followed one from there, without a break.
    count: u32,
}

impl Turns {
    /// A long message goes there. Whether the answer may be expected in its memory.
    pub fn send(&mut self) -> bool {
        self.count = match self.has_received {
            true => self.count.saturating_add(1),
            false => 0,
        };
        self.has_received = false;
        self.count >= ENOUGH && !self.count.is_multiple_of(EVERY)
    }

    /// A long message has come from there. Whether one went there since the one before.
    pub fn receive(&mut self) -> bool {
        let is_turn = !self.has_received;
        self.has_received = true;
        is_turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_count_from_the_third_message_on_but_for_one_in_many() {
        let mut turns = Turns::default();
        assert!(!turns.send());
        let mut others = 0;
        for number in 1..100 {
            assert!(turns.receive());
            let by_turns = turns.send();
            assert!(by_turns || number == 1 || number % EVERY == 0);
            others += u32::from(!by_turns);
        }
        assert_eq!(others, 1 + 99 / EVERY);
    }

    #[test]
    fn messages_in_a_row_are_no_turns() {
        let mut turns = Turns::default();
        for _ in 0..50 {
            assert!(turns.receive() && !turns.receive());
            turns.send();
            assert!(!turns.send());
        }
    }
}
