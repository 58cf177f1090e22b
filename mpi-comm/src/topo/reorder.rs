//! Mapping of a Cartesian topology to nodes (the `reorder` argument of `MPI_Cart_create`).

use std::cmp::Reverse;
use std::collections::HashMap;

use super::Cart;

/// Block shapes whose exact cost is computed, after an estimate has selected the most promising.
const TRIED: usize = 4;

/// Returns new ranks for a Cartesian topology such that processes of a node form blocks of the grid
/// and few neighbours are on different nodes.
///
/// `nodes[r]` identifies the node of old rank `r`, for as many ranks as the topology has. The
/// result has the new rank of each old rank: a permutation with never more neighbours on different
/// nodes than the old ranks have. It is deterministic, so every process computes the same.
///
/// # Panics
///
/// If there are not as many nodes as ranks in the topology.
pub fn reorder(cart: &Cart, nodes: &[u32]) -> Vec<u32> {
    assert_eq!(nodes.len(), cart.size() as usize, "a node for each rank");
    let identity: Vec<u32> = (0..cart.size()).collect();
    let places = ranks_by_node(nodes);
    if places.len() < 2 || places.len() == nodes.len() {
        return identity;
    }
    let at_identity = identity
        .iter()
        .map(|&r| nodes[r as usize])
        .collect::<Vec<_>>();
    let mut best = (cut(cart, &at_identity), identity);
    for shape in shapes(cart, usual_count(&places)) {
        // Nodes fill the grid one after the other, in the order of its blocks.
        let mut new_ranks = vec![0; nodes.len()];
        let mut node_at = vec![0; nodes.len()];
        let old_ranks = places.iter().flat_map(|(node, ranks)| {
            let node = *node;
            ranks.iter().map(move |&rank| (node, rank))
        });
        for (position, (node, old)) in block_order(cart, &shape).into_iter().zip(old_ranks) {
            new_ranks[old as usize] = position;
            node_at[position as usize] = node;
        }
        let cost = cut(cart, &node_at);
        if cost < best.0 {
            best = (cost, new_ranks);
        }
    }
    best.1
}

/// Returns the nodes in the order of their first ranks, each with its ranks.
pub(super) fn ranks_by_node(nodes: &[u32]) -> Vec<(u32, Vec<u32>)> {
    let mut places: Vec<(u32, Vec<u32>)> = Vec::new();
    let mut known = HashMap::new();
    for (rank, &node) in nodes.iter().enumerate() {
        let at = *known.entry(node).or_insert_with(|| {
            places.push((node, Vec::new()));
            places.len() - 1
        });
        places[at].1.push(rank as u32);
    }
    places
}

/// Returns the number of ranks that most nodes have; the larger one if two are equally frequent.
fn usual_count(places: &[(u32, Vec<u32>)]) -> u32 {
    let mut counts: Vec<usize> = places.iter().map(|place| place.1.len()).collect();
    counts.sort_unstable();
    let groups = counts.chunk_by(|a, b| a == b);
    groups
        .max_by_key(|group| group.len())
        .map_or(1, |group| group[0]) as u32
}

/// Returns the most promising shapes of blocks of `count` grid points, as extents along the
/// dimensions.
fn shapes(cart: &Cart, count: u32) -> Vec<Vec<u32>> {
    fn collect(cart: &Cart, rest: u32, shape: &mut Vec<u32>, out: &mut Vec<Vec<u32>>) {
        let Some(dimension) = cart.dimensions().get(shape.len()) else {
            if rest == 1 {
                out.push(shape.clone());
            }
            return;
        };
        for extent in (1..=rest.min(dimension.size)).filter(|extent| rest.is_multiple_of(*extent)) {
            shape.push(extent);
            collect(cart, rest / extent, shape, out);
            shape.pop();
        }
    }
    let mut all = Vec::new();
    collect(cart, count, &mut Vec::new(), &mut all);
    // Sort by faces towards other blocks; blocks that don't fill the grid evenly come last.
    let estimate = |shape: &Vec<u32>| {
        let dimensions = || cart.dimensions().iter().zip(shape);
        let cut = dimensions().filter(|(d, extent)| d.size > **extent);
        let faces: u64 = cut.map(|(_, &extent)| u64::from(count / extent)).sum();
        let uneven = dimensions().any(|(d, extent)| d.size % extent != 0);
        (uneven, faces)
    };
    all.sort_by_cached_key(|shape| (estimate(shape), Reverse(shape.clone())));
    all.truncate(TRIED);
    // One block: node after node in row-major order, for counts that form no block.
    all.push(cart.dimensions().iter().map(|d| d.size).collect());
    all
}

/// Returns the ranks of the topology block after block, row-major among and within blocks.
fn block_order(cart: &Cart, shape: &[u32]) -> Vec<u32> {
    let key = |&rank: &u32| {
        let (mut rest, mut block, mut within) = (rank, 0, 0);
        let (mut blocks, mut points) = (1, 1);
        for (dimension, extent) in cart.dimensions().iter().zip(shape).rev() {
            let coord = rest % dimension.size;
            rest /= dimension.size;
            block += coord / extent * blocks;
            within += coord % extent * points;
            blocks *= dimension.size.div_ceil(*extent);
            points *= extent;
        }
        (block, within)
    };
    let mut ranks: Vec<u32> = (0..cart.size()).collect();
    ranks.sort_by_cached_key(key);
    ranks
}

/// Returns the number of neighbour pairs on different nodes, given the node at each grid point.
fn cut(cart: &Cart, node_at: &[u32]) -> u64 {
    let mut count = 0;
    let mut stride = 1;
    for dimension in cart.dimensions().iter().rev() {
        let size = dimension.size as usize;
        for (rank, node) in node_at.iter().enumerate() {
            let coord = rank / stride % size;
            let next = if coord + 1 < size {
                rank + stride
            } else if dimension.periodic {
                rank - coord * stride
            } else {
                continue;
            };
            count += u64::from(node_at[next] != *node);
        }
        stride *= size;
    }
    count
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cost(cart: &Cart, nodes: &[u32], new_ranks: &[u32]) -> u64 {
        let mut node_at = vec![u32::MAX; nodes.len()];
        for (old, &new) in new_ranks.iter().enumerate() {
            assert_eq!(node_at[new as usize], u32::MAX, "rank {new} is given twice");
            node_at[new as usize] = nodes[old];
        }
        cut(cart, &node_at)
    }

    #[test]
    fn blocks_of_a_square_grid() {
        // 8 x 8 on 4 nodes of 16: quadrants, 2 x 8 pairs apart; rows would be 3 x 8.
        let cart = Cart::new(64, &[8, 8], &[false, false]).unwrap();
        let nodes: Vec<u32> = (0..64).map(|r| 10 + r / 16).collect();
        let identity: Vec<u32> = (0..64).collect();
        assert_eq!(cost(&cart, &nodes, &identity), 24);
        assert_eq!(cost(&cart, &nodes, &reorder(&cart, &nodes)), 16);
        // With ranks dealt to the nodes in turn, nearly all neighbours are on different nodes at
        // first.
        let dealt: Vec<u32> = (0..64).map(|r| r % 4).collect();
        assert_eq!(cost(&cart, &dealt, &reorder(&cart, &dealt)), 16);
        // 11 forms no block: rows are better than nothing.
        let dealt: Vec<u32> = (0..64).map(|r| r % 6).collect();
        let (before, after) = (&identity, reorder(&cart, &dealt));
        assert!(2 * cost(&cart, &dealt, &after) < cost(&cart, &dealt, before));
    }

    #[test]
    fn three_dimensions_with_a_torus() {
        // 4 x 4 x 4 on 8 nodes of 8: cubes of 2, each direction has 2 cuts of 16 pairs.
        let cart = Cart::new(64, &[4, 4, 4], &[true, true, true]).unwrap();
        let nodes: Vec<u32> = (0..64).map(|r| r / 8).collect();
        assert_eq!(cost(&cart, &nodes, &reorder(&cart, &nodes)), 96);
    }

    #[test]
    fn one_node_or_one_rank_per_node_changes_nothing() {
        let cart = Cart::new(6, &[2, 3], &[true, false]).unwrap();
        let identity: Vec<u32> = (0..6).collect();
        assert_eq!(reorder(&cart, &[3; 6]), identity);
        assert_eq!(reorder(&cart, &[5, 4, 3, 2, 1, 0]), identity);
        let point = Cart::new(1, &[], &[]).unwrap();
        assert_eq!(reorder(&point, &[9]), [0]);
    }

    proptest! {
        #[test]
        fn is_a_permutation_that_is_never_worse(
            dims in prop::collection::vec((1i32..6, any::<bool>()), 1..4),
            seed in prop::collection::vec(0u32..5, 125),
        ) {
            let (sizes, periods): (Vec<_>, Vec<_>) = dims.into_iter().unzip();
            let cart = Cart::new(1000, &sizes, &periods).unwrap();
            let nodes = &seed[..cart.size() as usize];
            let identity: Vec<u32> = (0..cart.size()).collect();
            let new_ranks = reorder(&cart, nodes);
            prop_assert!(cost(&cart, nodes, &new_ranks) <= cost(&cart, nodes, &identity));
            prop_assert_eq!(new_ranks, reorder(&cart, nodes));
        }
    }
}
