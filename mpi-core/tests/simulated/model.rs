//! A model of MPI's matching that does not know when messages arrived.
//!
//! Invariant (MPI-3.1 section 3.5): messages do not overtake each other. A *match* is a message and
//! the receive that it matched, within one context at one receiver; matches happen one after the
//! other. The set of matches implies that some happened before others:
//!
//! * If a receive could have taken an earlier message of the same source, that message was matched
//!   already: the earlier message's match comes before this one.
//! * If an older receive could have taken a message, that receive was matched already: the older
//!   receive's match comes before this one.
//!
//! An execution is correct if this order has no cycle.

use crate::program::{Message, Receive};

/// A message and its receive, by their indices, with their positions in their ranks' programs.
#[derive(Clone, Copy, Debug)]
pub struct Match {
    pub message: usize,
    pub receive: usize,
    /// Time of the send: orders the messages of a rank.
    pub sent: u64,
    /// Time of the post, or of the successful probe: orders the receives of a rank.
    pub posted: u64,
}

/// Returns a description of matches in a cycle, if there is one.
pub fn overtaking(messages: &[Message], receives: &[Receive], matches: &[Match]) -> Option<String> {
    let before = |a: &Match, b: &Match| {
        let (ma, mb) = (&messages[a.message], &messages[b.message]);
        let (ra, rb) = (&receives[a.receive], &receives[b.receive]);
        if (ma.to, ma.context) != (mb.to, mb.context) {
            return false;
        }
        let passed_over = ma.source == mb.source && a.sent < b.sent && rb.accepts(ma);
        let older = a.posted < b.posted && ra.accepts(mb);
        passed_over || older
    };
    // Repeatedly removes matches without predecessors; a cycle remains.
    let mut left: Vec<Match> = matches.to_vec();
    loop {
        let count = left.len();
        let free: Vec<bool> = left
            .iter()
            .map(|b| !left.iter().any(|a| a.message != b.message && before(a, b)))
            .collect();
        let mut keep = free.iter();
        left.retain(|_| !keep.next().unwrap());
        if left.is_empty() {
            return None;
        }
        if left.len() == count {
            break;
        }
    }
    let lines: Vec<String> = left
        .iter()
        .map(|m| {
            format!(
                "{m:?}\n  {:?}\n  {:?}",
                messages[m.message], receives[m.receive]
            )
        })
        .collect();
    Some(format!(
        "matches that come before each other:\n{}",
        lines.join("\n")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{End, How};
    use mpi_core::process::Mode;
    use mpi_core::{ANY_SOURCE, ANY_TAG};

    fn message(source: u32, tag: i32) -> Message {
        Message {
            source,
            to: 9,
            context: 0,
            tag,
            len: 4,
            mode: Mode::Standard,
            end: End::Wait,
        }
    }

    fn receive(source: i32, tag: i32) -> Receive {
        let (how, end) = (How::Receive, End::Wait);
        Receive {
            rank: 9,
            context: 0,
            source,
            tag,
            room: 4,
            how,
            end,
        }
    }

    fn pairs(matches: &[(usize, usize)]) -> Vec<Match> {
        let pair = |&(message, receive): &(usize, usize)| Match {
            message,
            receive,
            sent: message as u64,
            posted: receive as u64,
        };
        matches.iter().map(pair).collect()
    }

    #[test]
    fn the_model_accepts_correct_matches_only() {
        let same = [message(0, 5), message(0, 5)];
        let exact = [receive(0, 5), receive(0, 5)];
        assert_eq!(overtaking(&same, &exact, &pairs(&[(0, 0), (1, 1)])), None);
        assert!(overtaking(&same, &exact, &pairs(&[(0, 1), (1, 0)])).is_some());

        let mixed = [receive(ANY_SOURCE, ANY_TAG), receive(0, 5)];
        assert!(overtaking(&same, &mixed, &pairs(&[(0, 1), (1, 0)])).is_some());

        // Messages of two sources arrive in either order.
        let two = [message(0, 5), message(1, 5)];
        let wild = [receive(ANY_SOURCE, 5), receive(ANY_SOURCE, 5)];
        assert_eq!(overtaking(&two, &wild, &pairs(&[(0, 0), (1, 1)])), None);
        assert_eq!(overtaking(&two, &wild, &pairs(&[(0, 1), (1, 0)])), None);

        // With different tags the second message may be received first, by a receive that cannot
        // take the first.
        let tags = [message(0, 5), message(0, 6)];
        let apart = [receive(ANY_SOURCE, 6), receive(ANY_SOURCE, 5)];
        assert_eq!(overtaking(&tags, &apart, &pairs(&[(1, 0), (0, 1)])), None);
        let any = [receive(0, ANY_TAG), receive(ANY_SOURCE, 5)];
        assert!(overtaking(&tags, &any, &pairs(&[(1, 0), (0, 1)])).is_some());
    }
}
