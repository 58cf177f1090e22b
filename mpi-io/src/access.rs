//! Moving data between memory and a file by this process alone.

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
use crate::plain::move_plain;
use crate::posix::MOST_PIECES;
use crate::read_once::ReadOnce;
use crate::runs::Runs;
use crate::view::{Run, View};
use crate::writers::{Entered, Writers};
use crate::{sieve, system};

/// An open file as this process's threads share it.
pub(crate) struct Shared {
    pub path: PathBuf,
    pub amode: Amode,
    pub storage: Box<dyn Storage>,
    pub locks: Locks,
    pub writers: Writers,
    pub combiner: Combiner,
    pub read_once: ReadOnce,
    /// Of data sieving, kept for the next access.
    pub window: Mutex<Vec<u8>>,
    pub hints: Mutex<Arc<Hints>>,
    pub atomic: AtomicBool,
}

/// That a write may be made without damage by those who sieve.
#[allow(dead_code, reason = "guards are kept, not looked at")]
pub(crate) enum Allowed<'a> {
    /// The caller has the lock of atomic mode.
    Atomic,
    /// Nobody sieves.
    Entered(Option<Entered<'a>>),
    /// The bytes are locked.
    Locked(Locked<'a>),
}

/// Bytes of data that are packed or unpacked at a time.
const STAGE: usize = 1 << 20;

/// Bytes, at most, that the call which starts an access moves itself where the system has or takes them in memory: so many
/// are copied in the time that it takes to have a thread do so.
const AT_ONCE: u64 = 64 << 10;

impl Shared {
    /// The hints in force.
    pub fn hints(&self) -> Arc<Hints> {
        self.hints.lock().clone()
    }

    /// The error for something that the system refused.
    #[cold]
    pub fn failed(&self, doing: &str, error: &io::Error) -> Error {
        system::error(doing, &self.path, error)
    }

    /// Whether accesses are atomic.
    pub fn is_atomic(&self) -> bool {
        self.atomic.load(Ordering::Acquire)
    }

    /// Moves data between memory and the stream of a view from `position` on. Returns how many bytes of
    /// memory were moved: fewer than there are where a file ends.
    pub fn transfer(
        &self,
        view: &View,
        position: u64,
        memory: &mut Memory,
        direction: Direction,
    ) -> Result<u64> {
        if view.representation.is_plain() {
            return self.move_bytes(view, position, &mut memory.buffer, direction);
        }
        let mut file = Converted::new(&view.representation, memory, direction)?;
        let moved = self.move_bytes(view, position, &mut file.buffer(), direction)?;
        file.finish(&view.representation, memory, direction, moved)
    }

    /// [`Shared::transfer`], if it is so short and so simple that the system may do it at once: for what is started, and
    /// would take a thread longer to take over. Returns how many bytes were moved; `None`: it is still to be done, or to
    /// be done again.
    pub fn transfer_at_once(
        &self,
        view: &View,
        position: u64,
        memory: &Memory,
        direction: Direction,
    ) -> Option<u64> {
        let buffer = &memory.buffer;
        let len = buffer.len() as u64;
        if len > AT_ONCE || !view.representation.is_plain() || self.is_atomic() {
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
        // SAFETY: the buffer was promised to be valid.
        let moved = unsafe { self.storage.move_at_once(piece, at, direction) };
        moved.then_some(len)
    }

    /// The same for data as it is in the file.
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

    /// What allows a write, as long as it is kept: where others may sieve, a lock, since they write back
    /// what they have read.
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

    /// Writes at the shared pointer, where others write next to it at the same time: together with them if that
    /// can be done.
    pub fn append(&self, view: &View, position: u64, memory: &mut Memory) -> Result<u64> {
        let len = memory.buffer.len() as u64;
        if len > 0
            && !self.is_atomic()
            && view.representation.is_plain()
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
        // Data with gaps in memory, too, goes by way of a packed copy.
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

    /// Moves gapless memory to or from several runs. `start` is valid for `len` bytes, as the callers'
    /// buffers promise.
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
            // SAFETY: the runs are as long as the memory together.
            let moved = unsafe { move_plain(&*self.storage, run, here, direction)? };
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
        // SAFETY: the buffer was promised to be valid.
        return unsafe { move_plain(storage, run, start, direction) };
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
        // SAFETY: the packed copy is a local variable.
        let moved = unsafe { move_plain(storage, run, packed.as_mut_ptr(), direction)? } as usize;
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

/// The same for data in long pieces, which the system gathers or scatters.
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
        // SAFETY: the pieces lie in the buffer, which was promised to be valid.
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

/// Data in the representation that it has in the file.
pub(crate) struct Converted(Vec<u8>);

impl Converted {
    /// Room for the data, filled if it is to be written.
    pub fn new(
        representation: &Representation,
        memory: &Memory,
        direction: Direction,
    ) -> Result<Converted> {
        let bytes = representation.bytes(&memory.datatype, memory.count)?;
        let mut file = vec![0; bytes];
        if direction == Direction::Write && bytes > 0 {
            let (start, count) = (memory.start, memory.count);
            // SAFETY: the memory was promised to be valid.
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

    /// As a buffer to read to or write from, while `self` is left alone.
    pub fn buffer(&mut self) -> Buffer {
        // SAFETY: the vector stays until the transfer is over, in which nobody else touches it.
        unsafe { Buffer::bytes(self.0.as_mut_ptr(), self.0.len()) }
    }

    /// Converts what was read. Returns the bytes of memory that the moved ones are. Of an element that the
    /// file has a part of only, what are whole values there is taken, but nothing by functions of the
    /// program's, which convert whole elements.
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
                // SAFETY: the memory was promised to be valid for as many elements and more.
                unsafe { conversions.convert_read(memory.start, datatype, whole, file)? };
            }
            Representation::External32 if reads => {
                let file = &self.0[..moved];
                // SAFETY: as above.
                let taken = unsafe { datatype.unpack_external_part(memory.start, file)? };
                return Ok(taken as u64);
            }
            _ => {}
        }
        Ok((whole * datatype.size()) as u64)
    }
}
