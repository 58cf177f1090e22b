//! Request slots: small accesses to the program's memory in another process of the node, carried out
//! by the target.
//!
//! The kernel copies such memory without the target's help, but a system call costs more than a word
//! through shared memory and back. So each member has a slot in shared memory. An origin that finds
//! it free writes its request there, and a target that makes progress carries it out. If the target
//! does not take the request within about a microsecond, the origin takes it back and uses a CMA
//! copy. So no access depends on the target. An origin whose requests are not served makes fewer.
//!
//! In both cases the access is complete when the call returns. Both sides accumulate under the same
//! lock, so both belong to one domain of atomicity.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

use crate::copied::inbox::Inbox;
use crate::copied::request_slot::{ROOM, SmallAccess, Words};
use crate::locks::control::Control;
use crate::window::apply::{self, LONGEST_COMPARED, Reduction};
use crate::window::attached::Attached;

/// Number of polls for an answer before a request is taken back.
const POLLS: u32 = 100;

/// Number of successive requests that were not taken, after which requests become rare.
const MISSES: u32 = 3;
/// Number of accesses per request while requests are rare.
const SELDOM: u32 = 64;

/// Tracks whether targets serve an origin's requests.
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
        // Counts accesses while requests are rare.
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

/// Requests an access of `member` to `count` bytes (elements, for accumulates) at offset `at` of its
/// memory. `input` is the data, up to [`ROOM`] bytes; `output` receives the previous data. Returns
/// whether the member carried it out. Calls `serve` while it waits, since the member may be waiting
/// for this process.
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
    // SAFETY: the words belong to this thread from `fill` to `ask`.
    unsafe { slot.words.get().write(words) };
    slot.turn.ask();
    let mut polls = 0u32;
    while !slot.turn.is_done() {
        polls += 1;
        if polls == POLLS && slot.turn.take_back() {
            hit_rate.note(false);
            return false;
        }
        if polls > POLLS && polls.is_multiple_of(32) {
            // The target has taken the request, but does not run at the moment.
            std::thread::yield_now();
            if polls.is_multiple_of(1 << 15) && control.is_dead(member) {
                return false;
            }
        }
        if !serve() {
            std::hint::spin_loop();
        }
    }
    // SAFETY: the words belong to the origin again when the request is done.
    let data = unsafe { (*slot.words.get()).data };
    output.copy_from_slice(&data[..output.len()]);
    slot.turn.release();
    hit_rate.note(true);
    true
}

/// A member's own slot, with the memory that it serves.
pub(crate) struct ServedSlot {
    pub control: Control,
    pub member: usize,
    /// Address of its memory; NULL for a dynamic window, whose offsets are addresses.
    pub base: *mut u8,
    pub size: usize,
    /// The regions attached to a dynamic window.
    pub attached: Option<Arc<Mutex<Attached>>>,
    /// Its position in the rings of other members, if the window has rings.
    pub inbox: Option<Inbox>,
}

// SAFETY: `base` is the window's memory, which is valid while the slot is served, and not bound to a
// thread.
unsafe impl Send for ServedSlot {}

impl ServedSlot {
    /// Carries out pending requests. Returns whether there were any.
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
        // SAFETY: the words belong to this thread from `take` to `finish`.
        let words = unsafe { &mut *slot.words.get() };
        // SAFETY: the words belong to this thread from `take` to `finish`.
        unsafe { self.carry_out(slot.what.load(Ordering::Relaxed), words) };
        slot.turn.finish();
        true
    }

    /// Carries out the request in a slot.
    ///
    /// # Safety
    /// The words must belong to this thread.
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
        // Checked again although origins do: a stray pointer may have overwritten the slot.
        if end.is_none_or(|end| end > self.size) || len > ROOM {
            return;
        }
        let place = self.base.wrapping_add(words.at as usize);
        let data = words.data.as_mut_ptr();
        // SAFETY: the range was checked above; `data` has space for `len` bytes; all members accumulate
        // under this member's lock.
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
