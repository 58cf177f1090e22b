//! Communicators (MPI-3.1 chapter 6): who takes part, in which context, over which VCI.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use netmod::{Peer, VciId};

use crate::buffer::Buffer;
use crate::collective::CommRun;
use crate::error::Result;
use crate::process::{Destination, Mode, Process, Source};
use crate::{PROC_NULL, RequestId, Status};

/// What a message is for. Messages of different purposes never match each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Purpose {
    /// The program's own messages.
    PointToPoint = 0,
    /// Collective operations.
    Collective = 1,
    /// Making communicators out of a group (`MPI_Comm_create_group`).
    Creation = 2,
}

/// A context: what keeps the messages of communicators apart (section 6.1).
///
/// It is the process that led the making of the communicator and a count of that process, so that
/// leaders choose alone, nothing has to be agreed on, and there are as many as anybody may want.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ContextId(u64);

impl ContextId {
    /// Context number `count` of the process `leader`.
    pub fn new(leader: Peer, count: u32) -> Self {
        ContextId(u64::from(leader) << 32 | u64::from(count) << 2)
    }

    /// As a number to be sent to others.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// From such a number.
    pub fn from_bits(bits: u64) -> Self {
        ContextId(bits & !3)
    }

    #[inline(always)]
    fn of(self, purpose: Purpose) -> u64 {
        self.0 | purpose as u64
    }
}

/// The processes of a group by rank, in as little memory as it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Members {
    /// Rank `r` is process `first + r * step`.
    Regular {
        /// Process of rank 0.
        first: Peer,
        /// From one rank to the next.
        step: i64,
        /// How many.
        size: u32,
    },
    /// Rank `r` is process `list[r]`.
    List(Box<[Peer]>),
}

impl Members {
    /// From the processes in order of rank.
    pub fn new(peers: &[Peer]) -> Members {
        let (first, step) = match *peers {
            [] => (0, 1),
            [first] => (first, 1),
            [first, second, ..] => (first, i64::from(second) - i64::from(first)),
        };
        let regular = peers
            .windows(2)
            .all(|pair| i64::from(pair[1]) - i64::from(pair[0]) == step);
        if regular {
            Members::Regular {
                first,
                step,
                size: peers.len() as u32,
            }
        } else {
            Members::List(peers.into())
        }
    }

    /// How many.
    #[inline(always)]
    pub fn size(&self) -> u32 {
        match self {
            Members::Regular { size, .. } => *size,
            Members::List(list) => list.len() as u32,
        }
    }

    /// The process of a rank, which must be one.
    #[inline(always)]
    pub fn peer(&self, rank: u32) -> Peer {
        match self {
            Members::Regular { first, step, .. } => {
                (i64::from(*first) + i64::from(rank) * *step) as Peer
            }
            Members::List(list) => list[rank as usize],
        }
    }

    /// All processes in order of rank.
    pub fn peers(&self) -> Vec<Peer> {
        (0..self.size()).map(|rank| self.peer(rank)).collect()
    }

    /// The rank of a process.
    pub fn rank_of(&self, peer: Peer) -> Option<u32> {
        match self {
            Members::Regular { first, step, size } => {
                let distance = i64::from(peer) - i64::from(*first);
                let rank = if *step == 0 { 0 } else { distance / step };
                let found = (0..i64::from(*size)).contains(&rank) && rank * step == distance;
                found.then_some(rank as u32)
            }
            Members::List(list) => list
                .iter()
                .position(|member| *member == peer)
                .map(|rank| rank as u32),
        }
    }
}

/// The processes that messages go to, laid out for the send path: `first + rank * step`, or a list.
struct Targets {
    size: u32,
    first: u32,
    step: u32,
    list: Box<[Peer]>,
}

impl Targets {
    fn new(members: &Members) -> Targets {
        match members {
            // In arithmetic modulo 2^32 negative steps need nothing special.
            Members::Regular { first, step, size } => Targets {
                size: *size,
                first: *first,
                step: *step as u32,
                list: Box::default(),
            },
            Members::List(list) => Targets {
                size: list.len() as u32,
                first: 0,
                step: 0,
                list: list.clone(),
            },
        }
    }

    #[inline(always)]
    fn peer(&self, rank: u32) -> Peer {
        match self.list.get(rank as usize) {
            Some(peer) => *peer,
            None => self.first.wrapping_add(rank.wrapping_mul(self.step)),
        }
    }
}

/// A communicator.
pub struct Comm {
    targets: Targets,
    context: ContextId,
    local: Members,
    /// The other group of an intercommunicator.
    remote: Option<Members>,
    rank: u32,
    vci: VciId,
    /// Given to requests, so that the caller finds the communicator they belong to.
    owner: AtomicU32,
    /// Collective operations begun, by which their messages are told apart.
    collectives: AtomicU32,
    name: Mutex<String>,
    /// Schedules kept for their memory.
    runs: Mutex<Vec<CommRun>>,
}

impl Comm {
    /// A communicator of `local`, in which this process has `rank`.
    pub fn new(context: ContextId, local: Members, remote: Option<Members>, rank: u32) -> Comm {
        Comm {
            targets: Targets::new(remote.as_ref().unwrap_or(&local)),
            context,
            local,
            remote,
            rank,
            vci: 0,
            owner: AtomicU32::new(0),
            collectives: AtomicU32::new(0),
            name: Mutex::default(),
            runs: Mutex::default(),
        }
    }

    /// Its context.
    pub fn context(&self) -> ContextId {
        self.context
    }

    /// This process's rank.
    #[inline(always)]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Number of processes in the local group.
    #[inline(always)]
    pub fn size(&self) -> u32 {
        self.local.size()
    }

    /// The local group.
    pub fn local(&self) -> &Members {
        &self.local
    }

    /// The remote group of an intercommunicator.
    pub fn remote(&self) -> Option<&Members> {
        self.remote.as_ref()
    }

    /// The group that ranks in send and receive calls refer to.
    #[inline(always)]
    pub fn others(&self) -> &Members {
        self.remote.as_ref().unwrap_or(&self.local)
    }

    /// How many ranks send and receive calls can name.
    #[inline(always)]
    pub fn targets(&self) -> u32 {
        self.targets.size
    }

    /// The VCI that its messages use.
    #[inline(always)]
    pub fn vci(&self) -> VciId {
        self.vci
    }

    /// Sets what requests on it give back as their owner.
    pub fn set_owner(&self, owner: u32) {
        self.owner.store(owner, Ordering::Relaxed);
    }

    /// Its name (`MPI_Comm_get_name`).
    pub fn name(&self) -> String {
        self.name
            .lock()
            .map(|name| name.clone())
            .unwrap_or_default()
    }

    /// Gives it a name.
    pub fn set_name(&self, new: &str) {
        if let Ok(mut name) = self.name.lock() {
            new.clone_into(&mut name);
        }
    }

    /// A number for the next collective operation: the same on all members, since they begin them
    /// in the same order (section 5.12).
    pub fn next_collective(&self) -> u32 {
        self.collectives.fetch_add(1, Ordering::Relaxed) & i32::MAX as u32
    }

    /// A schedule to build on.
    pub(crate) fn take_run(&self) -> CommRun {
        self.runs
            .lock()
            .ok()
            .and_then(|mut runs| runs.pop())
            .unwrap_or_default()
    }

    /// Keeps a schedule for the next collective.
    pub(crate) fn give_run(&self, run: CommRun) {
        if let Ok(mut runs) = self.runs.lock() {
            runs.push(run);
        }
    }

    /// What requests on it give back as their owner.
    pub fn owner(&self) -> u32 {
        self.owner.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn to(&self, rank: u32, tag: i32, purpose: Purpose) -> Destination {
        Destination {
            peer: self.targets.peer(rank),
            vci: self.vci,
            context: self.context.of(purpose),
            rank: self.rank as i32,
            tag,
            owner: self.owner.load(Ordering::Relaxed),
        }
    }

    #[inline(always)]
    fn from(&self, rank: i32, tag: i32, purpose: Purpose) -> Source {
        Source {
            context: self.context.of(purpose),
            rank,
            tag,
            owner: self.owner.load(Ordering::Relaxed),
        }
    }
}

/// Point-to-point on a communicator. Ranks and tags have been checked; [`PROC_NULL`] is for the
/// caller to treat.
impl Process {
    /// Starts a send to `rank`. `None`: it is complete.
    #[inline]
    pub fn send_on(
        &self,
        comm: &Comm,
        purpose: Purpose,
        buffer: Buffer,
        rank: u32,
        tag: i32,
        mode: Mode,
    ) -> Result<Option<RequestId>> {
        self.isend(comm.vci, &comm.to(rank, tag, purpose), buffer, mode)
    }

    /// Sends a short message of the program's if it can leave at once. Returns whether it has; if
    /// not, nothing was done.
    #[inline(always)]
    pub fn send_now(&self, comm: &Comm, data: &[u8], rank: u32, tag: i32) -> bool {
        let peer = comm.targets.peer(rank);
        let context = comm.context.of(Purpose::PointToPoint);
        self.try_send(comm.vci, peer, context, comm.rank as i32, tag, data)
    }

    /// Starts a receive from `rank`, which may be [`crate::ANY_SOURCE`].
    #[inline]
    pub fn receive_on(
        &self,
        comm: &Comm,
        purpose: Purpose,
        buffer: Buffer,
        rank: i32,
        tag: i32,
    ) -> Result<RequestId> {
        debug_assert!(rank != PROC_NULL);
        self.irecv(comm.vci, &comm.from(rank, tag, purpose), buffer)
    }

    /// Looks for a message of the program's from `rank` with `tag`, wildcards allowed.
    pub fn probe_on(&self, comm: &Comm, rank: i32, tag: i32) -> Result<Option<Status>> {
        self.iprobe(comm.vci, &comm.from(rank, tag, Purpose::PointToPoint))
    }

    /// As [`Process::probe_on`], and takes the message out of matching.
    pub fn matched_probe_on(
        &self,
        comm: &Comm,
        rank: i32,
        tag: i32,
    ) -> Result<Option<crate::MatchedMessage>> {
        self.improbe(comm.vci, &comm.from(rank, tag, Purpose::PointToPoint))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_kept_short_and_found_again() {
        for peers in [
            &[][..],
            &[7],
            &[0, 1, 2, 3],
            &[9, 6, 3, 0],
            &[1, 5, 2],
            &[4, 2, 1],
        ] {
            let members = Members::new(peers);
            assert_eq!(members.peers(), peers);
            assert_eq!(members.size() as usize, peers.len());
            for peer in 0..12 {
                let rank = peers
                    .iter()
                    .position(|p| *p == peer)
                    .map(|rank| rank as u32);
                assert_eq!(members.rank_of(peer), rank, "{peer} in {peers:?}");
            }
        }
        assert!(matches!(
            Members::new(&[9, 6, 3, 0]),
            Members::Regular { .. }
        ));
    }

    #[test]
    fn contexts_differ_by_leader_count_and_purpose() {
        let a = ContextId::new(1, 2);
        assert_ne!(a, ContextId::new(2, 1));
        assert_ne!(a.of(Purpose::Collective), a.of(Purpose::PointToPoint));
        assert_eq!(ContextId::from_bits(a.to_bits()), a);
    }
}
