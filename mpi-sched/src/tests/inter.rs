use super::*;
use crate::inter::{self, Inter, Root};
use crate::{Ints, Layout, Part};

const GROUPS: [(usize, usize); 10] = [
    (1, 1),
    (1, 3),
    (2, 1),
    (2, 5),
    (4, 4),
    (7, 3),
    (6, 9),
    (8, 1),
    (16, 17),
    (5, 33),
];

/// Two groups in one world: the first ranks and the rest.
#[derive(Clone, Copy, Debug)]
struct Two {
    a: usize,
    b: usize,
}

impl Two {
    fn size(self) -> usize {
        self.a + self.b
    }
    fn of(self, rank: usize) -> Inter {
        let (local, remote, first) = self.sides(rank);
        Inter::new((rank - first) as u32, local as u32, remote as u32)
    }
    /// Sizes of a world rank's own group and the other one, and its group's first rank.
    fn sides(self, rank: usize) -> (usize, usize, usize) {
        match rank < self.a {
            true => (self.a, self.b, 0),
            false => (self.b, self.a, self.a),
        }
    }
    /// First rank of the other group.
    fn other(self, rank: usize) -> usize {
        if rank < self.a { self.a } else { 0 }
    }
    /// The root argument of a world rank when the root is that world rank.
    fn root(self, rank: usize, root: usize) -> Root {
        match ((rank < self.a) == (root < self.a), rank == root) {
            (true, true) => Root::This,
            (true, false) => Root::Other,
            _ => Root::Rank((root - self.other(rank)) as u32),
        }
    }
    fn run(
        self,
        network: Network,
        what: &dyn std::fmt::Debug,
        build: &dyn Fn(usize, &mut Schedule),
        send: &mut [Buffer],
        recv: &mut [Buffer],
    ) -> Cost {
        let peers = |rank: u32, to: u32| match (rank as usize) < self.a {
            true => to,
            false if (to as usize) < self.b => to + self.a as u32,
            false => to - self.b as u32,
        };
        run_between(network, what, build, send, recv, &peers)
    }
}

fn groups() -> impl Iterator<Item = Two> {
    GROUPS.into_iter().map(|(a, b)| Two { a, b })
}

fn some_roots(two: Two) -> [usize; 4] {
    [0, two.a - 1, two.a, two.size() - 1]
}

#[test]
fn barrier_waits_for_the_other_group() {
    for two in groups() {
        // Rank by rank is late; everyone of the other group has to wait for it.
        for late in [0, two.a - 1, two.size() - 1] {
            let build = |rank: usize, s: &mut Schedule| {
                if rank == late {
                    // Messages to itself: its own number is the same on both sides.
                    let local = (rank - two.sides(rank).2) as u32;
                    for _ in 0..100 {
                        let nothing = crate::Block::empty();
                        s.exchange(local, nothing, local, nothing);
                    }
                }
                inter::barrier(s, two.of(rank));
            };
            let mut none = vec![Buffer::new(0); two.size()];
            let cost = two.run(Network::OnePort, &two, &build, &mut none.clone(), &mut none);
            for (rank, &done) in cost.done.iter().enumerate() {
                if two.other(rank) != two.other(late) {
                    assert!(done >= 100, "{two:?}, late {late}: {cost:?}");
                }
            }
        }
    }
}

#[test]
fn rooted_are_right() {
    let seed = seed();
    for two in groups() {
        for (datatype, count) in types().iter().zip(cycle([3, 0, 1, 7], two.size())) {
            for (root, commutes) in some_roots(two)
                .into_iter()
                .zip([true, false].into_iter().cycle())
            {
                let what = (two, datatype, count, root);
                let network = Network::Random(seed);
                let part = Part { count, datatype };
                let block = count as isize * datatype.extent();
                let size = two.size();
                let (local, remote, _) = two.sides(root);
                let others = two.other(root)..two.other(root) + remote;
                assert_eq!(local + remote, size);
                let packed: Vec<_> = (0..size)
                    .map(|i| data(seed, i as u64, part.bytes()))
                    .collect();
                let each: Vec<_> = packed
                    .iter()
                    .map(|p| Buffer::with(count, datatype, p))
                    .collect();
                let blank = vec![Buffer::of(count, datatype); size];
                let mut all = Buffer::of(remote * count, datatype);
                for (i, from) in others.clone().enumerate() {
                    all.put(i as isize * block, datatype, &packed[from]);
                }
                let layout = Layout::Uniform(part);

                let build = |rank: usize, s: &mut Schedule| {
                    inter::bcast(s, two.of(rank), two.root(rank, root), part);
                };
                let mut recv = each.clone();
                two.run(network, &what, &build, &mut each.clone(), &mut recv);
                let mut expect = each.clone();
                expect[others.clone()].fill(each[root].clone());
                compare(&("bcast", what), &recv, &expect);

                let build = |rank: usize, s: &mut Schedule| {
                    let root = two.root(rank, root);
                    inter::gather(s, two.of(rank), root, Some(part), Some(layout));
                };
                let mut recv = blank.clone();
                recv[root] = Buffer::of(remote * count, datatype);
                two.run(network, &what, &build, &mut each.clone(), &mut recv);
                let mut expect = blank.clone();
                expect[root] = all.clone();
                compare(&("gather", what), &recv, &expect);

                let build = |rank: usize, s: &mut Schedule| {
                    let root = two.root(rank, root);
                    inter::scatter(s, two.of(rank), root, Some(layout), Some(part));
                };
                let (mut send, mut recv) = (blank.clone(), blank.clone());
                send[root] = all;
                two.run(network, &what, &build, &mut send, &mut recv);
                let mut expect = blank.clone();
                expect[others.clone()].clone_from_slice(&each[others.clone()]);
                compare(&("scatter", what), &recv, &expect);

                let op = operation(commutes);
                let build = |rank: usize, s: &mut Schedule| {
                    inter::reduce(s, two.of(rank), two.root(rank, root), part, &op);
                };
                let mut recv = blank.clone();
                two.run(network, &what, &build, &mut each.clone(), &mut recv);
                let result = reduced(commutes, packed[others].iter());
                let mut expect = blank.clone();
                expect[root] = Buffer::with(count, datatype, &result);
                compare(&("reduce", what), &recv, &expect);
            }
        }
    }
}

#[test]
fn allgather_is_right() {
    let seed = seed();
    for two in groups() {
        for (datatype, varying) in types().iter().flat_map(|t| [(t, false), (t, true)]) {
            let what = (two, datatype, varying);
            let size = two.size();
            let count = |rank: usize| match varying {
                true => rank * 3 % 4,
                // The two groups need not send as much as each other.
                false => 2 + usize::from(rank < two.a),
            };
            let len = |rank: usize| count(rank) * datatype.size();
            let packed: Vec<_> = (0..size).map(|i| data(seed, i as u64, len(i))).collect();
            let others = |rank: usize| two.other(rank)..two.other(rank) + two.sides(rank).1;
            let total = |rank: usize| others(rank).map(count).sum::<usize>();
            let displs = |rank: usize| -> Vec<i32> {
                let mut at = 0;
                let step = |from: usize| {
                    at += count(from) as i32 + 1;
                    at - count(from) as i32
                };
                match varying {
                    true => others(rank).map(step).collect(),
                    false => (0..others(rank).len())
                        .map(|i| (i * (total(rank) / others(rank).len())) as i32)
                        .collect(),
                }
            };
            let room = |rank: usize| Buffer::of(total(rank) + others(rank).len() + 1, datatype);
            let mut send: Vec<_> = (0..size)
                .map(|i| Buffer::with(count(i), datatype, &packed[i]))
                .collect();
            let mut recv: Vec<_> = (0..size).map(room).collect();
            let mut expect = recv.clone();
            for (rank, expect) in expect.iter_mut().enumerate() {
                for (from, at) in others(rank).zip(displs(rank)) {
                    expect.put(at as isize * datatype.extent(), datatype, &packed[from]);
                }
            }
            let build = |rank: usize, s: &mut Schedule| {
                let counts: Vec<i64> = others(rank).map(|from| count(from) as i64).collect();
                let displs: Vec<i64> = displs(rank).into_iter().map(i64::from).collect();
                let layout = match varying {
                    true => Layout::Varying {
                        counts: Ints::I64(&counts),
                        displs: Some(Ints::I64(&displs)),
                        datatype,
                    },
                    false => Layout::Uniform(Part {
                        count: count(two.other(rank)),
                        datatype,
                    }),
                };
                let part = Part {
                    count: count(rank),
                    datatype,
                };
                inter::allgather(s, two.of(rank), part, layout);
            };
            two.run(Network::Random(seed), &what, &build, &mut send, &mut recv);
            compare(&what, &recv, &expect);
        }
    }
}

#[test]
fn alltoall_is_right() {
    let seed = seed();
    for two in groups() {
        for (datatype, window) in types().iter().zip(cycle([1, 2, 5, usize::MAX], two.size())) {
            let what = (two, datatype, window);
            let size = two.size();
            // As much from a to b as from b to a isn't asked for.
            let count = |from: usize, to: usize| (from * 5 + to * 3) % 4;
            let packed = |from: usize, to: usize| {
                data(
                    seed,
                    (from * 64 + to) as u64,
                    count(from, to) * datatype.size(),
                )
            };
            let full = |rank: usize, of: &dyn Fn(usize) -> Vec<u8>| {
                let remote = two.sides(rank).1;
                let mut buffer = Buffer::of(4 * remote, datatype);
                for i in 0..remote {
                    let at = 4 * i as isize * datatype.extent();
                    buffer.put(at, datatype, &of(two.other(rank) + i));
                }
                buffer
            };
            let mut send: Vec<_> = (0..size).map(|r| full(r, &|to| packed(r, to))).collect();
            let mut recv: Vec<_> = (0..size).map(|r| full(r, &|_| Vec::new())).collect();
            let expect: Vec<_> = (0..size)
                .map(|r| full(r, &|from| packed(from, r)))
                .collect();
            let build = |rank: usize, s: &mut Schedule| {
                let (remote, first) = (two.sides(rank).1, two.other(rank));
                let displs: Vec<i32> = (0..remote as i32).map(|i| 4 * i).collect();
                let list = |of: &dyn Fn(usize) -> usize| -> Vec<i32> {
                    (0..remote).map(|i| of(first + i) as i32).collect()
                };
                let going = list(&|to| count(rank, to));
                let coming = list(&|from| count(from, rank));
                let layout = |counts| Layout::Varying {
                    counts: Ints::I32(counts),
                    displs: Some(Ints::I32(&displs)),
                    datatype,
                };
                inter::alltoall(s, two.of(rank), layout(&going), layout(&coming), window);
            };
            two.run(Network::Random(seed), &what, &build, &mut send, &mut recv);
            compare(&what, &recv, &expect);
        }
    }
}

#[test]
fn allreduce_and_reduce_scatter_are_right() {
    let seed = seed();
    for two in groups() {
        for (datatype, commutes) in types().iter().flat_map(|t| [(t, false), (t, true)]) {
            let what = (two, datatype, commutes);
            let size = two.size();
            let op = operation(commutes);
            // A vector that divides among the ranks of either group, unevenly.
            let count = two.a * two.b;
            let part = Part { count, datatype };
            let packed: Vec<_> = (0..size)
                .map(|i| data(seed, i as u64, part.bytes()))
                .collect();
            let mut send: Vec<_> = packed
                .iter()
                .map(|p| Buffer::with(count, datatype, p))
                .collect();
            let of_other = |rank: usize| {
                let first = two.other(rank);
                reduced(commutes, packed[first..first + two.sides(rank).1].iter())
            };
            let blank = vec![Buffer::of(count, datatype); size];

            let build = |rank: usize, s: &mut Schedule| {
                inter::allreduce(s, two.of(rank), part, &op);
            };
            let mut recv = blank.clone();
            two.run(Network::Random(seed), &what, &build, &mut send, &mut recv);
            let full = |rank| Buffer::with(count, datatype, &of_other(rank));
            let expect: Vec<_> = (0..size).map(full).collect();
            compare(&("allreduce", what), &recv, &expect);

            let counts = |rank: usize| -> Vec<i32> {
                let (local, remote, _) = two.sides(rank);
                let mut counts = vec![remote as i32; local];
                if local > 1 {
                    counts[0] += counts[local - 1];
                    counts[local - 1] = 0;
                }
                counts
            };
            let build = |rank: usize, s: &mut Schedule| {
                let counts = counts(rank);
                let layout = Layout::Varying {
                    counts: Ints::I32(&counts),
                    displs: None,
                    datatype,
                };
                inter::reduce_scatter(s, two.of(rank), layout, &op);
            };
            let mut recv = blank.clone();
            two.run(Network::Random(seed), &what, &build, &mut send, &mut recv);
            let mut expect = blank.clone();
            for (rank, expect) in expect.iter_mut().enumerate() {
                let (counts, place) = (counts(rank), rank - two.sides(rank).2);
                let start = counts[..place].iter().sum::<i32>() as usize * datatype.size();
                let len = counts[place] as usize * datatype.size();
                expect.put(0, datatype, &of_other(rank)[start..start + len]);
            }
            compare(&("reduce_scatter", what), &recv, &expect);
        }
    }
}
