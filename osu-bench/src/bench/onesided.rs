//! One-sided benchmarks: rank 0 reads and writes the memory of rank 1, which waits in a barrier.
//! Each access (or window of accesses) ends as `--sync` says: with a flush, if nothing is said.

use super::name::Name;
use super::pt2pt::{BANDWIDTH, LATENCY, megabytes_per_second, two_ranks};
use super::timing::{fill, matches};
use crate::error::{Error, Result};
use crate::mpi::constants::SUM;
use crate::mpi::{Epochs, Window, World};
use crate::options::{Defaults, Options};
use crate::pages::Pages;

/// Sizes start at one byte; accumulates are of whole 64-bit integers.
const ACCESS: Defaults = Defaults { min: 1, ..LATENCY };
const ACCUMULATE: Defaults = Defaults {
    min: WORD,
    max: 1 << 20,
    ..LATENCY
};
const ATOMIC: Defaults = Defaults {
    min: WORD,
    max: WORD,
    ..LATENCY
};

/// The size of an atomic access.
const WORD: usize = size_of::<i64>();

/// The rank whose memory is accessed.
const TARGET: usize = 1;

/// Runs the one-sided benchmark of this name.
pub fn run(name: Name, world: &World, options: &Options) -> Result<bool> {
    match name {
        Name::PutLatency => transfers(world, options, "MPI_Put Latency Test", Op::Put, false),
        Name::GetLatency => transfers(world, options, "MPI_Get latency Test", Op::Get, false),
        Name::PutBw => transfers(world, options, "MPI_Put Bandwidth Test", Op::Put, true),
        Name::GetBw => transfers(world, options, "MPI_Get Bandwidth Test", Op::Get, true),
        Name::AccLatency => accumulates(world, options, "MPI_Accumulate latency Test", false),
        Name::GetAccLatency => accumulates(world, options, "MPI_Get_accumulate latency Test", true),
        Name::FopLatency => atomics(world, options, "MPI_Fetch_and_op latency Test", true),
        Name::NotifyLatency => notify(world, options),
        Name::CasLatency => atomics(world, options, "MPI_Compare_and_swap latency Test", false),
        other => Err(Error::everywhere(format!(
            "{} is not one-sided",
            other.text()
        ))),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Op {
    Put,
    Get,
}

/// Accesses of `count` times the same bytes, and one flush.
fn access(window: &Window<'_>, op: Op, data: &mut [u8], count: u32) -> Result<()> {
    window.begin(TARGET)?;
    for _ in 0..count {
        // SAFETY: the end follows below; an error in between ends the job.
        unsafe {
            match op {
                Op::Put => window.put(data, TARGET, 0)?,
                Op::Get => window.get(data, TARGET, 0)?,
            }
        }
    }
    window.end(TARGET)
}

/// `put_latency`, `get_latency`, and `put_bw`, `get_bw` with a window of accesses per flush.
fn transfers(world: &World, options: &Options, title: &str, op: Op, rate: bool) -> Result<bool> {
    let (defaults, count, what) = match rate {
        true => (BANDWIDTH, options.window, "Bandwidth (MB/s)"),
        false => (ACCESS, 1, "Latency (us)"),
    };
    let bench = two_ranks(world, options, defaults)?;
    let origin = world.rank != TARGET;
    bench.each_size(title, what, 2, |size| {
        let mut window = Window::make(world, size, options.windows, options.epochs, &[])?;
        let mut data = Pages::of(1_u8, size);
        // Not of zeros: some processors copy a line of them at twice the speed.
        window.with_memory(|memory| memory.fill(1))?;
        let (elapsed, iterations) = bench.time(size, || match origin {
            true => access(&window, op, &mut data, count),
            false => window.expose(),
        })?;
        let valid =
            bench.validate(|seed| check_transfer(world, &mut window, op, &mut data, seed))?;
        window.free()?;
        let bytes = size as f64 * f64::from(count) * iterations as f64;
        let value = match rate {
            true => megabytes_per_second(bytes, elapsed),
            false => elapsed.as_secs_f64() * 1e6 / iterations as f64,
        };
        Ok((value, iterations, valid))
    })
}

/// `notify_latency`: half the time of a ping-pong of puts that notify their targets.
fn notify(world: &World, options: &Options) -> Result<bool> {
    let bench = two_ranks(world, options, ACCESS)?;
    let (title, peer) = ("MPIX_Put_notify Latency Test", 1 - world.rank);
    bench.each_size(title, "Latency (us)", 2, |size| {
        let window = Window::make(world, size, options.windows, Epochs::Flush, &[])?;
        window.create_notify()?;
        let (data, mut turn) = (Pages::of(1_u8, size), 0);
        let (elapsed, iterations) = bench.time(size, || {
            turn += 1;
            if world.rank == TARGET {
                window.await_notify(turn)?;
            }
            // SAFETY: never changed.
            unsafe { window.put_notify(&data, peer)? };
            match world.rank {
                TARGET => Ok(()),
                _ => window.await_notify(turn),
            }
        })?;
        window.free()?;
        let value = elapsed.as_secs_f64() * 0.5e6 / iterations as f64;
        Ok((value, iterations, None))
    })
}

fn check_transfer(
    world: &World,
    window: &mut Window<'_>,
    op: Op,
    data: &mut [u8],
    seed: u8,
) -> Result<bool> {
    let (origin, put) = (world.rank != TARGET, op == Op::Put);
    let mark = |data: &mut [u8], sends: bool| match sends {
        true => fill(data, seed),
        false => data.fill(0),
    };
    match origin {
        true => mark(data, put),
        false => window.with_memory(|memory| mark(memory, !put))?,
    }
    world.barrier()?;
    match origin {
        true => access(window, op, data, 1)?,
        false => window.expose()?,
    }
    world.barrier()?;
    match (origin, op) {
        (true, Op::Get) => Ok(matches(data, seed)),
        (false, Op::Put) => window.with_memory(|memory| matches(memory, seed)),
        _ => Ok(true),
    }
}

/// `acc_latency`, `get_acc_latency`: sums of 64-bit integers.
fn accumulates(world: &World, options: &Options, title: &str, fetch: bool) -> Result<bool> {
    let bench = two_ranks(world, options, ACCUMULATE)?;
    let sizes = options.sizes(&ACCUMULATE);
    if let Some(size) = sizes.iter().find(|&&size| size == 0 || size % WORD != 0) {
        return Err(Error::everywhere(format!(
            "accumulates are of integers of {WORD} bytes and a size of {size} is not a multiple \
             of that; choose the sizes as in -m 8:1024"
        )));
    }
    let origin = world.rank != TARGET;
    bench.each_size(title, "Latency (us)", 2, |size| {
        let mut window = Window::make(world, size, options.windows, options.epochs, &[])?;
        window.with_memory(|memory| memory.fill(0))?;
        let data = Pages::of(1_i64, size / WORD);
        let mut found = Pages::of(1_i64, size / WORD);
        let mut add = |window: &Window<'_>| {
            if !origin {
                return window.expose();
            }
            window.begin(TARGET)?;
            // SAFETY: the end follows at once.
            unsafe {
                match fetch {
                    true => window.get_accumulate(&data, &mut found, TARGET)?,
                    false => window.accumulate(&data, TARGET, 0, SUM)?,
                }
            }
            window.end(TARGET)
        };
        let (elapsed, iterations) = bench.time(size, || add(&window))?;
        let valid = bench.validate(|_| {
            if !origin {
                window.with_memory(|memory| memory.fill(0))?;
            }
            world.barrier()?;
            add(&window)?;
            add(&window)?;
            world.barrier()?;
            let twice = 2_i64.to_ne_bytes();
            Ok(origin || window.with_memory(|m| m.chunks_exact(WORD).all(|word| word == twice))?)
        })?;
        window.free()?;
        Ok((
            elapsed.as_secs_f64() * 1e6 / iterations as f64,
            iterations,
            valid,
        ))
    })
}

/// `fop_latency` and `cas_latency`: 8-byte atomics.
fn atomics(world: &World, options: &Options, title: &str, add: bool) -> Result<bool> {
    let options = Options {
        range: None,
        sizes: vec![WORD],
        ..options.clone()
    };
    let bench = two_ranks(world, &options, ATOMIC)?;
    let origin = world.rank != TARGET;
    let op = if add { "sum" } else { "cswap" };
    let hints = [
        (c"which_accumulate_ops", op.to_string()),
        (c"weft_accumulate_type", "int64".to_string()),
    ];
    let hints = if options.promise { &hints[..] } else { &[] };
    bench.each_size(title, "Latency (us)", 1, |size| {
        let mut window = Window::make(world, size, options.windows, options.epochs, hints)?;
        window.with_memory(|memory| memory.fill(0))?;
        let mut known = 0_i64;
        let mut step = || {
            if !origin {
                return window.expose().map(|()| true);
            }
            let old = match add {
                true => window.fetch_and_add(1, TARGET, 0)?,
                false => window.compare_and_swap(known, known + 1, TARGET, 0)?,
            };
            // One rank alone counts up, so each old value is known.
            let right = old == known;
            known += 1;
            Ok(right)
        };
        let (elapsed, iterations) = bench.time(size, || step().map(drop))?;
        // An access that went wrong or missing while timed shows in the values that follow.
        let valid = bench.validate(|_| step())?;
        window.free()?;
        Ok((
            elapsed.as_secs_f64() * 1e6 / iterations as f64,
            iterations,
            valid,
        ))
    })
}
