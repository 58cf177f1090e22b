//! Allgather (MPI-3.1 section 5.7).

use super::schedule::{Block, Schedule};

/// Every member of a ring has its own piece and gets all others from the member before it.
///
/// Members are numbered along the ring; this one is `own`. `holds(member, piece)` says which pieces
/// a member has from the start, its own at least; they aren't sent to it.
pub(super) fn ring_bytes(
    schedule: &mut Schedule,
    size: usize,
    own: usize,
    member: impl Fn(usize) -> u32,
    piece: impl Fn(usize) -> Block,
    holds: impl Fn(usize, usize) -> bool,
) {
    let next = (own + 1) % size;
    let (from, to) = (member((own + size - 1) % size), member(next));
    for round in 0..size - 1 {
        let coming = (own + size - 1 - round) % size;
        let going = (own + size - round) % size;
        let first = schedule.here();
        if !holds(own, coming) && piece(coming).count > 0 {
            schedule.recv(from, piece(coming));
        }
        if !holds(next, going) && piece(going).count > 0 {
            schedule.send(to, piece(going));
        }
        schedule.wait(first..schedule.here());
    }
}
