//! Collective access (MPI-3.1 section 13.4): in two phases where the members' data is interleaved, by each
//! alone where it is not.
//!
//! In the two phases *aggregators* move whole windows of the file, one after the other, and exchange
//! with all members what belongs to them. Members tell each other first where their accesses begin and end,
//! from which everybody finds alike who has what to tell whom.
//!
//! What the system refuses an aggregator is an error of all members. Nobody waits for somebody who may have
//! given up: a member whose arguments are wrong says so at the beginning, and each wait ends when a member
//! is lost.

#![allow(
    unsafe_code,
    reason = "data goes straight from and to the program's memory"
)]

use std::ops::Range;

use mpi_core::{Buffer, Process, Status, collective};
use mpi_types::{Class, Error, Result};

use crate::access::{Converted, move_plain};
use crate::agree;
use crate::direction::Direction;
use crate::domains::Domains;
use crate::exchange::{DATA, HEAD, LIST, Messages, REPLY, Runs, WORDS};
use crate::file::{At, File, Place};
use crate::files::status;
use crate::hints::Choice;
use crate::memory::Memory;
use crate::sieve;
use crate::system;
use crate::view::Run;

/// What a member tells of its access: the first byte, the one after the last, how many bytes, and how many
/// runs (or the number of an error).
type Told = [u64; 5];

/// Runs that are looked at to find out how long they are.
const LOOKED_AT: usize = 64;

/// Where runs are at least so long on average, each member moves its own.
const LONG: u64 = 256 << 10;

impl File {
    /// Reads or writes together with all other members. A member whose arguments are wrong takes part by
    /// saying so.
    ///
    /// # Errors
    /// Those of [`File::access`], of any member where they move data for each other.
    pub fn access_all(
        &self,
        process: &Process,
        at: At,
        memory: Result<Memory>,
        direction: Direction,
    ) -> Result<Status> {
        let memory = memory.and_then(|memory| self.demand_no_split().map(|()| memory));
        if at == At::Shared {
            return self.access_ordered(process, memory, direction);
        }
        let hints = self.shared().hints();
        let choice = match direction {
            Direction::Read => hints.cb_read,
            Direction::Write => hints.cb_write,
        };
        if self.comm().size() == 1 || (choice == Choice::Disable && !hints.no_indep_rw) {
            return self.access(at, memory?, direction);
        }
        let place = memory.and_then(|memory| {
            let place = self.place(at, &memory, direction)?;
            Ok((memory, place))
        });
        self.access_together(process, at, place, direction, choice)
    }

    /// Accesses at the shared pointer, in the order of ranks.
    fn access_ordered(
        &self,
        process: &Process,
        memory: Result<Memory>,
        direction: Direction,
    ) -> Result<Status> {
        let own = memory.and_then(|memory| {
            let (_, etypes, _) = self.measure(At::Shared, &memory, direction)?;
            Ok((memory, etypes))
        });
        let (memory, etypes) = agree::agree(process, self.comm(), own)?;
        let comm = self.comm();
        let before = match comm.size() {
            1 => self.pointer().add(etypes)?,
            _ => {
                let all = collective::gather_all_u64(process, comm, [etypes as u64])?;
                let sum: u64 = all.iter().map(|one| one[0]).sum();
                let moved = match comm.rank() {
                    0 => self.pointer().add(sum as i64),
                    _ => Ok(0),
                };
                let mut base = [agree::agree(process, comm, moved)? as u64];
                collective::broadcast_u64(process, comm, &mut base)?;
                let mine: u64 = all[..comm.rank() as usize].iter().map(|one| one[0]).sum();
                (base[0] + mine) as i64
            }
        };
        let view = self.view();
        let bytes = view.representation.bytes(&memory.datatype, memory.count)? as u64;
        let place = view.position(before).and_then(|position| {
            view.position(before.saturating_add(etypes))?;
            Ok(Place {
                view: view.clone(),
                position,
                offset: before,
                etypes,
                bytes,
            })
        });
        let hints = self.shared().hints();
        let choice = match direction {
            Direction::Read => hints.cb_read,
            Direction::Write => hints.cb_write,
        };
        let both = place.map(|place| (memory, place));
        if comm.size() == 1 || choice == Choice::Disable {
            let (mut memory, place) = both?;
            let shared = self.shared();
            return shared
                .transfer(&place.view, place.position, &mut memory, direction)
                .map(status);
        }
        self.access_together(process, At::Shared, both, direction, choice)
    }

    /// Decides how, and does it.
    fn access_together(
        &self,
        process: &Process,
        at: At,
        own: Result<(Memory, Place)>,
        direction: Direction,
        choice: Choice,
    ) -> Result<Status> {
        let comm = self.comm();
        let told: Told = match &own {
            Ok((_, place)) => {
                let span = place.view.span(place.position, place.bytes);
                let looked_at = place.view.runs(place.position, place.bytes).take(LOOKED_AT);
                let (runs, bytes) = looked_at.fold((0, 0), |(n, sum), run| (n + 1, sum + run.len));
                [span.start, span.end, bytes, runs, 0]
            }
            Err(error) => [0, 0, 0, 0, system::number(error.class())],
        };
        let all = match collective::gather_all_u64(process, comm, told) {
            Ok(all) => all,
            Err(lost) => return own.and(Err(lost)),
        };
        let (mut memory, place) = own?;
        if let Some(rank) = all.iter().position(|one| one[4] != 0) {
            let why = format!(
                "rank {rank} of the file could not take part in the collective access; its own error \
                 says why"
            );
            self.correct(at, &place, &memory, 0)?;
            return Err(Error::new(system::class(all[rank][4]), why));
        }
        let together = !self.shared().is_atomic() && pays(&all, choice);
        let moved = match together {
            false => self
                .shared()
                .transfer(&place.view, place.position, &mut memory, direction),
            true if place.view.representation.is_plain() => {
                self.two_phases(process, &all, &place, &mut memory.buffer, direction)
            }
            true => {
                let representation = &place.view.representation;
                let file = Converted::new(representation, &memory, direction);
                // Who can't convert takes part without data, and says so at the end.
                match agree::agree(process, comm, file) {
                    Err(error) => Err(error),
                    Ok(mut file) => {
                        let mut buffer = file.buffer();
                        self.two_phases(process, &all, &place, &mut buffer, direction)
                            .and_then(|n| file.finish(representation, &memory, direction, n))
                    }
                }
            }
        };
        let had = moved.as_ref().map_or(0, |moved| *moved);
        self.correct(at, &place, &memory, had)?;
        moved.map(status)
    }

    /// Moves data by way of the aggregators. Returns how many bytes were moved.
    fn two_phases(
        &self,
        process: &Process,
        all: &[Told],
        place: &Place,
        buffer: &mut Buffer,
        direction: Direction,
    ) -> Result<u64> {
        let start = all
            .iter()
            .filter(|one| one[1] > one[0])
            .map(|one| one[0])
            .min();
        let end = all.iter().map(|one| one[1]).max().unwrap_or(0);
        let Some(start) = start else {
            return Ok(0);
        };
        let hints = self.shared().hints();
        let domains = Domains::new(start..end, self.aggregators().len(), &hints);
        let mut phases = Phases {
            file: self,
            process,
            all,
            place,
            domains,
            window: Vec::new(),
            stage: Vec::new(),
            moved: 0,
            refused: Ok(()),
        };
        let moved = match direction {
            Direction::Write => phases.write(buffer),
            Direction::Read => phases.read(buffer),
        };
        let refused = std::mem::replace(&mut phases.refused, Ok(()));
        let total = phases.moved;
        // Who could not go on with a message, because a member is lost, finds that here, too.
        agree::agree(process, self.comm(), moved.and(refused))?;
        Ok(total)
    }
}

/// Whether two phases are better than each member's own calls.
fn pays(all: &[Told], choice: Choice) -> bool {
    match choice {
        Choice::Enable => return true,
        Choice::Disable => return false,
        Choice::Automatic => {}
    }
    let mut spans: Vec<(u64, u64)> = all
        .iter()
        .filter(|one| one[1] > one[0])
        .map(|one| (one[0], one[1]))
        .collect();
    spans.sort_unstable();
    let interleaved = spans.windows(2).any(|pair| pair[1].0 < pair[0].1);
    let bytes: u64 = all.iter().map(|one| one[2]).sum();
    let runs: u64 = all.iter().map(|one| one[3]).sum();
    interleaved && bytes / runs.max(1) < LONG
}

/// A collective access at work.
struct Phases<'a> {
    file: &'a File,
    process: &'a Process,
    all: &'a [Told],
    place: &'a Place,
    domains: Domains,
    /// The part of the file that this rank moves, if it is an aggregator.
    window: Vec<u8>,
    /// Packed data of memory with gaps.
    stage: Vec<u8>,
    moved: u64,
    /// What the system said to this rank as an aggregator.
    refused: Result<()>,
}

/// What a member has to do with an aggregator in a round.
struct Share {
    aggregator: u32,
    /// Part of the stream.
    stream: Range<u64>,
    runs: Runs,
    head: [u64; WORDS],
    words: Vec<u64>,
    /// Where its data is in the stage, if not in the program's memory.
    staged: usize,
    reply: [u64; 2],
}

/// What an aggregator has to do with a member in a round.
struct Part {
    rank: u32,
    head: [u64; WORDS],
    words: Vec<u64>,
    runs: Runs,
    reply: [u64; 2],
}

/// The bytes of words.
fn bytes_of(words: &mut [u64]) -> Buffer {
    // SAFETY: the callers keep the words until the messages are finished.
    unsafe { Buffer::bytes(words.as_mut_ptr().cast(), size_of_val(words)) }
}

impl Phases<'_> {
    /// Whether a rank may have something in a window.
    fn concerns(&self, rank: u32, window: &Range<u64>) -> bool {
        let [start, end, ..] = self.all[rank as usize];
        !window.is_empty() && start < window.end && window.start < end
    }

    /// What this rank has for each aggregator in a round.
    fn shares(&self, round: u64) -> Vec<Share> {
        let place = self.place;
        let end = place.position + place.bytes;
        let mut shares = Vec::new();
        for (index, &aggregator) in self.file.aggregators().iter().enumerate() {
            let window = self.domains.window(index, round);
            if !self.concerns(self.file.comm().rank(), &window) {
                continue;
            }
            let from = place.view.bytes_before(window.start, place.position, end);
            let to = place.view.bytes_before(window.end, from, end);
            let mut runs = Runs::default();
            place
                .view
                .runs(from, to - from)
                .for_each(|run| runs.push(run));
            let head = runs.head();
            let words = match Runs::is_told(&head) {
                true => Vec::new(),
                false => runs.words(),
            };
            shares.push(Share {
                aggregator,
                stream: from..to,
                runs,
                head,
                words,
                staged: 0,
                reply: [0; 2],
            });
        }
        shares
    }

    /// This rank's window in a round, and the members that may have something in it.
    fn parts(&self, round: u64) -> (Range<u64>, Vec<Part>) {
        let comm = self.file.comm();
        let index = self
            .file
            .aggregators()
            .iter()
            .position(|rank| *rank == comm.rank());
        let Some(index) = index else {
            return (0..0, Vec::new());
        };
        let window = self.domains.window(index, round);
        let ranks = (0..comm.size()).filter(|rank| self.concerns(*rank, &window));
        let parts = ranks
            .map(|rank| Part {
                rank,
                head: [0; WORDS],
                words: Vec::new(),
                runs: Runs::default(),
                reply: [0; 2],
            })
            .collect();
        (window, parts)
    }

    /// Tells aggregators what this rank has, and learns what others have in its own window.
    fn tell(
        &self,
        messages: &mut Messages<'_>,
        shares: &mut [Share],
        window: &Range<u64>,
        parts: &mut [Part],
    ) -> Result<()> {
        let me = self.file.comm().rank();
        for share in shares.iter_mut().filter(|share| share.aggregator != me) {
            // SAFETY: the words stay until the round ends, when `messages` are finished.
            unsafe {
                messages.send(bytes_of(&mut share.head), share.aggregator, HEAD)?;
                if !share.words.is_empty() {
                    messages.send(bytes_of(&mut share.words), share.aggregator, LIST)?;
                }
            }
        }
        let own = shares.iter().find(|share| share.aggregator == me);
        let mut heads = Messages::new(self.process, self.file.comm());
        let mut posted = Ok(());
        for part in parts.iter_mut() {
            match (part.rank == me, own) {
                (true, Some(own)) => part.runs = own.runs.clone(),
                (true, None) => {}
                (false, _) if posted.is_ok() => {
                    let rank = part.rank;
                    // SAFETY: the words stay until the messages are finished below.
                    posted = unsafe { heads.receive(bytes_of(&mut part.head), rank, HEAD) };
                }
                (false, _) => {}
            }
        }
        heads.finish(posted)?;
        let mut posted = Ok(());
        for part in parts.iter_mut().filter(|part| part.rank != me) {
            // A run has a byte at least, and lies in the window.
            let [count, bytes, ..] = part.head;
            if count > bytes || bytes > window.end - window.start {
                posted = posted.and(Err(outside(part.rank)));
                continue;
            }
            if Runs::is_told(&part.head) {
                part.runs = Runs::of_head(&part.head);
            } else if posted.is_ok() {
                part.words = vec![0; 2 * part.head[0] as usize];
                let rank = part.rank;
                // SAFETY: as above.
                posted = unsafe { heads.receive(bytes_of(&mut part.words), rank, LIST) };
            }
        }
        heads.finish(posted)?;
        for part in parts.iter_mut() {
            if !part.words.is_empty() {
                part.runs = Runs::of_words(&part.words);
            }
            if !part.runs.lie_in(window) {
                return Err(outside(part.rank));
            }
        }
        Ok(())
    }

    /// Where the data of a share is or is to go: in the program's memory, or in the stage.
    fn data(&mut self, buffer: &Buffer, share: &Share) -> *mut u8 {
        let skip = (share.stream.start - self.place.position) as usize;
        match buffer.as_ptr() {
            Some(start) => start.wrapping_add(skip),
            None => self.stage.as_mut_ptr().wrapping_add(share.staged),
        }
    }

    /// Makes room for packed data of all shares, and fills it if it is to be written.
    fn fill_stage(&mut self, buffer: &Buffer, shares: &mut [Share], filled: bool) {
        if buffer.as_ptr().is_some() {
            return;
        }
        let total: u64 = shares.iter().map(|share| share.runs.bytes).sum();
        self.stage.resize(total as usize, 0);
        let mut next = 0;
        for share in shares {
            share.staged = next;
            let len = share.runs.bytes as usize;
            if filled {
                let skip = (share.stream.start - self.place.position) as usize;
                buffer.read(skip, &mut self.stage[next..next + len]);
            }
            next += len;
        }
    }

    fn write(&mut self, buffer: &mut Buffer) -> Result<()> {
        for round in 0..self.domains.rounds() {
            let mut shares = self.shares(round);
            let (window, mut parts) = self.parts(round);
            self.fill_stage(buffer, &mut shares, true);
            let mut messages = Messages::new(self.process, self.file.comm());
            let sent = self.send_round(&mut messages, buffer, &mut shares, &window, &mut parts);
            messages.finish(sent)?;
            self.moved += shares.iter().map(|share| share.runs.bytes).sum::<u64>();
            self.store(&window, &parts);
        }
        Ok(())
    }

    /// One round's messages of a collective write.
    fn send_round(
        &mut self,
        messages: &mut Messages<'_>,
        buffer: &Buffer,
        shares: &mut [Share],
        window: &Range<u64>,
        parts: &mut [Part],
    ) -> Result<()> {
        let me = self.file.comm().rank();
        for share in shares.iter() {
            let (data, len) = (self.data(buffer, share), share.runs.bytes as usize);
            if share.aggregator != me && len > 0 {
                // SAFETY: the program's memory or the stage, which stay as they are until the round ends.
                unsafe { messages.send(Buffer::bytes(data, len), share.aggregator, DATA)? };
            }
        }
        self.tell(messages, shares, window, parts)?;
        let reach = covered(parts);
        self.window.resize((reach.end - reach.start) as usize, 0);
        let memory = self.window.as_mut_ptr();
        for part in parts.iter().filter(|part| part.runs.bytes > 0) {
            // SAFETY: the runs lie in the window's reach, which stays until the round ends.
            let mut place = unsafe { part.runs.buffer(memory, reach.start)? };
            if part.rank != me {
                // SAFETY: as above.
                unsafe { messages.receive(place, part.rank, DATA)? };
            } else if let Some(own) = shares.iter().find(|share| share.aggregator == me) {
                let data = self.data(buffer, own);
                // SAFETY: the data of the share, as above.
                let data = unsafe { std::slice::from_raw_parts(data, own.runs.bytes as usize) };
                place.write(0, data);
            }
        }
        Ok(())
    }

    /// Writes what has come for the window: whole stretches that have no gaps.
    fn store(&mut self, window: &Range<u64>, parts: &[Part]) {
        if window.is_empty() || self.refused.is_err() {
            return;
        }
        let reach = covered(parts);
        let mut runs: Vec<Run> = parts
            .iter()
            .flat_map(|part| part.runs.list.iter().copied())
            .collect();
        // The lists are in order each.
        runs.sort_by_key(|run| run.at);
        let mut stretches: Vec<Run> = Vec::new();
        for run in runs {
            match stretches.last_mut() {
                Some(last) if run.at <= last.end() => {
                    last.len = last.len.max(run.end() - last.at);
                }
                _ => stretches.push(run),
            }
        }
        let shared = self.file.shared();
        if let Err(error) = sieve::store(shared, &stretches, &self.window, reach.start) {
            self.refused = Err(shared.failed("writing to", &error));
        }
    }

    fn read(&mut self, buffer: &mut Buffer) -> Result<()> {
        for round in 0..self.domains.rounds() {
            let mut shares = self.shares(round);
            let (window, mut parts) = self.parts(round);
            self.fill_stage(buffer, &mut shares, false);
            let mut messages = Messages::new(self.process, self.file.comm());
            let told = self.receive_round(&mut messages, buffer, &mut shares, &window, &mut parts);
            messages.finish(told)?;
            for share in &shares {
                let got = share.reply[0];
                if buffer.as_ptr().is_none() {
                    let skip = (share.stream.start - self.place.position) as usize;
                    let from = share.staged..share.staged + got as usize;
                    buffer.write(skip, &self.stage[from]);
                }
                self.moved += got;
            }
        }
        Ok(())
    }

    /// One round's messages of a collective read.
    fn receive_round(
        &mut self,
        messages: &mut Messages<'_>,
        buffer: &Buffer,
        shares: &mut [Share],
        window: &Range<u64>,
        parts: &mut [Part],
    ) -> Result<()> {
        let me = self.file.comm().rank();
        // Replies are told first how long they are: a file may end within the window.
        let mut replies = Messages::new(self.process, self.file.comm());
        let mut posted = Ok(());
        for share in shares.iter_mut().filter(|share| share.aggregator != me) {
            if posted.is_ok() {
                let rank = share.aggregator;
                // SAFETY: the words stay until `replies` are finished.
                posted = unsafe { replies.receive(bytes_of(&mut share.reply), rank, REPLY) };
            }
        }
        let served = posted.and_then(|()| self.serve(messages, shares, window, parts));
        replies.finish(served)?;
        for share in shares.iter_mut() {
            let len = share.reply[0];
            if len > share.runs.bytes {
                let why = format!("rank {} sent more than was asked for", share.aggregator);
                return Err(Error::new(Class::Intern, why));
            }
            let data = self.data(buffer, share);
            if share.aggregator != me && len > 0 {
                // SAFETY: the program's memory or the stage, which stay until the round ends.
                let place = unsafe { Buffer::bytes(data, len as usize) };
                // SAFETY: as above.
                unsafe { messages.receive(place, share.aggregator, DATA)? };
            }
        }
        let own = shares.iter_mut().find(|share| share.aggregator == me);
        if let (Some(own), Some(part)) = (own, parts.iter().find(|part| part.rank == me)) {
            own.reply = part.reply;
            let runs = part.runs.cut(part.reply[0]);
            let data = self.data(buffer, own);
            if runs.bytes > 0 {
                let reach = covered(parts);
                // SAFETY: the window was read for these runs; the share has room for them.
                unsafe {
                    let from = runs.buffer(self.window.as_mut_ptr(), reach.start)?;
                    let to = std::slice::from_raw_parts_mut(data, runs.bytes as usize);
                    from.read(0, to);
                }
            }
        }
        Ok(())
    }

    /// Reads the window and sends what others have asked for.
    fn serve(
        &mut self,
        messages: &mut Messages<'_>,
        shares: &mut [Share],
        window: &Range<u64>,
        parts: &mut [Part],
    ) -> Result<()> {
        self.tell(messages, shares, window, parts)?;
        let me = self.file.comm().rank();
        let reach = covered(parts);
        let there = self.load(&reach);
        for part in parts.iter_mut() {
            let within = part.runs.list.iter().map(|run| {
                let end = reach.start + there;
                end.saturating_sub(run.at).min(run.len)
            });
            part.reply = [within.sum(), 0];
            if part.rank == me {
                continue;
            }
            let rank = part.rank;
            let runs = part.runs.cut(part.reply[0]);
            // SAFETY: words and window stay until the round ends.
            unsafe {
                messages.send(bytes_of(&mut part.reply), rank, REPLY)?;
                if runs.bytes > 0 {
                    let data = runs.buffer(self.window.as_mut_ptr(), reach.start)?;
                    messages.send(data, rank, DATA)?;
                }
            }
        }
        Ok(())
    }

    /// Reads a stretch of the file to the window. Returns how much of it there is.
    fn load(&mut self, reach: &Range<u64>) -> u64 {
        let run = Run {
            at: reach.start,
            len: reach.end - reach.start,
        };
        self.window.resize(run.len as usize, 0);
        if self.refused.is_err() || run.len == 0 {
            return 0;
        }
        let shared = self.file.shared();
        // SAFETY: the window has room for the run.
        let read = unsafe {
            move_plain(
                &*shared.storage,
                run,
                self.window.as_mut_ptr(),
                Direction::Read,
            )
        };
        read.unwrap_or_else(|error| {
            self.refused = Err(shared.failed("reading from", &error));
            0
        })
    }
}

#[cold]
fn outside(rank: u32) -> Error {
    let why = format!("rank {rank} told of data that is not in the aggregator's window");
    Error::new(Class::Intern, why)
}

/// From the first to the last byte that members have in a window.
fn covered(parts: &[Part]) -> Range<u64> {
    let runs = || parts.iter().flat_map(|part| part.runs.list.iter());
    let start = runs().map(|run| run.at).min().unwrap_or(0);
    start..runs().map(|run| run.end()).max().unwrap_or(start)
}
