//! `rma-model`: what one-sided communication costs, as functions fitted to measurements.
//!
//! Rank 0 accesses rank 1; all ranks fence, post to their neighbours, and contend for a lock.

use std::hint::black_box;
use std::time::{Duration, Instant};

use super::pt2pt::LATENCY;
use super::timing::Bench;
use crate::error::{Error, Result};
use crate::mpi::constants::{MIN, SUM};
use crate::mpi::{Combine, Epochs, Memory, Window, World};
use crate::options::Options;

const TARGET: usize = 1;
const LARGEST: usize = 1 << 20;
const WORD: usize = size_of::<i64>();

/// Runs it.
pub fn run(world: &World, options: &Options) -> Result<bool> {
    if world.size < 2 {
        return Err(Error::everywhere("the model needs 2 ranks or more"));
    }
    let bench = Bench {
        world,
        options,
        defaults: LATENCY,
    };
    bench.say(&world.title("One-Sided Communication Model"));
    bench.say(&format!(
        "# {} ranks, {:?} windows, medians of {ROUNDS}; s in bytes, p ranks, k neighbours",
        world.size, options.windows
    ));
    accesses(&bench)?;
    injection(&bench)?;
    overlap(&bench)?;
    passive(&bench)?;
    active(&bench)?;
    contention(&bench)?;
    Ok(true)
}

/// Measurements of each cost.
const ROUNDS: usize = 9;

/// Returns how often to run `step` in a measurement: `times` times, or as often as fits into the option
/// `--budget`.
fn fitting(bench: &Bench<'_>, times: u32, mut step: impl FnMut() -> Result<()>) -> Result<u32> {
    let Some(budget) = bench.options.budget else {
        return Ok(times);
    };
    step()?;
    bench.world.barrier()?;
    let start = Instant::now();
    step()?;
    let one = bench
        .world
        .agree(start.elapsed().as_secs_f64(), Combine::Max)?;
    let all = budget as f64 / 1e3 / ROUNDS as f64;
    Ok(times.min((all / one.max(1e-9)) as u32).max(1))
}

/// The median time in microseconds of `step`, which each rank runs up to `times` times per measurement.
fn measure(bench: &Bench<'_>, times: u32, mut step: impl FnMut() -> Result<()>) -> Result<f64> {
    let times = fitting(bench, times, &mut step)?;
    timed(bench, times, step)
}

/// The median time in microseconds of `step`, which each rank runs `times` times per measurement.
fn timed(bench: &Bench<'_>, times: u32, mut step: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut results = Vec::new();
    for _ in 0..=ROUNDS {
        bench.world.barrier()?;
        let start = Instant::now();
        for _ in 0..times {
            step()?;
        }
        results.push(start.elapsed().as_secs_f64() * 1e6 / f64::from(times));
    }
    // The first warms up.
    let mut results = results.split_off(1);
    results.sort_by(f64::total_cmp);
    Ok(results[ROUNDS / 2])
}

/// The line `a + b x` nearest to the points, by their relative errors; also the largest of these.
fn fit(points: &[(f64, f64)]) -> (f64, f64, f64) {
    let (mut w, mut x, mut y, mut xx, mut xy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for &(at, time) in points {
        let weight = 1.0 / (time * time);
        w += weight;
        x += weight * at;
        y += weight * time;
        xx += weight * at * at;
        xy += weight * at * time;
    }
    let across = w * xx - x * x;
    let slope = if across == 0.0 {
        0.0
    } else {
        (w * xy - x * y) / across
    };
    let start = (y - slope * x) / w;
    let error = |&(at, time): &(f64, f64)| ((start + slope * at) / time - 1.0).abs();
    let worst = points.iter().map(error).fold(0.0, f64::max);
    (start, slope, worst)
}

/// Latencies: rank 0 to rank 1, completed by a flush.
fn accesses(bench: &Bench<'_>) -> Result<()> {
    let world = bench.world;
    let window = Window::make(world, LARGEST, bench.options.windows, Epochs::Flush, &[])?;
    let origin = world.rank == 0;
    let mut data = vec![1_i64; LARGEST / WORD];
    let mut found = data.clone();
    let sizes = [8, 64, 512, 4096, 32768, 262_144, LARGEST];
    for (what, name) in ["put", "get", "accumulate", "acc, min", "get_accumulate"]
        .iter()
        .enumerate()
    {
        let mut points = Vec::new();
        for size in sizes {
            let times = (200_000 / (size as u32 + 200)).max(4);
            let time = measure(bench, times, || {
                if !origin {
                    return Ok(());
                }
                let count = size / WORD;
                // SAFETY: the flush follows at once.
                unsafe {
                    match what {
                        0 => window.put(bytes(&mut data[..count]), TARGET, 0)?,
                        1 => window.get(bytes(&mut data[..count]), TARGET, 0)?,
                        2 => window.accumulate(&data[..count], TARGET, 0, SUM)?,
                        3 => window.accumulate(&data[..count], TARGET, 0, MIN)?,
                        _ => window.get_accumulate(&data[..count], &mut found[..count], TARGET)?,
                    }
                }
                window.flush(TARGET)
            })?;
            points.push((size as f64, time));
        }
        let (start, slope, worst) = fit(&points);
        bench.say(&format!(
            "P_{name:<16}= {start:.4} us + {:.4} ns * s      (8 B {:.4} us, 1 MiB {:.1} us; within {:.0} %)",
            slope * 1e3,
            points[0].1,
            points[points.len() - 1].1,
            worst * 100.0
        ));
    }
    let mut known = 0;
    let atomic = |name: &str, times, step: &mut dyn FnMut() -> Result<()>| -> Result<()> {
        let time = measure(bench, times, || if origin { step() } else { Ok(()) })?;
        bench.say(&format!("P_{name:<17}= {time:.4} us"));
        Ok(())
    };
    atomic("fetch_and_op", 2000, &mut || {
        window.fetch_and_add(1, TARGET, 0).map(drop)
    })?;
    atomic("compare_and_swap", 2000, &mut || {
        let old = window.compare_and_swap(known, known + 1, TARGET, 0);
        old.map(|old| known = old)
    })?;
    atomic("flush", 5000, &mut || window.flush(TARGET))?;
    atomic("sync", 5000, &mut || window.sync())?;
    window.free()
}

fn bytes(data: &mut [i64]) -> &mut [u8] {
    let len = size_of_val(data);
    // SAFETY: the same memory, borrowed as exclusively; integers of both kinds have no invalid
    // values.
    unsafe { std::slice::from_raw_parts_mut(data.as_mut_ptr().cast(), len) }
}

/// The time of a put among a thousand that end with one flush, without that flush, by size.
fn injection(bench: &Bench<'_>) -> Result<()> {
    const PUTS: u32 = 1000;
    let world = bench.world;
    let rounds = bench.options.budget.map_or(ROUNDS, |_| 1);
    let window = Window::make(world, LARGEST, bench.options.windows, Epochs::Flush, &[])?;
    let data = vec![1_u8; LARGEST];
    let mut found = Vec::new();
    for size in [8, 512, 4096] {
        let mut times = Vec::new();
        for _ in 0..=rounds {
            world.barrier()?;
            if world.rank != 0 {
                continue;
            }
            let start = Instant::now();
            for _ in 0..PUTS {
                // SAFETY: never changed.
                unsafe { window.put(&data[..size], TARGET, 0)? };
            }
            times.push(start.elapsed().as_secs_f64() * 1e9 / f64::from(PUTS));
            window.flush(TARGET)?;
        }
        world.barrier()?;
        times.sort_by(f64::total_cmp);
        let median = times.get(times.len() / 2).copied().unwrap_or_default();
        found.push(format!("{size} B {median:.0} ns"));
    }
    bench.say(&format!("puts, no flush     = {}", found.join(", ")));
    window.free()
}

/// The share of a put's time in which the origin can compute, by size.
fn overlap(bench: &Bench<'_>) -> Result<()> {
    let world = bench.world;
    let window = Window::make(world, LARGEST, bench.options.windows, Epochs::Flush, &[])?;
    let (origin, data) = (world.rank == 0, vec![1_u8; LARGEST]);
    let mut shares = Vec::new();
    for size in [8, 512, 4096, 32768, 262_144, LARGEST] {
        let times = (200_000 / (size as u32 + 200)).max(4);
        let time = |computing: Duration| {
            measure(bench, times, || {
                if !origin {
                    return Ok(());
                }
                // SAFETY: never changed.
                unsafe { window.put(&data[..size], TARGET, 0)? };
                let start = Instant::now();
                while !computing.is_zero() && start.elapsed() < computing {
                    black_box(());
                }
                window.flush(TARGET)
            })
        };
        // As long as the put alone takes, so that half of both is the most.
        let alone = world.agree(time(Duration::ZERO)?, Combine::Max)?;
        // The clock that times the computing takes a part of a microsecond itself.
        if alone < 1.0 {
            continue;
        }
        let both = time(Duration::from_nanos((alone * 1e3) as u64))?;
        shares.push(format!("{size} B {:.0} %", (2.0 - both / alone) * 100.0));
    }
    bench.say(&format!("overlap, put       = {}", shares.join(", ")));
    window.free()
}

/// The median time in microseconds of each of some steps that follow each other.
///
/// The time of all is taken without reading the clock between them, and dealt out by times that
/// are: a step may be shorter than a reading.
fn parts<const N: usize>(
    bench: &Bench<'_>,
    times: u32,
    mut step: impl FnMut(usize) -> Result<()>,
) -> Result<[f64; N]> {
    let times = fitting(bench, times, || (0..N).try_for_each(&mut step))?;
    let all = timed(bench, times, || (0..N).try_for_each(&mut step))?;
    let mut apart = [Duration::ZERO; N];
    timed(bench, times, || {
        for (number, time) in apart.iter_mut().enumerate() {
            let start = Instant::now();
            step(number)?;
            *time += start.elapsed();
        }
        Ok(())
    })?;
    let start = Instant::now();
    for _ in 0..1000 {
        black_box(Instant::now());
    }
    let clock = start.elapsed().as_secs_f64() * f64::from(times) * (ROUNDS + 1) as f64 / 1000.0;
    // What is within the clock's own time counts as a tenth of it.
    let net = apart.map(|time| (time.as_secs_f64() - clock).max(clock / 10.0));
    let sum: f64 = net.iter().sum();
    Ok(net.map(|time| all * time / sum))
}

/// Locks that nobody else wants: time of taking one, and of giving it back.
fn passive(bench: &Bench<'_>) -> Result<()> {
    let world = bench.world;
    let window = Window::make(world, WORD, bench.options.windows, Epochs::Lock, &[])?;
    let origin = world.rank == 0;
    for (name, kind) in [("shared", 0), ("exclusive", 1), ("all", 2)] {
        let [lock, unlock] = parts(bench, 2000, |step| match (origin, step, kind) {
            (false, ..) => Ok(()),
            (_, 0, 2) => window.lock_all(),
            (_, 0, _) => window.lock(TARGET, kind == 1),
            (_, _, 2) => window.unlock_all(),
            _ => window.unlock(TARGET),
        })?;
        bench.say(&format!(
            "P_lock,{name:<12}= {lock:.4} us   P_unlock,{name:<10}= {unlock:.4} us"
        ));
    }
    window.free()
}

/// Fence, and post, start, complete, wait with more and more neighbours.
fn active(bench: &Bench<'_>) -> Result<()> {
    let world = bench.world;
    let window = Window::make(world, WORD, bench.options.windows, Epochs::Fence, &[])?;
    let fence = measure(bench, 200, || window.fence())?;
    window.free()?;
    let steps = (world.size as f64).log2();
    bench.say(&format!(
        "P_fence            = {:.4} us * log2 p   ({fence:.4} us for {} ranks)",
        fence / steps,
        world.size
    ));
    let window = Window::make(world, WORD, bench.options.windows, Epochs::Lock, &[])?;
    let mut points = vec![Vec::new(); 5];
    for k in 1..world.size.min(9) {
        let ring = |shift: usize| (world.rank + shift) % world.size;
        let before: Vec<usize> = (1..=k).map(|i| ring(world.size - i)).collect();
        let after: Vec<usize> = (1..=k).map(ring).collect();
        let (to, from) = (world.group(&before)?, world.group(&after)?);
        let times: [f64; 4] = parts(bench, 100, |step| match step {
            0 => window.post(to),
            1 => window.start(from),
            2 => window.complete(),
            _ => window.wait(),
        })?;
        let sum = times.iter().sum();
        for (points, time) in points.iter_mut().zip(times.into_iter().chain([sum])) {
            points.push((k as f64, time));
        }
        world.free_group(to)?;
        world.free_group(from)?;
    }
    for (name, points) in ["post", "start", "complete", "wait", "pscw"]
        .iter()
        .zip(&points)
    {
        let (start, slope, worst) = fit(points);
        bench.say(&match points.len() {
            1 => format!("P_{name:<17}= {start:.4} us with one neighbour"),
            _ => format!(
                "P_{name:<17}= {start:.4} us + {slope:.4} us * k   (within {:.0} %)",
                worst * 100.0
            ),
        });
    }
    // Where a fence of all ranks begins to be cheaper.
    let cheaper = points[4].iter().find(|(_, time)| *time > fence);
    let k = cheaper.map_or("none measured".to_owned(), |(k, _)| format!("{k}"));
    bench.say(&format!("fence < pscw from k = {k}"));
    window.free()
}

/// All ranks take and give back one exclusive lock for a while: how often each has it.
fn contention(bench: &Bench<'_>) -> Result<()> {
    const WHILE: Duration = Duration::from_millis(300);
    let world = bench.world;
    let window = Window::make(world, WORD, Memory::Allocate, Epochs::Lock, &[])?;
    world.barrier()?;
    let (start, mut turns) = (Instant::now(), 0_u32);
    while start.elapsed() < WHILE {
        window.lock(0, true)?;
        window.unlock(0)?;
        turns += 1;
    }
    let (least, most) = (
        world.agree(f64::from(turns), Combine::Min)?,
        world.agree(f64::from(turns), Combine::Max)?,
    );
    let all = world.agree(f64::from(turns), Combine::Sum)?;
    bench.say(&format!(
        "contended lock     = {:.4} us per turn; turns of a rank: {least:.0} to {most:.0}",
        WHILE.as_secs_f64() * 1e6 / all
    ));
    world.barrier()?;
    window.free()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_again() {
        let points: Vec<_> = [1.0, 10.0, 1000.0].map(|x| (x, 0.5 + 0.25 * x)).into();
        let (start, slope, worst) = fit(&points);
        assert!((start - 0.5).abs() < 1e-9 && (slope - 0.25).abs() < 1e-9 && worst < 1e-9);
        assert_eq!(fit(&[(1.0, 2.0)]), (2.0, 0.0, 0.0));
    }
}
