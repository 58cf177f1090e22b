//! The calls of a thread for the timeline. The thread appends without a lock; other threads read.

use std::array;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Most calls of a thread.
const MOST: usize = 1 << 20;
/// Calls per allocation, 192 KiB. The kernel provides zeroed pages of such an allocation at their
/// first write. Calls never move.
const PIECE: usize = 1 << 13;
/// Bits of a call's duration in a word, below its function. 48 bits of ticks are hours.
const LENGTH_BITS: u32 = 48;
const LONGEST: u64 = (1 << LENGTH_BITS) - 1;

/// A call, in ticks.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// The function's number, less than 2^16.
    pub function: usize,
    /// Its start.
    pub begin: u64,
    /// Its duration, at most `LONGEST`.
    pub ticks: u64,
    /// Bytes by its arguments.
    pub bytes: u64,
}

/// A stored call.
#[repr(C)]
struct Slot {
    begin: AtomicU64,
    /// The duration, and above it the function.
    what: AtomicU64,
    bytes: AtomicU64,
}

/// Words of a slot.
const WORDS: usize = size_of::<Slot>() / size_of::<u64>();

type Piece = OnceLock<Box<[Slot]>>;

/// The calls of a thread; only that thread appends.
pub struct Events {
    pieces: Box<[Piece; MOST / PIECE]>,
    /// Number of stored calls.
    kept: AtomicUsize,
    /// Number of calls beyond [`MOST`].
    lost: AtomicUsize,
}

impl Default for Events {
    fn default() -> Self {
        Events {
            pieces: Box::new(array::from_fn(|_| OnceLock::new())),
            kept: AtomicUsize::new(0),
            lost: AtomicUsize::new(0),
        }
    }
}

impl Events {
    /// Appends a call. Only the thread that owns the calls may do so.
    #[inline]
    pub fn keep(&self, event: Event) {
        let at = self.kept.load(Ordering::Relaxed);
        let Some(piece) = self.pieces.get(at / PIECE) else {
            let lost = self.lost.load(Ordering::Relaxed);
            self.lost.store(lost + 1, Ordering::Relaxed);
            return;
        };
        let slots = match piece.get() {
            Some(slots) => slots,
            None => room(piece),
        };
        let slot = &slots[at % PIECE];
        let what = event.ticks.min(LONGEST) | (event.function as u64) << LENGTH_BITS;
        slot.begin.store(event.begin, Ordering::Relaxed);
        slot.what.store(what, Ordering::Relaxed);
        slot.bytes.store(event.bytes, Ordering::Relaxed);
        // Release: a reader that sees the number sees the slot.
        self.kept.store(at + 1, Ordering::Release);
    }

    /// Returns all stored calls.
    pub fn all(&self) -> impl Iterator<Item = Event> {
        let kept = self.kept.load(Ordering::Acquire);
        let pieces = self.pieces.iter().map_while(OnceLock::get);
        pieces
            .flat_map(|slots| slots.iter())
            .take(kept)
            .map(|slot| {
                let what = slot.what.load(Ordering::Relaxed);
                Event {
                    function: (what >> LENGTH_BITS) as usize,
                    begin: slot.begin.load(Ordering::Relaxed),
                    ticks: what & LONGEST,
                    bytes: slot.bytes.load(Ordering::Relaxed),
                }
            })
    }

    /// Number of calls beyond [`MOST`].
    pub fn lost(&self) -> usize {
        self.lost.load(Ordering::Relaxed)
    }
}

#[cold]
fn room(piece: &Piece) -> &[Slot] {
    piece.get_or_init(|| {
        let zeros = Box::into_raw(vec![0_u64; PIECE * WORDS].into_boxed_slice());
        let slots = ptr::slice_from_raw_parts_mut(zeros.cast::<Slot>(), PIECE);
        // SAFETY: a slot is three atomic words, for which zero is valid, so size and alignment are
        // those of the allocation; `into_raw` has given its ownership to `slots`.
        unsafe { Box::from_raw(slots) }
    })
}
