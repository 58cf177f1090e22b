//! Mapping of graphs to nodes (the `reorder` argument of `MPI_Graph_create`,
//! `MPI_Dist_graph_create` and `MPI_Dist_graph_create_adjacent`).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::Edge;
use super::reorder::ranks_by_node;

/// An edge of a graph, whose direction doesn't matter here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// The vertices at its ends.
    pub ends: [u32; 2],
    /// Its cost if its ends are on different nodes.
    pub weight: u64,
}

impl From<Edge> for Link {
    fn from(edge: Edge) -> Link {
        Link {
            ends: [edge.source, edge.destination],
            weight: u64::try_from(edge.weight).unwrap_or(0),
        }
    }
}

/// Returns new ranks for a graph topology such that processes of a node are neighbours where
/// possible.
///
/// `nodes[r]` identifies the node of old rank `r`, for as many ranks as the graph has vertices. The
/// result has the new rank of each old rank: a permutation whose edges between nodes never weigh
/// more than those of the old ranks. It is deterministic, so every process computes the same. Edges
/// to vertices that don't exist are ignored.
///
/// Nodes are filled one after the other by greedy graph growing (each time the vertex with the
/// heaviest edges to those that are on the node already), which takes O(E log E).
pub fn reorder_graph(links: &[Link], nodes: &[u32]) -> Vec<u32> {
    let identity: Vec<u32> = (0..nodes.len() as u32).collect();
    let places = ranks_by_node(nodes);
    if places.len() < 2 || places.len() == nodes.len() {
        return identity;
    }
    let graph = Adjacency::new(links, nodes.len());
    let mut new_ranks = identity.clone();
    let mut rest = FreeVertices::new(&graph);
    for (_, ranks) in &places {
        let vertices = rest.grow(ranks.len());
        // Processes that can keep their ranks do.
        let (mut stays, mut moves) = (vec![false; ranks.len()], Vec::new());
        for vertex in vertices {
            match ranks.binary_search(&vertex) {
                Ok(place) => stays[place] = true,
                Err(_) => moves.push(vertex),
            }
        }
        let movers = ranks.iter().zip(stays).filter(|(_, stays)| !stays);
        for ((rank, _), vertex) in movers.zip(moves) {
            new_ranks[*rank as usize] = vertex;
        }
    }
    if cut(links, nodes, &new_ranks) < cut(links, nodes, &identity) {
        new_ranks
    } else {
        identity
    }
}

/// Returns the weight of the edges whose ends are on different nodes.
fn cut(links: &[Link], nodes: &[u32], new_ranks: &[u32]) -> u64 {
    let mut node_at = vec![0; nodes.len()];
    for (node, vertex) in nodes.iter().zip(new_ranks) {
        node_at[*vertex as usize] = *node;
    }
    let inside = |link: &&Link| link.ends.iter().all(|end| (*end as usize) < nodes.len());
    let apart = links.iter().filter(inside).filter(|link| {
        let [a, b] = link.ends;
        node_at[a as usize] != node_at[b as usize]
    });
    apart.fold(0, |sum, link| sum.saturating_add(link.weight))
}

/// Adjacency lists of a graph.
struct Adjacency {
    /// End of each vertex's edges in `to`.
    ends: Vec<usize>,
    to: Vec<(u32, u64)>,
}

impl Adjacency {
    fn new(links: &[Link], vertices: usize) -> Adjacency {
        let useful = |link: &&Link| {
            let [a, b] = link.ends;
            a != b && (a.max(b) as usize) < vertices
        };
        let mut starts = vec![0; vertices + 1];
        for link in links.iter().filter(useful) {
            for end in link.ends {
                starts[end as usize + 1] += 1;
            }
        }
        for vertex in 0..vertices {
            starts[vertex + 1] += starts[vertex];
        }
        let mut to = vec![(0, 0); starts[vertices]];
        for link in links.iter().filter(useful) {
            let [a, b] = link.ends;
            for (from, other) in [(a, b), (b, a)] {
                let place = &mut starts[from as usize];
                to[*place] = (other, link.weight);
                *place += 1;
            }
        }
        starts.pop();
        Adjacency { ends: starts, to }
    }

    fn of(&self, vertex: u32) -> &[(u32, u64)] {
        let vertex = vertex as usize;
        let start = match vertex {
            0 => 0,
            _ => self.ends[vertex - 1],
        };
        &self.to[start..self.ends[vertex]]
    }
}

/// The vertices that are on no node yet.
struct FreeVertices<'a> {
    graph: &'a Adjacency,
    free: Vec<bool>,
    /// Weight of each vertex's edges to free vertices.
    ties: Vec<u64>,
    /// Neighbours of taken vertices.
    border: Vec<u32>,
    /// Where growth starts without a border: vertices at the edge of the graph come last, and so
    /// are taken first.
    beginnings: Vec<u32>,
}

impl FreeVertices<'_> {
    fn new(graph: &Adjacency) -> FreeVertices<'_> {
        let vertices = graph.ends.len() as u32;
        let sum =
            |edges: &[(u32, u64)]| edges.iter().fold(0, |sum: u64, e| sum.saturating_add(e.1));
        let ties: Vec<u64> = (0..vertices).map(|vertex| sum(graph.of(vertex))).collect();
        let mut beginnings: Vec<u32> = (0..vertices).collect();
        beginnings.sort_by_key(|vertex| Reverse((ties[*vertex as usize], *vertex)));
        FreeVertices {
            graph,
            free: vec![true; vertices as usize],
            ties,
            border: Vec::new(),
            beginnings,
        }
    }

    fn is_free(&self, vertex: u32) -> bool {
        self.free[vertex as usize]
    }

    /// Takes `count` vertices that belong together.
    fn grow(&mut self, count: usize) -> Vec<u32> {
        let mut taken = Vec::with_capacity(count);
        let mut tied: HashMap<u32, u64> = HashMap::new();
        // First by the heaviest edges to those taken, then by the lightest edges to the rest, so
        // that the rest stays connected. Stale entries are skipped.
        let mut heap = BinaryHeap::new();
        while taken.len() < count {
            let next = loop {
                match heap.pop() {
                    Some((weight, _, Reverse(vertex))) => {
                        if self.is_free(vertex) && tied[&vertex] == weight {
                            break Some(vertex);
                        }
                    }
                    None => break self.begin(),
                }
            };
            let Some(vertex) = next else {
                break;
            };
            self.free[vertex as usize] = false;
            taken.push(vertex);
            for (to, weight) in self.graph.of(vertex) {
                let ties = &mut self.ties[*to as usize];
                *ties = ties.saturating_sub(*weight);
                if self.free[*to as usize] {
                    self.border.push(*to);
                    let sum = tied.entry(*to).or_default();
                    *sum = sum.saturating_add(*weight);
                    heap.push((*sum, Reverse(*ties), Reverse(*to)));
                }
            }
        }
        taken
    }

    /// Returns a vertex next to those taken with the lightest edges to the rest, or else a new
    /// start.
    fn begin(&mut self) -> Option<u32> {
        let FreeVertices {
            free, ties, border, ..
        } = self;
        border.retain(|vertex| free[*vertex as usize]);
        border.sort_unstable();
        border.dedup();
        if let Some(vertex) = border.iter().min_by_key(|vertex| ties[**vertex as usize]) {
            return Some(*vertex);
        }
        loop {
            let vertex = self.beginnings.pop()?;
            if self.is_free(vertex) {
                return Some(vertex);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn link(a: u32, b: u32, weight: u64) -> Link {
        Link {
            ends: [a, b],
            weight,
        }
    }

    fn grid(rows: u32, columns: u32) -> Vec<Link> {
        let mut links = Vec::new();
        for rank in 0..rows * columns {
            if rank % columns + 1 < columns {
                links.push(link(rank, rank + 1, 1));
            }
            if rank / columns + 1 < rows {
                links.push(link(rank, rank + columns, 1));
            }
        }
        links
    }

    #[test]
    fn a_ring_dealt_to_nodes_in_turn_is_cut_once_per_node() {
        let links: Vec<Link> = (0..32).map(|r| link(r, (r + 1) % 32, 3)).collect();
        let nodes: Vec<u32> = (0..32).map(|r| r % 4).collect();
        let new_ranks = reorder_graph(&links, &nodes);
        assert_eq!(cut(&links, &nodes, &(0..32).collect::<Vec<_>>()), 96);
        assert_eq!(cut(&links, &nodes, &new_ranks), 12);
    }

    #[test]
    fn grids_and_cliques() {
        let dealt: Vec<u32> = (0..64).map(|r| r % 4).collect();
        let links = grid(8, 8);
        // Quadrants would cut 16; dealt out, each row's neighbours are on different nodes: 56.
        let after = cut(&links, &dealt, &reorder_graph(&links, &dealt));
        assert!(after <= 28, "{after}");
        // Four cliques, whose members are dealt to four nodes: no edge need be cut.
        let mut cliques = Vec::new();
        for a in 0..64u32 {
            for b in (0..a).filter(|b| b / 16 == a / 16) {
                cliques.push(link(a, b, 1));
            }
        }
        assert_eq!(cut(&cliques, &dealt, &reorder_graph(&cliques, &dealt)), 0);
    }

    #[test]
    fn heavy_edges_stay_together() {
        let links = [
            link(0, 1, 1),
            link(1, 2, 100),
            link(2, 3, 1),
            link(3, 0, 100),
        ];
        let new_ranks = reorder_graph(&links, &[7, 7, 9, 9]);
        assert_eq!(cut(&links, &[7, 7, 9, 9], &new_ranks), 2);
    }

    proptest! {
        #[test]
        fn is_a_permutation_that_is_never_worse(
            links in prop::collection::vec((0u32..30, 0u32..30, 0u64..9), 0..90),
            nodes in prop::collection::vec(0u32..5, 1..30),
        ) {
            let links: Vec<Link> = links.iter().map(|(a, b, w)| link(*a, *b, *w)).collect();
            let identity: Vec<u32> = (0..nodes.len() as u32).collect();
            let new_ranks = reorder_graph(&links, &nodes);
            prop_assert!(cut(&links, &nodes, &new_ranks) <= cut(&links, &nodes, &identity));
            let mut sorted = new_ranks.clone();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, identity);
        }
    }
}
