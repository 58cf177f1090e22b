//! One-sided operations in flight on a VCI's lanes: puts, gets, atomics and flushes.
//!
//! The engine has a table of pending operations, named by tokens. A [`Flight`] is a window's view
//! of them: it records for which targets operations are pending, in the order in which they began,
//! so that a flush waits only for operations that began before it.
//!
//! Crates above this one make an [`Access`] and start it with
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

/// Marks the tokens of this module; other tokens are numbers of requests.
const MARK: u64 = 1 << 63;

/// A contiguous block of a target's memory: offset and length.
pub type Block = (u64, usize);

/// One or several blocks.
pub enum Blocks {
    /// One block.
    One([Block; 1]),
    /// Several blocks.
    Many(Box<[Block]>),
}

impl Blocks {
    /// Returns all blocks.
    #[inline]
    pub fn list(&self) -> &[Block] {
        match self {
            Blocks::One(one) => one,
            Blocks::Many(many) => many,
        }
    }
}

/// The operation of an access.
pub enum Act {
    /// Reads the blocks.
    Get,
    /// Writes the blocks.
    Put,
    /// Changes words atomically.
    Atomic(Atomic),
}

/// An atomic operation on 8-byte words, the blocks of an access.
pub struct Atomic {
    /// Number of the transport within the process, which may differ from the route to the peer.
    pub transport: usize,
    /// The operation on each word.
    pub op: AtomicOp,
    /// One operand for each word.
    pub operands: Operands,
    /// The compared value of [`AtomicOp::CompareSwap`].
    pub compare: u64,
    /// The previous values, if they do not go to the program's buffer directly.
    pub previous: Option<Vec<u64>>,
}

/// One or several operands.
pub enum Operands {
    /// One.
    One(u64),
    /// Several.
    Many(Box<[u64]>),
}

impl Operands {
    /// Returns the operand of word `number`.
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
    /// The target.
    pub to: Address,
    /// Number of the transport within the process, if it differs from the route to the peer.
    /// Ignored for atomics, which have [`Atomic::transport`].
    pub transport: Option<usize>,
    /// Whether the library makes this access for its own purposes, so that counters leave it out.
    pub internal: bool,
    /// The exposed segment that contains the blocks.
    pub key: RemoteKey,
    /// Offset of the segment in the window, for a repetition by another protocol.
    pub shift: u64,
    /// The operation.
    pub act: Act,
    /// The target's rank in the window.
    pub target: u32,
    /// The blocks within the segment.
    pub runs: Blocks,
    /// The contiguous local data. NULL for atomics whose results are not wanted. Valid until the
    /// access has ended.
    pub local: *mut u8,
    /// The memory at `local`, if the library owns it.
    pub packed: Option<Vec<u8>>,
    /// The program's buffer, if data that is read does not go there directly.
    pub buffer: Option<Buffer>,
    /// The program's request, which the access completes.
    pub outer: Option<RequestId>,
    /// The flight that the access belongs to.
    pub flight: Arc<Flight>,
    /// Number of the access in its flight.
    pub number: u64,
    /// Number of blocks issued, and their bytes in `moved`.
    pub(crate) next: usize,
    pub(crate) moved: usize,
    /// Number of blocks issued and not complete.
    pub(crate) parts: u32,
    pub(crate) failed: Option<LaneError>,
    /// Whether a caller is about to issue more blocks.
    pub(crate) held: bool,
}

// SAFETY: `local` is memory that the program lends until the access is complete, or the library's
// own memory in `packed`; any thread that makes progress may end the access.
unsafe impl Send for Access {}

impl Access {
    /// Makes an access that has not begun. `local` is the contiguous data, as in the field of that
    /// name.
    #[inline(always)]
    pub fn new(
        (target, to): (u32, Address),
        (key, runs): (RemoteKey, Blocks),
        act: Act,
        local: *mut u8,
        flight: Arc<Flight>,
    ) -> Access {
        Access {
            to,
            transport: None,
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

    /// Number of bytes of all blocks.
    pub fn bytes(&self) -> usize {
        self.runs.list().iter().map(|run| run.1).sum()
    }

    /// Whether the lane has completed all blocks.
    pub(crate) fn is_over(&self) -> bool {
        let issued = self.next == self.runs.list().len() || self.failed.is_some();
        issued && self.parts == 0 && !self.held
    }
}

/// An operation that a lane has not completed.
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
    /// The sink for results of atomics that are not wanted.
    nowhere: Box<u64>,
}

impl Ops {
    /// Returns the index that the next operation gets.
    pub fn next(&mut self) -> u32 {
        if self.free.is_empty() {
            self.free.push(self.slots.len() as u32);
            self.slots.push(None);
        }
        self.free.last().copied().unwrap_or_default()
    }

    /// Returns the sink for a result that is not wanted.
    pub fn nowhere(&mut self) -> *mut u64 {
        &raw mut *self.nowhere
    }

    pub fn token(index: u32) -> Token {
        Token(MARK | u64::from(index))
    }

    /// Inserts an operation at the index that [`Ops::next`] returned.
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

    /// Returns the peers of pending operations.
    pub fn peers(&self) -> impl Iterator<Item = Peer> {
        self.slots.iter().flatten().map(|op| match op {
            Op::Access(access) => access.to.peer,
            Op::Flush { peer, .. } => *peer,
        })
    }
}

impl Engine {
    /// Whether a token belongs to this module.
    #[inline]
    pub fn is_remote(token: Token) -> bool {
        token.0 & MARK != 0
    }

    /// Records that a lane has completed an operation or a block of it.
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

    /// Ends an access whose blocks are all complete.
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
            // Atomics cannot fall back to messages, which would not be atomic towards the network's
            // operations.
            Some(error) if access.is_atomic() => Some(refused(access.target, error)),
            Some(error) => {
                // Falls back to messages; the window's progress takes the access back.
                let flight = access.flight.clone();
                flight.add_refused(access, error);
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
    /// Whether the access is an atomic operation, which only the network can do.
    pub(crate) fn is_atomic(&self) -> bool {
        matches!(self.act, Act::Atomic(_))
    }

    /// Writes data that has arrived in library memory to the program's buffer.
    pub(crate) fn arrive(&mut self) {
        if let (Some(buffer), Act::Atomic(atomic)) = (&mut self.buffer, &self.act)
            && let Some(found) = &atomic.previous
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

/// Makes the error of atomics that a transport refuses although it announced them.
#[cold]
pub fn refused(target: u32, why: LaneError) -> Error {
    Error::new(
        Class::Other,
        format!(
            "the network cannot carry out atomics on the memory of rank {target} ({why}), and nothing \
             else is atomic towards them; set WEFT_RMA_ATOMICS=messages, or leave out the hint \
             which_accumulate_ops, and WEFT_RMA_PASSIVE=off"
        ),
    )
}

/// Number of small accesses between two flushes above which they are a burst.
const BURST: usize = 8;

/// A window's operations in flight on one VCI.
#[derive(Default)]
pub struct Flight {
    state: Mutex<State>,
    /// Number of entries, written targets and errors in `state`, for a check without its lock.
    noted: AtomicUsize,
    /// Length of `State::refused`, for a check without the lock.
    refused: AtomicUsize,
    /// Number of operations that have ended.
    ended: AtomicUsize,
    /// Number of small accesses since the last flush.
    small: AtomicUsize,
    /// Whether the small accesses before the last flush were a burst.
    bursts: AtomicBool,
}

#[derive(Default)]
struct State {
    /// Number of the first entry.
    first: u64,
    entries: VecDeque<Entry>,
    /// Targets written since their last flush began.
    written: Written,
    /// Errors that the next flush reports.
    errors: Vec<(u32, Error)>,
    /// Accesses that a lane failed to carry out, with the reason.
    refused: Vec<(Access, LaneError)>,
}

struct Entry {
    target: u32,
    done: bool,
}

/// A set of targets. Most programs write to few targets between two flushes, and a linear search
/// finds those fastest.
#[derive(Default)]
struct Written {
    few: Vec<u32>,
    many: HashSet<u32>,
}

/// Maximum number of targets in the linear list.
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
        self.refused.store(state.refused.len(), Ordering::Release);
        result
    }

    /// Whether no operation is pending and no target needs a flush.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.noted.load(Ordering::Acquire) == 0
    }

    /// Begins an operation on a target and returns its number.
    #[inline]
    pub fn begin(&self, target: u32) -> u64 {
        self.with(|state| state.begin(target))
    }

    /// Records that a target's memory was written.
    #[inline]
    pub fn wrote(&self, target: u32) {
        self.with(|state| state.written.insert(target));
    }

    /// Counts a small access. Returns whether there are many between two flushes.
    #[inline]
    pub fn is_burst(&self) -> bool {
        // Relaxed: threads may lose counts, which only delays the decision.
        let small = self.small.load(Ordering::Relaxed) + 1;
        self.small.store(small, Ordering::Relaxed);
        small > BURST || self.bursts.load(Ordering::Relaxed)
    }

    /// Ends a burst at a flush; predicts that the next accesses are like the last.
    #[inline]
    pub fn end_burst(&self) {
        let small = self.small.load(Ordering::Relaxed);
        if small != 0 {
            self.small.store(0, Ordering::Relaxed);
            self.bursts.store(small > BURST, Ordering::Relaxed);
        }
    }

    /// Begins the flush of a target and returns its number. `None` if the target was not written.
    #[inline]
    pub fn begin_flush(&self, target: u32) -> Option<u64> {
        self.with(|state| state.written.remove(target).then(|| state.begin(target)))
    }

    /// Begins the flushes of all written targets.
    pub fn begin_flushes(&self) -> Vec<(u32, u64)> {
        self.with(|state| {
            let targets = state.written.take_all();
            let begin = |target| (target, state.begin(target));
            targets.into_iter().map(begin).collect()
        })
    }

    /// Ends the operation of this number.
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

    /// Number that changes when an operation ends; until then a waiting thread need not check
    /// again.
    #[inline]
    pub fn ended(&self) -> usize {
        self.ended.load(Ordering::Acquire)
    }

    /// Number of the next operation.
    #[inline]
    pub fn next_number(&self) -> u64 {
        let state = self.state.lock();
        state.first + state.entries.len() as u64
    }

    /// Whether an operation that began before `until` is pending for a target that `is` selects.
    #[inline]
    pub fn is_pending_before(&self, until: u64, mut is: impl FnMut(u32) -> bool) -> bool {
        let state = self.state.lock();
        let early = until.saturating_sub(state.first) as usize;
        let mut early = state.entries.iter().take(early);
        early.any(|entry| !entry.done && is(entry.target))
    }

    /// Returns the first error of accesses to a target, or to any, and drops the others.
    pub fn take_error(&self, target: Option<u32>) -> Option<Error> {
        self.with(|state| {
            let is = |one: &(u32, Error)| target.is_none_or(|target| one.0 == target);
            let place = state.errors.iter().position(is)?;
            let error = state.errors.remove(place).1;
            state.errors.retain(|one| !is(one));
            Some(error)
        })
    }

    fn add_refused(&self, access: Access, why: LaneError) {
        self.with(|state| state.refused.push((access, why)));
    }

    /// Whether [`Flight::take_refused`] returns accesses.
    #[inline]
    pub fn has_refused(&self) -> bool {
        self.refused.load(Ordering::Acquire) != 0
    }

    /// Takes the accesses that a lane accepted and failed to carry out. They are still pending by
    /// their numbers and must be repeated by another protocol.
    pub fn take_refused(&self) -> Vec<(Access, LaneError)> {
        self.with(|state| std::mem::take(&mut state.refused))
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
    fn flushes_wait_for_earlier_operations_on_their_target() {
        let flight = Flight::default();
        let (a, b) = (flight.begin(1), flight.begin(2));
        let until = flight.next_number();
        let later = flight.begin(1);
        assert!(
            flight.is_pending_before(until, |it| it == 1)
                && flight.is_pending_before(until, |it| it == 2)
        );
        assert!(!flight.is_pending_before(until, |it| it == 3));
        flight.end(b, None);
        assert!(
            !flight.is_pending_before(until, |it| it == 2)
                && flight.is_pending_before(until, |_| true)
        );
        flight.end(a, None);
        assert!(
            !flight.is_pending_before(until, |_| true),
            "the one begun later is still under way"
        );
        flight.end(later, Some(Error::new(Class::ProcFailed, "gone")));
        assert!(flight.take_error(Some(2)).is_none());
        assert!(!flight.is_quiet());
        assert!(flight.take_error(None).is_some());
        assert!(flight.is_quiet());
    }

    #[test]
    fn a_second_flush_waits_for_the_pending_first() {
        let flight = Flight::default();
        flight.wrote(7);
        flight.wrote(7);
        assert_eq!(flight.begin_flush(8), None);
        let begun = flight.begin_flush(7).expect("it was written to");
        assert!(flight.begin_flushes().is_empty());
        assert!(flight.is_pending_before(flight.next_number(), |it| it == 7));
        flight.end(begun, None);
        assert!(flight.is_quiet());
    }

    #[test]
    fn each_written_target_is_flushed_once() {
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
