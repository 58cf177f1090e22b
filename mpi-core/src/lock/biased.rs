//! The lock of a VCI. It leans to the thread that alone uses it, which then takes it by plain stores and loads.
//!
//! *Leaning* (biased locking). An atomic exchange waits until all earlier stores of its core are done, those of a message
//! to another core's memory too, and two take a fifth of the time of a short send. So a thread that has taken the
//! lock many times running becomes its *owner*: it makes its own count of turns odd, looks whether it is still the owner, and
//! is in. Who else wants the lock takes the word, as ever, says that there is no owner any more, has the kernel put a barrier
//! into all threads of the process (`membarrier`), and waits until that count is even. Either the owner sees that it is none,
//! or the other one sees that it is in.
//!
//! *Looking*. Threads that wait look again and again whether there is something to do. Where several do, one looks for all:
//! all that is behind the lock moves from core to core with it.

use std::cell::Cell;
use std::num::NonZeroU8;
use std::time::Duration;

use super::Lock;
use super::everywhere;
use crate::sync::{AtomicU32, AtomicUsize, Ordering, yield_now};

/// Turns running, at first, after which a thread becomes the owner. Twice as many after each time that another came.
const LEAN: u32 = if cfg!(loom) { 1 } else { 64 };
/// The most that is asked for.
const LEAN_MOST: u32 = 1 << 20;
/// There is to be no owner.
const NEVER: u32 = u32::MAX;
/// Owners of a lock in its life. Each has a count of its own, since one that is slow to see that it is
/// none any more still changes it. A power of two.
const OWNERS: usize = if cfg!(loom) { 2 } else { 8 };
/// Bits of an owner's word that name its count: below those that tell threads apart.
const COUNT: usize = OWNERS - 1;
/// An owner that has not come for so long is taken for one that won't soon.
const IDLE: Duration = Duration::from_micros(100);
/// Looks of who ends an ownership before it gives up the core, which the owner may need.
const YIELD_EVERY: u32 = 64;

/// Moments until who has found the lock taken, or another thread looking, looks again: at first, and at the most.
const LOOK_AGAIN: (u32, u32) = (6, 24);

/// What a thread has found when it last asked whether another one looks.
#[derive(Clone, Copy)]
struct Asked {
    /// Of which lock.
    lock: usize,
    /// Its looks.
    looks: u32,
    /// Moments that it has waited then.
    pauses: u32,
}

thread_local! {
    static ASKED: Cell<Asked> = const {
        Cell::new(Asked {
            lock: 0,
            looks: 0,
            pauses: 0,
        })
    };
}

/// How a thread has got the lock: as its owner, then it is one more than the number of its count; or by the word. One
/// byte, so that a guard without a lock costs nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Way(NonZeroU8);

impl Way {
    /// By the word.
    const WORD: Way = Way(NonZeroU8::MAX);
    /// By the word, and the thread becomes the owner when it gives the lock back.
    const LEANING: Way = Way(NonZeroU8::MIN.saturating_add(OWNERS as u8));

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
    /// The owner, and the number of its count; 0 is nobody.
    owner: AtomicUsize,
    /// Of each owner: odd while it has the lock as such.
    turns: [AtomicU32; OWNERS],
    /// Who had the word last. This and the next are changed under the word.
    last: AtomicUsize,
    /// How often, running.
    run: AtomicU32,
    /// Turns running that make an owner.
    lean: AtomicU32,
    /// Who was made an owner last, and how many have been.
    last_owner: AtomicUsize,
    owners: AtomicU32,
    /// What a passer-by saw of the owner's count, and when it had changed, in microseconds.
    seen: AtomicU32,
    seen_at: AtomicU32,
    /// Who has looked last whether there is something to do, and how often somebody has.
    looker: AtomicUsize,
    looks: AtomicU32,
}

impl BiasedLock {
    /// One that leans to threads if it is to be used by several, and if this system can put a barrier into all of them.
    pub fn new(threaded: bool) -> BiasedLock {
        BiasedLock {
            word: Lock::new(),
            owner: AtomicUsize::new(0),
            turns: std::array::from_fn(|_| AtomicU32::new(0)),
            last: AtomicUsize::new(0),
            run: AtomicU32::new(0),
            lean: AtomicU32::new(match threaded && everywhere::is_ready() {
                true => LEAN,
                false => NEVER,
            }),
            last_owner: AtomicUsize::new(0),
            owners: AtomicU32::new(0),
            seen: AtomicU32::new(0),
            seen_at: AtomicU32::new(0),
            looker: AtomicUsize::new(0),
            looks: AtomicU32::new(0),
        }
    }

    /// Takes it if it is free.
    #[inline(always)]
    pub fn try_lock(&self) -> Option<Way> {
        let me = everywhere::this_thread();
        let owner = self.owner.load(Ordering::Relaxed);
        if owner & !COUNT == me {
            return self.try_as_owner(owner);
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

    /// Takes it if it is free, to see whether there is something to do: such turns don't count,
    /// and an owner is not disturbed in its own. Of several threads that look again and again one does it for all.
    #[inline(always)]
    pub fn try_look(&self) -> Option<Way> {
        let me = everywhere::this_thread();
        let owner = self.owner.load(Ordering::Relaxed);
        if owner & !COUNT == me {
            return self.try_as_owner(owner);
        }
        if self.looker.load(Ordering::Relaxed) != me && self.is_looked_after() {
            return None;
        }
        let way = self.try_visit()?;
        // Only who has the word changes these.
        self.looker.store(me, Ordering::Relaxed);
        let looks = self.looks.load(Ordering::Relaxed);
        self.looks.store(looks.wrapping_add(1), Ordering::Relaxed);
        Some(way)
    }

    /// As [`BiasedLock::try_look`], for one who passes by.
    #[inline]
    pub fn try_visit(&self) -> Option<Way> {
        let owner = self.owner.load(Ordering::Relaxed);
        if owner != 0 {
            if owner & !COUNT == everywhere::this_thread() {
                return self.try_as_owner(owner);
            }
            if self.turns[owner & COUNT].load(Ordering::Relaxed) & 1 != 0 {
                return None;
            }
        }
        // Loads first: an exchange takes the line away from who has the lock.
        if self.word.is_taken() || !self.word.try_lock() {
            moments(LOOK_AGAIN.0);
            return None;
        }
        if self.owner.load(Ordering::Relaxed) != 0 {
            self.end_owner();
        }
        Some(Way::WORD)
    }

    /// Whether the thread that looked last has looked once more since this one last asked. After a while without any, this
    /// one takes its place; also one that has asked about another lock in between, which would ask in vain for ever.
    #[cold]
    #[inline(never)]
    fn is_looked_after(&self) -> bool {
        if cfg!(loom) {
            return false;
        }
        let lock = std::ptr::from_ref(self) as usize;
        let looks = self.looks.load(Ordering::Relaxed);
        let last = ASKED.get();
        let is = last.lock == lock && last.looks != looks;
        let pauses = match is {
            true => (last.pauses * 2).clamp(LOOK_AGAIN.0, LOOK_AGAIN.1),
            false => 0,
        };
        ASKED.set(Asked {
            lock,
            looks,
            pauses,
        });
        moments(pauses);
        is
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
        self.word.try_lock().then(|| self.have_word(me))
    }

    /// With the word in hand: nobody is the owner from now on.
    #[inline(always)]
    fn have_word(&self, me: usize) -> Way {
        if self.owner.load(Ordering::Relaxed) != 0 {
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
        let owner = self.owner.load(Ordering::Relaxed);
        self.owner.store(0, Ordering::Relaxed);
        everywhere::heavy();
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

    /// Whether the lock leans to another thread, which comes for it: who only passes by has no business here then.
    #[inline]
    pub fn is_served(&self) -> bool {
        let owner = self.owner.load(Ordering::Relaxed);
        owner != 0 && owner & !COUNT != everywhere::this_thread() && self.comes(owner)
    }

    fn comes(&self, owner: usize) -> bool {
        let turns = self.turns[owner & COUNT].load(Ordering::Relaxed);
        let now = everywhere::microseconds();
        // Passers-by that look at once may each take the other's time for its own, which are about the same.
        if turns & 1 != 0 || self.seen.load(Ordering::Relaxed) != turns {
            self.seen.store(turns, Ordering::Relaxed);
            self.seen_at.store(now, Ordering::Relaxed);
            return true;
        }
        let since = now.wrapping_sub(self.seen_at.load(Ordering::Relaxed));
        u128::from(since) < IDLE.as_micros()
    }

    /// Waits for it, and takes it by the word.
    #[cold]
    #[inline(never)]
    pub fn lock(&self) -> Way {
        self.word.lock();
        self.have_word(everywhere::this_thread())
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
            unsafe { self.make_owner() };
        }
    }

    /// Gives it back, and makes the calling thread its owner.
    ///
    /// # Safety
    /// It has it by the word.
    #[cold]
    #[inline(never)]
    unsafe fn make_owner(&self) {
        let me = everywhere::this_thread();
        let mut owners = self.owners.load(Ordering::Relaxed);
        if self.last_owner.load(Ordering::Relaxed) != me {
            self.last_owner.store(me, Ordering::Relaxed);
            owners += 1;
            self.owners.store(owners, Ordering::Relaxed);
        }
        let number = owners as usize - 1;
        if number < OWNERS {
            self.owner.store(me | number, Ordering::Relaxed);
        } else {
            self.lean.store(NEVER, Ordering::Relaxed);
        }
        // SAFETY: the caller's contract.
        unsafe { self.word.unlock() };
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
mod tests {
    use super::*;
    use std::cell::UnsafeCell;
    use std::sync::atomic::AtomicBool;

    fn turn(lock: &BiasedLock) -> bool {
        let Some(way) = lock.try_lock() else {
            return false;
        };
        let as_owner = way.number() < OWNERS;
        // SAFETY: taken this way.
        unsafe { lock.unlock(way) };
        as_owner
    }

    /// Turns after which the calling thread is the owner.
    fn until_owner(lock: &BiasedLock) -> u32 {
        (1..).find(|_| turn(lock)).unwrap_or(0)
    }

    #[test]
    fn who_comes_alone_becomes_the_owner_and_others_end_that() {
        let lock = BiasedLock::new(true);
        assert!(everywhere::is_ready(), "this system has no membarrier");
        assert_eq!(until_owner(&lock), LEAN + 1);
        let way = lock.try_lock().unwrap();
        assert!(way.number() < OWNERS);
        assert!(lock.try_lock().is_none() && lock.try_look().is_none());
        std::thread::scope(|scope| {
            // As long as the owner is in, nobody looks in.
            let look = scope.spawn(|| lock.try_look().is_none());
            assert!(look.join().unwrap());
            let other = scope.spawn(|| {
                let way = lock.lock();
                // SAFETY: taken this way.
                unsafe { lock.unlock(way) };
                way == Way::WORD
            });
            while lock.owner.load(Ordering::Relaxed) != 0 {
                yield_now();
            }
            assert!(!other.is_finished(), "let in beside the owner");
            // SAFETY: taken this way.
            unsafe { lock.unlock(way) };
            assert!(other.join().unwrap());
        });
        assert!(!turn(&lock));
        assert_eq!(
            until_owner(&lock),
            2 * LEAN,
            "once more, after twice as many"
        );
    }

    #[test]
    fn there_are_not_more_owners_than_counts() {
        let lock = BiasedLock::new(true);
        for number in 0..OWNERS + 2 {
            std::thread::scope(|scope| {
                let other = scope.spawn(|| {
                    let turns = LEAN << number;
                    (0..=turns + 1).any(|_| turn(&lock))
                });
                let became = other.join().unwrap();
                // Thread numbers may come again, and with them the count.
                assert!(became || number >= OWNERS, "{number}");
            });
            // Ends it.
            let way = lock.lock();
            // SAFETY: taken this way.
            unsafe { lock.unlock(way) };
        }
    }

    #[test]
    fn without_threads_there_is_no_owner() {
        let lock = BiasedLock::new(false);
        assert!(!(0..1000).any(|_| turn(&lock)));
    }

    #[test]
    fn an_owner_that_comes_is_left_alone_and_one_that_does_not_is_not() {
        let lock = BiasedLock::new(true);
        until_owner(&lock);
        assert!(!lock.is_served(), "by the thread that asks");
        std::thread::scope(|scope| {
            let asks = || scope.spawn(|| lock.is_served()).join().unwrap();
            assert!(asks());
            turn(&lock);
            assert!(asks());
            std::thread::sleep(2 * IDLE);
            assert!(!asks());
            turn(&lock);
            assert!(asks());
        });
    }

    struct Counted(BiasedLock, UnsafeCell<[u64; 8]>);

    // SAFETY: the numbers are reached under the lock only.
    unsafe impl Sync for Counted {}

    fn add(counted: &Counted) {
        let way = match counted.0.try_lock() {
            Some(way) => way,
            None => counted.0.lock(),
        };
        // SAFETY: this thread has the lock.
        for number in unsafe { &mut *counted.1.get() } {
            *number += 1;
        }
        // SAFETY: taken this way.
        unsafe { counted.0.unlock(way) };
    }

    /// As [`add`], in the owner's short way if it is the owner.
    fn add_shortly(counted: &Counted) {
        let Some(turn) = counted.0.try_owner() else {
            return add(counted);
        };
        assert!(counted.0.try_owner().is_none(), "it has the lock already");
        // SAFETY: this thread has the lock.
        for number in unsafe { &mut *counted.1.get() } {
            *number += 1;
        }
        // SAFETY: begun above.
        unsafe { counted.0.end_turn(turn) };
    }

    /// Now one thread alone, now several, some of which only look.
    #[test]
    fn one_at_a_time_whoever_owns_it() {
        const TURNS: u64 = 3000;
        let counted = Counted(BiasedLock::new(true), UnsafeCell::new([0; 8]));
        let counted = &counted;
        for round in 0..6 {
            let done = AtomicBool::new(false);
            let done = &done;
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    while !done.load(Ordering::Relaxed) {
                        if let Some(way) = counted.0.try_look() {
                            // SAFETY: this thread has the lock.
                            let numbers = unsafe { *counted.1.get() };
                            assert!(numbers.iter().all(|number| *number == numbers[0]));
                            // SAFETY: taken this way.
                            unsafe { counted.0.unlock(way) };
                        }
                        yield_now();
                    }
                });
                let adders: Vec<_> = (0..1 + round % 3)
                    .map(|_| {
                        scope.spawn(move || {
                            for turn in 0..TURNS {
                                match turn % 3 {
                                    0 => add(counted),
                                    _ => add_shortly(counted),
                                }
                                if turn % 500 == 0 {
                                    yield_now();
                                }
                            }
                        })
                    })
                    .collect();
                for adder in adders {
                    adder.join().unwrap();
                }
                done.store(true, Ordering::Relaxed);
            });
        }
        // SAFETY: all threads have ended.
        assert_eq!(unsafe { *counted.1.get() }, [12 * TURNS; 8]);
    }

    /// Who has it for long is waited for, asleep, and nobody is forgotten.
    #[test]
    fn long_turns_are_waited_for() {
        let counted = Counted(BiasedLock::new(true), UnsafeCell::new([0; 8]));
        let counted = &counted;
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(move || {
                    for _ in 0..20 {
                        add(counted);
                        let way = counted.0.lock();
                        std::thread::sleep(Duration::from_micros(300));
                        // SAFETY: taken this way.
                        unsafe { counted.0.unlock(way) };
                    }
                });
            }
        });
        // SAFETY: all threads have ended.
        assert_eq!(unsafe { *counted.1.get() }, [80; 8]);
    }
}
