//! The shared file pointer (MPI-3.1 section 13.4.4): a number of etypes that all members of a file read
//! and change.
//!
//! Where all members are of one node it is a word in memory that they share. Otherwise it is in a small
//! file beside the file, which whoever changes it locks, and which goes when the file is closed.

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
use crate::plain::move_plain;
use crate::posix::PosixFile;
use crate::room::Words;
use crate::system;
use crate::view::Run;

/// The pointer that all members share.
pub(crate) struct SharedPointer {
    place: Place,
    /// Whether this process has moved it since it was at the beginning.
    moved: AtomicBool,
}

/// Where it is.
enum Place {
    /// The only member's.
    Own(AtomicI64),
    /// In memory that all members have mapped.
    Node(Arc<Words>),
    /// In a file, opened when it is first used.
    Hidden {
        path: PathBuf,
        file: Mutex<Option<PosixFile>>,
    },
}

impl SharedPointer {
    /// As the members have agreed: by the words that all have, or a file whose name has a number of the first member's.
    pub fn new(path: &Path, words: Option<Arc<Words>>, unique: u64) -> SharedPointer {
        SharedPointer::at(match words {
            Some(words) => Place::Node(words),
            None => Place::Hidden {
                path: hidden(path, unique),
                file: Mutex::default(),
            },
        })
    }

    fn at(place: Place) -> SharedPointer {
        SharedPointer {
            place,
            moved: AtomicBool::new(false),
        }
    }

    /// Whether this process has moved it since [`SharedPointer::note_at_beginning`] was called.
    pub fn was_moved(&self) -> bool {
        self.moved.load(Ordering::Relaxed)
    }

    /// It is at the beginning, since no member has moved it, or it was set there.
    pub fn note_at_beginning(&self) {
        self.moved.store(false, Ordering::Relaxed);
    }

    /// Of an only member.
    pub fn own() -> SharedPointer {
        SharedPointer::at(Place::Own(AtomicI64::new(0)))
    }

    /// The words that all members share, of which it is the first.
    pub fn words(&self) -> Option<&Arc<Words>> {
        match &self.place {
            Place::Node(words) => Some(words),
            _ => None,
        }
    }

    fn word(&self) -> Option<&AtomicI64> {
        match &self.place {
            Place::Own(word) => Some(word),
            // SAFETY: the piece begins with a word that is zero at first, aligned as a page is, which all
            // members use as an atomic one; it is mapped as long as `self` lives.
            Place::Node(piece) => Some(unsafe { &*piece.as_ptr().cast::<AtomicI64>() }),
            Place::Hidden { .. } => None,
        }
    }

    /// Moves it by so many etypes. Returns where it was.
    pub fn add(&self, etypes: i64) -> Result<i64> {
        self.moved.store(true, Ordering::Relaxed);
        match self.word() {
            Some(word) => Ok(word.fetch_add(etypes, Ordering::AcqRel)),
            None => self.change(|old| Some(old.saturating_add(etypes))),
        }
    }

    /// Where it is.
    pub fn get(&self) -> Result<i64> {
        match self.word() {
            Some(word) => Ok(word.load(Ordering::Acquire)),
            None => self.change(|_| None),
        }
    }

    /// Sets it.
    pub fn set(&self, etypes: i64) -> Result<()> {
        self.moved.store(true, Ordering::Relaxed);
        match self.word() {
            Some(word) => word.store(etypes, Ordering::Release),
            None => self.change(|_| Some(etypes)).map(drop)?,
        }
        Ok(())
    }

    /// Changes the number in the file. Returns what it was.
    fn change(&self, new: impl FnOnce(i64) -> Option<i64>) -> Result<i64> {
        let Place::Hidden { path, file } = &self.place else {
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
            // SAFETY: a local variable of eight bytes.
            let read = unsafe { move_plain(file, run, bytes.as_mut_ptr(), Direction::Read)? };
            let old = if read == 8 {
                i64::from_ne_bytes(bytes)
            } else {
                0
            };
            if let Some(new) = new(old) {
                bytes = new.to_ne_bytes();
                // SAFETY: as above.
                unsafe { move_plain(file, run, bytes.as_mut_ptr(), Direction::Write)? };
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

    /// Removes what others would find. One member calls it when all are through.
    pub fn remove(&self) {
        if let Place::Hidden { path, .. } = &self.place {
            // It is there only if it was used.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The name of the file for the pointer.
fn hidden(path: &Path, unique: u64) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or(OsStr::new("file")));
    name.push(format!(".pointer-{unique:x}"));
    path.with_file_name(name)
}
