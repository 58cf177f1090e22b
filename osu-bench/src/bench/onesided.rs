//! One-sided benchmarks: rank 0 reads and writes the memory of rank 1, which waits in a barrier.
//! Each access (or window of accesses) ends as `--sync` says: with a flush, if nothing is said.

use super::name::Name;
use super::pt2pt::{BANDWIDTH, LATENCY, megabytes_per_second, two_ranks};
use super::timing::{Bench, fill, matches};
use crate::error::{Error, Result};
use crate::mpi::{Window, World};
use crate::options::{Defaults, Options};
use crate::output::Field;
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
        Name::PutLatency => transfers(world, options, "MPI_Put Latency Test", Way::Put, false),
        Name::GetLatency => transfers(world, options, "MPI_Get latency Test", Way::Get, false),
        Name::PutBw => transfers(world, options, "MPI_Put Bandwidth Test", Way::Put, true),
        Name::GetBw => transfers(world, options, "MPI_Get Bandwidth Test", Way::Get, true),
        Name::AccLatency => accumulates(world, options, false),
        Name::GetAccLatency => accumulates(world, options, true),
        Name::FopLatency => atomics(world, options, "MPI_Fetch_and_op latency Test", true),
        Name::CasLatency => atomics(world, options, "MPI_Compare_and_swap latency Test", false),
        other => Err(Error::everywhere(format!(
            "{} is not one-sided",
            other.text()
        ))),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Put,
    Get,
}

/// Accesses of `count` times the same bytes, and one flush.
fn access(window: &Window<'_>, way: Way, data: &mut [u8], count: u32) -> Result<()> {
    window.begin(TARGET)?;
    for _ in 0..count {
        // SAFETY: the end follows below; an error in between ends the job.
        unsafe {
            match way {
                Way::Put => window.put(data, TARGET)?,
                Way::Get => window.get(data, TARGET)?,
            }
        }
    }
    window.end(TARGET)
}

/// `put_latency`, `get_latency`, and `put_bw`, `get_bw` with a window of accesses per flush.
fn transfers(
    world: &World,
    options: &Options,
    title: &str,
    way: Way,
    bandwidth: bool,
) -> Result<bool> {
    let defaults = if bandwidth { BANDWIDTH } else { ACCESS };
    let bench = two_ranks(world, options, defaults)?;
    let count = if bandwidth { options.window } else { 1 };
    header(
        &bench,
        title,
        if bandwidth {
            "Bandwidth (MB/s)"
        } else {
            "Latency (us)"
        },
    );
    let origin = world.rank != TARGET;
    let mut all_valid = true;
    for size in bench.sizes(2)? {
        let mut window = Window::make(world, size, options.windows, options.epochs)?;
        let mut data = Pages::of(1_u8, size);
        // Not of zeros: some processors copy a line of them at twice the speed.
        window.with_memory(|memory| memory.fill(1))?;
        let (elapsed, iterations) = bench.time(size, || {
            if origin {
                access(&window, way, &mut data, count)
            } else {
                window.expose()
            }
        })?;
        let valid =
            bench.validate(|seed| check_transfer(world, &mut window, way, &mut data, seed))?;
        window.free()?;
        all_valid &= valid != Some(false);
        let value = if bandwidth {
            let bytes = size as f64 * f64::from(count) * iterations as f64;
            megabytes_per_second(bytes, elapsed)
        } else {
            elapsed.as_secs_f64() * 1e6 / iterations as f64
        };
        row(&bench, size, value, iterations, valid);
    }
    Ok(all_valid)
}

fn check_transfer(
    world: &World,
    window: &mut Window<'_>,
    way: Way,
    data: &mut [u8],
    seed: u8,
) -> Result<bool> {
    let (origin, put) = (world.rank != TARGET, way == Way::Put);
    if origin {
        if put { fill(data, seed) } else { data.fill(0) }
    } else {
        window.with_memory(|memory| {
            if put {
                memory.fill(0)
            } else {
                fill(memory, seed)
            }
        })?;
    }
    world.barrier()?;
    if origin {
        access(window, way, data, 1)?;
    } else {
        window.expose()?;
    }
    world.barrier()?;
    match (origin, way) {
        (true, Way::Get) => Ok(matches(data, seed)),
        (false, Way::Put) => window.with_memory(|memory| matches(memory, seed)),
        _ => Ok(true),
    }
}

/// `acc_latency`, `get_acc_latency`: sums of 64-bit integers.
fn accumulates(world: &World, options: &Options, fetch: bool) -> Result<bool> {
    let bench = two_ranks(world, options, ACCUMULATE)?;
    let sizes = bench.sizes(2)?;
    if let Some(size) = sizes.iter().find(|&&size| size == 0 || size % WORD != 0) {
        return Err(Error::everywhere(format!(
            "accumulates are of integers of {WORD} bytes and a size of {size} is not a multiple \
             of that; choose the sizes as in -m 8:1024"
        )));
    }
    let title = match fetch {
        true => "MPI_Get_accumulate latency Test",
        false => "MPI_Accumulate latency Test",
    };
    header(&bench, title, "Latency (us)");
    let origin = world.rank != TARGET;
    let mut all_valid = true;
    for size in sizes {
        let mut window = Window::make(world, size, options.windows, options.epochs)?;
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
                    false => window.accumulate(&data, TARGET)?,
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
        all_valid &= valid != Some(false);
        row(
            &bench,
            size,
            elapsed.as_secs_f64() * 1e6 / iterations as f64,
            iterations,
            valid,
        );
    }
    Ok(all_valid)
}

/// `fop_latency` and `cas_latency`: 8-byte atomics.
fn atomics(world: &World, options: &Options, title: &str, add: bool) -> Result<bool> {
    let options = Options {
        range: None,
        sizes: vec![WORD],
        ..options.clone()
    };
    let bench = two_ranks(world, &options, ATOMIC)?;
    header(&bench, title, "Latency (us)");
    let origin = world.rank != TARGET;
    let op = if add { "sum" } else { "cswap" };
    let hints = [
        (c"which_accumulate_ops", op.to_string()),
        (c"weft_accumulate_type", "int64".to_string()),
    ];
    let (memory, epochs) = (bench.options.windows, bench.options.epochs);
    let hints = if bench.options.promise {
        &hints[..]
    } else {
        &[]
    };
    let mut window = Window::make_with(world, WORD, memory, epochs, hints)?;
    window.with_memory(|memory| memory.fill(0))?;
    let mut known = 0_i64;
    let mut step = || {
        if origin {
            let old = if add {
                window.fetch_and_add(1, TARGET)?
            } else {
                window.compare_and_swap(known, known + 1, TARGET)?
            };
            // One rank alone counts up, so each old value is known.
            let right = old == known;
            known += 1;
            return Ok(right);
        }
        window.expose()?;
        Ok(true)
    };
    let (elapsed, iterations) = bench.time(WORD, || step().map(|_| ()))?;
    // An access that went wrong or missing while timed shows in the values that follow.
    let valid = bench.validate(|_| step())?;
    window.free()?;
    row(
        &bench,
        WORD,
        elapsed.as_secs_f64() * 1e6 / iterations as f64,
        iterations,
        valid,
    );
    Ok(valid != Some(false))
}

fn header(bench: &Bench<'_>, title: &str, value: &str) {
    let columns = if bench.options.full {
        vec![value, "Iterations"]
    } else {
        vec![value]
    };
    bench.header(title, &columns);
}

fn row(bench: &Bench<'_>, size: usize, value: f64, iterations: u64, valid: Option<bool>) {
    let mut fields = vec![Field::Number(value)];
    if bench.options.full {
        fields.push(Field::Count(iterations));
    }
    bench.row(size, &fields, valid);
}
