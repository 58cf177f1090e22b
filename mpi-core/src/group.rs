//! Process groups (MPI-3.1 section 6.3): ordered sets of processes.
//!
//! A group maps ranks to peers, the process numbers. It is immutable and cheap to clone. The
//! mapping is part of every send: for regular groups it is a multiplication and an addition, for
//! the others mostly one load.

pub(crate) mod debugger;

use std::collections::HashSet;
use std::sync::Arc;

use crate::{Class, Error, Result};

/// A process group.
#[derive(Clone)]
pub struct Group(Map);

/// Regular groups are stored as one or a few runs, so that groups of a large job need little
/// memory. The discriminant comes first, for debuggers.
#[derive(Clone)]
#[repr(u32)]
enum Map {
    /// One run, or an empty group.
    Regular(Run),
    /// At most `MAX_RUNS` runs, searched linearly.
    Runs(Arc<Runs>),
    List(Arc<List>),
}

struct Runs {
    size: u32,
    runs: Box<[Run]>,
}

struct List {
    peers: Box<[u32]>,
    /// (peer, rank), ordered by peer.
    index: Box<[(u32, u32)]>,
}

/// Above this, searching runs takes longer than searching the index of a list.
const MAX_RUNS: usize = 6;

/// Peers `first`, `first + stride`, … of the ranks from `rank` on.
#[derive(Clone, Copy, PartialEq)]
struct Run {
    rank: u32,
    count: u32,
    first: u32,
    stride: i32,
}

impl Run {
    #[inline(always)]
    fn peer(&self, i: u32) -> u32 {
        (i64::from(self.first) + i64::from(i) * i64::from(self.stride)) as u32
    }

    /// Returns the rank of `peer` if it is in the run.
    fn rank_of(&self, peer: u32) -> Option<u32> {
        let distance = i64::from(peer) - i64::from(self.first);
        let i = match self.stride {
            1 => distance,
            stride => {
                let stride = i64::from(stride);
                if distance % stride != 0 {
                    return None;
                }
                distance / stride
            }
        };
        (0..i64::from(self.count))
            .contains(&i)
            .then(|| self.rank + i as u32)
    }
}

/// The result of `MPI_Group_compare`, also used by `MPI_Comm_compare`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Comparison {
    /// `MPI_IDENT`: the same members in the same order.
    Ident,
    /// `MPI_SIMILAR`: the same members in another order.
    Similar,
    /// `MPI_UNEQUAL`.
    Unequal,
}

impl Group {
    /// `MPI_GROUP_EMPTY`.
    pub fn empty() -> Group {
        Group::build([])
    }

    /// Creates the group of peers 0 to `size - 1`, each with its own number as rank.
    pub fn identity(size: u32) -> Group {
        Group(Map::Regular(Run {
            rank: 0,
            count: size,
            first: 0,
            stride: 1,
        }))
    }

    /// Creates the group of one peer.
    pub fn single(peer: u32) -> Group {
        Group(Map::Regular(Run::single(0, peer)))
    }

    /// Creates the group whose rank `i` is `peers[i]`.
    ///
    /// # Errors
    ///
    /// `MPI_ERR_GROUP` if a peer occurs twice.
    pub fn from_peers(peers: &[u32]) -> Result<Group> {
        let group = Group::build(peers.iter().copied());
        let mut seen = HashSet::with_capacity(peers.len());
        match peers.iter().find(|&&peer| !seen.insert(peer)) {
            None => Ok(group),
            Some(peer) => Err(Error::new(
                Class::Group,
                format!("peer {peer} is in the group twice; members must be distinct"),
            )),
        }
    }

    /// Creates the group of a communicator with endpoints, in which a peer can occur several times.
    /// [`Group::rank_of`] returns one of its ranks.
    pub fn of_endpoints(peers: &[u32]) -> Group {
        let mut index: Box<[(u32, u32)]> = peers.iter().copied().zip(0..).collect();
        index.sort_unstable();
        Group(Map::List(Arc::new(List {
            peers: peers.into(),
            index,
        })))
    }

    /// Creates the group of distinct peers in the smallest form.
    fn build(peers: impl IntoIterator<Item = u32>) -> Group {
        let mut runs: Vec<Run> = Vec::with_capacity(1);
        let mut size = 0;
        for peer in peers {
            match runs.last_mut() {
                Some(run) if run.count > 1 && run.stride != 0 && run.peer(run.count) == peer => {
                    run.count += 1;
                }
                // The second member determines the stride, if it is in range.
                Some(run) if run.count == 1 => {
                    match i32::try_from(i64::from(peer) - i64::from(run.first)) {
                        Ok(stride) => (run.count, run.stride) = (2, stride),
                        Err(_) => runs.push(Run::single(size, peer)),
                    }
                }
                _ => runs.push(Run::single(size, peer)),
            }
            size += 1;
        }
        let map = match *runs {
            [] => Map::Regular(Run {
                rank: 0,
                count: 0,
                first: 0,
                stride: 1,
            }),
            [run] => Map::Regular(run),
            _ if runs.len() <= MAX_RUNS => Map::Runs(Arc::new(Runs {
                size,
                runs: runs.into(),
            })),
            _ => {
                let peers: Box<[u32]> = runs.iter().flat_map(Run::members).collect();
                let mut index: Box<[(u32, u32)]> = peers.iter().copied().zip(0..).collect();
                index.sort_unstable();
                Map::List(Arc::new(List { peers, index }))
            }
        };
        Group(map)
    }

    /// Number of members (`MPI_Group_size`).
    #[inline(always)]
    pub fn size(&self) -> u32 {
        match &self.0 {
            Map::Regular(run) => run.count,
            Map::Runs(runs) => runs.size,
            Map::List(list) => list.peers.len() as u32,
        }
    }

    /// Returns the peer of rank 0 and the distance between the peers of consecutive ranks, if the
    /// distance is constant.
    pub fn as_strided(&self) -> Option<(u32, i32)> {
        match &self.0 {
            Map::Regular(run) => Some((run.first, run.stride)),
            _ => None,
        }
    }

    /// Returns the peer of `rank`, which must be less than [`Group::size`].
    #[inline(always)]
    pub fn peer(&self, rank: u32) -> u32 {
        match &self.0 {
            Map::Regular(run) => run.peer(rank),
            Map::List(list) => list.peers[rank as usize],
            Map::Runs(runs) => runs.peer(rank),
        }
    }

    /// Returns the peer of `rank`, if `rank` is in range.
    #[inline]
    pub fn get(&self, rank: u32) -> Option<u32> {
        (rank < self.size()).then(|| self.peer(rank))
    }

    /// Returns the rank of a peer, if it is a member. Takes constant time for regular groups and
    /// logarithmic time for others.
    #[inline]
    pub fn rank_of(&self, peer: u32) -> Option<u32> {
        match &self.0 {
            Map::Regular(run) => run.rank_of(peer),
            Map::Runs(runs) => runs.runs.iter().find_map(|run| run.rank_of(peer)),
            Map::List(list) => list
                .index
                .binary_search_by_key(&peer, |entry| entry.0)
                .ok()
                .map(|at| list.index[at].1),
        }
    }

    /// Returns the members in the order of their ranks.
    pub fn peers(&self) -> impl Iterator<Item = u32> + '_ {
        let (runs, list): (&[Run], &[u32]) = match &self.0 {
            Map::Regular(run) => (std::slice::from_ref(run), &[]),
            Map::Runs(runs) => (&runs.runs, &[]),
            Map::List(list) => (&[], &list.peers),
        };
        runs.iter()
            .flat_map(Run::members)
            .chain(list.iter().copied())
    }

    /// Returns the members of `self`, then those of `other` that are not in `self`
    /// (`MPI_Group_union`).
    pub fn union(&self, other: &Group) -> Group {
        let new = other.peers().filter(|&peer| self.rank_of(peer).is_none());
        Group::build(self.peers().chain(new))
    }

    /// Returns the members of `self` that are also in `other` (`MPI_Group_intersection`).
    pub fn intersection(&self, other: &Group) -> Group {
        Group::build(self.peers().filter(|&peer| other.rank_of(peer).is_some()))
    }

    /// Returns the members of `self` that are not in `other` (`MPI_Group_difference`).
    pub fn difference(&self, other: &Group) -> Group {
        Group::build(self.peers().filter(|&peer| other.rank_of(peer).is_none()))
    }

    /// Returns the group whose rank `i` is rank `ranks[i]` of this one (`MPI_Group_incl`).
    ///
    /// # Errors
    ///
    /// `MPI_ERR_RANK` if a rank is out of range or occurs twice.
    pub fn incl(&self, ranks: &[i32]) -> Result<Group> {
        // Checks few ranks pairwise; many ranks, and the reason of an error, by a set.
        const FEW: usize = 8;
        let valid =
            |(i, rank): (usize, &i32)| (*rank as u32) < self.size() && !ranks[..i].contains(rank);
        if ranks.len() > FEW || !ranks.iter().enumerate().all(valid) {
            self.mark(ranks)?;
        }
        Ok(self.select(ranks.iter().map(|&rank| rank as u32)))
    }

    /// Returns the group of `ranks`, which must be distinct and in range.
    pub fn of_ranks(&self, ranks: &[u32]) -> Group {
        // Often the whole group is selected, and the memory can be shared.
        if ranks.iter().copied().eq(0..self.size()) {
            return self.clone();
        }
        self.select(ranks.iter().copied())
    }

    /// Returns the group without `ranks`, in the same order (`MPI_Group_excl`).
    ///
    /// # Errors
    ///
    /// `MPI_ERR_RANK` if a rank is out of range or occurs twice.
    pub fn excl(&self, ranks: &[i32]) -> Result<Group> {
        let out = self.mark(ranks)?;
        Ok(self.select((0..self.size()).filter(|&rank| !out.contains(rank))))
    }

    /// Returns the group of all ranks of `ranges` (first, last, stride) (`MPI_Group_range_incl`).
    ///
    /// # Errors
    ///
    /// `MPI_ERR_ARG` if a stride is 0 or leads away from the last rank; `MPI_ERR_RANK` if a rank is
    /// out of range or occurs twice.
    pub fn range_incl(&self, ranges: &[[i32; 3]]) -> Result<Group> {
        self.incl(&self.expand(ranges)?)
    }

    /// Returns the group without the ranks of `ranges` (first, last, stride)
    /// (`MPI_Group_range_excl`).
    ///
    /// # Errors
    ///
    /// `MPI_ERR_ARG` if a stride is 0 or leads away from the last rank; `MPI_ERR_RANK` if a rank is
    /// out of range or occurs twice.
    pub fn range_excl(&self, ranges: &[[i32; 3]]) -> Result<Group> {
        self.excl(&self.expand(ranges)?)
    }

    /// Translates a rank to `other` (`MPI_Group_translate_ranks` for one rank that is not
    /// `MPI_PROC_NULL`). `None` if the process is not a member of `other`.
    ///
    /// # Errors
    ///
    /// `MPI_ERR_RANK` if `rank` is out of range.
    pub fn translate(&self, rank: i32, other: &Group) -> Result<Option<u32>> {
        let peer = u32::try_from(rank).ok().and_then(|rank| self.get(rank));
        let peer = peer.ok_or_else(|| self.out_of_range(rank))?;
        Ok(other.rank_of(peer))
    }

    /// Compares members and their order (`MPI_Group_compare`).
    pub fn compare(&self, other: &Group) -> Comparison {
        if self.size() != other.size() {
            Comparison::Unequal
        } else if self.is_same(other) || self.peers().eq(other.peers()) {
            Comparison::Ident
        } else if self.peers().all(|peer| other.rank_of(peer).is_some()) {
            Comparison::Similar
        } else {
            Comparison::Unequal
        }
    }

    /// Whether both are the same, as far as a constant-time check shows.
    fn is_same(&self, other: &Group) -> bool {
        match (&self.0, &other.0) {
            (Map::Regular(one), Map::Regular(two)) => one == two,
            (Map::Runs(one), Map::Runs(two)) => Arc::ptr_eq(one, two),
            (Map::List(one), Map::List(two)) => Arc::ptr_eq(one, two),
            _ => false,
        }
    }

    /// Returns the group of ranks that are in range and distinct.
    fn select(&self, ranks: impl IntoIterator<Item = u32>) -> Group {
        Group::build(ranks.into_iter().map(|rank| self.peer(rank)))
    }

    fn out_of_range(&self, rank: i32) -> Error {
        let detail = match self.size() {
            0 => format!("rank is {rank}, but the group is empty"),
            size => format!(
                "rank is {rank}; it must be in 0 to {}, as the group has {size} members",
                size - 1
            ),
        };
        Error::new(Class::Rank, detail)
    }

    /// Returns the set of ranks, which must be in range and distinct.
    fn mark(&self, ranks: &[i32]) -> Result<RankSet> {
        let mut set = RankSet::new(self.size());
        for (i, &rank) in ranks.iter().enumerate() {
            let valid = u32::try_from(rank).ok().filter(|&r| r < self.size());
            let valid = valid.ok_or_else(|| self.out_of_range(rank))?;
            if !set.insert(valid) {
                return Err(Error::new(
                    Class::Rank,
                    format!(
                        "rank {rank} is given twice, the second time at position {i} of the list; \
                         ranks must be distinct"
                    ),
                ));
            }
        }
        Ok(set)
    }

    /// Expands ranges into ranks, at most one more than the group has members.
    fn expand(&self, ranges: &[[i32; 3]]) -> Result<Vec<i32>> {
        let mut ranks = Vec::new();
        for &[first, last, stride] in ranges {
            let wrong = |why: &str| {
                Error::new(
                    Class::Arg,
                    format!("range ({first}, {last}, {stride}): {why}"),
                )
            };
            if stride == 0 {
                return Err(wrong("the stride is 0; it must be positive or negative"));
            }
            let distance = i64::from(last) - i64::from(first);
            if distance.signum() * i64::from(stride.signum()) < 0 {
                return Err(wrong(
                    "the stride leads away from the last rank; change its sign",
                ));
            }
            // Checks both ends before the expansion, since the range may be long and invalid.
            let steps = distance / i64::from(stride);
            let end = i64::from(first) + steps * i64::from(stride);
            for rank in [first, end as i32] {
                if !(0..i64::from(self.size())).contains(&i64::from(rank)) {
                    return Err(self.out_of_range(rank));
                }
            }
            if ranks.len() as i64 + steps >= i64::from(self.size()) {
                return Err(Error::new(
                    Class::Rank,
                    format!(
                        "the ranges name more ranks than the group's {}, so some come twice; \
                         ranks must be distinct",
                        self.size()
                    ),
                ));
            }
            ranks.extend((0..=steps).map(|i| (i64::from(first) + i * i64::from(stride)) as i32));
        }
        Ok(ranks)
    }
}

impl Run {
    fn single(rank: u32, peer: u32) -> Run {
        Run {
            rank,
            count: 1,
            first: peer,
            stride: 1,
        }
    }

    fn members(&self) -> impl Iterator<Item = u32> + use<> {
        let run = *self;
        (0..run.count).map(move |i| run.peer(i))
    }
}

impl Runs {
    #[inline(never)]
    fn peer(&self, rank: u32) -> u32 {
        let run = self.runs.iter().rfind(|run| run.rank <= rank);
        run.map_or(0, |run| run.peer(rank - run.rank))
    }
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.peers()).finish()
    }
}

/// A set of ranks, one bit for each.
struct RankSet(Box<[u64]>);

impl RankSet {
    fn new(size: u32) -> RankSet {
        RankSet(vec![0; size.div_ceil(64) as usize].into())
    }

    /// Adds a rank. Returns false if it is in the set.
    fn insert(&mut self, rank: u32) -> bool {
        let (word, bit) = (&mut self.0[rank as usize / 64], 1 << (rank % 64));
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    fn contains(&self, rank: u32) -> bool {
        self.0[rank as usize / 64] & (1 << (rank % 64)) != 0
    }
}
