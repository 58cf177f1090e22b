//! Every collective and algorithm against a naive reference, over the simulator.
//!
//! Buffers have gaps and guards filled with a pattern; whole buffers are compared, so that a byte
//! written where none belongs is found. Reductions work on the packed bytes of whatever type.

#![allow(unsafe_code, reason = "runs are started on buffers of the tests")]

mod barrier_bcast;
mod calls;
mod engine;
mod inter;
mod leaders;
mod movement;
mod neighbor;
mod nodes;
mod races;
mod rdma;
mod reductions;
mod sim;
mod slots;

use super::run::Run;
use super::schedule::Schedule;
use mpi_types::datatype::{Datatype, Predefined};
use mpi_types::op::Op;
use sim::{Cost, Network, Rng, run_all};

const GUARD: usize = 192;
const BLANK: u8 = 0xEE;

/// A user buffer: `len` bytes and guards on both sides.
#[derive(Clone, PartialEq, Eq)]
pub struct Buffer(Vec<u8>);

impl Buffer {
    pub fn new(len: usize) -> Buffer {
        Buffer(vec![BLANK; len + 2 * GUARD])
    }
    pub fn len(&self) -> usize {
        self.0.len() - 2 * GUARD
    }
    /// Room for `count` elements.
    pub fn of(count: usize, datatype: &Datatype) -> Buffer {
        Buffer::new(count * datatype.extent() as usize)
    }
    pub fn ptr(&mut self) -> *mut u8 {
        self.0[GUARD..].as_mut_ptr()
    }
    /// Stores packed elements at a byte offset.
    pub fn put(&mut self, offset: isize, datatype: &Datatype, packed: &[u8]) {
        if packed.is_empty() {
            return;
        }
        let count = packed.len() / datatype.size();
        let base = self
            .0
            .as_mut_ptr()
            .wrapping_add(GUARD)
            .wrapping_offset(offset);
        // SAFETY: tests make buffers large enough, guards cover the bounds of the types.
        unsafe { datatype.unpack(base, count, 0, packed) };
    }
    pub fn with(count: usize, datatype: &Datatype, packed: &[u8]) -> Buffer {
        let mut buffer = Buffer::of(count, datatype);
        buffer.put(0, datatype, packed);
        buffer
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:02x?}", &self.0[GUARD..self.0.len() - GUARD])
    }
}

/// Packed elements whose bytes depend on sender and receiver.
pub fn data(seed: u64, key: u64, len: usize) -> Vec<u8> {
    let mut rng = Rng::new(seed.wrapping_mul(1_000_003).wrapping_add(key));
    (0..len).map(|_| rng.below(251) as u8).collect()
}

pub fn seed() -> u64 {
    let seed = match std::env::var("WEFT_TEST_SEED") {
        Ok(text) => text.parse().expect("WEFT_TEST_SEED is a number"),
        Err(_) => std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(1, |t| u64::from(t.subsec_nanos())),
    };
    eprintln!("WEFT_TEST_SEED={seed}");
    seed
}

/// All of an even size, for [`operation`].
pub fn types() -> Vec<Datatype> {
    let int = Datatype::predefined(Predefined::Int);
    let double = Datatype::predefined(Predefined::Double);
    let short = Datatype::predefined(Predefined::Short);
    let pair = Datatype::predefined(Predefined::ShortInt);
    let strided = int.vector(2, 1, 3).unwrap();
    vec![
        int.clone(),
        double.clone(),
        int.contiguous(3).unwrap(),
        pair,
        strided.clone(),
        Datatype::structure(&[1, 1], &[0, 8], &[short, double]).unwrap(),
        // Data before the origin and a gap behind.
        int.hindexed(&[1, 1], &[-8, 4])
            .unwrap()
            .resized(-8, 24)
            .unwrap(),
        // Elements that lie in each other's gaps.
        strided.resized(0, 8).unwrap(),
    ]
}

/// All types with few ranks, some of them in turn with many.
pub fn types_for(size: usize) -> Vec<Datatype> {
    let chosen = |&(i, _): &(usize, Datatype)| size <= 17 || i % 3 == size % 3;
    let types = types().into_iter().enumerate();
    types.filter(chosen).map(|pair| pair.1).collect()
}

/// The values again and again, beginning at another one for each `shift`.
pub fn cycle<T: Copy>(values: [T; 4], shift: usize) -> impl Iterator<Item = T> {
    values.into_iter().cycle().skip(shift % 4)
}

pub const SIZES: [usize; 20] = [
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 31, 32, 33,
];

/// All roots of small communicators, some of large ones.
pub fn roots(size: usize) -> Vec<usize> {
    match size {
        0..=6 => (0..size).collect(),
        _ => vec![0, size / 2, size - 1],
    }
}

/// Builds and runs one collective on all ranks; `what` names the case when it goes wrong.
pub fn run_one(
    network: Network,
    what: &dyn std::fmt::Debug,
    build: &dyn Fn(usize, &mut Schedule),
    send: &mut [Buffer],
    recv: &mut [Buffer],
) -> Cost {
    run_between(network, what, build, send, recv, &|_, to| to)
}

pub fn run_between(
    network: Network,
    what: &dyn std::fmt::Debug,
    build: &dyn Fn(usize, &mut Schedule),
    send: &mut [Buffer],
    recv: &mut [Buffer],
    peers: &dyn Fn(u32, u32) -> u32,
) -> Cost {
    let mut runs: Vec<Vec<Run<usize>>> = Vec::new();
    let ranks = send.len();
    for (rank, (send, recv)) in send.iter_mut().zip(recv.iter_mut()).enumerate() {
        let mut run = Run::new();
        build(rank, run.rebuild());
        // Larger communicators are of the same kinds.
        if ranks <= 9 && matches!(network, Network::Random(_)) {
            races::check(what, rank, run.schedule(), send.len(), recv.len());
        }
        run.set_number(sim::FIRST);
        // SAFETY: the buffers live until the runs are done, below.
        unsafe { run.start(send.ptr(), recv.ptr(), 7) }.unwrap();
        runs.push(vec![run]);
    }
    let (cost, results) = run_all(&mut runs, network, peers);
    for (rank, result) in results.iter().enumerate() {
        assert!(result.is_ok(), "{what:?} rank {rank}: {result:?}");
    }
    cost
}

pub fn compare(what: &dyn std::fmt::Debug, recv: &[Buffer], expect: &[Buffer]) {
    for (rank, (got, want)) in recv.iter().zip(expect).enumerate() {
        assert!(
            got == want,
            "{what:?}, rank {rank} has\n{got:?}\ninstead of\n{want:?}"
        );
    }
}

/// Addition of bytes, which commutes; or composition of maps x → ax + b modulo 251, which
/// doesn't, on pairs of bytes.
pub fn operation(commutes: bool) -> Op {
    let f = move |input: *const u8, inout: *mut u8, count: usize, datatype: &Datatype| {
        let len = count * datatype.size();
        let (mut left, mut right) = (vec![0; len], vec![0; len]);
        // SAFETY: by contract of apply both sides hold `count` elements.
        unsafe {
            datatype.pack(input, count, 0, &mut left);
            datatype.pack(inout, count, 0, &mut right);
            combine(commutes, &left, &mut right);
            datatype.unpack(inout, count, 0, &right);
        }
    };
    Op::user(std::sync::Arc::new(f), commutes)
}

/// right = left op right, on packed bytes.
pub fn combine(commutes: bool, left: &[u8], right: &mut [u8]) {
    if commutes {
        for (l, r) in left.iter().zip(right) {
            *r = l.wrapping_add(*r);
        }
        return;
    }
    for (l, r) in left.chunks_exact(2).zip(right.chunks_exact_mut(2)) {
        let [a, b, c, d] = [l[0], l[1], r[0], r[1]].map(u32::from);
        r[0] = (a * c % 251) as u8;
        r[1] = ((a * d + b) % 251) as u8;
    }
}

/// The operands reduced in the order given.
pub fn reduced<'a>(commutes: bool, operands: impl Iterator<Item = &'a Vec<u8>>) -> Vec<u8> {
    let mut result: Option<Vec<u8>> = None;
    for operand in operands {
        result = Some(match result {
            None => operand.clone(),
            Some(left) => {
                let mut right = operand.clone();
                combine(commutes, &left, &mut right);
                right
            }
        });
    }
    result.unwrap_or_default()
}
