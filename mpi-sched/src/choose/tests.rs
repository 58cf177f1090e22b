use super::*;

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

#[test]
fn every_name_can_be_asked_for_and_others_cannot() {
    for (collective, names) in NAMES {
        for name in *names {
            let mut choices = Choices::default();
            choices.set(collective, name).unwrap();
            let set = format!("{choices:?}");
            assert_ne!(set, format!("{:?}", Choices::default()));
            choices.set(collective, "auto").unwrap();
            assert_eq!(format!("{choices:?}"), format!("{:?}", Choices::default()));
        }
        let error = Choices::default().set(collective, "magic").unwrap_err();
        assert_eq!(error.class(), Class::Arg);
        assert!(error.detail().contains(names[0]), "{error}");
    }
    let error = Choices::default().set("bcst", "auto").unwrap_err();
    assert!(error.detail().contains("bcast"), "{error}");
}

#[test]
fn names_may_be_spelled_as_mpi_does() {
    let all = NAMES
        .iter()
        .flat_map(|(collective, names)| names.iter().map(move |name| (collective, name)));
    for (collective, name) in all {
        let (mut one, mut other) = (Choices::default(), Choices::default());
        one.set(collective, name).unwrap();
        other
            .set(&collective.replace('_', "-"), &name.replace('-', "_"))
            .unwrap();
        assert_eq!(
            format!("{one:?}"),
            format!("{other:?}"),
            "{collective} {name}"
        );
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
    for scan in ["scan", "exscan"] {
        let mut choices = Choices::default();
        assert!(choices.in_slots(scan, &situation(4, 8)));
        choices.set(scan, "recursive-doubling").unwrap();
        assert!(!choices.in_slots(scan, &situation(4, 8)));
        choices.set(scan, "slots").unwrap();
        assert!(choices.in_slots(scan, &situation(4, 8)));
        choices
            .read_table(&format!("{scan} 2 1 0 recursive-doubling"))
            .unwrap();
        choices.set(scan, "auto").unwrap();
        assert!(!choices.in_slots(scan, &situation(4, 8)));
    }
}

#[test]
#[should_panic(expected = "no row of NAMES")]
#[cfg(debug_assertions)]
fn a_name_that_nobody_knows_is_noticed() {
    Choices::default().in_slots("reduce-scater", &situation(4, 8));
}

#[test]
fn distinct_names_are_distinct_algorithms() {
    for (collective, names) in NAMES {
        let mut seen = std::collections::BTreeSet::new();
        for name in *names {
            let mut choices = Choices::default();
            choices.set(collective, name).unwrap();
            assert!(seen.insert(format!("{choices:?}")), "{collective} {name}");
        }
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
    // Two ranks send each other messages, several read each other's memory.
    let goes_direct = |collective, ranks| {
        let situation = situation(ranks, 256 * KIB);
        choices.goes_direct(collective, &situation, seen(Direct::Possible))
    };
    assert!(!goes_direct("alltoall", 2) && goes_direct("alltoall", 3));
    let long = choices.alltoall(&situation(16, 16 * KIB));
    assert_eq!(long, Alltoall::Pairwise { window: 4 });
    // What several ranks read at once they read in slots, up to some MiB; the one that broadcasts stores while others
    // read.
    for (collective, ranks, bytes) in [
        ("bcast", 2, 2 * MIB),
        ("bcast", 16, 16 * MIB),
        ("allgather", 16, 16 * MIB),
        ("allreduce", 16, 8 * MIB),
        ("reduce", 16, 256 * KIB),
        ("gather", 16, 512 * KIB),
    ] {
        let most = situation(ranks, bytes);
        assert!(choices.in_slots(collective, &most), "{collective}");
        let first = ["bcast", "allgather"].contains(&collective);
        assert!(!first || !choices.goes_direct(collective, &most, seen(Direct::Possible)));
    }
    assert!(!choices.in_slots("allreduce", &situation(64, MIB)));
    let long = situation(4, MIB);
    assert!(choices.in_slots("allreduce", &long) && choices.is_long_in_a_crowd("allreduce", &long));
    assert!(!choices.is_long_in_a_crowd("allreduce", &situation(2, MIB)));
    assert!(!choices.is_long_in_a_crowd("bcast", &long));
    let mut asked = Choices::default();
    asked.set("allreduce", "slots").unwrap();
    assert!(!asked.is_long_in_a_crowd("allreduce", &long));
    assert!(!choices.in_slots("scatter", &situation(16, 4 * KIB)));
    for ranks in [2, 16] {
        let long = situation(ranks, 32 * MIB);
        assert!(choices.goes_direct("bcast", &long, seen(Direct::Possible)));
    }
    // Where one copy is quicker than two, from some KiB on.
    for (collective, bytes) in [
        ("bcast", 16 * KIB),
        ("reduce", 32 * KIB),
        ("allgather", 64 * KIB),
        ("alltoall", 32 * KIB),
    ] {
        let goes = |bytes: usize, direct: Direct| {
            choices.goes_direct(collective, &situation(2, bytes), seen(direct))
        };
        assert!(goes(bytes, Direct::Quicker) && !goes(bytes, Direct::Possible));
        assert!(!goes(bytes / 2, Direct::Quicker), "{collective}");
        assert_eq!(goes(MIB, Direct::Quicker), collective != "reduce");
    }
    let by_message = |bytes: usize, direct: Direct| {
        choices.is_for_a_message("reduce", &situation(2, bytes), direct)
    };
    assert!(by_message(64 * KIB, Direct::Quicker) && by_message(512 * KIB, Direct::Quicker));
    assert!(!by_message(64 * KIB, Direct::Possible));
    assert!(!by_message(48 * KIB, Direct::Quicker) && !by_message(MIB, Direct::Quicker));
    assert!(!choices.is_for_a_message("allreduce", &situation(2, 64 * KIB), Direct::Quicker));
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
        assert!(choices.in_slots("reduce", &situation(16, KIB)));
        let slots = seen(Direct::No);
        choices.slot_ways("reduce", &situation(16, KIB), slots).tree
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
    let ways = |bytes| choices.slot_ways("reduce", &situation(16, bytes), seen(Direct::No));
    assert_eq!(ways(299).tree.map(|tree| tree.degree), Some(4));
    assert_eq!(ways(300).tree.map(|tree| tree.degree), Some(3));
    choices.read_table("reduce 16 1 300 slots").unwrap();
    let ways = |bytes| choices.slot_ways("reduce", &situation(16, bytes), seen(Direct::No));
    assert_eq!(ways(300), SlotWays::default());
}

#[test]
fn more_than_two_ranks_with_cores_reduce_up_trees_then_by_shares() {
    let choices = Choices::default();
    let free = seen(Direct::Possible);
    let crowded = Slots {
        crowded: true,
        ..free
    };
    let several = Slots {
        is_nonblocking: true,
        ..free
    };
    let degree = |ranks: usize, slots: Slots| {
        let ways = choices.slot_ways("reduce", &situation(ranks, KIB), slots);
        ways.tree.map(|tree| tree.degree)
    };
    let degrees = [2, 3, 8, 9, 16, 128].map(|ranks| degree(ranks, free));
    assert_eq!(degrees, [None, Some(2), Some(7), Some(4), Some(4), Some(4)]);
    assert_eq!([degree(8, crowded), degree(8, several)], [None, Some(7)]);
    let ways = choices.slot_ways("allreduce", &situation(8, KIB), free);
    assert_eq!(ways, SlotWays::default());
    for direct in [Direct::Possible, Direct::Quicker] {
        let free = seen(direct);
        for (collective, ranks, most) in [
            ("reduce", 3, 256 * KIB),
            ("reduce", 8, 256 * KIB),
            ("reduce", 16, 256 * KIB - 1),
            ("reduce", 64, MIB - 1),
            ("allreduce", 3, 24 * KIB - 1),
            ("allreduce", 16, 128 * KIB - 1),
            ("allreduce", 64, 512 * KIB - 1),
            ("alltoall", 3, 8 * KIB - 1),
            ("alltoall", 16, 8 * KIB - 1),
            ("alltoall", 128, 8 * KIB - 1),
        ] {
            let goes = |bytes: usize, slots: Slots| {
                choices.goes_direct(collective, &situation(ranks, bytes), slots)
            };
            assert!(!goes(most, free), "{collective} {ranks}");
            assert!(goes(most + 1, free));
            assert!(goes(64 * MIB, free) == (collective != "alltoall"));
            for slots in [crowded, several] {
                assert!(!goes(most + 1, slots), "{collective} {ranks}");
            }
        }
    }
    // Where ranks wait for cores few read blocks directly, longer ones.
    for (ranks, bytes) in [(8, 16 * KIB + 1), (16, usize::MAX)] {
        let goes =
            |bytes: usize| choices.goes_direct("alltoall", &situation(ranks, bytes), crowded);
        assert!(goes(bytes) == (ranks == 8) && !goes(16 * KIB));
    }
}

#[test]
fn reductions_are_direct_where_that_was_asked_for() {
    let long = situation(16, 1024 * KIB);
    let mut choices = Choices::default();
    let slots = seen(Direct::Possible);
    for collective in ["reduce", "allreduce"] {
        assert!(!choices.goes_direct(collective, &situation(16, KIB), slots));
        assert!(!choices.asks_for_direct(collective, &long));
    }
    choices.set("reduce", "direct:1000").unwrap();
    choices.set("allreduce", "direct").unwrap();
    let pieces = |choices: &Choices| {
        let of = |collective| choices.slot_ways(collective, &long, slots);
        (of("reduce").reduce_piece, of("allreduce").allreduce_piece)
    };
    assert_eq!(pieces(&choices), (Some(1000), None));
    choices.set("allreduce", "direct:2000").unwrap();
    assert_eq!(pieces(&choices), (Some(1000), Some(2000)));
    assert!(choices.asks_for_direct("reduce", &long));
    choices.set("reduce", "slots").unwrap();
    assert!(!choices.asks_for_direct("reduce", &long));
    assert_eq!(pieces(&choices), (None, Some(2000)));
    assert!(choices.set("bcast", "direct:1000").is_err());
    for collective in ["reduce", "allreduce"] {
        let short = situation(16, KIB);
        choices.set(collective, "direct").unwrap();
        assert!(choices.goes_direct(collective, &short, slots));
        // What was asked for otherwise is not direct, however long.
        choices.set(collective, "slots").unwrap();
        assert!(!choices.goes_direct(collective, &situation(16, 64 * MIB), slots));
    }
    choices
        .read_table("alltoall 3 1 4000 slots\nalltoall 3 1 64000 direct")
        .unwrap();
    let at = |bytes| situation(16, bytes);
    assert!(!choices.goes_direct("alltoall", &at(63999), slots));
    assert!(choices.asks_for_direct("alltoall", &at(64000)));
}
