use super::*;
use crate::Reduction;
use crate::nodes::{self, BetweenNodes, NodeAlgorithm, Nodes};
use crate::{Allreduce, Part};

/// Blocks of ranks on each node, ranks dealt out in turn, nodes at random.
fn placements(seed: u64, size: usize) -> Vec<Vec<u32>> {
    let mut rng = Rng::new(seed);
    let per = 1 + rng.below(size as u64);
    let size = size as u64;
    vec![
        (0..size).map(|rank| (rank / per) as u32).collect(),
        (0..size).map(|rank| (rank % per) as u32).collect(),
        (0..size)
            .map(|_| 90 + rng.below(1 + size / 3) as u32)
            .collect(),
    ]
}

fn by_messages<A, W>(how: A) -> NodeAlgorithm<A, W> {
    NodeAlgorithm {
        within: None,
        between: BetweenNodes::Messages(how),
    }
}

#[test]
fn nodes_are_told_apart() {
    let nodes = Nodes::new(3, &[7, 5, 7, 5, 9]);
    assert_eq!((nodes.count(), nodes.largest()), (3, 2));
    assert!(!nodes.in_order());
    let node = nodes.node();
    assert_eq!((node.rank, node.size(), node.peer(0)), (1, 2, 1));
    assert!(nodes.leaders().is_none());
    let nodes = Nodes::new(4, &[7, 5, 7, 5, 9]);
    let leaders = nodes.leaders().unwrap();
    assert_eq!((leaders.rank, leaders.size()), (2, 3));
    assert_eq!(
        (leaders.peer(0), leaders.peer(1), leaders.peer(2)),
        (0, 1, 4)
    );
    assert!(Nodes::new(0, &[3, 3, 1, 1, 1, 2]).in_order());
}

#[test]
fn by_nodes_is_right() {
    let seed = seed();
    for size in SIZES {
        for node_of in placements(seed, size) {
            let nodes: Vec<Nodes> = (0..size).map(|r| Nodes::new(r as u32, &node_of)).collect();
            for (datatype, count) in types().iter().zip(cycle([5, 1, 9, 2], size)) {
                let what = (&node_of, datatype);
                let network = Network::Random(seed);
                let part = Part { count, datatype };
                let packed: Vec<_> = (0..size)
                    .map(|i| data(seed, i as u64, part.bytes()))
                    .collect();
                let each: Vec<_> = packed
                    .iter()
                    .map(|p| Buffer::with(count, datatype, p))
                    .collect();
                for root in roots(size) {
                    let build = |rank: usize, s: &mut Schedule| {
                        let ways = by_messages(());
                        nodes::bcast(s, &nodes[rank], root as u32, part, ways);
                    };
                    let mut recv = vec![Buffer::of(count, datatype); size];
                    recv[root] = each[root].clone();
                    run_one(network, &what, &build, &mut each.clone(), &mut recv);
                    compare(
                        &("bcast", root, what),
                        &recv,
                        &vec![each[root].clone(); size],
                    );
                }
                for case in 0..4 {
                    let (in_place, commutes) = (case & 1 == 1, case & 2 == 2);
                    if !commutes && !nodes[0].in_order() {
                        continue;
                    }
                    let op = operation(commutes);
                    let build = |rank: usize, s: &mut Schedule| {
                        let ways = by_messages(Allreduce::RecursiveDoubling);
                        nodes::allreduce(
                            s,
                            &nodes[rank],
                            Reduction::new(in_place, part, &op),
                            ways,
                        );
                    };
                    let mut recv = match in_place {
                        true => each.clone(),
                        false => vec![Buffer::of(count, datatype); size],
                    };
                    run_one(network, &what, &build, &mut each.clone(), &mut recv);
                    let sum = reduced(commutes, packed.iter());
                    let expect = vec![Buffer::with(count, datatype, &sum); size];
                    compare(&("allreduce", in_place, commutes, what), &recv, &expect);
                }
            }
        }
    }
}

#[test]
fn barrier_by_nodes_waits_for_the_last() {
    let seed = seed();
    for size in SIZES {
        for node_of in placements(seed, size) {
            for late in roots(size) {
                let build = |rank: usize, s: &mut Schedule| {
                    if rank == late {
                        let nothing = crate::Block::empty();
                        (0..100)
                            .for_each(|_| s.exchange(rank as u32, nothing, rank as u32, nothing));
                    }
                    nodes::barrier(s, &Nodes::new(rank as u32, &node_of), by_messages(()));
                };
                let mut none = vec![Buffer::new(0); size];
                let cost = run_one(
                    Network::OnePort,
                    &size,
                    &build,
                    &mut none.clone(),
                    &mut none,
                );
                assert!(
                    cost.done.iter().all(|&done| done >= 100),
                    "{node_of:?}, {late}: {cost:?}"
                );
            }
        }
    }
}
