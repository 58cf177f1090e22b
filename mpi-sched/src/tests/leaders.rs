//! Collectives in two levels, of which the upper one goes by writes between the nodes' leaders, and
//! the lower one by slots on some nodes and by messages on others: right whatever comes after what.

use super::sim::{DEPTH, FIRST, ROOM, run_late};
use super::*;
use crate::Reduction;
use crate::nodes::{self, BetweenNodes, NodeAlgorithm, Nodes};
use crate::rdma::{
    BLOCK, DEGREES, Pace, RdmaAllgather, RdmaAllreduce, RdmaBcast, RdmaReduce, Reach,
};
use crate::schedule::Course;
use crate::{Allgather, Allreduce, Part, Schedule, Slots};

#[derive(Clone, Copy, Debug)]
enum Kind {
    Barrier,
    Bcast(usize, RdmaBcast),
    /// The algorithm, whether in place and whether the operation commutes.
    Allreduce(RdmaAllreduce, bool, bool),
    /// The same, and the root.
    Reduce(RdmaReduce, bool, bool, usize),
    /// Whether in place.
    Allgather(RdmaAllgather, bool),
}

struct One {
    kind: Kind,
    /// Also messages between leaders, for vectors too long for slots.
    writes: bool,
    /// Whether each node goes by slots, by the lowest bits of its leader's rank.
    slots: u64,
    datatype: Datatype,
    count: usize,
    send: Vec<Buffer>,
    recv: Vec<Buffer>,
    expect: Vec<Buffer>,
}

fn reach(nodes: &Nodes) -> Option<Reach> {
    nodes.leaders().map(|leaders| Reach {
        rank: leaders.rank as u32,
        size: nodes.count() as u32,
        room: ROOM,
        depth: DEPTH,
    })
}

impl One {
    fn any(rng: &mut Rng, nodes: &Nodes, size: usize) -> One {
        let commutes = rng.below(2) == 0 || !nodes.in_order();
        let in_place = rng.below(2) == 0;
        let root = rng.below(size as u64) as usize;
        let kind = match rng.below(8) {
            0 => Kind::Barrier,
            1 => Kind::Bcast(root, RdmaBcast::Chain),
            2 => Kind::Bcast(root, RdmaBcast::Binomial { block: BLOCK }),
            3 => Kind::Allreduce(super::calls::any_way(rng), in_place, commutes),
            4 => Kind::Allreduce(RdmaAllreduce::Ring, in_place, commutes || nodes.count() > 2),
            5 => {
                let how = RdmaReduce::Tree {
                    degree: DEGREES[rng.below(4) as usize],
                };
                let commutes = commutes || nodes.node_of(root as u32) > 0;
                Kind::Reduce(how, in_place, commutes, root)
            }
            6 if nodes.are_alike() => {
                let ways = [
                    RdmaAllgather::Direct,
                    RdmaAllgather::Doubling,
                    RdmaAllgather::Ring,
                ];
                let first = if nodes.count() > 16 { 1 } else { 0 };
                Kind::Allgather(ways[first + rng.below(3 - first as u64) as usize], in_place)
            }
            _ => Kind::Reduce(RdmaReduce::Chain, in_place, true, root),
        };
        let all = types();
        let reduces = matches!(kind, Kind::Allreduce(..) | Kind::Reduce(..));
        let which = rng.below(if reduces { 2 } else { all.len() as u64 });
        let datatype = all[which as usize].clone();
        let most = match kind {
            Kind::Allreduce(RdmaAllreduce::Ring, ..) | Kind::Reduce(RdmaReduce::Chain, ..) => {
                5 * ROOM
            }
            Kind::Bcast(_, RdmaBcast::Chain) => 11 * ROOM,
            Kind::Allreduce(..) => ROOM,
            Kind::Reduce(..) => reach(&Nodes::new(0, &[0, 1])).map_or(0, |it| it.most_up()),
            // Of a node.
            Kind::Allgather(RdmaAllgather::Ring, _) => 5 * ROOM / nodes.largest(),
            Kind::Allgather(RdmaAllgather::Direct, _) => ROOM / nodes.largest(),
            Kind::Allgather(..) => ROOM / (nodes.count().next_power_of_two() / 2) / nodes.largest(),
            Kind::Barrier | Kind::Bcast(..) => 2 * ROOM,
        } / datatype.size();
        let count = rng.below(most as u64 + 1) as usize;
        let seed = rng.below(1 << 30);
        let operands: Vec<_> = (0..size)
            .map(|i| data(seed, i as u64, count * datatype.size()))
            .collect();
        let full = |packed: &Vec<u8>| Buffer::with(count, &datatype, packed);
        let blank = Buffer::of(count, &datatype);
        let vectors: Vec<Buffer> = operands.iter().map(full).collect();
        let none = vec![Buffer::new(0); size];
        let (send, recv, expect) = match kind {
            Kind::Barrier => (none.clone(), none.clone(), none),
            Kind::Bcast(root, _) => {
                let mut recv = vec![blank; size];
                recv[root] = vectors[root].clone();
                (none, recv, vec![vectors[root].clone(); size])
            }
            Kind::Allreduce(_, in_place, commutes) => {
                let sum = full(&reduced(commutes, operands.iter()));
                let recv = match in_place {
                    true => vectors.clone(),
                    false => vec![blank; size],
                };
                (vectors, recv, vec![sum; size])
            }
            Kind::Reduce(_, in_place, commutes, root) => {
                // Elsewhere than at the root nothing is written.
                let mut recv = vec![blank; size];
                let mut expect = recv.clone();
                expect[root] = full(&reduced(commutes, operands.iter()));
                if in_place {
                    recv[root] = vectors[root].clone();
                }
                (vectors, recv, expect)
            }
            Kind::Allgather(_, in_place) => {
                let whole = Buffer::with(size * count, &datatype, &operands.concat());
                let own = |(i, packed): (usize, &Vec<u8>)| {
                    let mut buffer = Buffer::of(size * count, &datatype);
                    let at = (i * count) as isize * datatype.extent();
                    if in_place {
                        buffer.put(at, &datatype, packed);
                    }
                    buffer
                };
                let recv = operands.iter().enumerate().map(own).collect();
                (vectors, recv, vec![whole; size])
            }
        };
        One {
            kind,
            writes: rng.below(5) > 0,
            slots: rng.below(1 << 16) | rng.below(1 << 16),
            datatype,
            count,
            send,
            recv,
            expect,
        }
    }

    fn build(&self, nodes: &Nodes, schedule: &mut Schedule) {
        let (count, datatype) = (self.count, &self.datatype);
        let part = Part { count, datatype };
        let reach = reach(nodes).filter(|_| self.writes);
        fn between<A, W>(reach: Option<Reach>, messages: A, writes: W) -> BetweenNodes<A, W> {
            match reach {
                Some(reach) => BetweenNodes::Writes(reach, writes),
                None => BetweenNodes::Messages(messages),
            }
        }
        let node = nodes.node();
        let within =
            (node.size() > 1 && self.slots >> (node.peer(0) % 16) & 1 == 1).then(|| Slots {
                rank: node.rank as u32,
                size: node.size() as u32,
                room: ROOM,
                depth: DEPTH,
                direct: Default::default(),
                is_nonblocking: false,
                crowded: false,
            });
        match self.kind {
            Kind::Barrier => {
                let between = between(reach, (), ());
                nodes::barrier(schedule, nodes, NodeAlgorithm { within, between });
            }
            Kind::Bcast(root, how) => {
                let between = between(reach, (), how);
                let ways = NodeAlgorithm { within, between };
                nodes::bcast(schedule, nodes, root as u32, part, ways);
            }
            Kind::Allreduce(way, in_place, commutes) => {
                let between = between(reach, Allreduce::RecursiveDoubling, way);
                let op = operation(commutes);
                let ways = NodeAlgorithm { within, between };
                nodes::allreduce(schedule, nodes, Reduction::new(in_place, part, &op), ways);
            }
            Kind::Reduce(how, in_place, commutes, root) => {
                let between = between(reach, (), how);
                let op = operation(commutes);
                let ways = NodeAlgorithm { within, between };
                nodes::reduce(
                    schedule,
                    nodes,
                    root as u32,
                    Reduction::new(in_place, part, &op),
                    ways,
                );
            }
            Kind::Allgather(how, in_place) => {
                let between = between(reach, Allgather::RecursiveDoubling, how);
                let send = (!in_place).then_some(part);
                let ways = NodeAlgorithm { within, between };
                nodes::allgather(schedule, nodes, send, part, ways);
            }
        }
    }
}

/// One after the other, with the barriers that [`Pace`] asks for.
fn in_turn(seed: u64, all: &[Nodes], late: usize, calls: &mut [One]) -> u32 {
    let mut by_slots = 0;
    let mut runs: Vec<Vec<Run<usize>>> = Vec::new();
    for (rank, nodes) in all.iter().enumerate() {
        let (mut pace, mut node_number) = (Pace::new(FIRST), FIRST);
        let mut list = Vec::new();
        for (tag, call) in (0..).zip(calls.iter_mut()) {
            let mut run = Run::new();
            call.build(nodes, run.rebuild());
            let (phases, course) = (run.schedule().phases(), run.schedule().course());
            let pieces = run.schedule().pieces();
            let writes = phases > 0 || pieces != [0; 2];
            assert!(!writes || nodes.leaders().is_some());
            if let (Some(reach), true) = (reach(nodes), writes) {
                if !pace.allows(phases, course, &reach) {
                    let mut first = Run::new();
                    nodes::leaders_barrier(first.rebuild(), nodes, reach);
                    first.set_number(pace.take(1, Course::Meets));
                    // SAFETY: no buffers are used.
                    unsafe { first.start(std::ptr::null(), std::ptr::null_mut(), 0) }.unwrap();
                    list.push(first);
                }
                run.set_number(pace.take(phases, course));
                run.set_pieces(pace.take_pieces(pieces));
            }
            run.set_node_number(node_number);
            node_number = node_number.wrapping_add(run.schedule().node_phases().into());
            by_slots += u32::from(run.schedule().node_phases() > 0);
            // SAFETY: the buffers live until the runs are done, below.
            unsafe { run.start(call.send[rank].ptr(), call.recv[rank].ptr(), tag) }.unwrap();
            list.push(run);
        }
        runs.push(list);
    }
    let network = Network::Random(seed);
    let leader = all.iter().find_map(reach).unwrap();
    let rings = |cell| leader.ring(cell);
    let (_, results) = run_late(&mut runs, network, &|_, to| to, &rings, Some(late));
    assert!(results.iter().all(|result| result.is_ok()), "{results:?}");
    for (place, call) in calls.iter().enumerate() {
        let what = (
            place,
            call.kind,
            call.count,
            &call.datatype,
            all.len(),
            late,
        );
        compare(&what, &call.recv, &call.expect);
    }
    by_slots
}

#[test]
fn every_collective_after_every_other() {
    let seed = seed();
    let mut by_slots = 0;
    for size in (3..=17).chain([31, 32, 48]) {
        let mut rng = Rng::new(seed + size as u64);
        for round in 0..4 {
            // Runs of ranks per node, ranks dealt out in turn, nodes at random.
            let per = 2 + rng.below(size as u64 / 2);
            let count = (size as u64).div_ceil(per).max(2);
            let node_of: Vec<u32> = (0..size as u64)
                .map(|rank| match round {
                    0 => rank / per,
                    1 => rank % count,
                    _ => rng.below(count),
                } as u32)
                .collect();
            let all: Vec<Nodes> = (0..size).map(|r| Nodes::new(r as u32, &node_of)).collect();
            if all[0].count() < 2 {
                continue;
            }
            let calls = if size <= 17 { 30 } else { 10 };
            let mut calls: Vec<One> = (0..calls)
                .map(|_| One::any(&mut rng, &all[0], size))
                .collect();
            let late = rng.below(size as u64) as usize;
            println!("{size} ranks, nodes {node_of:?}, rank {late} late");
            by_slots += in_turn(seed, &all, late, &mut calls);
        }
    }
    assert!(by_slots > 1000, "{by_slots} runs by slots");
}
