//! The two phases of a collective access: aggregators move whole windows of the file, one after the
//! other, and exchange the members' parts of each window with them.

#![allow(
    unsafe_code,
    reason = "data goes straight from and to the program's memory"
)]

use std::ops::Range;

use mpi_core::Buffer;
use mpi_types::{Class, Error, Result};

use crate::direction::Direction;
use crate::domains::Domains;
use crate::exchange::Exchange;
use crate::file::{File, Region};
use crate::messages::{DATA, HEAD, LIST, Messages, REPLY, bytes_of};
use crate::one_run::move_all;
use crate::runs::{Runs, WORDS};
use crate::sieve;
use crate::view::Run;

/// A member's summary of its access: the first byte, the byte after the last, the number of bytes,
/// and the number of runs (or of an error).
pub(crate) type AccessSummary = [u64; 5];

/// Returns an empty buffer, for members without data.
pub(crate) fn no_data() -> Buffer {
    // SAFETY: the length is 0, so no byte is accessed.
    unsafe { Buffer::bytes(std::ptr::null_mut(), 0) }
}

/// Moves data through the aggregators. Returns the bytes moved.
pub(crate) async fn two_phases(
    file: &File,
    exchange: &Exchange<'_>,
    all: &[AccessSummary],
    place: &Region,
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
    let hints = file.shared().hints();
    let domains = Domains::new(start..end, file.aggregators().len(), &hints);
    let mut phases = Phases {
        file,
        exchange,
        all,
        place,
        domains,
        window: Vec::new(),
        stage: Vec::new(),
        moved: 0,
        refused: Ok(()),
    };
    let moved = match direction {
        Direction::Write => phases.write(buffer).await,
        Direction::Read => phases.read(buffer).await,
    };
    let refused = std::mem::replace(&mut phases.refused, Ok(()));
    let total = phases.moved;
    // A member whose messages failed because another one is lost learns that here, too.
    exchange.agree(moved.and(refused)).await?;
    Ok(total)
}

/// A collective access in two phases.
struct Phases<'a> {
    file: &'a File,
    exchange: &'a Exchange<'a>,
    all: &'a [AccessSummary],
    place: &'a Region,
    domains: Domains,
    /// The part of the file that this rank moves, if it is an aggregator.
    window: Vec<u8>,
    /// Packed data of noncontiguous memory.
    stage: Vec<u8>,
    moved: u64,
    /// The system's result for this rank as an aggregator.
    refused: Result<()>,
}

/// This rank's share of an aggregator's window in a round.
struct Share {
    aggregator: u32,
    /// Its part of the stream.
    stream: Range<u64>,
    runs: Runs,
    head: [u64; WORDS],
    words: Vec<u64>,
    /// The offset of its data in the stage, for noncontiguous memory.
    staged: usize,
    reply: [u64; 2],
}

/// A member's part of this aggregator's window in a round.
struct Part {
    rank: u32,
    head: [u64; WORDS],
    words: Vec<u64>,
    runs: Runs,
    reply: [u64; 2],
}

impl Phases<'_> {
    /// Returns whether a rank may have data in a window.
    fn concerns(&self, rank: u32, window: &Range<u64>) -> bool {
        let [start, end, ..] = self.all[rank as usize];
        !window.is_empty() && start < window.end && window.start < end
    }

    /// Returns this rank's share of each aggregator's window in a round.
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
            let words = match Runs::fits_head(&head) {
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

    /// Returns this rank's window in a round, and the members that may have data in it.
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

    /// Exchanges runs: this rank's with the aggregators, the others' in its own window.
    async fn exchange_runs(
        &self,
        messages: &mut Messages<'_>,
        shares: &mut [Share],
        window: &Range<u64>,
        parts: &mut [Part],
    ) -> Result<()> {
        let me = self.file.comm().rank();
        for share in shares.iter_mut().filter(|share| share.aggregator != me) {
            // SAFETY: the words in `shares` stay until the round ends, when `messages` are
            // finished.
            unsafe {
                messages.send(bytes_of(&mut share.head), share.aggregator as usize, HEAD)?;
                if !share.words.is_empty() {
                    messages.send(bytes_of(&mut share.words), share.aggregator as usize, LIST)?;
                }
            }
        }
        let own = shares.iter().find(|share| share.aggregator == me);
        let mut heads = Messages::new(self.exchange);
        let mut posted = Ok(());
        for part in parts.iter_mut() {
            match (part.rank == me, own) {
                (true, Some(own)) => part.runs = own.runs.clone(),
                (true, None) => {}
                (false, _) if posted.is_ok() => {
                    let rank = part.rank as usize;
                    // SAFETY: `part.head` stays until `heads` are finished below.
                    posted = unsafe { heads.receive(bytes_of(&mut part.head), rank, HEAD) };
                }
                (false, _) => {}
            }
        }
        heads.finish(posted).await?;
        let mut posted = Ok(());
        for part in parts.iter_mut().filter(|part| part.rank != me) {
            // A run has a byte at least, and lies in the window.
            let [count, bytes, ..] = part.head;
            if count > bytes || bytes > window.end - window.start {
                posted = posted.and(Err(outside(part.rank)));
                continue;
            }
            if Runs::fits_head(&part.head) {
                part.runs = Runs::of_head(&part.head);
            } else if posted.is_ok() {
                part.words = vec![0; 2 * part.head[0] as usize];
                let rank = part.rank as usize;
                // SAFETY: `part.words` stays until `heads` are finished below.
                posted = unsafe { heads.receive(bytes_of(&mut part.words), rank, LIST) };
            }
        }
        heads.finish(posted).await?;
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

    /// Returns the address of a share's data: in the program's memory, or in the stage.
    fn data(&mut self, buffer: &Buffer, share: &Share) -> *mut u8 {
        let skip = (share.stream.start - self.place.position) as usize;
        match buffer.as_ptr() {
            Some(start) => start.wrapping_add(skip),
            None => self.stage.as_mut_ptr().wrapping_add(share.staged),
        }
    }

    /// Allocates the stage for packed data of all shares, and fills it if it is to be written.
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

    async fn write(&mut self, buffer: &mut Buffer) -> Result<()> {
        for round in 0..self.domains.rounds() {
            let mut shares = self.shares(round);
            let (window, mut parts) = self.parts(round);
            self.fill_stage(buffer, &mut shares, true);
            let mut messages = Messages::new(self.exchange);
            let sent = self
                .send_round(&mut messages, buffer, &mut shares, &window, &mut parts)
                .await;
            messages.finish(sent).await?;
            self.moved += shares.iter().map(|share| share.runs.bytes).sum::<u64>();
            self.store(&window, &parts).await;
        }
        Ok(())
    }

    /// Exchanges one round's messages of a collective write.
    async fn send_round(
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
                // SAFETY: `data` is in the program's memory or the stage, which stay unchanged
                // until the round ends.
                unsafe {
                    messages.send(Buffer::bytes(data, len), share.aggregator as usize, DATA)?
                };
            }
        }
        self.exchange_runs(messages, shares, window, parts).await?;
        let reach = covered(parts);
        self.window.resize((reach.end - reach.start) as usize, 0);
        let memory = self.window.as_mut_ptr();
        for part in parts.iter().filter(|part| part.runs.bytes > 0) {
            // SAFETY: the runs lie in `reach`, which the window covers, and the window stays until
            // the round ends.
            let mut place = unsafe { part.runs.buffer(memory, reach.start)? };
            if part.rank != me {
                // SAFETY: `place` describes the window, which stays until the round ends.
                unsafe { messages.receive(place, part.rank as usize, DATA)? };
            } else if let Some(own) = shares.iter().find(|share| share.aggregator == me) {
                let data = self.data(buffer, own);
                // SAFETY: `data` is the share's data in the program's memory or the stage, of
                // `own.runs.bytes` bytes, and does not overlap the window.
                let data = unsafe { std::slice::from_raw_parts(data, own.runs.bytes as usize) };
                place.write(0, data);
            }
        }
        Ok(())
    }

    /// Writes the data received for the window, in stretches without gaps.
    async fn store(&mut self, window: &Range<u64>, parts: &[Part]) {
        if window.is_empty() || self.refused.is_err() {
            return;
        }
        let reach = covered(parts);
        let mut runs: Vec<Run> = parts
            .iter()
            .flat_map(|part| part.runs.list.iter().copied())
            .collect();
        // Each list is sorted, so that merging is cheap.
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
        let (shared, window) = (self.file.shared().clone(), std::mem::take(&mut self.window));
        let len = window.len();
        let stored = self.exchange.apart(len, move || {
            let stored = sieve::store(&shared, &stretches, &window, reach.start);
            (
                window,
                stored.map_err(|error| shared.failed("writing to", &error)),
            )
        });
        (self.window, self.refused) = stored.await;
    }

    async fn read(&mut self, buffer: &mut Buffer) -> Result<()> {
        for round in 0..self.domains.rounds() {
            let mut shares = self.shares(round);
            let (window, mut parts) = self.parts(round);
            self.fill_stage(buffer, &mut shares, false);
            let mut messages = Messages::new(self.exchange);
            let received = self
                .receive_round(&mut messages, buffer, &mut shares, &window, &mut parts)
                .await;
            messages.finish(received).await?;
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

    /// Exchanges one round's messages of a collective read.
    async fn receive_round(
        &mut self,
        messages: &mut Messages<'_>,
        buffer: &Buffer,
        shares: &mut [Share],
        window: &Range<u64>,
        parts: &mut [Part],
    ) -> Result<()> {
        let me = self.file.comm().rank();
        // A reply begins with its length, since the file may end within the window.
        let mut replies = Messages::new(self.exchange);
        let mut posted = Ok(());
        for share in shares.iter_mut().filter(|share| share.aggregator != me) {
            if posted.is_ok() {
                let rank = share.aggregator as usize;
                // SAFETY: `share.reply` stays until `replies` are finished.
                posted = unsafe { replies.receive(bytes_of(&mut share.reply), rank, REPLY) };
            }
        }
        let served = match posted {
            Ok(()) => self.serve(messages, shares, window, parts).await,
            Err(error) => Err(error),
        };
        replies.finish(served).await?;
        for share in shares.iter_mut() {
            let len = share.reply[0];
            if len > share.runs.bytes {
                let why = format!(
                    "internal error: rank {} sent more data than requested",
                    share.aggregator
                );
                return Err(Error::new(Class::Intern, why));
            }
            let data = self.data(buffer, share);
            if share.aggregator != me && len > 0 {
                // SAFETY: `data` is in the program's memory or the stage, which stay until the
                // round ends.
                let place = unsafe { Buffer::bytes(data, len as usize) };
                // SAFETY: `place` describes the program's memory or the stage, which stay until the
                // round ends.
                unsafe { messages.receive(place, share.aggregator as usize, DATA)? };
            }
        }
        let own = shares.iter_mut().find(|share| share.aggregator == me);
        if let (Some(own), Some(part)) = (own, parts.iter().find(|part| part.rank == me)) {
            own.reply = part.reply;
            let runs = part.runs.cut(part.reply[0]);
            let data = self.data(buffer, own);
            if runs.bytes > 0 {
                let reach = covered(parts);
                // SAFETY: the window was read for these runs; the share's memory has space for
                // their bytes.
                unsafe {
                    let from = runs.buffer(self.window.as_mut_ptr(), reach.start)?;
                    let to = std::slice::from_raw_parts_mut(data, runs.bytes as usize);
                    from.read(0, to);
                }
            }
        }
        Ok(())
    }

    /// Reads the window and sends the members their data.
    async fn serve(
        &mut self,
        messages: &mut Messages<'_>,
        shares: &mut [Share],
        window: &Range<u64>,
        parts: &mut [Part],
    ) -> Result<()> {
        self.exchange_runs(messages, shares, window, parts).await?;
        let me = self.file.comm().rank();
        let reach = covered(parts);
        let there = self.load(&reach).await;
        for part in parts.iter_mut() {
            let within = part.runs.list.iter().map(|run| {
                let end = reach.start + there;
                end.saturating_sub(run.at).min(run.len)
            });
            part.reply = [within.sum(), 0];
            if part.rank == me {
                continue;
            }
            let rank = part.rank as usize;
            let runs = part.runs.cut(part.reply[0]);
            // SAFETY: the words of the replies and the window stay until the round ends.
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

    /// Reads a stretch of the file into the window. Returns how much of it the file has.
    async fn load(&mut self, reach: &Range<u64>) -> u64 {
        let run = Run {
            at: reach.start,
            len: reach.end - reach.start,
        };
        self.window.resize(run.len as usize, 0);
        if self.refused.is_err() || run.len == 0 {
            return 0;
        }
        let (shared, mut window) = (self.file.shared().clone(), std::mem::take(&mut self.window));
        let len = window.len();
        let loaded = self.exchange.apart(len, move || {
            let to = window.as_mut_ptr();
            // SAFETY: the window is as long as the run.
            let read = unsafe { move_all(&*shared.storage, run, to, Direction::Read) };
            (
                window,
                read.map_err(|error| shared.failed("reading from", &error)),
            )
        });
        let (window, read) = loaded.await;
        self.window = window;
        read.unwrap_or_else(|error| {
            self.refused = Err(error);
            0
        })
    }
}

#[cold]
fn outside(rank: u32) -> Error {
    let why = format!("internal error: rank {rank} sent runs outside the aggregator's window");
    Error::new(Class::Intern, why)
}

/// Returns the stretch from the first to the last byte that members have in a window.
fn covered(parts: &[Part]) -> Range<u64> {
    let runs = || parts.iter().flat_map(|part| part.runs.list.iter());
    let start = runs().map(|run| run.at).min().unwrap_or(0);
    start..runs().map(|run| run.end()).max().unwrap_or(start)
}
