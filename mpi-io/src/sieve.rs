//! Data sieving: many small runs are moved by reading all from the first to the last of them at once, and
//! picking out, or replacing and writing back, what is wanted.
//!
//! Writing back is sound only if nobody else writes in between at the same time. So whoever sieves holds
//! a lock on the bytes, and all who write do: where `romio_ds_write` says so from the beginning, otherwise from
//! when one has announced it (`writers`), which only members of one node can.

#![allow(unsafe_code, reason = "memory of the program is read and written")]

use std::io;

use crate::access::{Shared, move_plain};
use crate::file::Direction;
use crate::hints::{Choice, Hints};
use crate::view::{Run, View};

/// What a call of the system's costs, in bytes that are copied meanwhile.
const CALL: u64 = 8192;

/// How many runs are looked at to find out how dense they are.
const LOOKED_AT: usize = 32;

/// Whether sieving is in force, and quicker than a call for each run.
pub(crate) fn is_better(
    shared: &Shared,
    hints: &Hints,
    view: &View,
    position: u64,
    len: u64,
    direction: Direction,
) -> bool {
    let choice = match direction {
        Direction::Read => hints.ds_read,
        Direction::Write => hints.ds_write,
    };
    if choice == Choice::Disable || !shared.storage.can_read() || view.is_one_run(position, len) {
        return false;
    }
    if choice == Choice::Enable {
        return true;
    }
    // Others who write must know.
    if direction == Direction::Write
        && !(shared.writers.can_announce() && shared.storage.is_local())
    {
        return false;
    }
    let (mut runs, mut first, mut end) = (0, 0, 0);
    for run in view.runs(position, len).take(LOOKED_AT) {
        if runs == 0 {
            first = run.at;
        }
        runs += 1;
        end = run.end();
    }
    runs > 1 && end - first < runs * CALL
}

/// Moves `len` bytes of gapless memory to or from the runs of a view. `start` is valid for them.
pub(crate) fn transfer(
    shared: &Shared,
    hints: &Hints,
    view: &View,
    position: u64,
    start: *mut u8,
    len: u64,
    direction: Direction,
) -> io::Result<u64> {
    let room = match direction {
        Direction::Read => hints.ind_rd_buffer_size,
        Direction::Write => hints.ind_wr_buffer_size,
    };
    if direction == Direction::Write {
        shared.writers.announce();
    }
    let span = view.span(position, len);
    let mut window = vec![0_u8; room.min(span.end - span.start) as usize];
    let mut runs = view.runs(position, len).peekable();
    let mut batch: Vec<Run> = Vec::new();
    let mut done = 0;
    loop {
        // As many runs as the window has room for; one that is too long is cut.
        batch.clear();
        let mut first = 0;
        while let Some(run) = runs.peek_mut() {
            if batch.is_empty() {
                first = run.at;
            }
            let end = first + window.len() as u64;
            if run.at >= end {
                break;
            }
            if run.end() > end {
                let part = end - run.at;
                batch.push(Run {
                    at: run.at,
                    len: part,
                });
                run.at += part;
                run.len -= part;
                break;
            }
            batch.push(*run);
            runs.next();
        }
        let Some(last) = batch.last() else {
            return Ok(done);
        };
        let covered = Run {
            at: first,
            len: last.end() - first,
        };
        let wanted: u64 = batch.iter().map(|run| run.len).sum();
        let here = start.wrapping_add(done as usize);
        // SAFETY: the runs are as long as the memory together, and lie in the window.
        let moved = unsafe { move_window(shared, covered, &batch, &mut window, here, direction)? };
        done += moved;
        if moved < wanted {
            return Ok(done);
        }
    }
}

/// Moves runs that lie in the window's reach. Returns how many bytes of them there are in the file.
///
/// # Safety
/// `start` is valid for as many bytes as the runs have.
unsafe fn move_window(
    shared: &Shared,
    covered: Run,
    runs: &[Run],
    window: &mut [u8],
    start: *mut u8,
    direction: Direction,
) -> io::Result<u64> {
    let storage = &*shared.storage;
    let window = &mut window[..covered.len as usize];
    if direction == Direction::Read {
        // SAFETY: the window is a local variable.
        let there = unsafe { move_plain(storage, covered, window.as_mut_ptr(), direction)? };
        let mut done = 0;
        for run in runs {
            let from = run.at - covered.at;
            let part = there.saturating_sub(from).min(run.len);
            let to = start.wrapping_add(done as usize);
            // SAFETY: by the contract of this function; the window is not the program's memory.
            unsafe {
                to.copy_from_nonoverlapping(window.as_ptr().add(from as usize), part as usize)
            };
            done += part;
            if part < run.len {
                break;
            }
        }
        return Ok(done);
    }
    // In atomic mode the lock is had already.
    let locked = match shared.is_atomic() {
        true => None,
        false => Some(
            shared
                .locks
                .lock(storage, covered.at..covered.end(), true)?,
        ),
    };
    let is_gapless = runs.iter().map(|run| run.len).sum::<u64>() == covered.len;
    if !is_gapless {
        // SAFETY: as above.
        let there = unsafe { move_plain(storage, covered, window.as_mut_ptr(), Direction::Read)? };
        // Beyond the end of the file there are zeros.
        window[there as usize..].fill(0);
    }
    let mut done = 0;
    for run in runs {
        let to = &mut window[(run.at - covered.at) as usize..][..run.len as usize];
        // SAFETY: by the contract of this function.
        unsafe {
            to.as_mut_ptr()
                .copy_from_nonoverlapping(start.wrapping_add(done as usize), to.len());
        }
        done += run.len;
    }
    // SAFETY: as above.
    unsafe { move_plain(storage, covered, window.as_mut_ptr(), Direction::Write)? };
    drop(locked);
    Ok(done)
}
