//! Reads of several ranks of a node as one.
//!
//! Ranks that read pieces of the same stretch by data sieving would each copy all of it out of the system's cache.
//! Here the stretch is read by windows into memory that the node shares, each window by whoever comes to it first, and
//! the others pick their pieces out of it.
//!
//! What a rank finds there is as new as if it had read by itself: a window counts only if its reading began after the
//! rank's own access did, which a count of all beginnings tells. Nobody depends on another one: who finds no
//! place for a window, or waits too long for one that another rank reads, reads to memory of its own.

#![allow(unsafe_code, reason = "memory that processes share")]

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

use crate::direction::Direction;
use crate::driver::Storage;
use crate::patience::{Patience, State};
use crate::plain::move_plain;
use crate::room::Room;
use crate::view::Run;

/// Bytes of a window. A window begins at a multiple of it in the file.
pub(crate) const WINDOW: u64 = 128 << 10;
/// How many windows there is room for. Together they fit a core's cache.
const SLOTS: u64 = 16;
/// With more members nothing is shared.
const MOST_MEMBERS: usize = 64;
/// Bytes in front of the windows.
const HEADS: usize = 4096 * 2;
/// How often who waits for a window that is being read gives the core to others.
const YIELDS: u32 = 1000;
/// How often who begins does, if not all have begun.
const COMING: u32 = 4;

/// A slot that is being filled; otherwise the number of ranks that pick out of it.
const FILLED: u32 = 1 << 31;

/// Bytes of the piece for so many members. They take memory when they are used.
pub(crate) fn piece_len(members: usize) -> usize {
    match members <= MOST_MEMBERS {
        true => HEADS + (SLOTS * WINDOW) as usize,
        false => 0,
    }
}

/// A line of cache for each word that ranks write often.
#[repr(C, align(64))]
struct Slot {
    /// [`FILLED`], or how many pick out of it.
    users: AtomicU32,
    /// Which window it holds, plus 1.
    window: AtomicU64,
    /// The count when its reading began.
    begun: AtomicU64,
    /// How much of it the file has.
    len: AtomicU64,
}

/// Where a member is: the window that it wants, plus 1 (0 if it does not read), its last one, and the count
/// when its access began.
#[repr(C, align(64))]
struct Place {
    next: AtomicU64,
    last: AtomicU64,
    since: AtomicU64,
}

#[repr(C)]
struct Heads {
    begun: AtomicU64,
    /// How many ranks read by sieving.
    reading: AtomicU32,
    slots: [Slot; SLOTS as usize],
    places: [Place; MOST_MEMBERS],
}

const _: () = assert!(size_of::<Heads>() <= HEADS);

/// What members of a file read together.
pub(crate) struct ReadOnce {
    /// The memory, and where in it the heads are.
    room: Option<(Arc<Room>, usize)>,
    me: usize,
    members: usize,
    /// One thread of the process at a time.
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

/// What the file has of a window. Nobody changes it as long as this is kept.
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

impl Place {
    /// Whether the member will come to a window.
    fn comes_to(&self, window: u64) -> bool {
        let next = self.next.load(Ordering::Relaxed);
        let last = self.last.load(Ordering::Relaxed);
        next != 0 && next - 1 <= window && window <= last
    }

    /// Whether what the member reads lies about here.
    fn is_near(&self, window: u64) -> bool {
        let next = self.next.load(Ordering::Relaxed);
        let last = self.last.load(Ordering::Relaxed);
        next != 0 && next <= window + SLOTS && window <= last
    }
}

impl ReadOnce {
    /// The room is [`piece_len`] bytes long from byte `at` on, and was zero at first.
    pub fn new(
        room: Option<Arc<Room>>,
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

    /// Begins to read a stretch of the file, if that can be shared with others and is worth it.
    pub fn begin(&self, stretch: &Range<u64>) -> Option<Reading<'_>> {
        if stretch.end - stretch.start < 2 * WINDOW {
            return None;
        }
        let start = self.start()?;
        // SAFETY: the heads lie in the piece, at the beginning of a page, and are used as atomic words by all;
        // the piece is mapped as long as `self` lives.
        let heads = unsafe { &*start.cast::<Heads>() };
        let thread = self.own.try_lock()?;
        let last = (stretch.end - 1) / WINDOW;
        // A change, not a look: whoever counts on sees all that came before here.
        let since = heads.begun.fetch_add(1, Ordering::AcqRel) + 1;
        let place = &heads.places[self.me];
        place.since.store(since, Ordering::Relaxed);
        place.last.store(last, Ordering::Relaxed);
        place
            .next
            .store(stretch.start / WINDOW + 1, Ordering::Relaxed);
        let mut reading = heads.reading.fetch_add(1, Ordering::Relaxed) + 1;
        // Others have perhaps left the same barrier, and only lack a core.
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
    /// What stands in a window of the file. `None` if the caller had better read it by itself, which is also how
    /// it learns of errors.
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
                // Meanwhile the next ones can be read.
                if self.fill_ahead(storage, window) {
                    continue;
                }
                polls += 1;
                if polls > YIELDS {
                    return None;
                }
            } else if held > window + 1 && self.is_wanted(slot) {
                // Others are ahead. They wait for those behind.
                return None;
            } else if users != 0 || self.is_wanted(slot) {
                // Others have yet to come to what stands there.
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

    fn others(&self) -> impl Iterator<Item = &'a Place> + use<'a> {
        let (me, heads) = (self.once.me, self.heads);
        (0..self.once.members)
            .filter(move |member| *member != me)
            .map(|member| &heads.places[member])
    }

    fn slot(&self, window: u64) -> &'a Slot {
        &self.heads.slots[(window % SLOTS) as usize]
    }

    /// The memory of a slot.
    fn memory(&self, slot: &Slot) -> *mut u8 {
        let first = (&raw const self.heads.slots).addr();
        let index = (std::ptr::from_ref(slot).addr() - first) / size_of::<Slot>();
        let start = std::ptr::from_ref(self.heads).cast::<u8>().cast_mut();
        start.wrapping_add(HEADS + index * WINDOW as usize)
    }

    /// What a slot holds, in which the caller counts as a user.
    fn picked(&self, slot: &'a Slot) -> Picked<'a> {
        let len = slot.len.load(Ordering::Relaxed).min(WINDOW) as usize;
        // SAFETY: the window lies in the piece behind the heads; nobody writes to it while it has users.
        let data = unsafe { std::slice::from_raw_parts(self.memory(slot), len) };
        Picked { slot, data }
    }

    /// A window that is there, and new enough.
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
        // Only now it stays.
        let is_it = slot.window.load(Ordering::Relaxed) == window + 1
            && slot.begun.load(Ordering::Relaxed) >= self.since;
        is_it.then_some(picked)
    }

    /// Whether somebody will soon come to what a slot holds.
    fn is_wanted(&self, slot: &Slot) -> bool {
        let held = slot.window.load(Ordering::Relaxed);
        let begun = slot.begun.load(Ordering::Relaxed);
        held != 0
            && self.others().any(|place| {
                place.comes_to(held - 1) && begun >= place.since.load(Ordering::Relaxed)
            })
    }

    /// Reads a window to its slot, and leaves so many users in it. Whether that could be done.
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
        // SAFETY: the slot's memory is as long as a window, and nobody else uses it now.
        let read = unsafe { move_plain(storage, run, self.memory(slot), Direction::Read) };
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

    /// Reads one of the next windows, which others will want as well.
    fn fill_ahead(&self, storage: &dyn Storage, window: u64) -> bool {
        for next in window + 1..=self.last.min(window + SLOTS / 2) {
            let slot = self.slot(next);
            let is_there = slot.window.load(Ordering::Relaxed) == next + 1
                && slot.begun.load(Ordering::Relaxed) >= self.since;
            if is_there {
                continue;
            }
            let is_free = slot.users.load(Ordering::Relaxed) == 0 && !self.is_wanted(slot);
            // Of those that come later nobody is nearer.
            return is_free && self.fill(storage, next, 0);
        }
        false
    }
}

#[cfg(test)]
mod tests;
