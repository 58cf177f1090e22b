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
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::SystemTime;

use mpi_comm::collective;
use mpi_core::Process;
use mpi_core::comm::Comm;
use mpi_types::{Error, Result};
use netmod::{RemoteKey, SharedSegment};
use parking_lot::Mutex;

use crate::direction::Direction;
use crate::driver::{How, Storage};
use crate::plain::move_plain;
use crate::posix::PosixFile;
use crate::view::Run;
use crate::writers::words_len;
use crate::{combine, read_once, system};

/// Where the pointer is.
pub(crate) enum SharedPointer {
    /// The only member's.
    Own(AtomicI64),
    /// In memory that all members have mapped.
    Node(Arc<dyn SharedSegment>),
    /// In a file, opened when it is first used.
    Hidden {
        path: PathBuf,
        file: Mutex<Option<PosixFile>>,
    },
}

impl SharedPointer {
    /// Makes it, at 0; all members call.
    pub fn new(process: &Process, comm: &Comm, path: &Path) -> Result<SharedPointer> {
        if comm.size() == 1 {
            return Ok(SharedPointer::Own(AtomicI64::new(0)));
        }
        let far = |rank| {
            let peer = comm.local().peer(rank);
            peer != process.me() && !process.is_local(peer)
        };
        let apart = process.shared_memory().is_none() || (0..comm.size()).any(far);
        let mut told = [u64::from(apart)];
        collective::greatest_u64(process, comm, &mut told)?;
        if told[0] == 0
            && let Some(piece) = share(process, comm)?
        {
            return Ok(SharedPointer::Node(piece));
        }
        let mut unique = [0];
        if comm.rank() == 0 {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            let now = now.map_or(0, |now| now.as_nanos() as u64);
            unique[0] = now ^ u64::from(std::process::id()) << 44;
        }
        collective::broadcast_u64(process, comm, &mut unique)?;
        Ok(SharedPointer::Hidden {
            path: hidden(path, unique[0]),
            file: Mutex::default(),
        })
    }

    /// The memory that all members share, which has room for more than the pointer: see
    /// [`combine::piece_len`] and [`read_once::piece_len`].
    pub fn piece(&self) -> Option<Arc<dyn SharedSegment>> {
        match self {
            SharedPointer::Node(piece) => Some(piece.clone()),
            _ => None,
        }
    }

    fn word(&self) -> Option<&AtomicI64> {
        match self {
            SharedPointer::Own(word) => Some(word),
            // SAFETY: the piece begins with a word that is zero at first, aligned as a page is, which all
            // members use as an atomic one; it is mapped as long as `self` lives.
            SharedPointer::Node(piece) => Some(unsafe { &*piece.as_ptr().cast::<AtomicI64>() }),
            SharedPointer::Hidden { .. } => None,
        }
    }

    /// Moves it by so many etypes. Returns where it was.
    pub fn add(&self, etypes: i64) -> Result<i64> {
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
        match self.word() {
            Some(word) => word.store(etypes, Ordering::Release),
            None => self.change(|_| Some(etypes)).map(drop)?,
        }
        Ok(())
    }

    /// Changes the number in the file. Returns what it was.
    fn change(&self, new: impl FnOnce(i64) -> Option<i64>) -> Result<i64> {
        let SharedPointer::Hidden { path, file } = self else {
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
        if let SharedPointer::Hidden { path, .. } = self {
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

/// A piece of memory that all members have mapped; nothing if one of them could not.
fn share(process: &Process, comm: &Comm) -> Result<Option<Arc<dyn SharedSegment>>> {
    let Some(shared) = process.shared_memory() else {
        return Ok(None);
    };
    let members = comm.size() as usize;
    let len = combine::piece_len(members) + read_once::piece_len(members);
    let (mut made, mut key) = (None, [0; 4]);
    if comm.rank() == 0
        && let Ok(piece) = shared.create(len)
        && piece.reserve(0, words_len(comm.size() as usize)).is_ok()
    {
        let RemoteKey { address, words } = piece.key();
        key = [1, address, words[0], words[1]];
        made = Some(piece);
    }
    collective::broadcast_u64(process, comm, &mut key)?;
    if comm.rank() != 0 && key[0] != 0 {
        let key = RemoteKey {
            address: key[1],
            words: [key[2], key[3]],
        };
        made = shared.open(&key, len).ok();
    }
    let mut lacking = [u64::from(made.is_none())];
    collective::greatest_u64(process, comm, &mut lacking)?;
    if let Some(piece) = &made {
        piece.settle();
    }
    Ok(made.filter(|_| lacking[0] == 0).map(Arc::from))
}
