//! Partitioned communication beside what it replaces: threads that send a part of the data each, by
//! a message on a communicator of their own.

use std::sync::Barrier;
use std::time::Duration;

use super::timing::Bench;
use crate::error::{Error, Result};
use crate::mpi::{Combine, Partitioned, World};
use crate::options::{Defaults, Options};
use crate::output::Field;
use crate::together::{self, ended};

/// Partitions of a message.
const PARTITIONS: usize = 64;
/// Defaults of this benchmark: sizes of a partition.
const DEFAULTS: Defaults = Defaults {
    min: 64,
    max: 1 << 16,
    iterations: [500, 100],
    warmup: [20, 5],
};

/// Runs rounds of all threads: `before` in the first thread, `part` in each, `after` in the first.
fn rounds(
    threads: usize,
    count: u64,
    world: &World,
    before: &(dyn Fn() -> Result<()> + Sync),
    part: &(dyn Fn(usize) -> Result<()> + Sync),
    after: &(dyn Fn() -> Result<()> + Sync),
) -> Result<Duration> {
    let line = Barrier::new(threads);
    let mut threads: Vec<_> = (0..threads).map(|thread| (thread, world)).collect();
    let first = |thread: usize, call: &(dyn Fn() -> Result<()> + Sync)| match thread {
        0 => call(),
        _ => Ok(()),
    };
    together::run(
        &mut threads,
        |(_, world)| world,
        |&mut (thread, _)| {
            (0..count).try_for_each(|_| {
                first(thread, before)?;
                line.wait();
                part(thread)?;
                line.wait();
                first(thread, after)
            })
        },
    )
}

/// `partitioned`: the time until a message of 64 partitions, which threads mark ready, is there and
/// acknowledged; and that of a message by each of the threads.
pub fn latency(world: &World, options: &Options) -> Result<bool> {
    let threads = usize::from(options.threads);
    if world.size != 2 || !PARTITIONS.is_multiple_of(threads) {
        return Err(Error::everywhere(format!(
            "partitioned needs 2 ranks and a number of threads that divides {PARTITIONS}"
        )));
    }
    let bench = Bench {
        world,
        options,
        defaults: DEFAULTS,
    };
    let (sends, peer) = (world.rank == 0, 1 - world.rank);
    bench.say(&world.title("Partitioned Communication Test"));
    bench.say(&format!(
        "# [ partitions: {PARTITIONS} ] [ threads: {threads} ] [ size: of a partition ]"
    ));
    bench.columns(&["us", "Isend us", "Ratio"]);
    let hints = |count: usize| {
        vec![
            (c"weft_num_vcis", count.to_string()),
            (c"mpi_assert_no_any_tag", "true".to_owned()),
        ]
    };
    let together = world.duplicate_with(&hints(threads))?;
    let own: Vec<World> = (0..threads)
        .map(|_| world.duplicate_with(&hints(1)))
        .collect::<Result<_>>()?;
    let acknowledge = || match sends {
        true => world.recv(&mut [0u8; 1], peer, 9),
        false => world.send(&[0u8; 1], peer, 9),
    };
    for size in bench.sizes(4 * PARTITIONS)? {
        let message = Partitioned::new(&together, sends, PARTITIONS, size, peer)?;
        let each = PARTITIONS / threads;
        let partitioned = |count: u64| {
            let mark = |thread: usize| match sends {
                true => (thread * each..(thread + 1) * each).try_for_each(|one| message.ready(one)),
                false => Ok(()),
            };
            let after = || message.wait().and_then(|()| acknowledge());
            // The receiver marks nothing.
            let threads = if sends { threads } else { 1 };
            rounds(threads, count, world, &|| message.start(), &mark, &after)
        };
        let iterations = bench.warm_up_batches(size, |n| partitioned(n).map(drop))?;
        let length = each * size;
        let parts: Vec<std::sync::Mutex<Vec<u8>>> = (0..threads)
            .map(|_| std::sync::Mutex::new(vec![1u8; length]))
            .collect();
        let begin = |thread: usize| {
            let lane = &own[thread];
            let mut data = parts[thread].lock().map_err(|_| ended())?;
            // SAFETY: the memory stays, and is not touched, until the wait that follows.
            unsafe {
                match sends {
                    true => lane.isend(data.as_ptr(), length, peer, thread as i32),
                    false => lane.irecv(data.as_mut_ptr(), length, peer, thread as i32),
                }
            }
        };
        let separate = |count: u64| {
            let part = |thread: usize| match sends {
                true => world.waitall(&mut [begin(thread)?]),
                // One thread takes all, as it does of partitions.
                false => {
                    let all: Result<Vec<_>> = (0..threads).map(begin).collect();
                    world.waitall(&mut all?)
                }
            };
            let workers = if sends { threads } else { 1 };
            rounds(workers, count, world, &|| Ok(()), &part, &acknowledge)
        };
        separate(iterations / 10 + 1)?;
        // The best of several turns: what disturbs one of them disturbs no comparison.
        let mut best = [f64::INFINITY; 2];
        for _ in 0..5 {
            world.barrier()?;
            let one = partitioned(iterations / 5 + 1)?;
            world.barrier()?;
            let other = separate(iterations / 5 + 1)?;
            for (best, time) in best.iter_mut().zip([one, other]) {
                let each = time.as_secs_f64() * 1e6 / (iterations / 5 + 1) as f64;
                *best = best.min(world.agree(each, Combine::Max)?);
            }
        }
        message.free()?;
        let fields = [best[0], best[1], best[0] / best[1]].map(Field::Number);
        bench.row(size, &fields, None);
    }
    own.into_iter().try_for_each(World::free)?;
    together.free()?;
    Ok(true)
}
