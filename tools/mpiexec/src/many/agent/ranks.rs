//! The ranks of an agent's host: their start, their output and input, and what they say by PMI.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::process::{ChildStdin, Stdio};
use std::time::{Duration, Instant};

use pmi::server::{Action, Stage};

use super::Agent;
use crate::affinity::Affinity;
use crate::binding::Bind;
use crate::lines::Lines;
use crate::many::children::Event;
use crate::many::messages::{Common, Part, Up, from_ending};
use crate::many::tree::OWN;
use crate::many::wire::Bytes;
use crate::options::{Inherit, Section};
use crate::output::Outbox;
use crate::program::{NOT_FOUND, NOT_RUNNABLE, Program};
use crate::rank::{Rank, RankSpec};
use crate::system::{self, Ending};

/// How long the news of ranks that ended in order waits for more of them.
const TOGETHER: Duration = Duration::from_millis(50);
/// Lines of a rank that has said where it is.
const WORDS: usize = 2;

/// What a rank prints to one of its streams.
#[derive(Default)]
pub struct Output {
    pipe: Option<File>,
    pieces: Lines,
    lines: usize,
    marked: usize,
}

impl Output {
    /// To be polled for reading.
    pub fn descriptor(&self) -> Option<RawFd> {
        self.pipe.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// When a piece of a line is to be passed on.
    pub fn due(&self) -> Option<Instant> {
        self.pieces.due()
    }

    /// Reads no more: whoever writes there learns of it.
    pub fn close(&mut self) {
        self.pipe = None;
        self.pieces.rest();
    }

    /// Lines from here on answer a question.
    pub fn mark(&mut self) {
        self.marked = self.lines;
    }

    /// Reads once; returns what is to be passed on.
    fn read(&mut self, now: Instant) -> Vec<u8> {
        let mut buffer = [0u8; 16 * 1024];
        let Some(pipe) = &mut self.pipe else {
            return Vec::new();
        };
        match pipe.read(&mut buffer) {
            Ok(n) if n > 0 => {
                let got = &buffer[..n];
                self.lines += got.iter().filter(|&&b| b == b'\n').count();
                self.pieces.add(got, now)
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                Vec::new()
            }
            _ => {
                self.pipe = None;
                self.pieces.rest()
            }
        }
    }

    /// The piece of a line that has waited long enough.
    fn piece(&mut self, now: Instant) -> Vec<u8> {
        let Some(until) = self.due().filter(|until| now >= *until) else {
            return Vec::new();
        };
        // The rest may have come while nothing could be read.
        let mut whole = self.read(now);
        if self.due() == Some(until) {
            whole.extend(self.pieces.rest());
        }
        whole
    }

    /// Everything that is left.
    pub fn drain(&mut self) -> Vec<u8> {
        let mut all = self.pieces.rest();
        if let Some(mut pipe) = self.pipe.take() {
            // Whoever still holds the other end is not waited for.
            let mut buffer = [0u8; 16 * 1024];
            while let Ok(n) = pipe.read(&mut buffer) {
                if n == 0 {
                    break;
                }
                all.extend_from_slice(&buffer[..n]);
            }
        }
        all
    }
}

/// Standard input on its way to a rank.
pub struct Feed {
    rank: u32,
    to: Option<ChildStdin>,
    waiting: Outbox,
    /// Nothing comes after what waits.
    ends: bool,
    /// Messages that were not yet taken.
    owed: VecDeque<()>,
}

impl Feed {
    /// To be polled for writing.
    pub fn wanted(&self) -> Option<RawFd> {
        let to = self.to.as_ref().filter(|_| self.waiting.waits())?;
        Some(to.as_raw_fd())
    }
}

impl Agent {
    /// Starts the ranks; whatever is wrong is told to the parent.
    pub(super) fn start_ranks(&mut self, common: &Common) {
        let host = self.me.number;
        let trouble = |code: u8, text: String| Up::Trouble { host, code, text };
        let sections: Vec<Section> = common.sections.iter().map(section).collect();
        let mut programs: Vec<Option<Program>> = sections.iter().map(|_| None).collect();
        let appnums = (0..self.me.ranks.len()).map(|index| self.server.appnum(index));
        let appnums: Vec<u32> = appnums.collect();
        for &appnum in &appnums {
            let slot = &mut programs[appnum as usize];
            if slot.is_some() {
                continue;
            }
            match Program::find(&sections[appnum as usize]) {
                Ok(program) => *slot = Some(program),
                Err(unfit) => {
                    let text = format!("on host '{}': {}", self.me.name, unfit.message);
                    return self.parent.send(&trouble(unfit.code, text));
                }
            }
        }
        let count = appnums.len();
        let limit = system::allow_files(count as u64 * 4 + self.children.len() as u64 * 3 + 64);
        let bind = Bind::read(&common.bind).unwrap_or(Bind::AUTO);
        let affinity = match Affinity::find(&bind.of(&self.me.ranks), count) {
            Ok(affinity) => affinity,
            Err(why) => {
                let text = format!("on host '{}': {why}", self.me.name);
                return self.parent.send(&trouble(NOT_RUNNABLE, text));
            }
        };
        for (index, (&appnum, share)) in appnums.iter().zip(affinity.shares()).enumerate() {
            let rank = self.me.ranks[index];
            let reads = common.input.contains(&rank);
            let spec = RankSpec {
                rank: rank as usize,
                spawned: common.spawned,
                size: self.size,
                local: (index, count),
                group: self.guardian.group(),
                share,
                label: None,
                stdin: if reads { Stdio::piped() } else { Stdio::null() },
                files: [None, None],
                signals: &self.signals,
                limit: limit.as_ref().ok().copied().flatten(),
            };
            let Some(program) = &programs[appnum as usize] else {
                continue;
            };
            match Rank::start(&sections[appnum as usize], program, spec) {
                Ok((mut started, stdin)) => {
                    for (stream, source) in started.sources.iter_mut().enumerate() {
                        let output = &mut self.output[index][stream];
                        output.pipe = source.take().map(Into::into);
                        output.pieces.set_asks(reads && common.terminal);
                    }
                    self.ranks.push(started);
                    if let Some(to) = stdin
                        && system::set_nonblocking(&to).is_ok()
                    {
                        self.feeds.push(Feed {
                            rank,
                            to: Some(to),
                            waiting: Outbox::default(),
                            ends: false,
                            owed: VecDeque::new(),
                        });
                    }
                    // With many ranks this takes long; who ends the job meanwhile is not to wait for the rest.
                    if self.is_to_end() {
                        break;
                    }
                }
                Err(error) => {
                    let name = sections[appnum as usize].command[0].to_string_lossy();
                    let text = format!(
                        "on host '{}': can't start rank {rank}, '{name}': {error}",
                        self.me.name
                    );
                    let code = match error.kind() {
                        ErrorKind::NotFound => NOT_FOUND,
                        _ => NOT_RUNNABLE,
                    };
                    self.parent.send(&trouble(code, text));
                    break;
                }
            }
        }
        let pids = self.ranks.iter().map(|rank| rank.pid as u32).collect();
        let notes = match common.report {
            true => affinity.pictures(),
            false => Vec::new(),
        };
        self.parent.send(&Up::Started { host, pids, notes });
    }

    /// Takes note of processes that have ended.
    pub(super) fn reap(&mut self, events: &mut Vec<Event>) {
        while let Some((pid, ending)) = system::reap() {
            if self.children.reaped(pid, ending, events) {
                continue;
            }
            let found = self.ranks.iter().position(|rank| rank.pid == pid);
            if let Some(index) = found.filter(|&index| self.ranks[index].ending.is_none()) {
                self.has_ended(index, ending);
            }
        }
    }

    fn has_ended(&mut self, index: usize, ending: Ending) {
        // Its last words may say that it finalized or aborted, and nobody reads answers.
        self.ranks[index].answers.clear();
        self.hear(index);
        let rank = self.me.ranks[index];
        self.ranks[index].note_core(rank as usize, ending);
        if let Some(place) = &self.ranks[index].core {
            let place = Bytes(place.as_os_str().as_bytes().to_vec());
            self.parent.send(&Up::Core { rank, place });
        }
        self.ranks[index].ending = Some(ending);
        let stage = match self.server.stage(index) {
            Stage::Silent => 0,
            Stage::Active => 1,
            Stage::Finalized => 2,
        };
        self.ended.push((rank, (from_ending(ending), stage)));
        self.report.get_or_insert(Instant::now() + TOGETHER);
        self.look_whether_stuck();
    }

    /// Tells which ranks have ended: at once if one has failed, otherwise those of a while together.
    pub(super) fn report_ended(&mut self, now: Instant) {
        let failed = self.ended.iter().any(|(_, (how, _))| *how != 0);
        let all = self.ranks.iter().all(|rank| rank.ending.is_some());
        let due = self.report.is_some_and(|at| now >= at);
        if !self.ended.is_empty() && (failed || all || due) {
            let ranks = std::mem::take(&mut self.ended);
            self.parent.send(&Up::Ended { ranks });
            self.report = None;
        }
    }

    /// Fences are to do without a rank.
    pub(super) fn lose(&mut self, rank: u32) {
        let Some(index) = self.index(rank).filter(|&index| index < self.ranks.len()) else {
            return;
        };
        let mut actions = Vec::new();
        self.server.lose(index, &mut actions);
        actions.into_iter().for_each(|action| self.act(action));
        if (0..self.ranks.len()).all(|index| self.server.is_lost(index)) {
            self.leave_fence(OWN);
        }
    }

    /// Serves a rank's PMI socket.
    pub(super) fn hear(&mut self, index: usize) {
        let mut actions = Vec::new();
        let mut buffer = [0u8; 4096];
        loop {
            let state = &mut self.ranks[index];
            let Some(pmi) = &mut state.pmi else {
                return;
            };
            let mut open = state.answers.write(pmi);
            // What waits must stay bounded, however much is asked and however little read.
            if open && state.answers.waits() {
                return;
            }
            if open {
                match pmi.read(&mut buffer) {
                    Ok(0) => open = false,
                    Ok(n) => self.server.receive(index, &buffer[..n], &mut actions),
                    Err(e) if e.kind() == ErrorKind::Interrupted => {}
                    Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                    Err(_) => open = false,
                }
            }
            if !open {
                state.pmi = None;
            }
            actions.drain(..).for_each(|action| self.act(action));
        }
    }

    pub(super) fn act(&mut self, action: Action) {
        match action {
            Action::Send { rank, line } => self.answer(rank, &line),
            Action::Abort {
                rank,
                code,
                ranks,
                message,
            } => {
                let rank = self.me.ranks[rank];
                self.parent.send(&Up::Abort {
                    rank,
                    code,
                    ranks,
                    message,
                });
            }
            Action::Violation { rank, detail } => {
                let rank = self.me.ranks[rank];
                self.parent.send(&Up::Violation { rank, detail });
            }
            Action::Fence { pairs } => {
                let pairs = pairs
                    .into_iter()
                    .map(|(key, value)| (Bytes(key), Bytes(value)));
                let complete = self.fence.come(OWN, pairs.collect());
                self.tell_fence(complete);
            }
            // The server above is asked for these.
            Action::Spawn { .. }
            | Action::Ask { .. }
            | Action::Still { .. }
            | Action::SpawnEnd { .. } => {}
            Action::Up { rank, line } => {
                let (rank, line) = (self.me.ranks[rank], Bytes(line));
                self.parent.send(&Up::Line { rank, line });
            }
        }
    }

    pub(super) fn answer(&mut self, index: usize, line: &[u8]) {
        let Some(state) = self.ranks.get_mut(index) else {
            return;
        };
        if let Some(pmi) = &mut state.pmi {
            state.answers.push(line);
            if !state.answers.write(pmi) {
                state.pmi = None;
            }
        }
    }

    pub(super) fn read_output(&mut self, index: usize, stream: usize) {
        let bytes = self.output[index][stream].read(Instant::now());
        self.pass_on(index, stream, bytes);
    }

    /// Passes on pieces of lines whose ends are long in coming.
    pub(super) fn send_pieces(&mut self, now: Instant) {
        // A rank that was not read from for lack of credit may have sent the end meanwhile.
        if self.credit <= 0 {
            return;
        }
        for index in 0..self.ranks.len() {
            for stream in [0, 1] {
                let bytes = self.output[index][stream].piece(now);
                self.pass_on(index, stream, bytes);
            }
        }
    }

    fn pass_on(&mut self, index: usize, stream: usize, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.credit -= bytes.len() as i64;
            let rank = self.me.ranks[index];
            let (stream, bytes) = (stream as u8, Bytes(bytes));
            self.parent.send(&Up::Output {
                rank,
                stream,
                bytes,
            });
        }
    }

    /// Tells once that all ranks in MPI have said where they are.
    pub(super) fn look_for_words(&mut self) {
        let silent = |index: usize| {
            let [_, errors] = &self.output[index];
            self.ranks[index].ending.is_none()
                && self.server.stage(index) == Stage::Active
                && errors.lines < errors.marked + WORDS
        };
        if self.asked && !(0..self.ranks.len()).any(silent) {
            self.asked = false;
            let host = self.me.number;
            self.parent.send(&Up::Spoken { host });
        }
    }

    /// Input for a rank has come; nothing is its end.
    pub(super) fn input(&mut self, rank: u32, bytes: Bytes) {
        let Some(index) = self.feeds.iter().position(|feed| feed.rank == rank) else {
            return self.parent.send(&Up::Taken { rank });
        };
        let feed = &mut self.feeds[index];
        feed.ends |= bytes.0.is_empty();
        feed.waiting.push(&bytes.0);
        feed.owed.push_back(());
        self.feed(index);
    }

    pub(super) fn feed(&mut self, index: usize) {
        let feed = &mut self.feeds[index];
        if let Some(to) = &mut feed.to
            && !feed.waiting.write(to)
        {
            // The rank reads no more.
            feed.to = None;
        }
        if feed.to.is_none() {
            feed.waiting.clear();
        }
        if !feed.waiting.waits() {
            if feed.ends {
                feed.to = None;
            }
            for () in std::mem::take(&mut feed.owed) {
                self.parent.send(&Up::Taken { rank: feed.rank });
            }
        }
    }
}

fn section(part: &Part) -> Section {
    let os = |bytes: &Bytes| OsString::from_vec(bytes.0.clone());
    Section {
        count: part.count as usize,
        asked: None,
        hosts: None,
        inherit: Inherit::None,
        set: part
            .environment
            .iter()
            .map(|(name, value)| (os(name), os(value)))
            .collect(),
        wdir: Some(PathBuf::from(os(&part.wdir))),
        command: part.command.iter().map(os).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::PIECE;
    use std::io::Write;

    #[test]
    fn lines_are_passed_on_whole() {
        let (read, mut write) = std::io::pipe().unwrap();
        system::set_nonblocking(&read).unwrap();
        let mut output = Output {
            pipe: Some(File::from(std::os::fd::OwnedFd::from(read))),
            ..Output::default()
        };
        let now = Instant::now();
        write.write_all(b"one\ntwo\nthr").unwrap();
        assert_eq!(output.read(now), b"one\ntwo\n");
        assert_eq!(output.lines, 2);
        assert!(output.piece(now).is_empty());
        write.write_all(b"ee\nfo").unwrap();
        assert_eq!(output.read(now), b"three\n");
        assert_eq!(output.piece(now + PIECE), b"fo");
        assert_eq!(output.due(), None);
        write.write_all(b"ur").unwrap();
        drop(write);
        assert!(output.read(now).is_empty());
        assert_eq!(output.read(now), b"ur");
        assert_eq!(output.descriptor(), None);
    }
}
