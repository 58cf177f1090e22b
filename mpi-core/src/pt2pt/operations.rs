//! What windows have under way to remote memory by a VCI's lanes: puts, gets, atomics, and flushes.
//!
//! The engine has a table of operations that are pending, named by tokens; a [`Flight`] is the same
//! seen from a window: it knows for which targets something is still to come, in the order in which
//! it was begun, so that a flush waits for what came before it and nothing else.
//!
//! For crates that stand above this one: they make an [`Access`] and start it by
//! [`Process::start_access`](crate::Process::start_access).

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use netmod::{AtomicOp, LaneError, Peer, RemoteKey, Token};
use parking_lot::Mutex;

use crate::error::{Class, Error};
use crate::pt2pt::buffer::Buffer;
use crate::pt2pt::engine::{Address, Engine, failed};
use crate::pt2pt::request::{RequestId, Status};

/// Tokens with this bit are of this module, others are the numbers of requests.
const MARK: u64 = 1 << 63;

/// A run of bytes in a target's memory: its offset and length.
pub type Run = (u64, usize);

/// One or several runs.
pub enum Runs {
    /// One.
    One([Run; 1]),
    /// Several.
    Many(Box<[Run]>),
}

impl Runs {
    /// All of them.
    #[inline]
    pub fn list(&self) -> &[Run] {
        match self {
            Runs::One(one) => one,
            Runs::Many(many) => many,
        }
    }
}

/// What an access does.
pub enum Act {
    /// Reads.
    Get,
    /// Writes.
    Put,
    /// Changes words atomically.
    Change(Change),
}

/// Atomic operations on 8-byte words, which are the runs of an access.
pub struct Change {
    /// By which transport, as the process counts them: not always the one that leads to the peer.
    pub way: usize,
    /// What is done to each word.
    pub op: AtomicOp,
    /// One for each word.
    pub operands: Operands,
    /// For [`AtomicOp::CompareSwap`].
    pub compare: u64,
    /// What was there, if that doesn't go to the program's buffer directly.
    pub found: Option<Vec<u64>>,
}

/// One or several operands.
pub enum Operands {
    /// One.
    One(u64),
    /// Several.
    Many(Box<[u64]>),
}

impl Operands {
    /// That of the word of this number.
    #[inline]
    pub fn get(&self, number: usize) -> u64 {
        match self {
            Operands::One(one) => *one,
            Operands::Many(many) => many.get(number).copied().unwrap_or_default(),
        }
    }
}

/// A put, a get, or atomics.
pub struct Access {
    /// Where the target is.
    pub to: Address,
    /// By which transport, as the process counts them, if not by the one that leads to the peer. (Atomics
    /// name theirs in [`Change::way`].)
    pub way: Option<usize>,
    /// It is no access of the program's but one of those that the library makes of it: counters leave it out.
    pub internal: bool,
    /// The exposed piece that the runs lie in.
    pub key: RemoteKey,
    /// Where the piece begins in the window, for whoever does the access in another way.
    pub shift: u64,
    /// What is done.
    pub act: Act,
    /// The target's rank in the window.
    pub target: u32,
    /// Where in the piece.
    pub runs: Runs,
    /// Where the data comes from or goes to, without gaps; NULL for atomics whose results nobody
    /// wants. Valid until the access has ended.
    pub local: *mut u8,
    /// The memory at `local`, if that is the library's.
    pub packed: Option<Vec<u8>>,
    /// The program's buffer, if data that is read doesn't go there directly.
    pub buffer: Option<Buffer>,
    /// The program's request, which the access completes.
    pub outer: Option<RequestId>,
    /// What it is under way in.
    pub flight: Arc<Flight>,
    /// Its number there.
    pub number: u64,
    /// How many runs have been issued, and their bytes.
    pub(crate) next: usize,
    pub(crate) moved: usize,
    /// Issued and not complete.
    pub(crate) parts: u32,
    pub(crate) failed: Option<LaneError>,
    /// Somebody is about to issue more of it.
    pub(crate) held: bool,
}

// SAFETY: `local` is memory that the program has lent until the access is complete, or the
// library's own; whichever thread makes progress may end the access.
unsafe impl Send for Access {}

impl Access {
    /// One that has not begun, of a member of a window: `local` is where the data comes from or goes
    /// to, as the field of that name says.
    #[inline(always)]
    pub fn new(
        (target, to): (u32, Address),
        (key, runs): (RemoteKey, Runs),
        act: Act,
        local: *mut u8,
        flight: Arc<Flight>,
    ) -> Access {
        Access {
            to,
            way: None,
            internal: false,
            key,
            shift: 0,
            act,
            target,
            runs,
            local,
            packed: None,
            buffer: None,
            outer: None,
            flight,
            number: 0,
            next: 0,
            moved: 0,
            parts: 0,
            failed: None,
            held: false,
        }
    }

    /// Bytes of all runs.
    pub fn bytes(&self) -> usize {
        self.runs.list().iter().map(|run| run.1).sum()
    }

    /// Nothing is left to do for the lane.
    pub(crate) fn is_over(&self) -> bool {
        let issued = self.next == self.runs.list().len() || self.failed.is_some();
        issued && self.parts == 0 && !self.held
    }
}

/// An operation that a lane has not completed yet.
#[expect(
    clippy::large_enum_variant,
    reason = "most are accesses; memory of its own for each would cost an allocation"
)]
pub(crate) enum Op {
    Access(Access),
    Flush {
        peer: Peer,
        flight: Arc<Flight>,
        number: u64,
    },
}

/// The pending operations of a VCI.
#[derive(Default)]
pub(crate) struct Ops {
    slots: Vec<Option<Op>>,
    free: Vec<u32>,
    /// Where lanes write the results of atomics that nobody wants.
    nowhere: Box<u64>,
}

impl Ops {
    /// The index that the next operation gets.
    pub fn next(&mut self) -> u32 {
        if self.free.is_empty() {
            self.free.push(self.slots.len() as u32);
            self.slots.push(None);
        }
        self.free.last().copied().unwrap_or_default()
    }

    /// A place for a result that nobody wants.
    pub fn nowhere(&mut self) -> *mut u64 {
        &raw mut *self.nowhere
    }

    pub fn token(index: u32) -> Token {
        Token(MARK | u64::from(index))
    }

    /// Takes an operation in, at the index that [`Ops::next`] has told.
    pub fn insert(&mut self, op: Op) -> u32 {
        let index = self.next();
        self.free.pop();
        self.slots[index as usize] = Some(op);
        index
    }

    pub fn get(&mut self, index: u32) -> Option<&mut Op> {
        self.slots.get_mut(index as usize)?.as_mut()
    }

    pub fn take(&mut self, index: u32) -> Option<Op> {
        let op = self.slots.get_mut(index as usize)?.take()?;
        self.free.push(index);
        Some(op)
    }

    /// From whom something is awaited.
    pub fn peers(&self) -> impl Iterator<Item = Peer> {
        self.slots.iter().flatten().map(|op| match op {
            Op::Access(access) => access.to.peer,
            Op::Flush { peer, .. } => *peer,
        })
    }
}

impl Engine {
    /// Whether a token is of this module.
    #[inline]
    pub fn is_remote(token: Token) -> bool {
        token.0 & MARK != 0
    }

    /// A lane has completed an operation, or a part of it.
    pub fn remote_done(&mut self, token: Token, result: Result<(), LaneError>) {
        let index = token.0 as u32;
        match self.remote.get(index) {
            None => {}
            Some(Op::Flush { .. }) => {
                if let Some(Op::Flush { flight, number, .. }) = self.remote.take(index) {
                    flight.end(number, result.err().map(failed));
                }
            }
            Some(Op::Access(access)) => {
                access.parts -= 1;
                if let Err(error) = result {
                    access.failed.get_or_insert(error);
                }
                self.end_if_over(index);
            }
        }
    }

    /// Ends an access that nothing is left of.
    pub fn end_if_over(&mut self, index: u32) {
        let over = |op: &mut Op| matches!(op, Op::Access(access) if access.is_over());
        if self.remote.get(index).is_some_and(over)
            && let Some(Op::Access(access)) = self.remote.take(index)
        {
            self.end_access(access);
        }
    }

    fn end_access(&mut self, mut access: Access) {
        let error = match access.failed.take() {
            None => {
                access.arrive();
                None
            }
            Some(error @ LaneError::PeerLost(_)) => Some(failed(error)),
            // Nothing else would be atomic towards what others do by the network.
            Some(error) if access.is_atomic() => Some(refused(access.target, error)),
            Some(error) => {
                // To be done by messages instead; the window's own progress sees to that.
                let flight = access.flight.clone();
                flight.put_back(access, error);
                return;
            }
        };
        match access.outer {
            Some(outer) => {
                self.records.complete(outer, Status::EMPTY, error);
                access.flight.end(access.number, None);
            }
            None => access.flight.end(access.number, error),
        }
    }
}

impl Access {
    /// Whether it is of atomics, which the network alone can carry out.
    pub(crate) fn is_atomic(&self) -> bool {
        matches!(self.act, Act::Change(_))
    }

    /// Its data is here: brings it to its place.
    pub(crate) fn arrive(&mut self) {
        if let (Some(buffer), Act::Change(change)) = (&mut self.buffer, &self.act)
            && let Some(found) = &change.found
        {
            let bytes: Vec<u8> = found.iter().flat_map(|word| word.to_ne_bytes()).collect();
            buffer.write(0, &bytes);
            return;
        }
        if let (Some(buffer), Some(data)) = (&mut self.buffer, &self.packed) {
            buffer.write(0, data);
        }
    }
}

/// The error of atomics that a transport refuses though it said that it can.
#[cold]
pub fn refused(target: u32, why: LaneError) -> Error {
    Error::new(
        Class::Other,
        format!(
            "the network can't carry out atomics on the memory of rank {target} ({why}), and nothing \
             else is atomic towards them; set WEFT_RMA_ATOMICS=messages, or leave out the hint \
             which_accumulate_ops, and WEFT_RMA_PASSIVE=off"
        ),
    )
}

/// So many small accesses between two flushes are no burst.
const BURST: usize = 8;

/// What a window has under way by one VCI.
#[derive(Default)]
pub struct Flight {
    state: Mutex<State>,
    /// How much there is in `state`: looked at without its lock.
    noted: AtomicUsize,
    /// Length of `State::back`, likewise.
    back: AtomicUsize,
    /// How many operations have ended.
    ended: AtomicUsize,
    /// Small accesses since the last flush.
    small: AtomicUsize,
    /// Whether there were many before that.
    bursts: AtomicBool,
}

#[derive(Default)]
struct State {
    /// The number of the first of `entries`.
    first: u64,
    entries: VecDeque<Entry>,
    /// Targets that were written to since their last flush began.
    written: Written,
    /// What is to be told by the next flush.
    errors: Vec<(u32, Error)>,
    /// Accesses that a lane has given back, and why.
    back: Vec<(Access, LaneError)>,
}

struct Entry {
    target: u32,
    done: bool,
}

/// A set of targets: most programs write to few between two flushes, which are found quickest in a row.
#[derive(Default)]
struct Written {
    few: Vec<u32>,
    many: HashSet<u32>,
}

/// So many are kept in a row.
const FEW: usize = 8;

impl Written {
    #[inline]
    fn insert(&mut self, target: u32) {
        if self.few.contains(&target) {
            return;
        }
        if self.few.len() < FEW && self.many.is_empty() {
            self.few.push(target);
        } else {
            self.many.insert(target);
        }
    }

    #[inline]
    fn remove(&mut self, target: u32) -> bool {
        match self.few.iter().position(|one| *one == target) {
            Some(place) => {
                self.few.swap_remove(place);
                true
            }
            None => !self.many.is_empty() && self.many.remove(&target),
        }
    }

    fn take_all(&mut self) -> Vec<u32> {
        let mut all = std::mem::take(&mut self.few);
        all.extend(self.many.drain());
        all
    }

    fn len(&self) -> usize {
        self.few.len() + self.many.len()
    }
}

impl Flight {
    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock();
        let result = act(&mut state);
        let noted = state.entries.len() + state.written.len() + state.errors.len();
        self.noted.store(noted, Ordering::Release);
        self.back.store(state.back.len(), Ordering::Release);
        result
    }

    /// Whether nothing is under way and nothing need be flushed.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.noted.load(Ordering::Acquire) == 0
    }

    /// Something towards a target is under way from now on; returns its number.
    #[inline]
    pub fn begin(&self, target: u32) -> u64 {
        self.with(|state| state.begin(target))
    }

    /// Takes note that a target's memory was written to.
    #[inline]
    pub fn wrote(&self, target: u32) {
        self.with(|state| state.written.insert(target));
    }

    /// Counts small accesses. Returns whether there are many between two flushes.
    #[inline]
    pub fn is_burst(&self) -> bool {
        // Threads that count at the same time may lose some, which matters to nobody.
        let small = self.small.load(Ordering::Relaxed) + 1;
        self.small.store(small, Ordering::Relaxed);
        small > BURST || self.bursts.load(Ordering::Relaxed)
    }

    /// A flush: what comes next is taken to be as what came before it.
    #[inline]
    pub fn end_burst(&self) {
        let small = self.small.load(Ordering::Relaxed);
        if small != 0 {
            self.small.store(0, Ordering::Relaxed);
            self.bursts.store(small > BURST, Ordering::Relaxed);
        }
    }

    /// Begins the flush of a target, if that was written to; its number.
    #[inline]
    pub fn begin_flush(&self, target: u32) -> Option<u64> {
        self.with(|state| state.written.remove(target).then(|| state.begin(target)))
    }

    /// Begins the flushes of all that were written to.
    pub fn begin_flushes(&self) -> Vec<(u32, u64)> {
        self.with(|state| {
            let targets = state.written.take_all();
            let begin = |target| (target, state.begin(target));
            targets.into_iter().map(begin).collect()
        })
    }

    /// What has this number is over.
    pub fn end(&self, number: u64, error: Option<Error>) {
        self.with(|state| {
            let place = number.wrapping_sub(state.first) as usize;
            let Some(entry) = state.entries.get_mut(place) else {
                return;
            };
            entry.done = true;
            if let Some(error) = error {
                state.errors.push((entry.target, error));
            }
            while state.entries.front().is_some_and(|entry| entry.done) {
                state.entries.pop_front();
                state.first += 1;
            }
        });
        self.ended.fetch_add(1, Ordering::Release);
    }

    /// A number that changes when something ends: who waits need look no further before.
    #[inline]
    pub fn ended(&self) -> usize {
        self.ended.load(Ordering::Acquire)
    }

    /// The number of what is begun next.
    #[inline]
    pub fn mark(&self) -> u64 {
        let state = self.state.lock();
        state.first + state.entries.len() as u64
    }

    /// Whether something that was begun before `until` is under way to one of the targets that `is` picks.
    #[inline]
    pub fn awaits(&self, until: u64, mut is: impl FnMut(u32) -> bool) -> bool {
        let state = self.state.lock();
        let early = until.saturating_sub(state.first) as usize;
        let mut early = state.entries.iter().take(early);
        early.any(|entry| !entry.done && is(entry.target))
    }

    /// The first error of accesses to a target, or to any; forgets the others.
    pub fn take_error(&self, target: Option<u32>) -> Option<Error> {
        self.with(|state| {
            let is = |one: &(u32, Error)| target.is_none_or(|target| one.0 == target);
            let place = state.errors.iter().position(is)?;
            let error = state.errors.remove(place).1;
            state.errors.retain(|one| !is(one));
            Some(error)
        })
    }

    fn put_back(&self, access: Access, why: LaneError) {
        self.with(|state| state.back.push((access, why)));
    }

    /// Whether [`Flight::take_back`] gives something.
    #[inline]
    pub fn has_back(&self) -> bool {
        self.back.load(Ordering::Acquire) != 0
    }

    /// Accesses that a lane accepted and then could not carry out: they are still under way by
    /// their numbers, and to be done in another way.
    pub fn take_back(&self) -> Vec<(Access, LaneError)> {
        self.with(|state| std::mem::take(&mut state.back))
    }
}

impl State {
    fn begin(&mut self, target: u32) -> u64 {
        self.entries.push_back(Entry {
            target,
            done: false,
        });
        self.first + self.entries.len() as u64 - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flushes_wait_for_what_came_before_and_for_their_target() {
        let flight = Flight::default();
        let (a, b) = (flight.begin(1), flight.begin(2));
        let until = flight.mark();
        let later = flight.begin(1);
        assert!(flight.awaits(until, |it| it == 1) && flight.awaits(until, |it| it == 2));
        assert!(!flight.awaits(until, |it| it == 3));
        flight.end(b, None);
        assert!(!flight.awaits(until, |it| it == 2) && flight.awaits(until, |_| true));
        flight.end(a, None);
        assert!(
            !flight.awaits(until, |_| true),
            "the one begun later is still under way"
        );
        flight.end(later, Some(Error::new(Class::ProcFailed, "gone")));
        assert!(flight.take_error(Some(2)).is_none());
        assert!(!flight.is_quiet());
        assert!(flight.take_error(None).is_some());
        assert!(flight.is_quiet());
    }

    #[test]
    fn a_second_flush_finds_the_first_under_way() {
        let flight = Flight::default();
        flight.wrote(7);
        flight.wrote(7);
        assert_eq!(flight.begin_flush(8), None);
        let begun = flight.begin_flush(7).expect("it was written to");
        assert!(flight.begin_flushes().is_empty());
        assert!(flight.awaits(flight.mark(), |it| it == 7));
        flight.end(begun, None);
        assert!(flight.is_quiet());
    }

    #[test]
    fn all_that_were_written_to_are_flushed_once_however_many_they_are() {
        let flight = Flight::default();
        for target in (0..100).chain(0..100) {
            flight.wrote(target);
        }
        assert!(flight.begin_flush(99).is_some() && flight.begin_flush(3).is_some());
        let mut begun = flight.begin_flushes();
        begun.sort_unstable();
        let targets: Vec<u32> = begun.iter().map(|(target, _)| *target).collect();
        let wanted: Vec<u32> = (0..99).filter(|target| *target != 3).collect();
        assert_eq!(targets, wanted);
    }
}
