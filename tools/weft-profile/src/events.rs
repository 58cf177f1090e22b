//! The calls that a thread keeps for the timeline: it adds to them without a lock, and others read them.

use std::array;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Calls of one thread that are kept, at most.
const MOST: usize = 1 << 20;
/// Calls that room is made for at once, 192 KiB: so much comes from the kernel page by page as it is written to, and nobody
/// writes zeros there. What is there never moves.
const PIECE: usize = 1 << 13;
/// Where a call's length and its function meet in a word. 48 bits of ticks are hours.
const LENGTH_BITS: u32 = 48;
const LONGEST: u64 = (1 << LENGTH_BITS) - 1;

/// A call, in ticks.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// The function's number, less than 2^16.
    pub function: usize,
    /// When it began.
    pub begin: u64,
    /// How long it took; what is longer than `LONGEST` is cut.
    pub ticks: u64,
    /// Bytes that it says it moves.
    pub bytes: u64,
}

/// A call as it is kept.
#[repr(C)]
struct Slot {
    begin: AtomicU64,
    /// The length, and above it the function.
    what: AtomicU64,
    bytes: AtomicU64,
}

/// Of a slot.
const WORDS: usize = size_of::<Slot>() / size_of::<u64>();

type Piece = OnceLock<Box<[Slot]>>;

/// The calls of a thread, which alone adds to them.
pub struct Events {
    pieces: Box<[Piece; MOST / PIECE]>,
    /// How many are there.
    kept: AtomicUsize,
    /// How many there was no room for.
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
    /// Adds a call. Only the thread whose they are does.
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
        // Who sees the number sees what is in the slot.
        self.kept.store(at + 1, Ordering::Release);
    }

    /// All that are there by now.
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

    /// How many there was no room for.
    pub fn lost(&self) -> usize {
        self.lost.load(Ordering::Relaxed)
    }
}

#[cold]
fn room(piece: &Piece) -> &[Slot] {
    piece.get_or_init(|| {
        let zeros = Box::into_raw(vec![0_u64; PIECE * WORDS].into_boxed_slice());
        let slots = ptr::slice_from_raw_parts_mut(zeros.cast::<Slot>(), PIECE);
        // SAFETY: a slot is three words, for which zero is a value; so that the box has size and alignment of what was
        // allocated, and nobody else has that.
        unsafe { Box::from_raw(slots) }
    })
}
