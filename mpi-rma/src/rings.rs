//! Rings in shared memory by which an origin leaves small accesses for a target of its node: one for each pair.
//!
//! A ring has lines as long as a cache's. An *entry* is one line or several in a row: a head, which says what is to be done,
//! and the data behind it. The origin *publishes* entries one behind the other; the target *takes* them in the same order,
//! carries them out, writes what was asked for to their data, and counts their lines as served. Served entries are the
//! origin's again.
//!
//! The origin may also *take back* what the target has not taken, from the latest to the earliest, and goes on where the
//! earliest of these was, which is where the target looks for the next: so each entry is carried out by one of the two, and
//! those that the target carries out are the earlier ones.
//!
//! A line is the origin's to write to while it is free, and the first word of a free line is [`EMPTY`]. One line is always
//! free: the target looks there for the next entry when it has taken all, and finds none.

use std::marker::PhantomData;
use std::mem::offset_of;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of a line.
const LINE: usize = 64;

/// Windows of more members have no rings: they would take memory, and time for looking, by the square of the number.
const MOST_MEMBERS: usize = 16;

/// The first word of a line.
const EMPTY: u32 = 0;
const PUBLISHED: u32 = 1;
const TAKEN: u32 = 2;

/// What is to be done.
#[derive(Clone, Copy, Default, Debug)]
#[repr(C)]
pub(crate) struct Wish {
    /// Where in the target's memory.
    pub at: u64,
    /// Bytes, or elements of accumulates.
    pub count: u32,
    /// Bytes of data.
    pub len: u16,
    /// [`kind`].
    pub kind: u8,
    pub op: u8,
    pub element: u8,
    /// The target could not do it.
    pub refused: bool,
}

/// What an entry asks for.
pub(crate) mod kind {
    /// Nothing: it fills the rest of the ring.
    pub const FILLER: u8 = 0;
    pub const PUT: u8 = 1;
    pub const GET: u8 = 2;
    pub const ACCUMULATE: u8 = 3;
    pub const GET_ACCUMULATE: u8 = 4;
    /// The data is what is compared, and what replaces it.
    pub const COMPARE_AND_SWAP: u8 = 5;
}

#[repr(C)]
struct Head {
    state: AtomicU32,
    /// How many lines the entry has.
    lines: u32,
    wish: Wish,
}

/// Where the data of an entry begins.
const DATA: usize = size_of::<Head>();

const _: () = assert!(DATA < LINE && offset_of!(Head, state) == 0);

/// How many lines a ring has in a window of so many members: a power of two; none where there are no rings.
fn lines(members: usize) -> u32 {
    match members {
        0..2 => 0,
        2..5 => 32,
        5..9 => 16,
        9..=MOST_MEMBERS => 4,
        _ => 0,
    }
}

/// Bytes of a ring; before its lines is one for the target's count.
fn bytes(members: usize) -> usize {
    match lines(members) {
        0 => 0,
        lines => (lines as usize + 1) * LINE,
    }
}

/// Bytes of all rings of a window of so many members.
pub(crate) fn all_bytes(members: usize) -> usize {
    members * members * bytes(members)
}

/// A ring, as both sides see it.
#[derive(Clone, Copy)]
pub(crate) struct Ring<'a> {
    start: *mut u8,
    lines: u32,
    _memory: PhantomData<&'a AtomicU32>,
}

impl<'a> Ring<'a> {
    /// That from `origin` to `target`; none where a window of so many members has none.
    ///
    /// # Safety
    /// `rings` is the address, a multiple of 64, of [`all_bytes`] that were zero at first, are used by nothing but rings, and
    /// outlive this.
    pub unsafe fn of(
        rings: *mut u8,
        members: usize,
        origin: usize,
        target: usize,
    ) -> Option<Ring<'a>> {
        let lines = lines(members);
        // Those to one target lie together, since it looks at them one after the other.
        let number = target * members + origin;
        (lines > 0).then(|| Ring {
            start: rings.wrapping_add(number * bytes(members)),
            lines,
            _memory: PhantomData,
        })
    }

    /// Bytes of data that an entry can have.
    pub fn most(self) -> usize {
        // Half of it, so that one that doesn't fit behind the others fits before them.
        self.lines as usize / 2 * LINE - DATA
    }

    /// The lines of an entry with so much data.
    pub fn lines_for(len: usize) -> u32 {
        (DATA + len).div_ceil(LINE) as u32
    }

    /// How many lines the target has served, of all that were ever published and not taken back.
    pub fn served(self) -> u32 {
        self.count().load(Ordering::Acquire)
    }

    fn count(self) -> &'a AtomicU32 {
        // SAFETY: the promise of `of`: the first line of the ring holds a word that is used as an atomic one.
        unsafe { &*self.start.cast() }
    }

    fn line(self, number: u32) -> *mut u8 {
        let place = (number & (self.lines - 1)) as usize + 1;
        self.start.wrapping_add(place * LINE)
    }

    fn state(self, number: u32) -> &'a AtomicU32 {
        // SAFETY: the promise of `of`; data is written over this word only while no other side looks at it.
        unsafe { &*self.line(number).cast() }
    }

    fn head(self, number: u32) -> *mut Head {
        self.line(number).cast()
    }

    /// The data of the entry at a line.
    pub fn data(self, number: u32) -> *mut u8 {
        self.line(number).wrapping_add(DATA)
    }

    /// How many lines must be left out before an entry of so many, which is not to go around the end.
    pub fn filler(self, number: u32, lines: u32) -> u32 {
        let rest = self.lines - (number & (self.lines - 1));
        if lines > rest { rest } else { 0 }
    }

    /// Whether there is room for so many lines more where those from `first` to `next` are in use.
    pub fn has_room(self, first: u32, next: u32, lines: u32) -> bool {
        next.wrapping_sub(first) + lines < self.lines
    }

    /// Publishes an entry of so many lines at line `number`.
    ///
    /// # Safety
    /// The caller is the origin, and the lines are free and don't go around the end. `input` is valid for `len` bytes, which
    /// fit.
    pub unsafe fn publish(self, number: u32, lines: u32, wish: Wish, input: *const u8, len: usize) {
        let head = self.head(number);
        // SAFETY: free lines are the origin's; the target reads them when the state says so.
        unsafe {
            (&raw mut (*head).lines).write(lines);
            (&raw mut (*head).wish).write(wish);
            netmod_kit::copy(input, self.data(number), len);
        }
        self.state(number).store(PUBLISHED, Ordering::Release);
    }

    /// Takes an entry back. Returns whether it was not taken.
    pub fn take_back(self, number: u32) -> bool {
        self.state(number)
            .compare_exchange(PUBLISHED, EMPTY, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Makes lines free that the origin has again.
    pub fn free(self, number: u32, lines: u32) {
        for line in 0..lines {
            self.state(number.wrapping_add(line))
                .store(EMPTY, Ordering::Relaxed);
        }
    }

    /// What an entry asks for that the caller has: the target one that it has taken, the origin any that it has taken back or
    /// that is served.
    pub fn wish(self, number: u32) -> Wish {
        // SAFETY: nobody else writes to it.
        unsafe { (*self.head(number)).wish }
    }

    /// Has the target take the entry at line `number`, where it has come to. Gives how many lines it has.
    pub fn take(self, number: u32) -> Option<u32> {
        let state = self.state(number);
        if state.load(Ordering::Relaxed) != PUBLISHED {
            return None;
        }
        // Acquire: what the origin wrote before is read here.
        state
            .compare_exchange(PUBLISHED, TAKEN, Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        // SAFETY: taken, so it is the target's until it is served.
        Some(unsafe { (*self.head(number)).lines }.clamp(1, self.lines))
    }

    /// Tells the origin that an entry that was taken could not be carried out.
    pub fn refuse(self, number: u32) {
        // SAFETY: it is the target's until it is served.
        unsafe { (&raw mut (*self.head(number)).wish.refused).write(true) };
    }

    /// Gives all lines before `next` back to the origin.
    pub fn serve(self, next: u32) {
        self.count().store(next, Ordering::Release);
    }
}

/// What an origin has published in a ring and not taken in yet.
#[derive(Default)]
pub(crate) struct Published {
    /// Where the next entry goes, counted in lines.
    next: u32,
    entries: std::collections::VecDeque<Entry>,
}

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Its first line.
    pub number: u32,
    lines: u32,
    /// Where what it asks for goes; NULL for nothing.
    pub output: *mut u8,
}

// SAFETY: the program has lent the memory, to whichever thread takes the entry in.
unsafe impl Send for Published {}

impl Published {
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Publishes one more, if there is room.
    ///
    /// # Safety
    /// The ring is always the same, whose origin this is. `input` is valid for `len` bytes.
    pub unsafe fn push(
        &mut self,
        ring: Ring<'_>,
        wish: Wish,
        (input, len): (*const u8, usize),
        output: *mut u8,
    ) -> bool {
        let lines = Ring::lines_for(usize::from(wish.len));
        let filler = ring.filler(self.next, lines);
        let first = self.entries.front().map_or(self.next, |entry| entry.number);
        if !ring.has_room(first, self.next, filler + lines) {
            return false;
        }
        // SAFETY: there is room, so the lines are free; the caller's promise for the data.
        unsafe {
            if filler > 0 {
                self.add(filler, ptr::null_mut());
                let number = self.next.wrapping_sub(filler);
                ring.publish(number, filler, Wish::default(), ptr::null(), 0);
            }
            self.add(lines, output);
            let number = self.next.wrapping_sub(lines);
            ring.publish(number, lines, wish, input, len);
        }
        true
    }

    fn add(&mut self, lines: u32, output: *mut u8) {
        self.entries.push_back(Entry {
            number: self.next,
            lines,
            output,
        });
        self.next = self.next.wrapping_add(lines);
    }

    /// The earliest, if the target has served it; [`Published::end`] must follow.
    pub fn first_served(&self, ring: Ring<'_>) -> Option<Entry> {
        let first = *self.entries.front()?;
        let end = first.number.wrapping_add(first.lines);
        (ring.served().wrapping_sub(end) as i32 >= 0).then_some(first)
    }

    /// Takes back what the target has not taken. Returns how many entries it has taken, which come first and are to be waited
    /// for.
    pub fn take_back(&self, ring: Ring<'_>) -> usize {
        let later = self.entries.iter().rev();
        let back = later.take_while(|entry| ring.take_back(entry.number));
        self.entries.len() - back.count()
    }

    /// The entries that were taken back when the earlier ones have been ended.
    pub fn taken_back(&self) -> impl Iterator<Item = Entry> + '_ {
        self.entries.iter().copied()
    }

    /// Ends the earliest, which was served.
    pub fn end(&mut self, ring: Ring<'_>) {
        if let Some(entry) = self.entries.pop_front() {
            ring.free(entry.number, entry.lines);
        }
    }

    /// Ends all, which were taken back: what is published next comes where the earliest of them was.
    pub fn end_taken_back(&mut self, ring: Ring<'_>) {
        if let Some(first) = self.entries.front() {
            self.next = first.number;
        }
        for entry in self.entries.drain(..) {
            ring.free(entry.number, entry.lines);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::sync::atomic::AtomicBool;

    /// Entries of many lengths between two threads, taken back now and then: each is carried out once, in order.
    #[test]
    fn each_entry_is_carried_out_by_one_side_and_in_order() {
        const ENTRIES: u32 = 200_000;
        for members in [2, 8, 16] {
            let room = vec![0u128; all_bytes(members) / 16 + 4];
            let start = room.as_ptr().cast::<u8>().cast_mut();
            let start = start.wrapping_add(start.align_offset(64)).addr();
            // SAFETY: zeroed, aligned, and kept until both threads have ended.
            let ring = move || unsafe {
                let start = ptr::with_exposed_provenance_mut(start);
                Ring::of(start, members, 0, 1).unwrap()
            };
            room.as_ptr().expose_provenance();
            let done = Mutex::new(Vec::new());
            let over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut next = 0u32;
                    while !over.load(Ordering::Acquire) {
                        let Some(lines) = ring().take(next) else {
                            std::hint::spin_loop();
                            continue;
                        };
                        let wish = ring().wish(next);
                        if wish.kind == kind::PUT {
                            // SAFETY: taken.
                            let data = unsafe {
                                std::slice::from_raw_parts(ring().data(next), wish.len.into())
                            };
                            assert!(data.iter().all(|byte| *byte == wish.at as u8));
                            done.lock().unwrap().push(wish.at);
                        }
                        next = next.wrapping_add(lines);
                        ring().serve(next);
                    }
                });
                let mut published = Published::default();
                let (mut served, mut back) = (0, 0);
                let settle = |published: &mut Published, all: bool| {
                    let mut counts = (0, 0);
                    while published.first_served(ring()).is_some() {
                        published.end(ring());
                        counts.0 += 1;
                    }
                    if all {
                        for _ in 0..published.take_back(ring()) {
                            while published.first_served(ring()).is_none() {
                                std::thread::yield_now();
                            }
                            published.end(ring());
                            counts.0 += 1;
                        }
                        for entry in published.taken_back() {
                            let wish = ring().wish(entry.number);
                            if wish.kind == kind::PUT {
                                done.lock().unwrap().push(wish.at);
                            }
                            counts.1 += 1;
                        }
                        published.end_taken_back(ring());
                    }
                    counts
                };
                for at in 0..ENTRIES {
                    let len = (at * 7 % 5 * 50) as usize;
                    let len = len.min(ring().most());
                    let data = vec![at as u8; len];
                    let wish = Wish {
                        at: at.into(),
                        kind: kind::PUT,
                        len: len as u16,
                        ..Wish::default()
                    };
                    // SAFETY: the data is a vector of that length.
                    while unsafe {
                        !published.push(ring(), wish, (data.as_ptr(), len), ptr::null_mut())
                    } {
                        let counts = settle(&mut published, at % 3 == 0);
                        (served, back) = (served + counts.0, back + counts.1);
                        std::thread::yield_now();
                    }
                    if at % 11 == 0 {
                        let counts = settle(&mut published, true);
                        (served, back) = (served + counts.0, back + counts.1);
                    }
                }
                settle(&mut published, true);
                over.store(true, Ordering::Release);
                println!("{served} were served, {back} taken back");
            });
            let done = done.into_inner().unwrap();
            assert!(done.iter().copied().eq(0..u64::from(ENTRIES)));
        }
    }
}
