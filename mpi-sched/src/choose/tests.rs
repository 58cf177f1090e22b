mod selections;

use super::*;
use crate::collective::{ENTRIES, entries};
use crate::rdma::RdmaAllreduce;
use crate::slots::Direct;
use crate::{Allgather, Allreduce, Alltoall, Bcast, ReduceScatter};
use mpi_types::error::Class;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
const CHAIN: Bcast = Bcast::Chain { segment: 64 * KIB };

fn situation(ranks: usize, bytes: usize) -> Situation {
    Situation {
        ranks,
        per_node: ranks,
        bytes,
        commutes: true,
    }
}

/// As ranks see their slots that have a core each.
fn seen(direct: Direct) -> Slots {
    Slots {
        rank: 0,
        size: 16,
        room: 32 * KIB,
        depth: 8,
        direct,
        is_nonblocking: false,
        crowded: false,
    }
}

fn text(choices: &Choices) -> String {
    format!("{choices:?}")
}

#[test]
fn every_name_can_be_asked_for_and_others_cannot() {
    let algorithms = ENTRIES
        .iter()
        .map(|entry| (entry.collective.name(), entry.name));
    let switches = Switch::ALL.into_iter().flat_map(|switch| {
        let name = switch.name();
        [(name, "on"), (name, "off")]
    });
    for (name, algorithm) in algorithms.chain(switches) {
        let mut choices = Choices::default();
        choices.set(name, algorithm).unwrap();
        assert_ne!(text(&choices), text(&Choices::default()));
        choices.set(name, "auto").unwrap();
        assert_eq!(text(&choices), text(&Choices::default()));
        let error = Choices::default().set(name, "magic").unwrap_err();
        assert_eq!(error.class(), Class::Arg);
        assert!(error.detail().contains(algorithm), "{error}");
    }
    let error = Choices::default().set("bcst", "auto").unwrap_err();
    assert!(error.detail().contains("bcast"), "{error}");
}

#[test]
fn names_may_be_spelled_as_mpi_does() {
    for entry in ENTRIES {
        let (collective, name) = (entry.collective.name(), entry.name);
        let (mut one, mut other) = (Choices::default(), Choices::default());
        one.set(collective, name).unwrap();
        other
            .set(&collective.replace('_', "-"), &name.replace('-', "_"))
            .unwrap();
        assert_eq!(text(&one), text(&other), "{collective} {name}");
    }
    for name in ["reduce_scatter", "reduce-scatter"] {
        let mut choices = Choices::default();
        choices
            .read_table(&format!("{name} 2 1 0 pairwise"))
            .unwrap();
        let chosen = choices.reduce_scatter(&situation(4, 8));
        assert_eq!(chosen, ReduceScatter::Pairwise);
    }
}

#[test]
fn scans_go_by_slots_or_messages_as_asked() {
    for scan in [Collective::Scan, Collective::Exscan] {
        let mut choices = Choices::default();
        let in_slots = |choices: &Choices| choices.in_slots(scan, &situation(4, 8), Locality::NODE);
        assert!(in_slots(&choices));
        choices.set(scan.name(), "recursive-doubling").unwrap();
        assert!(!in_slots(&choices));
        choices.set(scan.name(), "slots").unwrap();
        assert!(in_slots(&choices));
        let rule = format!("{} 2 1 0 recursive-doubling", scan.name());
        choices.read_table(&rule).unwrap();
        choices.set(scan.name(), "auto").unwrap();
        assert!(!in_slots(&choices));
    }
}

#[test]
fn distinct_names_are_distinct_algorithms() {
    for collective in Collective::ALL {
        let mut seen = std::collections::BTreeSet::new();
        for entry in entries(collective) {
            let mut choices = Choices::default();
            choices.set(collective.name(), entry.name).unwrap();
            assert!(seen.insert(text(&choices)), "{collective:?} {}", entry.name);
        }
    }
}

#[test]
fn trees_by_writes_have_the_degrees_of_the_builders() {
    let named = ENTRIES.iter().filter(|entry| entry.name == "rdma-tree");
    for parameter in named.flat_map(|entry| entry.parameters) {
        let degrees = crate::rdma::DEGREES.map(|degree| degree as usize);
        assert_eq!(parameter.values, degrees, "{}", parameter.help);
    }
}

#[test]
fn parameters() {
    let mut choices = Choices::default();
    choices.set("bcast", "chain:1000").unwrap();
    let chosen = choices.bcast(&situation(4, 8));
    assert_eq!(chosen, Bcast::Chain { segment: 1000 });
    for wrong in ["chain:", "chain:0", "chain:x", "binomial:3", "chain:-1"] {
        assert!(choices.set("bcast", wrong).is_err(), "{wrong}");
    }
    choices.set("alltoall", "pairwise:2").unwrap();
    let chosen = choices.alltoall(&situation(4, 8));
    assert_eq!(chosen, Alltoall::Pairwise { window: 2 });
    assert!(choices.set("reduce_scatter", "pairwise:2").is_err());
    choices.set("allgather", "bruck:4").unwrap();
    let chosen = choices.allgather(&situation(4, 8));
    assert_eq!(chosen, Allgather::Bruck { radix: 4 });
    assert!(choices.set("allgather", "bruck:1").is_err());
    let error = choices.set("allreduce", "rdma-tree:4").unwrap_err();
    assert!(error.detail().contains("1|3|7|15"), "{error}");
    choices.set("allreduce", "rdma-tree:15:7").unwrap();
    let named = choices.named(Collective::Allreduce);
    let tree = RdmaAllreduce::Tree { up: 15, down: 7 };
    assert_eq!(named, Some(Algorithm::RdmaAllreduce(tree)));
}

#[test]
fn small_and_large() {
    let choices = Choices::default();
    assert_eq!(choices.bcast(&situation(16, 8)), Bcast::Binomial);
    assert_eq!(choices.bcast(&situation(16, 64 * KIB)), Bcast::ScatterRing);
    assert_eq!(choices.bcast(&situation(4, 1024 * KIB)), CHAIN);
    let small = choices.allreduce(&situation(16, 8));
    assert_eq!(small, Allreduce::RecursiveDoubling);
    let large = situation(4, 1024 * KIB);
    assert_eq!(choices.allreduce(&large), Allreduce::Ring);
    let pair = situation(2, 64 * KIB);
    assert_eq!(choices.allreduce(&pair), Allreduce::Halving);
    let far = Situation {
        per_node: 1,
        ..pair
    };
    assert_eq!(choices.allreduce(&far), Allreduce::RecursiveDoubling);
    let ordered = Situation {
        commutes: false,
        ..large
    };
    assert_eq!(choices.allreduce(&ordered), Allreduce::Halving);
    let one_node = situation(16, 8);
    assert!(!choices.by_nodes(&one_node));
    let two_nodes = Situation {
        per_node: 8,
        ..one_node
    };
    assert!(choices.by_nodes(&two_nodes));
    let one_each = Situation {
        per_node: 1,
        ..one_node
    };
    assert!(!choices.by_nodes(&one_each));
}

#[test]
fn trees_in_slots_have_a_degree_and_pieces() {
    use crate::slots::Tree;
    let tree_of = |name: &str| {
        let mut choices = Choices::default();
        choices.set("reduce", name).unwrap();
        assert!(choices.in_slots(Collective::Reduce, &situation(16, KIB), Locality::NODE));
        let slots = seen(Direct::No);
        choices.reduce_tree(&situation(16, KIB), slots)
    };
    assert_eq!(tree_of("slots"), None);
    assert_eq!(tree_of("slots-tree"), Some(Tree::default()));
    let [degree, piece] = [2, 4096];
    let tree = Tree {
        degree,
        piece: None,
    };
    assert_eq!(tree_of("slots-tree:2"), Some(tree));
    let tree = Tree {
        degree,
        piece: Some(piece),
    };
    assert_eq!(tree_of("slots-tree:2:4096"), Some(tree));
    let mut choices = Choices::default();
    for wrong in [
        "slots-tree:",
        "slots-tree:0",
        "slots-tree:2:",
        "slots-tree:2:3:4",
        "slots:2",
    ] {
        assert!(choices.set("reduce", wrong).is_err(), "{wrong}");
    }
    assert!(choices.set("allreduce", "slots-tree").is_err());
    choices
        .read_table("reduce 16 1 300 slots-tree:3:512")
        .unwrap();
    let degree = |choices: &Choices, bytes| {
        let tree = choices.reduce_tree(&situation(16, bytes), seen(Direct::No));
        tree.map(|tree| tree.degree)
    };
    assert_eq!(degree(&choices, 299), Some(4));
    assert_eq!(degree(&choices, 300), Some(3));
    choices.read_table("reduce 16 1 300 slots").unwrap();
    assert_eq!(degree(&choices, 300), None);
}

#[test]
fn reductions_are_direct_where_that_was_asked_for() {
    let long = situation(16, 1024 * KIB);
    let mut choices = Choices::default();
    let slots = seen(Direct::Possible);
    for collective in [Collective::Reduce, Collective::Allreduce] {
        assert!(!choices.goes_direct(collective, &situation(16, KIB), slots));
        assert!(!choices.asks_for_direct(collective, &long, Locality::NODE));
    }
    choices.set("reduce", "direct:1000").unwrap();
    choices.set("allreduce", "direct").unwrap();
    let pieces = |choices: &Choices| {
        let of = |collective| choices.direct_chunk(collective, &long, slots);
        (of(Collective::Reduce), of(Collective::Allreduce))
    };
    assert_eq!(pieces(&choices), (Some(1000), None));
    choices.set("allreduce", "direct:2000").unwrap();
    assert_eq!(pieces(&choices), (Some(1000), Some(2000)));
    assert!(choices.asks_for_direct(Collective::Reduce, &long, Locality::NODE));
    choices.set("reduce", "slots").unwrap();
    assert!(!choices.asks_for_direct(Collective::Reduce, &long, Locality::NODE));
    assert_eq!(pieces(&choices), (None, Some(2000)));
    assert!(choices.set("bcast", "direct:1000").is_err());
    for collective in [Collective::Reduce, Collective::Allreduce] {
        let short = situation(16, KIB);
        choices.set(collective.name(), "direct").unwrap();
        assert!(choices.goes_direct(collective, &short, slots));
        // What was asked for otherwise is not direct, however long.
        choices.set(collective.name(), "slots").unwrap();
        assert!(!choices.goes_direct(collective, &situation(16, 64 * MIB), slots));
    }
    choices
        .read_table("alltoall 3 1 4000 slots\nalltoall 3 1 64000 direct")
        .unwrap();
    let at = |bytes| situation(16, bytes);
    assert!(!choices.goes_direct(Collective::Alltoall, &at(63999), slots));
    assert!(choices.asks_for_direct(Collective::Alltoall, &at(64000), Locality::NODE));
}
