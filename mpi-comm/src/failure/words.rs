//! The wire format of agreements: notices of two words each, as many as a message needs.
//!
//! A sender's notices stay in order, so the last one of a message marks its end.

use super::agreement::{Contribution, Decision, Message};
use super::set::Set;

/// The most words of a set; no communicator has more than 64 times as many members.
const MAX_SET_WORDS: usize = 1 << 16;

/// Kind of a notice, in the lowest byte of its first word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum NoticeKind {
    /// A word of the set of failed members, with its index.
    Failed,
    /// A word of the set of members whose failure is acknowledged.
    Acknowledged,
    /// A word of the set of failed members in a contribution's decision.
    HeldFailed,
    /// The flags of such a decision.
    HeldFlags,
    /// The context of a decision.
    Context,
    /// The end of a contribution, with its flag.
    Contribute,
    /// The end of a decision, with its flags.
    Decide,
    Ack,
    Commit,
    /// The communicator is revoked.
    Revoke,
}

const KINDS: [NoticeKind; 10] = [
    NoticeKind::Failed,
    NoticeKind::Acknowledged,
    NoticeKind::HeldFailed,
    NoticeKind::HeldFlags,
    NoticeKind::Context,
    NoticeKind::Contribute,
    NoticeKind::Decide,
    NoticeKind::Ack,
    NoticeKind::Commit,
    NoticeKind::Revoke,
];

/// Notice that revokes the communicator.
pub(super) const REVOKE: [u64; 2] = [NoticeKind::Revoke as u64, 0];

/// State bit at the end of a contribution: it holds a decision.
const HOLDS: usize = 1;
/// State bit at the end of a decision or contribution: the decision raises an error.
const RAISES: usize = 2;

fn word(kind: NoticeKind, place: usize, value: u64) -> [u64; 2] {
    [kind as u64 | (place as u64) << 8, value]
}

fn pack([first, second]: [u32; 2]) -> u64 {
    u64::from(first) | u64::from(second) << 32
}

fn unpack(flags: u64) -> [u32; 2] {
    [flags as u32, (flags >> 32) as u32]
}

fn add_set(notices: &mut Vec<[u64; 2]>, kind: NoticeKind, set: &Set) {
    notices.extend(
        set.words()
            .map(|(place, members)| word(kind, place, members)),
    );
}

/// Encodes a message as the words of notices.
pub(super) fn notices(message: &Message) -> Vec<[u64; 2]> {
    let mut notices = Vec::new();
    let raises = |decision: &Decision| if decision.raises { RAISES } else { 0 };
    match message {
        Message::Contribute(mine) => {
            add_set(&mut notices, NoticeKind::Failed, &mine.failed);
            add_set(&mut notices, NoticeKind::Acknowledged, &mine.acknowledged);
            let mut state = 0;
            if let Some(held) = &mine.held {
                add_set(&mut notices, NoticeKind::HeldFailed, &held.failed);
                notices.push(word(NoticeKind::HeldFlags, 0, pack(held.flags)));
                notices.push(word(NoticeKind::Context, 0, held.context));
                state = HOLDS | raises(held);
            }
            notices.push(word(NoticeKind::Contribute, state, mine.flag.into()));
        }
        Message::Decide(decision) => {
            add_set(&mut notices, NoticeKind::Failed, &decision.failed);
            notices.push(word(NoticeKind::Context, 0, decision.context));
            notices.push(word(
                NoticeKind::Decide,
                raises(decision),
                pack(decision.flags),
            ));
        }
        Message::Ack => notices.push(word(NoticeKind::Ack, 0, 0)),
        Message::Commit => notices.push(word(NoticeKind::Commit, 0, 0)),
    }
    notices
}

/// The result of reading a notice.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Parsed {
    /// Part of a message, or a notice that is not valid.
    Incomplete,
    /// A complete message.
    Message(Message),
    /// The communicator is revoked.
    Revoke,
}

/// The parts of an incomplete message.
#[derive(Default)]
pub(super) struct Parts {
    failed: Set,
    acknowledged: Set,
    held_failed: Set,
    held_flags: u64,
    context: u64,
}

impl Parts {
    /// Reads a notice's words. The end of a message resets the parts.
    pub fn read(&mut self, [head, value]: [u64; 2]) -> Parsed {
        let place = (head >> 8) as usize;
        let Some(kind) = KINDS.get((head & 0xff) as usize) else {
            return Parsed::Incomplete;
        };
        let set = match kind {
            NoticeKind::Failed => &mut self.failed,
            NoticeKind::Acknowledged => &mut self.acknowledged,
            NoticeKind::HeldFailed => &mut self.held_failed,
            NoticeKind::HeldFlags => {
                self.held_flags = value;
                return Parsed::Incomplete;
            }
            NoticeKind::Context => {
                self.context = value;
                return Parsed::Incomplete;
            }
            NoticeKind::Contribute => {
                let parts = std::mem::take(self);
                let held = (place & HOLDS != 0).then(|| Decision {
                    flags: unpack(parts.held_flags),
                    failed: parts.held_failed,
                    raises: place & RAISES != 0,
                    context: parts.context,
                });
                return Parsed::Message(Message::Contribute(Contribution {
                    flag: value as u32,
                    failed: parts.failed,
                    acknowledged: parts.acknowledged,
                    held,
                }));
            }
            NoticeKind::Decide => {
                let parts = std::mem::take(self);
                return Parsed::Message(Message::Decide(Decision {
                    flags: unpack(value),
                    failed: parts.failed,
                    raises: place & RAISES != 0,
                    context: parts.context,
                }));
            }
            NoticeKind::Ack => return Parsed::Message(Message::Ack),
            NoticeKind::Commit => return Parsed::Message(Message::Commit),
            NoticeKind::Revoke => return Parsed::Revoke,
        };
        if place >= MAX_SET_WORDS {
            return Parsed::Incomplete;
        }
        set.set_word(place, value);
        Parsed::Incomplete
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_as_they_were_sent() {
        let decision = Decision {
            flags: [7, 0xffff_fff0],
            failed: Set::of([1, 100]),
            raises: true,
            context: 0x1234_5678_9abc,
        };
        let contribution = Contribution {
            flag: 0xffff_ffff,
            failed: Set::of([3, 64, 1000]),
            acknowledged: Set::of([3]),
            held: None,
        };
        let holder = Contribution {
            held: Some(decision.clone()),
            ..contribution.clone()
        };
        let mut parts = Parts::default();
        for message in [
            Message::Contribute(contribution),
            Message::Contribute(holder),
            Message::Decide(decision),
            Message::Contribute(Contribution::default()),
            Message::Ack,
            Message::Commit,
        ] {
            let notices = notices(&message);
            let (last, first) = notices.split_last().unwrap();
            for words in first {
                assert_eq!(parts.read(*words), Parsed::Incomplete);
            }
            assert_eq!(parts.read(*last), Parsed::Message(message));
        }
        assert_eq!(parts.read(REVOKE), Parsed::Revoke);
        // Invalid notices are ignored.
        assert_eq!(parts.read([0xff, 0]), Parsed::Incomplete);
        assert_eq!(
            parts.read(word(NoticeKind::Failed, MAX_SET_WORDS, 1)),
            Parsed::Incomplete
        );
    }
}
