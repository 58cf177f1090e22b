//! Data sieving: many small runs are moved by one access from the first to the last of them, from
//! which the data is picked, or in which it is replaced and written back.
//!
//! Writing back is safe only if no other process writes in between at the same time. So a sieving
//! process holds a lock on the bytes, and so do all that write: from the beginning if
//! `romio_ds_write` asks for sieving, otherwise from the time when one has announced it
//! (`writers`), which only members of one node can. Members of one node also write for each other
//! (`combine`), so that a stretch in which all have pieces is written once.

#![allow(unsafe_code, reason = "memory of the program is read and written")]

use std::io;
use std::ops::Range;

use crate::access::Shared;
use crate::combine::ROOM;
use crate::direction::Direction;
use crate::hints::{Choice, Hints};
use crate::one_run::move_all;
use crate::runs::Runs;
use crate::view::{Run, View};

/// Bytes per read from a local file system: the window stays in a core's cache.
const LOCAL_READ: u64 = 128 << 10;

/// Runs examined to estimate their density.
const LOOKED_AT: usize = 32;

/// Returns whether sieving is enabled, and faster than a call for each run.
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
    if view.overlaps {
        return false;
    }
    if choice == Choice::Enable {
        return true;
    }
    if direction == Direction::Write && !may_write(shared) {
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
    runs > 1 && end - first < runs * shared.storage.call_cost(direction)
}

/// Returns whether sieving writes are possible: other writers would take locks.
fn may_write(shared: &Shared) -> bool {
    shared.writers.can_announce() && shared.storage.is_local()
}

/// Writes stretches of the file from `data`, which holds the file from byte `base` on. Stretches
/// close to each other are written together with the bytes between them.
pub(crate) fn store(shared: &Shared, stretches: &[Run], data: &[u8], base: u64) -> io::Result<()> {
    let hints = shared.hints();
    let sieves = match hints.ds_write {
        Choice::Disable => false,
        Choice::Enable => true,
        Choice::Automatic => may_write(shared),
    };
    let sieves = sieves && shared.storage.can_read() && stretches.len() > 1;
    let near = shared.storage.call_cost(Direction::Write);
    let (mut rest, mut window) = (stretches, Vec::new());
    while let Some(first) = rest.first() {
        let joined = |run: &&Run| sieves && run.end() - first.at <= hints.ind_wr_buffer_size;
        let count = rest.iter().take_while(joined).count().max(1);
        let (group, after) = rest.split_at(count);
        rest = after;
        let len = group[count - 1].end() - first.at;
        if count > 1 && (hints.ds_write == Choice::Enable || len < count as u64 * near) {
            if window.is_empty() {
                shared.writers.announce();
            }
            window.resize(window.len().max(len as usize), 0);
            replace(shared, group, data, base, &mut window[..len as usize])?;
            continue;
        }
        for run in group {
            let from = data[(run.at - base) as usize..][..run.len as usize].as_ptr();
            let _allowed = shared.allow_write(run.at..run.end())?;
            // SAFETY: `from` points to the run's bytes in `data`.
            unsafe { move_all(&*shared.storage, *run, from.cast_mut(), Direction::Write)? };
        }
    }
    Ok(())
}

/// Reads from the first to the last of some stretches, replaces these, and writes all back.
fn replace(
    shared: &Shared,
    group: &[Run],
    data: &[u8],
    base: u64,
    window: &mut [u8],
) -> io::Result<()> {
    let storage = &*shared.storage;
    let covered = Run {
        at: group[0].at,
        len: window.len() as u64,
    };
    let _locked = shared
        .locks
        .lock(storage, covered.at..covered.end(), true)?;
    // SAFETY: the window is as long as `covered`.
    let there = unsafe { move_all(storage, covered, window.as_mut_ptr(), Direction::Read)? };
    // Beyond the end of the file there are zeros.
    window[there as usize..].fill(0);
    for run in group {
        let from = &data[(run.at - base) as usize..][..run.len as usize];
        window[(run.at - covered.at) as usize..][..run.len as usize].copy_from_slice(from);
    }
    // SAFETY: the window is as long as `covered`.
    unsafe { move_all(storage, covered, window.as_mut_ptr(), Direction::Write)? };
    Ok(())
}

/// Moves `len` bytes of contiguous memory to or from the runs of a view. `start` is valid for them.
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
        Direction::Read if shared.storage.is_local() => hints.ind_rd_buffer_size.min(LOCAL_READ),
        Direction::Read => hints.ind_rd_buffer_size,
        Direction::Write => hints.ind_wr_buffer_size,
    };
    let together = direction == Direction::Write && !shared.is_atomic();
    let together = together && shared.combiner.is_there();
    let _sieving = together.then(|| shared.combiner.sieve());
    if direction == Direction::Write {
        shared.writers.announce();
    }
    let span = view.span(position, len);
    let room = room.min(span.end - span.start);
    let mut own = Vec::new();
    // Another thread may be using the kept window.
    let mut kept = shared.window.try_lock();
    let window = kept.as_deref_mut().unwrap_or(&mut own);
    if window.len() < room as usize {
        window.resize(room as usize, 0);
    }
    let (mut next, end) = (position, position + len);
    while next < end {
        // As much as fits in the window.
        let first = view.place(next);
        let most = end.min(next.saturating_add(room));
        let here = start.wrapping_add((next - position) as usize);
        let mut after = view.bytes_before(first + room, next + 1, most);
        if together {
            after = after.min(next + ROOM as u64);
            let mut runs = Runs::default();
            view.runs(next, after - next).for_each(|run| runs.push(run));
            if let Some(written) = shared.combiner.write(shared, runs, here) {
                written?;
                next = after;
                continue;
            }
        }
        let covered = Run {
            at: first,
            len: view.place(after - 1) + 1 - first,
        };
        let window = &mut window[..covered.len as usize];
        let stream = next..after;
        let moved = match direction {
            // SAFETY: `start` is valid for `len` bytes, and `here` points to the data of this part
            // of the stream in it.
            Direction::Read => unsafe { read(shared, view, covered, stream, window, here)? },
            // SAFETY: `start` is valid for `len` bytes, and `here` points to the data of this part
            // of the stream in it.
            Direction::Write => unsafe { write(shared, view, covered, stream, window, here)? },
        };
        next += moved;
        if next < after {
            break;
        }
    }
    Ok(next - position)
}

/// Reads part of the stream, which lies in `covered`. Returns the bytes that the file has of it.
///
/// # Safety
/// `start` is valid for the bytes of the part.
unsafe fn read(
    shared: &Shared,
    view: &View,
    covered: Run,
    stream: Range<u64>,
    window: &mut [u8],
    start: *mut u8,
) -> io::Result<u64> {
    let to = window.as_mut_ptr();
    // SAFETY: the window is as long as `covered`.
    let there = unsafe { move_all(&*shared.storage, covered, to, Direction::Read)? };
    let end = match there < covered.len {
        true => view.bytes_before(covered.at + there, stream.start, stream.end),
        false => stream.end,
    };
    let len = (end - stream.start) as usize;
    // SAFETY: the caller guarantees valid memory for the part, which is the program's and does not
    // overlap the window.
    let out = unsafe { std::slice::from_raw_parts_mut(start, len) };
    view.gather(window, covered.at, stream.start, out);
    Ok(len as u64)
}

/// Writes part of the stream, which lies in `covered`, and writes the bytes between its runs back.
///
/// # Safety
/// `start` is valid for the bytes of the part.
unsafe fn write(
    shared: &Shared,
    view: &View,
    covered: Run,
    stream: Range<u64>,
    window: &mut [u8],
    start: *mut u8,
) -> io::Result<u64> {
    let storage = &*shared.storage;
    // In atomic mode the caller holds the lock.
    let _locked = match shared.is_atomic() {
        true => None,
        false => {
            let range = covered.at..covered.end();
            Some(shared.locks.lock(storage, range, true)?)
        }
    };
    let len = stream.end - stream.start;
    if len < covered.len {
        let to = window.as_mut_ptr();
        // SAFETY: the window is as long as `covered`.
        let there = unsafe { move_all(storage, covered, to, Direction::Read)? };
        // Beyond the end of the file there are zeros.
        window[there as usize..].fill(0);
    }
    // SAFETY: the caller guarantees valid memory for the part.
    let data = unsafe { std::slice::from_raw_parts(start, len as usize) };
    view.scatter(data, stream.start, window, covered.at);
    // SAFETY: the window is as long as `covered`.
    unsafe { move_all(storage, covered, window.as_mut_ptr(), Direction::Write)? };
    Ok(len)
}
