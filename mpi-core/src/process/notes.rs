//! What threads wait for that no pending operation shows, for reports.

#![deny(unsafe_code)]

use std::fmt;

use netmod::{Peer, VciId};
use parking_lot::Mutex;

use super::Process;

/// What is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Awaited {
    /// The lock of a rank's memory.
    Lock {
        /// Whose memory.
        target: u32,
        /// Nobody else may have it.
        exclusive: bool,
    },
    /// The lock of all.
    LockAll,
    /// That another's accumulate on a rank's memory is over.
    Accumulate {
        /// Whose memory.
        target: u32,
    },
    /// That a rank calls `MPI_Win_post`.
    Post {
        /// Which one.
        target: u32,
    },
    /// That so many origins call `MPI_Win_complete`.
    Complete {
        /// How many.
        origins: u32,
    },
    /// That the other ranks call `MPI_Win_fence`.
    Fence,
    /// That the first member of a group makes a communicator of it.
    Creation {
        /// The process of the first member.
        first: Peer,
    },
    /// That the leader of the other group makes an intercommunicator with this one's.
    Leader {
        /// The process of that leader.
        leader: Peer,
    },
    /// Others in a collective.
    Collective(Round),
}

/// How far a collective has come, and for whom it waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Round {
    /// Where its messages are, or would be.
    pub context: u64,
    /// The round and how many there are.
    pub round: (u32, u32),
    /// A rank that it waits for, and its process.
    pub rank: (u32, Peer),
    /// How many others it waits for besides.
    pub others: u32,
}

impl fmt::Display for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Awaited::Lock { target, exclusive } => {
                let kind = if *exclusive {
                    "an exclusive"
                } else {
                    "a shared"
                };
                write!(f, "MPI_Win_lock: waits for {kind} lock of rank {target}")
            }
            Awaited::Fence => f.write_str("MPI_Win_fence: waits for the other ranks"),
            Awaited::LockAll => {
                f.write_str("MPI_Win_lock_all: waits for those with exclusive locks")
            }
            Awaited::Accumulate { target } => {
                write!(
                    f,
                    "an accumulate: waits for another one on the memory of rank {target}"
                )
            }
            Awaited::Post { target } => {
                write!(f, "MPI_Win_start: waits for MPI_Win_post of rank {target}")
            }
            Awaited::Complete { origins } => {
                write!(
                    f,
                    "MPI_Win_wait: waits for MPI_Win_complete of {origins} origins"
                )
            }
            Awaited::Creation { first } => {
                write!(
                    f,
                    "MPI_Comm_create_from_group: waits for the first member of the group (process {first})"
                )
            }
            Awaited::Leader { leader } => {
                write!(
                    f,
                    "MPI_Intercomm_create_from_groups: waits for the leader of the other group (process {leader})"
                )
            }
            Awaited::Collective(Round {
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
pub(crate) struct Notes(Mutex<Vec<Wait>>);

struct Wait {
    number: u64,
    what: Awaited,
    /// Processes that must act, and are looked after on a VCI.
    vci: VciId,
    peers: Box<[Peer]>,
}

impl Notes {
    /// What is waited for now.
    pub fn all(&self) -> Vec<Awaited> {
        self.0.lock().iter().map(|wait| wait.what).collect()
    }

    /// The processes whose loss matters to those who wait.
    pub fn awaited_on(&self, vci: VciId) -> Vec<Peer> {
        let waits = self.0.lock();
        let here = waits.iter().filter(|wait| wait.vci == vci);
        here.flat_map(|wait| wait.peers.iter().copied()).collect()
    }
}

/// A wait that reports show until this is dropped.
pub struct Note<'a>(&'a Notes, u64);

impl Drop for Note<'_> {
    fn drop(&mut self) {
        self.0.0.lock().retain(|wait| wait.number != self.1);
    }
}

impl Process {
    /// What threads wait for now that no pending operation shows, if they have waited for long. Any thread may
    /// ask.
    pub fn awaited(&self) -> Vec<Awaited> {
        self.notes.all()
    }

    /// Takes note of what this thread waits for from now on. It is looked on a VCI after `peers`, if no
    /// request says that they are waited for.
    #[cold]
    pub fn note(&self, what: Awaited, vci: VciId, peers: impl Iterator<Item = Peer>) -> Note<'_> {
        let mut notes = self.notes.0.lock();
        let number = notes.iter().map(|wait| wait.number + 1).max().unwrap_or(0);
        notes.push(Wait {
            number,
            what,
            vci,
            peers: peers.collect(),
        });
        drop(notes);
        Note(&self.notes, number)
    }
}
