//! Combining of small writes by the ranks of a node.
//!
//! File systems let one process write to a file at a time, so small writes of many ranks queue up
//! in the system, and data sieving moves the same stretch of the file once for each rank with
//! pieces in it. Here they queue up in memory shared by the node: the rank that holds the turn
//! writes for all that wait. Each of the others puts its data into its deposit, waits until it is
//! written, and gets the system's result. Success therefore means that the data is in the file, as
//! with separate writes.
//!
//! The turn is a word with the number of its holder's process. If the holder has ended, another rank takes the
//! turn; a deposit that the holder may have written is written again, with the same bytes at the
//! same places.

#![allow(unsafe_code, reason = "memory that processes share")]

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use netmod_kit::process_number::{has_ended, own_number};
use parking_lot::Mutex;

use crate::access::Shared;
use crate::driver::Storage;
use crate::patience::{Patience, State};
use crate::runs::{Runs, WORDS};
use crate::shared_area::SharedArea;
use crate::writers::words_len;

mod group;

use group::{Job, joined, start_of};

/// Bytes of data in a deposit.
pub(crate) const ROOM: usize = 128 << 10;
/// Bytes in front of a deposit's data: the list of runs.
const HEAD: usize = 4096;
/// Runs that a deposit can list if they are not regular.
const LISTED: usize = (HEAD - LIST) / 16;
/// Offset of the list in a deposit.
const LIST: usize = 128;
/// Largest number of members that combine writes.
const MOST_MEMBERS: usize = 64;
/// Shortest runs, in bytes, that are listed.
const SHORTEST: u64 = 128;
/// Polls of a waiting rank before it yields its core, and before it sleeps.
const SPINS: u32 = 100;
const YIELDS: u32 = 1000;

/// States of a deposit.
const EMPTY: u32 = 0;
const POSTED: u32 = 1;
const DONE: u32 = 2;

/// Returns the bytes of shared memory for `members` members; [`words_len`] is its first part.
/// Deposits occupy memory when they are first used.
pub(crate) fn piece_len(members: usize) -> usize {
    let deposits = if members <= MOST_MEMBERS { members } else { 0 };
    words_len(members) + 4096 + deposits * (HEAD + ROOM)
}

/// Returns the bytes in front of the deposits, which are allocated at once.
pub(crate) fn first_len(members: usize) -> usize {
    words_len(members) + 4096
}

/// The words in front of the deposits.
#[repr(C)]
struct Common {
    /// The number of the process that holds the turn, or 0.
    turn: AtomicU32,
    /// Number of ranks in data sieving.
    sieving: AtomicU32,
}

/// The head of a deposit.
#[repr(C)]
struct Head {
    state: AtomicU32,
    /// The system's error number, or 0.
    error: AtomicU32,
    /// The head of the runs, in the form that ranks exchange.
    runs: [AtomicU64; WORDS],
    /// Number of deposits written with this one, including itself.
    together: AtomicU32,
    /// Whether the deposit may wait while other ranks arrive at its stretch.
    patient: AtomicU32,
}

/// The combined writes of a file's members.
pub(crate) struct Combiner {
    room: Option<Arc<SharedArea>>,
    me: usize,
    /// The number of its process, cached.
    process: u32,
    members: usize,
    /// Excludes other threads of the process.
    own: Mutex<()>,
    window: Mutex<Vec<u8>>,
    patience: Patience,
    /// Polls of a rank that waits for a sieved stretch before it yields its core.
    spins: u32,
}

/// Announces data sieving by a rank while it exists.
pub(crate) struct Sieving<'a>(Option<&'a AtomicU32>);

impl Drop for Sieving<'_> {
    fn drop(&mut self) {
        if let Some(count) = self.0 {
            count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Returns the number of cores that the process may use, cached since asking takes several system
/// calls.
fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

impl Combiner {
    /// `room` is [`piece_len`] bytes long, zero at first.
    pub fn new(
        room: Option<Arc<SharedArea>>,
        me: usize,
        members: usize,
        storage: &dyn Storage,
    ) -> Combiner {
        let cores = cores();
        let may = members <= MOST_MEMBERS && storage.is_local() && storage.can_read();
        Combiner {
            room: room.filter(|_| may),
            me,
            process: own_number(),
            members,
            own: Mutex::default(),
            window: Mutex::default(),
            patience: Patience::default(),
            spins: if members > cores { 0 } else { SPINS },
        }
    }

    /// Returns whether writes may be combined.
    pub fn is_there(&self) -> bool {
        self.room
            .as_ref()
            .is_some_and(|room| room.start().is_some())
    }

    fn at(&self, offset: usize) -> Option<*mut u8> {
        let start = self.room.as_ref()?.start()?;
        Some(start.wrapping_add(words_len(self.members) + offset))
    }

    fn common(&self) -> Option<&Common> {
        // SAFETY: `Common` lies at the beginning of the shared memory, aligned to a page; all
        // members access its words atomically, and the memory is mapped as long as `self` lives.
        self.at(0).map(|at| unsafe { &*at.cast::<Common>() })
    }

    /// Returns the head and the list of a member's deposit, and the address of its data.
    fn deposit(&self, member: usize) -> Option<(&Head, &[AtomicU64], *mut u8)> {
        let start = self.at(4096 + member * (HEAD + ROOM))?;
        // SAFETY: head and list lie in the shared memory in front of the deposit's data, aligned;
        // all members access their words atomically, and the memory is mapped as long as `self`
        // lives.
        unsafe {
            let list = start.wrapping_add(LIST).cast::<AtomicU64>();
            let list = std::slice::from_raw_parts(list, 2 * LISTED);
            Some((&*start.cast::<Head>(), list, start.wrapping_add(HEAD)))
        }
    }

    /// Announces to other ranks that this rank is in data sieving.
    pub fn sieve(&self) -> Sieving<'_> {
        let count = self.common().map(|common| &common.sieving);
        if let Some(count) = count {
            count.fetch_add(1, Ordering::Relaxed);
        }
        Sieving(count)
    }

    /// Writes runs, whose bytes are contiguous from `start` on. Returns `None` if the write cannot
    /// be combined. A caller with gaps between its runs has announced sieving, and atomic mode does
    /// not call.
    pub fn write(&self, shared: &Shared, runs: Runs, start: *const u8) -> Option<io::Result<()>> {
        let common = self.common()?;
        let (own, ..) = self.deposit(self.me)?;
        let count = runs.list.len();
        let short = runs.bytes / (count as u64).max(1) < SHORTEST;
        let head_words = runs.head();
        if count == 0
            || runs.bytes > ROOM as u64
            || (count > 1 && short)
            || (count > LISTED && !Runs::fits_head(&head_words))
        {
            return None;
        }
        let _thread = self.own.lock();
        let mut mine = Some(Job {
            runs,
            data: start,
            member: None,
        });
        let (mut waiting, mut spins) = (None, SPINS);
        if count > 1 {
            let others = common.sieving.load(Ordering::Relaxed);
            (waiting, spins) = (self.patience.begin(others), self.spins);
        }
        let has_waited = waiting.is_some();
        if has_waited && let Some(job) = mine.take() {
            self.post(&job, head_words, true);
        }
        let mut polls = 0_u32;
        loop {
            if mine.is_none() && own.state.load(Ordering::Acquire) == DONE {
                own.state.store(EMPTY, Ordering::Relaxed);
                if has_waited {
                    self.patience
                        .learn(own.together.load(Ordering::Relaxed) > 1);
                }
                return Some(match own.error.load(Ordering::Relaxed) {
                    0 => Ok(()),
                    code => Err(io::Error::from_raw_os_error(code as i32)),
                });
            }
            match waiting.as_mut().map(|some| some.state(|| self.waiting())) {
                Some(State::Goes) => {
                    std::thread::yield_now();
                    continue;
                }
                Some(State::Over) => {
                    own.patient.store(0, Ordering::Relaxed);
                    waiting = None;
                }
                Some(State::AllHaveCome) | None => {}
            }
            if self.take_turn(common, polls) {
                let done = self.serve(shared, &mut mine);
                common.turn.store(0, Ordering::Release);
                if let Some(result) = done {
                    return Some(result);
                }
            }
            if let Some(job) = mine.take() {
                self.post(&job, head_words, false);
            }
            polls += 1;
            match polls {
                // A short write is over soon.
                _ if polls < spins => std::hint::spin_loop(),
                0..YIELDS => std::thread::yield_now(),
                _ => std::thread::sleep(Duration::from_micros(50)),
            }
        }
    }

    /// Puts a job into the own deposit, where the holder of the turn finds it.
    fn post(&self, job: &Job, head_words: [u64; WORDS], patient: bool) {
        let Some((own, list, room)) = self.deposit(self.me) else {
            return;
        };
        let words = match Runs::fits_head(&head_words) {
            true => Vec::new(),
            false => job.runs.words(),
        };
        for (place, word) in own.runs.iter().zip(head_words) {
            place.store(word, Ordering::Relaxed);
        }
        for (place, word) in list.iter().zip(words) {
            place.store(word, Ordering::Relaxed);
        }
        // SAFETY: `job.runs` has at most ROOM bytes, the length of the deposit's data, which no
        // rank reads before the state is set; the caller's memory `job.data` has as many.
        unsafe { std::ptr::copy_nonoverlapping(job.data, room, job.runs.bytes as usize) };
        own.patient.store(u32::from(patient), Ordering::Relaxed);
        own.state.store(POSTED, Ordering::Release);
    }

    /// Returns the number of waiting deposits.
    fn waiting(&self) -> u32 {
        let waits = |member: &usize| {
            self.deposit(*member)
                .is_some_and(|(head, ..)| head.state.load(Ordering::Relaxed) == POSTED)
        };
        (0..self.members).filter(waits).count() as u32
    }

    /// Takes the turn if it is free, or if its holder has ended.
    fn take_turn(&self, common: &Common, polls: u32) -> bool {
        let turn = common.turn.load(Ordering::Relaxed);
        let free = turn == 0 || (polls > YIELDS && polls.is_multiple_of(64) && has_ended(turn));
        free && common
            .turn
            .compare_exchange(turn, self.process, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Writes the waiting deposits and the caller's job, and returns that job's result.
    fn serve(&self, shared: &Shared, mine: &mut Option<Job>) -> Option<io::Result<()>> {
        let mut jobs: Vec<Job> = (0..self.members)
            .filter_map(|member| self.posted(member))
            .collect();
        jobs.extend(mine.take());
        jobs.sort_by_key(start_of);
        let mut result = None;
        let mut rest = &jobs[..];
        let mut is_first = true;
        while !rest.is_empty() {
            let count = joined(rest);
            let (group, after) = rest.split_at(count);
            rest = after;
            // A rank that is behind will arrive at the stretch of the waiting ones.
            if !is_first && group.iter().all(|job| self.is_patient(job)) {
                continue;
            }
            is_first = false;
            let written = group::write(shared, group, &self.window);
            let code = match &written {
                Ok(()) => 0,
                Err(error) => error.raw_os_error().unwrap_or(libc::EIO) as u32,
            };
            for job in group {
                match job.member.and_then(|member| self.deposit(member)) {
                    Some((head, ..)) => {
                        head.error.store(code, Ordering::Relaxed);
                        head.together.store(count as u32, Ordering::Relaxed);
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

    fn is_patient(&self, job: &Job) -> bool {
        let deposit = job.member.and_then(|member| self.deposit(member));
        deposit.is_some_and(|(head, ..)| head.patient.load(Ordering::Relaxed) != 0)
    }

    /// Returns the job that waits in a member's deposit.
    fn posted(&self, member: usize) -> Option<Job> {
        let (head, list, data) = self.deposit(member)?;
        if head.state.load(Ordering::Acquire) != POSTED {
            return None;
        }
        let head_words: [u64; WORDS] =
            std::array::from_fn(|at| head.runs[at].load(Ordering::Relaxed));
        let runs = match Runs::fits_head(&head_words) {
            // A run has a byte at least.
            true if head_words[0] <= ROOM as u64 => Runs::of_head(&head_words),
            true => Runs::default(),
            false => {
                let count = (head_words[0] as usize).min(LISTED);
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
}

#[cfg(test)]
pub(crate) mod tests;
