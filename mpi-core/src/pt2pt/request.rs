//! The request pool: one table of requests per process, and a cache of free ones per VCI.
//!
//! A request has two halves. The *public* half holds the state and the result; any thread reads it
//! without a lock. The *record* is the VCI's state of the operation; it is accessed only through
//! [`Records`], of which each VCI has one behind its lock.
//!
//! Requests are named by number instead of by pointer, so that they fit the handles of any ABI and
//! a wrong one is detected.

use std::sync::{Arc, OnceLock};

use netmod::{Peer, Pipe, RemoteKey, VciId};

use crate::error::Error;
use crate::pt2pt::buffer::Buffer;
use crate::pt2pt::matching::EntryId;
use crate::pt2pt::wire::{Key, Name};
use crate::sync::{
    AtomicBool, AtomicI32, AtomicU16, AtomicU32, AtomicU64, Mutex, Ordering, UnsafeCell,
};
use crate::{ANY_SOURCE, ANY_TAG};

mod lost;

#[cfg(not(loom))]
pub(crate) mod debugger;
#[cfg(all(test, loom))]
mod loom_tests;
mod scan;
mod status;

pub use status::{Cancelled, Status};

/// Identifies a request of a process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct RequestId(u32);

impl RequestId {
    /// Maximum number of live requests: half of the 26 bits of a handle. The other half is for the
    /// request types of the ABI.
    pub const LIMIT: u32 = 1 << 25;

    /// Returns the request numbered `index`, if that is in range.
    #[inline(always)]
    pub fn from_index(index: u32) -> Option<RequestId> {
        (index < Self::LIMIT).then_some(RequestId(index))
    }

    /// Returns the number, which is below [`RequestId::LIMIT`].
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

// SAFETY: all fields but `record` are atomic or locked. `record` is accessed only by `Records`,
// through the one instance of the VCI that `vci` names, which is behind that VCI's lock. `vci`
// changes only while the request is free, under the lock of the table's pool.
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

    /// Whether the operation is complete, so that its result may be read.
    #[inline(always)]
    pub fn is_done(&self) -> bool {
        self.state.load(Ordering::Acquire) == DONE
    }

    /// Whether the request exists: started and not freed.
    #[inline(always)]
    pub fn is_live(&self) -> bool {
        self.state.load(Ordering::Relaxed) != FREE
    }

    /// Whether the request exists and is not complete.
    #[inline(always)]
    pub fn is_pending(&self) -> bool {
        self.state.load(Ordering::Relaxed) == ACTIVE
    }

    #[inline(always)]
    fn set_free(&self) {
        self.state.store(FREE, Ordering::Relaxed);
    }

    /// Returns the VCI whose progress completes the request.
    #[inline(always)]
    pub fn vci(&self) -> VciId {
        self.vci.load(Ordering::Relaxed)
    }

    /// Returns the owner that the caller gave when the operation started.
    pub fn owner(&self) -> u32 {
        self.owner.load(Ordering::Relaxed)
    }

    /// Returns the status of a completed request.
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

    /// Returns the result of a completed request. The error is returned once.
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

/// The state of an operation, kept by its VCI.
pub(crate) struct Record {
    pub role: Role,
    /// Whether the program has freed the request (`MPI_Request_free`), so that completion frees it.
    pub detached: bool,
    /// Whether the send completes only when it has matched.
    pub sync: bool,
    /// The data to send, or the receive buffer.
    pub buffer: Buffer,
    /// The key that a receive matches, or that a send is matched by.
    pub key: Key,
    /// The peer, once known.
    pub peer: Peer,
    /// The peer's VCI.
    pub peer_vci: VciId,
    /// The peer's request, once known.
    pub remote: Name,
    /// Number of uses of this request that were named to peers.
    pub generation: u32,
    /// Bytes to move.
    pub total: u64,
    /// Bytes moved so far.
    pub moved: u64,
    /// Error that is reported once all data has arrived (truncation).
    pub error: Option<Error>,
    /// The key by which the receiver reads an exposed send buffer.
    pub exposed: Option<RemoteKey>,
    /// The address of the receive buffer for a sender of this node that writes the data itself.
    pub place: Option<u64>,
    /// The pipeline that carries the data of a send.
    pub pipe: Option<Pipe>,
    /// Whether the receiver was asked to give the message back.
    pub asked_back: bool,
    /// Whether the transport is reading the sender's memory and will report completion.
    pub fetching: bool,
}

/// The protocol state of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum Role {
    /// Free, or complete.
    Idle,
    /// A receive in the posted queue.
    Posted(EntryId),
    /// A receive whose data is being read or streamed.
    Receiving,
    /// A send that waits for space in the transport; nothing has been sent.
    Queued,
    /// A synchronous eager send that waits to be matched.
    AwaitingAck,
    /// A rendezvous send that waits for the receiver's read or `Cts`.
    AwaitingReceiver,
    /// A rendezvous send whose data is being streamed.
    Streaming,
    /// A send whose data the transport reads from the program's memory; it will report completion.
    Leaving,
    /// A complete send whose exposed memory must still be withdrawn.
    Ending,
    /// Completed by its owner, not by the protocol (collectives, generalized requests).
    External,
}

impl Record {
    /// Gives the request `id`, which this record belongs to, a new name that no earlier use of its
    /// number had.
    pub fn rename(&mut self, id: RequestId) -> Name {
        self.generation = self.generation.wrapping_add(1);
        Name::new(id, self.generation)
    }

    /// Whether the request is a send whose receiver may read the data itself and answer `Fin`. A
    /// send through a pipeline may get `Fin` before it finds the pipeline closed.
    pub fn waits_for_fin(&self) -> bool {
        match self.role {
            Role::AwaitingReceiver => true,
            Role::Streaming => self.pipe.is_some(),
            _ => false,
        }
    }

    /// Publishes the result of `request`, which this record belongs to. Returns whether the program
    /// has freed it, so that the caller must.
    #[inline(always)]
    pub fn conclude(&mut self, request: &Request, status: Status, error: Option<Error>) -> bool {
        self.role = Role::Idle;
        self.buffer = Buffer::EMPTY;
        let detached = std::mem::take(&mut self.detached);
        request.finish(status, error);
        detached
    }

    /// Whether the request is a send that its receiver may be asked to give back.
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
        asked_back: false,
        fetching: false,
    };
}

const NIL: u32 = u32::MAX;
/// Number of requests that a VCI takes from the pool at once; few under loom.
const BLOCK: u32 = if cfg!(loom) { 4 } else { 64 };
/// Number of free requests above which a cache returns half of them to the pool.
const CACHE_LIMIT: usize = if cfg!(loom) { 4 } else { 1024 };
const SEGMENTS: usize = 20;

/// All requests of a process, in segments of doubling size that never move.
pub struct RequestTable {
    segments: [OnceLock<Box<[Request]>>; SEGMENTS],
    /// Blocks that are not handed out, and free requests that caches have returned.
    pool: Mutex<Pool>,
    /// Whether VCIs cache free requests.
    cached: bool,
}

struct Pool {
    next: u32,
    free: Vec<u32>,
}

impl RequestTable {
    /// Creates an empty table.
    pub fn new() -> Arc<Self> {
        RequestTable::with_caches(true)
    }

    /// Creates an empty table. Without caches each request comes from the pool and returns to it,
    /// for measurements of what the caches save.
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

    /// Returns the request `id`, if that number was ever in use.
    #[inline(always)]
    pub fn get(&self, id: RequestId) -> Option<&Request> {
        let (segment, offset) = Self::locate(id.0);
        self.segments.get(segment)?.get()?.get(offset)
    }

    /// Returns the owners of all live requests. Slow.
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

    /// Adds a block of free requests for `vci` to `free`. Returns false if all are in use.
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

/// A VCI's access to its records, with its cache of free requests.
///
/// Each VCI has one, behind its lock.
pub(crate) struct Records {
    table: Arc<RequestTable>,
    vci: VciId,
    free: Vec<u32>,
    /// Number of free requests above which half of them go to the pool.
    limit: usize,
    returned: Arc<Returned>,
}

/// Requests that threads have freed without the VCI's lock. A stack that is only emptied as a
/// whole, so that it has no ABA problem.
pub(crate) struct Returned {
    top: AtomicU32,
}

impl Returned {
    /// Frees a completed request without its VCI's lock.
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
            // Release: the thread that takes the stack sees the link and the FREE state.
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

    /// Returns the stack for requests that threads free without the lock.
    pub fn returned(&self) -> Arc<Returned> {
        self.returned.clone()
    }

    /// Returns the owner of a request.
    pub fn owner_of(&self, id: RequestId) -> u32 {
        self.table.get(id).map_or(0, Request::owner)
    }

    /// Starts a request. Returns its number and record, or `None` if the table is full.
    #[inline(always)]
    pub fn start(&mut self, owner: u32) -> Option<(RequestId, &mut Record)> {
        let index = match self.free.pop() {
            Some(index) => index,
            None => self.refill_and_pop()?,
        };
        let id = RequestId(index);
        let request = self.table.get(id)?;
        request.failed.store(false, Ordering::Relaxed);
        request.owner.store(owner, Ordering::Relaxed);
        // Release: pairs with the load in `find`, which then sees this VCI's number.
        request.state.store(ACTIVE, Ordering::Release);
        // SAFETY: the request was free in this VCI's cache and is active now, so that only this
        // `Records` accesses its record; the reference borrows `&mut self`.
        Some((id, unsafe { &mut *request.record.get() }))
    }

    #[cold]
    fn refill_and_pop(&mut self) -> Option<u32> {
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
            self.return_half();
        }
        if self.free.is_empty() && !self.table.refill(self.vci, &mut self.free) {
            return None;
        }
        self.free.pop()
    }

    /// Returns the record of an active request of this VCI. `None` if `id` is not one; a message
    /// from a peer may contain any number.
    #[inline(always)]
    pub fn get(&mut self, id: RequestId) -> Option<&mut Record> {
        self.find(id).map(|(_, record)| record)
    }

    /// Returns both halves of an active request of this VCI. `None` if `id` is not one.
    #[inline(always)]
    pub fn find(&mut self, id: RequestId) -> Option<(&Request, &mut Record)> {
        let request = self.table.get(id)?;
        // Acquire, and before the load of `vci`: if another VCI has restarted the request since,
        // this thread sees that VCI's number.
        if request.state.load(Ordering::Acquire) != ACTIVE
            || request.vci.load(Ordering::Relaxed) != self.vci
        {
            return None;
        }
        // SAFETY: the request is active and belongs to this VCI, so that only this `Records`
        // accesses its record, and completes it; the reference borrows `&mut self`.
        Some((request, unsafe { &mut *request.record.get() }))
    }

    /// Returns the record of a name. `None` if the number is free or in another use.
    ///
    /// Uses that are not named to peers keep the previous generation, so that the caller must check
    /// the role too.
    pub fn named(&mut self, name: Name) -> Option<&mut Record> {
        let record = self.get(name.id()?)?;
        (u64::from(record.generation) == name.generation()).then_some(record)
    }

    /// Returns the name of an active request.
    pub fn name(&mut self, id: RequestId) -> Name {
        let generation = self.get(id).map_or(0, |record| record.generation);
        Name::new(id, generation)
    }

    /// Publishes the result of a request, and frees it if the program has.
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
        self.cache(id);
    }

    /// Frees a completed request that the caller has looked up.
    #[inline(always)]
    pub fn free_request(&mut self, id: RequestId, request: &Request) {
        request.set_free();
        self.cache(id);
    }

    #[inline(always)]
    fn cache(&mut self, id: RequestId) {
        self.free.push(id.0);
        if self.free.len() > self.limit {
            self.return_half();
        }
    }

    /// Returns half of the cache to the pool, for other VCIs.
    #[cold]
    fn return_half(&mut self) {
        let half = self.free.split_off(self.limit / 2);
        self.table.pool.lock().free.extend(half);
    }

    /// Returns all active requests of this VCI. Slow; for reports.
    pub fn active(&self) -> Vec<RequestId> {
        let next = self.table.pool.lock().next;
        let mine = |id: &RequestId| {
            self.table.get(*id).is_some_and(|request| {
                request.vci() == self.vci && request.state.load(Ordering::Relaxed) == ACTIVE
            })
        };
        (0..next).map(RequestId).filter(mine).collect()
    }

    /// Whether any request of this VCI is live. Slow.
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
    fn freed_requests_are_reused_from_cache_and_stack() {
        let table = RequestTable::new();
        let mut records = Records::new(table.clone(), 3);
        let returned = records.returned();
        let ids: Vec<_> = (0..BLOCK).map(|_| records.start(0).unwrap().0).collect();
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
        let mut again: Vec<_> = (0..BLOCK).map(|_| records.start(0).unwrap().0).collect();
        again.sort();
        assert_eq!(again, ids, "no request was lost and none was made");
    }

    #[test]
    fn detached_requests_free_themselves() {
        let table = RequestTable::new();
        let mut records = Records::new(table.clone(), 0);
        let id = records.start(0).unwrap().0;
        records.get(id).unwrap().detached = true;
        records.complete(id, Status::EMPTY, None);
        assert!(!table.get(id).unwrap().is_live());
        assert!(records.get(id).is_none());
    }

    #[test]
    fn caches_return_requests_that_threads_freed() {
        let table = RequestTable::new();
        let mut records = Records::new(table.clone(), 0);
        let returned = records.returned();
        let ids: Vec<_> = (0..3000).map(|_| records.start(0).unwrap().0).collect();
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
    fn caches_return_surplus_requests() {
        let table = RequestTable::new();
        let mut one = Records::new(table.clone(), 0);
        let ids: Vec<_> = (0..3000).map(|_| one.start(0).unwrap().0).collect();
        for id in ids {
            one.complete(id, Status::EMPTY, None);
            one.free(id);
        }
        let before = table.pool.lock().next;
        let mut two = Records::new(table.clone(), 1);
        for _ in 0..1000 {
            let id = two.start(0).unwrap().0;
            assert_eq!(table.get(id).unwrap().vci(), 1);
        }
        assert_eq!(
            table.pool.lock().next,
            before,
            "the other VCI's were reused"
        );
    }
}
