//! Groups compared with lists of their members.

use std::collections::HashSet;

use mpi_core::group::{Comparison, Group};
use mpi_core::{Class, Result};
use proptest::prelude::*;

/// Distinct peers: shuffled, or regular with some disturbed.
fn members() -> impl Strategy<Value = Vec<u32>> {
    let set = prop::collection::hash_set(0u32..60, 0..40);
    let shuffled = set.prop_map(|set| set.into_iter().collect::<Vec<_>>());
    let regular =
        (0u32..20, 1u32..4, 0u32..30, any::<bool>()).prop_map(|(first, stride, count, reverse)| {
            let mut peers: Vec<u32> = (0..count).map(|i| first + i * stride).collect();
            if reverse {
                peers.reverse();
            }
            peers
        });
    let mixed = (0u32..10, 10u32..20, 30u32..50)
        .prop_map(|(a, b, c)| (a..b).rev().chain(20..c).collect::<Vec<_>>());
    prop_oneof![
        shuffled,
        regular,
        mixed,
        Just(vec![u32::MAX, 0, 7, u32::MAX - 1])
    ]
}

fn group(peers: &[u32]) -> Group {
    Group::from_peers(peers).unwrap()
}

fn list(group: &Group) -> Vec<u32> {
    group.peers().collect()
}

proptest! {
    #[test]
    fn ranks_and_peers_map_to_each_other(peers in members()) {
        let g = group(&peers);
        prop_assert_eq!(g.size() as usize, peers.len());
        prop_assert_eq!(&list(&g), &peers);
        for rank in 0..peers.len() + 2 {
            prop_assert_eq!(g.get(rank as u32), peers.get(rank).copied());
        }
        for peer in (0..130).chain([u32::MAX, u32::MAX - 1, u32::MAX - 2]) {
            let rank = peers.iter().position(|&p| p == peer).map(|r| r as u32);
            prop_assert_eq!(g.rank_of(peer), rank);
        }
    }

    #[test]
    fn set_operations(a in members(), b in members()) {
        let (x, y) = (group(&a), group(&b));
        let only = |keep| -> Vec<u32> { a.iter().copied().filter(|p| b.contains(p) == keep).collect() };
        let (inside, outside) = (only(true), only(false));
        prop_assert_eq!(list(&x.intersection(&y)), inside);
        prop_assert_eq!(list(&x.difference(&y)), outside);
        let union: Vec<_> =
            a.iter().chain(b.iter().filter(|p| !a.contains(p))).copied().collect();
        prop_assert_eq!(list(&x.union(&y)), union);
        let same = a.len() == b.len() && a.iter().all(|p| b.contains(p));
        let want = match (a == b, same) {
            (true, _) => Comparison::Ident,
            (_, true) => Comparison::Similar,
            _ => Comparison::Unequal,
        };
        prop_assert_eq!(x.compare(&y), want);
        for (rank, &peer) in a.iter().enumerate() {
            let there = b.iter().position(|&p| p == peer).map(|r| r as u32);
            prop_assert_eq!(x.translate(rank as i32, &y).unwrap(), there);
        }
    }

    #[test]
    fn include_and_exclude(peers in members(), ranks in prop::collection::vec(-2i32..40, 0..12)) {
        let g = group(&peers);
        let distinct = ranks.iter().collect::<HashSet<_>>().len() == ranks.len();
        let valid = distinct && ranks.iter().all(|r| (0..peers.len() as i32).contains(r));
        if valid {
            let want: Vec<_> = ranks.iter().map(|&r| peers[r as usize]).collect();
            prop_assert_eq!(list(&g.incl(&ranks).unwrap()), want);
            let rest = (0..peers.len()).filter(|&r| !ranks.contains(&(r as i32)));
            let want: Vec<_> = rest.map(|r| peers[r]).collect();
            prop_assert_eq!(list(&g.excl(&ranks).unwrap()), want);
        } else {
            prop_assert_eq!(g.incl(&ranks).unwrap_err().class(), Class::Rank);
            prop_assert_eq!(g.excl(&ranks).unwrap_err().class(), Class::Rank);
        }
    }

    #[test]
    fn ranges(
        peers in members(),
        ranges in prop::collection::vec([-1i32..40, -1i32..40, -3i32..4], 0..3),
    ) {
        let g = group(&peers);
        // The standard's formula, one rank after the other.
        let mut ranks = Vec::new();
        let mut bad = false;
        for &[first, last, stride] in &ranges {
            let away = (last - first).signum() * stride.signum() < 0;
            if stride == 0 || away {
                bad = true;
                break;
            }
            ranks.extend((0..=(last - first) / stride).map(|i| first + i * stride));
        }
        let want = if bad { None } else { g.incl(&ranks).ok() };
        let got = g.range_incl(&ranges);
        prop_assert_eq!(got.as_ref().ok().map(list), want.as_ref().map(list));
        let rest = if bad { None } else { g.excl(&ranks).ok() };
        let got = g.range_excl(&ranges).ok();
        prop_assert_eq!(got.as_ref().map(list), rest.as_ref().map(list));
    }
}

#[test]
fn empty_and_large() {
    let empty = Group::empty();
    assert_eq!(empty.size(), 0);
    assert_eq!(empty.compare(&Group::identity(0)), Comparison::Ident);
    assert!(
        empty
            .translate(0, &empty)
            .unwrap_err()
            .detail()
            .contains("empty")
    );
    let world = Group::identity(1_000_000);
    assert_eq!(world.rank_of(999_999), Some(999_999));
    assert_eq!(world.rank_of(1_000_000), None);
    let odd = world.range_incl(&[[1, 999_999, 2]]).unwrap();
    assert_eq!(odd.as_strided(), Some((1, 2)));
    assert_eq!(odd.rank_of(5), Some(2));
    assert_eq!(odd.rank_of(6), None);
    let even = world.difference(&odd);
    assert_eq!((even.size(), even.peer(3)), (500_000, 6));
}

#[test]
fn errors_name_the_rank_and_the_reason() {
    let g = Group::identity(8);
    let text = |r: Result<Group>| r.unwrap_err().to_string();
    assert!(text(g.incl(&[1, 9])).contains("rank is 9; it must be in 0 to 7"));
    assert!(text(g.incl(&[1, 2, 1])).contains("rank 1 is given twice"));
    assert!(text(g.range_incl(&[[0, 5, 0]])).contains("stride is 0"));
    assert!(text(g.range_incl(&[[0, 5, -1]])).contains("change its sign"));
    assert!(text(g.range_incl(&[[i32::MIN, i32::MAX, 1]])).contains("rank is"));
    assert!(text(g.range_excl(&[[0, 7, 1], [3, 3, 1]])).contains("twice"));
    let class = |r: Result<Group>| r.unwrap_err().class();
    assert_eq!(class(g.range_incl(&[[0, 5, 0]])), Class::Arg);
    assert_eq!(class(Group::from_peers(&[4, 4])), Class::Group);
}
