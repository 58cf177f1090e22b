//! The ranks' output on its way to this process's streams or to files.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs::File;
use std::io::{IsTerminal, Write};

use crate::label;
use crate::options::Options;
use crate::output::{ATTENTION, Sink, create, message};
use crate::program::{Unfit, unfit};

/// The output of all ranks.
pub struct Output {
    /// This process's standard output and standard error.
    pub sinks: [Sink; 2],
    /// Whether the user knows that a sink has failed.
    is_reported: [bool; 2],
    /// Each rank's output on standard error since [`Self::listen`], up to [`ATTENTION`] bytes.
    heard: Option<HashMap<usize, Vec<u8>>>,
    /// The ranks whose wait reports are not printed; `None` if all are.
    unprinted: Option<WaitReports>,
    /// The label of each rank's lines.
    labels: Vec<Option<Vec<u8>>>,
    files: Vec<RankFile>,
    /// For each rank the indices in `files` of its standard output and standard error.
    file_of: Vec<[Option<usize>; 2]>,
    /// Unfinished lines, if lines get labels.
    lines: HashMap<(usize, usize), Vec<u8>>,
    /// Ranks that read a terminal: an unfinished line may be a prompt.
    asked: Vec<u32>,
    /// Credit that agents get when the sinks have room, by host and stream.
    owed: HashMap<(u32, u8), u32>,
}

/// The wait reports in the ranks' standard errors.
#[derive(Default)]
struct WaitReports {
    /// The ranks in whose report the next line may be.
    within: HashSet<usize>,
}

impl WaitReports {
    /// The first words of a report's lines, which lines with blanks at the start follow
    /// (`mpi_core::process::Process::report`, `wait_report.rs`).
    const FIRST: [&str; 3] = [
        "Weft: asked for pending operations",
        "Weft: MPI is not initialized in this process",
        "Weft: process ",
    ];

    /// Returns a rank's lines without those of reports.
    fn remove_from(&mut self, rank: usize, bytes: &[u8]) -> Vec<u8> {
        let mut rest = Vec::new();
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            let begins = Self::FIRST
                .iter()
                .any(|first| line.starts_with(first.as_bytes()));
            if begins {
                self.within.insert(rank);
            } else if !(line.starts_with(b"  ") && self.within.contains(&rank)) {
                self.within.remove(&rank);
                rest.extend_from_slice(line);
            }
        }
        rest
    }
}

/// A file that one or more ranks write to.
struct RankFile {
    name: OsString,
    /// `None` after an error.
    file: Option<File>,
}

/// Bytes after which a labelled line is split.
const LONGEST: usize = 16 << 20;

impl Output {
    /// Creates the output of ranks on the hosts `nodes` and opens its files.
    ///
    /// # Errors
    /// A file can't be created.
    pub fn new(options: &Options, hosts: &[String], nodes: &[usize]) -> Result<Output, Unfit> {
        let mut output = Output {
            sinks: [Sink::new(1), Sink::new(2)],
            is_reported: [false; 2],
            heard: None,
            unprinted: None,
            labels: Vec::new(),
            files: Vec::new(),
            file_of: Vec::new(),
            lines: HashMap::new(),
            asked: match std::io::stdin().is_terminal() {
                true => options.many.input.ranks(nodes.len()),
                false => Vec::new(),
            },
            owed: HashMap::new(),
        };
        // Ranks with the same name share a file.
        let mut numbers: HashMap<OsString, usize> = HashMap::new();
        for (rank, &node) in nodes.iter().enumerate() {
            let host = &hosts[node];
            let label = options.label.as_ref();
            output
                .labels
                .push(label.map(|pattern| label::of(pattern, rank, host, node)));
            let mut file_of = [None, None];
            for (pattern, number) in options.files.iter().zip(&mut file_of) {
                let Some(pattern) = pattern else { continue };
                let name = label::file(pattern, rank, host, node);
                *number = Some(match numbers.entry(name) {
                    Entry::Occupied(known) => *known.get(),
                    Entry::Vacant(place) => {
                        let name = place.key().clone();
                        let file = create(&name, options.folders).map_err(|e| {
                            unfit(&format!("can't write to '{}'", name.display()), e)
                        })?;
                        let file = Some(file);
                        output.files.push(RankFile { name, file });
                        *place.insert(output.files.len() - 1)
                    }
                });
            }
            output.file_of.push(file_of);
        }
        Ok(output)
    }

    /// Adds a rank's output.
    pub fn push(&mut self, rank: usize, stream: usize, bytes: &[u8], host: u32) {
        let owed = self.owed.entry((host, stream as u8)).or_default();
        *owed = owed.saturating_add(bytes.len() as u32);
        if let (1, Some(heard)) = (stream, &mut self.heard) {
            let heard = heard.entry(rank).or_default();
            let room = ATTENTION.saturating_sub(heard.len());
            heard.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
        let rest;
        let bytes = match &mut self.unprinted {
            Some(reports) if stream == 1 => {
                rest = reports.remove_from(rank, bytes);
                &rest
            }
            _ => bytes,
        };
        if let Some(file) = self.file_of[rank][stream] {
            return self.write_to_file(file, bytes);
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

    fn write_to_file(&mut self, file: usize, bytes: &[u8]) {
        let RankFile { name, file } = &mut self.files[file];
        if let Some(open) = file
            && let Err(error) = open.write_all(bytes)
        {
            *file = None;
            let text = format!(
                "can't write to '{}': {error}. What ranks print there is lost",
                name.display()
            );
            message(&mut self.sinks[1], &text);
        }
    }

    /// Writes what the sinks have room for. Returns the credit for agents, by host and stream.
    pub fn write(&mut self) -> Vec<((u32, u8), u32)> {
        self.sinks.iter_mut().for_each(Sink::write_ready);
        let full = [0, 1].map(|stream| self.sinks[stream].is_full());
        let open = self
            .owed
            .extract_if(|(_, stream), _| !full[usize::from(*stream)]);
        open.collect()
    }

    /// Starts keeping the ranks' standard error for [`Self::heard`]. With `quiet`, their wait reports are
    /// not printed.
    pub fn listen(&mut self, quiet: bool) {
        self.heard = Some(HashMap::new());
        self.unprinted = quiet.then(WaitReports::default);
    }

    /// Returns the ranks' standard error since [`Self::listen`].
    pub fn heard(&self) -> impl Iterator<Item = &[u8]> {
        self.heard
            .iter()
            .flat_map(HashMap::values)
            .map(Vec::as_slice)
    }

    /// Reports once why a stream can't be written to. Returns whether there was something new.
    pub fn tell_failures(&mut self) -> bool {
        let mut new = false;
        for (stream, name) in [(0, "standard output"), (1, "standard error")] {
            let Some(error) = self.sinks[stream].failure() else {
                continue;
            };
            let text = format!(
                "{name} can't be written to: {error}. What the ranks print there from now on is lost"
            );
            if !std::mem::replace(&mut self.is_reported[stream], true) {
                new = true;
                message(&mut self.sinks[1], &text);
            }
        }
        new
    }

    /// Passes on the unfinished lines.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_reports_are_taken_out_of_the_programs_lines() {
        let mut reports = WaitReports::default();
        let mut rest = |text: &str| {
            let rest = reports.remove_from(3, text.as_bytes());
            String::from_utf8(rest).unwrap()
        };
        assert_eq!(rest("  mine\n"), "  mine\n");
        let report =
            "Weft: process 3 is waiting in MPI_Recv. Pending operations:\n  VCI 0: receive\n";
        assert_eq!(rest(&format!("a\n{report}")), "a\n");
        assert_eq!(rest("  round 3\nb\n  c\n"), "b\n  c\n");
        assert_eq!(rest("Weft: another line\n"), "Weft: another line\n");
    }
}
