//! Combining of reads by the ranks of a node.
//!
//! Ranks that read pieces of the same stretch by data sieving would each copy all of it from the
//! system's cache. Here the stretch is read by windows into memory shared by the node, each window
//! by the first rank that needs it, and the others pick their pieces from it.
//!
//! The data that a rank gets is as new as if it had read by itself: a window counts only if its
//! read began after the rank's own access did, by a counter of all beginnings. Ranks do not depend
//! on each other: a rank that finds no slot for a window, or waits too long for one that another
//! rank reads, reads to private memory.

#![allow(unsafe_code, reason = "memory that processes share")]

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

use crate::direction::Direction;
use crate::driver::Storage;
use crate::one_run::move_all;
use crate::patience::{Patience, State};
use crate::shared_area::SharedArea;
use crate::view::Run;

/// Bytes of a window. Windows begin at multiples of it in the file.
pub(crate) const WINDOW: u64 = 128 << 10;
/// Number of windows in shared memory. Together they fit in a core's cache.
const SLOTS: u64 = 16;
/// Largest number of members that share reads.
const MOST_MEMBERS: usize = 64;
/// Bytes in front of the windows.
const HEADS: usize = 4096 * 2;
/// Times that a rank yields its core while it waits for a window that is being read.
const YIELDS: u32 = 1000;
/// Times that a rank yields its core at the beginning, if not all have begun.
const COMING: u32 = 4;

/// The state of a slot that is being filled; other values count the ranks that pick from it.
const FILLED: u32 = 1 << 31;

/// Returns the bytes of shared memory for `members` members. They occupy memory when they are first
/// used.
pub(crate) fn piece_len(members: usize) -> usize {
    match members <= MOST_MEMBERS {
        true => HEADS + (SLOTS * WINDOW) as usize,
        false => 0,
    }
}

/// Has a cache line of its own, since ranks write it often.
#[repr(C, align(64))]
struct Slot {
    /// [`FILLED`], or the number of ranks that pick from it.
    users: AtomicU32,
    /// The number of its window, plus 1.
    window: AtomicU64,
    /// The counter of beginnings when its read began.
    begun: AtomicU64,
    /// Bytes of the window that the file has.
    len: AtomicU64,
}

/// The progress of a member: the window that it wants, plus 1 (0 if it does not read), its last
/// one, and the counter when its access began.
#[repr(C, align(64))]
struct MemberProgress {
    next: AtomicU64,
    last: AtomicU64,
    since: AtomicU64,
}

#[repr(C)]
struct Heads {
    begun: AtomicU64,
    /// Number of ranks that read by sieving.
    reading: AtomicU32,
    slots: [Slot; SLOTS as usize],
    places: [MemberProgress; MOST_MEMBERS],
}

const _: () = assert!(size_of::<Heads>() <= HEADS);

/// The shared reads of a file's members.
pub(crate) struct ReadOnce {
    /// The shared memory, and the offset of the heads in it.
    room: Option<(Arc<SharedArea>, usize)>,
    me: usize,
    members: usize,
    /// Excludes other threads of the process.
    own: Mutex<()>,
    patience: Patience,
}

/// An access of this rank.
pub(crate) struct Reading<'a> {
    once: &'a ReadOnce,
    heads: &'a Heads,
    since: u64,
    last: u64,
    _thread: MutexGuard<'a, ()>,
}

/// The data of a window. It does not change while this exists.
pub(crate) struct Picked<'a> {
    slot: &'a Slot,
    pub data: &'a [u8],
}

impl Drop for Picked<'_> {
    fn drop(&mut self) {
        self.slot.users.fetch_sub(1, Ordering::Release);
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.heads.places[self.once.me]
            .next
            .store(0, Ordering::Relaxed);
        self.heads.reading.fetch_sub(1, Ordering::Relaxed);
    }
}

impl MemberProgress {
    /// Returns whether the member will need a window.
    fn comes_to(&self, window: u64) -> bool {
        let next = self.next.load(Ordering::Relaxed);
        let last = self.last.load(Ordering::Relaxed);
        next != 0 && next - 1 <= window && window <= last
    }

    /// Returns whether the member reads near a window.
    fn is_near(&self, window: u64) -> bool {
        let next = self.next.load(Ordering::Relaxed);
        let last = self.last.load(Ordering::Relaxed);
        next != 0 && next <= window + SLOTS && window <= last
    }
}

impl ReadOnce {
    /// `room` has [`piece_len`] bytes from offset `at` on, zero at first.
    pub fn new(
        room: Option<Arc<SharedArea>>,
        at: usize,
        me: usize,
        members: usize,
        storage: &dyn Storage,
    ) -> ReadOnce {
        let may = members <= MOST_MEMBERS && storage.is_local();
        ReadOnce {
            room: room.filter(|_| may).map(|room| (room, at)),
            me,
            members,
            own: Mutex::default(),
            patience: Patience::default(),
        }
    }

    fn start(&self) -> Option<*mut u8> {
        let (room, at) = self.room.as_ref()?;
        Some(room.start()?.wrapping_add(*at))
    }

    /// Begins to read a stretch of the file, if sharing is possible and pays off.
    pub fn begin(&self, stretch: &Range<u64>) -> Option<Reading<'_>> {
        if stretch.end - stretch.start < 2 * WINDOW {
            return None;
        }
        let start = self.start()?;
        // SAFETY: the heads lie in the shared memory, aligned to a page; all members access their
        // words atomically, and the memory is mapped as long as `self` lives.
        let heads = unsafe { &*start.cast::<Heads>() };
        let thread = self.own.try_lock()?;
        let last = (stretch.end - 1) / WINDOW;
        // A read-modify-write: the rank that increments it next sees all that happened before.
        let since = heads.begun.fetch_add(1, Ordering::AcqRel) + 1;
        let place = &heads.places[self.me];
        place.since.store(since, Ordering::Relaxed);
        place.last.store(last, Ordering::Relaxed);
        place
            .next
            .store(stretch.start / WINDOW + 1, Ordering::Relaxed);
        let mut reading = heads.reading.fetch_add(1, Ordering::Relaxed) + 1;
        // Other ranks may have left the same barrier and only lack a core.
        for _ in 0..COMING {
            if reading as usize >= self.members {
                break;
            }
            std::thread::yield_now();
            reading = heads.reading.load(Ordering::Relaxed);
        }
        Some(Reading {
            once: self,
            heads,
            since,
            last,
            _thread: thread,
        })
    }
}

impl<'a> Reading<'a> {
    /// Returns the data of a window. `None` if the caller had better read it privately, which also
    /// reports errors.
    pub fn window(&self, storage: &dyn Storage, window: u64) -> Option<Picked<'a>> {
        let heads = self.heads;
        heads.places[self.once.me]
            .next
            .store(window + 1, Ordering::Relaxed);
        if heads.reading.load(Ordering::Relaxed) < 2
            || !self.others().any(|place| place.is_near(window))
        {
            return None;
        }
        let slot = self.slot(window);
        let mut polls = 0_u32;
        let (mut waiting, mut waited) = (None, false);
        loop {
            if let Some(picked) = self.pick(window) {
                return Some(picked);
            }
            let users = slot.users.load(Ordering::Acquire);
            let held = slot.window.load(Ordering::Relaxed);
            if users == FILLED && held == window + 1 {
                // Other windows can be read meanwhile.
                if self.fill_ahead(storage, window) {
                    continue;
                }
                polls += 1;
                if polls > YIELDS {
                    return None;
                }
            } else if held > window + 1 && self.is_wanted(slot) {
                // The slot has a later window: other ranks are ahead, and wait for those behind.
                return None;
            } else if users != 0 || self.is_wanted(slot) {
                // Other ranks still need the slot's window.
                if !waited {
                    waited = true;
                    waiting = self.once.patience.begin(2);
                }
                let goes = waiting
                    .as_mut()
                    .is_some_and(|waiting| waiting.state(|| 0) == State::Goes);
                if !goes {
                    if waiting.take().is_some() {
                        self.once.patience.learn(false);
                    }
                    if users != 0 || !self.fill(storage, window, 1) {
                        return None;
                    }
                    return Some(self.picked(slot));
                }
            } else if self.fill(storage, window, 1) {
                if waiting.is_some() {
                    self.once.patience.learn(true);
                }
                return Some(self.picked(slot));
            }
            std::thread::yield_now();
        }
    }

    fn others(&self) -> impl Iterator<Item = &'a MemberProgress> + use<'a> {
        let (me, heads) = (self.once.me, self.heads);
        (0..self.once.members)
            .filter(move |member| *member != me)
            .map(|member| &heads.places[member])
    }

    fn slot(&self, window: u64) -> &'a Slot {
        &self.heads.slots[(window % SLOTS) as usize]
    }

    /// Returns the memory of a slot.
    fn memory(&self, slot: &Slot) -> *mut u8 {
        let first = (&raw const self.heads.slots).addr();
        let index = (std::ptr::from_ref(slot).addr() - first) / size_of::<Slot>();
        let start = std::ptr::from_ref(self.heads).cast::<u8>().cast_mut();
        start.wrapping_add(HEADS + index * WINDOW as usize)
    }

    /// Returns the data of a slot in which the caller counts as a user.
    fn picked(&self, slot: &'a Slot) -> Picked<'a> {
        let len = slot.len.load(Ordering::Relaxed).min(WINDOW) as usize;
        // SAFETY: the slot's memory lies in the shared memory behind the heads, and no rank writes
        // to it while `users` counts this one.
        let data = unsafe { std::slice::from_raw_parts(self.memory(slot), len) };
        Picked { slot, data }
    }

    /// Returns a window that is in its slot and new enough.
    fn pick(&self, window: u64) -> Option<Picked<'a>> {
        let slot = self.slot(window);
        if slot.window.load(Ordering::Relaxed) != window + 1 {
            return None;
        }
        let enter = |users: u32| (users < FILLED - 1).then_some(users + 1);
        slot.users
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, enter)
            .ok()?;
        let picked = self.picked(slot);
        // Checked again: the slot can change only while this rank is not a user.
        let is_it = slot.window.load(Ordering::Relaxed) == window + 1
            && slot.begun.load(Ordering::Relaxed) >= self.since;
        is_it.then_some(picked)
    }

    /// Returns whether a rank will soon need the window in a slot.
    fn is_wanted(&self, slot: &Slot) -> bool {
        let held = slot.window.load(Ordering::Relaxed);
        let begun = slot.begun.load(Ordering::Relaxed);
        held != 0
            && self.others().any(|place| {
                place.comes_to(held - 1) && begun >= place.since.load(Ordering::Relaxed)
            })
    }

    /// Reads a window into its slot, and leaves `users` users in it. Returns whether it succeeded.
    fn fill(&self, storage: &dyn Storage, window: u64, users: u32) -> bool {
        let slot = self.slot(window);
        let is_free = slot
            .users
            .compare_exchange(0, FILLED, Ordering::Acquire, Ordering::Relaxed)
            .is_ok();
        if !is_free {
            return false;
        }
        slot.window.store(window + 1, Ordering::Relaxed);
        let begun = self.heads.begun.fetch_add(1, Ordering::AcqRel) + 1;
        slot.begun.store(begun, Ordering::Relaxed);
        let run = Run {
            at: window * WINDOW,
            len: WINDOW,
        };
        // SAFETY: the slot's memory is as long as a window, and FILLED, set by this rank, excludes
        // others from it.
        let read = unsafe { move_all(storage, run, self.memory(slot), Direction::Read) };
        match read {
            Ok(len) => {
                slot.len.store(len, Ordering::Relaxed);
                slot.users.store(users, Ordering::Release);
                true
            }
            Err(_) => {
                slot.window.store(0, Ordering::Relaxed);
                slot.users.store(0, Ordering::Release);
                false
            }
        }
    }

    /// Reads one of the next windows, which other ranks will need as well.
    fn fill_ahead(&self, storage: &dyn Storage, window: u64) -> bool {
        for next in window + 1..=self.last.min(window + SLOTS / 2) {
            let slot = self.slot(next);
            let is_there = slot.window.load(Ordering::Relaxed) == next + 1
                && slot.begun.load(Ordering::Relaxed) >= self.since;
            if is_there {
                continue;
            }
            let is_free = slot.users.load(Ordering::Relaxed) == 0 && !self.is_wanted(slot);
            // Of later windows none is nearer to another rank.
            return is_free && self.fill(storage, next, 0);
        }
        false
    }
}

#[cfg(test)]
mod tests;
