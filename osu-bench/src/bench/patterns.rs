//! `rma-patterns`: operations of distributed data structures at a rank that computes.
//!
//! Rank 1 computes, and calls MPI between two stretches of computing. All other ranks push to and
//! pop from queues and use a hash table there, or at random ranks. An operation that needs the
//! target's processor takes longer the longer that computes; others are flat.
//!
//! `rma-random`: accesses of all ranks at once to random places of random other ranks.

use std::time::{Duration, Instant};

use super::pt2pt::LATENCY;
use super::timing::Bench;
use crate::error::{Error, Result};
use crate::mpi::constants::BOR;
use crate::mpi::{Combine, Epochs, Window, World};
use crate::options::Options;
use crate::output::Field;

/// The rank that computes.
const HOST: usize = 1;

/// Places of a queue's counters in a rank's memory, and that of the count of ranks that are done.
const TAIL: usize = 0;
const READY: usize = 8;
const HEAD: usize = 16;
const DONE: usize = 24;
/// Slots of a queue and of a hash table: a state and a value. Counters have a page for themselves.
const FIRST: usize = 4096;
const SLOTS: usize = 1024;
const SLOT: usize = 16;

/// States of a slot in the hash table that are not 0.
const BUSY: i64 = 1;
const FULL: i64 = 2;

/// An operation on the structures of rank `target`; `number` is random.
type Operation = fn(window: &Window<'_>, target: usize, number: usize) -> Result<()>;

/// Columns: the operation, and whether it chooses a random rank.
const OPERATIONS: [(&str, Operation, bool); 8] = [
    (
        "Push",
        |window, target, _| push(window, target).map(drop),
        false,
    ),
    (
        "Push, many",
        |window, target, _| push(window, target).map(drop),
        true,
    ),
    ("Atomic push", push_atomic, false),
    ("Pop", pop, false),
    ("Pop, many", pop, true),
    ("Insert", insert, true),
    ("Find", find, true),
    ("Put, notify", notify, false),
];

/// Columns of `rma-random`.
const ACCESSES: [(&str, Operation); 7] = [
    ("Put", |window, target, number| {
        // SAFETY: the flush follows at once.
        unsafe { window.put(&42_i64.to_ne_bytes(), target, slot(number))? };
        window.flush(target)
    }),
    ("Get", |window, target, number| {
        read(window, target, slot(number)).map(drop)
    }),
    ("CAS", |window, target, number| {
        let place = slot(number);
        window.compare_and_swap(0, 0, target, place).map(drop)
    }),
    ("Persistent CAS", |window, target, number| {
        exchange(window, target, slot(number), 0, |found| Some(found + 1))
    }),
    ("Fetch and add", |window, target, number| {
        window.fetch_and_add(1, target, slot(number)).map(drop)
    }),
    ("Bloom insert", |window, target, number| {
        bloom_insert(window, target, number).map(drop)
    }),
    ("Bloom find", |window, target, number| {
        bloom_find(window, target, number).map(drop)
    }),
];

/// Returns the place of a slot.
fn slot(number: usize) -> usize {
    FIRST + number % SLOTS * SLOT
}

/// Reads the word at `place`.
fn read(window: &Window<'_>, target: usize, place: usize) -> Result<i64> {
    let mut data = [0; size_of::<i64>()];
    // SAFETY: the flush follows at once.
    unsafe { window.get(&mut data, target, place)? };
    window.flush(target)?;
    Ok(i64::from_ne_bytes(data))
}

/// Replaces a word by what `next` makes of it, until no other rank has changed it meanwhile.
/// `known` is a guess of the word; `next` returns `None` if there is nothing to do.
fn exchange(
    window: &Window<'_>,
    target: usize,
    place: usize,
    mut known: i64,
    next: impl Fn(i64) -> Option<i64>,
) -> Result<()> {
    while let Some(new) = next(known) {
        let found = window.compare_and_swap(known, new, target, place)?;
        match found == known {
            true => break,
            false => known = found,
        }
    }
    Ok(())
}

/// Returns the bits of an entry in its word of a Bloom filter: up to four.
fn bloom_bits(number: usize) -> i64 {
    let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..4).fold(0, |bits, part| bits | 1 << (hash >> (40 + 6 * part) & 63))
}

/// Adds an entry. Returns whether it was there, or seemed to be.
fn bloom_insert(window: &Window<'_>, target: usize, number: usize) -> Result<bool> {
    let bits = bloom_bits(number);
    let old = window.fetch_and_op(bits, target, slot(number), BOR)?;
    Ok(old & bits == bits)
}

/// Returns whether an entry is there, or seems to be.
fn bloom_find(window: &Window<'_>, target: usize, number: usize) -> Result<bool> {
    let bits = bloom_bits(number);
    Ok(read(window, target, slot(number))? & bits == bits)
}

/// Appends to a queue from which nobody pops meanwhile. Returns the number of the slot.
fn push(window: &Window<'_>, target: usize) -> Result<i64> {
    let number = window.fetch_and_add(1, target, TAIL)?;
    write(window, target, slot(number as usize), FULL)?;
    Ok(number)
}

/// Writes a slot, and waits for the end.
fn write(window: &Window<'_>, target: usize, place: usize, state: i64) -> Result<()> {
    let data = [state, 42].map(i64::to_ne_bytes);
    // SAFETY: the flush follows at once.
    unsafe { window.put(data.as_flattened(), target, place)? };
    window.flush(target)
}

/// Appends to a queue from which others pop: they may when the ready count has passed the slot.
fn push_atomic(window: &Window<'_>, target: usize, _: usize) -> Result<()> {
    let number = push(window, target)?;
    // Slots become ready in order; ones that were pushed otherwise count at once.
    let next = |known| (known <= number).then_some(number + 1);
    exchange(window, target, READY, number, next)
}

/// Takes a slot from a queue to which nobody pushes meanwhile.
fn pop(window: &Window<'_>, target: usize, _: usize) -> Result<()> {
    let number = window.fetch_and_add(1, target, HEAD)?;
    find(window, target, number as usize)
}

/// Sets an entry of the hash table that others may read and set at the same time.
fn insert(window: &Window<'_>, target: usize, number: usize) -> Result<()> {
    let place = slot(number);
    let mut known = FULL;
    loop {
        let found = window.compare_and_swap(known, BUSY, target, place)?;
        match found {
            found if found == known => break,
            BUSY => {}
            found => known = found,
        }
    }
    // SAFETY: the flush follows at once.
    unsafe { window.put(&42_i64.to_ne_bytes(), target, place + 8)? };
    window.flush(target)?;
    window.fetch_and_add(FULL - BUSY, target, place).map(drop)
}

/// Reads an entry: state and value by one get.
fn find(window: &Window<'_>, target: usize, number: usize) -> Result<()> {
    let mut data = [0; SLOT];
    // SAFETY: the flush follows at once.
    unsafe { window.get(&mut data, target, slot(number))? };
    window.flush(target)
}

/// Writes a value and notifies the target.
fn notify(window: &Window<'_>, target: usize, _: usize) -> Result<()> {
    // SAFETY: the flush follows at once.
    unsafe { window.put_notify(&42_i64.to_ne_bytes(), target)? };
    window.flush(target)
}

/// Runs it.
pub fn run(world: &World, options: &Options) -> Result<bool> {
    if world.size < 2 {
        return Err(Error::everywhere("the patterns need 2 ranks or more"));
    }
    let bench = Bench {
        world,
        options,
        defaults: LATENCY,
    };
    // Other libraries lack the last one.
    let lacks = usize::from(!world.can_notify());
    let operations = &OPERATIONS[..OPERATIONS.len() - lacks];
    let names: Vec<&str> = operations.iter().map(|one| one.0).collect();
    bench.say(&world.title("Data Structures at a Computing Rank"));
    bench.say("# Microseconds an operation; sizes are the microseconds that rank 1 computes between calls");
    bench.columns(&names);
    for computing in [0, 10, 100, 1000] {
        let mut row = Vec::new();
        for (_, operation, is_random) in operations {
            let load = Load::Computing(Duration::from_micros(computing as u64));
            let time = measure(world, options, load, *operation, *is_random)?;
            row.push(Field::Number(time));
        }
        bench.row(computing, &row, None);
    }
    Ok(true)
}

/// Runs `rma-random`.
pub fn random(world: &World, options: &Options) -> Result<bool> {
    if world.size < 2 {
        return Err(Error::everywhere("random accesses need 2 ranks or more"));
    }
    let bench = Bench {
        world,
        options,
        defaults: LATENCY,
    };
    check_bloom(world)?;
    bench.say(&world.title("Random Places"));
    bench.say("# Microseconds an operation; sizes are the places in a rank's memory that all others access");
    bench.columns(&ACCESSES.map(|one| one.0));
    for places in [1, 32, SLOTS] {
        let times = ACCESSES.map(|one| measure(world, options, Load::Random(places), one.1, true));
        let row: Result<Vec<Field>> = times
            .into_iter()
            .map(|time| time.map(Field::Number))
            .collect();
        bench.row(places, &row?, None);
    }
    Ok(true)
}

/// Fails if a Bloom filter lacks an entry that a rank has added.
fn check_bloom(world: &World) -> Result<()> {
    let bytes = FIRST + SLOTS * SLOT;
    let mut window = Window::allocate(world, bytes, &[])?;
    window.with_memory(|memory| memory.fill(0))?;
    world.barrier()?;
    for number in 0..64 {
        let target = (world.rank + number) % world.size;
        bloom_insert(&window, target, number)?;
        if !bloom_find(&window, target, number)? {
            return Err(Error::new(format!("the Bloom filter lacks entry {number}")));
        }
    }
    world.barrier()?;
    window.free()
}

/// The condition of a measurement.
#[derive(Clone, Copy, PartialEq)]
enum Load {
    /// Rank [`HOST`] computes for this time between two calls, and accesses nothing.
    Computing(Duration),
    /// All ranks access this number of places of each other.
    Random(usize),
}

/// Returns the mean time of an operation in microseconds.
fn measure(
    world: &World,
    options: &Options,
    load: Load,
    operation: Operation,
    is_random: bool,
) -> Result<f64> {
    const LEAST: u32 = 10;
    let budget = Duration::from_millis(options.budget.unwrap_or(50));
    let bytes = FIRST + SLOTS * SLOT;
    let mut window = Window::make(world, bytes, options.windows, Epochs::Flush, &[])?;
    if world.can_notify() {
        window.create_notify()?;
    }
    window.with_memory(|memory| memory.fill(0))?;
    world.barrier()?;
    let mut mean = 0.0;
    let ranks = world.size - usize::from(matches!(load, Load::Computing(_)));
    if let (HOST, Load::Computing(computing)) = (world.rank, load) {
        while window.fetch_and_add(0, HOST, DONE)? < world.size as i64 - 1 {
            let start = Instant::now();
            while start.elapsed() < computing {
                std::hint::spin_loop();
            }
        }
    } else {
        let (start, mut times, mut number) = (Instant::now(), 0, world.rank);
        while times < LEAST || start.elapsed() < budget {
            number = number
                .wrapping_mul(0x5851_f42d_4c95_7f2d)
                .wrapping_add(0x1405_7b7e_f767_814f);
            let other = world.rank + 1 + (number >> 33) % (world.size - 1);
            let (target, entry) = match (load, is_random) {
                (Load::Random(places), _) => {
                    let entry = number >> 40;
                    (other % world.size, entry / SLOTS * SLOTS + entry % places)
                }
                (_, true) => ((number >> 33) % world.size, number >> 40),
                (_, false) => (HOST, number >> 40),
            };
            operation(&window, target, entry)?;
            times += 1;
        }
        mean = start.elapsed().as_secs_f64() * 1e6 / f64::from(times);
        window.fetch_and_add(1, HOST, DONE)?;
    }
    world.barrier()?;
    window.free()?;
    Ok(world.agree(mean, Combine::Sum)? / ranks as f64)
}
