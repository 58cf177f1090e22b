//! Every operation on every datatype, at every level of the processor, against the reference.

use std::collections::HashSet;
use std::time::{SystemTime, UNIX_EPOCH};

use super::reference::{Scalar, combine, same, scalars};
use crate::datatype::{BINARY128, Group, Predefined, Representation};
use crate::op::select::of_kind;
use crate::op::{Kernel, Level, Op, PredefinedOp, select};

struct Random(fastrand::Rng);

impl Random {
    /// Seeded by `WEFT_TEST_SEED`, or by the clock; a failing test shows the seed.
    fn new() -> Random {
        let clock = || {
            SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap()
                .as_nanos() as u64
        };
        let seed = match std::env::var("WEFT_TEST_SEED") {
            Ok(text) => text.parse().expect("WEFT_TEST_SEED is a number"),
            Err(_) => clock(),
        };
        println!("WEFT_TEST_SEED={seed}");
        Random(fastrand::Rng::with_seed(seed))
    }

    fn below(&mut self, n: usize) -> usize {
        self.0.usize(..n)
    }

    /// A value of the format: often an edge case, often small so that equal values meet.
    fn value(&mut self, format: Scalar) -> Vec<u8> {
        let random = self.0.u128(..);
        let choice = self.below(4);
        let small = self.below(7) as i64 - 3;
        let edge = self.below(10);
        let bits: u128 = match format {
            Scalar::Signed(n) | Scalar::Unsigned(n) => match choice {
                0 => small as u128,
                1 => {
                    let top = 1u128 << (8 * n - 1);
                    [0, 1, top, top - 1, u128::MAX][edge / 2]
                }
                _ => random,
            },
            Scalar::F16 | Scalar::Bf16 => match choice {
                0 => {
                    let one = if format == Scalar::F16 {
                        0x3c00
                    } else {
                        0x3f80
                    };
                    [0, one, one | 0x8000, one + 1][edge % 4]
                }
                1 => {
                    let infinity = if format == Scalar::F16 {
                        0x7c00
                    } else {
                        0x7f80
                    };
                    let bits = [0, 1, 0x80, 0x400, infinity - 1, infinity, infinity + 1];
                    bits[edge % 7] | if random & 1 == 0 { 0 } else { 0x8000 }
                }
                _ => random,
            },
            Scalar::F32 => match choice {
                0 => (small as f32).to_bits().into(),
                1 => {
                    let bits = [0, 1, 0x0080_0000, 0x7f7f_ffff, 0x7f80_0000, 0x7fc0_0000];
                    let sign = 1u32 << 31;
                    u128::from(bits[edge % 6] | if random & 1 == 0 { 0 } else { sign })
                }
                _ => random,
            },
            Scalar::F64 => match choice {
                0 => (small as f64).to_bits().into(),
                1 => {
                    let largest = f64::MAX.to_bits();
                    let bits = [0, 1, 1 << 52, largest, 0x7ff << 52, 0xfff << 51];
                    let sign = 1u64 << 63;
                    u128::from(bits[edge % 6] | if random & 1 == 0 { 0 } else { sign })
                }
                _ => random,
            },
            // Exponents near each other and integer bit set, as the reference needs them.
            Scalar::F80 => {
                let sign = (random & 1) << 79;
                let one = 0x3fff_8000_0000_0000_0000;
                sign | match choice {
                    0 => [one, one, 0, one + (1 << 64)][edge % 4],
                    1 if edge < 4 => 0x7fff_8000_0000_0000_0000,
                    1 if edge < 6 => 0x7fff_c000_0000_0000_0000,
                    _ => {
                        let exponent = 0x3fff - 7 + (random >> 100) % 15;
                        exponent << 64 | 1 << 63 | (random >> 8) & ((1 << 63) - 1)
                    }
                }
            }
            Scalar::F128 => {
                let sign = (random & 1) << 127;
                let (one, infinity) = (0x3fffu128 << 112, 0x7fffu128 << 112);
                match choice {
                    0 => sign | [one, one, one + (1 << 112), 0][edge % 4],
                    1 => {
                        let edges = [0, 1, 1 << 112, (1 << 112) - 1, infinity - 1, infinity];
                        sign | edges.get(edge).copied().unwrap_or(infinity | 1 << 111)
                    }
                    // Exponents near 1, so that sums meet and products stay in range.
                    2 => {
                        let exponent = 0x3fff - 60 + (random >> 117) % 120;
                        sign | exponent << 112 | (random >> 4) & ((1 << 112) - 1)
                    }
                    _ => random,
                }
            }
        };
        bits.to_le_bytes()[..format.len()].to_vec()
    }

    /// `count` elements, with noise in the gaps.
    fn elements(&mut self, kind: Representation, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count * kind.extent()];
        self.0.fill(&mut bytes);
        for i in 0..count {
            for (offset, format) in scalars(kind) {
                let at = i * kind.extent() + offset;
                bytes[at..at + format.len()].copy_from_slice(&self.value(format));
            }
        }
        bytes
    }
}

fn values(kind: Representation, buffer: &[u8], i: usize) -> Vec<Vec<u8>> {
    let element = &buffer[i * kind.extent()..];
    let scalars = scalars(kind);
    let value = |&(at, format): &(usize, Scalar)| element[at..at + format.len()].to_vec();
    scalars.iter().map(value).collect()
}

/// A buffer that begins at an odd place, with room around it that must stay as it is.
struct Framed {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

const FRAME: usize = 64;

impl Framed {
    fn new(content: &[u8], shift: usize) -> Framed {
        let start = FRAME + shift;
        let mut bytes = vec![0xa5; start + content.len() + FRAME];
        bytes[start..start + content.len()].copy_from_slice(content);
        Framed {
            bytes,
            start,
            len: content.len(),
        }
    }

    fn pointer(&mut self) -> *mut u8 {
        self.bytes[self.start..].as_mut_ptr()
    }

    fn content(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }

    fn frame_is_whole(&self) -> bool {
        let (before, after) = (
            &self.bytes[..self.start],
            &self.bytes[self.start + self.len..],
        );
        before.iter().chain(after).all(|&byte| byte == 0xa5)
    }
}

fn check(op: PredefinedOp, kind: Representation, a: &[u8], b: &[u8], before: &[u8], out: &[u8]) {
    for i in 0..a.len() / kind.extent() {
        let (x, y) = (values(kind, a, i), values(kind, b, i));
        let want = combine(op, kind, &x, &y);
        let got = values(kind, out, i);
        for ((want, got), (_, format)) in want.iter().zip(&got).zip(scalars(kind)) {
            assert!(
                same(format, want, got),
                "{} on {kind:?}, element {i}: {x:02x?} op {y:02x?} gave {got:02x?}, not {want:02x?}",
                op.name()
            );
        }
        if kind.extent() > kind.size() {
            let data = |at| {
                let inside = |&(o, f): &(usize, Scalar)| {
                    (o..o + if f == Scalar::F80 { 16 } else { f.len() }).contains(&at)
                };
                scalars(kind).iter().any(inside)
            };
            for at in (0..kind.extent()).filter(|&at| !data(at)) {
                let at = i * kind.extent() + at;
                assert_eq!(
                    out[at],
                    before[at],
                    "{} wrote to the gap of {kind:?}",
                    op.name()
                );
            }
        }
    }
}

fn run_one(
    random: &mut Random,
    op: PredefinedOp,
    kind: Representation,
    kernel: Kernel,
    count: usize,
) {
    let (a, b) = (random.elements(kind, count), random.elements(kind, count));
    let mut x = Framed::new(&a, random.below(33));
    let mut y = Framed::new(&b, random.below(33));

    // Into a third buffer.
    if op != PredefinedOp::NoOp {
        let before = random.elements(kind, count);
        let mut out = Framed::new(&before, random.below(33));
        // SAFETY: all three have `count` elements.
        unsafe { kernel(x.pointer(), y.pointer(), out.pointer(), count) };
        check(op, kind, &a, &b, &before, out.content());
        assert!(out.frame_is_whole(), "{} on {kind:?}", op.name());
    }
    // One of the possible overlaps, too.
    let way = random.below(if op == PredefinedOp::NoOp { 2 } else { 3 });
    let (x_at, y_at) = (x.pointer(), y.pointer());
    let (first, second, out) = [(x_at, y_at, y_at), (y_at, y_at, y_at), (x_at, y_at, x_at)][way];
    // SAFETY: both have `count` elements.
    unsafe { kernel(first, second, out, count) };
    let (want_x, want_y, result) = [(&a, &b, &y), (&b, &b, &y), (&a, &b, &x)][way];
    check(
        op,
        kind,
        want_x,
        want_y,
        if way == 2 { &a } else { &b },
        result.content(),
    );
    let untouched = if way == 2 { (&y, &b) } else { (&x, &a) };
    assert_eq!(untouched.0.content(), untouched.1);
    assert!(
        x.frame_is_whole() && y.frame_is_whole(),
        "{} on {kind:?}",
        op.name()
    );
}

#[test]
fn every_operation_on_every_datatype() {
    let mut random = Random::new();
    let levels = Level::available();
    println!("levels: {levels:?}");
    let mut seen = HashSet::new();
    for &(op, ..) in PredefinedOp::TABLE {
        for &(p, _, _, group) in Predefined::TABLE {
            for &level in &levels {
                let kernel = select(op, p, level);
                assert_eq!(kernel.is_some(), op.accumulates(group));
                let Some(kernel) = kernel else { continue };
                // Types of the same kind share their kernels.
                if !seen.insert((op, p.kind(), level)) {
                    continue;
                }
                for count in 0..67 {
                    run_one(&mut random, op, p.kind(), kernel, count);
                }
                run_one(&mut random, op, p.kind(), kernel, 517);
            }
        }
    }
    assert!(seen.len() > 130 * levels.len(), "{}", seen.len());
}

#[test]
fn binary128_against_the_compilers_library() {
    let mut random = Random::new();
    for op in [PredefinedOp::Sum, PredefinedOp::Prod] {
        let kernel = Op::predefined(op).kernel(Predefined::Real16).unwrap();
        for _ in 0..300 {
            run_one(&mut random, op, Representation::F128, kernel, 100);
        }
    }
}

/// C's `long double` of other processors than x86-64, and what is made of it.
#[test]
fn long_double_in_binary128() {
    let mut random = Random::new();
    let wide = BINARY128;
    let groups = [
        (wide.real, Group::Floating),
        (wide.complex, Group::Complex),
        (wide.with_int, Group::Pair),
    ];
    for (kind, group) in groups {
        let mut kernels = 0;
        for &(op, ..) in PredefinedOp::TABLE {
            let kernel = of_kind(op, kind, Level::best());
            if !op.accumulates(group) {
                continue;
            }
            let kernel = kernel.unwrap_or_else(|| panic!("{} on {kind:?}", op.name()));
            run_one(&mut random, op, kind, kernel, 517);
            kernels += 1;
        }
        assert!(kernels > 3, "{kernels} on {kind:?}");
    }
}
