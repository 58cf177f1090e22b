//! The shared file pointer (MPI-3.1 section 13.4.4): a number of etypes that all members of a file
//! read and change.
//!
//! If all members are on one node it is a word in shared memory. Otherwise it is in a small file
//! beside the file, which is locked for each change, and removed when the file is closed.

#![allow(
    unsafe_code,
    reason = "a word in memory that processes share, and in a file"
)]

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use mpi_types::{Error, Result};
use netmod::SharedSegment;
use parking_lot::Mutex;

use crate::direction::Direction;
use crate::driver::{How, Storage};
use crate::one_run::move_all;
use crate::posix::PosixFile;
use crate::shared_area::SharedWords;
use crate::system;
use crate::view::Run;

/// The shared file pointer.
pub(crate) struct SharedPointer {
    place: Location,
    /// Whether this process has moved it since it was at the beginning.
    moved: AtomicBool,
}

/// The location of the number.
enum Location {
    /// In this process, the only member.
    Own(AtomicI64),
    /// In shared memory that all members have mapped.
    Node(Arc<SharedWords>),
    /// In a file, opened when it is first used.
    Hidden {
        path: PathBuf,
        file: Mutex<Option<PosixFile>>,
    },
}

impl SharedPointer {
    /// Creates the pointer in the location that the members agreed on: the shared words, or a file
    /// with a number of the first member in its name.
    pub fn new(path: &Path, words: Option<Arc<SharedWords>>, unique: u64) -> SharedPointer {
        SharedPointer::at(match words {
            Some(words) => Location::Node(words),
            None => Location::Hidden {
                path: hidden(path, unique),
                file: Mutex::default(),
            },
        })
    }

    fn at(place: Location) -> SharedPointer {
        SharedPointer {
            place,
            moved: AtomicBool::new(false),
        }
    }

    /// Returns whether this process has moved it since the last
    /// [`SharedPointer::note_at_beginning`].
    pub fn was_moved(&self) -> bool {
        self.moved.load(Ordering::Relaxed)
    }

    /// Notes that the pointer is at the beginning: no member has moved it, or it was set there.
    pub fn note_at_beginning(&self) {
        self.moved.store(false, Ordering::Relaxed);
    }

    /// Creates the pointer of a file with one member.
    pub fn own() -> SharedPointer {
        SharedPointer::at(Location::Own(AtomicI64::new(0)))
    }

    /// Returns the words that all members share, of which the pointer is the first.
    pub fn words(&self) -> Option<&Arc<SharedWords>> {
        match &self.place {
            Location::Node(words) => Some(words),
            _ => None,
        }
    }

    fn word(&self) -> Option<&AtomicI64> {
        match &self.place {
            Location::Own(word) => Some(word),
            // SAFETY: the words begin with the pointer, zero at first, aligned to a page; all
            // members access it atomically, and the words are mapped as long as `self` lives.
            Location::Node(piece) => Some(unsafe { &*piece.as_ptr().cast::<AtomicI64>() }),
            Location::Hidden { .. } => None,
        }
    }

    /// Advances it by `etypes`. Returns the old position.
    pub fn add(&self, etypes: i64) -> Result<i64> {
        self.moved.store(true, Ordering::Relaxed);
        match self.word() {
            Some(word) => Ok(word.fetch_add(etypes, Ordering::AcqRel)),
            None => self.change(|old| Some(old.saturating_add(etypes))),
        }
    }

    /// Returns the position.
    pub fn get(&self) -> Result<i64> {
        match self.word() {
            Some(word) => Ok(word.load(Ordering::Acquire)),
            None => self.change(|_| None),
        }
    }

    /// Sets the position.
    pub fn set(&self, etypes: i64) -> Result<()> {
        self.moved.store(true, Ordering::Relaxed);
        match self.word() {
            Some(word) => word.store(etypes, Ordering::Release),
            None => self.change(|_| Some(etypes)).map(drop)?,
        }
        Ok(())
    }

    /// Changes the number in the file. Returns the old one.
    fn change(&self, new: impl FnOnce(i64) -> Option<i64>) -> Result<i64> {
        let Location::Hidden { path, file } = &self.place else {
            return Ok(0);
        };
        let failed =
            |doing: &str, error: &io::Error| -> Error { system::error(doing, path, error) };
        let mut file = file.lock();
        if file.is_none() {
            let how = How {
                read: true,
                write: true,
                create: true,
                exclusive: false,
                permissions: 0o600,
            };
            let opened = PosixFile::open(path, &how);
            *file =
                Some(opened.map_err(|error| {
                    failed("making the file for the shared file pointer,", &error)
                })?);
        }
        let Some(file) = file.as_ref() else {
            return Ok(0);
        };
        let run = Run { at: 0, len: 8 };
        let access = || -> io::Result<i64> {
            let mut bytes = [0_u8; 8];
            // SAFETY: `bytes` is a local variable of eight bytes, the run's length.
            let read = unsafe { move_all(file, run, bytes.as_mut_ptr(), Direction::Read)? };
            let old = if read == 8 {
                i64::from_ne_bytes(bytes)
            } else {
                0
            };
            if let Some(new) = new(old) {
                bytes = new.to_ne_bytes();
                // SAFETY: `bytes` is a local variable of eight bytes, the run's length.
                unsafe { move_all(file, run, bytes.as_mut_ptr(), Direction::Write)? };
            }
            Ok(old)
        };
        let place = 0..8;
        file.lock(&place, true)
            .map_err(|error| failed("locking", &error))?;
        let done = access();
        let _ = file.unlock(&place);
        done.map_err(|error| failed("changing the shared file pointer in", &error))
    }

    /// Removes the file. One member calls it when all have finished.
    pub fn remove(&self) {
        if let Location::Hidden { path, .. } = &self.place {
            // The file exists only if the pointer was used.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Returns the name of the pointer's file.
fn hidden(path: &Path, unique: u64) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or(OsStr::new("file")));
    name.push(format!(".pointer-{unique:x}"));
    path.with_file_name(name)
}
