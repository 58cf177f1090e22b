//! Graph topologies (MPI-3.1 section 7.5.3).

use super::{Link, check_rank};
use mpi_core::{Class, Error, Result};

/// A graph topology: for each rank the list of its neighbours.
///
/// Edges need not be symmetric, may occur several times, and may lead back to their rank.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Graph {
    index: Box<[u32]>,
    edges: Box<[u32]>,
}

impl Graph {
    /// Checks the `index` argument of `MPI_Graph_create`, if there are nodes. Returns the number of
    /// elements that `edges` must have.
    ///
    /// # Errors
    ///
    /// `MPI_ERR_ARG` if an element is negative or less than the one before.
    pub fn edge_count(index: &[i32]) -> Result<usize> {
        let mut before = 0;
        for (i, &end) in index.iter().enumerate() {
            if end < before {
                return Err(Error::new(
                    Class::Arg,
                    format!(
                        "index[{i}] is {end}; it must be {before} or more, as it adds the number \
                         of neighbours of node {i}"
                    ),
                ));
            }
            before = end;
        }
        Ok(before as usize)
    }

    /// Returns the topology for `MPI_Graph_create` on a communicator of `available` processes.
    /// Processes from [`Graph::size`] on are not part of it.
    ///
    /// # Errors
    ///
    /// `MPI_ERR_ARG` if there are more nodes than processes, `index` is invalid (see
    /// [`Graph::edge_count`]), or `edges` has another length or names no node.
    pub fn new(available: u32, index: &[i32], edges: &[i32]) -> Result<Graph> {
        if index.len() > available as usize {
            return Err(Error::new(
                Class::Arg,
                format!(
                    "a graph of {} nodes needs more processes than the {available} of the \
                     communicator",
                    index.len()
                ),
            ));
        }
        let count = Graph::edge_count(index)?;
        if edges.len() != count {
            return Err(Error::new(
                Class::Arg,
                format!("{} edges are given; the index says {count}", edges.len()),
            ));
        }
        for (i, &edge) in edges.iter().enumerate() {
            if !(0..index.len() as i64).contains(&i64::from(edge)) {
                return Err(Error::new(
                    Class::Arg,
                    format!(
                        "edges[{i}] is {edge}; it must be 0 or more and less than {}, the number \
                         of nodes",
                        index.len()
                    ),
                ));
            }
        }
        Ok(Graph {
            index: index.iter().map(|&end| end as u32).collect(),
            edges: edges.iter().map(|&edge| edge as u32).collect(),
        })
    }

    /// The number of nodes.
    pub fn size(&self) -> u32 {
        self.index.len() as u32
    }

    /// The `index` of `MPI_Graph_get`.
    pub fn index(&self) -> &[u32] {
        &self.index
    }

    /// The `edges` of `MPI_Graph_get`.
    pub fn edges(&self) -> &[u32] {
        &self.edges
    }

    /// Returns the edges, each with weight 1.
    pub fn links(&self) -> Vec<Link> {
        let mut start = 0;
        let of = |(rank, end): (u32, &u32)| {
            let edges = &self.edges[start..*end as usize];
            start = *end as usize;
            edges.iter().map(move |to| Link {
                ends: [rank, *to],
                weight: 1,
            })
        };
        (0..).zip(&self.index).flat_map(of).collect()
    }

    /// Returns the neighbours of a rank (`MPI_Graph_neighbors`, `MPI_Graph_neighbors_count`), both
    /// sources and destinations in neighbourhood collectives.
    ///
    /// # Errors
    ///
    /// `MPI_ERR_RANK` if the rank is out of range.
    pub fn neighbours(&self, rank: i32) -> Result<&[u32]> {
        let rank = check_rank(rank, self.size())? as usize;
        let start = if rank == 0 { 0 } else { self.index[rank - 1] };
        Ok(&self.edges[start as usize..self.index[rank] as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn example_of_the_standard() {
        // The example of section 7.5.3.
        let (index, edges) = ([2, 3, 4, 6], [1, 3, 0, 3, 0, 2]);
        assert_eq!(Graph::edge_count(&index).unwrap(), 6);
        let graph = Graph::new(4, &index, &edges).unwrap();
        let want: [&[u32]; 4] = [&[1, 3], &[0], &[3], &[0, 2]];
        for (rank, want) in want.iter().enumerate() {
            assert_eq!(graph.neighbours(rank as i32).unwrap(), *want);
        }
        assert_eq!(graph.neighbours(4).unwrap_err().class(), Class::Rank);
        assert_eq!(graph.size(), 4);
    }

    #[test]
    fn multiple_edges_loops_and_nodes_without_edges() {
        // Section 7.5.3 allows all of these.
        let graph = Graph::new(5, &[3, 3, 4], &[0, 1, 1, 0]).unwrap();
        assert_eq!(graph.neighbours(0).unwrap(), [0, 1, 1]);
        assert_eq!(graph.neighbours(1).unwrap(), []);
        assert_eq!(Graph::new(5, &[], &[]).unwrap().size(), 0);
    }

    #[test]
    fn bad_arguments() {
        let class = |r: Result<Graph>| r.unwrap_err().class();
        assert_eq!(class(Graph::new(1, &[1, 2], &[1, 0])), Class::Arg);
        assert_eq!(class(Graph::new(2, &[1, 0], &[1])), Class::Arg);
        assert_eq!(class(Graph::new(2, &[-1, 0], &[])), Class::Arg);
        assert_eq!(class(Graph::new(2, &[1, 2], &[1])), Class::Arg);
        assert_eq!(class(Graph::new(3, &[1, 2], &[1, 2])), Class::Arg);
        assert_eq!(class(Graph::new(3, &[1, 2], &[1, -1])), Class::Arg);
    }
}
