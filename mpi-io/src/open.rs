//! Opening, closing and deleting files (MPI-3.1 section 13.2).

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use mpi_comm::collective;
use mpi_core::Process;
use mpi_core::comm::Comm;
use mpi_core::info::Info;
use mpi_types::{Class, Error, Result};
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
use crate::read_once::ReadOnce;
use crate::shared_pointer::SharedPointer;
use crate::system;
use crate::writers::Writers;

/// What a file is opened with.
#[derive(Clone)]
pub struct Opening {
    /// Its name, with a prefix for the file system perhaps.
    pub name: std::path::PathBuf,
    /// How it is opened.
    pub amode: Amode,
    /// Hints.
    pub info: Option<Info>,
}

impl File {
    /// Opens a file; all members of an intracommunicator call it, also those whose arguments are wrong:
    /// they say so.
    ///
    /// # Errors
    /// `MPI_ERR_AMODE` and `MPI_ERR_NOT_SAME` for modes that don't go together, and the system's, all of
    /// any member.
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
        domains::settle(process, &comm, &mut hints)?;
        let (driver, path) = driver::choose(&opening.name);
        let how = How {
            read: amode.can_read(),
            write: amode.can_write(),
            create: amode.create,
            exclusive: amode.excl,
            permissions: hints.file_perm.unwrap_or(0o666),
        };
        let open = |how: &How| {
            let opened = driver.open(&path, how);
            opened.map_err(|error| system::error("opening", &path, &error))
        };
        // The first member makes the file; the others find it.
        let first = (comm.rank() == 0).then(|| open(&how)).transpose();
        let first = agree::agree(process, &comm, first)?;
        let storage = match first {
            Some(storage) => Ok(storage),
            None => open(&How {
                create: false,
                exclusive: false,
                ..how
            }),
        };
        let storage = agree::agree(process, &comm, storage)?;
        demand_one_file(process, &comm, &*storage, &path)?;
        let pointer = SharedPointer::new(process, &comm, &path)?;
        let aggregators = domains::aggregators(process, &comm, &hints);
        let mut end = [0];
        if amode.append && comm.rank() == 0 {
            let size = storage.size();
            let size = size.map_err(|error| system::error("asking for the size of", &path, &error));
            end[0] = size.unwrap_or(0);
            pointer.set(end[0] as i64)?;
        }
        if amode.append {
            collective::broadcast_u64(process, &comm, &mut end)?;
        }
        let (me, members) = (comm.rank() as usize, comm.size() as usize);
        let shared = Shared {
            path,
            amode,
            combiner: Combiner::new(pointer.piece(), me, members, &*storage),
            read_once: ReadOnce::new(
                pointer.piece(),
                combine::piece_len(members),
                me,
                members,
                &*storage,
            ),
            storage,
            locks: Locks::default(),
            writers: Writers::new(pointer.piece(), me, members),
            window: Mutex::default(),
            hints: Mutex::new(Arc::new(hints)),
            atomic: AtomicBool::new(false),
        };
        let name = opening.name.to_string_lossy().into_owned();
        let file = File::made(shared, comm, pointer, name, aggregators, end[0] as i64);
        Ok(file)
    }

    /// Closes it; all members call it. (`MPI_File_close`.)
    ///
    /// # Errors
    /// `MPI_ERR_OTHER` while a split collective access is under way, after which the file stays open;
    /// otherwise it is closed whatever happens: the system's errors, or that a member is lost.
    pub fn close(&self, process: &Process) -> Result<()> {
        if self.split.lock().is_some() {
            let why = "a split collective access is under way; end it before the file is closed";
            return Err(Error::new(Class::Other, why));
        }
        let settled = Files::settle(process, self);
        // All members are through with the file, and with the shared pointer.
        let arrived = agree::agree(process, self.comm(), settled);
        let shared = self.shared();
        let deleted = if self.comm().rank() == 0 {
            self.pointer().remove();
            match shared.amode.delete_on_close {
                true => match std::fs::remove_file(&shared.path) {
                    // It is gone, as it is to be.
                    Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
                    removed => removed.map_err(|error| shared.failed("deleting", &error)),
                },
                false => Ok(()),
            }
        } else {
            Ok(())
        };
        arrived?;
        if shared.amode.delete_on_close {
            // Who returns finds the file gone.
            return agree::agree(process, self.comm(), deleted);
        }
        Ok(())
    }
}

/// That members of one node have opened one file, not several of the same name.
fn demand_one_file(
    process: &Process,
    comm: &Comm,
    storage: &dyn Storage,
    path: &Path,
) -> Result<()> {
    let node = u64::from(process.node_of(process.me()).unwrap_or(0));
    let (device, file) = storage.identity().unwrap_or((0, 0));
    let all = match comm.size() {
        1 => return Ok(()),
        _ => collective::gather_all_u64(process, comm, [node, device, file])?,
    };
    let differs = |one: &[u64; 3]| one[0] == node && (one[1], one[2]) != (device, file);
    let mine = match all.iter().position(differs) {
        Some(rank) => Err(Error::new(
            Class::NotSame,
            format!(
                "{} is not the file that rank {rank} has opened; all ranks must name the same file",
                path.display()
            ),
        )),
        None => Ok(()),
    };
    // Ranks of one node all find it; those of others are told.
    agree::agree(process, comm, mine)
}

/// Deletes a file (`MPI_File_delete`).
///
/// # Errors
/// The system's.
pub fn delete(name: &Path) -> Result<()> {
    let (_, path) = driver::choose(name);
    std::fs::remove_file(&path).map_err(|error| system::error("deleting", &path, &error))
}
