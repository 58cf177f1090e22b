//! `rma-sort`: a bucket sort as in ISx, by atomics and puts, and by messages.
//!
//! Each rank has random keys. It collects those of another rank's range, claims a place in that rank's memory by a
//! fetch-and-add, and puts them there; each rank then sorts its range. By messages all keys are collected and travel in
//! one `MPI_Alltoallv`.

use std::time::{Duration, Instant};

use super::pt2pt::LATENCY;
use super::timing::Bench;
use crate::error::{Error, Result};
use crate::mpi::{Combine, Window, World};
use crate::options::Options;
use crate::output::Field;

/// Keys of each rank.
const KEYS: usize = 1 << 14;
const KEY: usize = size_of::<u64>();
/// First byte of the keys in a rank's memory; their count is before them.
const FIRST: usize = 4096;
/// Bytes of a rank's memory: more than twice the keys that it gets on average.
const BYTES: usize = FIRST + 3 * KEYS * KEY;
/// Measurements, of which the shortest counts.
const ROUNDS: usize = 3;

/// Runs it.
pub fn run(world: &World, options: &Options) -> Result<bool> {
    let bench = Bench {
        world,
        options,
        defaults: LATENCY,
    };
    bench.say(&world.title("Bucket Sort"));
    bench.say(&format!(
        "# {KEYS} keys of 8 bytes a rank; sizes are keys a put"
    ));
    bench.columns(&["Microseconds", "Million keys/s", "By messages"]);
    let rate = |batch: Option<usize>| -> Result<(f64, f64)> {
        let mut least = f64::INFINITY;
        for round in 0..ROUNDS {
            let took = sort(world, batch, round)?.as_secs_f64();
            least = least.min(world.agree(took, Combine::Max)?);
        }
        Ok((least * 1e6, (world.size * KEYS) as f64 / least / 1e6))
    };
    for batch in [1, 16, 64, 256, 1024, 4096] {
        let ((time, puts), (_, messages)) = (rate(Some(batch))?, rate(None)?);
        bench.row(batch, &[time, puts, messages].map(Field::Number), None);
    }
    Ok(true)
}

/// Sorts once, by puts of `batch` keys or by messages, and returns the time of this rank. Fails if keys are lost or out
/// of order.
fn sort(world: &World, batch: Option<usize>, round: usize) -> Result<Duration> {
    let mut window = Window::allocate(world, BYTES, &[])?;
    window.with_memory(|memory| memory[..FIRST].fill(0))?;
    // Far apart, so that ranks don't have the same keys.
    let mut number = ((world.rank * ROUNDS + round) as u64) << 32;
    let keys: Vec<u64> = (0..KEYS).map(|_| random(&mut number)).collect();
    let full = batch.map_or(usize::MAX, |keys| keys * KEY);
    let room = full.min(2 * KEYS * KEY / world.size);
    let mut buckets = vec![Vec::with_capacity(room); world.size];
    world.barrier()?;
    let start = Instant::now();
    for &key in &keys {
        let owner = owner(key, world.size);
        buckets[owner].extend(key.to_ne_bytes());
        if buckets[owner].len() == full {
            send(&window, owner, &mut buckets[owner])?;
        }
    }
    let mut sorted: Vec<u64> = if batch.is_some() {
        for (owner, bucket) in buckets.iter_mut().enumerate() {
            send(&window, owner, bucket)?;
        }
        world.barrier()?;
        window.with_memory(|memory| {
            let count = word(&memory[..KEY]) as usize;
            let keys = memory[FIRST..].chunks_exact(KEY).take(count);
            keys.map(word).collect()
        })?
    } else {
        let came = world.exchange(&buckets)?;
        came.chunks_exact(KEY).map(word).collect()
    };
    sorted.sort_unstable();
    world.barrier()?;
    let took = start.elapsed();
    let is_own = sorted
        .iter()
        .all(|key| owner(*key, world.size) == world.rank);
    // Low bits, whose sums are exact as floats.
    let sum = |keys: &[u64]| keys.iter().map(|key| (key & 0xf_ffff) as f64).sum();
    let sent = world.agree(sum(&keys), Combine::Sum)?;
    let is_same = sent == world.agree(sum(&sorted), Combine::Sum)?;
    let total = world.agree(sorted.len() as f64, Combine::Sum)?;
    window.free()?;
    match is_own && is_same && total == (world.size * KEYS) as f64 {
        true => Ok(took),
        false => Err(Error::new("the sorted keys are not those of the ranks")),
    }
}

/// Claims a place at the owner of the keys, puts them there, and empties the bucket.
fn send(window: &Window<'_>, owner: usize, bucket: &mut Vec<u8>) -> Result<()> {
    if bucket.is_empty() {
        return Ok(());
    }
    let place = window.fetch_and_add((bucket.len() / KEY) as i64, owner, 0)?;
    // SAFETY: the flush follows at once.
    unsafe { window.put(bucket, owner, FIRST + place as usize * KEY)? };
    window.flush(owner)?;
    bucket.clear();
    Ok(())
}

fn word(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_ne_bytes)
}

/// Returns the rank to whose range a key belongs.
fn owner(key: u64, ranks: usize) -> usize {
    ((u128::from(key) * ranks as u128) >> 64) as usize
}

/// Returns the next key (SplitMix64).
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
