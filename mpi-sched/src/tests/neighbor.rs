use super::*;
use crate::{Ints, Layout, Neighbors, Part, neighbor_allgather, neighbor_alltoall};

/// Sources and destinations of every rank.
type Edges = Vec<(Vec<i32>, Vec<i32>)>;

/// A random multigraph: edges repeat and lead back to where they start.
fn random_graph(seed: u64, size: usize) -> Edges {
    let mut rng = Rng::new(seed);
    let mut edges: Edges = vec![(Vec::new(), Vec::new()); size];
    for _ in 0..rng.below(4 * size as u64) {
        let from = rng.below(size as u64) as usize;
        let to = rng.below(size as u64) as usize;
        edges[from].1.push(to as i32);
        edges[to].0.push(from as i32);
    }
    edges
}

/// A ring or a line of `size`, as Cartesian topologies of one dimension, times one of 2.
fn grid(size: usize, periodic: bool) -> Edges {
    let rank = |x: isize, y: isize| {
        let inside = (0..size as isize).contains(&x);
        let x = x.rem_euclid(size as isize);
        match periodic || inside {
            true => (x * 2 + y.rem_euclid(2)) as i32,
            false => -1,
        }
    };
    let edges = |i: usize| {
        let (x, y) = ((i / 2) as isize, (i % 2) as isize);
        let list = vec![
            rank(x - 1, y),
            rank(x + 1, y),
            rank(x, y - 1),
            rank(x, y + 1),
        ];
        (list.clone(), list)
    };
    (0..2 * size).map(edges).collect()
}

/// Where the message to destination `slot` of `from` arrives: which slot of which rank.
fn target(edges: &Edges, cartesian: bool, from: usize, slot: usize) -> Option<(usize, usize)> {
    let to = usize::try_from(edges[from].1[slot]).ok()?;
    if cartesian {
        // What goes down arrives from above.
        return Some((to, slot ^ 1));
    }
    // The k-th edge between the two there is the k-th here.
    let same = |&&rank: &&i32| rank == to as i32;
    let nth = edges[from].1[..slot].iter().filter(same).count();
    let mut places = (0..edges[to].0.len()).filter(|&i| edges[to].0[i] == from as i32);
    Some((to, places.nth(nth).expect("an edge has two ends")))
}

fn check(seed: u64, edges: &Edges, cartesian: bool) {
    for (datatype, count) in types().iter().zip(cycle([2, 1, 3, 0], edges.len())) {
        let part = Part { count, datatype };
        let block = (count + 1) as isize * datatype.extent();
        for (alike, varying) in [(true, false), (false, false), (true, true), (false, true)] {
            let what = (edges, cartesian, datatype, alike, varying);
            let packed = |from: usize, slot: usize| {
                let key = from * 64 + if alike { 0 } else { slot };
                data(seed, key as u64, part.bytes())
            };
            let offset = |slot: usize| match varying {
                true => slot as isize * block,
                false => slot as isize * count as isize * datatype.extent(),
            };
            let mut send: Vec<Buffer> = Vec::new();
            let mut recv: Vec<Buffer> = Vec::new();
            for (from, (sources, destinations)) in edges.iter().enumerate() {
                let slots = if alike { 1 } else { destinations.len() };
                let mut buffer = Buffer::of((count + 1) * slots, datatype);
                (0..slots).for_each(|i| buffer.put(offset(i), datatype, &packed(from, i)));
                send.push(buffer);
                recv.push(Buffer::of((count + 1) * sources.len(), datatype));
            }
            let mut expect = recv.clone();
            for (from, (_, destinations)) in edges.iter().enumerate() {
                for slot in 0..destinations.len() {
                    if let Some((to, place)) = target(edges, cartesian, from, slot) {
                        expect[to].put(offset(place), datatype, &packed(from, slot));
                    }
                }
            }
            let build = |rank: usize, s: &mut Schedule| {
                let (sources, destinations) = &edges[rank];
                let neighbors = Neighbors {
                    sources,
                    destinations,
                    cartesian,
                };
                let longest = sources.len().max(destinations.len());
                let counts = vec![count as i32; longest];
                let displs: Vec<i32> = (0..longest).map(|i| (i * (count + 1)) as i32).collect();
                let layout = match varying {
                    true => Layout::Varying {
                        counts: Ints::I32(&counts),
                        displs: Some(Ints::I32(&displs)),
                        datatype,
                    },
                    false => Layout::Uniform(part),
                };
                match alike {
                    true => neighbor_allgather(s, neighbors, part, layout),
                    false => neighbor_alltoall(s, neighbors, layout, layout),
                }
            };
            run_one(Network::Random(seed), &what, &build, &mut send, &mut recv);
            compare(&what, &recv, &expect);
        }
    }
}

#[test]
fn graphs_are_right() {
    let seed = seed();
    for size in 1..17 {
        check(seed, &random_graph(seed, size), false);
    }
}

#[test]
fn grids_are_right() {
    let seed = seed();
    for size in 1..9 {
        check(seed, &grid(size, true), true);
        check(seed, &grid(size, false), true);
    }
}
