//! Packing against hand-written loops, alternating in one run.
//!
//! `cargo run --release -p mpi-types --example pack`. Each line gives the best time of either side and the
//! ratio of speeds (above 1: the datatype is faster than the loop).

use std::hint::black_box;
use std::time::Instant;

use mpi_types::datatype::{Datatype, Order, Predefined};

const ROUNDS: usize = 40;

/// The best time in nanoseconds of each of two functions that take turns.
fn alternate(mut a: impl FnMut(), mut b: impl FnMut()) -> (f64, f64) {
    // As many calls per turn as take about a millisecond.
    let start = Instant::now();
    a();
    b();
    let calls = (1_000_000 / (start.elapsed().as_nanos() as usize + 1)).clamp(1, 10_000);
    let mut best = (f64::MAX, f64::MAX);
    for _ in 0..ROUNDS {
        for (function, best) in [
            (&mut a as &mut dyn FnMut(), &mut best.0),
            (&mut b as &mut dyn FnMut(), &mut best.1),
        ] {
            let start = Instant::now();
            for _ in 0..calls {
                function();
            }
            *best = best.min(start.elapsed().as_nanos() as f64 / calls as f64);
        }
    }
    best
}

/// Doubles in a page.
const PAGE: usize = 512;

fn aligned(buffer: &mut [f64], doubles: usize) -> &mut [f64] {
    let offset = buffer.as_ptr().align_offset(8 * PAGE);
    &mut buffer[offset..offset + doubles]
}

fn compare(name: &str, datatype: &Datatype, source: &[f64], by_hand: impl Fn(&[f64], &mut [f64])) {
    datatype.commit();
    let doubles = datatype.size() / 8;
    // Both at the same place in a page, which matters to the caches.
    let (mut ours, mut theirs) = (vec![0.0f64; doubles + PAGE], vec![0.0f64; doubles + PAGE]);
    let (ours, theirs) = (aligned(&mut ours, doubles), aligned(&mut theirs, doubles));
    let pack = || {
        let base = black_box(source).as_ptr().cast();
        let out = black_box(&mut ours[..]);
        // SAFETY: as many bytes as the doubles have.
        let out = unsafe { std::slice::from_raw_parts_mut(out.as_mut_ptr().cast(), 8 * doubles) };
        // SAFETY: the type describes a part of `source`.
        unsafe { datatype.pack(base, 1, 0, out) };
    };
    let hand = || by_hand(black_box(source), black_box(&mut theirs[..]));
    let packing = alternate(pack, hand);
    assert_eq!(ours, theirs);

    let mut target = source.to_vec();
    let unpack = || {
        let data = black_box(&ours[..]);
        // SAFETY: as many bytes as the doubles have.
        let data = unsafe { std::slice::from_raw_parts(data.as_ptr().cast(), 8 * doubles) };
        let base = black_box(&mut target[..]).as_mut_ptr().cast();
        // SAFETY: the type describes a part of `target`.
        unsafe { datatype.unpack(base, 1, 0, data) };
    };
    let hand = || by_hand(black_box(source), black_box(&mut theirs[..]));
    let unpacking = alternate(unpack, hand);
    println!(
        "{name:34} pack {:9.0} ns, loop {:9.0} ns, ratio {:4.2}; unpack {:9.0} ns, ratio to the \
         packing loop {:4.2}",
        packing.0,
        packing.1,
        packing.1 / packing.0,
        unpacking.0,
        unpacking.1 / unpacking.0,
    );
}

/// The hand-written loop for blocks of a constant number of doubles.
fn vector_by_hand<const BLOCK: usize>(source: &[f64], out: &mut [f64]) {
    for (to, from) in out.chunks_exact_mut(BLOCK).zip(source.chunks(2 * BLOCK)) {
        to.copy_from_slice(&from[..BLOCK]);
    }
}

fn main() {
    let double = Datatype::predefined(Predefined::Double);
    let source: Vec<f64> = (0..1 << 21).map(f64::from).collect();
    for total in [64i64, 1024, 32 * 1024, 1 << 20] {
        let vector = |block: i64| double.vector(total / block, block, 2 * block).unwrap();
        let name = |block| format!("vector of {total}, blocks of {block}");
        compare(&name(1), &vector(1), &source, vector_by_hand::<1>);
        compare(&name(2), &vector(2), &source, vector_by_hand::<2>);
        compare(&name(8), &vector(8), &source, vector_by_hand::<8>);
        compare(&name(64), &vector(64), &source, vector_by_hand::<64>);
    }
    const N: usize = 128;
    let n = N as i64;
    let face = |sub: [i64; 3], start: [i64; 3]| double.subarray(&[n; 3], &sub, &start, Order::C);
    compare(
        "face i = 5 of 128^3",
        &face([1, n, n], [5, 0, 0]).unwrap(),
        &source,
        |from, to| {
            to.copy_from_slice(&from[5 * N * N..6 * N * N]);
        },
    );
    compare(
        "face j = 5 of 128^3",
        &face([n, 1, n], [0, 5, 0]).unwrap(),
        &source,
        |from, to| {
            for i in 0..N {
                for k in 0..N {
                    to[i * N + k] = from[(i * N + 5) * N + k];
                }
            }
        },
    );
    compare(
        "face k = 5 of 128^3",
        &face([n, n, 1], [0, 0, 5]).unwrap(),
        &source,
        |from, to| {
            for i in 0..N {
                for j in 0..N {
                    to[i * N + j] = from[(i * N + j) * N + 5];
                }
            }
        },
    );
    let inner = face([n - 2, n - 2, 1], [1, 1, 1]).unwrap();
    compare("inner face k = 1 of 128^3", &inner, &source, |from, to| {
        for i in 1..N - 1 {
            for j in 1..N - 1 {
                to[(i - 1) * (N - 2) + j - 1] = from[(i * N + j) * N + 1];
            }
        }
    });
    let inner = face([n - 2, n - 2, 2], [1, 1, 1]).unwrap();
    compare(
        "inner face k = 1, 2 of 128^3",
        &inner,
        &source,
        |from, to| {
            for i in 1..N - 1 {
                for j in 1..N - 1 {
                    for k in 0..2 {
                        to[((i - 1) * (N - 2) + j - 1) * 2 + k] = from[(i * N + j) * N + 1 + k];
                    }
                }
            }
        },
    );
    let places: Vec<i64> = (0..4096).map(|i| i * 7 % 4096 * 3).collect();
    let scattered = double.indexed_block(1, &places).unwrap();
    compare("4096 scattered doubles", &scattered, &source, |from, to| {
        for (to, &place) in to.iter_mut().zip(&places) {
            *to = from[place as usize];
        }
    });
}
