//! Threads of a rank that communicate at once.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::mpi::World;
use crate::output;

/// Returns the error for a thread that has panicked.
pub fn ended() -> Error {
    Error::new("internal error: a thread ended early")
}

/// Runs `work` on all items at once, each in a thread of its own; on a single one in this thread.
/// Returns the time from the first start to the last end as the threads saw it, since this thread
/// may get no core meanwhile. An error ends the job of the item's `world`: other threads may wait
/// for messages that now never come.
pub fn run<T: Send>(
    items: &mut [T],
    world: impl Fn(&T) -> &World + Sync,
    work: impl Fn(&mut T) -> Result<()> + Sync,
) -> Result<Duration> {
    let ready = Barrier::new(items.len());
    let timed = |item: &mut T| {
        ready.wait();
        let start = Instant::now();
        work(item).map(|()| (start, Instant::now()))
    };
    let or_abort = |item: &mut T| {
        timed(item).unwrap_or_else(|error| {
            let world = world(item);
            output::complain(&format!("osu-bench: rank {}: {error}", world.rank));
            world.abort()
        })
    };
    let or_abort = &or_abort;
    let times = match items {
        [one] => vec![timed(one)?],
        items => thread::scope(|scope| {
            let threads = items
                .iter_mut()
                .map(|item| scope.spawn(move || or_abort(item)));
            let threads: Vec<_> = threads.collect();
            let times = threads
                .into_iter()
                .map(|thread| thread.join().map_err(|_| ended()));
            times.collect::<Result<Vec<_>>>()
        })?,
    };
    let start = times.iter().map(|(start, _)| *start).min();
    let end = times.iter().map(|(_, end)| *end).max();
    Ok(match (start, end) {
        (Some(start), Some(end)) => end - start,
        _ => Duration::ZERO,
    })
}

/// A barrier of threads that spin a little, then yield their core.
pub struct Meeting {
    threads: usize,
    arrived: AtomicUsize,
    /// The number of barriers so far.
    turn: AtomicUsize,
}

impl Meeting {
    /// Looks before a thread yields.
    const SPINS: u32 = 200;

    /// Creates a barrier of `threads` threads.
    pub fn of(threads: usize) -> Self {
        Self {
            threads,
            arrived: AtomicUsize::new(0),
            turn: AtomicUsize::new(0),
        }
    }

    /// Waits until all threads have called this.
    pub fn wait(&self) {
        let turn = self.turn.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            // No thread arrives at the next barrier before the turn has changed.
            self.arrived.store(0, Ordering::Relaxed);
            self.turn.store(turn.wrapping_add(1), Ordering::Release);
            return;
        }
        let mut looks = 0;
        while self.turn.load(Ordering::Acquire) == turn {
            looks += 1;
            if looks < Self::SPINS {
                std::hint::spin_loop();
            } else {
                thread::yield_now();
            }
        }
    }
}
