//! Collectives: blocking ones, timed call by call; nonblocking ones with the overlap of
//! communication and computation; with one length or counts per rank, and those of neighbourhoods.
//!
//! Overlap is measured as OSU does: the time of call and wait together (pure communication); then
//! with a computation that takes as long in between; what the whole takes longer than the
//! computation is communication that was not hidden.

use std::time::{Duration, Instant};

use super::name::{Form, Name};
use super::timing::{Bench, fill, matches, pattern};
use crate::error::{Error, Result};
use crate::mpi::{Collective, Combine, Shape, World, share};
use crate::options::{Defaults, Options};
use crate::output::{self, Field};

/// Defaults of data movement; reductions start at the size of a float.
const DEFAULTS: Defaults = Defaults {
    min: 1,
    max: 1 << 20,
    iterations: [1_000, 100],
    warmup: [200, 10],
};

const FLOAT: usize = size_of::<f32>();

/// The root of rooted collectives.
const ROOT: usize = 0;

/// Runs the collective benchmark of this name.
pub fn run(name: Name, world: &World, options: &Options) -> Result<bool> {
    let Some(form) = name.form() else {
        let text = format!("{} is not a collective benchmark", name.text());
        return Err(Error::everywhere(text));
    };
    let mut defaults = DEFAULTS;
    if form.shape.reduces() {
        defaults.min = FLOAT;
    }
    let bench = Bench {
        world,
        options,
        defaults,
    };
    let title = match name {
        Name::Bcast => "Broadcast".to_owned(),
        Name::Alltoall => "All-to-All".to_owned(),
        _ => form.function.replacen("MPI_", "", 1),
    };
    let columns: &[&str] = match (form.waits(), options.full) {
        (true, false) => &["Avg Latency(us)"],
        (true, true) => &[
            "Avg Latency(us)",
            "Min Latency(us)",
            "Max Latency(us)",
            "Iterations",
        ],
        (false, _) => &["Overall(us)", "Compute(us)", "Pure Comm.(us)", "Overlap(%)"],
    };
    bench.header(&format!("{title} Latency Test"), columns);
    let blocks = form.blocks(world.size);
    let sizes = match form.shape {
        Shape::Barrier => vec![0],
        _ => bench.sizes(blocks[0] + blocks[1])?,
    };
    let is_broken = |size: &&usize| **size == 0 || !size.is_multiple_of(FLOAT);
    if let Some(size) = sizes
        .iter()
        .find(is_broken)
        .filter(|_| form.shape.reduces())
    {
        return Err(Error::everywhere(format!(
            "reductions work on floats of 4 bytes and a size of {size} is not a multiple of that; \
             choose the sizes as in -m 4:1024"
        )));
    }
    let mut all_valid = true;
    for size in sizes {
        let (function, shape) = (form.function, form.shape);
        let (waits, neighbours) = (form.waits(), form.is_neighbour());
        let mut case = Collective::new(world, function, shape, waits, size, blocks, neighbours)?;
        let fields = match waits {
            true => bench.time_calls(size, shape != Shape::Barrier, &mut case)?,
            false => bench.overlap(size, &mut case)?,
        };
        let valid = match shape {
            Shape::Barrier => None,
            _ => bench.validate(|seed| {
                form.prepare(world, &mut case, size, seed);
                let request = case.start()?;
                case.wait(world, request)?;
                Ok(form.is_right(world, &case, size, seed))
            })?,
        };
        all_valid &= valid != Some(false);
        match name {
            // OSU prints no size.
            Name::Barrier => bench.say(output::row(0, &fields, options.precision)[1..].trim()),
            _ => bench.row(size, &fields, valid),
        }
        case.free(world)?;
    }
    Ok(all_valid)
}

/// Returns a rank's float at `index` of data marked by `seed`: small whole numbers, whose sums over
/// thousands of ranks are exact.
fn float(rank: usize, seed: u8, index: usize) -> f32 {
    (rank % 16) as f32 + f32::from(pattern(seed, index) % 16)
}

/// Returns the sum of [`float`] over all ranks.
fn float_sum(ranks: usize, seed: u8, index: usize) -> f32 {
    (0..ranks).map(|rank| float(rank, seed, index)).sum()
}

impl Form {
    /// Returns whether a rank's block for each other rank is another one.
    fn is_personal(&self) -> bool {
        self.function.contains("lltoall") || self.function.contains("catter")
    }

    /// Returns the numbers of blocks that a rank sends and receives.
    fn blocks(&self, ranks: usize) -> [usize; 2] {
        let many = if self.is_neighbour() { 2 } else { ranks };
        match self.shape {
            Shape::Barrier => [0, 0],
            Shape::Bcast => [1, 0],
            shape if shape.reduces() => [1, 1],
            _ if self.function.contains("lltoall") => [many, many],
            _ if self.function.contains("catter") => [many, 1],
            _ => [1, many],
        }
    }

    /// Returns the rank whose block this rank receives as number `place`.
    fn source(&self, world: &World, place: usize) -> usize {
        match (self.is_neighbour(), place) {
            (true, 0) => (world.rank + world.size - 1) % world.size,
            (true, _) => (world.rank + 1) % world.size,
            (false, _) if self.function.contains("catter") => ROOT,
            (false, _) => place,
        }
    }

    /// Returns the mark of the block that `from` sends as number `place`.
    fn mark(&self, from: usize, place: usize, seed: u8) -> u8 {
        let place = if self.is_personal() { place } else { 0 };
        (from as u8)
            .wrapping_mul(31)
            .wrapping_add((place as u8).wrapping_mul(7))
            .wrapping_add(seed)
    }

    fn prepare(&self, world: &World, case: &mut Collective, size: usize, seed: u8) {
        case.recv.fill(255);
        if self.shape.reduces() {
            for (index, bytes) in case.send.chunks_exact_mut(FLOAT).enumerate() {
                bytes.copy_from_slice(&float(world.rank, seed, index).to_ne_bytes());
            }
            return;
        }
        for (place, block) in case.send.chunks_exact_mut(size.max(1)).enumerate() {
            match self.shape == Shape::Bcast && world.rank != ROOT {
                true => block.fill(0),
                false => fill(block, self.mark(world.rank, place, seed)),
            }
        }
    }

    fn is_right(&self, world: &World, case: &Collective, size: usize, seed: u8) -> bool {
        if self.shape == Shape::Bcast {
            return matches(&case.send, self.mark(ROOT, 0, seed));
        }
        let at_root = matches!(self.shape, Shape::Reduce | Shape::Gatherv)
            || (self.shape == Shape::Rooted && !self.is_personal());
        if at_root && world.rank != ROOT {
            return true;
        }
        if self.shape.reduces() {
            let (floats, ranks) = (size / FLOAT, world.size);
            let (first, mine) = match self.shape {
                Shape::ReduceScatter => (
                    (0..world.rank).map(|rank| share(floats, ranks, rank)).sum(),
                    share(floats, ranks, world.rank),
                ),
                _ => (0, floats),
            };
            let mut found = case.recv[..mine * FLOAT].chunks_exact(FLOAT).zip(first..);
            return found.all(|(bytes, at)| bytes == float_sum(ranks, seed, at).to_ne_bytes());
        }
        let mut blocks = case.recv.chunks_exact(size.max(1)).enumerate();
        blocks.all(|(place, block)| {
            let from = self.source(world, place);
            // A block from one side was sent to the other.
            let number = match (self.is_neighbour(), self.is_personal()) {
                (true, true) => 1 - place,
                (false, true) => world.rank,
                _ => 0,
            };
            matches(block, self.mark(from, number, seed))
        })
    }
}

impl Bench<'_> {
    /// Times each call by itself: mean, minimum and maximum over the ranks. `align` puts a barrier
    /// between calls, so that a rank that leaves early (a broadcast's root) cannot run ahead.
    fn time_calls(&self, size: usize, align: bool, case: &mut Collective) -> Result<Vec<Field>> {
        let world = self.world;
        let pause = || if align { world.barrier() } else { Ok(()) };
        let iterations = self.warm_up(size, || case.start().and_then(|_| pause()))?;
        world.barrier()?;
        let mut inside = Duration::ZERO;
        for _ in 0..iterations {
            let start = Instant::now();
            case.start()?;
            inside += start.elapsed();
            pause()?;
        }
        world.barrier()?;
        let mine = inside.as_secs_f64() * 1e6 / iterations as f64;
        let mean = world.combine(mine, Combine::Sum)? / world.size as f64;
        let mut fields = vec![Field::Number(mean)];
        let (min, max) = (
            world.combine(mine, Combine::Min)?,
            world.combine(mine, Combine::Max)?,
        );
        if self.options.full {
            fields.extend([min, max].map(Field::Number));
            fields.push(Field::Count(iterations));
        }
        Ok(fields)
    }

    /// Times call and wait with and without a computation in between.
    fn overlap(&self, size: usize, case: &mut Collective) -> Result<Vec<Field>> {
        let world = self.world;
        let iterations = self.warm_up(size, || {
            let request = case.start()?;
            case.wait(world, request)?;
            world.barrier()
        })?;
        // Mean seconds of the whole, and of the computation in it.
        let mut timed = |work: &Work| -> Result<[f64; 2]> {
            let mut inside = [Duration::ZERO; 2];
            for _ in 0..iterations {
                let start = Instant::now();
                let request = case.start()?;
                let begun = Instant::now();
                work.run();
                inside[1] += begun.elapsed();
                case.wait(world, request)?;
                inside[0] += start.elapsed();
                world.barrier()?;
            }
            let mut means = [0.0; 2];
            for (mean, time) in means.iter_mut().zip(inside) {
                let mine = time.as_secs_f64() / iterations as f64;
                *mean = world.agree(mine, Combine::Sum)? / world.size as f64;
            }
            Ok(means)
        };
        let [pure, _] = timed(&Work { rounds: 0 })?;
        let [overall, compute] = timed(&Work::lasting(pure))?;
        let hidden = 100.0 - (overall - compute) / pure * 100.0;
        let micro = 1e6;
        Ok(vec![
            Field::Number(overall * micro),
            Field::Number(compute * micro),
            Field::Number(pure * micro),
            Field::Number(hidden.clamp(0.0, 100.0)),
        ])
    }
}

/// A computation of a certain length that neither communicates nor looks at a clock.
struct Work {
    rounds: u64,
}

impl Work {
    /// Finds the number of rounds that take `seconds` seconds.
    fn lasting(seconds: f64) -> Work {
        let mut trial = Work { rounds: 64 };
        loop {
            let start = Instant::now();
            trial.run();
            let took = start.elapsed().as_secs_f64();
            if took > 20e-6 {
                let rounds = (trial.rounds as f64 * seconds / took) as u64;
                return Work { rounds };
            }
            trial.rounds *= 2;
        }
    }

    fn run(&self) {
        let mut value = 1.0f64;
        for _ in 0..self.rounds {
            value = std::hint::black_box(value * 1.000_000_1 + 1e-9);
        }
        std::hint::black_box(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn float_sums_are_exact() {
        let one_by_one: f64 = (0..4096).map(|rank| f64::from(float(rank, 3, 17))).sum();
        assert_eq!(f64::from(float_sum(4096, 3, 17)), one_by_one);
    }
}
