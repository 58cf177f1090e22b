//! Which algorithm a call takes: by table, or as asked by name.
//!
//! All ranks of a call must come to the same answer, so it depends on nothing but what they all
//! know: [`Situation`] and what was asked for.

use std::sync::Arc;

use super::allgather::Allgather;
use super::allreduce::Allreduce;
use super::alltoall::Alltoall;
use super::barrier::Barrier;
use super::bcast::Bcast;
use super::costs::Measured;
use super::gather::Rooted;
use super::model::Parameters;
use super::reduce::Reduce;
use super::reduce_scatter::ReduceScatter;
use super::slots::{Direct, Slots};
use super::table::Rule;
use super::writes::Written;
use mpi_types::error::{Class, Error, Result};

mod slot_ways;

pub use slot_ways::SlotWays;

/// What all ranks of a call know.
#[derive(Clone, Copy, Debug)]
pub struct Situation {
    /// Ranks in the communicator.
    pub ranks: usize,
    /// The most ranks on one node.
    pub per_node: usize,
    /// Bytes of data: of a broadcast or reduction the vector, of an allgather all that a rank
    /// receives, of a reduce-scatter all that a rank gives, of a gather, scatter or alltoall one
    /// block; of a `v` or `w` form that not all ranks know, 0.
    pub bytes: usize,
    /// Whether the operation commutes.
    pub commutes: bool,
}

impl Situation {
    /// Whether these are two ranks with a network between them.
    fn is_far_pair(&self) -> bool {
        self.ranks == 2 && self.per_node == 1
    }
}

/// The algorithm from so many ranks, bytes, and bytes per rank on.
struct Row<A>(usize, usize, usize, A);

pub(super) const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

// The first row that fits. Figures are for ranks that share a node or a fast network: where time
// per message and time per byte of a chain of rounds break even at a few microseconds per message
// and several bytes per nanosecond.

const BCAST: &[Row<Bcast>] = &[
    Row(3, 128 * KIB, 64 * KIB, CHAIN),
    Row(8, 32 * KIB, 0, Bcast::ScatterRing),
    Row(0, 0, 0, Bcast::Binomial),
];
const CHAIN: Bcast = Bcast::Chain { segment: 64 * KIB };

const ALLREDUCE: &[Row<Allreduce>] = &[
    Row(3, 256 * KIB, 16 * KIB, Allreduce::Ring),
    Row(2, 16 * KIB, 0, Allreduce::Halving),
    Row(0, 0, 0, Allreduce::RecursiveDoubling),
];

/// Two ranks that don't share a node exchange all of so much in one round: to reduce twice as much costs less
/// than to wait for the network a second time.
const PAIR: usize = 512 * KIB;

const REDUCE: &[Row<Reduce>] = &[
    Row(4, 16 * KIB, 0, Reduce::Halving),
    Row(0, 0, 0, Reduce::Binomial),
];

const ALLGATHER: &[Row<Allgather>] = &[
    Row(3, 512 * KIB, 0, Allgather::Ring),
    Row(3, 64 * KIB, 0, Allgather::NeighborExchange),
    Row(0, 0, 0, Allgather::RecursiveDoubling),
];

const ALLTOALL: &[Row<Alltoall>] = &[
    Row(0, 64 * KIB, 0, Alltoall::Pairwise { window: 4 }),
    Row(9, 8 * KIB, 0, Alltoall::Pairwise { window: 4 }),
    Row(0, 257, 0, Alltoall::Pairwise { window: 32 }),
    Row(8, 1, 0, Alltoall::Bruck),
    Row(0, 0, 0, Alltoall::Pairwise { window: 32 }),
];

const ROOTED: &[Row<Rooted>] = &[
    Row(0, 4 * KIB, 0, Rooted::Linear),
    Row(4, 0, 0, Rooted::Binomial),
    Row(0, 0, 0, Rooted::Linear),
];

const REDUCE_SCATTER: &[Row<ReduceScatter>] = &[
    Row(3, 256 * KIB, 32 * KIB, ReduceScatter::Pairwise),
    Row(3, 0, 0, ReduceScatter::Halving),
    // Both are one round; halving copies the whole vector first.
    Row(0, 0, 0, ReduceScatter::Pairwise),
];

/// Ranks of a node beyond which pieces in slots are so short that long data goes another way.
const MANY: usize = 32;

/// Ranks of a node beyond which an alltoall of long blocks goes by pairs: not all read everybody's memory at once.
const PAIRWISE: usize = 8;

/// Ranks of a node up to which the root of a short reduction reads itself what all others have given; of more a tree is
/// quicker. This and the five below: measured with 4, 8 and 16 ranks on 16 cores of a Xeon of the fifth generation.
const FLAT: usize = 8;

/// Bytes of a vector up to which a reduction to one rank goes up a tree in slots.
const BY_TREE: usize = 256 * KIB;

/// Bytes above which each rank makes a share of it instead, of what it reads where the others have it; of more ranks than
/// give to the root, from which on.
const BY_SHARES: usize = 256 * KIB;

/// Bytes of a share from which on that is worth a call of the system for each of the others.
const SHARE: usize = 16 * KIB;

/// Bytes of a share of an allreduce, whose results are shown in slots, from which on it is.
const ALL_SHARE: usize = 8 * KIB;

/// Bytes of a block from which on more than two ranks read theirs of an alltoall where the others have them.
const BLOCK: usize = 8 * KIB;

/// Bytes of a block from which on messages are quicker again: a long copy holds up others.
const BLOCKS_BY_MESSAGES: usize = 512 * KIB;

/// Returns a collective's bit in a set. The name must be one of [`NAMES`], which debug builds check.
pub(super) fn bit(collective: &str) -> u16 {
    let place = NAMES.iter().position(|row| row.0 == collective);
    debug_assert!(place.is_some(), "no row of NAMES has {collective:?}");
    place.map_or(0, |place| 1 << place)
}

/// Returns a collective's name as [`NAMES`] and the standard spell it; `-` may stand for `_`.
pub(super) fn collective_name(name: &str) -> String {
    name.replace('-', "_")
}

/// Returns an algorithm's name as [`NAMES`] spells it; `_` may stand for `-`.
fn algorithm_name(name: &str) -> String {
    name.replace('_', "-")
}

fn first<A: Copy>(table: &[Row<A>], situation: &Situation, otherwise: A) -> A {
    let Situation { ranks, bytes, .. } = *situation;
    let fits = |row: &&Row<A>| ranks >= row.0 && bytes >= row.1 && bytes / ranks.max(1) >= row.2;
    table.iter().find(fits).map_or(otherwise, |row| row.3)
}

/// Algorithms asked for by name; where none is, tables decide: first one that was read, then the
/// built-in ones.
#[derive(Clone, Default, Debug)]
pub struct Choices {
    barrier: Option<Barrier>,
    bcast: Option<Bcast>,
    gather: Option<Rooted>,
    scatter: Option<Rooted>,
    allgather: Option<Allgather>,
    alltoall: Option<Alltoall>,
    reduce: Option<Reduce>,
    allreduce: Option<Allreduce>,
    reduce_scatter: Option<ReduceScatter>,
    /// Scans that the settings send by messages, for which there is one algorithm.
    by_messages: u16,
    nodes: Option<bool>,
    slots: Option<bool>,
    /// Which collectives are to use slots, by their places in [`NAMES`].
    by_slots: u16,
    /// Which are to read long data where it is.
    by_direct: u16,
    /// And which way.
    slot_ways: SlotWays,
    pub(super) rdma: Option<bool>,
    /// Which are to write to slots over the network.
    pub(super) by_rdma: u16,
    /// And which way.
    pub(super) written: Written,
    /// What writes over the network cost.
    pub(super) costs: Option<Parameters>,
    /// What was measured on this host.
    pub(super) measured: Arc<Measured>,
    pub(super) rules: Arc<[Rule]>,
}

/// The collectives that have a choice, with the names that [`Choices::set`] takes.
///
/// `slots` is the way by shared memory between ranks that all share a node, and `direct` by copying
/// from each other's memory there; where they can't be, the built-in tables decide. `slots-tree:4` is a reduction to
/// one rank up a tree of that degree, in slots; `slots-tree:4:8192` says the bytes of a piece, too. A reduction that is
/// `direct`, to one rank or to all, may say the bytes of a piece.
///
/// `rdma` is the way by writes to slots over a network, where it can carry them, as the cost model says. By name,
/// a broadcast goes down a binomial tree (`rdma-binomial`) or in pieces along the ranks (`rdma-chain`), a reduction up a
/// tree (`rdma-tree:3`, of degree 1, 3, 7 or 15) or along the ranks (`rdma-chain`), an allreduce between pairs of
/// ranks (`rdma-pairs`), up a tree and down again (`rdma-tree:3`) or in pieces round the ring (`rdma-ring`), an
/// allgather or alltoall from each rank to all others (`rdma-direct`, up to 16 ranks) or 1, 2, 4, … ranks further on
/// (`rdma-doubling`), an allgather also in pieces round the ring (`rdma-ring`).
///
/// A name may be followed by a colon and its parameter: `chain:65536` (bytes of a segment),
/// `pairwise:8` (rounds under way at once).
pub const NAMES: &[(&str, &[&str])] = &[
    ("barrier", &["dissemination", "tree", "slots", "rdma"]),
    (
        "bcast",
        &[
            "binomial",
            "scatter-ring",
            "chain",
            "slots",
            "direct",
            "rdma",
            "rdma-binomial",
            "rdma-chain",
        ],
    ),
    ("gather", &["linear", "binomial", "slots"]),
    ("scatter", &["linear", "binomial", "slots"]),
    (
        "allgather",
        &[
            "recursive-doubling",
            "bruck",
            "ring",
            "neighbor-exchange",
            "slots",
            "direct",
            "rdma",
            "rdma-direct",
            "rdma-doubling",
            "rdma-ring",
        ],
    ),
    (
        "alltoall",
        &[
            "bruck",
            "pairwise",
            "spread",
            "slots",
            "direct",
            "rdma",
            "rdma-direct",
            "rdma-doubling",
        ],
    ),
    (
        "reduce",
        &[
            "binomial",
            "halving",
            "slots",
            "slots-tree",
            "direct",
            "rdma",
            "rdma-tree",
            "rdma-chain",
        ],
    ),
    (
        "allreduce",
        &[
            "recursive-doubling",
            "halving",
            "ring",
            "slots",
            "direct",
            "rdma",
            "rdma-pairs",
            "rdma-tree",
            "rdma-ring",
        ],
    ),
    ("reduce_scatter", &["halving", "pairwise", "slots"]),
    ("scan", &["recursive-doubling", "slots"]),
    ("exscan", &["recursive-doubling", "slots"]),
    ("nodes", &["on", "off"]),
    ("slots", &["on", "off"]),
    ("rdma", &["on", "off"]),
];

impl Choices {
    /// Selects an algorithm by the names in [`NAMES`], in which `-` and `_` are equal; `auto` returns to the tables.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` when there is no such collective, algorithm or parameter, naming those that
    /// there are.
    pub fn set(&mut self, collective: &str, algorithm: &str) -> Result<()> {
        let (collective, algorithm) = (&*collective_name(collective), &*algorithm_name(algorithm));
        let Some((_, names)) = NAMES.iter().find(|row| row.0 == collective) else {
            let known: Vec<_> = NAMES.iter().map(|row| row.0).collect();
            return Err(Error::new(
                Class::Arg,
                format!(
                    "there is no choice of algorithms for \"{collective}\"; there is for {}",
                    known.join(", ")
                ),
            ));
        };
        if algorithm == "auto" {
            self.clear(collective);
            return Ok(());
        }
        let (name, rest) = match algorithm.split_once(':') {
            Some((name, rest)) => (name, Some(rest)),
            None => (algorithm, None),
        };
        let number = |text: &str| text.parse().ok().filter(|&n: &usize| n > 0);
        let parameters = rest.map(|rest| rest.split(':').map(number).collect());
        let parameters: Option<Vec<usize>> = parameters.unwrap_or(Some(Vec::new()));
        let parameter = parameters.as_ref().and_then(|all| all.first().copied());
        let is_degree = parameter.is_some_and(|k| {
            super::rdma::DEGREES
                .iter()
                .any(|&degree| degree as usize == k)
        });
        let takes = match name {
            "rdma-tree" => usize::from(is_degree),
            "slots-tree" => 2,
            "direct" if collective.ends_with("reduce") => 1,
            "chain" | "pairwise" if collective != "reduce_scatter" => 1,
            _ => 0,
        };
        let wrong_parameter = parameters.as_ref().is_none_or(|all| all.len() > takes);
        if !names.contains(&name) || wrong_parameter {
            return Err(Error::new(
                Class::Arg,
                format!(
                    "\"{algorithm}\" is no algorithm for {collective}; there are auto, {} \
                     (chain and alltoall's pairwise take a number above 0, as in \"chain:65536\"; \
                     rdma-tree takes 1, 3, 7 or 15, slots-tree a degree and bytes of a piece, a direct \
                     reduce or allreduce bytes of a piece)",
                    names.join(", ")
                ),
            ));
        }
        self.clear(collective);
        let parameters = parameters.unwrap_or_default();
        self.slot_ways.set(collective, name, &parameters);
        if name.starts_with("slots") {
            self.by_slots |= bit(collective);
        } else if name == "direct" {
            self.by_direct |= bit(collective);
        } else if name.starts_with("rdma") {
            self.by_rdma |= bit(collective);
            self.written.set(collective, name, parameter);
        } else {
            self.choose(collective, name, parameter);
        }
        Ok(())
    }

    /// The rule of the table that was read.
    pub(super) fn rule(&self, collective: &str, situation: &Situation) -> Option<&Choices> {
        super::table::find(&self.rules, collective, situation)
    }

    pub(super) fn is_asked(&self, collective: &str) -> bool {
        match collective {
            "barrier" => self.barrier.is_some(),
            "bcast" => self.bcast.is_some(),
            "gather" => self.gather.is_some(),
            "scatter" => self.scatter.is_some(),
            "allgather" => self.allgather.is_some(),
            "alltoall" => self.alltoall.is_some(),
            "reduce" => self.reduce.is_some(),
            "allreduce" => self.allreduce.is_some(),
            "reduce_scatter" => self.reduce_scatter.is_some(),
            _ => self.by_messages & bit(collective) != 0,
        }
    }

    fn clear(&mut self, collective: &str) {
        self.by_slots &= !bit(collective);
        self.by_direct &= !bit(collective);
        self.by_rdma &= !bit(collective);
        self.written.clear(collective);
        self.slot_ways.clear(collective);
        match collective {
            "rdma" => self.rdma = None,
            "barrier" => self.barrier = None,
            "bcast" => self.bcast = None,
            "gather" => self.gather = None,
            "scatter" => self.scatter = None,
            "allgather" => self.allgather = None,
            "alltoall" => self.alltoall = None,
            "reduce" => self.reduce = None,
            "allreduce" => self.allreduce = None,
            "reduce_scatter" => self.reduce_scatter = None,
            "nodes" => self.nodes = None,
            "slots" => self.slots = None,
            _ => self.by_messages &= !bit(collective),
        }
    }

    /// The names are known to be right.
    fn choose(&mut self, collective: &str, name: &str, parameter: Option<usize>) {
        let rooted = match name {
            "linear" => Rooted::Linear,
            _ => Rooted::Binomial,
        };
        match collective {
            "barrier" => {
                self.barrier = Some(match name {
                    "tree" => Barrier::Tree,
                    _ => Barrier::Dissemination,
                });
            }
            "bcast" => {
                self.bcast = Some(match name {
                    "binomial" => Bcast::Binomial,
                    "scatter-ring" => Bcast::ScatterRing,
                    _ => parameter.map_or(CHAIN, |segment| Bcast::Chain { segment }),
                });
            }
            "gather" => self.gather = Some(rooted),
            "scatter" => self.scatter = Some(rooted),
            "allgather" => {
                self.allgather = Some(match name {
                    "recursive-doubling" => Allgather::RecursiveDoubling,
                    "bruck" => Allgather::Bruck,
                    "ring" => Allgather::Ring,
                    _ => Allgather::NeighborExchange,
                });
            }
            "alltoall" => {
                self.alltoall = Some(match name {
                    "bruck" => Alltoall::Bruck,
                    "spread" => Alltoall::Pairwise { window: usize::MAX },
                    _ => Alltoall::Pairwise {
                        window: parameter.unwrap_or(32),
                    },
                });
            }
            "reduce" => {
                self.reduce = Some(match name {
                    "binomial" => Reduce::Binomial,
                    _ => Reduce::Halving,
                });
            }
            "allreduce" => {
                self.allreduce = Some(match name {
                    "recursive-doubling" => Allreduce::RecursiveDoubling,
                    "halving" => Allreduce::Halving,
                    _ => Allreduce::Ring,
                });
            }
            "reduce_scatter" => {
                self.reduce_scatter = Some(match name {
                    "halving" => ReduceScatter::Halving,
                    _ => ReduceScatter::Pairwise,
                });
            }
            "nodes" => self.nodes = Some(name == "on"),
            "rdma" => self.rdma = Some(name == "on"),
            "slots" => self.slots = Some(name == "on"),
            _ => self.by_messages |= bit(collective),
        }
    }

    /// Whether ranks of one node do this by slots in shared memory: unless another way was asked for,
    /// as the tables say.
    pub fn in_slots(&self, collective: &str, situation: &Situation) -> bool {
        if self.slots == Some(false) || self.is_asked(collective) {
            return false;
        }
        if self.by_slots & bit(collective) != 0 {
            return true;
        }
        if let Some(rule) = self.rule(collective, situation) {
            return rule.by_slots & bit(collective) != 0;
        }
        let Situation { ranks, bytes, .. } = *situation;
        // Measured with 4, 8 and 16 ranks on 16 cores. What many give together is cut into short pieces.
        let (two, few) = (ranks == 2, ranks <= MANY);
        let most = match collective {
            "reduce" | "allreduce" if two => 8 * MIB,
            "allreduce" if few => 8 * MIB,
            "reduce" if few => BY_TREE,
            "gather" | "scatter" if two => MIB,
            "alltoall" if two => 256 * KIB,
            "bcast" if two => 4 * MIB,
            "bcast" | "allgather" if few => 16 * MIB,
            "gather" if few => 8 * MIB / ranks.max(1),
            // Its root alone writes, a small part of a slot for each.
            "scatter" => 2 * KIB,
            "alltoall" if ranks > PAIRWISE => 4 * KIB,
            "bcast" | "gather" | "alltoall" => 16 * KIB,
            "reduce" => 32 * KIB,
            "allgather" | "allreduce" => 512 * KIB,
            _ => usize::MAX,
        };
        bytes <= most
    }

    /// Whether slots were asked for, or a rule that was read says how this is done.
    fn is_told(&self, collective: &str, situation: &Situation) -> bool {
        self.by_slots & bit(collective) != 0 || self.rule(collective, situation).is_some()
    }

    /// Whether data that goes by slots otherwise is too long for that where ranks wait for their cores: each piece takes a
    /// change of ranks then. What was asked for, or measured there, is done all the same.
    pub fn is_long_in_a_crowd(&self, collective: &str, situation: &Situation) -> bool {
        let most = match collective {
            "allgather" | "allreduce" => 512 * KIB,
            "reduce" => 32 * KIB,
            _ => usize::MAX,
        };
        situation.ranks > 2 && situation.bytes > most && !self.is_told(collective, situation)
    }

    /// Whether ranks that can copy from each other's memory do so, for long data: where nothing else
    /// was asked for, and the tables don't know better. Two ranks that both have data for each other are quicker by
    /// messages, which take the quickest way as measured,
    /// unless one copy was measured to be quicker than two. Several read shares of vectors, and blocks that are for them
    /// alone, whatever was measured: that was an allgather, in which all want the same bytes at once.
    pub fn goes_direct(&self, collective: &str, situation: &Situation, slots: Slots) -> bool {
        let two = situation.ranks == 2;
        let quicker = slots.direct == Direct::Quicker;
        // Each has a core, and no other collectives are under way beside this one.
        let free = !two && !slots.crowded && !slots.is_nonblocking;
        let least = match collective {
            // Each block, of those that all receive together.
            "allgather" if quicker => 16 * KIB * situation.ranks,
            "bcast" if two && quicker => 8 * KIB,
            // Longer vectors go in messages, and then in slots, of which a piece is read while the next one is written.
            "reduce" if two && quicker && situation.bytes <= 48 * KIB => 16 * KIB,
            "reduce" if free && situation.ranks <= FLAT => BY_SHARES,
            "reduce" if free => BY_SHARES.max(SHARE * situation.ranks) - 1,
            "allreduce" if free => ALL_SHARE * situation.ranks - 1,
            "alltoall" if free && situation.bytes < BLOCKS_BY_MESSAGES => BLOCK - 1,
            "alltoall" if free => usize::MAX,
            "alltoall" if quicker => 16 * KIB,
            "reduce" | "allreduce" => usize::MAX,
            "allgather" if two => usize::MAX,
            "alltoall" if two => 8 * MIB,
            "bcast" if two => 4 * MIB,
            // Many that read at one at once are in each other's way.
            "bcast" | "allgather" if situation.ranks <= MANY => 16 * MIB,
            "alltoall" if situation.ranks > PAIRWISE => usize::MAX,
            "allgather" => 512 * KIB,
            _ => 16 * KIB,
        };
        self.told_direct(collective, situation)
            .unwrap_or(situation.bytes > least)
    }

    /// Whether data that goes by slots otherwise is for a message, where one copy was measured to be quicker than two: of two
    /// ranks that reduce to one of them the other need not wait, once it has sent. What was asked for, or measured there,
    /// is done all the same.
    pub fn is_for_a_message(
        &self,
        collective: &str,
        situation: &Situation,
        direct: Direct,
    ) -> bool {
        let between = 48 * KIB < situation.bytes && situation.bytes < MIB;
        let two = collective == "reduce" && situation.ranks == 2;
        two && between && direct == Direct::Quicker && !self.is_told(collective, situation)
    }

    /// Whether ranks of a node are to make slots in shared memory.
    pub fn wants_slots(&self) -> bool {
        self.slots != Some(false)
    }

    /// For a barrier.
    pub fn barrier(&self, situation: &Situation) -> Barrier {
        let ruled = || self.rule("barrier", situation)?.barrier;
        self.barrier
            .or_else(ruled)
            .unwrap_or(Barrier::Dissemination)
    }

    /// For a broadcast.
    pub fn bcast(&self, situation: &Situation) -> Bcast {
        self.bcast
            .or_else(|| self.rule("bcast", situation)?.bcast)
            .unwrap_or_else(|| first(BCAST, situation, Bcast::Binomial))
    }

    /// For a gather. (A `gatherv` is linear: no rank but the root knows all counts.)
    pub fn gather(&self, situation: &Situation) -> Rooted {
        self.gather
            .or_else(|| self.rule("gather", situation)?.gather)
            .unwrap_or_else(|| first(ROOTED, situation, Rooted::Linear))
    }

    /// For a scatter. (A `scatterv` is linear.)
    pub fn scatter(&self, situation: &Situation) -> Rooted {
        self.scatter
            .or_else(|| self.rule("scatter", situation)?.scatter)
            .unwrap_or_else(|| first(ROOTED, situation, Rooted::Linear))
    }

    /// For an allgather or allgatherv.
    pub fn allgather(&self, situation: &Situation) -> Allgather {
        self.allgather
            .or_else(|| self.rule("allgather", situation)?.allgather)
            .unwrap_or_else(|| first(ALLGATHER, situation, Allgather::Ring))
    }

    /// For an alltoall; for `v` and `w` with 0 bytes.
    pub fn alltoall(&self, situation: &Situation) -> Alltoall {
        let pairwise = Alltoall::Pairwise { window: 32 };
        self.alltoall
            .or_else(|| self.rule("alltoall", situation)?.alltoall)
            .unwrap_or_else(|| first(ALLTOALL, situation, pairwise))
    }

    /// For a reduction to one rank.
    pub fn reduce(&self, situation: &Situation) -> Reduce {
        self.reduce
            .or_else(|| self.rule("reduce", situation)?.reduce)
            .unwrap_or_else(|| first(REDUCE, situation, Reduce::Binomial))
    }

    /// For an allreduce.
    pub fn allreduce(&self, situation: &Situation) -> Allreduce {
        let chosen = self
            .allreduce
            .or_else(|| self.rule("allreduce", situation)?.allreduce)
            .unwrap_or_else(|| match situation.is_far_pair() && situation.bytes < PAIR {
                true => Allreduce::RecursiveDoubling,
                false => first(ALLREDUCE, situation, Allreduce::RecursiveDoubling),
            });
        match chosen {
            // The ring turns the order of ranks; this moves as little.
            Allreduce::Ring if !situation.commutes => Allreduce::Halving,
            chosen => chosen,
        }
    }

    /// For a reduce-scatter with equal blocks or counts.
    pub fn reduce_scatter(&self, situation: &Situation) -> ReduceScatter {
        self.reduce_scatter
            .or_else(|| self.rule("reduce_scatter", situation)?.reduce_scatter)
            .unwrap_or_else(|| first(REDUCE_SCATTER, situation, ReduceScatter::Halving))
    }

    /// Whether to go by nodes: within each, and between one rank of each. It pays where there are
    /// several ranks on several nodes, and while data is small enough that rounds count.
    pub fn by_nodes(&self, situation: &Situation) -> bool {
        let several = situation.per_node > 1 && situation.ranks > situation.per_node;
        several && self.nodes.unwrap_or(situation.bytes <= 8 * KIB)
    }
}

#[cfg(test)]
mod selections;
#[cfg(test)]
mod tests;
