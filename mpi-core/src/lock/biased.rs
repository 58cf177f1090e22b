//! The lock of a VCI. It leans to the thread that alone uses it, which then takes it by plain stores and loads.
//!
//! *Leaning* (biased locking). An atomic exchange waits until all earlier stores of its core are done, those of a message
//! to another core's memory too, and two take a fifth of the time of a short send. So a thread that has taken the
//! lock many times running becomes its *owner*: it makes its own count of turns odd, looks whether it is still the owner, and
//! is in. Who ends that by force takes the word, as ever, says that there is no owner any more, has the kernel put a barrier
//! into all threads of the process (`membarrier`), and waits until that count is even. Either the owner sees that it is none,
//! or the other one sees that it is in.
//!
//! *Leases* (`lease.rs`, `room.rs`). Threads that share the lock own it by turns, each for as long as it has something to do.
//!
//! *Looking* (`looking.rs`). Threads that wait look again and again whether there is something to do.

use std::num::NonZeroU8;
use std::time::Duration;

use crossbeam_utils::CachePadded;

use super::Lock;
use super::everywhere;
use crate::sync::{AtomicU32, AtomicUsize, Ordering, yield_now};

mod lease;
mod looking;
mod room;

use lease::Leases;
use looking::Looking;
use room::Room;

/// Turns running, at first, after which a thread becomes the owner. Twice as many after each time that it was ended by force.
const LEAN: u32 = if cfg!(loom) { 1 } else { 64 };
/// The most that is asked for.
const LEAN_MOST: u32 = 1 << 20;
/// There is to be no owner that takes no word.
const NEVER: u32 = u32::MAX;
/// Threads that can own a lock in its life. Each has a count of its own, since one that is slow to see that it is
/// the owner no more still changes it. A power of two.
const OWNERS: usize = if cfg!(loom) { 2 } else { 32 };
/// Bits of an owner's word that name its count: below those that tell threads apart.
const COUNT: usize = OWNERS - 1;
/// Beside an owner: it is to hand the lock over. This bit and the next are in no thread's number.
const CALLED: usize = 1 << (usize::BITS - 1);
/// Beside an owner: it takes its turns by the word, and is ended without a barrier.
const BY_WORD: usize = 1 << (usize::BITS - 2);
/// An owner that has not come for so long is taken for one that won't soon.
const IDLE: Duration = Duration::from_micros(100);
/// Looks of who ends an ownership before it gives up the core, which the owner may need.
const YIELD_EVERY: u32 = 64;

/// How a thread has got the lock: as its owner, then it is one more than the number of its count; or by the word. One
/// byte, so that a guard without a lock costs nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Way(NonZeroU8);

impl Way {
    /// By the word.
    const WORD: Way = Way(NonZeroU8::MAX);
    /// By the word, and the thread becomes the owner when it gives the lock back.
    const LEANING: Way = Way(NonZeroU8::MIN.saturating_add(OWNERS as u8));

    /// By the word, and the thread keeps the lock when it gives it back, by the word.
    const KEEPING: Way = Way(NonZeroU8::MIN.saturating_add(OWNERS as u8 + 1));

    #[inline(always)]
    fn owner(number: usize) -> Way {
        Way(NonZeroU8::MIN.saturating_add(number as u8))
    }

    /// The number of the owner's count, or another.
    #[inline(always)]
    fn number(self) -> usize {
        usize::from(self.0.get()) - 1
    }
}

/// The lock, taken by its owner: the number of its count.
#[derive(Clone, Copy)]
pub(crate) struct OwnersTurn(usize);

impl From<OwnersTurn> for Way {
    #[inline(always)]
    fn from(OwnersTurn(number): OwnersTurn) -> Way {
        Way::owner(number)
    }
}

/// What has become of an owner's wish for a turn.
enum Begun {
    /// It has the lock.
    In(OwnersTurn),
    /// It has had it before.
    Already,
    /// It is not the owner any more, and does not have the lock.
    NoLonger,
}

pub(crate) struct BiasedLock {
    word: Lock,
    /// Who had the word last. This and the next are changed under the word.
    last: AtomicUsize,
    /// How often, running.
    run: AtomicU32,
    /// Turns running that make an owner.
    lean: AtomicU32,
    /// The threads that the counts belong to, or 0. Changed under the word.
    owners: [AtomicUsize; OWNERS],
    leases: Leases,
    /// What a passer-by saw of the owner's count, and when it had changed, in microseconds.
    seen: AtomicU32,
    seen_at: AtomicU32,
    // In lines of their own: those that wait read the first, which changes seldom, and not the second, which changes with each turn.
    /// The owner, and the number of its count; 0 is nobody.
    owner: CachePadded<AtomicUsize>,
    /// Of each owner: odd while it has the lock as such.
    turns: CachePadded<[AtomicU32; OWNERS]>,
    room: CachePadded<Room>,
    looking: CachePadded<Looking>,
}

/// The thread that an owner's word names.
#[inline(always)]
fn thread_of(owner: usize) -> usize {
    owner & !(COUNT | BY_WORD | CALLED)
}

impl BiasedLock {
    /// One that leans to threads if it is to be used by several, and if this system can put a barrier into all of them.
    pub fn new(threaded: bool) -> BiasedLock {
        BiasedLock {
            word: Lock::new(),
            last: AtomicUsize::new(0),
            run: AtomicU32::new(0),
            lean: AtomicU32::new(if threaded { first_lean() } else { NEVER }),
            owners: std::array::from_fn(|_| AtomicUsize::new(0)),
            leases: Leases::new(),
            seen: AtomicU32::new(0),
            seen_at: AtomicU32::new(0),
            owner: CachePadded::new(AtomicUsize::new(0)),
            turns: CachePadded::new(std::array::from_fn(|_| AtomicU32::new(0))),
            room: CachePadded::new(Room::new()),
            looking: CachePadded::new(Looking::new()),
        }
    }

    /// Has it lean to threads from now on: several are going to use it.
    pub fn start_leaning(&self) {
        self.lean.store(first_lean(), Ordering::Relaxed);
    }

    /// Takes it if it is free, and no other thread owns it.
    #[inline(always)]
    pub fn try_lock(&self) -> Option<Way> {
        let me = everywhere::this_thread();
        let owner = self.owner.load(Ordering::Relaxed);
        if owner & !COUNT == me {
            return self.try_as_owner(owner);
        }
        if owner != 0 {
            return self.try_beside_owner(owner);
        }
        self.word.try_lock().then(|| self.have_word(me))
    }

    /// Takes it if the calling thread is the owner and does not have it already.
    #[inline(always)]
    pub fn try_owner(&self) -> Option<OwnersTurn> {
        let owner = self.owner.load(Ordering::Relaxed);
        if owner & !COUNT != everywhere::this_thread() {
            return None;
        }
        match self.begin_turn(owner) {
            Begun::In(turn) => Some(turn),
            Begun::Already | Begun::NoLonger => None,
        }
    }

    /// Takes it if the calling thread is the owner: on the shortest ways, which ask nothing that they know.
    ///
    /// # Safety
    /// The calling thread does not have it.
    #[inline(always)]
    pub unsafe fn begin_as_owner(&self) -> Option<OwnersTurn> {
        let owner = self.owner.load(Ordering::Relaxed);
        // The word of an owner is above its thread by the number of the count; marked ones are above all threads by far.
        let number = everywhere::above_this_thread(owner);
        if number >= OWNERS {
            return None;
        }
        let own = &self.turns[number];
        // Nobody else changes it.
        let turns = own.load(Ordering::Relaxed);
        debug_assert!(turns & 1 == 0, "this thread has the lock already");
        own.store(turns.wrapping_add(1), Ordering::Relaxed);
        everywhere::light();
        if self.owner.load(Ordering::Relaxed) == owner {
            return Some(OwnersTurn(number));
        }
        self.give_up(number);
        None
    }

    /// Gives it back.
    ///
    /// # Safety
    /// The turn is the calling thread's, of this lock, and was not ended.
    #[inline(always)]
    pub unsafe fn end_turn(&self, OwnersTurn(number): OwnersTurn) {
        let own = &self.turns[number & COUNT];
        let turns = own.load(Ordering::Relaxed);
        // Release: who ends the ownership sees what this thread has done.
        own.store(turns.wrapping_add(1), Ordering::Release);
    }

    /// A turn of the owner that this thread was just now.
    #[inline(always)]
    fn begin_turn(&self, owner: usize) -> Begun {
        let number = owner & COUNT;
        let own = &self.turns[number];
        // Nobody else changes it.
        let turns = own.load(Ordering::Relaxed);
        if turns & 1 != 0 {
            return Begun::Already;
        }
        own.store(turns.wrapping_add(1), Ordering::Relaxed);
        everywhere::light();
        if self.owner.load(Ordering::Relaxed) == owner {
            return Begun::In(OwnersTurn(number));
        }
        self.give_up(number);
        Begun::NoLonger
    }

    /// Ends the turn of one that is the owner no longer.
    #[cold]
    #[inline(never)]
    fn give_up(&self, number: usize) {
        // SAFETY: this thread has just begun it.
        unsafe { self.end_turn(OwnersTurn(number)) };
    }

    /// As the owner that this thread was just now, or as others do.
    #[inline(always)]
    fn try_as_owner(&self, owner: usize) -> Option<Way> {
        match self.begin_turn(owner) {
            Begun::In(OwnersTurn(number)) => Some(Way::owner(number)),
            Begun::Already => None,
            Begun::NoLonger => self.try_as_others(),
        }
    }

    #[cold]
    #[inline(never)]
    fn try_as_others(&self) -> Option<Way> {
        let me = everywhere::this_thread();
        if self.owner.load(Ordering::Relaxed) != 0 {
            return None;
        }
        self.word.try_lock().then(|| self.have_word(me))
    }

    /// With the word in hand: nobody is the owner from now on.
    #[inline(always)]
    fn have_word(&self, me: usize) -> Way {
        // Acquire: sees what an owner has done that handed it over.
        if self.owner.load(Ordering::Acquire) != 0 {
            self.end_owner();
        }
        // Only who has the word changes these.
        let run = self.run.load(Ordering::Relaxed);
        if self.last.load(Ordering::Relaxed) != me {
            self.last.store(me, Ordering::Relaxed);
            self.run.store(1, Ordering::Relaxed);
            return Way::WORD;
        }
        let run = run.saturating_add(1);
        self.run.store(run, Ordering::Relaxed);
        match run < self.lean.load(Ordering::Relaxed) {
            true => Way::WORD,
            false => self.leans(),
        }
    }

    #[cold]
    #[inline(never)]
    fn leans(&self) -> Way {
        match self.lean.load(Ordering::Relaxed) {
            NEVER => Way::WORD,
            _ => Way::LEANING,
        }
    }

    /// Ends the ownership, and waits until the owner is not in. The caller has the word.
    #[cold]
    #[inline(never)]
    fn end_owner(&self) {
        // Acquire: as in `have_word`, since when it may have handed over.
        let owner = self.owner.load(Ordering::Acquire);
        self.owner.store(0, Ordering::Relaxed);
        if owner == 0 || owner & BY_WORD != 0 {
            return;
        }
        everywhere::heavy();
        self.leases.pause();
        let lean = self.lean.load(Ordering::Relaxed);
        if lean < LEAN_MOST {
            self.lean.store(lean * 2, Ordering::Relaxed);
        }
        self.run.store(0, Ordering::Relaxed);
        let mut looks = 0_u32;
        // Acquire: sees what the owner has done.
        while self.turns[owner & COUNT].load(Ordering::Acquire) & 1 != 0 {
            moments(1);
            looks += 1;
            if cfg!(loom) || looks.is_multiple_of(YIELD_EVERY) {
                yield_now();
            }
        }
    }

    /// Gives it back.
    ///
    /// # Safety
    /// The calling thread has it, and has got it this way.
    #[inline(always)]
    pub unsafe fn unlock(&self, way: Way) {
        if way.number() < OWNERS {
            // SAFETY: the caller's contract.
            unsafe { self.end_turn(OwnersTurn(way.number())) };
        } else if way == Way::WORD {
            // SAFETY: the caller's contract.
            unsafe { self.word.unlock() };
        } else {
            // SAFETY: the caller's contract.
            unsafe { self.make_owner(way) };
        }
    }

    /// Gives it back, and makes the calling thread its owner, or its owner by the word.
    ///
    /// # Safety
    /// It has it by the word.
    #[cold]
    #[inline(never)]
    unsafe fn make_owner(&self, way: Way) {
        let me = everywhere::this_thread();
        // Only who has the word changes these. A thread that has ended may have had the same number.
        let mine = self.owners.iter().position(|of| {
            let of = of.load(Ordering::Relaxed);
            of == 0 || of == me
        });
        if let Some(number) = mine {
            self.owners[number].store(me, Ordering::Relaxed);
            // Who has seen its turns of another time sees that it comes.
            let own = &self.turns[number];
            own.store(
                own.load(Ordering::Relaxed).wrapping_add(2),
                Ordering::Relaxed,
            );
            let by_word = if way == Way::KEEPING { BY_WORD } else { 0 };
            self.owner.store(me | number | by_word, Ordering::Relaxed);
        } else {
            self.lean.store(NEVER, Ordering::Relaxed);
        }
        // SAFETY: the caller's contract.
        unsafe { self.word.unlock() };
    }
}

/// Turns running after which a lock leans to a thread that no other has owned, if this system has barriers for that.
fn first_lean() -> u32 {
    match everywhere::is_ready() {
        true => LEAN,
        false => NEVER,
    }
}

/// Does nothing for so many moments of some 10 to 50 ns.
fn moments(count: u32) {
    for _ in 0..count {
        std::hint::spin_loop();
    }
}

#[cfg(all(test, loom))]
mod loom_tests;

#[cfg(all(test, not(loom)))]
mod tests;
