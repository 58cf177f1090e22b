//! The collective benchmarks: which buffers each has, its call, and what must come out.

use super::collective::{Case, Times};
use super::name::Name;
use super::timing::{Bench, fill, matches, pattern};
use crate::error::{Error, Result};
use crate::mpi::World;
use crate::options::{Defaults, Options};
use crate::output::Field;
use crate::pages::Pages;

/// Defaults of data movement; reductions start at the size of a float.
const MOVING: Defaults = Defaults {
    min: 1,
    max: 1 << 20,
    iterations: [1_000, 100],
    warmup: [200, 10],
};
const REDUCING: Defaults = Defaults {
    min: size_of::<f32>(),
    ..MOVING
};

/// Runs the collective benchmark of this name.
pub fn run(name: Name, world: &World, options: &Options) -> Result<bool> {
    let moving = Bench {
        world,
        options,
        defaults: MOVING,
    };
    let reducing = Bench {
        world,
        options,
        defaults: REDUCING,
    };
    let ranks = world.size;
    if matches!(name, Name::Allreduce | Name::Reduce | Name::ReduceScatter) {
        whole_floats(&reducing)?;
    }
    match name {
        Name::Barrier => barrier(&moving),
        Name::Bcast => moving.collective("Broadcast Latency Test", 1, |size| {
            Box::new(Bcast::new(world, size))
        }),
        Name::Allreduce => reducing.collective("Allreduce Latency Test", 2, |size| {
            Box::new(Reduction::new(world, size, false))
        }),
        Name::Reduce => reducing.collective("Reduce Latency Test", 2, |size| {
            Box::new(Reduction::new(world, size, true))
        }),
        Name::ReduceScatter => reducing.collective("Reduce_scatter Latency Test", 2, |size| {
            Box::new(ReduceScatter::new(world, size))
        }),
        Name::Allgather => moving.collective("Allgather Latency Test", ranks + 1, |size| {
            Box::new(Blocks::new(world, size, Movement::Allgather))
        }),
        Name::Alltoall => moving.collective("All-to-All Latency Test", 2 * ranks, |size| {
            Box::new(Blocks::new(world, size, Movement::Alltoall))
        }),
        Name::Gather => moving.collective("Gather Latency Test", ranks + 1, |size| {
            Box::new(Blocks::new(world, size, Movement::Gather))
        }),
        Name::Scatter => moving.collective("Scatter Latency Test", ranks + 1, |size| {
            Box::new(Blocks::new(world, size, Movement::Scatter))
        }),
        other => Err(Error::everywhere(format!(
            "{} is not a collective benchmark",
            other.text()
        ))),
    }
}

/// Sizes of reductions are bytes of whole floats.
fn whole_floats(bench: &Bench<'_>) -> Result<()> {
    let sizes = bench.options.sizes(&bench.defaults);
    match sizes
        .iter()
        .find(|&&size| size == 0 || size % size_of::<f32>() != 0)
    {
        None => Ok(()),
        Some(size) => Err(Error::everywhere(format!(
            "reductions work on floats of 4 bytes and a size of {size} is not a multiple of \
             that; choose the sizes as in -m 4:1024"
        ))),
    }
}

fn barrier(bench: &Bench<'_>) -> Result<bool> {
    let full = bench.options.full;
    bench.say(&bench.world.title("Barrier Latency Test"));
    let precision = usize::from(bench.options.precision);
    let columns = Times::columns(full);
    bench.say(&format!("# {}", columns.join("   ")));
    let times = bench.time_calls(0, false, || bench.world.barrier())?;
    let line: Vec<String> = times
        .fields(full)
        .iter()
        .map(|field| match field {
            Field::Number(value) => format!("{value:>17.precision$}"),
            Field::Count(count) => format!("{count:>12}"),
            Field::Valid(valid) => format!("{valid:>12}"),
        })
        .collect();
    bench.say(&line.join(" "));
    Ok(true)
}

/// The root of rooted collectives.
const ROOT: usize = 0;

struct Bcast<'a> {
    world: &'a World,
    data: Pages<u8>,
}

impl<'a> Bcast<'a> {
    fn new(world: &'a World, size: usize) -> Self {
        Self {
            world,
            data: Pages::of(1, size),
        }
    }
}

impl Case for Bcast<'_> {
    fn step(&mut self) -> Result<()> {
        self.world.bcast(&mut self.data, ROOT)
    }

    fn prepare(&mut self, seed: u8) {
        if self.world.rank == ROOT {
            fill(&mut self.data, seed);
        } else {
            self.data.fill(0);
        }
    }

    fn right(&self, seed: u8) -> bool {
        matches(&self.data, seed)
    }
}

/// A rank's float at `index` of data marked by `seed`: small whole numbers, whose sums over
/// thousands of ranks are exact.
fn float(rank: usize, seed: u8, index: usize) -> f32 {
    (rank % 16) as f32 + f32::from(pattern(seed, index) % 16)
}

/// The sum of [`float`] over all ranks.
fn float_sum(ranks: usize, seed: u8, index: usize) -> f32 {
    (0..ranks).map(|rank| float(rank, seed, index)).sum()
}

/// `allreduce` and `reduce`.
struct Reduction<'a> {
    world: &'a World,
    send: Pages<f32>,
    receive: Pages<f32>,
    rooted: bool,
}

impl<'a> Reduction<'a> {
    fn new(world: &'a World, size: usize, rooted: bool) -> Self {
        let floats = size / size_of::<f32>();
        Self {
            world,
            send: Pages::of(1.0, floats),
            receive: Pages::of(0.0, floats),
            rooted,
        }
    }
}

impl Case for Reduction<'_> {
    fn step(&mut self) -> Result<()> {
        if self.rooted {
            self.world.reduce(&self.send, &mut self.receive, ROOT)
        } else {
            self.world.allreduce(&self.send, &mut self.receive)
        }
    }

    fn prepare(&mut self, seed: u8) {
        for (index, value) in self.send.iter_mut().enumerate() {
            *value = float(self.world.rank, seed, index);
        }
        self.receive.fill(-1.0);
    }

    fn right(&self, seed: u8) -> bool {
        let ranks = self.world.size;
        let mut values = self.receive.iter().enumerate();
        (self.rooted && self.world.rank != ROOT)
            || values.all(|(index, &value)| value == float_sum(ranks, seed, index))
    }
}

/// `reduce_scatter`: the size is that of the whole vector, split as evenly as it goes.
struct ReduceScatter<'a> {
    world: &'a World,
    send: Pages<f32>,
    receive: Pages<f32>,
    counts: Vec<i32>,
    start: usize,
}

/// How many of `total` items each of `ranks` gets; the first ones get one more.
fn split(total: usize, ranks: usize) -> Vec<i32> {
    let share = |rank| total / ranks + usize::from(rank < total % ranks);
    (0..ranks)
        .map(|rank| i32::try_from(share(rank)).unwrap_or(i32::MAX))
        .collect()
}

impl<'a> ReduceScatter<'a> {
    fn new(world: &'a World, size: usize) -> Self {
        let floats = size / size_of::<f32>();
        let counts = split(floats, world.size);
        let start = counts[..world.rank].iter().map(|&n| n as usize).sum();
        let mine = counts[world.rank] as usize;
        Self {
            world,
            send: Pages::of(1.0, floats),
            receive: Pages::of(0.0, mine),
            counts,
            start,
        }
    }
}

impl Case for ReduceScatter<'_> {
    fn step(&mut self) -> Result<()> {
        self.world
            .reduce_scatter(&self.send, &mut self.receive, &self.counts)
    }

    fn prepare(&mut self, seed: u8) {
        for (index, value) in self.send.iter_mut().enumerate() {
            *value = float(self.world.rank, seed, index);
        }
        self.receive.fill(-1.0);
    }

    fn right(&self, seed: u8) -> bool {
        let ranks = self.world.size;
        let mut values = self.receive.iter().enumerate();
        values.all(|(index, &value)| value == float_sum(ranks, seed, self.start + index))
    }
}

/// A collective that moves one block per rank.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Movement {
    Allgather,
    Alltoall,
    Gather,
    Scatter,
}

struct Blocks<'a> {
    world: &'a World,
    movement: Movement,
    size: usize,
    send: Pages<u8>,
    receive: Pages<u8>,
}

impl<'a> Blocks<'a> {
    fn new(world: &'a World, size: usize, movement: Movement) -> Self {
        let root = world.rank == ROOT;
        let many = size * world.size;
        let (send, receive) = match movement {
            Movement::Allgather => (size, many),
            Movement::Alltoall => (many, many),
            Movement::Gather => (size, if root { many } else { 0 }),
            Movement::Scatter => (if root { many } else { 0 }, size),
        };
        Self {
            world,
            movement,
            size,
            send: Pages::of(1, send),
            receive: Pages::of(0, receive),
        }
    }

    /// The mark of the block that `from` sends to `to`; collectives that send one block to all
    /// use the same mark for every `to`.
    fn mark(&self, from: usize, to: usize, seed: u8) -> u8 {
        let to = match self.movement {
            Movement::Allgather | Movement::Gather => 0,
            Movement::Alltoall | Movement::Scatter => to,
        };
        (from as u8)
            .wrapping_mul(31)
            .wrapping_add((to as u8).wrapping_mul(7))
            .wrapping_add(seed)
    }
}

impl Case for Blocks<'_> {
    fn step(&mut self) -> Result<()> {
        match self.movement {
            Movement::Allgather => self.world.allgather(&self.send, &mut self.receive),
            Movement::Alltoall => self.world.alltoall(&self.send, &mut self.receive),
            Movement::Gather => self.world.gather(&self.send, &mut self.receive, ROOT),
            Movement::Scatter => self.world.scatter(&self.send, &mut self.receive, ROOT),
        }
    }

    fn prepare(&mut self, seed: u8) {
        let marks: Vec<u8> = (0..self.world.size)
            .map(|to| self.mark(self.world.rank, to, seed))
            .collect();
        for (block, mark) in self.send.chunks_exact_mut(self.size.max(1)).zip(marks) {
            fill(block, mark);
        }
        self.receive.fill(0);
    }

    fn right(&self, seed: u8) -> bool {
        let mut blocks = self.receive.chunks_exact(self.size.max(1)).enumerate();
        blocks.all(|(place, block)| {
            let from = if self.movement == Movement::Scatter {
                ROOT
            } else {
                place
            };
            matches(block, self.mark(from, self.world.rank, seed))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_are_even_and_whole() {
        assert_eq!(split(7, 3), [3, 2, 2]);
        assert_eq!(split(1, 3), [1, 0, 0]);
        assert_eq!(split(0, 2), [0, 0]);
    }

    #[test]
    fn float_sums_are_exact() {
        let one_by_one: f64 = (0..4096).map(|rank| f64::from(float(rank, 3, 17))).sum();
        assert_eq!(f64::from(float_sum(4096, 3, 17)), one_by_one);
    }
}
