//! Distributed graph topologies (MPI-3.1 section 7.5.4).

use mpi_core::{Class, Error, Result};

/// A weight argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Weights<'a> {
    /// `MPI_UNWEIGHTED`: the graph has no weights; all processes must pass it.
    Unweighted,
    /// `MPI_WEIGHTS_EMPTY`: the graph has weights, but this process has no edge.
    Empty,
    /// One for each edge.
    Given(&'a [i32]),
}

/// An edge of a distributed graph.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Edge {
    /// From this rank.
    pub source: u32,
    /// To this rank.
    pub destination: u32,
    /// Weight; 1 in a graph without weights.
    pub weight: i32,
}

/// One process's part of a distributed graph: its own edges.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DistGraph {
    sources: Box<[u32]>,
    destinations: Box<[u32]>,
    /// Weights on both sides, or on none.
    source_weights: Option<Box<[i32]>>,
    destination_weights: Option<Box<[i32]>>,
}

impl DistGraph {
    /// Checks a process's edges as given to `MPI_Dist_graph_create_adjacent`, on a communicator of
    /// `size` processes.
    ///
    /// # Errors
    ///
    /// `MPI_ERR_ARG` if a neighbour is no rank, if weights are negative or not as many as edges, or
    /// if only one side has weights.
    pub fn adjacent(
        size: u32,
        sources: &[i32],
        source_weights: Weights,
        destinations: &[i32],
        destination_weights: Weights,
    ) -> Result<DistGraph> {
        let source_ranks = ranks("sources", sources, size)?;
        let destination_ranks = ranks("destinations", destinations, size)?;
        let in_weights = weights("sourceweights", source_weights, sources.len())?;
        let out_weights = weights("destweights", destination_weights, destinations.len())?;
        if in_weights.is_some() != out_weights.is_some() {
            return Err(Error::new(
                Class::Arg,
                "one of sourceweights and destweights is MPI_UNWEIGHTED and the other is not; \
                 give both or neither (MPI_WEIGHTS_EMPTY where there is no edge)",
            ));
        }
        Ok(DistGraph {
            sources: source_ranks,
            destinations: destination_ranks,
            source_weights: in_weights.map(Box::from),
            destination_weights: out_weights.map(Box::from),
        })
    }

    /// Selects the edges of `rank` from those that all processes gave, each process's in their
    /// order. `weighted` is false for `MPI_UNWEIGHTED`.
    pub fn from_edges(
        rank: u32,
        edges: impl IntoIterator<Item = Edge>,
        weighted: bool,
    ) -> DistGraph {
        let (mut sources, mut in_weights) = (Vec::new(), Vec::new());
        let (mut destinations, mut out_weights) = (Vec::new(), Vec::new());
        for edge in edges {
            if edge.destination == rank {
                sources.push(edge.source);
                in_weights.push(edge.weight);
            }
            if edge.source == rank {
                destinations.push(edge.destination);
                out_weights.push(edge.weight);
            }
        }
        DistGraph {
            sources: sources.into(),
            destinations: destinations.into(),
            source_weights: weighted.then(|| in_weights.into()),
            destination_weights: weighted.then(|| out_weights.into()),
        }
    }

    /// Returns the outgoing edges of the process, whose rank is given.
    pub fn edges_from(&self, rank: u32) -> impl Iterator<Item = Edge> {
        let weights = self.destination_weights.as_deref();
        let weight = move |at: usize| weights.map_or(1, |weights| weights[at]);
        let edges = self.destinations.iter().enumerate();
        edges.map(move |(at, destination)| Edge {
            source: rank,
            destination: *destination,
            weight: weight(at),
        })
    }

    /// Encodes the edges for another process: the number of sources, whether there are weights,
    /// then the lists.
    pub fn to_words(&self) -> Vec<u64> {
        let head = [self.sources.len() as u64, u64::from(self.is_weighted())];
        let ranks = self.sources.iter().chain(&self.destinations);
        let weights = [&self.source_weights, &self.destination_weights];
        let weights = weights.into_iter().flatten().flatten();
        let words = head.into_iter().chain(ranks.map(|rank| u64::from(*rank)));
        words.chain(weights.map(|weight| *weight as u64)).collect()
    }

    /// Decodes [`DistGraph::to_words`].
    pub fn from_words(words: &[u64]) -> Option<DistGraph> {
        let ([sources, weighted], lists) = words.split_first_chunk()?;
        let degree = lists.len() / (1 + *weighted as usize);
        let (ranks, weights) = lists.split_at_checked(degree)?;
        let (from, to) = ranks.split_at_checked(usize::try_from(*sources).ok()?)?;
        let ranks = |list: &[u64]| list.iter().map(|rank| *rank as u32).collect();
        let numbers = |list: &[u64]| list.iter().map(|weight| *weight as i32).collect();
        let mut graph = DistGraph {
            sources: ranks(from),
            destinations: ranks(to),
            source_weights: None,
            destination_weights: None,
        };
        if *weighted != 0 {
            let (of_sources, of_destinations) = weights.split_at_checked(from.len())?;
            graph.source_weights = Some(numbers(of_sources));
            graph.destination_weights = Some(numbers(of_destinations));
        }
        Some(graph)
    }

    /// Whether it has weights (`weighted` of `MPI_Dist_graph_neighbors_count`).
    pub fn is_weighted(&self) -> bool {
        self.source_weights.is_some()
    }

    /// The sources of the incoming edges (`sources` of `MPI_Dist_graph_neighbors`).
    pub fn sources(&self) -> &[u32] {
        &self.sources
    }

    /// The destinations of the outgoing edges.
    pub fn destinations(&self) -> &[u32] {
        &self.destinations
    }

    /// The weights of the incoming edges, if there are weights.
    pub fn source_weights(&self) -> Option<&[i32]> {
        self.source_weights.as_deref()
    }

    /// The weights of the outgoing edges, if there are weights.
    pub fn destination_weights(&self) -> Option<&[i32]> {
        self.destination_weights.as_deref()
    }
}

/// Checks the edges that a process gives to `MPI_Dist_graph_create`: `degrees[i]` of them leave
/// `sources[i]`, for the elements of `destinations` in order.
///
/// The caller sends each edge to both its ends, which build [`DistGraph::from_edges`].
///
/// # Errors
///
/// `MPI_ERR_ARG` if a source or destination is no rank, a degree is negative, the lengths do not
/// fit, or weights are negative.
pub fn edges(
    size: u32,
    sources: &[i32],
    degrees: &[i32],
    destinations: &[i32],
    edge_weights: Weights,
) -> Result<Vec<Edge>> {
    let sources = ranks("sources", sources, size)?;
    if degrees.len() != sources.len() {
        return Err(Error::new(
            Class::Arg,
            format!(
                "{} sources and {} degrees are given; each source needs one",
                sources.len(),
                degrees.len()
            ),
        ));
    }
    let mut count = 0i64;
    for (i, &degree) in degrees.iter().enumerate() {
        if degree < 0 {
            return Err(Error::new(
                Class::Arg,
                format!("degrees[{i}] is {degree}; it must be 0 or more"),
            ));
        }
        count += i64::from(degree);
    }
    if count != destinations.len() as i64 {
        return Err(Error::new(
            Class::Arg,
            format!(
                "{} destinations are given; the degrees add up to {count}",
                destinations.len()
            ),
        ));
    }
    let destinations = ranks("destinations", destinations, size)?;
    let weights = weights("weights", edge_weights, destinations.len())?;
    let from = sources.iter().zip(degrees);
    let from = from.flat_map(|(&source, &degree)| std::iter::repeat_n(source, degree as usize));
    let edge = |(i, (source, &destination))| Edge {
        source,
        destination,
        weight: weights.map_or(1, |weights| weights[i]),
    };
    Ok(from.zip(&destinations).enumerate().map(edge).collect())
}

fn ranks(name: &str, list: &[i32], size: u32) -> Result<Box<[u32]>> {
    let check = |(i, &rank): (usize, &i32)| match u32::try_from(rank) {
        Ok(rank) if rank < size => Ok(rank),
        _ => Err(Error::new(
            Class::Arg,
            format!(
                "{name}[{i}] is {rank}; it must be 0 or more and less than {size}, the size of \
                 the communicator"
            ),
        )),
    };
    list.iter().enumerate().map(check).collect()
}

/// Checks the weights; `None` for no weights.
fn weights<'a>(name: &str, weights: Weights<'a>, edges: usize) -> Result<Option<&'a [i32]>> {
    let list = match weights {
        Weights::Unweighted => return Ok(None),
        Weights::Empty => &[],
        Weights::Given(list) => list,
    };
    if list.len() != edges {
        let what = match weights {
            Weights::Empty => "MPI_WEIGHTS_EMPTY".to_string(),
            _ => format!("a list of {}", list.len()),
        };
        return Err(Error::new(
            Class::Arg,
            format!("{name} is {what}, but there are {edges} edges; each needs a weight"),
        ));
    }
    match list.iter().position(|&weight| weight < 0) {
        None => Ok(Some(list)),
        Some(i) => Err(Error::new(
            Class::Arg,
            format!("{name}[{i}] is {}; it must be 0 or more", list[i]),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn general_form_gives_each_process_its_edges() {
        // A ring of 4, each process describing the edges of its successor.
        let described = |rank: i32| {
            let next = (rank + 1) % 4;
            let to = [(next + 1) % 4, (next + 3) % 4];
            edges(4, &[next], &[2], &to, Weights::Given(&[7, next])).unwrap()
        };
        let all: Vec<Edge> = (0..4).flat_map(described).collect();
        for rank in 0..4u32 {
            let graph = DistGraph::from_edges(rank, all.clone(), true);
            let mut sources = graph.sources().to_vec();
            sources.sort_unstable();
            let mut want = [(rank + 1) % 4, (rank + 3) % 4];
            assert_eq!(graph.destinations(), want);
            assert_eq!(graph.destination_weights().unwrap(), [7, rank as i32]);
            want.sort_unstable();
            assert_eq!(sources, want);
        }
        let unweighted = DistGraph::from_edges(0, all, false);
        assert!(!unweighted.is_weighted() && unweighted.source_weights().is_none());
    }

    #[test]
    fn both_forms_of_a_graph_agree() {
        // Section 7.5.4: multiple edges and loops are allowed, and processes without edges.
        let list = edges(3, &[0, 2, 0], &[2, 0, 1], &[0, 1, 1], Weights::Unweighted).unwrap();
        let zero = DistGraph::from_edges(0, list.clone(), false);
        let no = Weights::Unweighted;
        assert_eq!(
            zero,
            DistGraph::adjacent(3, &[0], no, &[0, 1, 1], no).unwrap()
        );
        let one = DistGraph::from_edges(1, list.clone(), false);
        assert_eq!(one, DistGraph::adjacent(3, &[0, 0], no, &[], no).unwrap());
        let two = DistGraph::from_edges(2, list, true);
        let none = Weights::Empty;
        assert_eq!(two, DistGraph::adjacent(3, &[], none, &[], none).unwrap());
    }

    #[test]
    fn weights_empty_counts_as_weighted() {
        let graph =
            DistGraph::adjacent(4, &[1], Weights::Given(&[3]), &[], Weights::Empty).unwrap();
        assert!(graph.is_weighted());
        assert_eq!(graph.source_weights(), Some(&[3][..]));
        assert_eq!(graph.destination_weights(), Some(&[][..]));
    }

    #[test]
    fn bad_arguments() {
        let no = Weights::Unweighted;
        let wrong = [
            DistGraph::adjacent(4, &[4], no, &[], no),
            DistGraph::adjacent(4, &[], no, &[-1], no),
            DistGraph::adjacent(4, &[1], Weights::Empty, &[], Weights::Empty),
            DistGraph::adjacent(4, &[1], Weights::Given(&[1]), &[], no),
            DistGraph::adjacent(4, &[1], Weights::Given(&[-1]), &[], Weights::Empty),
        ];
        for result in wrong {
            assert_eq!(result.unwrap_err().class(), Class::Arg);
        }
        let wrong = [
            edges(4, &[0], &[1, 1], &[1], no),
            edges(4, &[0], &[-1], &[], no),
            edges(4, &[0], &[i32::MAX], &[1], no),
            edges(4, &[5], &[1], &[1], no),
            edges(4, &[0], &[1], &[9], no),
            edges(4, &[0], &[1], &[2], Weights::Given(&[-5])),
            edges(4, &[0], &[1], &[2], Weights::Empty),
        ];
        for result in wrong {
            assert_eq!(result.unwrap_err().class(), Class::Arg);
        }
    }
}
