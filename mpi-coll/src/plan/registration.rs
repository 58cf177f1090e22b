//! State that all collectives of a process share, registered with the process.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use netmod::{Peer, VciId};
use parking_lot::Mutex;

use crate::agreement::inquiry::Inquiries;
use crate::slots::arenas::Arenas;
use crate::slots::network::AwaitedPeers;
use mpi_core::op::Op;
use mpi_core::process::Process;
use mpi_core::process::source::{COLLECTIVES, ProgressSource, Source};
use mpi_core::pt2pt::notice::Notice;
use mpi_sched::Choices;

/// Configuration and shared state of a process's collectives.
#[derive(Default)]
pub struct Collectives {
    pub(crate) choices: Choices,
    /// `MPI_MAX` for the library's own reductions, made at first use.
    pub(crate) greatest: OnceLock<Op>,
    /// Number of persistent collectives with slots.
    pub(crate) persistent_with_slots: Arc<AtomicUsize>,
    /// Number of communicators with slots.
    pub(crate) with_slots: Arc<AtomicUsize>,
    /// Calls over several nodes that used slots within this one.
    by_node: AtomicU64,
    /// Peers whose failure ends a collective that waits for flags.
    pub(crate) awaited_peers: Mutex<Vec<Arc<AwaitedPeers>>>,
    /// Calls in progress, for members that inquire about them.
    pub(crate) inquiries: Inquiries,
    /// Whether rank 0 prints the algorithms chosen.
    pub(crate) prints_choices: bool,
    /// Small shared segments for objects that members of communicators create.
    arenas: Arenas,
}

impl Collectives {
    /// Creates the state. `choices` are the same on all processes; `prints_choices`: rank 0 of each
    /// communicator prints the algorithm of every schedule that it builds.
    pub fn new(choices: Choices, prints_choices: bool) -> Collectives {
        Collectives {
            choices,
            prints_choices,
            ..Collectives::default()
        }
    }

    /// Counts a call over several nodes that uses slots within this one.
    pub(crate) fn count_by_node(&self) {
        self.by_node.fetch_add(1, Ordering::Relaxed);
    }
}

impl Source for Collectives {
    const ID: usize = COLLECTIVES;

    fn new(_process: &Process) -> Self {
        Collectives::default()
    }
}

impl ProgressSource for Collectives {
    fn read_notice(&self, process: &Process, vci: VciId, notice: &Notice) {
        self.inquiries.take_notice(process, vci, notice);
    }

    /// Peers that collectives on a VCI wait for without a request.
    fn awaited_on(&self, vci: VciId) -> Vec<Peer> {
        let awaited_peers = self.awaited_peers.lock();
        let waiting = awaited_peers
            .iter()
            .filter(|awaited| awaited.vci == vci && awaited.is_waiting.load(Ordering::Relaxed));
        waiting
            .flat_map(|awaited| awaited.peers.iter().copied())
            .collect()
    }
}

/// Number of calls over several nodes that used slots within this node.
pub fn by_node(process: &Process) -> u64 {
    let collectives = process.source::<Collectives>();
    collectives.by_node.load(Ordering::Relaxed)
}

/// The algorithms that a process's collectives choose from.
pub fn choices(process: &Process) -> &Choices {
    &process.source::<Collectives>().choices
}

/// The small shared segments of a process.
pub fn arenas(process: &Process) -> &Arenas {
    &process.source::<Collectives>().arenas
}
