//! Windows of messages as programs send and receive them: 64 Isends or Irecvs, then a Waitall. Counted for each message.
//!
//! When the receiver comes to its Waitall, all messages of the window are there.

use std::hint::black_box;

use super::counted::{
    Calls, SIZE, TAG, WINDOW, Window, osu_bench_counted_receive_window,
    osu_bench_counted_send_window, osu_bench_counted_waitall, osu_bench_mark,
};
use super::page::Page;
use super::rank::{ACK, no_error};
use crate::error::Result;
use crate::mpi::World;
use crate::mpi::constants::REQUEST_NULL;

/// Windows that only warm caches and connections up.
const WARM_UP: u64 = 16;

/// Marks that are passed: after warming up, around empty functions and around those of MPI with few and with many windows.
pub const PHASES: usize = 5;

/// Windows for few and for more messages.
fn windows(few: u64, many: u64) -> (u64, u64) {
    let few = few.div_ceil(WINDOW as u64);
    (few, many.div_ceil(WINDOW as u64).max(few + 1))
}

/// Whether MPI is called, and the number of windows.
fn phases(few: u64, many: u64) -> [(bool, u64); PHASES] {
    let (few, many) = windows(few, many);
    [
        (true, WARM_UP),
        (false, few),
        (false, many),
        (true, few),
        (true, many),
    ]
}

/// Instructions for a message, from what was collected up to the marks.
pub fn per_message(collected: &[u64], few: u64, many: u64) -> Option<Vec<f64>> {
    let &[_, empty_few, empty_many, real_few, real_many] = collected else {
        return None;
    };
    let (few, many) = windows(few, many);
    let messages = ((many - few) * WINDOW as u64) as f64;
    let slope = |low: u64, high: u64| (high as f64 - low as f64) / messages;
    Some(vec![
        slope(real_few, real_many) - slope(empty_few, empty_many),
    ])
}

/// Runs one rank of a count of sent windows; rank 0 is counted.
pub fn send(world: &World, calls: &Calls, few: u64, many: u64) -> Result<()> {
    let (empty, mut window) = (Calls::empty(), window(1));
    for (number, (real, windows)) in phases(few, many).into_iter().enumerate() {
        if world.rank == 1 {
            for _ in 0..if real { windows } else { 0 } {
                take(world)?;
                world.send(&[0; 4], 0, ACK)?;
            }
            continue;
        }
        let calls = black_box(if real { calls } else { &empty });
        for _ in 0..windows {
            // SAFETY: MPI is up, and each call leaves the window complete.
            no_error(unsafe { osu_bench_counted_send_window(calls, &mut window) })?;
            if real {
                world.recv(&mut [0; 4], 1, ACK)?;
            }
        }
        osu_bench_mark(number);
    }
    Ok(())
}

/// Takes a window's messages.
fn take(world: &World) -> Result<()> {
    (0..WINDOW).try_for_each(|_| world.recv(&mut [0; SIZE], 0, TAG).map(drop))
}

/// Runs one rank of a count of received windows; rank 1 is counted.
pub fn receive(world: &World, page: &Page, calls: &Calls, few: u64, many: u64) -> Result<()> {
    let (empty, mut window) = (Calls::empty(), window(0));
    let mut done = 0;
    for (number, (real, windows)) in phases(few, many).into_iter().enumerate() {
        if world.rank == 0 {
            for _ in 0..if real { windows } else { 0 } {
                done += 1;
                page.await_posted(done);
                (0..WINDOW).try_for_each(|_| world.send(&[1; SIZE], 1, TAG))?;
                page.send(done);
            }
            continue;
        }
        let calls = black_box(if real { calls } else { &empty });
        for _ in 0..windows {
            // SAFETY: MPI is up, and the window is not touched until it is complete, below.
            let started = unsafe { osu_bench_counted_receive_window(calls, &mut window) };
            if real {
                done += 1;
                page.post(done);
                page.await_sent(done);
            }
            // SAFETY: the requests were started just now, or are null.
            no_error(started | unsafe { osu_bench_counted_waitall(calls, &mut window) })?;
        }
        osu_bench_mark(number);
    }
    Ok(())
}

fn window(peer: i32) -> Window {
    Window {
        peer,
        requests: [REQUEST_NULL; WINDOW],
        buffers: [[1; SIZE]; WINDOW],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_cancel_and_messages_are_counted() {
        let window = |each: u64, windows: u64| 100 + each * windows * WINDOW as u64;
        let collected = [
            9,
            window(7, 4),
            window(7, 20),
            window(190, 4),
            window(190, 20),
        ];
        assert_eq!(per_message(&collected, 256, 1280), Some(vec![183.0]));
        assert_eq!(windows(16, 32), (1, 2));
        assert_eq!(per_message(&[], 256, 1280), None);
    }
}
