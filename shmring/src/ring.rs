//! A ring of fixed cells in shared memory: many senders, one receiver.
//!
//! A lane that receives by such a ring gives its VCI both ends (`netmod::NodeLane::tx_ring` and
//! `rx_ring`), so that short messages are sent and received without a call of the lane.
//!
//! A sender claims a cell by advancing `tail`, writes it, and publishes it by storing its sequence
//! number; a small message is a single cache line. The receiver reads cells in order and never
//! writes to them: it publishes its position in `head` now and then. A message thus costs the
//! transfer of the cell's line and nothing else: `tail` stays with the senders, and a sender reads
//! `head` only when its last known value leaves no free cell.
//!
//! Invariant: cell `p % n` is written for position `p` only when `head > p - n`, that is, when the
//! receiver is done with it; it is read for `p` only when its sequence number is `p + 1`.
//!
//! # Failures
//! A sender may die between the claim of a cell and its publication, and the receiver would wait for
//! that cell for ever. Each sender therefore has a [`SenderRecord`] in the receiver's memory, where
//! it stores a position before it claims it. The receiver skips a claimed cell that is not published
//! if a dead sender's record names its position and no living sender's does: the sender that has
//! claimed a position names it until it has published the cell ([`RxRing::skip_abandoned`]).

use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{compiler_fence, fence};

pub use crate::sync::{AtomicU32, AtomicU64};
use crate::sync::{Ordering, UnsafeCell};

/// Sender and payload length in the first word, then the header.
pub type Envelope = [u64; 4];

/// Bytes of payload that fit into a cell itself.
pub const INLINE: usize = 88;

/// Cells of a ring whose ends are given to a VCI; a power of two.
pub const CELLS: usize = 256;

/// Bodies that early messages share while the receiver keeps up; a power of two. Touching a new
/// page of shared memory costs more than a short message does, and each cell's own body is two or
/// three pages.
pub const FEWEST: usize = 8;

/// Bodies that early messages share while the receiver lags a little; a power of two.
pub const FEW: usize = 32;

/// All bodies of a ring: one for each cell, then the [`FEW`], then the [`FEWEST`].
pub const BODIES: usize = CELLS + FEW + FEWEST;

/// Position from which streams use their cells' own bodies: a body that another core has read
/// lately is slower to write than one that has left its caches.
const EARLY: u64 = 8192;

/// Position from which replies do so too, in one more cell per `PAYS` messages: they gain less than
/// new memory costs.
const LATE: u64 = 1 << 16;
const PAYS: u64 = 128;

/// Position from which all messages do; every cell's body has been touched by then.
const PAID: u64 = LATE + CELLS as u64 * (PAYS + 1);

/// Polls for a free one of the [`FEW`] before a sender takes new memory; about as long as new
/// memory takes.
const LOOKS: u32 = 200;

/// Distance, in cells, of the prefetch ahead of the cell just written.
const AHEAD: usize = 8;

/// A message, or the envelope of one whose payload lies in a body.
#[repr(C, align(128))]
pub struct Cell {
    sequence: AtomicU32,
    /// Sender, length and header.
    envelope: UnsafeCell<Envelope>,
    /// Payload of up to [`INLINE`] bytes, or the number of the body.
    inline: UnsafeCell<[u8; INLINE]>,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Cell>() == 128);

/// A value alone in its cache lines.
#[repr(C, align(128))]
pub struct Padded<T>(pub T);

/// The positions of a ring, shared by all its processes.
#[repr(C)]
pub struct Ends {
    /// Positions claimed by senders.
    pub tail: Padded<AtomicU64>,
    /// Positions the receiver is done with.
    pub head: Padded<AtomicU64>,
}

/// Senders of a ring that have a record of their own at a time. If there are more, the cells of dead
/// senders are not skipped.
pub const SENDERS: usize = 1024;

/// Records of a ring: one for each sender, and one that all further senders share.
pub const RECORDS: usize = SENDERS + 1;

/// A [`SenderRecord`] without a position.
const NO_CLAIM: u64 = u64::MAX;

/// A sender's latest claim, in the receiver's memory, which outlives the sender. All zeros is free.
#[repr(C, align(128))]
pub struct SenderRecord {
    /// The sender's process; 0 if the record is free.
    pid: AtomicU32,
    /// The position that the sender is about to claim, or has claimed last.
    claim: AtomicU64,
}

impl SenderRecord {
    /// Takes a free record for a sender of process `pid`, or the last one, which is shared.
    pub fn take(records: &[SenderRecord], pid: u32) -> &SenderRecord {
        let (shared, own) = match records.split_last() {
            Some(split) => split,
            None => unreachable!("internal error: a ring without records"),
        };
        let free = own.iter().find(|record| {
            let (order, refused) = (Ordering::AcqRel, Ordering::Acquire);
            record.pid.compare_exchange(0, pid, order, refused).is_ok()
        });
        let record = free.unwrap_or(shared);
        record.pid.store(pid, Ordering::Relaxed);
        record.withdraw();
        record
    }

    /// Frees the record. Release: a receiver that finds it free sees the sender's last cell.
    fn free(&self) {
        self.withdraw();
        self.pid.store(0, Ordering::Release);
    }

    /// Names the position that the sender is about to claim. Release: a receiver that sees it sees
    /// the cells that the sender has published before.
    #[inline(always)]
    fn set(&self, position: u64) {
        self.claim.store(position, Ordering::Release);
    }

    /// Names no position.
    #[inline(always)]
    fn withdraw(&self) {
        self.set(NO_CLAIM);
    }

    /// Whether a sender has ever taken the record. Records are taken in their order, so no sender
    /// has a record behind one that was never taken.
    fn was_taken(&self) -> bool {
        self.pid.load(Ordering::Acquire) != 0 || self.claim.load(Ordering::Acquire) != 0
    }
}

/// Returns whether the sender that has claimed a position has died. `exists` returns whether a
/// process lives. The caller must check afterwards that the cell is not published.
///
/// The sender that has claimed the position has named it before and names it until the cell is
/// published. Others that name it have failed to claim it, and soon name another or none.
fn is_claimed_by_dead(
    ends: &Ends,
    records: &[SenderRecord],
    position: u64,
    exists: impl Fn(u32) -> bool,
) -> bool {
    // Acquire: sees the record of the sender that has advanced `tail` past the position.
    let is_claimed = ends.tail.0.load(Ordering::Acquire) > position;
    let is_complete = records.last().is_some_and(|shared| !shared.was_taken());
    if !is_claimed || !is_complete {
        return false;
    }
    let mut by_dead = false;
    for record in records.iter().take_while(|record| record.was_taken()) {
        if record.claim.load(Ordering::Acquire) == position {
            let pid = record.pid.load(Ordering::Acquire);
            if exists(pid) {
                return false;
            }
            by_dead |= pid != 0;
        }
    }
    by_dead
}

/// The parts of a ring in shared memory, apart from the bodies.
#[derive(Clone, Copy)]
pub struct Parts {
    /// Positions.
    pub ends: NonNull<Ends>,
    /// [`CELLS`] cells.
    pub cells: NonNull<Cell>,
    /// 1 while the receiver sleeps or is about to.
    pub wake_up: NonNull<AtomicU32>,
    /// [`RECORDS`] records.
    pub records: NonNull<SenderRecord>,
}

/// A sender's private view of a ring.
#[derive(Default)]
pub struct SenderView {
    head: u64,
    /// Position from which `head` is too old to claim a cell.
    full_at: u64,
    /// Value of `head` at the last wait for the receiver that timed out.
    left_at: u64,
    /// First untouched body of each group: of the cells, the few and the fewest.
    met: [usize; 3],
}

impl SenderView {
    /// Returns whether the receiver is known to be done with the previous content of a position's
    /// cell.
    #[inline(always)]
    pub fn may_claim(&self, position: u64, cells: usize) -> bool {
        position.wrapping_sub(self.head) < cells as u64
    }

    /// Returns the body for the message at a position, by the last known `head`. `answers`: the
    /// sender has received a message since its previous one.
    #[inline(always)]
    pub fn body(&self, position: u64, answers: bool) -> usize {
        let cell = position as usize & (CELLS - 1);
        let takes_own = match answers {
            true => (cell as u64) < position.saturating_sub(LATE) / PAYS,
            false => position >= EARLY,
        };
        if takes_own || !self.may_claim(position, FEW) {
            return cell;
        }
        match self.may_claim(position, FEWEST) {
            true => CELLS + FEW + (position as usize & (FEWEST - 1)),
            false => CELLS + (position as usize & (FEW - 1)),
        }
    }

    /// Returns the body for the message at a claimed position, and whether this may be its first
    /// use.
    ///
    /// Invariant: one of the [`FEW`] is written for position `p` only when `head > p - FEW`, that
    /// is, when the receiver is done with the position that used it before; likewise for the
    /// [`FEWEST`].
    #[inline(always)]
    pub fn take_body(&mut self, ends: &Ends, position: u64, answers: bool) -> (usize, bool) {
        if position >= PAID {
            return (position as usize & (CELLS - 1), false);
        }
        self.take_early(ends, position, answers)
    }

    #[inline(never)]
    fn take_early(&mut self, ends: &Ends, position: u64, answers: bool) -> (usize, bool) {
        if !self.may_claim(position, FEWEST) {
            // Acquire: the receiver's reads of the body come before our writes to it.
            self.head = ends.head.0.load(Ordering::Acquire);
            if position < EARLY && self.head != self.left_at {
                self.await_few(ends, position);
            }
        }
        let number = self.body(position, answers);
        let met = &mut self.met[usize::from(number >= CELLS) + usize::from(number >= CELLS + FEW)];
        let is_first = number >= *met;
        *met = (*met).max(number + 1);
        (number, is_first)
    }

    /// Waits, as long as the receiver may be advancing, until the [`FEW`] have a free body for a
    /// position.
    fn await_few(&mut self, ends: &Ends, position: u64) {
        for _ in 0..LOOKS {
            if self.may_claim(position, FEW) {
                return;
            }
            std::hint::spin_loop();
            // Acquire: the receiver's reads of the body come before our writes to it.
            self.head = ends.head.0.load(Ordering::Acquire);
        }
        self.left_at = self.head;
    }
}

/// The receiver's private view of a ring.
#[derive(Default)]
pub struct ReceiverView {
    next: u64,
    /// Position at which `head` is published next.
    publish_at: u64,
}

/// Claims a cell. Returns its position, or `None` if the ring is full. `record`: the sender's own.
#[inline(always)]
fn claim(ends: &Ends, cells: usize, view: &mut SenderView, record: &SenderRecord) -> Option<u64> {
    let mut position = ends.tail.0.load(Ordering::Relaxed);
    loop {
        if position >= view.full_at {
            // Acquire: the receiver's reads of the cell come before our writes to it.
            view.head = ends.head.0.load(Ordering::Acquire);
            view.full_at = view.head + cells as u64;
            if position >= view.full_at {
                record.withdraw();
                return None;
            }
        }
        record.set(position);
        // Release: a receiver that finds the position claimed sees the record.
        match ends.tail.0.compare_exchange_weak(
            position,
            position + 1,
            Ordering::Release,
            Ordering::Relaxed,
        ) {
            Ok(_) => return Some(position),
            Err(now) => position = now,
        }
    }
}

/// Publishes a claimed and written cell to the receiver.
#[inline(always)]
pub fn publish(cell: &Cell, position: u64) {
    cell.sequence
        .store((position as u32).wrapping_add(1), Ordering::Release);
}

impl ReceiverView {
    /// Returns the next position if its message has arrived.
    #[inline(always)]
    pub fn peek(&self, cells: &[Cell]) -> Option<u64> {
        let cell = &cells[self.next as usize & (cells.len() - 1)];
        let expected = (self.next as u32).wrapping_add(1);
        let ready = cell.sequence.load(Ordering::Acquire) == expected;
        ready.then_some(self.next)
    }

    /// Releases the position that `peek` returned.
    #[inline(always)]
    pub fn advance(&mut self, ends: &Ends, cells: &[Cell]) {
        let last = &cells[self.next as usize & (cells.len() - 1)];
        self.next += 1;
        if self.next >= self.publish_at {
            self.publish_head(ends, last, cells.len());
        }
    }

    /// Publishes `head` and chooses when to do so next: often for early messages, most often if
    /// they need bodies. `last` is the cell just received.
    #[cold]
    #[inline(never)]
    fn publish_head(&mut self, ends: &Ends, last: &Cell, cells: usize) {
        let has_body = last.envelope_word(0) >> 32 > INLINE as u64;
        ends.head.0.store(self.next, Ordering::Release);
        let next = match (self.next < PAID, has_body) {
            (true, true) => FEWEST / 2,
            (true, false) => FEW / 2,
            (false, _) => cells / 4,
        };
        self.publish_at = self.next + next.min(cells / 4) as u64;
    }
}

/// A sender's end of a ring: what one VCI needs to send to another by it.
pub struct TxRing {
    ends: NonNull<Ends>,
    cells: NonNull<Cell>,
    wake_up: NonNull<AtomicU32>,
    /// This sender's record.
    record: NonNull<SenderRecord>,
    wake: fn(&AtomicU32),
    me: u32,
    fence: bool,
    /// The last known position of the receiver.
    pub view: SenderView,
}

// SAFETY: the pointers are to shared memory that outlives the value (the contract of `new`), and
// every access follows the protocol of the ring, which binds no thread.
unsafe impl Send for TxRing {}

impl TxRing {
    /// Makes the end of sender `me`, whose process has the number `process`. `wake` wakes the receiver
    /// by its word `wake_up`. `fence`: senders must issue a full fence before they read the word;
    /// otherwise the sleeper has one run on them.
    ///
    /// # Safety
    /// The pointers are to a ring in memory that outlives this value.
    pub unsafe fn new(
        (me, process): (u32, u32),
        ring: Parts,
        wake: fn(&AtomicU32),
        fence: bool,
    ) -> TxRing {
        // SAFETY: a ring has `RECORDS` records (# Safety).
        let records = unsafe { slice::from_raw_parts(ring.records.as_ptr(), RECORDS) };
        TxRing {
            ends: ring.ends,
            cells: ring.cells,
            wake_up: ring.wake_up,
            record: SenderRecord::take(records, process).into(),
            wake,
            me,
            fence,
            view: SenderView::default(),
        }
    }

    /// Claims a cell, which the caller must write and publish. Returns its position, or `None` if
    /// the ring is full.
    #[inline(always)]
    pub fn claim(&mut self) -> Option<u64> {
        // SAFETY: the caller of `new` promised that the ring outlives this.
        let (ends, record) = unsafe { (self.ends.as_ref(), self.record.as_ref()) };
        claim(ends, CELLS, &mut self.view, record)
    }

    /// Sends a message of at most [`INLINE`] bytes if there is a free cell. On [`Sent::SentWake`] the
    /// caller must wake the receiver.
    ///
    /// # Safety
    /// `len` bytes at `payload` are valid for reads, and `len` is at most [`INLINE`].
    #[inline(always)]
    pub unsafe fn send(&mut self, header: [u64; 3], payload: *const u8, len: usize) -> Sent {
        let Some(position) = self.claim() else {
            return Sent::Full;
        };
        let [a, b, c] = header;
        // SAFETY: the index is within the ring; the cell is claimed, so no other process touches it
        // until it is published, and it has space for the payload.
        unsafe {
            let cell = self.cells.add(position as usize & (CELLS - 1)).as_ref();
            cell.set_envelope([u64::from(self.me) | (len as u64) << 32, a, b, c]);
            std::hint::assert_unchecked(len <= INLINE);
            copy_short(payload, cell.payload(), len);
            publish(cell, position);
            TxRing::ask_ahead_of(cell);
        }
        if self.is_silent() {
            Sent::Sent
        } else {
            Sent::SentWake
        }
    }

    /// Prefetches both lines of the cell [`AHEAD`] cells on for writing. The receiver's core holds
    /// them since it last read them, and claiming a position waits for all earlier stores. The
    /// first cells of a lap are not prefetched, and the hint past the last cell is harmless.
    #[inline(always)]
    fn ask_ahead_of(cell: &Cell) {
        #[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
        // SAFETY: prefetches change no memory and never fault.
        unsafe {
            std::arch::asm!("prefetchw [{cell} + {ahead}]", "prefetchw [{cell} + {ahead} + {line}]",
                            cell = in(reg) cell, ahead = const AHEAD * size_of::<Cell>(), line = const size_of::<Cell>() / 2,
                            options(nostack, preserves_flags));
        }
        #[cfg(not(all(target_arch = "x86_64", not(loom), not(miri))))]
        let _ = (cell, AHEAD);
    }

    /// Returns whether the receiver is awake after a message has been published, so that no wake-up
    /// is needed.
    #[inline(always)]
    pub fn is_silent(&self) -> bool {
        if self.fence {
            fence(std::sync::atomic::Ordering::SeqCst);
        } else {
            // The sleeper's barrier orders this processor's accesses; the fence keeps the compiler
            // from reordering the message's store and this load.
            compiler_fence(std::sync::atomic::Ordering::SeqCst);
        }
        // SAFETY: the caller of `new` promised that the word outlives this.
        let wake_up = unsafe { self.wake_up.as_ref() };
        wake_up.load(Ordering::Relaxed) == 0
    }

    /// Wakes the receiver.
    #[cold]
    #[inline(never)]
    pub fn wake(&self) {
        // SAFETY: the caller of `new` promised that the word outlives this.
        (self.wake)(unsafe { self.wake_up.as_ref() });
    }
}

impl Drop for TxRing {
    fn drop(&mut self) {
        // SAFETY: the caller of `new` promised that the ring outlives this.
        unsafe { self.record.as_ref() }.free();
    }
}

/// Outcome of [`TxRing::send`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sent {
    /// The message was sent, and the receiver is awake.
    Sent,
    /// The message was sent; the receiver sleeps and must be woken.
    SentWake,
    /// The ring is full; the message was not sent.
    Full,
}

/// The receiver's end of a ring.
pub struct RxRing {
    ends: NonNull<Ends>,
    cells: NonNull<Cell>,
    records: NonNull<SenderRecord>,
    bodies: *mut u8,
    stride: usize,
    longest: usize,
    view: ReceiverView,
}

// SAFETY: the pointers are to shared memory that outlives the value (the contract of `new`), and
// every access follows the protocol of the ring, which binds no thread.
unsafe impl Send for RxRing {}

/// A message at the front of an [`RxRing`].
#[derive(Clone, Copy)]
pub struct Front<'a> {
    cell: &'a Cell,
}

impl RxRing {
    /// Makes the receiver's end. Body `n` of the [`BODIES`] begins at `bodies + n * stride` and has
    /// space for `longest` bytes.
    ///
    /// # Safety
    /// The pointers are to a ring in memory that outlives this value.
    pub unsafe fn new(ring: Parts, bodies: *mut u8, stride: usize, longest: usize) -> RxRing {
        RxRing {
            ends: ring.ends,
            cells: ring.cells,
            records: ring.records,
            bodies,
            stride,
            longest,
            view: ReceiverView::default(),
        }
    }

    /// Returns the next message if it has arrived.
    #[inline(always)]
    pub fn peek(&self) -> Option<Front<'_>> {
        let position = self.view.next;
        // SAFETY: the index is within the ring, which outlives this by the contract of `new`.
        let cell = unsafe { self.cells.add(position as usize & (CELLS - 1)).as_ref() };
        cell.is_published(position).then_some(Front { cell })
    }

    /// Returns the number of messages that the receiver is done with.
    #[inline(always)]
    pub fn taken(&self) -> u64 {
        self.view.next
    }

    /// Returns the longest payload. A message that announces a longer one must not be read.
    #[inline(always)]
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// Returns the payload of a message of at most [`INLINE`] bytes; see [`RxRing::payload`].
    #[inline(always)]
    pub fn short_payload(&self, front: Front<'_>) -> *const u8 {
        debug_assert!(front.len() <= INLINE);
        // SAFETY: `peek` found the cell published, and it is the receiver's until `advance`.
        unsafe { front.cell.payload() }
    }

    /// Returns the address of the payload.
    #[inline(always)]
    pub fn payload(&self, front: Front<'_>) -> *const u8 {
        if front.len() <= INLINE {
            // SAFETY: `peek` found the cell published, and it is the receiver's until `advance`.
            unsafe { front.cell.payload() }
        } else {
            // SAFETY: `peek` found the cell published, and it is the receiver's until `advance`;
            // the message is longer than `INLINE`.
            let number = unsafe { front.cell.body() };
            assert!(number < BODIES);
            self.bodies.wrapping_add(number * self.stride)
        }
    }

    /// Releases the message that `peek` returned.
    #[inline(always)]
    pub fn advance(&mut self) {
        // SAFETY: the caller of `new` promised that the ring outlives this.
        let ends = unsafe { self.ends.as_ref() };
        let position = self.view.next;
        self.view.next += 1;
        if self.view.next >= self.view.publish_at {
            // SAFETY: the index is within the ring, and the cell is the receiver's until `head` is
            // published.
            let last = unsafe { self.cells.add(position as usize & (CELLS - 1)).as_ref() };
            self.view.publish_head(ends, last, CELLS);
        }
    }

    /// Skips the next cell if its sender has died before publishing it. `exists` returns whether a
    /// process lives. Returns whether a cell was skipped.
    #[cold]
    pub fn skip_abandoned(&mut self, exists: impl Fn(u32) -> bool) -> bool {
        // SAFETY: by the contract of `new` the ring outlives this and has `RECORDS` records.
        let (ends, records) = unsafe {
            let records = slice::from_raw_parts(self.records.as_ptr(), RECORDS);
            (self.ends.as_ref(), records)
        };
        if !is_claimed_by_dead(ends, records, self.view.next, exists) || self.peek().is_some() {
            return false;
        }
        self.advance();
        true
    }
}

impl Front<'_> {
    /// Returns the sender.
    #[inline(always)]
    pub fn from(self) -> u32 {
        self.cell.envelope_word(0) as u32
    }

    /// Returns the length of the payload in bytes, as the sender states it.
    #[inline(always)]
    pub fn len(self) -> usize {
        (self.cell.envelope_word(0) >> 32) as usize
    }

    /// Returns whether there is no payload.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns word `number` of the header.
    #[inline(always)]
    pub fn word(self, number: usize) -> u64 {
        self.cell.envelope_word(number + 1)
    }

    /// Returns the header.
    #[inline(always)]
    pub fn header(self) -> [u64; 3] {
        [self.word(0), self.word(1), self.word(2)]
    }
}

/// Copies up to [`INLINE`] bytes without a call.
///
/// # Safety
/// `from` must be valid for reads and `to` for writes of `len` bytes; they must not overlap.
#[inline(always)]
pub unsafe fn copy_short(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: every access lies within `len` bytes, valid by the caller's contract; overlapping
    // parts write the same bytes.
    unsafe {
        if len == 8 {
            to.cast::<u64>()
                .write_unaligned(from.cast::<u64>().read_unaligned());
        } else if len > 16 {
            let tail = from.add(len - 16).cast::<u128>().read_unaligned();
            let mut at = 0;
            while at + 16 < len {
                let part = from.add(at).cast::<u128>().read_unaligned();
                to.add(at).cast::<u128>().write_unaligned(part);
                at += 16;
            }
            to.add(len - 16).cast::<u128>().write_unaligned(tail);
        } else {
            copy_shorter(from, to, len);
        }
    }
}

/// Copies up to 16 bytes without a call.
///
/// # Safety
/// `from` must be valid for reads and `to` for writes of `len` bytes; they must not overlap.
#[inline(always)]
unsafe fn copy_shorter(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: every access lies within `len` bytes, valid by the caller's contract; overlapping
    // parts write the same bytes.
    unsafe {
        if len >= 8 {
            let head = from.cast::<u64>().read_unaligned();
            let tail = from.add(len - 8).cast::<u64>().read_unaligned();
            to.cast::<u64>().write_unaligned(head);
            to.add(len - 8).cast::<u64>().write_unaligned(tail);
        } else if len >= 4 {
            let head = from.cast::<u32>().read_unaligned();
            let tail = from.add(len - 4).cast::<u32>().read_unaligned();
            to.cast::<u32>().write_unaligned(head);
            to.add(len - 4).cast::<u32>().write_unaligned(tail);
        } else if len > 0 {
            let (head, middle, tail) = (*from, *from.add(len / 2), *from.add(len - 1));
            *to = head;
            *to.add(len / 2) = middle;
            *to.add(len - 1) = tail;
        }
    }
}

impl Cell {
    #[inline(always)]
    fn is_published(&self, position: u64) -> bool {
        self.sequence.load(Ordering::Acquire) == (position as u32).wrapping_add(1)
    }

    /// Writes sender, length and header.
    ///
    /// # Safety
    /// The cell is claimed by the caller.
    #[cfg(not(loom))]
    #[inline(always)]
    pub unsafe fn set_envelope(&self, envelope: Envelope) {
        // SAFETY: the caller has claimed the cell, so no other process accesses it.
        unsafe { self.envelope.get().write(envelope) };
    }

    /// Reads a word of the envelope of a cell that is published and not released.
    #[cfg(not(loom))]
    #[inline(always)]
    fn envelope_word(&self, number: usize) -> u64 {
        // SAFETY: the receiver alone calls this, between `peek` and `advance`, when no sender
        // writes.
        unsafe { (*self.envelope.get())[number] }
    }

    /// Returns the address of a short payload.
    ///
    /// # Safety
    /// The cell is the caller's: claimed, or published and not released.
    #[cfg(not(loom))]
    #[inline(always)]
    pub unsafe fn payload(&self) -> *mut u8 {
        self.inline.get().cast()
    }

    /// Writes sender, length and header.
    ///
    /// # Safety
    /// The cell is claimed by the caller.
    #[cfg(loom)]
    pub unsafe fn set_envelope(&self, envelope: Envelope) {
        // SAFETY: the caller has claimed the cell, so no other process accesses it.
        self.envelope.with_mut(|place| unsafe { *place = envelope });
    }

    #[cfg(loom)]
    fn envelope_word(&self, number: usize) -> u64 {
        // SAFETY: the receiver alone calls this, between `peek` and `advance`, when no sender
        // writes.
        self.envelope.with(|place| unsafe { (*place)[number] })
    }

    /// Returns the address of a short payload.
    ///
    /// # Safety
    /// The cell is the caller's: claimed, or published and not released.
    #[cfg(loom)]
    pub unsafe fn payload(&self) -> *mut u8 {
        self.inline.with_mut(|place| place.cast())
    }

    /// Stores the number of the payload's body, in place of a short payload.
    ///
    /// # Safety
    /// The cell is claimed by the caller.
    #[inline(always)]
    pub unsafe fn set_body(&self, number: usize) {
        // SAFETY: the caller has claimed the cell; `INLINE` is at least 4 bytes.
        unsafe { self.payload().cast::<u32>().write_unaligned(number as u32) };
    }

    /// Reads the number of the payload's body.
    ///
    /// # Safety
    /// The cell is published and not released, and its message is longer than [`INLINE`].
    #[inline(always)]
    unsafe fn body(&self) -> usize {
        // SAFETY: the cell is published and not released, by the caller's contract; `INLINE` is at
        // least 4 bytes.
        unsafe { self.payload().cast::<u32>().read_unaligned() as usize }
    }

    #[cfg(test)]
    fn empty() -> Self {
        Cell {
            sequence: AtomicU32::new(0),
            envelope: UnsafeCell::new([0; 4]),
            inline: UnsafeCell::new([0; INLINE]),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod loom_tests;
