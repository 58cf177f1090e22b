//! Transfers between memory and a file by this process alone.

#![allow(unsafe_code, reason = "memory of the program is read and written")]

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::iovec;
use mpi_core::Buffer;
use mpi_types::{Error, Result};
use netmod::IoVec;
use parking_lot::Mutex;

use crate::amode::Amode;
use crate::combine::Combiner;
use crate::datarep::Representation;
use crate::direction::Direction;
use crate::driver::Storage;
use crate::hints::{Choice, Hints};
use crate::locks::{Locked, Locks};
use crate::memory::Memory;
use crate::one_run::move_all;
use crate::posix::MOST_PIECES;
use crate::runs::Runs;
use crate::view::{Run, View};
use crate::writers::{Entered, Writers};
use crate::{sieve, system};

/// An open file, shared by the threads of this process.
pub(crate) struct Shared {
    pub path: PathBuf,
    pub amode: Amode,
    pub storage: Box<dyn Storage>,
    pub locks: Locks,
    pub writers: Writers,
    pub combiner: Combiner,
    /// The window of data sieving, kept for the next access.
    pub window: Mutex<Vec<u8>>,
    pub hints: Mutex<Arc<Hints>>,
    pub atomic: AtomicBool,
}

/// Permission for a write that no concurrent sieving can damage.
#[allow(dead_code, reason = "guards are kept, not looked at")]
pub(crate) enum Allowed<'a> {
    /// The caller holds the lock of atomic mode.
    Atomic,
    /// No member sieves.
    Entered(Option<Entered<'a>>),
    /// The bytes are locked.
    Locked(Locked<'a>),
}

/// Bytes of data that are packed or unpacked at a time.
const STAGE: usize = 1 << 20;

/// Largest transfer in bytes that the call which starts an access makes itself, if the system has
/// or takes the data in memory: copying more takes longer than handing it to a thread.
const AT_ONCE: u64 = 64 << 10;

impl Shared {
    /// Returns the hints in force.
    pub fn hints(&self) -> Arc<Hints> {
        self.hints.lock().clone()
    }

    /// Returns the error for an operation that the system refused.
    #[cold]
    pub fn failed(&self, doing: &str, error: &io::Error) -> Error {
        system::error(doing, &self.path, error)
    }

    /// Returns whether accesses are atomic.
    pub fn is_atomic(&self) -> bool {
        self.atomic.load(Ordering::Acquire)
    }

    /// Moves data between memory and the stream of a view from `position` on. Returns the bytes of
    /// memory moved: fewer than requested at the end of the file.
    pub fn transfer(
        &self,
        view: &View,
        position: u64,
        memory: &mut Memory,
        direction: Direction,
    ) -> Result<u64> {
        if view.representation.is_unconverted() {
            return self.move_bytes(view, position, &mut memory.buffer, direction);
        }
        let mut file = Converted::new(&view.representation, memory, direction)?;
        let moved = self.move_bytes(view, position, &mut file.buffer(), direction)?;
        file.finish(&view.representation, memory, direction, moved)
    }

    /// Makes a [`Shared::transfer`] of a nonblocking access in the caller, if it is so short and
    /// simple that the system may complete it without blocking.
    ///
    /// Returns the bytes moved. `None`: nothing was moved, or the transfer must be repeated.
    pub fn try_transfer(
        &self,
        view: &View,
        position: u64,
        memory: &Memory,
        direction: Direction,
    ) -> Option<u64> {
        let buffer = &memory.buffer;
        let len = buffer.len() as u64;
        if len > AT_ONCE || !view.representation.is_unconverted() || self.is_atomic() {
            return None;
        }
        if len == 0 {
            return Some(0);
        }
        let start = buffer.as_ptr()?;
        if !view.is_one_run(position, len) {
            return None;
        }
        let _entered = match direction {
            Direction::Read => None,
            Direction::Write if self.hints.lock().ds_write == Choice::Enable => return None,
            Direction::Write => self.writers.enter()?,
        };
        let piece = iovec {
            iov_base: start.cast(),
            iov_len: buffer.len(),
        };
        let at = view.place(position);
        // SAFETY: `memory` promises that the buffer is valid, and `piece` lies in it.
        let moved = unsafe { self.storage.try_move(piece, at, direction) };
        moved.then_some(len)
    }

    /// Moves data that needs no conversion, as [`Shared::transfer`] does.
    pub fn move_bytes(
        &self,
        view: &View,
        position: u64,
        buffer: &mut Buffer,
        direction: Direction,
    ) -> Result<u64> {
        let len = buffer.len() as u64;
        if len == 0 {
            return Ok(0);
        }
        let moved = match self.is_atomic() {
            false => self.move_unlocked(view, position, buffer, direction),
            true => {
                let span = view.span(position, len);
                let exclusive = direction == Direction::Write;
                let locked = self.locks.lock(&*self.storage, span, exclusive);
                let _locked = locked.map_err(|error| self.failed("locking", &error))?;
                self.move_unlocked(view, position, buffer, direction)
            }
        };
        moved.map_err(|error| match direction {
            Direction::Read => self.failed("reading from", &error),
            Direction::Write => self.failed("writing to", &error),
        })
    }

    /// Waits until a write is allowed, while the result is kept. If others may sieve it takes a
    /// lock, since they write back what they read.
    pub fn allow_write(&self, range: std::ops::Range<u64>) -> io::Result<Allowed<'_>> {
        if self.is_atomic() {
            return Ok(Allowed::Atomic);
        }
        if self.hints.lock().ds_write != Choice::Enable
            && let Some(entered) = self.writers.enter()
        {
            return Ok(Allowed::Entered(entered));
        }
        let locked = self.locks.lock(&*self.storage, range, true)?;
        Ok(Allowed::Locked(locked))
    }

    /// Writes at the shared pointer, combined with adjacent writes of other ranks of the node if
    /// possible.
    pub fn append(&self, view: &View, position: u64, memory: &mut Memory) -> Result<u64> {
        let len = memory.buffer.len() as u64;
        if len > 0
            && !self.is_atomic()
            && view.representation.is_unconverted()
            && view.is_one_run(position, len)
            && let Some(start) = memory.buffer.as_ptr()
        {
            let mut runs = Runs::default();
            runs.push(Run {
                at: view.place(position),
                len,
            });
            if let Some(written) = self.combiner.write(self, runs, start) {
                return written
                    .map(|()| len)
                    .map_err(|error| self.failed("writing to", &error));
            }
        }
        self.transfer(view, position, memory, Direction::Write)
    }

    fn move_unlocked(
        &self,
        view: &View,
        position: u64,
        buffer: &mut Buffer,
        direction: Direction,
    ) -> io::Result<u64> {
        let len = buffer.len() as u64;
        if view.is_one_run(position, len) {
            let at = view.place(position);
            let _allowed = match direction {
                Direction::Write => Some(self.allow_write(at..at + len)?),
                Direction::Read => None,
            };
            return move_run(&*self.storage, at, buffer, direction);
        }
        if let Some(start) = buffer.as_ptr() {
            return self.move_runs(view, position, start, len, direction);
        }
        // Data that is noncontiguous in memory as well goes through a packed copy.
        let mut stage = vec![0; STAGE.min(buffer.len())];
        let mut done = 0;
        while done < len {
            let part = (len - done).min(stage.len() as u64);
            let packed = &mut stage[..part as usize];
            if direction == Direction::Write {
                buffer.read(done as usize, packed);
            }
            let start = packed.as_mut_ptr();
            let moved = self.move_runs(view, position + done, start, part, direction)?;
            if direction == Direction::Read {
                buffer.write(done as usize, &stage[..moved as usize]);
            }
            done += moved;
            if moved < part {
                break;
            }
        }
        Ok(done)
    }

    /// Moves contiguous memory to or from several runs. `start` is valid for `len` bytes, as the
    /// callers' buffers promise.
    fn move_runs(
        &self,
        view: &View,
        position: u64,
        start: *mut u8,
        len: u64,
        direction: Direction,
    ) -> io::Result<u64> {
        let hints = self.hints();
        if sieve::is_better(self, &hints, view, position, len, direction) {
            return sieve::transfer(self, &hints, view, position, start, len, direction);
        }
        let _allowed = match direction {
            Direction::Write => Some(self.allow_write(view.span(position, len))?),
            Direction::Read => None,
        };
        let mut done = 0;
        for run in view.runs(position, len) {
            let here = start.wrapping_add(done as usize);
            // SAFETY: the runs are together as long as the memory, of which the callers' buffers
            // promise `len` bytes.
            let moved = unsafe { move_all(&*self.storage, run, here, direction)? };
            done += moved;
            if moved < run.len {
                break;
            }
        }
        Ok(done)
    }
}

/// Moves a buffer to or from one run.
fn move_run(
    storage: &dyn Storage,
    at: u64,
    buffer: &mut Buffer,
    direction: Direction,
) -> io::Result<u64> {
    let len = buffer.len();
    if let Some(start) = buffer.as_ptr() {
        let run = Run {
            at,
            len: len as u64,
        };
        // SAFETY: `buffer` promises that its memory is valid for its length, the run's.
        return unsafe { move_all(storage, run, start, direction) };
    }
    if buffer.is_listable() {
        return move_list(storage, at, buffer, direction);
    }
    let mut stage = vec![0; STAGE.min(len)];
    let mut done = 0;
    while done < len {
        let part = (len - done).min(stage.len());
        let packed = &mut stage[..part];
        if direction == Direction::Write {
            buffer.read(done, packed);
        }
        let run = Run {
            at: at + done as u64,
            len: part as u64,
        };
        // SAFETY: `packed` is a local vector of the run's length.
        let moved = unsafe { move_all(storage, run, packed.as_mut_ptr(), direction)? } as usize;
        if direction == Direction::Read {
            buffer.write(done, &stage[..moved]);
        }
        done += moved;
        if moved < part {
            break;
        }
    }
    Ok(done as u64)
}

/// Moves data in long blocks, which the system gathers or scatters.
fn move_list(
    storage: &dyn Storage,
    at: u64,
    buffer: &Buffer,
    direction: Direction,
) -> io::Result<u64> {
    let none = IoVec {
        ptr: std::ptr::null_mut(),
        len: 0,
    };
    let (len, mut done) = (buffer.len(), 0);
    let mut found = vec![none; MOST_PIECES];
    let mut pieces = Vec::with_capacity(MOST_PIECES);
    while done < len {
        // The system moves less than 2^31 bytes in one call.
        let (count, _) = buffer.list(done, (len - done).min(1 << 30), &mut found);
        pieces.clear();
        pieces.extend(found[..count].iter().map(|piece| iovec {
            iov_base: piece.ptr.cast(),
            iov_len: piece.len,
        }));
        // SAFETY: the pieces lie in `buffer`, which promises that its memory is valid.
        let moved = unsafe {
            match direction {
                Direction::Read => storage.read_at(&pieces, at + done as u64)?,
                Direction::Write => storage.write_at(&pieces, at + done as u64)?,
            }
        };
        if moved == 0 {
            break;
        }
        done += moved;
    }
    Ok(done as u64)
}

/// Data in the file's representation.
pub(crate) struct Converted(Vec<u8>);

impl Converted {
    /// Allocates memory for the data, and converts it if it is to be written.
    pub fn new(
        representation: &Representation,
        memory: &Memory,
        direction: Direction,
    ) -> Result<Converted> {
        let bytes = representation.bytes(&memory.datatype, memory.count)?;
        let mut file = vec![0; bytes];
        if direction == Direction::Write && bytes > 0 {
            let (start, count) = (memory.start, memory.count);
            // SAFETY: `memory` promises that its elements are valid.
            unsafe {
                match representation {
                    Representation::User(_, conversions) => {
                        conversions.convert_write(start, &memory.datatype, count, &mut file)?;
                    }
                    _ => {
                        memory.datatype.pack_external(start, count, &mut file, 0)?;
                    }
                }
            }
        }
        Ok(Converted(file))
    }

    /// Returns a buffer of the data. `self` must not be used while the buffer is.
    pub fn buffer(&mut self) -> Buffer {
        // SAFETY: the vector is not resized or read until the transfer is over: the callers use
        // `self` only in `finish`, afterwards.
        unsafe { Buffer::bytes(self.0.as_mut_ptr(), self.0.len()) }
    }

    /// Converts the data read. Returns the bytes of memory that the bytes moved correspond to.
    ///
    /// Of an element that the file has in part, complete values are converted, but not by functions
    /// of the program, which convert whole elements.
    pub fn finish(
        self,
        representation: &Representation,
        memory: &Memory,
        direction: Direction,
        moved: u64,
    ) -> Result<u64> {
        let (datatype, moved) = (&memory.datatype, moved as usize);
        let one = representation.bytes(datatype, 1)?;
        let whole = moved.checked_div(one).unwrap_or(0);
        let reads = direction == Direction::Read;
        match representation {
            Representation::User(_, conversions) if reads && whole > 0 => {
                let file = &self.0[..whole * one];
                // SAFETY: `memory` promises that all its elements are valid, and `whole` is at most
                // their number.
                unsafe { conversions.convert_read(memory.start, datatype, whole, file)? };
            }
            Representation::External32 if reads => {
                let file = &self.0[..moved];
                // SAFETY: `memory` promises that all its elements are valid, and `file` has no more
                // data.
                let taken = unsafe { datatype.unpack_external_part(memory.start, file)? };
                return Ok(taken as u64);
            }
            _ => {}
        }
        Ok((whole * datatype.size()) as u64)
    }
}
