//! What ranks of all hosts print, on its way to our own streams or to files.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{IsTerminal, Write};

use crate::label;
use crate::options::Options;
use crate::output::{ATTENTION, Sink, create, message};

/// Where it goes.
pub struct Output {
    /// Our standard output and standard error.
    pub sinks: [Sink; 2],
    told: [bool; 2],
    /// What each rank has said on standard error since it is listened to, up to a limit.
    heard: Option<HashMap<usize, Vec<u8>>>,
    /// For each rank what its lines start with.
    labels: Vec<Option<Vec<u8>>>,
    patterns: [Option<OsString>; 2],
    files: HashMap<OsString, Option<File>>,
    /// Whether to make the folders that they are in.
    folders: bool,
    /// For each rank and stream the file's name.
    names: Vec<[Option<OsString>; 2]>,
    /// With labels: lines without an end so far.
    lines: HashMap<(usize, usize), Vec<u8>>,
    /// Ranks that somebody at a terminal talks to: what they print without an end may be a question.
    asked: Vec<u32>,
    /// Bytes that agents wait for leave to send, by host.
    owed: HashMap<u32, u32>,
}

/// A line longer than this is passed on in pieces.
const LONGEST: usize = 16 << 20;

impl Output {
    /// For ranks on hosts of these names and numbers.
    pub fn new(options: &Options, hosts: Vec<String>, nodes: &[usize]) -> Output {
        let name = |rank: usize, stream: usize| {
            let pattern = options.files[stream].as_deref()?;
            Some(label::file(pattern, rank, &hosts[rank], nodes[rank]))
        };
        Output {
            sinks: [Sink::new(1), Sink::new(2)],
            told: [false; 2],
            heard: None,
            labels: (0..hosts.len())
                .map(|rank| {
                    let pattern = options.label.as_ref()?;
                    Some(label::of(pattern, rank, &hosts[rank], nodes[rank]))
                })
                .collect(),
            patterns: options.files.clone(),
            files: HashMap::new(),
            folders: options.folders,
            names: (0..hosts.len())
                .map(|rank| [name(rank, 0), name(rank, 1)])
                .collect(),
            lines: HashMap::new(),
            asked: match std::io::stdin().is_terminal() {
                true => options.many.input.ranks(hosts.len()),
                false => Vec::new(),
            },
            owed: HashMap::new(),
        }
    }

    /// Takes in what a rank has printed.
    pub fn push(&mut self, rank: usize, stream: usize, bytes: &[u8], host: u32) {
        let owed = self.owed.entry(host).or_default();
        *owed = owed.saturating_add(bytes.len() as u32);
        if let (1, Some(heard)) = (stream, &mut self.heard) {
            let heard = heard.entry(rank).or_default();
            let room = ATTENTION.saturating_sub(heard.len());
            heard.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
        if self.patterns[stream].is_some() {
            return self.file_away(rank, stream, bytes);
        }
        let sink = &mut self.sinks[stream];
        let Some(label) = &self.labels[rank] else {
            return sink.push(bytes);
        };
        let label = label::now(label);
        let line = self.lines.entry((rank, stream)).or_default();
        // Agents have waited for the end of such lines already.
        let asks = self.asked.contains(&(rank as u32));
        for piece in bytes.split_inclusive(|&b| b == b'\n') {
            line.extend_from_slice(piece);
            if piece.ends_with(b"\n") || line.len() > LONGEST || asks {
                sink.push(&label);
                sink.push(line);
                if !piece.ends_with(b"\n") {
                    sink.push(b"\n");
                }
                line.clear();
            }
        }
    }

    fn file_away(&mut self, rank: usize, stream: usize, bytes: &[u8]) {
        let Some(name) = self.names[rank][stream].clone() else {
            return;
        };
        let sinks = &mut self.sinks;
        let mut failed = |error: std::io::Error| {
            let text = format!(
                "can't write to '{}': {error}. What ranks print there is lost",
                name.display()
            );
            message(&mut sinks[1], &text);
            None
        };
        let file = self
            .files
            .entry(name.clone())
            .or_insert_with(|| create(&name, self.folders).map_or_else(&mut failed, Some));
        if let Some(open) = file
            && let Err(error) = open.write_all(bytes)
        {
            *file = failed(error);
        }
    }

    /// Writes what there is room for; returns what agents may send more.
    pub fn write(&mut self) -> Vec<(u32, u32)> {
        self.sinks.iter_mut().for_each(Sink::write_ready);
        match self.sinks.iter().any(Sink::is_full) {
            true => Vec::new(),
            false => self.owed.drain().collect(),
        }
    }

    /// Keeps what ranks say on standard error from now on.
    pub fn listen(&mut self) {
        self.heard = Some(HashMap::new());
    }

    /// What has come since then.
    pub fn heard(&self) -> impl Iterator<Item = &[u8]> {
        self.heard
            .iter()
            .flat_map(HashMap::values)
            .map(Vec::as_slice)
    }

    /// Says once why a stream can't be written to; whether there was something new to say.
    pub fn tell_failures(&mut self) -> bool {
        let mut new = false;
        for (stream, name) in [(0, "standard output"), (1, "standard error")] {
            let Some(error) = self.sinks[stream].failure() else {
                continue;
            };
            let text = format!(
                "{name} can't be written to: {error}. What the ranks print there from now on is lost"
            );
            if !std::mem::replace(&mut self.told[stream], true) {
                new = true;
                message(&mut self.sinks[1], &text);
            }
        }
        new
    }

    /// Passes on lines that have no end.
    pub fn finish(&mut self) {
        let mut rest: Vec<_> = self
            .lines
            .drain()
            .filter(|(_, line)| !line.is_empty())
            .collect();
        rest.sort_unstable();
        for ((rank, stream), line) in rest {
            let sink = &mut self.sinks[stream];
            let label = self.labels[rank].as_deref().map(label::now);
            sink.push(&label.unwrap_or_default());
            sink.push(&line);
            sink.push(b"\n");
        }
    }
}
