//! `put-count`: how many instructions the one-sided calls take, for 8 bytes of a window that
//! `MPI_Win_allocate` made, in an epoch of `MPI_Win_lock_all`, and for one byte; and how many locks take. Counted as by `isend_count`.

mod counted;

use std::ffi::c_int;
use std::fs;
use std::hint::black_box;
use std::time::Duration;

use clap::Args;
use serde_json::{Map, json};

use crate::error::{Error, Result};
use crate::isend_count::{CountOptions, count_jobs, line, mark};
use crate::mpi::{Epochs, Memory, Table, Window, World};
use crate::output;
use crate::progress::Progress;
use counted::{Access, Calls};

/// What is counted, in this order.
const NAMES: [&str; 11] = [
    "Put",
    "Win_flush after it",
    "Get",
    "Accumulate",
    "Fetch_and_op",
    "Compare_and_swap",
    "Accumulate, 1 byte",
    "Fetch_and_op, 1 byte",
    "Compare_and_swap, 1 byte",
    "Win_lock, shared",
    "Win_unlock",
];

/// Iterations that only warm caches and connections up.
const WARM_UP: u64 = 256;

/// Options from the parent.
#[derive(Args, Debug)]
pub struct RankOptions {
    #[arg(long)]
    few: u64,
    #[arg(long)]
    many: u64,
}

/// Counts, and prints the table.
pub fn run(options: &CountOptions) -> Result<()> {
    let (library, few, many) = options.prepare()?;
    output::say(&output::title(
        "One-Sided Instruction Count",
        &library.label(),
    ));
    output::say(&format!(
        "{:<24}{:>14}",
        "# 8 bytes, 2 ranks", "Instructions"
    ));
    let limit = Duration::from_secs(options.timeout);
    let phases = 1 + 4 * NAMES.len();
    let mut results = Vec::new();
    let mut progress = Progress::new(options.repeat as usize);
    for _ in 0..options.repeat {
        progress.step("MPI_Put and its like");
        let arguments = [
            "put-count-rank".to_owned(),
            "--few".to_owned(),
            few.to_string(),
            "--many".to_owned(),
            many.to_string(),
        ];
        let counts = count_jobs(&library, 0, &arguments, phases, limit)?;
        results.push(per_call(&counts, few, many));
    }
    drop(progress);
    let mut counts = Map::new();
    for (place, name) in NAMES.iter().enumerate() {
        let values: Vec<f64> = results.iter().map(|result| result[place]).collect();
        output::say(&line(name, &values));
        counts.insert((*name).to_owned(), values.into());
    }
    if let Some(file) = &options.json {
        let dir = library.dir.display().to_string();
        let json = json!({ "version": library.version, "dir": dir, "instructions": counts });
        fs::write(file, format!("{json:#}\n"))
            .map_err(|error| Error::new(format!("{}: {error}", file.display())))?;
    }
    Ok(())
}

/// Instructions per call: the difference between many and few calls, less the same of empty
/// functions.
fn per_call(counts: &[u64], few: u64, many: u64) -> Vec<f64> {
    let slope = |low: u64, high: u64| (high as f64 - low as f64) / (many - few) as f64;
    let calls = counts.get(1..).unwrap_or_default().chunks_exact(4);
    calls
        .map(|c| slope(c[2], c[3]) - slope(c[0], c[1]))
        .collect()
}

/// Runs one rank.
pub fn run_rank(options: &RankOptions) -> Result<()> {
    let table = Table::open()?;
    let calls = Calls::of(table)?;
    let world = World::init(table, false)?;
    let outcome = match (world.size, world.rank) {
        (2, rank) => count(&world, &calls, options, rank == 0),
        (size, _) => Err(Error::new(format!(
            "counting needs 2 ranks and the job has {size}"
        ))),
    };
    match outcome {
        Ok(()) => world.finalize(),
        Err(error) => {
            output::complain(&format!("osu-bench: rank {}: {error}", world.rank));
            world.abort()
        }
    }
}

fn count(world: &World, calls: &Calls, options: &RankOptions, origin: bool) -> Result<()> {
    let window = Window::allocate(world, size_of::<i64>())?;
    let unlocked = Window::make(world, size_of::<i64>(), Memory::Allocate, Epochs::Lock)?;
    world.barrier()?;
    if origin {
        let mut access = Access::of_eight(window.handle(), unlocked.handle());
        let mut byte = Access::of_one(window.handle(), unlocked.handle());
        let empty = Calls::empty();
        // SAFETY: the window is locked at all ranks, and flushed in the end.
        unsafe {
            phase(0, calls, &mut access, WARM_UP)?;
            mark(0);
            let mut number = 1;
            for what in 0..NAMES.len() {
                let access = match what {
                    6..=8 => &mut byte,
                    _ => &mut access,
                };
                for calls in [&empty, calls] {
                    for iterations in [options.few, options.many] {
                        // Opaque, so that both kinds of phase run the same machine code.
                        phase(what, black_box(calls), access, iterations)?;
                        mark(number);
                        number += 1;
                    }
                }
            }
            no_error(counted::flush(calls, &mut access))?;
        }
    }
    world.barrier()?;
    unlocked.free()?;
    window.free()
}

/// # Safety
/// As for [`counted::put`].
unsafe fn phase(what: usize, calls: &Calls, access: &mut Access, iterations: u64) -> Result<()> {
    for _ in 0..iterations {
        // SAFETY: by the caller.
        let codes = unsafe {
            match what {
                0 => counted::osu_bench_counted_put(calls, access),
                1 => counted::put(calls, access) | counted::osu_bench_counted_flush(calls, access),
                2 => counted::osu_bench_counted_get(calls, access),
                3 | 6 => counted::osu_bench_counted_accumulate(calls, access),
                4 | 7 => counted::osu_bench_counted_fop(calls, access),
                5 | 8 => counted::osu_bench_counted_cas(calls, access),
                9 => {
                    counted::osu_bench_counted_lock(calls, access) | counted::unlock(calls, access)
                }
                _ => {
                    counted::lock(calls, access) | counted::osu_bench_counted_unlock(calls, access)
                }
            }
        };
        no_error(codes)?;
    }
    Ok(())
}

fn no_error(codes: c_int) -> Result<()> {
    if codes == 0 {
        Ok(())
    } else {
        Err(Error::new(format!("MPI returned the code {codes}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_and_calls_cancel() {
        // 7 instructions per call around an empty function, 100 once, and the call's own.
        let one = |per: u64, n: u64| 100 + per * n;
        let mut counts = vec![12345];
        for real in [55, 20] {
            counts.extend([one(7, 16), one(7, 32), one(7 + real, 16), one(7 + real, 32)]);
        }
        assert_eq!(per_call(&counts, 16, 32), [55.0, 20.0]);
        assert!(per_call(&[], 16, 32).is_empty());
    }
}
