use super::*;
use crate::coll::{Allreduce, Part, Team, allreduce};

/// Each rank's operand, packed.
fn operands(seed: u64, size: usize, len: usize) -> Vec<Vec<u8>> {
    (0..size).map(|rank| data(seed, rank as u64, len)).collect()
}

/// Send and receive buffers of ranks which all contribute `count` elements.
fn buffers(
    operands: &[Vec<u8>],
    count: usize,
    datatype: &Datatype,
    in_place: bool,
) -> (Vec<Buffer>, Vec<Buffer>) {
    let full = |packed: &Vec<u8>| Buffer::with(count, datatype, packed);
    let filled: Vec<Buffer> = operands.iter().map(full).collect();
    let blank = vec![Buffer::of(count, datatype); operands.len()];
    match in_place {
        true => (vec![Buffer::new(0); operands.len()], filled),
        false => (filled, blank),
    }
}

#[test]
fn allreduce_is_right() {
    let seed = seed();
    let algorithms = [
        Allreduce::RecursiveDoubling,
        Allreduce::Halving,
        Allreduce::Ring,
    ];
    for size in SIZES {
        for (datatype, count) in types().iter().zip([5, 40, 1, 33]) {
            for case in 0..4 {
                let (in_place, commutes) = (case & 1 == 1, case & 2 == 2);
                let op = operation(commutes);
                let part = Part { count, datatype };
                let operands = operands(seed, size, part.bytes());
                let result = reduced(commutes, operands.iter());
                let expect = vec![Buffer::with(count, datatype, &result); size];
                for algorithm in algorithms {
                    let what = (size, datatype, count, in_place, commutes, algorithm);
                    let build = |rank: usize, s: &mut Schedule| {
                        let team = Team::all(rank as u32, size as u32);
                        allreduce(s, team, in_place, part, &op, algorithm);
                    };
                    let (mut send, mut recv) = buffers(&operands, count, datatype, in_place);
                    let before = send.clone();
                    run_one(Network::Random(seed), &what, &build, &mut send, &mut recv);
                    compare(&what, &recv, &expect);
                    compare(&what, &send, &before);
                }
            }
        }
    }
}

#[test]
fn allreduce_costs() {
    let int = Datatype::predefined(Predefined::Int);
    let op = operation(true);
    for size in SIZES {
        let part = Part {
            count: 64 * size,
            datatype: &int,
        };
        let run = |algorithm| {
            let build = |rank: usize, s: &mut Schedule| {
                let team = Team::all(rank as u32, size as u32);
                allreduce(s, team, false, part, &op, algorithm);
            };
            let mut recv = vec![Buffer::of(part.count, &int); size];
            let mut send = recv.clone();
            run_one(Network::OnePort, &size, &build, &mut send, &mut recv)
        };
        let log = u64::from(size.ilog2());
        let fold = if size.is_power_of_two() { 0 } else { 2 };
        assert_eq!(run(Allreduce::RecursiveDoubling).time, log + fold);
        assert_eq!(run(Allreduce::Halving).time, 2 * log + fold);
        let ring = run(Allreduce::Ring);
        assert_eq!(ring.time, 2 * (size as u64 - 1));
        let whole = part.bytes() as u64;
        for &bytes in &ring.bytes {
            assert_eq!(bytes, 2 * whole / size as u64 * (size as u64 - 1));
        }
    }
}
