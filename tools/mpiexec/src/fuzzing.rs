//! Entry points of the fuzz targets; not part of the interface.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;

use crate::hosts::batch::{self, Surroundings};
use crate::hosts::{file, list, rankfile};
use crate::options::{self, Request, syntax};
use crate::root::plan;
use crate::spawned;
use crate::wire::greeting::Greeting;

pub use crate::agent::fuzzing::parent;
pub use crate::names::fuzzing::client as name_client;
pub use crate::names::server::fuzzing::server as name_server;
pub use crate::root::fuzzing::{agents, frames};

/// An environment from a fuzz input. The file NAME has the content of the variable NAME.
#[derive(Default)]
pub(crate) struct Around(HashMap<String, OsString>);

impl Surroundings for Around {
    fn variable(&self, name: &str) -> Option<OsString> {
        self.0.get(name).cloned()
    }
    fn file(&self, path: &OsStr) -> Result<String, String> {
        let name = path.to_string_lossy();
        self.text(&name).ok_or(format!("'{name}': not there"))
    }
    fn flux(&self) -> Result<String, String> {
        self.text("flux").ok_or("flux: not found".to_owned())
    }
}

/// Splits an input at zero bytes or, if there are none, at line breaks.
fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let end = if bytes.contains(&0) { 0 } else { b'\n' };
    bytes.split(move |byte| *byte == end)
}

fn around(bytes: &[u8]) -> Around {
    let one = |line: &[u8]| {
        let at = line.iter().position(|byte| *byte == b'=')?;
        let name = String::from_utf8_lossy(&line[..at]).into_owned();
        Some((name, OsString::from_vec(line[at + 1..].to_vec())))
    };
    Around(lines(bytes).filter_map(one).collect())
}

/// Options that send signals to processes or use inherited descriptors while they are parsed.
const LEFT_OUT: &[&str] = &["report", "gdba", "configfile", spawned::SPAWNED];

/// Parses a command line, followed by lines of variables, and places the ranks.
pub fn command_line(bytes: &[u8]) {
    let end = bytes.iter().position(|byte| *byte == b'\n');
    let (line, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
    let Some(words) = syntax::split(line) else {
        return;
    };
    let is_left_out = |word: &OsString| {
        let word = word.to_string_lossy();
        LEFT_OUT.contains(&word.trim_start_matches('-'))
    };
    if words.iter().any(is_left_out) {
        return;
    }
    let around = around(rest);
    let read = options::parse(&words, |name| around.variable(name));
    let Ok(Request::Run(mut options)) = read else {
        return;
    };
    // Names of hosts are not looked up.
    options.many.bootstrap.get_or_insert("fork".to_owned());
    let Ok(placement) = plan::plan(&mut options, &around) else {
        return;
    };
    let _ = plan::map(&placement);
    let ranks = placement.node_of.len();
    assert_eq!(placement.counts.iter().sum::<usize>(), ranks);
    assert_eq!(placement.ranks().iter().map(Vec::len).sum::<usize>(), ranks);
    let nodes = pmi::mapping::parse(&placement.mapping(), ranks);
    let wanted = placement.node_of.iter().map(|&node| node as u32).collect();
    assert!(
        ranks == 0 || nodes == Some(wanted),
        "{}",
        placement.mapping()
    );
}

/// Parses files and lists of hosts, rank files, and the line for an agent.
pub fn host_files(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(hosts) = file::read("file", &text) {
        assert!(hosts.iter().all(|host| !host.name.is_empty()));
        let shown = spawned::show(&hosts);
        let again = file::read("shown", &shown);
        assert!(
            again.is_ok_and(|again| again.len() == hosts.len()),
            "{shown}"
        );
    }
    if let Ok(entries) = rankfile::read("file", &text) {
        assert!(!entries.is_empty());
    }
    let _ = (list::split(&text), list::expand(&text));
    let _ = crate::hosts::list(&text);
    let _ = spawned::read_used(&text);
    let _ = Greeting::read(&text);
}

/// Parses the variables and files of batch systems.
pub fn batch_systems(bytes: &[u8]) {
    let around = around(bytes);
    for only in batch::SYSTEMS.iter().map(|name| Some(*name)).chain([None]) {
        if let Ok(Some(found)) = batch::find(&around, only) {
            assert!(!found.hosts.is_empty());
        }
    }
}
