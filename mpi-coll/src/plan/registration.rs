//! What the collectives of a process have in common, registered with it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use netmod::{Peer, VciId};
use parking_lot::Mutex;

use crate::agreement::inquiry::Inquiries;
use crate::slots::arenas::Arenas;
use crate::slots::network::AwaitedPeers;
use crate::slots::one_copy::Copying;
use mpi_core::op::Op;
use mpi_core::process::Process;
use mpi_core::process::source::{COLLECTIVES, ProgressSource, Source};
use mpi_core::pt2pt::letter::Letter;
use mpi_sched::Choices;

/// How the collectives of a process are done, and what all of them share.
#[derive(Default)]
pub struct Collectives {
    pub(crate) choices: Choices,
    /// The operation of the library's own reductions, made when it is first needed.
    pub(crate) greatest: OnceLock<Op>,
    /// How many persistent ones have slots.
    pub(crate) persistent_with_slots: Arc<AtomicUsize>,
    /// Communicators that have slots.
    pub(crate) with_slots: Arc<AtomicUsize>,
    /// Whether one copy is quicker than two on this node.
    pub(crate) copying: Copying,
    /// Calls over several nodes that went by slots within this one.
    by_node: AtomicU64,
    /// Whose loss matters to collectives that wait for flags.
    pub(crate) awaited_peers: Mutex<Vec<Arc<AwaitedPeers>>>,
    /// What calls are under way, for those who ask.
    pub(crate) inquiries: Inquiries,
    /// Whether to tell people which algorithms are taken.
    pub(crate) tells: bool,
    /// Small pieces of shared memory for what members of communicators make.
    arenas: Arenas,
}

impl Collectives {
    /// With these algorithms, the same on all processes. `tells`: rank 0 of communicators prints the
    /// algorithm of each collective that it builds anew.
    pub fn new(choices: Choices, tells: bool) -> Collectives {
        Collectives {
            choices,
            tells,
            ..Collectives::default()
        }
    }

    /// Counts a call that goes by slots within this node, over several nodes.
    pub(crate) fn count_by_node(&self) {
        self.by_node.fetch_add(1, Ordering::Relaxed);
    }
}

impl Source for Collectives {
    const PLACE: usize = COLLECTIVES;

    fn new(_process: &Process) -> Self {
        Collectives::default()
    }
}

impl ProgressSource for Collectives {
    fn read_letter(&self, process: &Process, vci: VciId, letter: &Letter) {
        self.inquiries.take_letter(process, vci, letter);
    }

    /// The processes that collectives on a VCI wait for without having requests that say so.
    fn awaited_on(&self, vci: VciId) -> Vec<Peer> {
        let awaited_peers = self.awaited_peers.lock();
        let waiting = awaited_peers
            .iter()
            .filter(|awaited| awaited.vci == vci && awaited.waits.load(Ordering::Relaxed));
        waiting
            .flat_map(|awaited| awaited.peers.iter().copied())
            .collect()
    }
}

/// How many calls over several nodes went by slots in shared memory within this node.
pub fn by_node(process: &Process) -> u64 {
    let collectives = process.source::<Collectives>();
    collectives.by_node.load(Ordering::Relaxed)
}

/// Which algorithms collectives take.
pub fn choices(process: &Process) -> &Choices {
    &process.source::<Collectives>().choices
}

/// The small pieces of shared memory that a process has.
pub fn arenas(process: &Process) -> &Arenas {
    &process.source::<Collectives>().arenas
}
