use std::sync::Barrier;

use super::*;
use crate::combine::tests::members;

/// Returns the byte at a position of the file.
fn byte(place: usize) -> u8 {
    ((place >> 8).wrapping_mul(31) ^ place) as u8
}

const WINDOWS: u64 = 24;

#[test]
fn members_read_a_window_once_while_they_keep_near_each_other() {
    let (all, memory) = members(2, usize::MAX);
    let len = ((WINDOWS - 1) * WINDOW + 1000) as usize;
    *memory.bytes.lock() = (0..len).map(byte).collect();
    let stretch = 0..len as u64;
    let one = all[0].read_once.begin(&stretch).unwrap();
    let other = all[1].read_once.begin(&stretch).unwrap();
    for window in 0..WINDOWS {
        for (reading, shared) in [(&one, &all[0]), (&other, &all[1])] {
            let picked = reading.window(&*shared.storage, window).unwrap();
            let start = (window * WINDOW) as usize;
            let there = (len - start).min(WINDOW as usize);
            assert_eq!(picked.data.len(), there);
            assert!((0..there).all(|at| picked.data[at] == byte(start + at)));
        }
    }
    // The last read takes two calls: the file ends.
    let calls = memory.reads.load(Ordering::Relaxed);
    assert_eq!(u64::from(calls), WINDOWS + 1);
}

#[test]
fn what_was_read_before_an_access_is_not_given_to_it() {
    let (all, memory) = members(3, usize::MAX);
    memory.bytes.lock().resize((4 * WINDOW) as usize, 1);
    let stretch = 0..4 * WINDOW;
    let read = |reading: &Reading<'_>, me: usize| {
        let picked = reading.window(&*all[me].storage, 2).unwrap();
        picked.data[5]
    };
    let first = all[0].read_once.begin(&stretch).unwrap();
    let second = all[1].read_once.begin(&stretch).unwrap();
    assert_eq!((read(&first, 0), read(&second, 1)), (1, 1));
    memory.bytes.lock().fill(2);
    // Accesses that had begun may see either value.
    assert_eq!(read(&second, 1), 1);
    drop(second);
    let again = all[1].read_once.begin(&stretch).unwrap();
    assert_eq!(read(&again, 1), 2);
    let third = all[2].read_once.begin(&stretch).unwrap();
    assert_eq!(read(&third, 2), 2);
}

#[test]
fn ranks_that_are_alone_or_far_apart_read_alone() {
    let (all, memory) = members(2, usize::MAX);
    memory.bytes.lock().resize((90 * WINDOW) as usize, 1);
    assert!(all[0].read_once.begin(&(0..WINDOW)).is_none());
    let one = all[0].read_once.begin(&(0..3 * WINDOW)).unwrap();
    assert!(one.window(&*all[0].storage, 0).is_none());
    let other = all[1].read_once.begin(&(60 * WINDOW..90 * WINDOW)).unwrap();
    assert!(one.window(&*all[0].storage, 1).is_none());
    assert!(other.window(&*all[1].storage, 60).is_none());
    // A second thread of the process does not share reads.
    assert!(all[0].read_once.begin(&(0..3 * WINDOW)).is_none());
}

#[test]
fn a_member_that_holds_a_window_stops_no_other() {
    let (all, memory) = members(2, usize::MAX);
    memory.bytes.lock().resize((40 * WINDOW) as usize, 1);
    let stretch = 0..40 * WINDOW;
    let one = all[0].read_once.begin(&stretch).unwrap();
    let other = all[1].read_once.begin(&stretch).unwrap();
    let held = one.window(&*all[0].storage, 1).unwrap();
    let found = (0..40).filter_map(|window| other.window(&*all[1].storage, window));
    // All but the windows that would need the held slot, or that its holder will need.
    assert!(found.count() >= 36);
    assert!(held.data.iter().all(|byte| *byte == 1));
}

#[test]
fn many_at_once_read_what_is_there() {
    const MEMBERS: usize = 4;
    let (all, memory) = members(MEMBERS, usize::MAX);
    let len = (3 * WINDOWS * WINDOW) as usize;
    *memory.bytes.lock() = (0..len).map(byte).collect();
    let barrier = Barrier::new(MEMBERS);
    std::thread::scope(|scope| {
        for (me, shared) in all.iter().enumerate() {
            let barrier = &barrier;
            scope.spawn(move || {
                for round in 0..3_u64 {
                    barrier.wait();
                    let from = (me as u64 * round) % 5;
                    let stretch = from * WINDOW..len as u64;
                    let reading = shared.read_once.begin(&stretch).unwrap();
                    for window in from..3 * WINDOWS {
                        let Some(picked) = reading.window(&*shared.storage, window) else {
                            continue;
                        };
                        let start = (window * WINDOW) as usize;
                        let wrong = |at: &usize| picked.data[*at] != byte(start + at);
                        assert_eq!((0..WINDOW as usize).step_by(97).find(wrong), None);
                    }
                }
            });
        }
    });
}
