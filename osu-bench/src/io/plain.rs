//! The patterns by plain calls of the system, as a program would make them that knows what it wants
//! beforehand: what any library is bounded by. MPI only lets all begin together.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::error::{Error, Result};
use crate::mpi::World;
use crate::together::ended;

/// Bytes that are read or written at once; the pieces of all ranks lie in them by turns.
const STRETCH: usize = 128 << 10;

/// A manner of moving pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// A call for each.
    Calls,
    /// The whole stretch, of which the pieces are picked out; written back under a lock.
    Sieved,
    /// Each rank copies pieces to or from memory and moves one part of the file: what collective
    /// access can be.
    Together,
}

/// A file.
pub struct Plain {
    file: File,
}

impl Plain {
    /// Opens it; rank 0 makes it anew before.
    pub fn open(world: &World, path: &Path) -> Result<Plain> {
        if world.rank == 0 {
            File::create(path)?;
        }
        world.barrier()?;
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        Ok(Plain { file })
    }

    /// Writes or reads data in calls of a given size.
    pub fn calls(&self, writes: bool, start: u64, call: usize, data: &mut [u8]) -> Result<()> {
        let mut at = start;
        for part in data.chunks_mut(call) {
            match writes {
                true => self.file.write_all_at(part, at)?,
                false => self.file.read_exact_at(part, at)?,
            }
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Writes or reads pieces that lie in the file by turns with those of the others.
    pub fn pieces(
        &self,
        world: &World,
        manner: Manner,
        writes: bool,
        piece: usize,
        data: &mut [u8],
    ) -> Result<()> {
        let (rank, size) = (world.rank, world.size);
        let place = |index: usize| ((index * size + rank) * piece) as u64;
        match manner {
            Manner::Calls => {
                for (index, part) in data.chunks_mut(piece).enumerate() {
                    match writes {
                        true => self.file.write_all_at(part, place(index))?,
                        false => self.file.read_exact_at(part, place(index))?,
                    }
                }
            }
            Manner::Together => {
                let start = (rank * data.len()) as u64;
                let mut window = vec![0; STRETCH];
                for (index, part) in data.chunks_mut(STRETCH).enumerate() {
                    let (window, at) =
                        (&mut window[..part.len()], start + (index * STRETCH) as u64);
                    if !writes {
                        self.file.read_exact_at(window, at)?;
                    }
                    for (mine, other) in part.chunks_mut(piece).zip(window.chunks_mut(piece)) {
                        copy(writes, mine, other);
                    }
                    if writes {
                        self.file.write_all_at(window, at)?;
                    }
                }
            }
            Manner::Sieved => {
                let mut window = vec![0; STRETCH * size];
                for (index, part) in data.chunks_mut(STRETCH).enumerate() {
                    let (window, at) = (
                        &mut window[..part.len() * size],
                        (index * STRETCH * size) as u64,
                    );
                    let _lock = writes.then(|| Lock::new(&self.file));
                    self.read_what_is_there(window, at)?;
                    let turns = window.chunks_mut(piece * size);
                    for (mine, turn) in part.chunks_mut(piece).zip(turns) {
                        copy(writes, mine, &mut turn[rank * piece..][..mine.len()]);
                    }
                    if writes {
                        self.file.write_all_at(window, at)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn read_what_is_there(&self, mut window: &mut [u8], mut at: u64) -> Result<()> {
        while !window.is_empty() {
            match self.file.read_at(window, at)? {
                0 => {
                    window.fill(0);
                    break;
                }
                read => {
                    window = &mut window[read..];
                    at += read as u64;
                }
            }
        }
        Ok(())
    }

    /// Appends pieces at a pointer that all ranks share.
    pub fn append(&self, pointer: &Pointer, piece: usize, data: &[u8]) -> Result<()> {
        for part in data.chunks(piece) {
            let at = pointer
                .word()
                .fetch_add(part.len() as u64, Ordering::Relaxed);
            self.file.write_all_at(part, at)?;
        }
        Ok(())
    }

    /// Writes while something else is done.
    pub fn write_while(&self, at: u64, data: &[u8], work: impl FnOnce()) -> Result<()> {
        thread::scope(|scope| {
            let write = scope.spawn(|| self.file.write_all_at(data, at));
            work();
            write.join().map_err(|_| ended())?.map_err(Error::from)
        })
    }
}

/// Copies a piece to where it is written from, or from where it was read to.
fn copy(writes: bool, mine: &mut [u8], other: &mut [u8]) {
    let other = &mut other[..mine.len()];
    match writes {
        true => other.copy_from_slice(mine),
        false => mine.copy_from_slice(other),
    }
}

/// A lock on the whole file.
struct Lock<'a>(&'a File);

impl<'a> Lock<'a> {
    fn new(file: &'a File) -> Lock<'a> {
        // Without the lock the time would only be shorter.
        let _ = file.lock();
        Lock(file)
    }
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

/// A number that all ranks of the machine share: the first bytes of a file that all have mapped.
pub struct Pointer(NonNull<AtomicU64>);

impl Pointer {
    /// Makes it, at 0; all ranks call.
    pub fn new(world: &World, beside: &Path) -> Result<Pointer> {
        use std::os::fd::AsRawFd;
        let mut name = beside.as_os_str().to_owned();
        name.push(".pointer");
        if world.rank == 0 {
            File::create(&name)?.set_len(4096)?;
        }
        world.barrier()?;
        let file = OpenOptions::new().read(true).write(true).open(&name)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping of a file that is a page long.
        let page = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                4096,
                access,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        world.barrier()?;
        if world.rank == 0 {
            std::fs::remove_file(&name)?;
        }
        match NonNull::new(page) {
            Some(page) if page.as_ptr() != libc::MAP_FAILED => Ok(Pointer(page.cast())),
            _ => Err(std::io::Error::last_os_error().into()),
        }
    }

    fn word(&self) -> &AtomicU64 {
        // SAFETY: the page is mapped as long as `self` lives, and is used as an atomic word by all.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Pointer {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nobody has a reference to it any more.
        unsafe { libc::munmap(self.0.as_ptr().cast(), 4096) };
    }
}
