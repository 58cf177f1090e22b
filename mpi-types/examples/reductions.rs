//! Times the reduction kernels against loops written by hand with the processor's intrinsics.
//!
//! `cargo run --release -p mpi-types --example reductions`; with `-- all`, the time of every
//! operation on every datatype at every level instead.
//!
//! The two sides alternate in one run. Printed are the nanoseconds of the best round of each and
//! their ratio, hand-written over ours: 1 is even, more means that ours is faster.

#![allow(
    clippy::incompatible_msrv,
    reason = "measures AVX-512 where there is one"
)]

#[cfg(not(target_arch = "x86_64"))]
fn main() {
    println!("only for x86-64");
}

#[cfg(target_arch = "x86_64")]
fn main() {
    x86::main();
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;
    use std::hint::black_box;
    use std::time::Instant;

    use mpi_types::datatype::Predefined;
    use mpi_types::op::{Kernel, Level, PredefinedOp, select};

    /// A loop `inout[i] = a[i] op inout[i]`, four vectors per round.
    macro_rules! by_hand {
        ($name:ident, $features:literal, $bytes:literal, $t:ty, $load:ident, $store:ident, $op:ident, $pointer:ty, $scalar:expr) => {
            #[target_feature(enable = $features)]
            unsafe fn $name(a: *const u8, _b: *const u8, out: *mut u8, count: usize) {
                // SAFETY: the caller gives `count` elements at both; the last round of vectors ends
                // at `count` or before, and the elements after it are taken one by one.
                unsafe {
                    let a = a.cast::<$t>();
                    let out = out.cast::<$t>();
                    let lanes = $bytes / size_of::<$t>();
                    let mut i = 0;
                    while i + 4 * lanes <= count {
                        let (p, q) = (a.add(i), out.add(i));
                        let x0 = $load(p.cast::<$pointer>());
                        let x1 = $load(p.add(lanes).cast::<$pointer>());
                        let x2 = $load(p.add(2 * lanes).cast::<$pointer>());
                        let x3 = $load(p.add(3 * lanes).cast::<$pointer>());
                        let y0 = $op(x0, $load(q.cast::<$pointer>()));
                        let y1 = $op(x1, $load(q.add(lanes).cast::<$pointer>()));
                        let y2 = $op(x2, $load(q.add(2 * lanes).cast::<$pointer>()));
                        let y3 = $op(x3, $load(q.add(3 * lanes).cast::<$pointer>()));
                        $store(q.cast::<$pointer>(), y0);
                        $store(q.add(lanes).cast::<$pointer>(), y1);
                        $store(q.add(2 * lanes).cast::<$pointer>(), y2);
                        $store(q.add(3 * lanes).cast::<$pointer>(), y3);
                        i += 4 * lanes;
                    }
                    let scalar: fn($t, $t) -> $t = $scalar;
                    while i < count {
                        let value = scalar(a.add(i).read_unaligned(), out.add(i).read_unaligned());
                        out.add(i).write_unaligned(value);
                        i += 1;
                    }
                }
            }
        };
    }
    by_hand!(
        f32_sum_2,
        "avx2",
        32,
        f32,
        _mm256_loadu_ps,
        _mm256_storeu_ps,
        _mm256_add_ps,
        f32,
        |x, y| x + y
    );
    by_hand!(
        f32_max_2,
        "avx2",
        32,
        f32,
        _mm256_loadu_ps,
        _mm256_storeu_ps,
        _mm256_max_ps,
        f32,
        |x, y| if x > y { x } else { y }
    );
    by_hand!(
        f64_sum_2,
        "avx2",
        32,
        f64,
        _mm256_loadu_pd,
        _mm256_storeu_pd,
        _mm256_add_pd,
        f64,
        |x, y| x + y
    );
    by_hand!(
        f64_max_2,
        "avx2",
        32,
        f64,
        _mm256_loadu_pd,
        _mm256_storeu_pd,
        _mm256_max_pd,
        f64,
        |x, y| if x > y { x } else { y }
    );
    by_hand!(
        i32_sum_2,
        "avx2",
        32,
        i32,
        _mm256_loadu_si256,
        _mm256_storeu_si256,
        _mm256_add_epi32,
        __m256i,
        i32::wrapping_add
    );
    by_hand!(
        i32_max_2,
        "avx2",
        32,
        i32,
        _mm256_loadu_si256,
        _mm256_storeu_si256,
        _mm256_max_epi32,
        __m256i,
        |x, y| x.max(y)
    );
    by_hand!(
        f32_sum_512,
        "avx512f,avx512vl",
        64,
        f32,
        _mm512_loadu_ps,
        _mm512_storeu_ps,
        _mm512_add_ps,
        f32,
        |x, y| x + y
    );
    by_hand!(
        f32_max_512,
        "avx512f,avx512vl",
        64,
        f32,
        _mm512_loadu_ps,
        _mm512_storeu_ps,
        _mm512_max_ps,
        f32,
        |x, y| if x > y { x } else { y }
    );
    by_hand!(
        f64_sum_512,
        "avx512f,avx512vl",
        64,
        f64,
        _mm512_loadu_pd,
        _mm512_storeu_pd,
        _mm512_add_pd,
        f64,
        |x, y| x + y
    );
    by_hand!(
        f64_max_512,
        "avx512f,avx512vl",
        64,
        f64,
        _mm512_loadu_pd,
        _mm512_storeu_pd,
        _mm512_max_pd,
        f64,
        |x, y| if x > y { x } else { y }
    );
    by_hand!(
        i32_sum_512,
        "avx512f,avx512vl",
        64,
        i32,
        _mm512_loadu_si512,
        _mm512_storeu_si512,
        _mm512_add_epi32,
        __m512i,
        i32::wrapping_add
    );
    by_hand!(
        i32_max_512,
        "avx512f,avx512vl",
        64,
        i32,
        _mm512_loadu_si512,
        _mm512_storeu_si512,
        _mm512_max_epi32,
        __m512i,
        |x, y| x.max(y)
    );

    const CASES: &[(PredefinedOp, Predefined, usize, Kernel, Kernel)] = &[
        (
            PredefinedOp::Sum,
            Predefined::Float,
            4,
            f32_sum_2,
            f32_sum_512,
        ),
        (
            PredefinedOp::Max,
            Predefined::Float,
            4,
            f32_max_2,
            f32_max_512,
        ),
        (
            PredefinedOp::Sum,
            Predefined::Double,
            8,
            f64_sum_2,
            f64_sum_512,
        ),
        (
            PredefinedOp::Max,
            Predefined::Double,
            8,
            f64_max_2,
            f64_max_512,
        ),
        (
            PredefinedOp::Sum,
            Predefined::Int,
            4,
            i32_sum_2,
            i32_sum_512,
        ),
        (
            PredefinedOp::Max,
            Predefined::Int,
            4,
            i32_max_2,
            i32_max_512,
        ),
    ];

    /// Nanoseconds per call, the best of several rounds.
    fn time(kernel: Kernel, a: &[u64], out: &mut [u64], count: usize) -> f64 {
        let mut best = f64::INFINITY;
        for _ in 0..5 {
            let start = Instant::now();
            for _ in 0..8 {
                let (from, to) = (a.as_ptr().cast(), out.as_mut_ptr().cast());
                // SAFETY: the caller gives arrays of `count` elements, and levels that are there.
                unsafe { black_box(kernel)(from, to, to, count) };
            }
            best = best.min(start.elapsed().as_nanos() as f64 / 8.0);
        }
        best
    }

    fn all() {
        println!("nanoseconds for 16 KiB at {:?}", Level::available());
        let a = vec![0u64; 2048];
        let mut out = a.clone();
        for &(op, name, _) in PredefinedOp::TABLE {
            for &(p, datatype, kind, _) in Predefined::TABLE {
                if select(op, p, Level::Baseline).is_none() {
                    continue;
                }
                print!("{name} {datatype}:");
                for level in Level::available() {
                    let kernel = select(op, p, level).expect("as for the baseline");
                    let ns = time(kernel, &a, &mut out, (16 << 10) / kind.extent());
                    print!(" {ns:.0}");
                }
                println!();
            }
        }
    }

    pub fn main() {
        if std::env::args().any(|word| word == "all") {
            return all();
        }
        // Zeros: sums stay finite however often they are taken.
        let a = vec![0u64; (4 << 20) / 8 + 8];
        let mut out = a.clone();
        for level in Level::available() {
            for &(op, p, size, avx2, avx512) in CASES {
                let hand = match level {
                    Level::Baseline => continue,
                    Level::Avx2 => avx2,
                    Level::Avx512 => avx512,
                };
                let ours = select(op, p, level).expect("defined");
                print!("{level:?} {} {}:", op.name(), p.name());
                for bytes in [1 << 10, 64 << 10, 4 << 20] {
                    let repeats = ((8 << 20) / bytes).clamp(1, 4096);
                    let mut best = [f64::INFINITY; 2];
                    for _ in 0..60 {
                        for (kernel, best) in [ours, hand].into_iter().zip(&mut best) {
                            let start = Instant::now();
                            for _ in 0..repeats {
                                let (from, to) = (a.as_ptr().cast(), out.as_mut_ptr().cast());
                                // SAFETY: both have `bytes` bytes; the level is available.
                                unsafe { black_box(kernel)(from, to, to, bytes / size) };
                            }
                            let time = start.elapsed().as_nanos() as f64 / repeats as f64;
                            *best = best.min(time);
                        }
                    }
                    let [ours, hand] = best;
                    let size = bytes >> 10;
                    print!("  {size} KiB {ours:.0} ns, {:.2}", hand / ours);
                }
                println!();
            }
        }
    }
}
