//! The two phases of a collective access: aggregators move whole windows of the file, one after the other, and
//! exchange with all members what belongs to them.

#![allow(
    unsafe_code,
    reason = "data goes straight from and to the program's memory"
)]

use std::ops::Range;

use mpi_core::Buffer;
use mpi_types::{Class, Error, Result};

use crate::direction::Direction;
use crate::domains::Domains;
use crate::exchange::{DATA, HEAD, LIST, Messages, REPLY, bytes_of};
use crate::file::{File, Place};
use crate::plain::move_plain;
use crate::runs::{Runs, WORDS};
use crate::sieve;
use crate::talk::Talk;
use crate::view::Run;

/// What a member tells of its access: the first byte, the one after the last, how many bytes, and how many
/// runs (or the number of an error).
pub(crate) type Told = [u64; 5];

/// What a member has that takes part without data.
pub(crate) fn no_data() -> Buffer {
    // SAFETY: there are no bytes.
    unsafe { Buffer::bytes(std::ptr::null_mut(), 0) }
}

/// Moves data by way of the aggregators. Returns how many bytes were moved.
pub(crate) async fn two_phases(
    file: &File,
    talk: &Talk<'_>,
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
    let hints = file.shared().hints();
    let domains = Domains::new(start..end, file.aggregators().len(), &hints);
    let mut phases = Phases {
        file,
        talk,
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
    // Who could not go on with a message, because a member is lost, finds that here, too.
    talk.agree(moved.and(refused)).await?;
    Ok(total)
}

/// A collective access at work.
struct Phases<'a> {
    file: &'a File,
    talk: &'a Talk<'a>,
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
    async fn tell(
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
                messages.send(bytes_of(&mut share.head), share.aggregator as usize, HEAD)?;
                if !share.words.is_empty() {
                    messages.send(bytes_of(&mut share.words), share.aggregator as usize, LIST)?;
                }
            }
        }
        let own = shares.iter().find(|share| share.aggregator == me);
        let mut heads = Messages::new(self.talk);
        let mut posted = Ok(());
        for part in parts.iter_mut() {
            match (part.rank == me, own) {
                (true, Some(own)) => part.runs = own.runs.clone(),
                (true, None) => {}
                (false, _) if posted.is_ok() => {
                    let rank = part.rank as usize;
                    // SAFETY: the words stay until the messages are finished below.
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
            if Runs::is_told(&part.head) {
                part.runs = Runs::of_head(&part.head);
            } else if posted.is_ok() {
                part.words = vec![0; 2 * part.head[0] as usize];
                let rank = part.rank as usize;
                // SAFETY: as above.
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

    async fn write(&mut self, buffer: &mut Buffer) -> Result<()> {
        for round in 0..self.domains.rounds() {
            let mut shares = self.shares(round);
            let (window, mut parts) = self.parts(round);
            self.fill_stage(buffer, &mut shares, true);
            let mut messages = Messages::new(self.talk);
            let sent = self
                .send_round(&mut messages, buffer, &mut shares, &window, &mut parts)
                .await;
            messages.finish(sent).await?;
            self.moved += shares.iter().map(|share| share.runs.bytes).sum::<u64>();
            self.store(&window, &parts).await;
        }
        Ok(())
    }

    /// One round's messages of a collective write.
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
                // SAFETY: the program's memory or the stage, which stay as they are until the round ends.
                unsafe {
                    messages.send(Buffer::bytes(data, len), share.aggregator as usize, DATA)?
                };
            }
        }
        self.tell(messages, shares, window, parts).await?;
        let reach = covered(parts);
        self.window.resize((reach.end - reach.start) as usize, 0);
        let memory = self.window.as_mut_ptr();
        for part in parts.iter().filter(|part| part.runs.bytes > 0) {
            // SAFETY: the runs lie in the window's reach, which stays until the round ends.
            let mut place = unsafe { part.runs.buffer(memory, reach.start)? };
            if part.rank != me {
                // SAFETY: as above.
                unsafe { messages.receive(place, part.rank as usize, DATA)? };
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
    async fn store(&mut self, window: &Range<u64>, parts: &[Part]) {
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
        let (shared, window) = (self.file.shared().clone(), std::mem::take(&mut self.window));
        let len = window.len();
        let stored = self.talk.apart(len, move || {
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
            let mut messages = Messages::new(self.talk);
            let told = self
                .receive_round(&mut messages, buffer, &mut shares, &window, &mut parts)
                .await;
            messages.finish(told).await?;
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
    async fn receive_round(
        &mut self,
        messages: &mut Messages<'_>,
        buffer: &Buffer,
        shares: &mut [Share],
        window: &Range<u64>,
        parts: &mut [Part],
    ) -> Result<()> {
        let me = self.file.comm().rank();
        // Replies are told first how long they are: a file may end within the window.
        let mut replies = Messages::new(self.talk);
        let mut posted = Ok(());
        for share in shares.iter_mut().filter(|share| share.aggregator != me) {
            if posted.is_ok() {
                let rank = share.aggregator as usize;
                // SAFETY: the words stay until `replies` are finished.
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
                let why = format!("rank {} sent more than was asked for", share.aggregator);
                return Err(Error::new(Class::Intern, why));
            }
            let data = self.data(buffer, share);
            if share.aggregator != me && len > 0 {
                // SAFETY: the program's memory or the stage, which stay until the round ends.
                let place = unsafe { Buffer::bytes(data, len as usize) };
                // SAFETY: as above.
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
    async fn serve(
        &mut self,
        messages: &mut Messages<'_>,
        shares: &mut [Share],
        window: &Range<u64>,
        parts: &mut [Part],
    ) -> Result<()> {
        self.tell(messages, shares, window, parts).await?;
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
        let loaded = self.talk.apart(len, move || {
            let to = window.as_mut_ptr();
            // SAFETY: the window has room for the run.
            let read = unsafe { move_plain(&*shared.storage, run, to, Direction::Read) };
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
    let why = format!("rank {rank} told of data that is not in the aggregator's window");
    Error::new(Class::Intern, why)
}

/// From the first to the last byte that members have in a window.
fn covered(parts: &[Part]) -> Range<u64> {
    let runs = || parts.iter().flat_map(|part| part.runs.list.iter());
    let start = runs().map(|run| run.at).min().unwrap_or(0);
    start..runs().map(|run| run.end()).max().unwrap_or(start)
}
