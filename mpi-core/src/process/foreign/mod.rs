//! Processes of other jobs that this one is connected with (MPI-3.1 chapter 10).
//!
//! They have numbers above those of the own job, which a connection takes as a block and gives back when all
//! that was connected by it has parted. What they are called everywhere is their [`Identity`].

mod directory;
mod pin;
#[cfg(all(test, not(loom)))]
mod tests;
pub mod ways;

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

/// What a process is called in all jobs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Identity {
    /// Its job: a number that no other has that it may meet.
    pub job: u64,
    /// Its rank there.
    pub rank: u32,
}

/// What processes that are being connected tell of each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// Who it is.
    pub identity: Identity,
    /// Processes with the same number can share memory.
    pub node: u64,
    /// What it puts in the place of its number in contexts, which is above all numbers of processes.
    pub mark: u32,
}

/// What all connections have above them: numbers of the own job are below.
const LEAST_MARK: u32 = 1 << 31;

/// The processes of other jobs, and the transports to them.
#[derive(Default)]
pub struct Foreign {
    /// The job that this process was started with, and the number of its processes; 0 if nobody said.
    job: AtomicU64,
    size: AtomicU32,
    mark: AtomicU32,
    /// How many processes of other jobs there are.
    known: AtomicU32,
    /// How many of them are on this process's node.
    neighbours: AtomicU32,
    /// How often lanes were closed, and their descriptors.
    pub(in crate::process) closings: AtomicU32,
    state: Mutex<State>,
    /// Partings under way.
    goodbyes: Mutex<Vec<Goodbye>>,
}

#[derive(Default)]
struct State {
    /// By number less [`Foreign::size`].
    peers: Vec<Option<Known>>,
    blocks: Vec<Block>,
    /// By the number of a route less those of the own job's.
    transports: Vec<Option<Arc<dyn Transport>>>,
    /// Whether marks are used in contexts.
    connected: bool,
}

/// A process of another job.
struct Known {
    member: Member,
    /// Whether it is on this process's node.
    here: bool,
    /// The number of its route less those of the own job's.
    way: usize,
    connection: ContextId,
    /// Communicators and windows that it is in, as requests name them.
    owners: Vec<u32>,
    /// Calls that are about to have it as a member.
    pins: u32,
    /// It is this connection that both have chosen, and others take.
    chosen: bool,
    /// Parting has begun.
    parting: bool,
    /// It has parted: only its number is still taken.
    parted: bool,
}

/// What a connection has taken.
struct Block {
    connection: ContextId,
    numbers: Numbers,
    own: Peer,
    /// It is made.
    kept: bool,
    /// Members of `numbers` that have not parted.
    left: u32,
    ways: Vec<usize>,
    directory: Arc<Directory>,
}

/// How a process of another job is parted from.
#[derive(Clone, Copy, Debug)]
pub struct Parting {
    /// Its number.
    pub peer: Peer,
    /// The context of the connection.
    pub connection: ContextId,
    /// This process's number in the connection, and the other's.
    pub numbers: (Peer, Peer),
    /// The number of the transport.
    pub route: usize,
}

/// The last words of two processes, under way.
pub struct Goodbye {
    /// The other process.
    pub peer: Peer,
    /// The context of the connection.
    pub connection: ContextId,
    /// The number of the transport.
    pub route: usize,
    /// The requests of what is sent and received, those that there are.
    pub requests: Vec<RequestId>,
    /// Since when it has been complete.
    pub complete: Option<Duration>,
}

/// That a communicator or window has these members: as long as it lives, they stay connected.
#[derive(Default)]
pub struct Uses {
    of: Option<Arc<Foreign>>,
    owner: u32,
    peers: Vec<Peer>,
}

impl Drop for Uses {
    fn drop(&mut self) {
        let Some(foreign) = &self.of else { return };
        let mut state = foreign.state.lock();
        for peer in &self.peers {
            if let Some(known) = foreign.place(*peer).and_then(|at| state.known(at))
                && let Some(at) = known.owners.iter().position(|owner| *owner == self.owner)
            {
                known.owners.swap_remove(at);
            }
        }
    }
}

impl State {
    fn known(&mut self, place: usize) -> Option<&mut Known> {
        self.peers.get_mut(place)?.as_mut()
    }

    fn block(&mut self, connection: ContextId) -> Option<&mut Block> {
        let mut blocks = self.blocks.iter_mut();
        blocks.find(|block| block.connection == connection)
    }

    /// The place of a process in the connection that both have chosen, if it is not being parted from.
    fn place_of(&self, identity: Identity) -> Option<usize> {
        self.place_where(identity, |known| known.chosen)
    }

    /// As [`State::place_of`], in one that `is_it`.
    fn place_where(&self, identity: Identity, is_it: impl Fn(&Known) -> bool) -> Option<usize> {
        let is_it =
            |known: &Known| !known.parting && known.member.identity == identity && is_it(known);
        let mut places = self.peers.iter();
        places.position(|known| known.as_ref().is_some_and(is_it))
    }
}

impl Foreign {
    /// Says who this process is. Before that it can't be connected with anybody.
    pub fn introduce(&self, own: Identity, size: u32) {
        let mut mark = own.job ^ own.job >> 32 ^ u64::from(own.rank).wrapping_mul(0x9e37_79b9);
        mark &= u64::from(LEAST_MARK - 1);
        // The highest stands for a context that is still unknown.
        let mark = (LEAST_MARK | mark as u32).min(u32::MAX - 1);
        self.job.store(own.job, Ordering::Relaxed);
        self.mark.store(mark, Ordering::Relaxed);
        self.size.store(size, Ordering::Relaxed);
    }

    /// The number of processes of the own job; 0 if nobody has said.
    pub fn own_size(&self) -> u32 {
        self.size.load(Ordering::Relaxed)
    }

    /// This process's mark.
    pub fn mark(&self) -> u32 {
        self.mark.load(Ordering::Relaxed)
    }

    /// This process's mark if it has ever been connected with another job.
    pub(super) fn mark_in_use(&self) -> Option<u32> {
        self.state.lock().connected.then(|| self.mark())
    }

    /// Whether there is any process of another job.
    pub fn any(&self) -> bool {
        self.known.load(Ordering::Relaxed) != 0
    }

    /// How many processes of other jobs are on this process's node.
    pub(super) fn neighbours(&self) -> u32 {
        self.neighbours.load(Ordering::Relaxed)
    }

    /// Whether a process is of another job.
    #[inline]
    pub fn is_foreign(&self, peer: Peer) -> bool {
        self.place(peer).is_some()
    }

    fn place(&self, peer: Peer) -> Option<usize> {
        let size = self.own_size();
        (size > 0 && peer >= size).then(|| (peer - size) as usize)
    }

    /// What a process is called in all jobs.
    pub fn identity(&self, peer: Peer) -> Identity {
        let own = Identity {
            job: self.job.load(Ordering::Relaxed),
            rank: peer,
        };
        let Some(place) = self.place(peer) else {
            return own;
        };
        let mut state = self.state.lock();
        state
            .known(place)
            .map_or(own, |known| known.member.identity)
    }

    /// The number of a process, if it is of the own job or connected.
    pub fn find(&self, identity: Identity) -> Option<Peer> {
        if identity.job == self.job.load(Ordering::Relaxed) {
            return Some(identity.rank);
        }
        let place = self.state.lock().place_of(identity)?;
        Some(self.own_size() + place as u32)
    }

    /// Whether another process than this has its mark.
    pub fn is_mark_taken(&self, by: &Member) -> bool {
        let state = self.state.lock();
        let known = state.peers.iter().flatten();
        self.mark() == by.mark
            || known
                .filter(|known| known.member.identity != by.identity)
                .any(|known| known.member.mark == by.mark)
    }

    /// That something with these members is called `owner` in requests.
    pub fn use_peers(self: &Arc<Self>, owner: u32, peers: impl Iterator<Item = Peer>) -> Uses {
        if self.known.load(Ordering::Relaxed) == 0 {
            return Uses::default();
        }
        let peers: Vec<Peer> = peers.filter(|peer| self.is_foreign(*peer)).collect();
        if peers.is_empty() {
            return Uses::default();
        }
        let mut state = self.state.lock();
        for peer in &peers {
            if let Some(known) = self.place(*peer).and_then(|at| state.known(at)) {
                known.owners.push(owner);
            }
        }
        Uses {
            of: Some(self.clone()),
            owner,
            peers,
        }
    }

    /// What has a process of another job as a member, as requests name it; none for those of the own job.
    pub(super) fn owners(&self, peer: Peer) -> Option<Vec<u32>> {
        let place = self.place(peer)?;
        let mut state = self.state.lock();
        let known = state.known(place);
        Some(known.map_or(Vec::new(), |known| known.owners.clone()))
    }

    /// The connection that a process of another job has its number from; none for the own job and numbers that nobody has.
    pub(super) fn connection_of(&self, peer: Peer) -> Option<ContextId> {
        self.place(peer)?;
        let state = self.state.lock();
        let has_it =
            |numbers: &Numbers| (numbers.outer..numbers.outer + numbers.count).contains(&peer);
        let block = state.blocks.iter().find(|block| has_it(&block.numbers))?;
        Some(block.connection)
    }

    /// Whether the loss of a process can matter to what requests call `owner`: that of one of the own job to
    /// everybody, that of others to those that have them as members.
    pub fn concerns(&self, peer: Peer, owner: u32) -> bool {
        let Some(place) = self.place(peer) else {
            return true;
        };
        let mut state = self.state.lock();
        let known = state.known(place);
        known.is_some_and(|known| known.owners.contains(&owner))
    }

    /// The processes of other jobs that are members of what requests call by one of these names.
    pub(super) fn members_of(&self, owners: &[u32]) -> Vec<Peer> {
        let mut state = self.state.lock();
        let known = state.peers.iter_mut().enumerate();
        let members = known.filter(|(_, known)| {
            let mut used = known.iter().flat_map(|known| &known.owners);
            used.any(|owner| owners.contains(owner))
        });
        members
            .map(|(place, _)| self.own_size() + place as u32)
            .collect()
    }

    /// Partings under way, for who carries them on.
    pub fn goodbyes(&self) -> MutexGuard<'_, Vec<Goodbye>> {
        self.goodbyes.lock()
    }

    /// Of the connected processes those that nothing has as members any more, or all, if so wished. Each is
    /// named once: it is the caller's to part from it, and to note that in [`Foreign::goodbyes`] before another thread
    /// looks there.
    pub fn begin_partings(&self, all: bool) -> Vec<Parting> {
        if self.known.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let State { peers, blocks, .. } = &mut *self.state.lock();
        let mut partings = Vec::new();
        for (place, known) in peers.iter_mut().enumerate() {
            let Some(known) = known.as_mut().filter(|known| !known.parting) else {
                continue;
            };
            let of_it = |block: &&Block| block.connection == known.connection;
            if let Some(block) = blocks.iter().find(of_it)
                && (all || (block.kept && known.pins == 0 && known.owners.is_empty()))
            {
                known.parting = true;
                let peer = self.own_size() + place as u32;
                partings.push(Parting {
                    peer,
                    connection: known.connection,
                    numbers: (block.own, block.numbers.inside(peer)),
                    route: known.way,
                });
            }
        }
        partings
    }
}
