//! Owners, other threads and polls, in sequence and concurrently.

use super::*;
use std::cell::UnsafeCell;
use std::sync::atomic::AtomicBool;

fn turn(lock: &BiasedLock) -> bool {
    let Some(acquired) = lock.try_lock() else {
        return false;
    };
    let as_owner = acquired.number() < OWNERS;
    // SAFETY: this thread holds the lock, by the value that `try_lock` returned.
    unsafe { lock.unlock(acquired) };
    as_owner
}

/// Takes turns until the calling thread is the owner, and returns their number.
fn until_owner(lock: &BiasedLock) -> u32 {
    (1..).find(|_| turn(lock)).unwrap_or(0)
}

#[test]
fn a_lone_thread_becomes_the_owner_until_it_is_revoked() {
    let lock = BiasedLock::new(true);
    assert!(fences::is_ready(), "this system has no membarrier");
    assert_eq!(until_owner(&lock), BIAS_TURNS + 1);
    let acquired = lock.try_lock().unwrap();
    assert!(acquired.number() < OWNERS);
    assert!(lock.try_lock().is_none() && lock.try_poll().is_none());
    std::thread::scope(|scope| {
        // A poll fails while the owner is inside.
        let look = scope.spawn(|| lock.try_poll().is_none());
        assert!(look.join().unwrap());
        let other = scope.spawn(|| {
            let acquired = lock.lock();
            // SAFETY: this thread holds the lock, by the value that `lock` returned.
            unsafe { lock.unlock(acquired) };
            acquired == Acquired::WORD
        });
        while lock.owner.load(Ordering::Relaxed) != 0 {
            yield_now();
        }
        assert!(!other.is_finished(), "two threads are inside");
        // SAFETY: this thread holds the lock, by the value that `try_lock` returned.
        unsafe { lock.unlock(acquired) };
        assert!(other.join().unwrap());
    });
    assert!(!turn(&lock));
    assert_eq!(
        until_owner(&lock),
        2 * BIAS_TURNS,
        "a revocation doubles the turns"
    );
}

#[test]
fn there_are_no_more_owners_than_counters() {
    let lock = BiasedLock::new(true);
    for number in 0..OWNERS + 2 {
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let turns = (u64::from(BIAS_TURNS) << number).min(BIAS_TURNS_MAX.into());
                (0..=turns + 1).any(|_| turn(&lock))
            });
            let became = other.join().unwrap();
            // Thread numbers may repeat, and with them the counter.
            assert!(became || number >= OWNERS, "{number}");
        });
        // Revokes the ownership.
        let acquired = lock.lock();
        // SAFETY: this thread holds the lock, by the value that `lock` returned.
        unsafe { lock.unlock(acquired) };
    }
}

#[test]
fn without_threads_there_is_no_owner() {
    let lock = BiasedLock::new(false);
    assert!(!(0..1000).any(|_| turn(&lock)));
}

#[test]
fn an_active_owner_serves_the_lock_and_an_idle_one_does_not() {
    let lock = BiasedLock::new(true);
    until_owner(&lock);
    assert!(!lock.has_active_owner(), "the owner itself serves the lock");
    std::thread::scope(|scope| {
        let asks = || scope.spawn(|| lock.has_active_owner()).join().unwrap();
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

// SAFETY: the numbers are accessed only under the lock.
unsafe impl Sync for Counted {}

fn add(counted: &Counted) {
    let acquired = match counted.0.try_lock() {
        Some(acquired) => acquired,
        None => counted.0.lock(),
    };
    // SAFETY: this thread holds the lock.
    for number in unsafe { &mut *counted.1.get() } {
        *number += 1;
    }
    // SAFETY: this thread holds the lock, by this value.
    unsafe { counted.0.unlock(acquired) };
}

/// Increments by `try_owner` if the calling thread is the owner, otherwise by [`add`].
fn add_shortly(counted: &Counted) {
    let Some(turn) = counted.0.try_owner() else {
        return add(counted);
    };
    assert!(counted.0.try_owner().is_none(), "the lock is held already");
    // SAFETY: this thread holds the lock.
    for number in unsafe { &mut *counted.1.get() } {
        *number += 1;
    }
    // SAFETY: the turn was begun above.
    unsafe { counted.0.end_turn(turn) };
}

/// One thread alone alternates with several, some of which only poll.
#[test]
fn the_lock_excludes_with_any_owner() {
    const TURNS: u64 = 3000;
    let counted = Counted(BiasedLock::new(true), UnsafeCell::new([0; 8]));
    let counted = &counted;
    for round in 0..6 {
        let done = AtomicBool::new(false);
        let done = &done;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    if let Some(acquired) = counted.0.try_poll() {
                        // SAFETY: this thread holds the lock.
                        let numbers = unsafe { *counted.1.get() };
                        assert!(numbers.iter().all(|number| *number == numbers[0]));
                        // SAFETY: this thread holds the lock, by the value that `try_poll`
                        // returned.
                        unsafe { counted.0.unlock(acquired) };
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

/// Returns how a waiting thread acquires the lock while the calling thread, its owner, runs `act`.
/// The flag tells `act` that the other thread holds the lock.
fn waited_for(lock: &BiasedLock, act: impl Fn(&AtomicBool)) -> Acquired {
    let had = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let acquired = lock.lock();
            had.store(true, Ordering::Relaxed);
            // SAFETY: this thread holds the lock, by the value that `lock` returned.
            unsafe { lock.unlock(acquired) };
            acquired
        });
        act(&had);
        other.join().unwrap()
    })
}

/// Takes turns until another thread has acquired the lock.
fn turns_until(lock: &BiasedLock, had: &AtomicBool) {
    while !had.load(Ordering::Relaxed) {
        turn(lock);
    }
}

#[test]
fn an_idle_owner_hands_over() {
    // A busy machine may deschedule the owner, which is then revoked.
    let handed_over = (0..2000).any(|_| {
        let lock = BiasedLock::new(true);
        until_owner(&lock);
        let acquired = waited_for(&lock, |had| {
            while !had.load(Ordering::Relaxed) {
                turn(&lock);
                lock.vacate();
            }
        });
        acquired == Acquired::BECOMING_OWNER || acquired == Acquired::BECOMING_OWNER_BY_WORD
    });
    assert!(handed_over);
}

#[test]
fn a_busy_owner_is_called() {
    let lock = BiasedLock::new(true);
    until_owner(&lock);
    waited_for(&lock, |had| turns_until(&lock, had));
    // The same for an owner by the word.
    lock.lock_by_word();
    // SAFETY: `lock_by_word` has taken the word lock.
    unsafe { lock.make_owner(Acquired::BECOMING_OWNER_BY_WORD) };
    waited_for(&lock, |had| turns_until(&lock, had));
}

#[test]
fn an_absent_owner_is_revoked() {
    let lock = BiasedLock::new(true);
    until_owner(&lock);
    assert!(waited_for(&lock, |_| ()) == Acquired::WORD);
    std::thread::sleep(Duration::from_millis(3));
    assert!(lock.leases.begin());
}

#[test]
fn an_owner_inside_does_not_hand_over() {
    let lock = BiasedLock::new(true);
    until_owner(&lock);
    let me = fences::this_thread();
    let acquired = lock.try_lock().unwrap();
    lock.call(lock.owner.load(Ordering::Relaxed));
    assert!(lock.try_poll().is_none() && lock.try_lock().is_none());
    assert_eq!(thread_of(lock.owner.load(Ordering::Relaxed)), me);
    // SAFETY: this thread holds the lock, by the value that `try_lock` returned.
    unsafe { lock.unlock(acquired) };
    assert!(lock.try_lock().is_none() && lock.try_poll().is_none());
    assert_eq!(lock.owner.load(Ordering::Relaxed), 0);
}

/// A polling thread acquires the lock from an active owner that never polls.
#[test]
fn a_polling_thread_gets_the_lock_from_an_active_owner() {
    let lock = BiasedLock::new(true);
    let looked = AtomicBool::new(false);
    until_owner(&lock);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let acquired = loop {
                if let Some(acquired) = lock.try_poll() {
                    break acquired;
                }
            };
            // SAFETY: this thread holds the lock, by the value that `try_poll` returned.
            unsafe { lock.unlock(acquired) };
            looked.store(true, Ordering::Relaxed);
        });
        turns_until(&lock, &looked);
    });
}

#[test]
fn a_lock_taken_by_the_word_has_no_owner() {
    let lock = BiasedLock::new(true);
    until_owner(&lock);
    let acquired = lock.lock_by_word();
    assert!(acquired == Acquired::WORD);
    // SAFETY: this thread holds the lock, by the value that `lock_by_word` returned.
    unsafe { lock.unlock(acquired) };
    assert_eq!(lock.owner.load(Ordering::Relaxed), 0);
}

/// Threads sleep through long turns, and each of them gets the lock.
#[test]
fn long_turns_are_waited_for() {
    let counted = Counted(BiasedLock::new(true), UnsafeCell::new([0; 8]));
    let counted = &counted;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(move || {
                for _ in 0..20 {
                    add(counted);
                    let acquired = counted.0.lock();
                    std::thread::sleep(Duration::from_micros(300));
                    // SAFETY: this thread holds the lock, by the value that `lock` returned.
                    unsafe { counted.0.unlock(acquired) };
                }
            });
        }
    });
    // SAFETY: all threads have ended.
    assert_eq!(unsafe { *counted.1.get() }, [80; 8]);
}

/// Threads compete for the lock, and each of them gets it.
#[test]
fn every_waiting_thread_gets_the_lock() {
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

/// An observation of a lock does not apply to a new lock at the same address.
#[test]
fn a_new_lock_is_polled_by_the_first_thread() {
    let mut lock = Box::new(BiasedLock::new(true));
    let look = |lock: &BiasedLock| {
        let acquired = lock.try_poll();
        if let Some(acquired) = acquired {
            // SAFETY: this thread holds the lock, by the value that `try_poll` returned.
            unsafe { lock.unlock(acquired) };
        }
        acquired.is_some()
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| look(&lock));
        assert!(other.join().unwrap());
    });
    look(&lock);
    *lock = BiasedLock::new(true);
    assert!(look(&lock), "the new lock was taken for a polled one");
}
