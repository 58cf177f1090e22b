//! Collectives with counts per rank, nonblocking ones with the overlap of communication and
//! computation, and those of neighbourhoods.
//!
//! Overlap is measured as OSU does: the time of call and wait together (pure communication); then
//! with a computation that takes as long in between; what the whole takes longer than the
//! computation is communication that was not hidden.

use std::time::{Duration, Instant};

use clap::ValueEnum as _;

use super::collective::Times;
use super::name::Name;
use super::timing::{Bench, fill, matches};
use crate::error::{Error, Result};
use crate::mpi::{Collective, Combine, Shape, World};
use crate::options::{Defaults, Options};
use crate::output::Field;

const DEFAULTS: Defaults = Defaults {
    min: 1,
    max: 1 << 20,
    iterations: [1_000, 100],
    warmup: [200, 10],
};

/// One benchmark.
struct Form {
    name: &'static str,
    function: &'static str,
    shape: Shape,
    waits: bool,
}

const fn form(name: &'static str, function: &'static str, shape: Shape) -> Form {
    let waits = name.as_bytes()[0] != b'i';
    Form {
        name,
        function,
        shape,
        waits,
    }
}

const FORMS: &[Form] = &[
    form("allgatherv", "MPI_Allgatherv", Shape::Allgatherv),
    form("alltoallv", "MPI_Alltoallv", Shape::Alltoallv),
    form("alltoallw", "MPI_Alltoallw", Shape::Alltoallw),
    form("gatherv", "MPI_Gatherv", Shape::Gatherv),
    form("scatterv", "MPI_Scatterv", Shape::Scatterv),
    form("ibarrier", "MPI_Ibarrier", Shape::Barrier),
    form("ibcast", "MPI_Ibcast", Shape::Bcast),
    form("iallgather", "MPI_Iallgather", Shape::Exchange),
    form("iallgatherv", "MPI_Iallgatherv", Shape::Allgatherv),
    form("iallreduce", "MPI_Iallreduce", Shape::Allreduce),
    form("ialltoall", "MPI_Ialltoall", Shape::Exchange),
    form("ialltoallv", "MPI_Ialltoallv", Shape::Alltoallv),
    form("ialltoallw", "MPI_Ialltoallw", Shape::Alltoallw),
    form("igather", "MPI_Igather", Shape::Rooted),
    form("igatherv", "MPI_Igatherv", Shape::Gatherv),
    form("ireduce", "MPI_Ireduce", Shape::Reduce),
    form(
        "ireduce_scatter",
        "MPI_Ireduce_scatter",
        Shape::ReduceScatter,
    ),
    form("iscatter", "MPI_Iscatter", Shape::Rooted),
    form("iscatterv", "MPI_Iscatterv", Shape::Scatterv),
    form(
        "neighbor_allgather",
        "MPI_Neighbor_allgather",
        Shape::Exchange,
    ),
    form(
        "neighbor_allgatherv",
        "MPI_Neighbor_allgatherv",
        Shape::Allgatherv,
    ),
    form(
        "neighbor_alltoall",
        "MPI_Neighbor_alltoall",
        Shape::Exchange,
    ),
    form(
        "neighbor_alltoallv",
        "MPI_Neighbor_alltoallv",
        Shape::Alltoallv,
    ),
    form(
        "neighbor_alltoallw",
        "MPI_Neighbor_alltoallw",
        Shape::NeighborAlltoallw,
    ),
    form(
        "ineighbor_allgather",
        "MPI_Ineighbor_allgather",
        Shape::Exchange,
    ),
    form(
        "ineighbor_allgatherv",
        "MPI_Ineighbor_allgatherv",
        Shape::Allgatherv,
    ),
    form(
        "ineighbor_alltoall",
        "MPI_Ineighbor_alltoall",
        Shape::Exchange,
    ),
    form(
        "ineighbor_alltoallv",
        "MPI_Ineighbor_alltoallv",
        Shape::Alltoallv,
    ),
    form(
        "ineighbor_alltoallw",
        "MPI_Ineighbor_alltoallw",
        Shape::NeighborAlltoallw,
    ),
];

/// The benchmarks of this module, for the command line: each with a line about it.
pub fn all() -> impl Iterator<Item = (Name, &'static str, String)> {
    FORMS.iter().filter_map(|form| {
        let name = Name::from_str(form.name, false).ok()?;
        let more = match (form.waits, form.is_neighbour()) {
            (true, false) => "",
            (true, true) => ", ranks in a ring",
            (false, false) => ", with the overlap of communication and computation",
            (false, true) => ", ranks in a ring, with overlap",
        };
        Some((name, form.name, format!("{}{more}", form.function)))
    })
}

impl Form {
    fn is_neighbour(&self) -> bool {
        self.name.contains("neighbor")
    }

    fn reduces(&self) -> bool {
        let reducing = [Shape::Allreduce, Shape::Reduce, Shape::ReduceScatter];
        reducing.contains(&self.shape)
    }

    /// Whether a rank's block for each other rank is another one.
    fn is_personal(&self) -> bool {
        self.name.contains("alltoall") || self.name.contains("scatter")
    }

    /// Blocks that a rank sends and receives.
    fn blocks(&self, ranks: usize) -> [usize; 2] {
        let many = if self.is_neighbour() { 2 } else { ranks };
        match self.shape {
            Shape::Barrier => [0, 0],
            Shape::Bcast => [1, 0],
            _ if self.reduces() => [1, 1],
            _ if self.name.contains("alltoall") => [many, many],
            _ if self.name.contains("scatter") => [many, 1],
            _ => [1, many],
        }
    }

    /// Which rank's block this rank receives as number `place`.
    fn source(&self, world: &World, place: usize) -> usize {
        let before = (world.rank + world.size - 1) % world.size;
        let after = (world.rank + 1) % world.size;
        match place {
            0 if self.is_neighbour() => before,
            _ if self.is_neighbour() => after,
            _ if self.name.contains("scatter") => 0,
            _ => place,
        }
    }

    /// The mark of the block that `from` sends as number `place`.
    fn mark(&self, from: usize, place: usize, seed: u8) -> u8 {
        let place = if self.is_personal() { place } else { 0 };
        (from as u8)
            .wrapping_mul(31)
            .wrapping_add((place as u8).wrapping_mul(7))
            .wrapping_add(seed)
    }

    fn prepare(&self, world: &World, case: &mut Collective, size: usize, seed: u8) {
        case.recv.fill(0);
        if self.reduces() {
            let ones = 1f32.to_ne_bytes().into_iter().cycle();
            case.send
                .iter_mut()
                .zip(ones)
                .for_each(|(to, byte)| *to = byte);
            return;
        }
        for (place, block) in case.send.chunks_exact_mut(size.max(1)).enumerate() {
            if self.shape == Shape::Bcast && world.rank != 0 {
                block.fill(0);
            } else {
                fill(block, self.mark(world.rank, place, seed));
            }
        }
    }

    fn is_right(&self, world: &World, case: &Collective, size: usize, seed: u8) -> bool {
        if self.shape == Shape::Bcast {
            return matches(&case.send, self.mark(0, 0, seed));
        }
        let at_root = matches!(self.shape, Shape::Reduce | Shape::Gatherv)
            || (self.shape == Shape::Rooted && !self.is_personal());
        if at_root && world.rank != 0 {
            return true;
        }
        if self.reduces() {
            let floats = size / size_of::<f32>();
            let mine = match self.shape {
                Shape::ReduceScatter => {
                    floats / world.size + usize::from(world.rank < floats % world.size)
                }
                _ => floats,
            };
            let sum = (world.size as f32).to_ne_bytes();
            let bytes = &case.recv[..mine * size_of::<f32>()];
            return bytes.chunks_exact(4).all(|float| float == sum);
        }
        let mut blocks = case.recv.chunks_exact(size.max(1)).enumerate();
        blocks.all(|(place, block)| {
            let from = self.source(world, place);
            // What comes from one side was sent to the other.
            let number = match (self.is_neighbour(), self.is_personal()) {
                (true, true) => 1 - place,
                (false, true) => world.rank,
                _ => 0,
            };
            matches(block, self.mark(from, number, seed))
        })
    }
}

/// Runs the benchmark of this name, if it is one of this module's.
pub fn run(name: Name, world: &World, options: &Options) -> Option<Result<bool>> {
    let text = name.text();
    let form = FORMS.iter().find(|form| form.name == text)?;
    let mut defaults = DEFAULTS;
    if form.reduces() {
        defaults.min = size_of::<f32>();
    }
    let bench = Bench {
        world,
        options,
        defaults,
    };
    Some(bench.form(form))
}

impl Bench<'_> {
    fn form(&self, form: &Form) -> Result<bool> {
        let full = self.options.full;
        let title = format!("{} Latency Test", form.function);
        let columns: &[&str] = match form.waits {
            true => Times::columns(full),
            false => &["Overall(us)", "Compute(us)", "Pure Comm.(us)", "Overlap(%)"],
        };
        self.header(&title, columns);
        let [send, recv] = form.blocks(self.world.size);
        let sizes = match form.shape {
            Shape::Barrier => vec![0],
            _ => self.sizes(send + recv)?,
        };
        let whole = sizes.iter().all(|size| size % size_of::<f32>() == 0);
        if form.reduces() && !whole {
            return Err(Error::everywhere(
                "reductions work on floats of 4 bytes; choose sizes that are multiples of 4, as in \
                 -m 4:1024",
            ));
        }
        let mut all_valid = true;
        for size in sizes {
            let mut case = Collective::new(
                self.world,
                form.function,
                form.shape,
                form.waits,
                size,
                [send, recv],
                form.is_neighbour(),
            )?;
            let fields = match form.waits {
                true => {
                    let times = self.time_calls(size, true, || case.start().map(drop))?;
                    times.fields(full)
                }
                false => self.overlap(size, &mut case)?,
            };
            let valid = match form.shape {
                Shape::Barrier => None,
                _ => self.validate(|seed| {
                    form.prepare(self.world, &mut case, size, seed);
                    let request = case.start()?;
                    case.wait(self.world, request)?;
                    Ok(form.is_right(self.world, &case, size, seed))
                })?,
            };
            all_valid &= valid != Some(false);
            self.row(size, &fields, valid);
            case.free(self.world)?;
        }
        Ok(all_valid)
    }

    fn overlap(&self, size: usize, case: &mut Collective) -> Result<Vec<Field>> {
        let world = self.world;
        let mean =
            |mine: f64| -> Result<f64> { Ok(world.agree(mine, Combine::Sum)? / world.size as f64) };
        let iterations = self.warm_up(size, || {
            let request = case.start()?;
            case.wait(world, request)?;
            world.barrier()
        })?;
        let mut inside = Duration::ZERO;
        for _ in 0..iterations {
            let start = Instant::now();
            let request = case.start()?;
            case.wait(world, request)?;
            inside += start.elapsed();
            world.barrier()?;
        }
        let pure = mean(inside.as_secs_f64() / iterations as f64)?;
        let work = Work::lasting(pure);
        let (mut inside, mut computing) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..iterations {
            let start = Instant::now();
            let request = case.start()?;
            let computed = Instant::now();
            work.run();
            computing += computed.elapsed();
            case.wait(world, request)?;
            inside += start.elapsed();
            world.barrier()?;
        }
        let overall = mean(inside.as_secs_f64() / iterations as f64)?;
        let compute = mean(computing.as_secs_f64() / iterations as f64)?;
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
                let rounds = trial.rounds as f64 * seconds / took;
                return Work {
                    rounds: rounds as u64,
                };
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
    fn every_form_is_a_name() {
        assert_eq!(all().count(), FORMS.len());
        for form in FORMS {
            assert!(form.function.to_lowercase().ends_with(form.name));
        }
    }
}
