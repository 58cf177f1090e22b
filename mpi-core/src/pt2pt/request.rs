//! Requests: one table per process, a cache of free ones per VCI.
//!
//! A request has two halves. The *public* half says whether it is complete and with what result;
//! any thread may look at it without a lock. The *record* is the VCI's own note of what is to be
//! done; it is reached only through [`Records`], of which each VCI has one behind its lock.
//!
//! Numbers, not pointers, name requests, so that they fit the handles of any ABI and that a wrong
//! one is found out.

use std::sync::{Arc, OnceLock};

use netmod::{Peer, Pipe, RemoteKey, VciId};

use crate::error::Error;
use crate::pt2pt::buffer::Buffer;
use crate::pt2pt::matching::Place;
use crate::pt2pt::wire::{Key, Name};
use crate::sync::{
    AtomicBool, AtomicI32, AtomicU16, AtomicU32, AtomicU64, Mutex, Ordering, UnsafeCell,
};
use crate::{ANY_SOURCE, ANY_TAG};

mod lost;

mod around;
#[cfg(not(loom))]
pub(crate) mod debugger;
#[cfg(all(test, loom))]
mod loom_tests;
mod status;

pub use status::{Cancelled, Status};

/// Names a request of a process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct RequestId(u32);

impl RequestId {
    /// The greatest number of requests alive at once: half of what the 26 bits of a handle can name,
    /// the other half being left to the ABI's own kinds of requests.
    pub const LIMIT: u32 = 1 << 25;

    /// The request numbered `index`, if a request can have that number.
    #[inline(always)]
    pub fn from_index(index: u32) -> Option<RequestId> {
        (index < Self::LIMIT).then_some(RequestId(index))
    }

    /// Its number, below [`RequestId::LIMIT`].
    #[inline(always)]
    pub fn index(self) -> u32 {
        self.0
    }
}

const FREE: u32 = 0;
const ACTIVE: u32 = 1;
const DONE: u32 = 2;

/// A request: the public half, and the record.
pub struct Request {
    state: AtomicU32,
    vci: AtomicU16,
    owner: AtomicU32,
    cancelled: AtomicBool,
    failed: AtomicBool,
    source: AtomicI32,
    tag: AtomicI32,
    bytes: AtomicU64,
    next_returned: AtomicU32,
    error: Mutex<Option<Error>>,
    record: UnsafeCell<Record>,
}

// SAFETY: everything but `record` is atomic or locked. `record` is reached only by `Records::get`,
// through the one `Records` of the VCI that `vci` names, and that is behind the VCI's lock; it
// changes its VCI only while it is free, through the table's locked pool.
unsafe impl Sync for Request {}

impl Request {
    fn new() -> Self {
        Request {
            state: AtomicU32::new(FREE),
            vci: AtomicU16::new(0),
            owner: AtomicU32::new(0),
            cancelled: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            source: AtomicI32::new(ANY_SOURCE),
            tag: AtomicI32::new(ANY_TAG),
            bytes: AtomicU64::new(0),
            next_returned: AtomicU32::new(NIL),
            error: Mutex::new(None),
            record: UnsafeCell::new(Record::IDLE),
        }
    }

    /// Whether the operation is complete; its result may then be read.
    #[inline(always)]
    pub fn is_done(&self) -> bool {
        self.state.load(Ordering::Acquire) == DONE
    }

    /// Whether the request exists (was started and not freed).
    #[inline(always)]
    pub fn is_live(&self) -> bool {
        self.state.load(Ordering::Relaxed) != FREE
    }

    /// Whether the request exists and is not complete.
    #[inline(always)]
    pub fn is_under_way(&self) -> bool {
        self.state.load(Ordering::Relaxed) == ACTIVE
    }

    #[inline(always)]
    fn set_free(&self) {
        self.state.store(FREE, Ordering::Relaxed);
    }

    /// The VCI whose progress completes it.
    #[inline(always)]
    pub fn vci(&self) -> VciId {
        self.vci.load(Ordering::Relaxed)
    }

    /// What the caller gave as owner when the operation was started.
    pub fn owner(&self) -> u32 {
        self.owner.load(Ordering::Relaxed)
    }

    /// The status of a completed request.
    #[inline]
    pub fn status(&self) -> Status {
        debug_assert!(self.is_done());
        self.read_status()
    }

    /// Whether a completed request ended with an error.
    #[inline(always)]
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// The result of a completed request; the error is handed out once.
    #[inline]
    pub fn result(&self) -> (Status, Option<Error>) {
        let status = self.status();
        let error = if self.has_failed() {
            self.error.lock().take()
        } else {
            None
        };
        (status, error)
    }

    /// Publishes the result. Called by the VCI that owns the request.
    #[inline]
    fn finish(&self, status: Status, error: Option<Error>) {
        self.source.store(status.source, Ordering::Relaxed);
        self.tag.store(status.tag, Ordering::Relaxed);
        self.bytes.store(status.bytes, Ordering::Relaxed);
        self.cancelled
            .store(status.is_cancelled(), Ordering::Relaxed);
        if let Some(error) = error {
            *self.error.lock() = Some(error);
            self.failed.store(true, Ordering::Relaxed);
        }
        self.state.store(DONE, Ordering::Release);
    }
}

/// What a VCI notes of a request it is working on.
pub(crate) struct Record {
    pub role: Role,
    /// The user has let go of it (`MPI_Request_free`): free it when it completes.
    pub detached: bool,
    /// A send that completes only when it has matched.
    pub sync: bool,
    /// The data to be sent, or the place for what is received.
    pub buffer: Buffer,
    /// What a receive matches, or what a send is matched by.
    pub key: Key,
    /// The other side, once known.
    pub peer: Peer,
    /// The other side's VCI.
    pub peer_vci: VciId,
    /// The other side's request, once known.
    pub remote: Name,
    /// Counts the uses of this number in which others are told of it.
    pub generation: u32,
    /// Bytes that will be moved.
    pub total: u64,
    /// Bytes that have been moved.
    pub moved: u64,
    /// Error found while data was still to come (truncation).
    pub error: Option<Error>,
    /// What a sender exposed for its receiver to read.
    pub exposed: Option<RemoteKey>,
    /// The address of the receiver's buffer, where a sender of this node may put the data: what the
    /// sender was told, or the receiver has told it.
    pub place: Option<u64>,
    /// The pipe that the data of a send goes through.
    pub pipe: Option<Pipe>,
    /// Nanoseconds that a receiver has taken to read the data from its sender's memory.
    pub spent: u64,
    /// The receiver was asked to give the message back.
    pub asked_back: bool,
    /// The transport is reading a sender's memory, and will tell when it is done.
    pub fetching: bool,
}

/// Where a request stands in its protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum Role {
    /// Free, or complete.
    Idle,
    /// A receive in the posted queue.
    Posted(Place),
    /// A receive whose data is being fetched or streamed to it.
    Receiving,
    /// A send that waits for room in the transport; nothing has left yet.
    Queued,
    /// A synchronous eager send that waits to be matched.
    AwaitingAck,
    /// A rendezvous send that waits for the receiver to fetch or ask.
    AwaitingReceiver,
    /// A rendezvous send whose data is being streamed.
    Streaming,
    /// A send that the transport takes straight from the program's memory, and will tell when it is
    /// done.
    Leaving,
    /// A send that is over but for the withdrawal of its memory.
    Ending,
    /// Completed by its owner, not by the protocol (collectives, generalized requests).
    Outside,
}

impl Record {
    /// Whether it is a send whose receiver may read the data by itself, and say so then. One that uses a pipe may
    /// hear that before it finds that the pipe is closed.
    pub fn waits_for_fin(&self) -> bool {
        match self.role {
            Role::AwaitingReceiver => true,
            Role::Streaming => self.pipe.is_some(),
            _ => false,
        }
    }

    /// Publishes the result of the request that it is of. Returns whether the user has let go of it, so that it is
    /// to be freed.
    #[inline(always)]
    pub fn conclude(&mut self, request: &Request, status: Status, error: Option<Error>) -> bool {
        self.role = Role::Idle;
        self.buffer = Buffer::EMPTY;
        let detached = std::mem::take(&mut self.detached);
        request.finish(status, error);
        detached
    }

    /// Whether it is a send that its receiver may be asked to give back.
    pub fn is_recallable(&self) -> bool {
        matches!(self.role, Role::AwaitingAck) || self.waits_for_fin()
    }

    const IDLE: Record = Record {
        role: Role::Idle,
        detached: false,
        sync: false,
        buffer: Buffer::EMPTY,
        key: Key {
            context: 0,
            source: 0,
            tag: 0,
        },
        peer: 0,
        peer_vci: 0,
        remote: Name::NONE,
        generation: 0,
        total: 0,
        moved: 0,
        error: None,
        exposed: None,
        place: None,
        pipe: None,
        spent: 0,
        asked_back: false,
        fetching: false,
    };
}

const NIL: u32 = u32::MAX;
/// Requests are handed to VCIs in blocks of this many (few where loom tries all orders).
const BLOCK: u32 = if cfg!(loom) { 4 } else { 64 };
/// A cache that holds more free requests than this gives a half back.
const CACHE_LIMIT: usize = if cfg!(loom) { 4 } else { 1024 };
const SEGMENTS: usize = 20;

/// All requests of a process. Grows in segments, each twice the one before, that never move.
pub struct RequestTable {
    segments: [OnceLock<Box<[Request]>>; SEGMENTS],
    /// Blocks not handed out yet begin here; free requests that caches gave back.
    pool: Mutex<Pool>,
    /// Whether VCIs keep free requests for themselves.
    cached: bool,
}

struct Pool {
    next: u32,
    free: Vec<u32>,
}

impl RequestTable {
    /// An empty table.
    pub fn new() -> Arc<Self> {
        RequestTable::with_caches(true)
    }

    /// Without caches each request is taken from the common pool, and given back to it by threads:
    /// for measuring what the caches are worth.
    pub fn with_caches(cached: bool) -> Arc<Self> {
        Arc::new(RequestTable {
            cached,
            segments: [const { OnceLock::new() }; SEGMENTS],
            pool: Mutex::new(Pool {
                next: 0,
                free: Vec::new(),
            }),
        })
    }

    #[inline(always)]
    fn locate(index: u32) -> (usize, usize) {
        let position = index + BLOCK;
        let segment = 31 - position.leading_zeros() - BLOCK.trailing_zeros();
        (segment as usize, (position - (BLOCK << segment)) as usize)
    }

    /// The request named `id`, if that number has ever been in use.
    #[inline(always)]
    pub fn get(&self, id: RequestId) -> Option<&Request> {
        let (segment, offset) = Self::locate(id.0);
        self.segments.get(segment)?.get()?.get(offset)
    }

    /// The owners of all requests whose result somebody may still take (slow).
    pub fn owners(&self) -> Vec<u32> {
        let mut owners: Vec<u32> = self.live().map(Request::owner).collect();
        owners.sort_unstable();
        owners.dedup();
        owners
    }

    fn live(&self) -> impl Iterator<Item = &Request> {
        let next = self.pool.lock().next;
        let requests = (0..next).filter_map(|index| self.get(RequestId(index)));
        requests.filter(|request| request.is_live())
    }

    /// Fills `free` with a block of requests for `vci`. Returns `false` when all are in use.
    #[cold]
    fn refill(&self, vci: VciId, free: &mut Vec<u32>) -> bool {
        let mut pool = self.pool.lock();
        if pool.free.is_empty() {
            if pool.next + BLOCK > RequestId::LIMIT {
                return false;
            }
            let (segment, _) = Self::locate(pool.next);
            self.segments[segment]
                .get_or_init(|| (0..BLOCK << segment).map(|_| Request::new()).collect());
            let first = pool.next;
            pool.next += BLOCK;
            let made = (first..pool.next).rev();
            pool.free.extend(made);
        }
        let wanted = if self.cached { BLOCK as usize } else { 1 };
        let keep = pool.free.len().saturating_sub(wanted);
        free.extend(pool.free.drain(keep..));
        for &index in free.iter() {
            if let Some(request) = self.get(RequestId(index)) {
                request.vci.store(vci, Ordering::Relaxed);
            }
        }
        true
    }
}

/// A VCI's own access to its requests and the cache of those that are free.
///
/// There is one for each VCI, behind the VCI's lock.
pub(crate) struct Records {
    table: Arc<RequestTable>,
    vci: VciId,
    free: Vec<u32>,
    /// So many free ones are kept; half of them when there are more.
    limit: usize,
    returned: Arc<Returned>,
}

/// Requests that threads gave back without the VCI's lock: a stack that is only ever emptied whole,
/// so that no number can return to the top unnoticed.
pub(crate) struct Returned {
    top: AtomicU32,
}

impl Returned {
    /// Gives back a completed request without holding its VCI's lock.
    pub fn give(&self, table: &RequestTable, id: RequestId) {
        let Some(request) = table.get(id) else { return };
        request.state.store(FREE, Ordering::Relaxed);
        if !table.cached {
            table.pool.lock().free.push(id.0);
            return;
        }
        let mut top = self.top.load(Ordering::Relaxed);
        loop {
            request.next_returned.store(top, Ordering::Relaxed);
            // Release: whoever takes the stack sees the link and the freed state.
            match self
                .top
                .compare_exchange_weak(top, id.0, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(now) => top = now,
            }
        }
    }
}

impl Records {
    pub fn new(table: Arc<RequestTable>, vci: VciId) -> Self {
        let returned = Arc::new(Returned {
            top: AtomicU32::new(NIL),
        });
        Records {
            limit: if table.cached { CACHE_LIMIT } else { 0 },
            table,
            vci,
            free: Vec::with_capacity(BLOCK as usize),
            returned,
        }
    }

    /// Where threads give requests back without the lock.
    pub fn returned(&self) -> Arc<Returned> {
        self.returned.clone()
    }

    /// What was given as owner when a request was started.
    pub fn owner_of(&self, id: RequestId) -> u32 {
        self.table.get(id).map_or(0, Request::owner)
    }

    /// A new request, active, for `owner`. `None` when the table is full.
    #[inline]
    pub fn start(&mut self, owner: u32) -> Option<RequestId> {
        self.start_noted(owner).map(|(id, _)| id)
    }

    /// As [`Records::start`], with its record.
    #[inline(always)]
    pub fn start_noted(&mut self, owner: u32) -> Option<(RequestId, &mut Record)> {
        let index = match self.free.pop() {
            Some(index) => index,
            None => self.find_free()?,
        };
        let id = RequestId(index);
        let request = self.table.get(id)?;
        request.failed.store(false, Ordering::Relaxed);
        request.owner.store(owner, Ordering::Relaxed);
        // Release: who finds the request active finds whose it is (see `get`).
        request.state.store(ACTIVE, Ordering::Release);
        // SAFETY: the request was free in this VCI's cache and is active now, so that nobody but this `Records`
        // reaches its record; `&mut self` makes the reference the only one.
        Some((id, unsafe { &mut *request.record.get() }))
    }

    #[cold]
    fn find_free(&mut self) -> Option<u32> {
        // Acquire: pairs with the release in `give`.
        let mut top = self.returned.top.swap(NIL, Ordering::Acquire);
        while top != NIL {
            self.free.push(top);
            top = self
                .table
                .get(RequestId(top))?
                .next_returned
                .load(Ordering::Relaxed);
        }
        if self.free.len() > self.limit {
            self.give_half_back();
        }
        if self.free.is_empty() && !self.table.refill(self.vci, &mut self.free) {
            return None;
        }
        self.free.pop()
    }

    /// The record of an active request of this VCI; `None` if `id` is not one, which a message from
    /// outside can bring about.
    #[inline(always)]
    pub fn get(&mut self, id: RequestId) -> Option<&mut Record> {
        self.find(id).map(|(_, record)| record)
    }

    /// As [`Records::get`], with the public half.
    #[inline(always)]
    pub fn find(&mut self, id: RequestId) -> Option<(&Request, &mut Record)> {
        let request = self.table.get(id)?;
        // Acquire, and first of the two: if another VCI has started the request since it was ours,
        // the VCI read next is that one's.
        if request.state.load(Ordering::Acquire) != ACTIVE
            || request.vci.load(Ordering::Relaxed) != self.vci
        {
            return None;
        }
        // SAFETY: the request is active and belongs to this VCI, so nobody but this `Records`
        // reaches its record; it stays so until this `Records` completes it, and `&mut self` makes
        // the reference the only one.
        Some((request, unsafe { &mut *request.record.get() }))
    }

    /// The record that a name stands for; `None` if its number has another use by now, or none.
    ///
    /// A role that nobody is told of may have the name of one before it: look at the role too.
    pub fn named(&mut self, name: Name) -> Option<&mut Record> {
        let record = self.get(name.id()?)?;
        (u64::from(record.generation) == name.generation()).then_some(record)
    }

    /// An active request under a name that no use of its number has had.
    #[inline]
    pub fn find_renamed(&mut self, id: RequestId) -> Option<(Name, &mut Record)> {
        let record = self.get(id)?;
        record.generation = record.generation.wrapping_add(1);
        Some((Name::new(id, record.generation), record))
    }

    /// The name of an active request.
    pub fn name(&mut self, id: RequestId) -> Name {
        let generation = self.get(id).map_or(0, |record| record.generation);
        Name::new(id, generation)
    }

    /// Publishes the result of a request; frees it if its user has let go of it.
    #[inline]
    pub fn complete(&mut self, id: RequestId, status: Status, error: Option<Error>) {
        let Some((request, record)) = self.find(id) else {
            return;
        };
        if record.conclude(request, status, error) {
            self.free(id);
        }
    }

    /// Frees a completed request.
    #[inline]
    pub fn free(&mut self, id: RequestId) {
        let Some(request) = self.table.get(id) else {
            return;
        };
        request.set_free();
        self.keep(id);
    }

    /// As [`Records::free`], of a request that has been looked up.
    #[inline(always)]
    pub fn free_found(&mut self, id: RequestId, request: &Request) {
        request.set_free();
        self.keep(id);
    }

    #[inline(always)]
    fn keep(&mut self, id: RequestId) {
        self.free.push(id.0);
        if self.free.len() > self.limit {
            self.give_half_back();
        }
    }

    /// Leaves other VCIs what this one is unlikely to need.
    #[cold]
    fn give_half_back(&mut self) {
        let half = self.free.split_off(self.limit / 2);
        self.table.pool.lock().free.extend(half);
    }

    /// All active requests of this VCI (for reports; slow).
    pub fn active(&self) -> Vec<RequestId> {
        let next = self.table.pool.lock().next;
        let mine = |id: &RequestId| {
            self.table.get(*id).is_some_and(|request| {
                request.vci() == self.vci && request.state.load(Ordering::Relaxed) == ACTIVE
            })
        };
        (0..next).map(RequestId).filter(mine).collect()
    }

    /// Whether somebody may still take the result of a request of this VCI (slow).
    pub fn any_live(&self) -> bool {
        self.table.live().any(|request| request.vci() == self.vci)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn positions_are_dense_and_segments_double() {
        let mut expected = (0, 0);
        for index in 0..100_000 {
            assert_eq!(RequestTable::locate(index), expected);
            expected.1 += 1;
            if expected.1 == (BLOCK as usize) << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
        let (segment, offset) = RequestTable::locate(RequestId::LIMIT - 1);
        assert!(segment < SEGMENTS && offset < (BLOCK as usize) << segment);
    }

    #[test]
    fn freed_requests_come_back_by_both_ways() {
        let table = RequestTable::new();
        let mut records = Records::new(table.clone(), 3);
        let returned = records.returned();
        let ids: Vec<_> = (0..BLOCK).map(|_| records.start(0).unwrap()).collect();
        for (i, &id) in ids.iter().enumerate() {
            assert!(table.get(id).unwrap().is_live());
            assert_eq!(table.get(id).unwrap().vci(), 3);
            records.complete(id, Status::EMPTY, None);
            assert!(table.get(id).unwrap().is_done());
            if i % 2 == 0 {
                records.free(id)
            } else {
                returned.give(&table, id)
            }
            assert!(!table.get(id).unwrap().is_live());
        }
        let mut again: Vec<_> = (0..BLOCK).map(|_| records.start(0).unwrap()).collect();
        again.sort();
        assert_eq!(again, ids, "no request was lost and none was made");
    }

    #[test]
    fn detached_requests_free_themselves() {
        let table = RequestTable::new();
        let mut records = Records::new(table.clone(), 0);
        let id = records.start(0).unwrap();
        records.get(id).unwrap().detached = true;
        records.complete(id, Status::EMPTY, None);
        assert!(!table.get(id).unwrap().is_live());
        assert!(records.get(id).is_none());
    }

    #[test]
    fn caches_give_back_what_threads_gave_back_to_them() {
        let table = RequestTable::new();
        let mut records = Records::new(table.clone(), 0);
        let returned = records.returned();
        let ids: Vec<_> = (0..3000).map(|_| records.start(0).unwrap()).collect();
        for id in ids {
            records.complete(id, Status::EMPTY, None);
            returned.give(&table, id);
        }
        while records
            .start(0)
            .is_some_and(|_| table.pool.lock().free.is_empty())
        {
            assert!(
                table.pool.lock().next < 4000,
                "the cache keeps what it does not need"
            );
        }
    }

    #[test]
    fn caches_give_back_what_they_do_not_need() {
        let table = RequestTable::new();
        let mut one = Records::new(table.clone(), 0);
        let ids: Vec<_> = (0..3000).map(|_| one.start(0).unwrap()).collect();
        for id in ids {
            one.complete(id, Status::EMPTY, None);
            one.free(id);
        }
        let before = table.pool.lock().next;
        let mut two = Records::new(table.clone(), 1);
        for _ in 0..1000 {
            let id = two.start(0).unwrap();
            assert_eq!(table.get(id).unwrap().vci(), 1);
        }
        assert_eq!(
            table.pool.lock().next,
            before,
            "the other VCI's were reused"
        );
    }
}
