//! Several pairs of ranks, or of their threads, at once: bandwidth with message rate, and latency.

use std::time::Duration;

use super::name::Name;
use super::pt2pt::{BANDWIDTH, LATENCY, Window, check_ping_pong, ping_pong};
use super::timing::Bench;
use crate::error::{Error, Result};
use crate::mpi::{Combine, World};
use crate::options::Options;
use crate::output::Field;
use crate::pages::Pages;
use crate::together;

/// The part of a rank: the first `pairs` ranks send to (or begin with) the next `pairs` ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    First { peer: usize },
    Second { peer: usize },
    Idle,
}

fn role(rank: usize, pairs: usize) -> Role {
    if rank < pairs {
        Role::First { peer: rank + pairs }
    } else if rank < 2 * pairs {
        Role::Second { peer: rank - pairs }
    } else {
        Role::Idle
    }
}

fn pairs(world: &World, options: &Options) -> Result<usize> {
    let most = world.size / 2;
    match options.pairs.unwrap_or(most) {
        0 => Err(Error::everywhere(
            "pairs need at least 2 ranks; start with mpiexec -n 2 or more",
        )),
        pairs if pairs > most => Err(Error::everywhere(format!(
            "{pairs} pairs need {} ranks and the job has {}; lower -p or start more ranks",
            pairs.saturating_mul(2),
            world.size
        ))),
        pairs => Ok(pairs),
    }
}

/// One thread of a rank, which communicates on a communicator or by a tag of its own.
pub(super) struct Lane {
    world: World,
    window: Window,
}

impl Lane {
    /// Makes a lane for each thread, on the worlds in turn; each window ends with an acknowledgement,
    /// or only the last one.
    pub(super) fn all(
        worlds: &[World],
        threads: u16,
        size: usize,
        window: u32,
        acknowledges: bool,
    ) -> Vec<Self> {
        let lane = |thread: u16| Self {
            world: worlds[usize::from(thread) % worlds.len()].view(),
            window: Window::new(size, window, thread, acknowledges),
        };
        (0..threads).map(lane).collect()
    }

    /// Returns where it communicates.
    pub(super) fn world(&self) -> &World {
        &self.world
    }

    /// Runs a number of windows.
    pub(super) fn run(&mut self, role: Role, iterations: u64) -> Result<()> {
        let Self { world, window } = self;
        (0..iterations).try_for_each(|_| match role {
            Role::First { peer } => window.send(world, peer),
            Role::Second { peer } => window.receive(world, peer),
            Role::Idle => Ok(()),
        })?;
        match role {
            Role::First { peer } => window.end_sends(world, peer),
            Role::Second { peer } => window.end_receives(world, peer),
            Role::Idle => Ok(()),
        }
    }
}

/// Runs a number of windows on each lane, all lanes at once.
pub(super) fn run_lanes(lanes: &mut [Lane], role: Role, iterations: u64) -> Result<Duration> {
    together::run(lanes, Lane::world, |lane| lane.run(role, iterations))
}

/// `mbw_mr`, `mbw_mr_mt`: bandwidth and message rate of all pairs of ranks, or of all their
/// threads, together.
pub fn bandwidth_and_rate(name: Name, world: &World, options: &Options) -> Result<bool> {
    let pairs = pairs(world, options)?;
    let role = role(world.rank, pairs);
    let threads = if name.has_threads() {
        options.threads
    } else {
        1
    };
    let bench = Bench {
        world,
        options,
        defaults: BANDWIDTH,
    };
    let sizes = bench.sizes(2 * usize::from(threads))?;
    // One duplicate serves all threads when they share.
    let worlds: Vec<World> = match (name.has_threads(), options.shared) {
        (false, _) => vec![world.view()],
        (true, true) => vec![world.duplicate()?],
        (true, false) => (0..threads)
            .map(|_| world.duplicate())
            .collect::<Result<_>>()?,
    };
    let (title, lanes) = match (name.has_threads(), options.shared) {
        (false, _) => ("Multiple", String::new()),
        (true, true) => (
            "Multi-threaded Multiple",
            format!("[ threads: {threads}, one communicator ] "),
        ),
        (true, false) => (
            "Multi-threaded Multiple",
            format!("[ threads: {threads}, a communicator each ] "),
        ),
    };
    bench.say(&world.title(&format!("{title} Bandwidth / Message Rate Test")));
    bench.say(&format!(
        "# [ pairs: {pairs} ] {lanes}[ window size: {} ]",
        options.window
    ));
    bench.columns(&["MB/s", "Messages/s"]);
    let mut all_valid = true;
    for size in sizes {
        let acknowledges = !options.no_ack;
        let mut lanes = Lane::all(&worlds, threads, size, options.window, acknowledges);
        let iterations =
            bench.warm_up_batches(size, |n| run_lanes(&mut lanes, role, n).map(drop))?;
        world.barrier()?;
        let elapsed = run_lanes(&mut lanes, role, iterations)?;
        world.barrier()?;
        let valid = bench.validate(|seed| {
            let mark = |thread: usize| seed.wrapping_add((thread as u8).wrapping_mul(16));
            for (thread, lane) in lanes.iter_mut().enumerate() {
                lane.window.mark(mark(thread));
            }
            run_lanes(&mut lanes, role, 1)?;
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
        let fields = [rate * size as f64 / 1e6, rate].map(Field::Number);
        bench.row(size, &fields, valid);
    }
    if name.has_threads() {
        worlds.into_iter().try_for_each(World::free)?;
    }
    Ok(all_valid)
}

/// `multi_lat`: ping-pongs of all pairs at once, mean latency.
pub fn latency(world: &World, options: &Options) -> Result<bool> {
    let pairs = pairs(world, options)?;
    let bench = Bench {
        world,
        options,
        defaults: LATENCY,
    };
    let place = match role(world.rank, pairs) {
        Role::First { peer } => Some((true, peer)),
        Role::Second { peer } => Some((false, peer)),
        Role::Idle => None,
    };
    bench.each_size("Multi Latency Test", "Latency (us)", 2, |size| {
        let (mut send, mut receive) = (Pages::of(1_u8, size), Pages::of(0_u8, size));
        let (elapsed, iterations) = bench.time(size, || match place {
            Some((first, peer)) => ping_pong(world, first, peer, &send, &mut receive),
            None => Ok(()),
        })?;
        let valid = bench.validate(|seed| match place {
            Some((first, peer)) => {
                check_ping_pong(world, first, peer, &mut send, &mut receive, seed)
            }
            None => Ok(true),
        })?;
        let time = place.map_or(0.0, |_| elapsed.as_secs_f64());
        let mean = world.combine(time, Combine::Sum)? / (2 * pairs) as f64;
        Ok((mean * 1e6 / (2 * iterations) as f64, iterations, valid))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_pair_up() {
        let roles: Vec<Role> = (0..5).map(|rank| role(rank, 2)).collect();
        assert_eq!(
            roles,
            [
                Role::First { peer: 2 },
                Role::First { peer: 3 },
                Role::Second { peer: 0 },
                Role::Second { peer: 1 },
                Role::Idle,
            ]
        );
    }
}
