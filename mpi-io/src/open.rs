//! Opening, closing and deleting files (MPI-3.1 section 13.2).

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

use mpi_coll::slots::arenas::{KeyWords, key_words};
use mpi_core::Process;
use mpi_core::comm::Comm;
use mpi_core::info::Info;
use mpi_types::{Class, Error, Result};
use netmod::SharedSegment;
use parking_lot::Mutex;

use crate::access::Shared;
use crate::agree;
use crate::amode::Amode;
use crate::combine::{self, Combiner};
use crate::domains;
use crate::driver::{self, How, Storage};
use crate::file::File;
use crate::files::Files;
use crate::hints::Hints;
use crate::locks::Locks;
use crate::shared_area::{SharedArea, SharedWords};
use crate::shared_pointer::SharedPointer;
use crate::system;
use crate::writers::{Writers, words_len};

/// The arguments of [`File::open`].
#[derive(Clone)]
pub struct Opening {
    /// Its name, possibly with a prefix for the file system.
    pub name: std::path::PathBuf,
    /// The access mode.
    pub amode: Amode,
    /// Hints.
    pub info: Option<Info>,
}

impl File {
    /// Opens a file. All members of an intracommunicator call it, including those with wrong
    /// arguments, which report them.
    ///
    /// # Errors
    /// `MPI_ERR_AMODE` and `MPI_ERR_NOT_SAME` for inconsistent modes, and the system's, of any
    /// member.
    pub fn open(process: &Process, comm: &Comm, opening: Result<Opening>) -> Result<File> {
        let comm = mpi_comm::creation::dup_comm(process, comm)?;
        let checked = opening.and_then(|opening| {
            opening.amode.check()?;
            if opening.name.as_os_str().is_empty() {
                let why = "filename is empty; give the path of a file";
                return Err(Error::new(Class::NoSuchFile, why));
            }
            let bits = opening.amode.bits();
            Ok((opening, vec![bits]))
        });
        let opening = agree::same(process, &comm, "amode", checked, 1)?;
        let amode = opening.amode;
        let mut hints = Hints::default();
        if let Some(info) = &opening.info {
            hints.update(info, true);
        }
        let is_first = comm.rank() == 0;
        let (driver, path) = driver::choose(&opening.name);
        let open = |hints: &Hints, is_first: bool| {
            let how = How {
                read: amode.can_read(),
                write: amode.can_write(),
                create: amode.create && is_first,
                exclusive: amode.excl && is_first,
                permissions: hints.file_perm.unwrap_or(0o666),
            };
            let opened = driver.open(&path, &how);
            opened.map_err(|error| system::error("opening", &path, &error))
        };
        // The first member creates the file; the others find it.
        let first = is_first.then(|| open(&hints, true)).transpose();
        let mut shared = Beginning::default();
        let mut made = None;
        if let Ok(Some(storage)) = &first {
            made = may_share(process, &comm).then(|| {
                let len = words_len(comm.size() as usize);
                mpi_coll::arenas(process).make(process, len, len)
            });
            shared.key = key_words(made.as_ref());
            shared.end = match amode.append {
                true => storage.size().unwrap_or(0),
                false => 0,
            };
        }
        let first = shared.tell(process, &comm, first, &mut hints)?;
        let end = shared.end as i64;
        let storage = match first {
            Some(storage) => Ok(storage),
            None => open(&hints, false),
        };
        let words = match may_share(process, &comm) {
            true => {
                let len = words_len(comm.size() as usize);
                let found = mpi_coll::arenas(process).open(process, made, shared.key, len);
                found.ok().map(|piece| Arc::new(SharedWords(piece)))
            }
            false => None,
        };
        let agreed = agree_on_one_file(process, &comm, storage, words.is_some(), &path);
        let all_share = agreed.as_ref().is_ok_and(|(_, all_share)| *all_share);
        if let (Some(words), false) = (&words, all_share) {
            // All members know that the words are unused.
            mpi_coll::arenas(process).give_back(&words.0, usize::MAX);
        }
        let (storage, _) = agreed?;
        let pointer = match comm.size() {
            1 => SharedPointer::own(),
            _ => SharedPointer::new(&path, words.filter(|_| all_share), shared.unique),
        };
        if let Some(words) = pointer.words() {
            words.0.seal();
        }
        let aggregators = domains::aggregators(process, &comm, &hints);
        if amode.append && is_first {
            pointer.set(end)?;
        }
        if amode.append {
            // No member moves the pointer before it is at the beginning.
            mpi_coll::barrier(process, &comm)?;
        }
        let (me, members) = (comm.rank() as usize, comm.size() as usize);
        let words: Option<Arc<dyn SharedSegment>> = match pointer.words() {
            Some(words) => Some(words.clone()),
            None => None,
        };
        let len = combine::piece_len(members);
        let memory = process.shared_memory();
        let room = words.clone().zip(memory).map(|(words, memory)| {
            let first = combine::first_len(members);
            Arc::new(SharedArea::on_demand(words, memory.clone(), (len, first)))
        });
        let shared = Shared {
            path,
            amode,
            combiner: Combiner::new(room, me, members, &*storage),
            storage,
            locks: Locks::default(),
            writers: Writers::new(words, me, members),
            window: Mutex::default(),
            hints: Mutex::new(Arc::new(hints)),
            atomic: AtomicBool::new(false),
        };
        let position = if amode.append { end } else { 0 };
        let name = opening.name.to_string_lossy().into_owned();
        let file = File::made(shared, comm, pointer, name, aggregators, position);
        Ok(file)
    }

    /// Closes the file; all members call it (`MPI_File_close`).
    ///
    /// # Errors
    /// `MPI_ERR_OTHER` during a split collective access, after which the file stays open. After
    /// other errors (the system's, or the loss of a member) it is closed.
    pub fn close(&self, process: &Process) -> Result<()> {
        if self.split.lock().is_some() {
            let why = "a split collective access is under way; end it before the file is closed";
            return Err(Error::new(Class::Other, why));
        }
        let settled = Files::settle(process, self);
        // All members have finished with the file and the shared pointer.
        let arrived = agree::agree(process, self.comm(), settled);
        let shared = self.shared();
        let deleted = if self.comm().rank() == 0 {
            self.pointer().remove();
            match shared.amode.delete_on_close {
                true => match std::fs::remove_file(&shared.path) {
                    // Another process has deleted the file already.
                    Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
                    removed => removed.map_err(|error| shared.failed("deleting", &error)),
                },
                false => Ok(()),
            }
        } else {
            Ok(())
        };
        arrived?;
        if let Some(words) = self.pointer().words() {
            mpi_coll::arenas(process).give_back(&words.0, usize::MAX);
        }
        if shared.amode.delete_on_close {
            // A member that returns finds the file deleted.
            return agree::agree(process, self.comm(), deleted);
        }
        Ok(())
    }
}

/// Returns whether all members are on this node, as far as this process knows, so that they can
/// share memory.
fn may_share(process: &Process, comm: &Comm) -> bool {
    let near = |rank| {
        let peer = comm.local().peer(rank);
        peer == process.me() || process.is_local(peer)
    };
    comm.size() > 1 && process.shared_memory().is_some() && (0..comm.size()).all(near)
}

/// What the first member broadcasts when it has opened the file.
#[derive(Default)]
struct Beginning {
    /// The key of the shared words.
    key: KeyWords,
    /// The file's size, if members append.
    end: u64,
    /// A number that no other opening of a file has.
    unique: u64,
}

impl Beginning {
    /// Broadcasts it with the first member's hints. Returns the first member's file to itself, and
    /// its error to all.
    fn tell<T>(
        &mut self,
        process: &Process,
        comm: &Comm,
        first: Result<Option<T>>,
        hints: &mut Hints,
    ) -> Result<Option<T>> {
        if comm.size() == 1 {
            return first;
        }
        if comm.rank() == 0 {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            let now = now.map_or(0, |now| now.as_nanos() as u64);
            self.unique = now ^ u64::from(std::process::id()) << 44;
        }
        let mut numbers = [0; 19];
        numbers[..12].copy_from_slice(&domains::to_numbers(hints));
        numbers[12..16].copy_from_slice(&self.key);
        numbers[16..].copy_from_slice(&[self.end, self.unique, agree::word(comm, &first)]);
        let done = mpi_coll::broadcast_u64(process, comm, &mut numbers);
        let first = agree::outcome(process, comm, first, done.map(|()| numbers[18]))?;
        let [alike @ .., a, b, c, d, end, unique, _] = numbers;
        domains::apply(hints, alike);
        (self.key, self.end, self.unique) = ([a, b, c, d], end, unique);
        Ok(first)
    }
}

/// Checks that all members have opened the file, and that those of one node have opened the same
/// one, not another with the same name. Returns whether all share the words.
fn agree_on_one_file(
    process: &Process,
    comm: &Comm,
    storage: Result<Box<dyn Storage>>,
    shares: bool,
    path: &Path,
) -> Result<(Box<dyn Storage>, bool)> {
    if comm.size() == 1 {
        return storage.map(|storage| (storage, false));
    }
    let node = u64::from(process.node_of(process.me()).unwrap_or(0));
    let identity = storage.as_ref().ok().and_then(|one| one.identity().ok());
    let (device, file) = identity.unwrap_or((0, 0));
    let word = agree::word(comm, &storage);
    let own = [node, device, file, u64::from(shares), word];
    let all = mpi_coll::gather_all_u64(process, comm, own);
    let words = all
        .as_ref()
        .map(|all| all.iter().map(|one| one[4]).max().unwrap_or(0));
    let storage = agree::outcome(process, comm, storage, words.map_err(Clone::clone))?;
    let all = all?;
    // All members compute the same result, whichever node they are on.
    let mut of_node = HashMap::new();
    for (rank, [node, device, file, ..]) in all.iter().enumerate() {
        let (other, found) = *of_node.entry(*node).or_insert((rank, (*device, *file)));
        if found != (*device, *file) {
            return Err(Error::new(
                Class::NotSame,
                format!(
                    "{} of rank {rank} is not the file that rank {other} has opened; all ranks must name the same file",
                    path.display()
                ),
            ));
        }
    }
    Ok((storage, all.iter().all(|one| one[3] != 0)))
}

/// Deletes a file (`MPI_File_delete`).
///
/// # Errors
/// The system's.
pub fn delete(name: &Path) -> Result<()> {
    let (_, path) = driver::choose(name);
    std::fs::remove_file(&path).map_err(|error| system::error("deleting", &path, &error))
}
