//! The collectives of a process, registered with it as a source of progress.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use netmod::{Peer, VciId};
use parking_lot::Mutex;

use super::Holder;
use super::cache::CommRun;
use super::call::Site;
use super::inquiry::{Inquiry, Registry};
use super::network::AwaitedPeers;
use super::persistent::PersistentCollective;
use super::state::CommState;
use crate::comm::Comm;
use crate::error::Error;
use crate::lock::Guarded;
use crate::process::Process;
use crate::pt2pt::request::RequestId;
use mpi_coll::{Choices, Reach, Slots};

/// A nonblocking collective under way.
pub(super) struct Active {
    /// None once it is done.
    pub run: Option<Box<CommRun>>,
    pub comm: Holder,
    pub request: RequestId,
    /// The number of its first phase, if it goes by slots.
    pub number: Option<u64>,
    /// Its number among the communicator's collectives.
    pub tag: u32,
    /// How often it was looked at in vain.
    pub polls: u32,
    /// What it asks others, if it goes by messages.
    pub inquiry: Option<Inquiry>,
    /// Why it was given up. Its request is complete when the buffers are the program's again.
    pub failed: Option<Error>,
}

/// The collectives of a process: those under way that nobody waits in, and how to do new ones.
#[derive(Default)]
pub struct Collectives {
    pub(super) runs: Guarded<Vec<Active>>,
    /// Persistent ones, of which some are under way. Locked after `runs`.
    pub(super) persistent: Guarded<Vec<Arc<PersistentCollective>>>,
    /// How many persistent ones have slots.
    pub(super) persistent_with_slots: Arc<AtomicUsize>,
    /// Counts rounds of progress that completed one which did.
    pub(super) rounds: AtomicU32,
    choices: Choices,
    /// Communicators that have slots.
    pub(super) with_slots: Arc<AtomicUsize>,
    /// Whose loss matters to collectives that wait for flags.
    pub(super) awaited_peers: Mutex<Vec<Arc<AwaitedPeers>>>,
    /// What calls are under way, for those who ask.
    pub(super) registry: Mutex<Registry>,
    /// Whether to tell people which algorithms are taken.
    pub(super) tells: bool,
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

    /// What the builders need to know about a communicator.
    #[inline]
    pub(super) fn site<'a>(
        &'a self,
        process: &Process,
        comm: &'a Comm,
        state: &'a CommState,
        slots: Option<Slots>,
        reach: Option<(Reach, usize)>,
        own: Option<&'a Choices>,
    ) -> Site<'a> {
        Site {
            comm,
            slots,
            reach,
            choices: own.unwrap_or(&self.choices),
            nodes: match process.nodes() {
                [] => None,
                nodes => state.nodes(comm, nodes),
            },
        }
    }
}

impl Collectives {
    /// The processes that collectives on a VCI wait for without having requests that say so.
    #[cold]
    pub(super) fn awaited_peers_on(&self, vci: VciId) -> Vec<Peer> {
        let awaited_peers = self.awaited_peers.lock();
        let waiting = awaited_peers
            .iter()
            .filter(|awaited| awaited.vci == vci && awaited.waits.load(Ordering::Relaxed));
        waiting
            .flat_map(|awaited| awaited.peers.iter().copied())
            .collect()
    }
}

/// Which algorithms collectives take.
pub fn choices(process: &Process) -> &Choices {
    &process.source::<Collectives>().choices
}
