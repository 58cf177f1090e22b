//! Groups of jobs that are written together because they lie in one stretch of the file.

use std::io;

use libc::iovec;
use parking_lot::Mutex;

use crate::access::Shared;
use crate::direction::Direction;
use crate::driver::Storage;
use crate::one_run::move_all;
use crate::runs::Runs;
use crate::view::Run;

/// Largest stretch in bytes to which further deposits are joined.
const LONGEST: u64 = 2 << 20;

/// Least average length of pieces, in bytes, that the system gathers; shorter ones are copied
/// together first.
const GATHERED: u64 = 512;

/// A write of one rank.
pub(super) struct Job {
    pub runs: Runs,
    pub data: *const u8,
    /// The rank whose deposit has the data; `None` if it is still in the program's memory.
    pub member: Option<usize>,
}

pub(super) fn start_of(job: &Job) -> u64 {
    job.runs.list.first().map_or(0, |run| run.at)
}

fn end_of(job: &Job) -> u64 {
    job.runs.list.last().map_or(0, |run| run.end())
}

/// Returns how many of the first jobs form a group. Jobs without gaps are joined if they are
/// adjacent; a sieving job of the next stretch is left alone, since other ranks will arrive there.
pub(super) fn joined(jobs: &[Job]) -> usize {
    let start = start_of(&jobs[0]);
    let mut end = end_of(&jobs[0]);
    let mut count = 1;
    let mut whole = jobs[0].runs.list.len() == 1;
    while let Some(next) = jobs.get(count)
        && {
            whole &= next.runs.list.len() == 1;
            start_of(next) < end || (whole && start_of(next) == end)
        }
        && end.max(end_of(next)) - start <= LONGEST
    {
        end = end.max(end_of(next));
        count += 1;
    }
    count
}

/// A run with its data.
struct Piece {
    run: Run,
    data: *const u8,
}

/// Returns the pieces of all jobs, in the order of the file.
fn pieces(group: &[Job]) -> Vec<Piece> {
    let mut pieces = Vec::with_capacity(group.iter().map(|job| job.runs.list.len()).sum());
    for job in group {
        let mut data = job.data;
        for run in &job.runs.list {
            pieces.push(Piece { run: *run, data });
            data = data.wrapping_add(run.len as usize);
        }
    }
    // Each list is sorted, so that merging is cheap.
    pieces.sort_by_key(|piece| piece.run.at);
    pieces
}

/// Returns whether pieces are contiguous and do not overlap.
fn follow(pieces: &[Piece]) -> bool {
    pieces
        .windows(2)
        .all(|two| two[0].run.end() == two[1].run.at)
}

/// Returns whether there are bytes between the pieces that stay unchanged.
fn has_gaps(pieces: &[Piece]) -> bool {
    let mut end = pieces[0].run.at;
    pieces.iter().any(|piece| {
        let gap = piece.run.at > end;
        end = end.max(piece.run.end());
        gap
    })
}

/// Writes the jobs of a group; `window` is memory for its stretch.
pub(super) fn write(shared: &Shared, group: &[Job], window: &Mutex<Vec<u8>>) -> io::Result<()> {
    let storage = &*shared.storage;
    let start = start_of(&group[0]);
    let end = group.iter().map(end_of).max().unwrap_or(start);
    let stretch = Run {
        at: start,
        len: end - start,
    };
    let pieces = pieces(group);
    let long = pieces.len() == group.len() || stretch.len / GATHERED >= pieces.len() as u64;
    if long && follow(&pieces) {
        let _allowed = shared.allow_write(start..end)?;
        return write_pieces(storage, &pieces, start);
    }
    let mut window = window.lock();
    if window.len() < stretch.len as usize {
        window.resize(stretch.len as usize, 0);
    }
    let window = &mut window[..stretch.len as usize];
    let (_allowed, _locked);
    if has_gaps(&pieces) {
        _locked = shared.locks.lock(storage, start..end, true)?;
        // SAFETY: the window is as long as the stretch.
        let there = unsafe { move_all(storage, stretch, window.as_mut_ptr(), Direction::Read)? };
        // Beyond the end of the file there are zeros.
        window[there as usize..].fill(0);
    } else {
        _allowed = shared.allow_write(start..end)?;
    }
    let memory = window.as_mut_ptr();
    for piece in &pieces {
        let to = memory.wrapping_add((piece.run.at - start) as usize);
        // SAFETY: the run lies in the stretch, which the window holds; `piece.data` has as many
        // bytes as its run.
        unsafe { std::ptr::copy_nonoverlapping(piece.data, to, piece.run.len as usize) };
    }
    // SAFETY: the window is as long as the stretch.
    unsafe { move_all(storage, stretch, memory, Direction::Write)? };
    Ok(())
}

/// Writes contiguous pieces, until all are written.
fn write_pieces(storage: &dyn Storage, pieces: &[Piece], mut at: u64) -> io::Result<()> {
    let mut list: Vec<iovec> = pieces
        .iter()
        .map(|piece| iovec {
            iov_base: piece.data.cast_mut().cast(),
            iov_len: piece.run.len as usize,
        })
        .collect();
    let mut left = &mut list[..];
    while !left.is_empty() {
        // SAFETY: the pieces point to the data of jobs, which have as many bytes as their runs.
        let mut written = unsafe { storage.write_at(left, at)? };
        at += written as u64;
        while let Some(first) = left.first_mut() {
            if written < first.iov_len {
                first.iov_base = first.iov_base.wrapping_byte_add(written);
                first.iov_len -= written;
                break;
            }
            written -= first.iov_len;
            left = &mut left[1..];
        }
    }
    Ok(())
}
