//! A queue in memory that processes share: many senders, one receiver, fixed cells.
//!
//! It belongs to the contract because a lane that receives by such a queue lets its VCI reach both ends
//! directly ([`crate::Lane::mailbox`], [`crate::Lane::inbox`]): a short message that leaves at once, or that is
//! just the one waited for, comes by without a call of the lane.
//!
//! A sender claims a cell by moving `tail` on, writes it, and publishes it by storing its sequence
//! number, all in one cache line for a small message. The receiver reads cells in order and never
//! writes to them: it tells senders how far it is by `head`, now and then. So a message costs the
//! transfer of the cell's line and nothing else: `tail` stays with the senders, and `head` is read
//! only by a sender that has filled the queue as far as it knew.
//!
//! Invariant: cell `p % n` is written for position `p` only when `head > p - n`, that is when the
//! receiver is done with it; it is read for `p` only when its sequence number is `p + 1`.

use std::ptr::NonNull;
use std::sync::atomic::{compiler_fence, fence};

pub use crate::sync::{AtomicU32, AtomicU64};
use crate::sync::{Ordering, UnsafeCell};
use crate::{Header, Peer};

/// What is written next to the payload: source, length and header.
pub type Envelope = [u64; 4];

/// Payload bytes that fit into a cell itself.
pub const INLINE: usize = 88;

/// Cells of a queue that has ends for a VCI; a power of two.
pub const CELLS: usize = 256;

/// Bodies that the first messages take while the receiver is close behind; a power of two. A page of shared memory that nobody
/// has used costs more than a short message does, and each cell's own body is two or three.
pub const FEWEST: usize = 8;

/// Those that they take while he is not far behind; a power of two.
pub const FEW: usize = 32;

/// Bodies of a queue: one for each cell, the few and the fewest.
pub const BODIES: usize = CELLS + FEW + FEWEST;

/// From this position on streams take their cells' own bodies: what another core has read lately is written more slowly than
/// what has left its caches, by streams two to four times as slowly.
const EARLY: u64 = 8192;

/// From this one on answers do so too, in one cell more after each so many messages: they gain less than new memory takes.
const LATE: u64 = 1 << 16;
const PAYS: u64 = 128;

/// From this one on all messages do, and cells have been met in them.
const PAID: u64 = LATE + CELLS as u64 * (PAYS + 1);

/// So often a sender looks whether one of the few is free again before he takes another: for about as long as new memory
/// takes.
const LOOKS: u32 = 200;

/// A sender asks for the cell so many behind the one that it has written.
const AHEAD: usize = 8;

/// One message, or the front of one whose payload lies in a body.
#[repr(C, align(128))]
pub struct Cell {
    sequence: AtomicU32,
    /// Source, length and header.
    envelope: UnsafeCell<Envelope>,
    /// A short payload.
    inline: UnsafeCell<[u8; INLINE]>,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Cell>() == 128);

/// A word alone in its cache lines.
#[repr(C, align(128))]
pub struct Padded<T>(pub T);

/// The queue's words, shared by all.
#[repr(C)]
pub struct Ends {
    /// Positions claimed by senders.
    pub tail: Padded<AtomicU64>,
    /// Positions the receiver is done with.
    pub head: Padded<AtomicU64>,
}

/// What a sender keeps for itself.
#[derive(Default)]
pub struct SenderView {
    head: u64,
    /// The receiver was here when he was last waited for in vain.
    left_at: u64,
    /// No body from this one on has been met, of cells, of the few and of the fewest.
    met: [usize; 3],
}

impl SenderView {
    /// Whether the receiver is known to be done with what was in the cell of a position.
    #[inline(always)]
    pub fn may_claim(&self, position: u64, cells: usize) -> bool {
        position.wrapping_sub(self.head) < cells as u64
    }

    /// The number of the body for the message of a position, as far as the receiver is known to be. `answers`: the sender has
    /// received something since the one before.
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

    /// The number of the body for the message of a position that was claimed, and whether it may be the body's first.
    ///
    /// Invariant: one of the few is written for position `p` only when `head > p - FEW`, that is when the receiver is done
    /// with the position that had it before; so it is with the fewest.
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

    /// Waits until the receiver is done with the position that had this one's body among the few, while he gets on.
    fn await_few(&mut self, ends: &Ends, position: u64) {
        for _ in 0..LOOKS {
            if self.may_claim(position, FEW) {
                return;
            }
            std::hint::spin_loop();
            // Acquire: as above.
            self.head = ends.head.0.load(Ordering::Acquire);
        }
        self.left_at = self.head;
    }
}

/// What the receiver keeps for itself.
#[derive(Default)]
pub struct ReceiverView {
    next: u64,
    /// The position from which on senders are to be told.
    tell_at: u64,
}

/// Claims a cell: its position, or `None` if the queue is full.
#[inline(always)]
pub fn claim(ends: &Ends, cells: usize, view: &mut SenderView) -> Option<u64> {
    let mut position = ends.tail.0.load(Ordering::Relaxed);
    loop {
        if !view.may_claim(position, cells) {
            // Acquire: the receiver's reads of the cell come before our writes to it.
            view.head = ends.head.0.load(Ordering::Acquire);
            if !view.may_claim(position, cells) {
                return None;
            }
        }
        match ends.tail.0.compare_exchange_weak(
            position,
            position + 1,
            Ordering::Relaxed,
            Ordering::Relaxed,
        ) {
            Ok(_) => return Some(position),
            Err(now) => position = now,
        }
    }
}

/// Makes a cell that was claimed and written visible to the receiver.
#[inline(always)]
pub fn publish(cell: &Cell, position: u64) {
    cell.sequence
        .store((position as u32).wrapping_add(1), Ordering::Release);
}

impl ReceiverView {
    /// The next position, if its message is there.
    #[inline(always)]
    pub fn peek(&self, cells: &[Cell]) -> Option<u64> {
        let cell = &cells[self.next as usize & (cells.len() - 1)];
        let expected = (self.next as u32).wrapping_add(1);
        let ready = cell.sequence.load(Ordering::Acquire) == expected;
        ready.then_some(self.next)
    }

    /// Is done with the position that `peek` gave.
    #[inline(always)]
    pub fn advance(&mut self, ends: &Ends, cells: &[Cell]) {
        let last = &cells[self.next as usize & (cells.len() - 1)];
        self.next += 1;
        if self.next >= self.tell_at {
            self.tell(ends, last, cells.len());
        }
    }

    /// Tells the senders, of whom the first need to know it often, most of all if they need bodies. `last`: what has just been
    /// received.
    #[cold]
    #[inline(never)]
    fn tell(&mut self, ends: &Ends, last: &Cell, cells: usize) {
        let has_body = last.envelope_word(0) >> 32 > INLINE as u64;
        ends.head.0.store(self.next, Ordering::Release);
        let next = match (self.next < PAID, has_body) {
            (true, true) => FEWEST / 2,
            (true, false) => FEW / 2,
            (false, _) => cells / 4,
        };
        self.tell_at = self.next + next.min(cells / 4) as u64;
    }
}

/// A sender's end of a queue: what one VCI needs to send to another by it.
pub struct Mailbox {
    ends: NonNull<Ends>,
    cells: NonNull<Cell>,
    /// 1 while the receiver sleeps or is about to.
    wake_up: NonNull<AtomicU32>,
    wake: fn(&AtomicU32),
    me: Peer,
    fence: bool,
    /// How far the receiver is, as far as is known.
    pub view: SenderView,
}

// SAFETY: it points to shared memory, which any thread may use by the rules of the queue.
unsafe impl Send for Mailbox {}

impl Mailbox {
    /// Of the process `me`. `wake` wakes the receiver by its word `wake_up`, for which senders must `fence` or
    /// the sleeper has a barrier put into them.
    ///
    /// # Safety
    /// The pointers are to a queue of [`CELLS`] cells in memory that stays as long as this is used.
    pub unsafe fn new(
        me: Peer,
        ends: NonNull<Ends>,
        cells: NonNull<Cell>,
        wake_up: NonNull<AtomicU32>,
        wake: fn(&AtomicU32),
        fence: bool,
    ) -> Mailbox {
        Mailbox {
            ends,
            cells,
            wake_up,
            wake,
            me,
            fence,
            view: SenderView::default(),
        }
    }

    /// Sends a message of at most [`INLINE`] bytes if there is room. The caller wakes the receiver.
    ///
    /// # Safety
    /// `len` bytes at `payload` are valid for reads, and not more than [`INLINE`].
    #[inline(always)]
    pub unsafe fn send(&mut self, header: Header, payload: *const u8, len: usize) -> Sent {
        // SAFETY: as `new` was promised.
        let ends = unsafe { self.ends.as_ref() };
        let Some(position) = claim(ends, CELLS, &mut self.view) else {
            return Sent::NoRoom;
        };
        let [a, b, c] = header.0;
        // SAFETY: the place is within the queue; the cell is claimed, so nobody else touches it until it is
        // published, and has room for the payload.
        unsafe {
            let cell = self.cells.add(position as usize & (CELLS - 1)).as_ref();
            cell.set_envelope([u64::from(self.me) | (len as u64) << 32, a, b, c]);
            std::hint::assert_unchecked(len <= INLINE);
            copy_short(payload, cell.payload(), len);
            publish(cell, position);
            Mailbox::ask_ahead_of(cell);
        }
        if self.is_silent() {
            Sent::Silent
        } else {
            Sent::Asleep
        }
    }

    /// Asks for both lines of the cell [`AHEAD`] behind this one so that this core can write them, and doesn't wait. The
    /// receiver has them, from when it last read them, and claiming a position waits until all that was written before is
    /// done: a stream of 8 bytes between cores that share no near cache took 67 ns a message without this, 49 with it, one of
    /// 64 bytes 72 and 52. (Nobody minds that the first cells of a lap aren't asked for, and memory behind the last one is.)
    #[inline(always)]
    fn ask_ahead_of(cell: &Cell) {
        #[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
        // SAFETY: hints, which change nothing and fault nowhere.
        unsafe {
            std::arch::asm!("prefetchw [{cell} + {ahead}]", "prefetchw [{cell} + {ahead} + {line}]",
                            cell = in(reg) cell, ahead = const AHEAD * size_of::<Cell>(), line = const size_of::<Cell>() / 2,
                            options(nostack, preserves_flags));
        }
        #[cfg(not(all(target_arch = "x86_64", not(loom), not(miri))))]
        let _ = (cell, AHEAD);
    }

    /// After a message has been published: whether the receiver is awake, so that nothing needs be done.
    #[inline(always)]
    pub fn is_silent(&self) -> bool {
        if self.fence {
            fence(std::sync::atomic::Ordering::SeqCst);
        } else {
            // The sleeper's barrier orders what the processor does; the compiler must not exchange the
            // message's store and this load either.
            compiler_fence(std::sync::atomic::Ordering::SeqCst);
        }
        // SAFETY: as `new` was promised.
        let wake_up = unsafe { self.wake_up.as_ref() };
        wake_up.load(Ordering::Relaxed) == 0
    }

    /// Wakes the receiver.
    #[cold]
    #[inline(never)]
    pub fn wake(&self) {
        // SAFETY: as `new` was promised.
        (self.wake)(unsafe { self.wake_up.as_ref() });
    }
}

/// What became of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sent {
    /// It was sent, and the receiver is awake.
    Silent,
    /// It was sent; the receiver sleeps and must be woken.
    Asleep,
    /// There was no room.
    NoRoom,
}

/// The receiver's end of a queue.
pub struct Inbox {
    ends: NonNull<Ends>,
    cells: NonNull<Cell>,
    bodies: *mut u8,
    stride: usize,
    longest: usize,
    view: ReceiverView,
}

// SAFETY: as for `Mailbox`.
unsafe impl Send for Inbox {}

/// A message at the front of an [`Inbox`].
#[derive(Clone, Copy)]
pub struct Front<'a> {
    cell: &'a Cell,
}

impl Inbox {
    /// Body `n` of the [`BODIES`] begins at `bodies + n * stride` and has room for `longest` bytes.
    ///
    /// # Safety
    /// As for [`Mailbox::new`].
    pub unsafe fn new(
        ends: NonNull<Ends>,
        cells: NonNull<Cell>,
        bodies: *mut u8,
        stride: usize,
        longest: usize,
    ) -> Inbox {
        Inbox {
            ends,
            cells,
            bodies,
            stride,
            longest,
            view: ReceiverView::default(),
        }
    }

    /// The next message, if it is there.
    #[inline(always)]
    pub fn peek(&self) -> Option<Front<'_>> {
        let position = self.view.next;
        // SAFETY: the place is within the queue, as `new` was promised.
        let cell = unsafe { self.cells.add(position as usize & (CELLS - 1)).as_ref() };
        cell.is_published(position).then_some(Front { cell })
    }

    /// How many messages the receiver is done with.
    #[inline(always)]
    pub fn taken(&self) -> u64 {
        self.view.next
    }

    /// The longest message. A longer one that is announced must not be read.
    #[inline(always)]
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// As [`Inbox::payload`] of a message that is known to be no longer than [`INLINE`].
    #[inline(always)]
    pub fn short_payload(&self, front: Front<'_>) -> *const u8 {
        debug_assert!(front.len() <= INLINE);
        // SAFETY: published, and the receiver's until it advances.
        unsafe { front.cell.payload() }
    }

    /// Where its payload lies.
    #[inline(always)]
    pub fn payload(&self, front: Front<'_>) -> *const u8 {
        if front.len() <= INLINE {
            // SAFETY: published, and the receiver's until it advances.
            unsafe { front.cell.payload() }
        } else {
            // SAFETY: published, and the receiver's until it advances.
            let number = unsafe { front.cell.body() };
            assert!(number < BODIES);
            self.bodies.wrapping_add(number * self.stride)
        }
    }

    /// Is done with the message that `peek` gave.
    #[inline(always)]
    pub fn advance(&mut self) {
        // SAFETY: as `new` was promised.
        let ends = unsafe { self.ends.as_ref() };
        let position = self.view.next;
        self.view.next += 1;
        if self.view.next >= self.view.tell_at {
            // SAFETY: as above; the place is within the queue, and the cell the receiver's until senders are told.
            let last = unsafe { self.cells.add(position as usize & (CELLS - 1)).as_ref() };
            self.view.tell(ends, last, CELLS);
        }
    }
}

impl Front<'_> {
    /// Its sender.
    #[inline(always)]
    pub fn from(self) -> Peer {
        self.cell.envelope_word(0) as u32
    }

    /// Bytes of payload, as the sender says.
    #[inline(always)]
    pub fn len(self) -> usize {
        (self.cell.envelope_word(0) >> 32) as usize
    }

    /// Whether it has no payload.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Word `number` of its header.
    #[inline(always)]
    pub fn word(self, number: usize) -> u64 {
        self.cell.envelope_word(number + 1)
    }

    /// Its header.
    #[inline(always)]
    pub fn header(self) -> Header {
        Header([self.word(0), self.word(1), self.word(2)])
    }
}

/// Copies up to [`INLINE`] bytes in line.
///
/// # Safety
/// `from` must be valid for reads and `to` for writes of `len` bytes; they must not overlap.
#[inline(always)]
pub unsafe fn copy_short(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: every access lies within `len` bytes; where two parts overlap, they carry the same bytes to
    // the same places.
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

/// As [`copy_short`], up to 16 bytes.
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn copy_shorter(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: as above.
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

    /// Writes source, length and header.
    ///
    /// # Safety
    /// The cell has been claimed.
    #[cfg(not(loom))]
    #[inline(always)]
    pub unsafe fn set_envelope(&self, envelope: Envelope) {
        // SAFETY: the caller's contract.
        unsafe { self.envelope.get().write(envelope) };
    }

    /// A word of the envelope of a cell that is published and has not been released.
    #[cfg(not(loom))]
    #[inline(always)]
    fn envelope_word(&self, number: usize) -> u64 {
        // SAFETY: the receiver alone calls this, between `peek` and `advance`, when no sender writes.
        unsafe { (*self.envelope.get())[number] }
    }

    /// Where a short payload is.
    ///
    /// # Safety
    /// The cell is the caller's: claimed, or published and not released.
    #[cfg(not(loom))]
    #[inline(always)]
    pub unsafe fn payload(&self) -> *mut u8 {
        self.inline.get().cast()
    }

    /// Writes source, length and header.
    ///
    /// # Safety
    /// As above.
    #[cfg(loom)]
    pub unsafe fn set_envelope(&self, envelope: Envelope) {
        // SAFETY: the caller's contract.
        self.envelope.with_mut(|place| unsafe { *place = envelope });
    }

    #[cfg(loom)]
    fn envelope_word(&self, number: usize) -> u64 {
        // SAFETY: as above.
        self.envelope.with(|place| unsafe { (*place)[number] })
    }

    /// Where a short payload is.
    ///
    /// # Safety
    /// As above.
    #[cfg(loom)]
    pub unsafe fn payload(&self) -> *mut u8 {
        self.inline.with_mut(|place| place.cast())
    }

    /// Says which body the payload is in, where that of a short one would be.
    ///
    /// # Safety
    /// The cell has been claimed.
    #[inline(always)]
    pub unsafe fn set_body(&self, number: usize) {
        // SAFETY: the caller's contract; the place is long enough.
        unsafe { self.payload().cast::<u32>().write_unaligned(number as u32) };
    }

    /// Which body the payload is in.
    ///
    /// # Safety
    /// The cell is published and has not been released, and its message is longer than [`INLINE`].
    #[inline(always)]
    unsafe fn body(&self) -> usize {
        // SAFETY: the caller's contract; the place is long enough.
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
