//! Reasons of waits that no pending operation shows, for reports.

#![deny(unsafe_code)]

use std::fmt;

use netmod::{Peer, VciId};
use parking_lot::Mutex;

use super::Process;

/// The event that a thread waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AwaitedEvent {
    /// The lock of a rank's window memory.
    Lock {
        /// Rank that owns the memory.
        target: u32,
        /// Whether the lock is exclusive.
        exclusive: bool,
    },
    /// The shared locks of all ranks.
    LockAll,
    /// The end of another origin's accumulate on a rank's memory.
    Accumulate {
        /// Rank that owns the memory.
        target: u32,
    },
    /// A rank's call of `MPI_Win_post`.
    Post {
        /// The rank.
        target: u32,
    },
    /// Calls of `MPI_Win_complete` by origins.
    Complete {
        /// Number of origins.
        origins: u32,
    },
    /// The creation of a communicator by the first member of its group.
    Creation {
        /// Process of the first member.
        first: Peer,
    },
    /// The other group's leader, which makes an intercommunicator with this group's.
    Leader {
        /// Process of that leader.
        leader: Peer,
    },
    /// Other members of a collective.
    Collective(Round),
}

/// Progress of a collective, and the rank it waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Round {
    /// The collective's context.
    pub context: u64,
    /// Number of the round, and of all rounds.
    pub round: (u32, u32),
    /// An awaited rank and its process.
    pub rank: (u32, Peer),
    /// Number of other awaited ranks.
    pub others: u32,
}

impl fmt::Display for AwaitedEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AwaitedEvent::Lock { target, exclusive } => {
                let kind = if *exclusive {
                    "an exclusive"
                } else {
                    "a shared"
                };
                write!(f, "MPI_Win_lock: waits for {kind} lock of rank {target}")
            }
            AwaitedEvent::LockAll => {
                f.write_str("MPI_Win_lock_all: waits for those with exclusive locks")
            }
            AwaitedEvent::Accumulate { target } => {
                write!(
                    f,
                    "an accumulate: waits for another one on the memory of rank {target}"
                )
            }
            AwaitedEvent::Post { target } => {
                write!(f, "MPI_Win_start: waits for MPI_Win_post of rank {target}")
            }
            AwaitedEvent::Complete { origins } => {
                write!(
                    f,
                    "MPI_Win_wait: waits for MPI_Win_complete of {origins} origins"
                )
            }
            AwaitedEvent::Creation { first } => {
                write!(
                    f,
                    "MPI_Comm_create_from_group: waits for the first member of the group (process {first})"
                )
            }
            AwaitedEvent::Leader { leader } => {
                write!(
                    f,
                    "MPI_Intercomm_create_from_groups: waits for the leader of the other group (process {leader})"
                )
            }
            AwaitedEvent::Collective(Round {
                round: (round, of),
                rank: (rank, peer),
                others,
                ..
            }) => {
                write!(
                    f,
                    "round {round} of {of} of the collective: waits for rank {rank} (process {peer})"
                )?;
                match others {
                    0 => Ok(()),
                    1 => f.write_str(" and 1 other"),
                    others => write!(f, " and {others} others"),
                }
            }
        }
    }
}

/// The waits of all threads of a process.
#[derive(Default)]
pub(crate) struct Notes {
    waits: Mutex<Vec<Wait>>,
    /// Peers that loops of calls depend on, with the VCI of the calls, until the next check.
    polled: Mutex<Vec<(VciId, Peer)>>,
}

struct Wait {
    number: u64,
    what: AwaitedEvent,
    /// The VCI on which `peers`, which must act, are checked.
    vci: VciId,
    peers: Box<[Peer]>,
}

impl Notes {
    /// Returns all current waits.
    pub fn all(&self) -> Vec<AwaitedEvent> {
        self.waits.lock().iter().map(|wait| wait.what).collect()
    }

    /// Takes the processes that waits, and loops of calls, on a VCI depend on.
    pub fn take_awaited_on(&self, vci: VciId) -> Vec<Peer> {
        let waits = self.waits.lock();
        let here = waits.iter().filter(|wait| wait.vci == vci);
        let mut peers: Vec<Peer> = here.flat_map(|wait| wait.peers.iter().copied()).collect();
        let mut polled = self.polled.lock();
        peers.extend(polled.extract_if(.., |one| one.0 == vci).map(|one| one.1));
        peers
    }

    /// Adds peers that a loop of calls on `vci` depends on, for the next check.
    pub fn add_polled(&self, vci: VciId, peers: impl Iterator<Item = Peer>) {
        let mut polled = self.polled.lock();
        for peer in peers {
            if !polled.contains(&(vci, peer)) {
                polled.push((vci, peer));
            }
        }
    }
}

/// A wait that reports show until this is dropped.
pub struct WaitNote<'a>(&'a Notes, u64);

impl Drop for WaitNote<'_> {
    fn drop(&mut self) {
        self.0.waits.lock().retain(|wait| wait.number != self.1);
    }
}

impl Process {
    /// Returns the long waits of all threads that no pending operation shows. Any thread may call
    /// it.
    pub fn awaited(&self) -> Vec<AwaitedEvent> {
        self.notes.all()
    }

    /// Records a wait of this thread. `peers` are checked for failure on `vci`, since no request
    /// names them.
    #[cold]
    pub fn note(
        &self,
        what: AwaitedEvent,
        vci: VciId,
        peers: impl Iterator<Item = Peer>,
    ) -> WaitNote<'_> {
        let mut waits = self.notes.waits.lock();
        let number = waits.iter().map(|wait| wait.number + 1).max().unwrap_or(0);
        waits.push(Wait {
            number,
            what,
            vci,
            peers: peers.collect(),
        });
        drop(waits);
        WaitNote(&self.notes, number)
    }
}
