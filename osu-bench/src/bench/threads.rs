//! Message rate of several threads per rank (`MPI_THREAD_MULTIPLE`): `mbw_mr` with each thread
//! talking to the thread of the same number at the other rank.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use super::pairs::{Role, pairs, role};
use super::pt2pt::{BANDWIDTH, Window};
use super::timing::Bench;
use crate::error::{Error, Result};
use crate::mpi::{Combine, World};
use crate::options::Options;
use crate::output::{self, Field};

/// What one thread communicates with: a communicator of its own, or a tag of its own.
struct Lane {
    world: World,
    window: Window,
}

impl Lane {
    fn step(&mut self, role: Role) -> Result<()> {
        match role {
            Role::First { peer } => self.window.send(&self.world, peer),
            Role::Second { peer } => self.window.receive(&self.world, peer),
            Role::Idle => Ok(()),
        }
    }
}

/// Runs so many windows on each lane, each in a thread of its own, all starting together. Returns
/// the time from the first thread's start to the last one's end, as they saw it themselves: the
/// caller may get no core meanwhile.
fn run_threads(lanes: &mut [Lane], role: Role, iterations: u64) -> Result<Duration> {
    let ready = Barrier::new(lanes.len());
    let work = |lane: &mut Lane| {
        ready.wait();
        let start = Instant::now();
        if let Err(error) = (0..iterations).try_for_each(|_| lane.step(role)) {
            // Other threads may wait for messages that now never come.
            output::complain(&format!("osu-bench: rank {}: {error}", lane.world.rank));
            lane.world.abort();
        }
        (start, Instant::now())
    };
    thread::scope(|scope| {
        let work = &work;
        let handles: Vec<_> = lanes
            .iter_mut()
            .map(|lane| scope.spawn(move || work(lane)))
            .collect();
        let mut times = Vec::with_capacity(handles.len());
        for handle in handles {
            times.push(
                handle
                    .join()
                    .map_err(|_| Error::new("internal error: a thread ended early"))?,
            );
        }
        let start = times.iter().map(|(start, _)| *start).min();
        let end = times.iter().map(|(_, end)| *end).max();
        Ok(match (start, end) {
            (Some(start), Some(end)) => end - start,
            _ => Duration::ZERO,
        })
    })
}

/// `mbw_mr_mt`: bandwidth and message rate of all threads of all pairs together.
pub fn bandwidth_and_rate(world: &World, options: &Options) -> Result<bool> {
    let pairs = pairs(world, options)?;
    let role = role(world.rank, pairs);
    let threads = options.threads;
    let bench = Bench {
        world,
        options,
        defaults: BANDWIDTH,
    };
    let sizes = bench.sizes(2 * usize::from(threads))?;
    bench.say(
        &bench
            .world
            .title("Multi-threaded Multiple Bandwidth / Message Rate Test"),
    );
    bench.say(&format!(
        "# [ pairs: {pairs} ] [ threads: {threads}, {} ] [ window size: {} ]",
        if options.shared {
            "one communicator"
        } else {
            "a communicator each"
        },
        options.window
    ));
    bench.columns(&["MB/s", "Messages/s"]);
    // One duplicate serves all threads when they share.
    let communicators = if options.shared { 1 } else { threads };
    let worlds: Vec<World> = (0..communicators)
        .map(|_| world.duplicate())
        .collect::<Result<_>>()?;
    let mut all_valid = true;
    for size in sizes {
        let mut lanes: Vec<Lane> = (0..threads)
            .map(|thread| Lane {
                world: worlds[usize::from(thread % communicators)].view(),
                window: Window::new(size, options.window, thread),
            })
            .collect();
        let iterations =
            bench.warm_up_batches(size, |n| run_threads(&mut lanes, role, n).map(|_| ()))?;
        world.barrier()?;
        let elapsed = run_threads(&mut lanes, role, iterations)?;
        world.barrier()?;
        let valid = bench.validate(|seed| {
            let mark = |thread: usize| seed.wrapping_add((thread as u8).wrapping_mul(16));
            for (thread, lane) in lanes.iter_mut().enumerate() {
                lane.window.mark(mark(thread));
            }
            run_threads(&mut lanes, role, 1)?;
            let mut received = lanes.iter().enumerate();
            let second = matches!(role, Role::Second { .. });
            Ok(!second || received.all(|(thread, lane)| lane.window.received(mark(thread))))
        })?;
        all_valid &= valid != Some(false);
        let sends = matches!(role, Role::First { .. });
        let time = if sends { elapsed.as_secs_f64() } else { 0.0 };
        let mean = (world.combine(time, Combine::Sum)? / pairs as f64).max(1e-9);
        let windows = iterations as f64 * pairs as f64 * f64::from(threads);
        let rate = windows * f64::from(options.window) / mean;
        let bandwidth = Field::Number(rate * size as f64 / 1e6);
        bench.row(size, &[bandwidth, Field::Number(rate)], valid);
    }
    worlds.into_iter().try_for_each(World::free)?;
    Ok(all_valid)
}
