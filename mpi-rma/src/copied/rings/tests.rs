//! Rings between two threads.

use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use super::mapped::{Mapped, all_bytes};
use super::published::{Entry, Published, Side};
use super::*;

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
            Ring(Mapped::of(start, members, 0, 1).unwrap())
        };
        room.as_ptr().expose_provenance();
        let done = Mutex::new(Vec::new());
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut next = 0u32;
                while !over.load(Ordering::Acquire) {
                    let any = ring().serve(&mut next, |number| {
                        let request = ring().request(number);
                        if request.kind == kind::PUT {
                            // SAFETY: taken.
                            let data = unsafe {
                                std::slice::from_raw_parts(ring().data(number), request.len.into())
                            };
                            assert!(data.iter().all(|byte| *byte == request.at as u8));
                            done.lock().unwrap().push(request.at);
                        }
                        true
                    });
                    if !any {
                        std::hint::spin_loop();
                    }
                }
            });
            let mut published = Published::default();
            let (mut served, mut back) = (0, 0);
            let settle = |published: &mut Published, all: bool| {
                let mut counts = (0, 0);
                published.end_served(ring(), |_| counts.0 += 1);
                if all {
                    let settle = |entry: Entry, side| {
                        let request = ring().request(entry.number);
                        match side {
                            Side::Target => counts.0 += 1,
                            Side::Origin => counts.1 += 1,
                        }
                        if side == Side::Origin && request.kind == kind::PUT {
                            done.lock().unwrap().push(request.at);
                        }
                    };
                    let wait = |_| {
                        std::thread::yield_now();
                        Ok(())
                    };
                    published.end_all(ring(), settle, wait).unwrap();
                }
                counts
            };
            for at in 0..ENTRIES {
                let len = (at * 7 % 5 * 50) as usize;
                let len = len.min(ring().most());
                let data = vec![at as u8; len];
                let request = EntryRequest {
                    at: at.into(),
                    kind: kind::PUT,
                    len: len as u16,
                    ..EntryRequest::default()
                };
                // SAFETY: the data is a vector of that length.
                while unsafe {
                    !published.push(ring(), request, (data.as_ptr(), len), ptr::null_mut())
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
