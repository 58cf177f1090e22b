//! What threads wait for that no pending operation shows, for reports.

use std::fmt;

use parking_lot::Mutex;

use crate::process::Process;

/// What is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Awaited {
    /// The lock of a rank's memory.
    Lock { target: u32, exclusive: bool },
    /// The lock of all.
    LockAll,
    /// That a rank calls `MPI_Win_post`.
    Post { target: u32 },
    /// That so many origins call `MPI_Win_complete`.
    Complete { origins: u32 },
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
            Awaited::LockAll => {
                f.write_str("MPI_Win_lock_all: waits for those with exclusive locks")
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
        }
    }
}

/// The waits of all threads of a process.
#[derive(Default)]
pub(crate) struct Notes(Mutex<Vec<(u64, Awaited)>>);

impl Notes {
    /// What is waited for now.
    pub fn all(&self) -> Vec<Awaited> {
        self.0.lock().iter().map(|(_, what)| *what).collect()
    }
}

/// A wait that reports show until this is dropped.
pub(crate) struct Note<'a>(&'a Notes, u64);

impl Drop for Note<'_> {
    fn drop(&mut self) {
        self.0.0.lock().retain(|(number, _)| *number != self.1);
    }
}

impl Process {
    /// Takes note of what this thread waits for from now on.
    #[cold]
    pub(crate) fn note(&self, what: Awaited) -> Note<'_> {
        let mut notes = self.notes.0.lock();
        let number = notes
            .iter()
            .map(|(number, _)| number + 1)
            .max()
            .unwrap_or(0);
        notes.push((number, what));
        drop(notes);
        Note(&self.notes, number)
    }
}
