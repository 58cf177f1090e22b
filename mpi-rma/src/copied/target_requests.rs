//! A short cut for small accesses to memory of the program's in another process of the node.
//!
//! The kernel copies such memory without its owner's help, but a system call takes longer than a
//! word through shared memory and back. So each member has a slot in shared memory: an origin that
//! finds it free writes what it wants there, and if the owner is in the library, waiting for something,
//! it does it. If the owner doesn't take it up in a microsecond or so, the origin takes it back and has
//! the kernel do it. Nothing depends on the owner, and an origin that goes unheard asks less often.
//!
//! Either way an access is complete when the call returns, and accumulates are made under the
//! same lock, so both ways are one domain.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

use crate::copied::inbox::Inbox;
use crate::copied::request_slot::{ROOM, SmallAccess, Words};
use crate::locks::control::Control;
use crate::window::apply::{self, LONGEST_COMPARED, Reduction};
use crate::window::attached::Attached;

/// So often an origin looks for an answer.
const LOOKS: u32 = 100;

/// After so many requests that were not taken up, only one access in [`SELDOM`] makes another.
const MISSES: u32 = 3;
const SELDOM: u32 = 64;

/// How an origin fares with its requests.
#[derive(Default)]
pub(crate) struct HitRate {
    misses: AtomicU32,
}

impl HitRate {
    pub(crate) fn may_ask(&self) -> bool {
        let misses = self.misses.load(Ordering::Relaxed);
        if misses <= MISSES {
            return true;
        }
        // Counted up, so that the turn comes.
        self.misses
            .store(misses.wrapping_add(1).max(MISSES + 1), Ordering::Relaxed);
        misses.is_multiple_of(SELDOM)
    }

    pub(crate) fn note(&self, had: bool) {
        match had {
            true => self.misses.store(0, Ordering::Relaxed),
            false => {
                self.misses.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Asks `member` for something on `count` bytes (elements, for accumulates) at `at` of its memory.
/// `input` is what goes there, up to [`ROOM`] bytes; what was there is written to `output`. Returns
/// whether it was done. While it waits it calls `serve`, since the member may be asking this process.
pub(crate) fn ask(
    control: &Control,
    hit_rate: &HitRate,
    member: usize,
    what: SmallAccess,
    (at, count): (u64, usize),
    input: &[u8],
    output: &mut [u8],
    serve: impl Fn() -> bool,
) -> bool {
    if input.len() > ROOM || output.len() > ROOM || !hit_rate.may_ask() {
        return false;
    }
    let slot = control.slot(member);
    if !slot.turn.fill() {
        return false;
    }
    let (kind, op, element) = what.numbers();
    let mut words = Words {
        at,
        count: count as u16,
        op,
        element,
        data: [0; ROOM],
    };
    words.data[..input.len()].copy_from_slice(input);
    slot.what.store(kind, Ordering::Relaxed);
    // SAFETY: `fill` has made the words this thread's until `ask`.
    unsafe { slot.words.get().write(words) };
    slot.turn.ask();
    let mut looks = 0u32;
    while !slot.turn.is_done() {
        looks += 1;
        if looks == LOOKS && slot.turn.take_back() {
            hit_rate.note(false);
            return false;
        }
        if looks > LOOKS && looks.is_multiple_of(32) {
            // The owner is at it, but has lost its core.
            std::thread::yield_now();
            if looks.is_multiple_of(1 << 15) && control.is_dead(member) {
                return false;
            }
        }
        if !serve() {
            std::hint::spin_loop();
        }
    }
    // SAFETY: what is done gives the words back to who asked.
    let data = unsafe { (*slot.words.get()).data };
    output.copy_from_slice(&data[..output.len()]);
    slot.turn.release();
    hit_rate.note(true);
    true
}

/// A member's slot as it serves it itself.
pub(crate) struct ServedSlot {
    pub control: Control,
    pub member: usize,
    /// Where its memory begins; NULL for a dynamic window's, whose places are addresses.
    pub base: *mut u8,
    pub size: usize,
    /// What is attached to a dynamic window.
    pub attached: Option<Arc<Mutex<Attached>>>,
    /// Where it has come to in others' rings, if there are some.
    pub inbox: Option<Inbox>,
}

// SAFETY: the memory is the window's, which stays until the slot is served no more.
unsafe impl Send for ServedSlot {}

impl ServedSlot {
    /// Does what is asked for. Returns whether anything was.
    pub fn serve(&mut self) -> bool {
        let size = self.size as u64;
        match (&mut self.inbox, &self.attached) {
            (Some(inbox), None) => inbox.serve(&self.control, self.base, &|at, len| {
                at.checked_add(len as u64).is_some_and(|end| end <= size)
            }),
            (Some(inbox), Some(attached)) => inbox.serve(&self.control, self.base, &|at, len| {
                attached.lock().covers(at as usize, len)
            }),
            (None, _) => self.serve_slot(),
        }
    }

    fn serve_slot(&self) -> bool {
        let slot = self.control.slot(self.member);
        if !slot.turn.take() {
            return false;
        }
        // SAFETY: `take` has made the words this thread's until `finish`.
        let words = unsafe { &mut *slot.words.get() };
        // SAFETY: as above.
        unsafe { self.carry_out(slot.what.load(Ordering::Relaxed), words) };
        slot.turn.finish();
        true
    }

    /// # Safety
    /// The words are this thread's.
    unsafe fn carry_out(&self, what: u32, words: &mut Words) {
        let count = usize::from(words.count);
        let reduction = match what {
            2 => Reduction::from_numbers(words.op.into(), words.element.into()),
            _ => None,
        };
        let len = match &reduction {
            Some(reduction) => count * reduction.extent(),
            None => count,
        };
        let end = usize::try_from(words.at)
            .ok()
            .and_then(|at| at.checked_add(len));
        // Origins have checked this; a slot that is overwritten by a stray pointer does no more harm.
        if end.is_none_or(|end| end > self.size) || len > ROOM {
            return;
        }
        let place = self.base.wrapping_add(words.at as usize);
        let data = words.data.as_mut_ptr();
        // SAFETY: within this process's memory of the window; `data` has room for `len` bytes;
        // accumulates are under this member's lock, as by all others.
        unsafe {
            match (what, reduction) {
                (0, _) => netmod_kit::copy(data, place, count),
                (1, _) => netmod_kit::copy(place, data, count),
                (2, Some(reduction)) => self.control.with_busy(self.member, || {
                    let mut found = [0u8; ROOM];
                    reduction.apply_exclusive(place, count, data, found.as_mut_ptr());
                    words.data = found;
                }),
                (3, _) if count <= LONGEST_COMPARED => self.control.with_busy(self.member, || {
                    let (halves, _) = words.data.as_chunks::<LONGEST_COMPARED>();
                    let [compare, new] = [halves[0], halves[1]].map(u128::from_le_bytes);
                    let old = apply::compare_and_swap(place, compare, new, count, false);
                    words.data[..LONGEST_COMPARED].copy_from_slice(&old.to_le_bytes());
                }),
                _ => {}
            }
        }
    }
}
