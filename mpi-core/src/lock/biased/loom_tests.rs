//! Owners, other threads and polls in every order that the memory model allows.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p mpi-core --lib loom_tests`.

use super::*;
use loom::sync::Arc;

struct Counted(BiasedLock, crate::sync::UnsafeCell<u32>);

// SAFETY: the number is accessed only under the lock, which loom checks.
unsafe impl Sync for Counted {}
// SAFETY: both parts may move to another thread; loom checks the accesses.
unsafe impl Send for Counted {}

fn add(counted: &Counted) {
    let acquired = match counted.0.try_lock() {
        Some(acquired) => acquired,
        None => counted.0.lock(),
    };
    // SAFETY: this thread holds the lock.
    unsafe { *counted.1.get() += 1 };
    // SAFETY: this thread holds the lock, by this value.
    unsafe { counted.0.unlock(acquired) };
}

/// An owner takes turns while another thread comes.
#[test]
fn the_owner_excludes_another_thread() {
    loom::model(|| {
        let counted = Arc::new(Counted(
            BiasedLock::new(true),
            crate::sync::UnsafeCell::new(0),
        ));
        add(&counted);
        add(&counted);
        let owner = counted.0.owner.load(Ordering::Relaxed);
        assert_eq!(owner & !COUNT, fences::this_thread());
        let other = counted.clone();
        let thread = loom::thread::spawn(move || add(&other));
        add(&counted);
        thread.join().unwrap();
        let acquired = counted.0.lock();
        // SAFETY: this thread holds the lock.
        assert_eq!(unsafe { *counted.1.get() }, 4);
        // SAFETY: this thread holds the lock, by this value.
        unsafe { counted.0.unlock(acquired) };
    });
}

/// An owner takes a turn by `try_owner`, and asks for a second one within it, while another thread
/// comes.
#[test]
fn a_turn_excludes_another_thread_and_the_owner_itself() {
    loom::model(|| {
        let counted = Arc::new(Counted(
            BiasedLock::new(true),
            crate::sync::UnsafeCell::new(0),
        ));
        add(&counted);
        add(&counted);
        let other = counted.clone();
        let thread = loom::thread::spawn(move || add(&other));
        let mut all = 3;
        if let Some(turn) = counted.0.try_owner() {
            assert!(counted.0.try_owner().is_none());
            // SAFETY: this thread holds the lock.
            unsafe { *counted.1.get() += 1 };
            // SAFETY: the turn was begun above.
            unsafe { counted.0.end_turn(turn) };
            all += 1;
        }
        thread.join().unwrap();
        let acquired = counted.0.lock();
        // SAFETY: this thread holds the lock.
        assert_eq!(unsafe { *counted.1.get() }, all);
        // SAFETY: this thread holds the lock, by this value.
        unsafe { counted.0.unlock(acquired) };
    });
}

/// An owner, with or without the word lock, hands over while another thread waits.
#[test]
fn a_handover_publishes_the_owners_writes() {
    for keeping in [false, true] {
        loom::model(move || {
            let counted = Arc::new(Counted(
                BiasedLock::new(true),
                crate::sync::UnsafeCell::new(0),
            ));
            assert!(counted.0.word.try_lock());
            let acquired = if keeping {
                Acquired::BECOMING_OWNER_BY_WORD
            } else {
                Acquired::BECOMING_OWNER
            };
            // SAFETY: this thread holds the word lock (`try_lock` above).
            unsafe { counted.0.make_owner(acquired) };
            let other = counted.clone();
            let thread = loom::thread::spawn(move || add(&other));
            add(&counted);
            counted.0.hand_over(fences::this_thread());
            thread.join().unwrap();
            let acquired = counted.0.lock();
            // SAFETY: this thread holds the lock.
            assert_eq!(unsafe { *counted.1.get() }, 2);
            // SAFETY: this thread holds the lock, by this value.
            unsafe { counted.0.unlock(acquired) };
        });
    }
}

/// An owner takes a turn while another thread polls.
#[test]
fn the_owner_excludes_a_polling_thread() {
    loom::model(|| {
        let counted = Arc::new(Counted(
            BiasedLock::new(true),
            crate::sync::UnsafeCell::new(0),
        ));
        add(&counted);
        add(&counted);
        let other = counted.clone();
        let thread = loom::thread::spawn(move || {
            if let Some(acquired) = other.0.try_poll() {
                // SAFETY: this thread holds the lock.
                unsafe { *other.1.get() += 1 };
                // SAFETY: this thread holds the lock, by the value that `try_poll` returned.
                unsafe { other.0.unlock(acquired) };
            }
        });
        add(&counted);
        thread.join().unwrap();
    });
}
