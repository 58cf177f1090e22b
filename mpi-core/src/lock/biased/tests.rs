//! Owners, others and those that look, one after the other and at once.

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
                let turns = (u64::from(LEAN) << number).min(LEAN_MOST.into());
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
    // SAFETY: this thread does not have the lock.
    let Some(turn) = (unsafe { counted.0.begin_as_owner() }) else {
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
                            if turn % 7 == 0 {
                                counted.0.vacate();
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

/// How a thread gets it that waits for it while the calling one, its owner, does something until it is told that it is had.
fn waited_for(lock: &BiasedLock, act: impl Fn(&AtomicBool)) -> Way {
    let had = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let way = lock.lock();
            had.store(true, Ordering::Relaxed);
            // SAFETY: taken this way.
            unsafe { lock.unlock(way) };
            way
        });
        act(&had);
        other.join().unwrap()
    })
}

/// Turns one after the other, until another thread has the lock.
fn turns_until(lock: &BiasedLock, had: &AtomicBool) {
    while !had.load(Ordering::Relaxed) {
        turn(lock);
    }
}

#[test]
fn an_owner_that_has_nothing_to_do_hands_over() {
    // A busy machine may take the core from the owner, which is ended by force then.
    let handed_over = (0..2000).any(|_| {
        let lock = BiasedLock::new(true);
        until_owner(&lock);
        let way = waited_for(&lock, |had| {
            while !had.load(Ordering::Relaxed) {
                turn(&lock);
                lock.vacate();
            }
        });
        way == Way::LEANING || way == Way::KEEPING
    });
    assert!(handed_over);
}

#[test]
fn an_owner_that_comes_again_and_again_is_called() {
    let lock = BiasedLock::new(true);
    until_owner(&lock);
    waited_for(&lock, |had| turns_until(&lock, had));
    // Also one that takes its turns by the word.
    lock.lock_by_word();
    // SAFETY: taken just now, by the word.
    unsafe { lock.make_owner(Way::KEEPING) };
    waited_for(&lock, |had| turns_until(&lock, had));
}

#[test]
fn an_owner_that_does_not_come_is_ended() {
    let lock = BiasedLock::new(true);
    until_owner(&lock);
    assert!(waited_for(&lock, |_| ()) == Way::WORD);
    std::thread::sleep(Duration::from_millis(3));
    assert!(lock.leases.begin());
}

#[test]
fn an_owner_that_is_in_does_not_hand_over() {
    let lock = BiasedLock::new(true);
    until_owner(&lock);
    let me = everywhere::this_thread();
    let way = lock.try_lock().unwrap();
    lock.call(lock.owner.load(Ordering::Relaxed));
    assert!(lock.try_look().is_none() && lock.try_lock().is_none());
    assert_eq!(thread_of(lock.owner.load(Ordering::Relaxed)), me);
    // SAFETY: taken this way.
    unsafe { lock.unlock(way) };
    assert!(lock.try_lock().is_none() && lock.try_look().is_none());
    assert_eq!(lock.owner.load(Ordering::Relaxed), 0);
}

/// Who looks gets to it beside an owner that comes and never looks.
#[test]
fn who_looks_is_let_in_now_and_then() {
    let lock = BiasedLock::new(true);
    let looked = AtomicBool::new(false);
    until_owner(&lock);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let way = loop {
                if let Some(way) = lock.try_look() {
                    break way;
                }
            };
            // SAFETY: taken this way.
            unsafe { lock.unlock(way) };
            looked.store(true, Ordering::Relaxed);
        });
        turns_until(&lock, &looked);
    });
}

#[test]
fn nobody_owns_what_is_taken_by_the_word() {
    let lock = BiasedLock::new(true);
    until_owner(&lock);
    let way = lock.lock_by_word();
    assert!(way == Way::WORD);
    // SAFETY: taken this way.
    unsafe { lock.unlock(way) };
    assert_eq!(lock.owner.load(Ordering::Relaxed), 0);
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

/// Threads that all want it as often as they can have it in turn.
#[test]
fn nobody_is_forgotten() {
    let counted = Counted(BiasedLock::new(true), UnsafeCell::new([0; 8]));
    let counted = &counted;
    let until = std::time::Instant::now() + Duration::from_millis(300);
    let turns: Vec<u64> = std::thread::scope(|scope| {
        let adders: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(move || {
                    let mut turns = 0;
                    while std::time::Instant::now() < until {
                        add(counted);
                        turns += 1;
                    }
                    turns
                })
            })
            .collect();
        adders
            .into_iter()
            .map(|adder| adder.join().unwrap())
            .collect()
    });
    // SAFETY: all threads have ended.
    let all = unsafe { *counted.1.get() };
    assert_eq!(all, [turns.iter().sum(); 8]);
    assert!(turns.iter().all(|turns| *turns > 10), "{turns:?}");
}

/// What a thread remembers of a lock says nothing about the one that is made in its place.
#[test]
fn a_new_lock_is_looked_at_by_the_first() {
    let mut lock = Box::new(BiasedLock::new(true));
    let look = |lock: &BiasedLock| {
        let way = lock.try_look();
        if let Some(way) = way {
            // SAFETY: taken this way.
            unsafe { lock.unlock(way) };
        }
        way.is_some()
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| look(&lock));
        assert!(other.join().unwrap());
    });
    look(&lock);
    *lock = BiasedLock::new(true);
    assert!(look(&lock), "another thread would look");
}
