//! `writes`: barriers, broadcasts and allreduces by writes to remote memory beside the same by messages.
//!
//! Algorithms differ by the hint `weft_coll` of their communicators, and take turns, so that noise meets all of them.
//! Trees of an allreduce run by writes, and by messages of this program: the ratio of both is the mechanism's part
//! of a gain, the rest is the algorithm's. Ranks of one node communicate by a network only with `WEFT_SHM=0`.

use std::time::Instant;

use super::timing::Bench;
use crate::error::{Error, Result};
use crate::mpi::{Collective, Combine, Shape, World};
use crate::options::{Defaults, Options};

/// Measurements of each algorithm, of which the median counts.
const TURNS: usize = 9;

/// Bytes of a block of broadcasts: those of figures 5.11 and 5.12 of Gupta's thesis.
const BLOCKS: [usize; 4] = [1025, 2049, 3073, 4097];

/// Degrees of trees.
const DEGREES: [usize; 4] = [1, 3, 7, 15];

const FLOAT: usize = size_of::<f32>();
const ROOT: usize = 0;
const TAG: i32 = 1;

/// Runs it.
pub fn run(world: &World, options: &Options) -> Result<bool> {
    if world.size < 2 {
        return Err(Error::everywhere(
            "a comparison of collectives needs 2 ranks or more",
        ));
    }
    let bench = Bench {
        world,
        options,
        defaults: Defaults {
            min: FLOAT,
            max: 4096,
            iterations: [200, 50],
            warmup: [20, 5],
        },
    };
    let sizes = match (&options.sizes[..], options.range) {
        ([], None) => vec![4, 128, 1024, 4096],
        _ => bench.sizes(2)?,
    };
    if let Some(size) = sizes.iter().find(|size| **size == 0 || **size % FLOAT != 0) {
        return Err(Error::everywhere(format!(
            "a size of {size} is not a number of floats; choose multiples of 4"
        )));
    }
    bench.say(&world.title("Writes and Messages"));
    bench.say(&format!(
        "# {} ranks, microseconds, medians of {TURNS}",
        world.size
    ));
    barrier(&bench)?;
    for &size in &sizes {
        bcast(&bench, size)?;
    }
    if options.blocks {
        return Ok(true);
    }
    for &size in &sizes {
        allreduce(&bench, size)?;
    }
    Ok(true)
}

/// A function to measure.
type Step<'a> = Box<dyn FnMut() -> Result<()> + 'a>;

/// Returns the median times of steps that take turns, in microseconds, at the slowest rank or at the root.
fn turns(bench: &Bench<'_>, size: usize, steps: &mut [Step<'_>]) -> Result<Vec<f64>> {
    let world = bench.world;
    let mut times = vec![Vec::new(); steps.len()];
    let mut counts = Vec::new();
    for step in steps.iter_mut() {
        counts.push((bench.warm_up(size, step)? / TURNS as u64).max(1));
    }
    for _ in 0..TURNS {
        for ((step, times), count) in steps.iter_mut().zip(&mut times).zip(&counts) {
            world.barrier()?;
            let start = Instant::now();
            (0..*count).try_for_each(|_| step())?;
            let took = start.elapsed().as_secs_f64() * 1e6 / *count as f64;
            times.push(world.agree(took, Combine::Max)?);
        }
    }
    let median = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[TURNS / 2]
    };
    Ok(times.into_iter().map(median).collect())
}

/// Duplicates the communicator with this choice of algorithms.
fn choosing(world: &World, choice: &str) -> Result<World> {
    world.duplicate_with(&[(c"weft_coll", choice.to_owned())])
}

/// Compares collectives of two communicators, one by messages and one by writes.
fn barrier(bench: &Bench<'_>) -> Result<()> {
    let worlds = ["rdma=off", "barrier=rdma"].map(|choice| choosing(bench.world, choice));
    let [messages, writes] = worlds;
    let (messages, writes) = (messages?, writes?);
    let mut steps: [Step<'_>; 2] = [
        Box::new(|| messages.barrier()),
        Box::new(|| writes.barrier()),
    ];
    let times = turns(bench, 0, &mut steps)?;
    drop(steps);
    bench.say(&format!(
        "barrier: messages {:.2}, writes {:.2}, ratio {:.2}",
        times[0],
        times[1],
        times[1] / times[0]
    ));
    messages.free()?;
    writes.free()
}

/// Compares broadcasts, each with an empty answer of the last leaf, whose time is subtracted.
fn bcast(bench: &Bench<'_>, size: usize) -> Result<()> {
    let world = bench.world;
    let last = world.size - 1;
    let answer = || match world.rank {
        ROOT => world.recv(&mut [], last, TAG),
        rank if rank == last => world.send(&[], ROOT, TAG),
        _ => Ok(()),
    };
    let round = || match world.rank {
        ROOT => world.send(&[], last, TAG).and_then(|()| answer()),
        rank if rank == last => world.recv(&mut [], ROOT, TAG).and_then(|()| answer()),
        _ => Ok(()),
    };
    let blocks: &[usize] = if bench.options.blocks { &BLOCKS } else { &[] };
    let mut worlds = vec![
        choosing(world, "rdma=off")?,
        choosing(world, "bcast=rdma-binomial")?,
    ];
    for block in blocks {
        worlds.push(choosing(world, &format!("bcast=rdma-binomial:{block}"))?);
    }
    let mut steps: Vec<Step<'_>> = vec![Box::new(round)];
    for one in &worlds {
        let mut call = Collective::new(one, "MPI_Bcast", Shape::Bcast, true, size, [1, 0], false)?;
        steps.push(Box::new(move || call.start().and_then(|_| answer())));
    }
    let times = turns(bench, size, &mut steps)?;
    drop(steps);
    let net: Vec<f64> = times[1..]
        .iter()
        .map(|time| time - times[0] / 2.0)
        .collect();
    let each = blocks.iter().zip(&net[2..]);
    let each = each.map(|(block, time)| format!(", blocks of {block} B {time:.2}"));
    bench.say(&format!(
        "bcast {size} B: messages {:.2}, writes {:.2}, ratio {:.2}{}",
        net[0],
        net[1],
        net[1] / net[0],
        each.collect::<String>()
    ));
    worlds.into_iter().try_for_each(World::free)
}

/// Compares allreduces: the library's by messages, between pairs, and by trees of each degree.
fn allreduce(bench: &Bench<'_>, size: usize) -> Result<()> {
    let world = bench.world;
    let useful = |k: &&usize| **k == 1 || **k < world.size;
    let degrees: Vec<usize> = DEGREES.iter().filter(useful).copied().collect();
    check_tree(world, &degrees)?;
    let mut worlds = vec![
        choosing(world, "rdma=off")?,
        choosing(world, "allreduce=rdma-pairs")?,
    ];
    for k in &degrees {
        worlds.push(choosing(world, &format!("allreduce=rdma-tree:{k}:{k}"))?);
    }
    let mut steps: Vec<Step<'_>> = Vec::new();
    for one in &worlds {
        let shape = Shape::Allreduce;
        let mut call = Collective::new(one, "MPI_Allreduce", shape, true, size, [1, 1], false)?;
        steps.push(Box::new(move || call.start().map(drop)));
    }
    for &k in &degrees {
        // Zeros, whose sums don't grow.
        let (mut sum, mut other) = (vec![0; size], vec![0; size]);
        steps.push(Box::new(move || tree(world, k, &mut sum, &mut other)));
    }
    let times = turns(bench, size, &mut steps)?;
    drop(steps);
    let (messages, pairs) = (times[0], times[1]);
    let (writes, own) = times[2..].split_at(degrees.len());
    let trees = degrees.iter().zip(writes.iter().zip(own));
    let best = trees.clone().min_by(|one, two| one.1.0.total_cmp(two.1.0));
    let each = trees.map(|(k, (writes, own))| format!("{k}: {writes:.2} ({own:.2})"));
    let each: Vec<String> = each.collect();
    let best = best.map_or(String::new(), |(k, (writes, own))| {
        format!(
            "; degree {k} is {:.2} of messages, {:.2} of its own messages",
            writes / messages,
            writes / own
        )
    });
    bench.say(&format!(
        "allreduce {size} B: messages {messages:.2}, pairs {pairs:.2}, degree by writes (by messages) {}{best}",
        each.join(", ")
    ));
    worlds.into_iter().try_for_each(World::free)
}

/// An allreduce of floats by messages: up a tree of degree `k` to rank 0, and down again.
fn tree(world: &World, k: usize, sum: &mut [u8], other: &mut [u8]) -> Result<()> {
    let (rank, size) = (world.rank, world.size);
    let mut step = 1;
    // Up to the step in which this rank is a child, if it isn't the root.
    while step < size && rank.is_multiple_of(step * (k + 1)) {
        for child in children(rank, size, k, step) {
            world.recv(other, child, TAG)?;
            for (to, from) in sum.chunks_exact_mut(FLOAT).zip(other.chunks_exact(FLOAT)) {
                to.copy_from_slice(&(float(to) + float(from)).to_ne_bytes());
            }
        }
        step *= k + 1;
    }
    if rank != 0 {
        let parent = rank - rank % (step * (k + 1));
        world.send(sum, parent, TAG)?;
        world.recv(sum, parent, TAG)?;
    }
    while step > 1 {
        step /= k + 1;
        for child in children(rank, size, k, step) {
            world.send(sum, child, TAG)?;
        }
    }
    Ok(())
}

/// Returns the children of a rank in a step of a tree of degree `k`.
fn children(rank: usize, size: usize, k: usize, step: usize) -> impl Iterator<Item = usize> {
    let all = (1..=k).map(move |number| rank + number * step);
    all.take_while(move |child| *child < size)
}

fn float(bytes: &[u8]) -> f32 {
    bytes.try_into().map_or(0.0, f32::from_ne_bytes)
}

/// Fails if a tree by messages computes another sum than that of the ranks.
fn check_tree(world: &World, degrees: &[usize]) -> Result<()> {
    let ranks = world.size as f32;
    let (mine, expected) = (world.rank as f32, ranks * (ranks - 1.0) / 2.0);
    for &k in degrees {
        let mut sum = mine.to_ne_bytes();
        tree(world, k, &mut sum, &mut [0; FLOAT])?;
        let found = f32::from_ne_bytes(sum);
        if found != expected {
            return Err(Error::new(format!(
                "a tree of degree {k} computed {found} in place of {expected}"
            )));
        }
    }
    Ok(())
}
