//! Connected processes of other jobs (MPI-3.1 chapter 10).
//!
//! Their numbers lie above those of the own job. A connection takes a block of numbers and returns
//! it when all of its processes have parted. Across jobs a process is known by its [`Identity`].

pub mod connection;
mod directory;
mod pin;
#[cfg(all(test, not(loom)))]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use netmod::{Peer, Transport};
use netmod_kit::bridge::Numbers;
use parking_lot::{Mutex, MutexGuard};

pub use self::directory::Directory;
pub use self::pin::Pin;
use crate::pt2pt::context::ContextId;
use crate::pt2pt::request::RequestId;

/// Identifies a process across jobs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Identity {
    /// The job: a number that is unique among jobs that may connect.
    pub job: u64,
    /// The rank within the job.
    pub rank: u32,
}

/// Description of a process, exchanged when jobs connect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// The process.
    pub identity: Identity,
    /// Node number; processes with equal numbers can share memory.
    pub node: u64,
    /// Stands for the process's number in contexts. Larger than all process numbers.
    pub mark: u32,
}

/// Smallest mark. Process numbers are below.
const LEAST_MARK: u32 = 1 << 31;

/// The connected processes of other jobs, and the transports to them.
#[derive(Default)]
pub struct Foreign {
    /// Job of this process, and number of the job's processes in `size`; 0 if unknown.
    job: AtomicU64,
    size: AtomicU32,
    mark: AtomicU32,
    /// Number of connected processes.
    connected_peers: AtomicU32,
    /// Number of them on this process's node.
    neighbours: AtomicU32,
    /// Number of times that lanes, and their descriptors, were closed.
    pub(in crate::process) closings: AtomicU32,
    state: Mutex<State>,
    /// Partings in progress.
    pending_partings: Mutex<Vec<PendingParting>>,
}

#[derive(Default)]
struct State {
    /// Indexed by process number minus [`Foreign::size`].
    peers: Vec<Option<ForeignPeer>>,
    blocks: Vec<Block>,
    /// Indexed by route minus the number of own transports.
    transports: Vec<Option<Arc<dyn Transport>>>,
    /// Whether contexts use marks, because this process has been connected.
    connected: bool,
}

/// A connected process of another job.
struct ForeignPeer {
    member: Member,
    /// Whether the process is on this process's node.
    is_local: bool,
    /// Its route, minus the number of own transports.
    route: usize,
    connection: ContextId,
    /// Owners of the communicators and windows that it is a member of.
    owners: Vec<u32>,
    /// Number of calls that are about to make it a member.
    pins: u32,
    /// Whether both sides have chosen this connection among concurrent ones.
    is_chosen: bool,
    /// Whether parting has begun.
    is_parting: bool,
    /// Whether it has parted; only its number is still taken.
    has_parted: bool,
}

/// The resources of a connection.
struct Block {
    connection: ContextId,
    numbers: Numbers,
    own: Peer,
    /// Whether the connection is complete.
    is_complete: bool,
    /// Number of members that have not parted.
    left: u32,
    routes: Vec<usize>,
    directory: Arc<Directory>,
}

/// A process of another job to part from.
#[derive(Clone, Copy, Debug)]
pub struct Parting {
    /// The process's number.
    pub peer: Peer,
    /// The context of the connection.
    pub connection: ContextId,
    /// Numbers of this process and the other one in the connection.
    pub numbers: (Peer, Peer),
    /// The number of the transport.
    pub route: usize,
}

/// A parting in progress: the last messages of two processes.
pub struct PendingParting {
    /// The other process.
    pub peer: Peer,
    /// The context of the connection.
    pub connection: ContextId,
    /// The number of the transport.
    pub route: usize,
    /// The pending requests of the messages.
    pub requests: Vec<RequestId>,
    /// Time since when all messages are complete.
    pub complete: Option<Duration>,
}

/// The use of connected processes by a communicator or window; they stay connected while it lives.
#[derive(Default)]
pub struct ForeignMembers {
    of: Option<Arc<Foreign>>,
    owner: u32,
    peers: Vec<Peer>,
}

impl Drop for ForeignMembers {
    fn drop(&mut self) {
        let Some(foreign) = &self.of else { return };
        let mut state = foreign.state.lock();
        for peer in &self.peers {
            if let Some(known) = foreign.index_of(*peer).and_then(|at| state.peer_mut(at))
                && let Some(at) = known.owners.iter().position(|owner| *owner == self.owner)
            {
                known.owners.swap_remove(at);
            }
        }
    }
}

impl State {
    fn peer_mut(&mut self, index: usize) -> Option<&mut ForeignPeer> {
        self.peers.get_mut(index)?.as_mut()
    }

    fn block(&mut self, connection: ContextId) -> Option<&mut Block> {
        let mut blocks = self.blocks.iter_mut();
        blocks.find(|block| block.connection == connection)
    }

    /// Returns the index of a process in the chosen connection, unless it is parting.
    fn chosen_index(&self, identity: Identity) -> Option<usize> {
        self.index_where(identity, |known| known.is_chosen)
    }

    /// Returns the index of a process in a connection that `is_it` selects, unless it is parting.
    fn index_where(
        &self,
        identity: Identity,
        is_it: impl Fn(&ForeignPeer) -> bool,
    ) -> Option<usize> {
        let is_it = |known: &ForeignPeer| {
            !known.is_parting && known.member.identity == identity && is_it(known)
        };
        let mut peers = self.peers.iter();
        peers.position(|known| known.as_ref().is_some_and(is_it))
    }
}

impl Foreign {
    /// Sets this process's identity. Required before any connection.
    pub fn introduce(&self, own: Identity, size: u32) {
        let mut mark = own.job ^ own.job >> 32 ^ u64::from(own.rank).wrapping_mul(0x9e37_79b9);
        mark &= u64::from(LEAST_MARK - 1);
        // u32::MAX is reserved for `ContextId::UNKNOWN`.
        let mark = (LEAST_MARK | mark as u32).min(u32::MAX - 1);
        self.job.store(own.job, Ordering::Relaxed);
        self.mark.store(mark, Ordering::Relaxed);
        self.size.store(size, Ordering::Relaxed);
    }

    /// Number of processes of the own job; 0 before [`Foreign::introduce`].
    pub fn own_size(&self) -> u32 {
        self.size.load(Ordering::Relaxed)
    }

    /// Returns this process's mark.
    pub fn mark(&self) -> u32 {
        self.mark.load(Ordering::Relaxed)
    }

    /// Returns this process's mark if the process has ever been connected.
    pub(super) fn mark_in_use(&self) -> Option<u32> {
        self.state.lock().connected.then(|| self.mark())
    }

    /// Whether any process of another job is connected.
    pub fn any(&self) -> bool {
        self.connected_peers.load(Ordering::Relaxed) != 0
    }

    /// Number of connected processes on this process's node.
    pub(super) fn neighbours(&self) -> u32 {
        self.neighbours.load(Ordering::Relaxed)
    }

    /// Whether a process belongs to another job.
    #[inline]
    pub fn is_foreign(&self, peer: Peer) -> bool {
        self.index_of(peer).is_some()
    }

    fn index_of(&self, peer: Peer) -> Option<usize> {
        let size = self.own_size();
        (size > 0 && peer >= size).then(|| (peer - size) as usize)
    }

    /// Returns the identity of a process.
    pub fn identity(&self, peer: Peer) -> Identity {
        let own = Identity {
            job: self.job.load(Ordering::Relaxed),
            rank: peer,
        };
        let Some(index) = self.index_of(peer) else {
            return own;
        };
        let mut state = self.state.lock();
        state
            .peer_mut(index)
            .map_or(own, |known| known.member.identity)
    }

    /// Returns the number of a process that is of the own job or connected.
    pub fn find(&self, identity: Identity) -> Option<Peer> {
        if identity.job == self.job.load(Ordering::Relaxed) {
            return Some(identity.rank);
        }
        let index = self.state.lock().chosen_index(identity)?;
        Some(self.own_size() + index as u32)
    }

    /// Whether this process or a connected one other than `by` has the same mark.
    pub fn is_mark_taken(&self, by: &Member) -> bool {
        let state = self.state.lock();
        let known = state.peers.iter().flatten();
        self.mark() == by.mark
            || known
                .filter(|known| known.member.identity != by.identity)
                .any(|known| known.member.mark == by.mark)
    }

    /// Records that the communicator or window `owner` has these members.
    pub fn use_peers(
        self: &Arc<Self>,
        owner: u32,
        peers: impl Iterator<Item = Peer>,
    ) -> ForeignMembers {
        if self.connected_peers.load(Ordering::Relaxed) == 0 {
            return ForeignMembers::default();
        }
        let peers: Vec<Peer> = peers.filter(|peer| self.is_foreign(*peer)).collect();
        if peers.is_empty() {
            return ForeignMembers::default();
        }
        let mut state = self.state.lock();
        for peer in &peers {
            if let Some(known) = self.index_of(*peer).and_then(|at| state.peer_mut(at)) {
                known.owners.push(owner);
            }
        }
        ForeignMembers {
            of: Some(self.clone()),
            owner,
            peers,
        }
    }

    /// Returns the owners that have a process of another job as a member. `None` for the own job.
    pub(super) fn owners(&self, peer: Peer) -> Option<Vec<u32>> {
        let index = self.index_of(peer)?;
        let mut state = self.state.lock();
        let known = state.peer_mut(index);
        Some(known.map_or(Vec::new(), |known| known.owners.clone()))
    }

    /// Returns the connection that a process number belongs to. `None` for the own job and free
    /// numbers.
    pub(super) fn connection_of(&self, peer: Peer) -> Option<ContextId> {
        self.index_of(peer)?;
        let state = self.state.lock();
        let has_it =
            |numbers: &Numbers| (numbers.outer..numbers.outer + numbers.count).contains(&peer);
        let block = state.blocks.iter().find(|block| has_it(&block.numbers))?;
        Some(block.connection)
    }

    /// Whether the failure of a process affects `owner`. A failure in the own job affects all
    /// owners, another one only those that have the process as a member.
    pub fn concerns(&self, peer: Peer, owner: u32) -> bool {
        let Some(index) = self.index_of(peer) else {
            return true;
        };
        let mut state = self.state.lock();
        let known = state.peer_mut(index);
        known.is_some_and(|known| known.owners.contains(&owner))
    }

    /// Returns the connected processes that are members of any of `owners`.
    pub(super) fn members_of(&self, owners: &[u32]) -> Vec<Peer> {
        let mut state = self.state.lock();
        let known = state.peers.iter_mut().enumerate();
        let members = known.filter(|(_, known)| {
            let mut used = known.iter().flat_map(|known| &known.owners);
            used.any(|owner| owners.contains(owner))
        });
        members
            .map(|(index, _)| self.own_size() + index as u32)
            .collect()
    }

    /// Returns the partings in progress, for their progress source.
    pub fn pending_partings(&self) -> MutexGuard<'_, Vec<PendingParting>> {
        self.pending_partings.lock()
    }

    /// Begins to part from connected processes that are no members any more, or from `all`. Returns
    /// each of them once; the caller parts from it and records that in [`Foreign::pending_partings`] before
    /// another thread reads them.
    pub fn begin_partings(&self, all: bool) -> Vec<Parting> {
        if self.connected_peers.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let State { peers, blocks, .. } = &mut *self.state.lock();
        let mut partings = Vec::new();
        for (index, known) in peers.iter_mut().enumerate() {
            let Some(known) = known.as_mut().filter(|known| !known.is_parting) else {
                continue;
            };
            let of_it = |block: &&Block| block.connection == known.connection;
            if let Some(block) = blocks.iter().find(of_it)
                && (all || (block.is_complete && known.pins == 0 && known.owners.is_empty()))
            {
                known.is_parting = true;
                let peer = self.own_size() + index as u32;
                partings.push(Parting {
                    peer,
                    connection: known.connection,
                    numbers: (block.own, block.numbers.inside(peer)),
                    route: known.route,
                });
            }
        }
        partings
    }
}
