use super::*;
use crate::Reduction;
use crate::{
    Allreduce, Ints, Layout, Part, Reduce, ReduceScatter, Team, allreduce, exscan, reduce,
    reduce_scatter, scan,
};
use mpi_types::op::PredefinedOp;

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
        for (datatype, count) in types_for(size).iter().zip(cycle([5, 40, 1, 33], size)) {
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
                        allreduce(s, team, Reduction::new(in_place, part, &op), algorithm);
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
                allreduce(s, team, Reduction::new(false, part, &op), algorithm);
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

#[test]
fn reduce_is_right() {
    let seed = seed();
    for size in SIZES {
        for (datatype, count) in types_for(size).iter().zip(cycle([5, 40, 1, 33], size)) {
            for root in roots(size) {
                for case in 0..8 {
                    let (in_place, commutes) = (case & 1 == 1, case & 2 == 2);
                    let algorithm = match case & 4 {
                        0 => Reduce::Binomial,
                        _ => Reduce::Halving,
                    };
                    let what = (size, root, datatype, count, in_place, commutes, algorithm);
                    let op = operation(commutes);
                    let part = Part { count, datatype };
                    let operands = operands(seed, size, part.bytes());
                    let result = reduced(commutes, operands.iter());
                    let (mut send, _) = buffers(&operands, count, datatype, false);
                    let before = send.clone();
                    let mut recv = vec![Buffer::of(count, datatype); size];
                    if in_place {
                        recv[root] = send[root].clone();
                    }
                    let mut expect = vec![Buffer::of(count, datatype); size];
                    expect[root] = Buffer::with(count, datatype, &result);
                    let build = |rank: usize, s: &mut Schedule| {
                        let team = Team::all(rank as u32, size as u32);
                        let in_place = in_place && rank == root;
                        reduce(
                            s,
                            team,
                            root,
                            Reduction::new(in_place, part, &op),
                            algorithm,
                        );
                    };
                    run_one(Network::Random(seed), &what, &build, &mut send, &mut recv);
                    compare(&what, &recv, &expect);
                    compare(&what, &send, &before);
                }
            }
        }
    }
}

#[test]
fn scan_and_exscan_are_right() {
    let seed = seed();
    for size in SIZES {
        for (datatype, count) in types_for(size).iter().zip(cycle([5, 7, 1, 3], size)) {
            for case in 0..8 {
                let (in_place, commutes) = (case & 1 == 1, case & 2 == 2);
                let exclusive = case & 4 == 4;
                let what = (size, datatype, count, in_place, commutes, exclusive);
                let op = operation(commutes);
                let part = Part { count, datatype };
                let operands = operands(seed, size, part.bytes());
                let (mut send, mut recv) = buffers(&operands, count, datatype, in_place);
                let (before, untouched) = (send.clone(), recv[0].clone());
                let upto = |rank: usize| match exclusive {
                    true if rank == 0 => untouched.clone(),
                    true => {
                        let result = reduced(commutes, operands[..rank].iter());
                        Buffer::with(count, datatype, &result)
                    }
                    false => {
                        let result = reduced(commutes, operands[..=rank].iter());
                        Buffer::with(count, datatype, &result)
                    }
                };
                let expect: Vec<Buffer> = (0..size).map(upto).collect();
                let build = |rank: usize, s: &mut Schedule| {
                    let team = Team::all(rank as u32, size as u32);
                    match exclusive {
                        true => exscan(s, team, Reduction::new(in_place, part, &op)),
                        false => scan(s, team, Reduction::new(in_place, part, &op)),
                    }
                };
                run_one(Network::Random(seed), &what, &build, &mut send, &mut recv);
                compare(&what, &recv, &expect);
                compare(&what, &send, &before);
            }
        }
    }
}

#[test]
fn reduce_scatter_is_right() {
    let seed = seed();
    for size in SIZES {
        for (datatype, count) in types_for(size).iter().zip(cycle([2, 1, 3, 4], size)) {
            for case in 0..16 {
                let (in_place, commutes) = (case & 1 == 1, case & 2 == 2);
                let algorithm = match case & 4 {
                    0 => ReduceScatter::Halving,
                    _ => ReduceScatter::Pairwise,
                };
                let varying = case & 8 == 8;
                let what = (size, datatype, in_place, commutes, algorithm, varying);
                let counts: Vec<i32> = (0..size)
                    .map(|i| if varying { (i * 5 % 4) as i32 } else { count })
                    .collect();
                let total = counts.iter().sum::<i32>() as usize;
                let op = operation(commutes);
                let operands = operands(seed, size, total * datatype.size());
                let result = reduced(commutes, operands.iter());
                let (mut send, filled) = buffers(&operands, total, datatype, in_place);
                let before = send.clone();
                let mut recv: Vec<Buffer> = match in_place {
                    true => filled,
                    false => counts
                        .iter()
                        .map(|&n| Buffer::of(n as usize, datatype))
                        .collect(),
                };
                let mut expect = recv.clone();
                let mut at = 0;
                for (expect, &n) in expect.iter_mut().zip(&counts) {
                    let len = n as usize * datatype.size();
                    expect.put(0, datatype, &result[at..at + len]);
                    at += len;
                }
                let layout = match varying {
                    true => Layout::Varying {
                        counts: Ints::I32(&counts),
                        displs: None,
                        datatype,
                    },
                    false => Layout::Uniform(Part {
                        count: count as usize,
                        datatype,
                    }),
                };
                let build = |rank: usize, s: &mut Schedule| {
                    let team = Team::all(rank as u32, size as u32);
                    reduce_scatter(s, team, in_place, layout, &op, algorithm);
                };
                run_one(Network::Random(seed), &what, &build, &mut send, &mut recv);
                compare(&what, &recv, &expect);
                compare(&what, &send, &before);
            }
        }
    }
}

#[test]
fn predefined_operations() {
    // The sum of ints, and the largest value with the lowest rank that has it: a pair with a gap.
    let seed = seed();
    let int = Datatype::predefined(Predefined::Int);
    let pair = Datatype::predefined(Predefined::ShortInt);
    for size in [1, 2, 3, 7, 8, 13] {
        let count = 20;
        let values = |rank: usize| -> Vec<i16> {
            let bytes = data(seed, rank as u64, count);
            bytes.into_iter().map(|byte| i16::from(byte % 5)).collect()
        };
        let ints = |list: &[i32]| {
            list.iter()
                .flat_map(|v| v.to_ne_bytes())
                .collect::<Vec<u8>>()
        };
        let pairs = |list: &[(i16, i32)]| -> Vec<u8> {
            let bytes = |&(value, rank): &(i16, i32)| {
                let rank = rank.to_ne_bytes();
                value.to_ne_bytes().into_iter().chain(rank)
            };
            list.iter().flat_map(bytes).collect()
        };
        let own = |rank: usize| {
            let wide: Vec<i32> = values(rank).into_iter().map(i32::from).collect();
            let at = |value| (value, rank as i32);
            let located: Vec<(i16, i32)> = values(rank).into_iter().map(at).collect();
            (ints(&wide), pairs(&located))
        };
        let column = |i: usize| (0..size).map(move |rank| (values(rank)[i], rank as i32));
        let sums: Vec<i32> = (0..count)
            .map(|i| column(i).map(|pair| i32::from(pair.0)).sum())
            .collect();
        let largest: Vec<(i16, i32)> = (0..count)
            .filter_map(|i| column(i).max_by_key(|&(value, rank)| (value, -rank)))
            .collect();
        for algorithm in [
            Allreduce::RecursiveDoubling,
            Allreduce::Halving,
            Allreduce::Ring,
        ] {
            for (op, datatype) in [(PredefinedOp::Sum, &int), (PredefinedOp::Maxloc, &pair)] {
                let what = (size, algorithm, op.name());
                let is_sum = op == PredefinedOp::Sum;
                let op = Op::predefined(op);
                let part = Part { count, datatype };
                let filled = |rank: usize| {
                    let (plain, located) = own(rank);
                    Buffer::with(count, datatype, if is_sum { &plain } else { &located })
                };
                let mut send: Vec<Buffer> = (0..size).map(filled).collect();
                let mut recv = vec![Buffer::of(count, datatype); size];
                let build = |rank: usize, s: &mut Schedule| {
                    let team = Team::all(rank as u32, size as u32);
                    allreduce(s, team, Reduction::new(false, part, &op), algorithm);
                };
                run_one(Network::Random(seed), &what, &build, &mut send, &mut recv);
                let packed = if is_sum { ints(&sums) } else { pairs(&largest) };
                let expect = vec![Buffer::with(count, datatype, &packed); size];
                compare(&what, &recv, &expect);
            }
        }
    }
}
