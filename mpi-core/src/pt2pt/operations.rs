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
use smallvec::SmallVec;

use crate::error::{Class, Error};
use crate::pt2pt::buffer::Buffer;
use crate::pt2pt::engine::{Address, Engine, failed};
use crate::pt2pt::request::{RequestId, Status};

/// Marks the tokens of this module; other tokens are numbers of requests.
const MARK: u64 = 1 << 63;

/// A contiguous block of a target's memory: offset and length.
pub type Block = (u64, usize);

/// Blocks of a target's memory; one needs no allocation.
pub type Blocks = SmallVec<[Block; 1]>;

/// The operation of an access.
pub enum Act {
    /// Reads the blocks.
    Get,
    /// Writes the blocks.
    Put,
    /// Changes words atomically, which are the blocks.
    Atomic(Atomic),
    /// Waits until the target has completed all earlier writes. Has one block, which is empty.
    Flush,
}

/// An atomic operation on words of 8 bytes.
pub struct Atomic {
    /// The operation on each word.
    pub op: AtomicOp,
    /// One operand for each word.
    pub operands: SmallVec<[u64; 1]>,
    /// The compared value of [`AtomicOp::CompareSwap`].
    pub compare: u64,
}

/// Memory of the library that stands in for the program's buffer.
pub struct Bounce {
    /// The data.
    pub memory: Vec<u64>,
    /// The program's buffer, which gets data that is read.
    pub buffer: Option<Buffer>,
}

/// A put, a get, atomics, or a flush.
pub struct Access {
    /// The target.
    pub to: Address,
    /// Number of the transport within the process, if it may differ from the route to the peer.
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
    pub blocks: Blocks,
    /// The contiguous local data. NULL for atomics whose results are not wanted. Valid until the
    /// access has ended.
    pub local: *mut u8,
    /// The memory at `local`, if the library owns it.
    pub bounce: Option<Box<Bounce>>,
    /// The program's request, which the access completes.
    pub outer: Option<RequestId>,
    /// Number of the access in its flight: of a flush from the beginning, of others while they are
    /// pending.
    pub number: Option<u64>,
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
// own memory in `bounce`; any thread that makes progress may end the access.
unsafe impl Send for Access {}

impl Access {
    /// Makes an access that has not begun. `local` is the contiguous data, as in the field of that
    /// name.
    #[inline(always)]
    pub fn new(
        (target, to): (u32, Address),
        (key, blocks): (RemoteKey, Blocks),
        act: Act,
        local: *mut u8,
    ) -> Access {
        Access {
            to,
            transport: None,
            internal: false,
            key,
            shift: 0,
            act,
            target,
            blocks,
            local,
            bounce: None,
            outer: None,
            number: None,
            next: 0,
            moved: 0,
            parts: 0,
            failed: None,
            held: false,
        }
    }

    /// Number of bytes of all blocks.
    pub fn bytes(&self) -> usize {
        self.blocks.iter().map(|block| block.1).sum()
    }

    /// Whether the lane has completed all blocks.
    pub(crate) fn is_over(&self) -> bool {
        let issued = self.next == self.blocks.len() || self.failed.is_some();
        issued && self.parts == 0 && !self.held
    }

    /// Writes data that has arrived in library memory to the program's buffer.
    pub(crate) fn arrive(&mut self) {
        let len = self.bytes();
        if let Some(bounce) = &mut self.bounce
            && let Some(buffer) = &mut bounce.buffer
        {
            // SAFETY: `local` is the bounce's memory, which has the bytes of all blocks.
            let data = unsafe { std::slice::from_raw_parts(self.local, len) };
            buffer.write(0, data);
        }
    }
}

/// An access that a lane has not completed, and its flight.
pub(crate) struct Pending {
    pub access: Access,
    pub flight: Arc<Flight>,
}

/// The pending operations of a VCI.
#[derive(Default)]
pub(crate) struct Ops {
    slots: Vec<Option<Pending>>,
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
    #[inline]
    pub fn insert(&mut self, pending: Pending) -> u32 {
        let index = self.next();
        self.free.pop();
        self.slots[index as usize] = Some(pending);
        index
    }

    #[inline]
    pub fn get(&mut self, index: u32) -> Option<&mut Pending> {
        self.slots.get_mut(index as usize)?.as_mut()
    }

    /// Returns the peers of pending operations.
    pub fn peers(&self) -> impl Iterator<Item = Peer> {
        let pending = self.slots.iter().flatten();
        pending.map(|pending| pending.access.to.peer)
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
        if let Some(Pending { access, .. }) = self.remote.get(index) {
            access.parts -= 1;
            if let Err(error) = result {
                access.failed.get_or_insert(error);
            }
            self.end_if_over(index);
        }
    }

    /// Ends an access whose blocks are all complete.
    pub fn end_if_over(&mut self, index: u32) {
        let Some(slot) = self.remote.slots.get_mut(index as usize) else {
            return;
        };
        let Some(Pending { access, flight }) = slot else {
            return;
        };
        if !access.is_over() {
            return;
        }
        let number = access.number.unwrap_or_default();
        let error = match access.failed.take() {
            None => {
                access.arrive();
                None
            }
            // Atomics cannot fall back to messages, which would not be atomic towards the network's
            // operations.
            Some(error) => match (&access.act, error) {
                (Act::Flush, error) | (_, error @ LaneError::PeerLost(_)) => Some(failed(error)),
                (Act::Atomic(_), error) => Some(refused(access.target, error)),
                (_, error) => {
                    // Falls back to messages; the window's progress takes the access back.
                    if let Some(Pending { access, flight }) = slot.take() {
                        flight.add_refused(access, error);
                        self.remote.free.push(index);
                    }
                    return;
                }
            },
        };
        let error = match access.outer {
            Some(outer) => {
                self.records.complete(outer, Status::EMPTY, error);
                None
            }
            None => error,
        };
        flight.end(number, error);
        *slot = None;
        self.remote.free.push(index);
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
