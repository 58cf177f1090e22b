//! Writes of several ranks of a node as one.
//!
//! File systems let one process write to a file at a time, so small writes of many ranks queue up in the
//! system, and data sieving moves the same stretch of the file once for each rank that has pieces in it. Here
//! they queue up in memory that the node shares instead: whoever has the turn writes for all that wait. Others put
//! their data into their own deposit, wait until it is written, and are told what the system said. So what
//! returned success is in the file, as if each had written by itself.
//!
//! The turn is a word with the process that has it. It passes to another one if that has ended; a deposit that it
//! may have written already is written again then, with the same bytes at the same places.

#![allow(unsafe_code, reason = "memory that processes share")]

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use libc::iovec;
use netmod::SharedSegment;
use parking_lot::Mutex;

use crate::access::{Shared, move_plain};
use crate::direction::Direction;
use crate::driver::Storage;
use crate::runs::{Runs, WORDS};
use crate::view::Run;
use crate::writers::{is_gone, words_len};

/// Bytes of data in a deposit.
pub(crate) const ROOM: usize = 128 << 10;
/// Bytes in front of the data: what is to be written where.
const HEAD: usize = 4096;
/// Runs that a deposit can list where they are not alike.
const LISTED: usize = (HEAD - LIST) / 16;
/// Where the list begins.
const LIST: usize = 128;
/// With more members there is no combining.
const MOST_MEMBERS: usize = 64;
/// Shorter runs are not worth being listed.
const SHORTEST: u64 = 128;
/// A stretch that is written at once, beyond which no further deposit is joined to it.
const LONGEST: u64 = 2 << 20;

/// How often who waits looks before it gives the core to others, and before it sleeps.
const SPINS: u32 = 100;
const YIELDS: u32 = 1000;

/// States of a deposit.
const EMPTY: u32 = 0;
const POSTED: u32 = 1;
const DONE: u32 = 2;

/// Bytes of a piece for so many members; see [`words_len`] for its first part. Deposits take memory when
/// they are used.
pub(crate) fn piece_len(members: usize) -> usize {
    let deposits = if members <= MOST_MEMBERS { members } else { 0 };
    words_len(members) + 4096 + deposits * (HEAD + ROOM)
}

/// The words in front of the deposits.
#[repr(C)]
struct Common {
    /// The process whose turn it is, or 0.
    turn: AtomicU32,
    /// How many ranks are at data sieving.
    sieving: AtomicU32,
}

/// The head of a deposit.
#[repr(C)]
struct Head {
    state: AtomicU32,
    /// What the system said, or 0.
    error: AtomicU32,
    /// Of the runs, as ranks tell each other.
    told: [AtomicU64; WORDS],
}

/// Writes of a file's members, if they may be combined.
pub(crate) struct Combiner {
    piece: Option<Arc<dyn SharedSegment>>,
    me: usize,
    /// Its number, which is asked for often.
    process: u32,
    members: usize,
    /// One thread of the process at a time.
    own: Mutex<()>,
    window: Mutex<Vec<u8>>,
}

/// Something to be written.
struct Job {
    runs: Runs,
    data: *const u8,
    /// Whose deposit it is; nobody's if the data is still in the program's memory.
    member: Option<usize>,
}

/// That a rank is at data sieving.
pub(crate) struct Sieving<'a>(Option<&'a AtomicU32>);

impl Drop for Sieving<'_> {
    fn drop(&mut self) {
        if let Some(count) = self.0 {
            count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Combiner {
    /// `piece` is as long as [`piece_len`] says, and was zero at first.
    pub fn new(
        piece: Option<Arc<dyn SharedSegment>>,
        me: usize,
        members: usize,
        storage: &dyn Storage,
    ) -> Combiner {
        let may = members <= MOST_MEMBERS && storage.is_local() && storage.can_read();
        Combiner {
            piece: piece.filter(|_| may),
            me,
            process: std::process::id(),
            members,
            own: Mutex::default(),
            window: Mutex::default(),
        }
    }

    /// Whether writes may be combined.
    pub fn is_there(&self) -> bool {
        self.piece.is_some()
    }

    fn at(&self, offset: usize) -> Option<*mut u8> {
        let piece = self.piece.as_ref()?;
        Some(
            piece
                .as_ptr()
                .wrapping_add(words_len(self.members) + offset),
        )
    }

    fn common(&self) -> Option<&Common> {
        // SAFETY: the words lie in the piece, at the beginning of a page, and are used as atomic ones by all;
        // the piece is mapped as long as `self` lives.
        self.at(0).map(|at| unsafe { &*at.cast::<Common>() })
    }

    /// The head and the list of a member's deposit, and where its data begins.
    fn deposit(&self, member: usize) -> Option<(&Head, &[AtomicU64], *mut u8)> {
        let start = self.at(4096 + member * (HEAD + ROOM))?;
        // SAFETY: as above; the list lies behind the head, both before the data.
        unsafe {
            let list = start.wrapping_add(LIST).cast::<AtomicU64>();
            let list = std::slice::from_raw_parts(list, 2 * LISTED);
            Some((&*start.cast::<Head>(), list, start.wrapping_add(HEAD)))
        }
    }

    /// Tells others that this rank is at data sieving.
    pub fn sieve(&self) -> Sieving<'_> {
        let count = self.common().map(|common| &common.sieving);
        if let Some(count) = count {
            count.fetch_add(1, Ordering::Relaxed);
        }
        Sieving(count)
    }

    /// Writes runs, whose bytes lie one after the other from `start` on. `None` if that can't be done
    /// together. Who has gaps between runs has announced sieving, and nobody calls in atomic mode.
    pub fn write(&self, shared: &Shared, runs: Runs, start: *const u8) -> Option<io::Result<()>> {
        let common = self.common()?;
        let (own, list, room) = self.deposit(self.me)?;
        let count = runs.list.len();
        let short = runs.bytes / (count as u64).max(1) < SHORTEST;
        let told = runs.head();
        if count == 0
            || runs.bytes > ROOM as u64
            || (count > 1 && short)
            || (count > LISTED && !Runs::is_told(&told))
        {
            return None;
        }
        let _thread = self.own.lock();
        let mut mine = Some(Job {
            runs,
            data: start,
            member: None,
        });
        let mut put_off = false;
        let mut polls = 0_u32;
        loop {
            if mine.is_none() && own.state.load(Ordering::Acquire) == DONE {
                own.state.store(EMPTY, Ordering::Relaxed);
                return Some(match own.error.load(Ordering::Relaxed) {
                    0 => Ok(()),
                    code => Err(io::Error::from_raw_os_error(code as i32)),
                });
            }
            if self.take_turn(common, polls) {
                let done = self.serve(shared, common, &mut mine, &mut put_off);
                common.turn.store(0, Ordering::Release);
                if let Some(result) = done {
                    return Some(result);
                }
            }
            if let Some(job) = mine.take() {
                let words = if Runs::is_told(&told) {
                    Vec::new()
                } else {
                    job.runs.words()
                };
                for (place, word) in own.told.iter().zip(told) {
                    place.store(word, Ordering::Relaxed);
                }
                for (place, word) in list.iter().zip(words) {
                    place.store(word, Ordering::Relaxed);
                }
                // SAFETY: the runs have no more bytes than there is room, which nobody reads before the
                // state says so; the caller's memory holds as many.
                unsafe { std::ptr::copy_nonoverlapping(job.data, room, job.runs.bytes as usize) };
                own.state.store(POSTED, Ordering::Release);
            }
            polls += 1;
            match polls {
                // A short write is over soon.
                0..SPINS if !put_off => std::hint::spin_loop(),
                0..YIELDS => std::thread::yield_now(),
                _ => std::thread::sleep(Duration::from_micros(50)),
            }
        }
    }

    /// Takes the turn if nobody has it, or who had it has ended.
    fn take_turn(&self, common: &Common, polls: u32) -> bool {
        let turn = common.turn.load(Ordering::Relaxed);
        let free = turn == 0 || (polls > YIELDS && polls.is_multiple_of(64) && is_gone(turn));
        free && common
            .turn
            .compare_exchange(turn, self.process, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Writes what waits, and what the caller has, whose result is returned then. The caller's may be left
    /// for later, once: when others seem about to come to the same stretch.
    fn serve(
        &self,
        shared: &Shared,
        common: &Common,
        mine: &mut Option<Job>,
        put_off: &mut bool,
    ) -> Option<io::Result<()>> {
        let mut jobs: Vec<Job> = (0..self.members)
            .filter_map(|member| self.posted(member))
            .collect();
        let others = jobs.iter().any(|job| job.member != Some(self.me));
        if let Some(job) = mine {
            let sieves = job.runs.list.len() > 1;
            let awaited = common.sieving.load(Ordering::Relaxed) as usize > jobs.len() + 1;
            if sieves && !*put_off && awaited && !others {
                *put_off = true;
                return None;
            }
        }
        let whole = mine.take();
        jobs.extend(whole);
        jobs.sort_by_key(start_of);
        let mut result = None;
        let mut rest = &jobs[..];
        while !rest.is_empty() {
            let count = joined(rest);
            let (group, after) = rest.split_at(count);
            rest = after;
            // The caller's alone, and others will come for the stretch when theirs is written.
            let alone = group.len() == 1 && jobs.len() > 1;
            if alone
                && group[0].member == Some(self.me)
                && !*put_off
                && group[0].runs.list.len() > 1
            {
                *put_off = true;
                continue;
            }
            let written = self.write_group(shared, group);
            let code = match &written {
                Ok(()) => 0,
                Err(error) => error.raw_os_error().unwrap_or(libc::EIO) as u32,
            };
            for job in group {
                match job.member.and_then(|member| self.deposit(member)) {
                    Some((head, ..)) => {
                        head.error.store(code, Ordering::Relaxed);
                        head.state.store(DONE, Ordering::Release);
                    }
                    None => {
                        result = Some(match code {
                            0 => Ok(()),
                            code => Err(io::Error::from_raw_os_error(code as i32)),
                        });
                    }
                }
            }
        }
        result
    }

    /// What a member has put into its deposit and waits for.
    fn posted(&self, member: usize) -> Option<Job> {
        let (head, list, data) = self.deposit(member)?;
        if head.state.load(Ordering::Acquire) != POSTED {
            return None;
        }
        let told: [u64; WORDS] = std::array::from_fn(|at| head.told[at].load(Ordering::Relaxed));
        let runs = match Runs::is_told(&told) {
            // A run has a byte at least.
            true if told[0] <= ROOM as u64 => Runs::of_head(&told),
            true => Runs::default(),
            false => {
                let count = (told[0] as usize).min(LISTED);
                let words: Vec<u64> = list[..2 * count]
                    .iter()
                    .map(|word| word.load(Ordering::Relaxed))
                    .collect();
                Runs::of_words(&words)
            }
        };
        let fits =
            runs.bytes > 0 && runs.bytes <= ROOM as u64 && runs.lie_in(&(0..i64::MAX as u64));
        if !fits {
            head.error.store(libc::EIO as u32, Ordering::Relaxed);
            head.state.store(DONE, Ordering::Release);
            return None;
        }
        Some(Job {
            runs,
            data,
            member: Some(member),
        })
    }

    /// Writes jobs that lie at one stretch.
    fn write_group(&self, shared: &Shared, group: &[Job]) -> io::Result<()> {
        let storage = &*shared.storage;
        let start = start_of(&group[0]);
        let end = group.iter().map(end_of).max().unwrap_or(start);
        let follow = group
            .windows(2)
            .all(|two| end_of(&two[0]) == start_of(&two[1]));
        if follow && group.iter().all(|job| job.runs.list.len() == 1) {
            let _allowed = shared.allow_write(start..end)?;
            return write_pieces(storage, group, start);
        }
        let stretch = Run {
            at: start,
            len: end - start,
        };
        let mut window = self.window.lock();
        if window.len() < stretch.len as usize {
            window.resize(stretch.len as usize, 0);
        }
        let window = &mut window[..stretch.len as usize];
        let memory = window.as_mut_ptr();
        let (_allowed, _locked);
        if has_gaps(group, stretch.len) {
            _locked = shared.locks.lock(storage, start..end, true)?;
            // SAFETY: the window is as long as the stretch.
            let there = unsafe { move_plain(storage, stretch, memory, Direction::Read)? };
            // Beyond the end of the file there are zeros.
            window[there as usize..].fill(0);
        } else {
            _allowed = shared.allow_write(start..end)?;
        }
        for job in group {
            let mut from = job.data;
            for run in &job.runs.list {
                let to = memory.wrapping_add((run.at - start) as usize);
                // SAFETY: the run lies in the stretch; the data has as many bytes as the runs.
                unsafe { std::ptr::copy_nonoverlapping(from, to, run.len as usize) };
                from = from.wrapping_add(run.len as usize);
            }
        }
        // SAFETY: the window is as long as the stretch.
        unsafe { move_plain(storage, stretch, memory, Direction::Write)? };
        Ok(())
    }
}

fn start_of(job: &Job) -> u64 {
    job.runs.list.first().map_or(0, |run| run.at)
}

fn end_of(job: &Job) -> u64 {
    job.runs.list.last().map_or(0, |run| run.end())
}

/// How many of the first jobs overlap or touch each other.
fn joined(jobs: &[Job]) -> usize {
    let start = start_of(&jobs[0]);
    let mut end = end_of(&jobs[0]);
    let mut count = 1;
    while let Some(next) = jobs.get(count)
        && start_of(next) <= end
        && end.max(end_of(next)) - start <= LONGEST
    {
        end = end.max(end_of(next));
        count += 1;
    }
    count
}

/// Whether jobs leave bytes of their stretch as they are.
fn has_gaps(group: &[Job], len: u64) -> bool {
    let bytes: u64 = group.iter().map(|job| job.runs.bytes).sum();
    if bytes < len {
        return true;
    }
    let mut runs: Vec<Run> = group
        .iter()
        .flat_map(|job| job.runs.list.iter().copied())
        .collect();
    // The lists are in order each.
    runs.sort_by_key(|run| run.at);
    let mut end = runs[0].at;
    runs.iter().any(|run| {
        let gap = run.at > end;
        end = end.max(run.end());
        gap
    })
}

/// Writes pieces that follow one another, until all are written.
fn write_pieces(storage: &dyn Storage, group: &[Job], mut at: u64) -> io::Result<()> {
    let mut pieces: Vec<iovec> = group
        .iter()
        .map(|job| iovec {
            iov_base: job.data.cast_mut().cast(),
            iov_len: job.runs.bytes as usize,
        })
        .collect();
    let mut left = &mut pieces[..];
    while !left.is_empty() {
        // SAFETY: the data of jobs, which have as many bytes.
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

#[cfg(test)]
mod tests;
