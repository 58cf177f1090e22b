//! Gather, scatter, allgather and alltoall with their `v` and `w` forms.

use super::*;
use crate::schedule::Step;
use crate::{
    Allgather, Alltoall, Gather, Ints, Layout, Part, Scatter, Team, allgather, alltoall, gather,
    scatter,
};

fn team(rank: usize, size: usize) -> Team<'static> {
    Team::all(rank as u32, size as u32)
}

/// Counts with zeros, and displacements that leave gaps and go backwards.
struct Uneven {
    counts: Vec<i32>,
    displs: Vec<i32>,
    total: usize,
}

fn uneven(seed: u64, size: usize) -> Uneven {
    let mut rng = Rng::new(seed);
    let counts: Vec<i32> = (0..size).map(|_| rng.below(5) as i32).collect();
    let mut displs = vec![0; size];
    let mut at = 0;
    for i in (0..size).rev() {
        displs[i] = at;
        at += counts[i] + (i % 3 == 1) as i32;
    }
    Uneven {
        counts,
        displs,
        total: at as usize,
    }
}

impl Uneven {
    fn layout<'a>(&'a self, datatype: &'a Datatype) -> Layout<'a> {
        Layout::Varying {
            counts: Ints::I32(&self.counts),
            displs: Some(Ints::I32(&self.displs)),
            datatype,
        }
    }
    fn count(&self, i: usize) -> usize {
        self.counts[i] as usize
    }
    fn at(&self, i: usize, datatype: &Datatype) -> isize {
        self.displs[i] as isize * datatype.extent()
    }
}

const ROOTED: [(Gather, Scatter); 2] = [
    (Gather::Linear, Scatter::Linear),
    (Gather::Binomial, Scatter::Binomial),
];

/// A type with another layout but the same signature as `count` of this one.
fn flat(datatype: &Datatype, count: usize) -> Datatype {
    datatype.contiguous(count as i64).unwrap()
}

#[test]
fn gather_and_scatter_are_right() {
    let seed = seed();
    for size in SIZES {
        for datatype in types_for(size) {
            for (root, count) in roots(size).into_iter().zip(cycle([1, 3, 0, 8], size)) {
                for (algorithm, in_place) in
                    ROOTED.into_iter().flat_map(|a| [(a, false), (a, true)])
                {
                    let what = (size, root, count, &datatype, algorithm, in_place);
                    let part = Part {
                        count,
                        datatype: &datatype,
                    };
                    let layout = Layout::Uniform(part);
                    let block = count as isize * datatype.extent();
                    let packed: Vec<_> = (0..size)
                        .map(|i| data(seed, i as u64, part.bytes()))
                        .collect();
                    let mut all = Buffer::of(size * count, &datatype);
                    for (i, packed) in packed.iter().enumerate() {
                        all.put(i as isize * block, &datatype, packed);
                    }
                    let each: Vec<_> = packed
                        .iter()
                        .map(|p| Buffer::with(count, &datatype, p))
                        .collect();
                    let blank = vec![Buffer::of(count, &datatype); size];

                    // The other side names the same data as one element of a larger type.
                    let one = flat(&datatype, count);
                    let one = Part {
                        count: 1,
                        datatype: &one,
                    };
                    let build = |rank: usize, s: &mut Schedule| {
                        let send = (rank != root || !in_place).then_some(one);
                        let recv = (rank == root).then_some(layout);
                        gather(s, team(rank, size), root, send, recv, algorithm.0);
                    };
                    let mut send = each.clone();
                    let mut recv = blank.clone();
                    recv[root] = Buffer::of(size * count, &datatype);
                    if in_place {
                        recv[root].put(root as isize * block, &datatype, &packed[root]);
                    }
                    run_one(Network::Random(seed), &what, &build, &mut send, &mut recv);
                    let mut expect = blank.clone();
                    expect[root] = all.clone();
                    compare(&("gather", what), &recv, &expect);

                    let build = |rank: usize, s: &mut Schedule| {
                        let send = (rank == root).then_some(layout);
                        let recv = (rank != root || !in_place).then_some(one);
                        scatter(s, team(rank, size), root, send, recv, algorithm.1);
                    };
                    let mut send = blank.clone();
                    send[root] = all;
                    let mut recv = blank.clone();
                    run_one(Network::Random(seed), &what, &build, &mut send, &mut recv);
                    let mut expect = each;
                    if in_place {
                        expect[root] = Buffer::of(count, &datatype);
                    }
                    compare(&("scatter", what), &recv, &expect);
                }
            }
        }
    }
}

#[test]
fn gatherv_and_scatterv_are_right() {
    let seed = seed();
    for size in SIZES {
        let uneven = uneven(seed, size);
        for datatype in types_for(size) {
            for root in roots(size) {
                for (algorithm, in_place) in
                    ROOTED.into_iter().flat_map(|a| [(a, false), (a, true)])
                {
                    let what = (size, root, &datatype, algorithm, in_place);
                    let layout = uneven.layout(&datatype);
                    let part = |i| Part {
                        count: uneven.count(i),
                        datatype: &datatype,
                    };
                    let packed: Vec<_> = (0..size)
                        .map(|i| data(seed, i as u64, part(i).bytes()))
                        .collect();
                    let mut all = Buffer::of(uneven.total, &datatype);
                    for (i, packed) in packed.iter().enumerate() {
                        all.put(uneven.at(i, &datatype), &datatype, packed);
                    }
                    let each: Vec<_> = (0..size)
                        .map(|i| Buffer::with(uneven.count(i), &datatype, &packed[i]))
                        .collect();
                    let blank: Vec<_> = (0..size)
                        .map(|i| Buffer::of(uneven.count(i), &datatype))
                        .collect();

                    // A `v` gather is linear whatever is asked: ranks don't know other's counts.
                    let build = |rank: usize, s: &mut Schedule| {
                        let send = (rank != root || !in_place).then_some(part(rank));
                        let recv = (rank == root).then_some(layout);
                        gather(s, team(rank, size), root, send, recv, Gather::Linear);
                    };
                    let mut send = each.clone();
                    let mut recv = blank.clone();
                    recv[root] = Buffer::of(uneven.total, &datatype);
                    if in_place {
                        recv[root].put(uneven.at(root, &datatype), &datatype, &packed[root]);
                    }
                    run_one(Network::Random(seed), &what, &build, &mut send, &mut recv);
                    let mut expect = blank.clone();
                    expect[root] = all.clone();
                    compare(&("gatherv", what), &recv, &expect);

                    let build = |rank: usize, s: &mut Schedule| {
                        let send = (rank == root).then_some(layout);
                        let recv = (rank != root || !in_place).then_some(part(rank));
                        scatter(s, team(rank, size), root, send, recv, Scatter::Linear);
                    };
                    let mut send = blank.clone();
                    send[root] = all;
                    let mut recv = blank.clone();
                    run_one(Network::Random(seed), &what, &build, &mut send, &mut recv);
                    let mut expect = each;
                    if in_place {
                        expect[root] = blank[root].clone();
                    }
                    compare(&("scatterv", what), &recv, &expect);
                }
            }
        }
    }
}

const ALLGATHER: [Allgather; 7] = [
    Allgather::RecursiveDoubling,
    Allgather::Bruck { radix: 2 },
    Allgather::Bruck { radix: 3 },
    Allgather::Bruck { radix: 4 },
    Allgather::Bruck { radix: usize::MAX },
    Allgather::Ring,
    Allgather::NeighborExchange,
];

#[test]
fn allgather_is_right() {
    let seed = seed();
    for size in SIZES {
        for (datatype, count) in types_for(size).iter().zip(cycle([3, 1, 0, 4], size)) {
            let uneven = uneven(seed, size);
            for case in 0..4 {
                let (in_place, varying) = (case & 1 == 1, case & 2 == 2);
                let part = |i| Part {
                    count: if varying { uneven.count(i) } else { count },
                    datatype,
                };
                let layout = if varying {
                    uneven.layout(datatype)
                } else {
                    Layout::Uniform(part(0))
                };
                let at = |i: usize| match varying {
                    true => uneven.at(i, datatype),
                    false => (i * count) as isize * datatype.extent(),
                };
                let total = if varying { uneven.total } else { size * count };
                let packed: Vec<_> = (0..size)
                    .map(|i| data(seed, i as u64, part(i).bytes()))
                    .collect();
                let mut all = Buffer::of(total, datatype);
                for (i, packed) in packed.iter().enumerate() {
                    all.put(at(i), datatype, packed);
                }
                for algorithm in ALLGATHER {
                    let what = (size, count, datatype, in_place, varying, algorithm);
                    let mut send: Vec<_> = (0..size)
                        .map(|i| Buffer::with(part(i).count, datatype, &packed[i]))
                        .collect();
                    let mut recv = vec![Buffer::of(total, datatype); size];
                    if in_place {
                        for (i, recv) in recv.iter_mut().enumerate() {
                            recv.put(at(i), datatype, &packed[i]);
                        }
                    }
                    let build = |rank: usize, s: &mut Schedule| {
                        let send = (!in_place).then(|| part(rank));
                        allgather(s, team(rank, size), send, layout, algorithm);
                    };
                    run_one(Network::Random(seed), &what, &build, &mut send, &mut recv);
                    compare(&what, &recv, &vec![all.clone(); size]);
                }
            }
        }
    }
}

const ALLTOALL: [Alltoall; 5] = [
    Alltoall::Bruck,
    Alltoall::Pairwise { window: 1 },
    Alltoall::Pairwise { window: 3 },
    Alltoall::Pairwise { window: usize::MAX },
    Alltoall::Spread,
];

#[test]
fn alltoall_is_right() {
    let seed = seed();
    for size in SIZES {
        for (datatype, count) in types_for(size).iter().zip(cycle([1, 3, 2, 0], size)) {
            let part = Part { count, datatype };
            let block = count as isize * datatype.extent();
            let packed = |from: usize, to: usize| data(seed, (from * 64 + to) as u64, part.bytes());
            let full = |of: &dyn Fn(usize) -> Vec<u8>| {
                let mut buffer = Buffer::of(size * count, datatype);
                for i in 0..size {
                    buffer.put(i as isize * block, datatype, &of(i));
                }
                buffer
            };
            let sent: Vec<_> = (0..size).map(|rank| full(&|to| packed(rank, to))).collect();
            let expect: Vec<_> = (0..size)
                .map(|rank| full(&|from| packed(from, rank)))
                .collect();
            for algorithm in ALLTOALL {
                for in_place in [false, true] {
                    let what = (size, count, datatype, in_place, algorithm);
                    let mut send = sent.clone();
                    let mut recv = match in_place {
                        true => sent.clone(),
                        false => vec![Buffer::of(size * count, datatype); size],
                    };
                    let layout = Layout::Uniform(part);
                    let build = |rank: usize, s: &mut Schedule| {
                        let send = (!in_place).then_some(layout);
                        alltoall(s, team(rank, size), send, layout, algorithm);
                    };
                    run_one(Network::Random(seed), &what, &build, &mut send, &mut recv);
                    compare(&what, &recv, &expect);
                    compare(&what, &send, &sent);
                }
            }
        }
    }
}

/// How much rank `from` has for rank `to`; symmetric where it happens in place.
fn amount(from: usize, to: usize, in_place: bool) -> i32 {
    let (from, to) = match in_place && from > to {
        true => (to, from),
        false => (from, to),
    };
    ((from * 7 + to * 3) % 4) as i32
}

#[test]
fn alltoallv_and_alltoallw_are_right() {
    let seed = seed();
    for size in SIZES {
        let kinds = types();
        for case in 0..4 {
            let (in_place, typed) = (case & 1 == 1, case & 2 == 2);
            // The types of what goes between two ranks: of equal size and signature on both sides.
            let kind = |a: usize, b: usize| match typed {
                true => &kinds[(a + b) % kinds.len()],
                false => &kinds[size % kinds.len()],
            };
            let packed = |from: usize, to: usize| {
                let len = amount(from, to, in_place) as usize * kind(from, to).size();
                data(seed, (from * 64 + to) as u64, len)
            };
            // Blocks from the last to the first, 4 elements apart (so many extents, or 100 bytes).
            let step = |rank: usize| {
                if typed {
                    100
                } else {
                    4 * kind(rank, 0).extent()
                }
            };
            let displs: Vec<i32> = (0..size)
                .map(|i| (size - 1 - i) as i32 * if typed { 100 } else { 4 })
                .collect();
            let full = |rank: usize, of: &dyn Fn(usize) -> Vec<u8>| {
                let mut buffer = Buffer::new(size * step(rank) as usize);
                for i in 0..size {
                    let at = (size - 1 - i) as isize * step(rank);
                    buffer.put(at, kind(rank, i), &of(i));
                }
                buffer
            };
            let sent: Vec<_> = (0..size)
                .map(|rank| full(rank, &|to| packed(rank, to)))
                .collect();
            let expect: Vec<_> = (0..size)
                .map(|rank| full(rank, &|from| packed(from, rank)))
                .collect();
            for algorithm in ALLTOALL {
                let what = (size, in_place, typed, algorithm);
                let mut send = sent.clone();
                let mut recv = match in_place {
                    true => sent.clone(),
                    false => (0..size).map(|rank| full(rank, &|_| Vec::new())).collect(),
                };
                let build = |rank: usize, s: &mut Schedule| {
                    let kinds: Vec<&Datatype> = (0..size).map(|i| kind(rank, i)).collect();
                    let going: Vec<i32> = (0..size).map(|i| amount(rank, i, in_place)).collect();
                    let coming: Vec<i32> = (0..size).map(|i| amount(i, rank, in_place)).collect();
                    let layout = |counts| match typed {
                        true => Layout::Typed {
                            counts,
                            displs: Ints::I32(&displs),
                            datatypes: &kinds,
                        },
                        false => Layout::Varying {
                            counts,
                            displs: Some(Ints::I32(&displs)),
                            datatype: kinds[0],
                        },
                    };
                    let send = (!in_place).then(|| layout(Ints::I32(&going)));
                    let recv = layout(Ints::I32(&coming));
                    alltoall(s, team(rank, size), send, recv, algorithm);
                };
                run_one(Network::Random(seed), &what, &build, &mut send, &mut recv);
                compare(&what, &recv, &expect);
                compare(&what, &send, &sent);
            }
        }
    }
}

#[test]
fn movement_costs() {
    let int = Datatype::predefined(Predefined::Int);
    let part = Part {
        count: 1,
        datatype: &int,
    };
    let layout = Layout::Uniform(part);
    for size in SIZES {
        let run = |build: &dyn Fn(usize, &mut Schedule)| {
            let mut recv = vec![Buffer::of(size, &int); size];
            run_one(Network::OnePort, &size, build, &mut recv.clone(), &mut recv)
        };
        let rounds = u64::from(size.next_power_of_two().ilog2());
        let all = |algorithm| {
            run(&|rank, s| allgather(s, team(rank, size), Some(part), layout, algorithm))
        };
        assert_eq!(all(Allgather::Bruck { radix: 2 }).time, rounds);
        assert_eq!(all(Allgather::Ring).time, size as u64 - 1);
        if size % 2 == 0 {
            assert_eq!(all(Allgather::NeighborExchange).time, size as u64 / 2);
        }
        if size.is_power_of_two() {
            assert_eq!(all(Allgather::RecursiveDoubling).time, rounds);
        }
        let bruck = run(&|rank, s| {
            alltoall(s, team(rank, size), Some(layout), layout, Alltoall::Bruck);
        });
        assert_eq!(bruck.time, rounds);
        let tree = run(&|rank, s| {
            let root = (rank == 0).then_some(layout);
            gather(s, team(rank, size), 0, Some(part), root, Gather::Binomial);
        });
        assert!(tree.time <= rounds);
    }
}

#[test]
fn a_larger_radix_takes_fewer_rounds_and_more_messages() {
    let int = Datatype::predefined(Predefined::Int);
    let part = Part {
        count: 1,
        datatype: &int,
    };
    for (size, radix, rounds, messages) in [
        (8, 2, 3, 3),
        (9, 3, 2, 4),
        (16, 4, 2, 6),
        (17, 4, 3, 7),
        (16, usize::MAX, 1, 15),
        (2, 4, 1, 1),
    ] {
        let mut schedule = Schedule::new();
        let (layout, algorithm) = (Layout::Uniform(part), Allgather::Bruck { radix });
        allgather(&mut schedule, team(1, size), Some(part), layout, algorithm);
        let count = |is: fn(&Step) -> bool| schedule.steps().iter().filter(|step| is(step)).count();
        assert_eq!(
            count(|step| matches!(step, Step::Wait { .. })),
            rounds,
            "{size} {radix}"
        );
        assert_eq!(
            count(|step| matches!(step, Step::Send { .. })),
            messages,
            "{size} {radix}"
        );
    }
}
