//! The plan for the agents, from the command line and the environment.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::IsTerminal;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use netmod_kit::admission::random;

use crate::affinity;
use crate::children::JOIN;
use crate::hosts::place::Placement;
use crate::options::{Inherit, Input, Many, Options, Section};
use crate::program::{Unfit, environment, unfit};
use crate::root::here::is_here;
use crate::wire::frames::Bytes;
use crate::wire::messages::{Boot, Common, Member, Part};
use crate::wire::tree;

/// An agent to start, with those below it, and how it is started.
pub type Branch = (Vec<Member>, Boot);

/// The plan of a job.
pub struct Setup {
    /// The part for all agents.
    pub common: Common,
    /// The agents that the root starts by commands.
    pub branches: Vec<Branch>,
    /// This host, if it has ranks: its agent is a fork of the root.
    pub own: Option<Member>,
    /// The section of each rank.
    pub appnums: Vec<u32>,
}

impl Setup {
    /// Returns whether all ranks are on this host.
    pub fn is_alone(&self) -> bool {
        self.own.is_some() && self.branches.is_empty()
    }
}

/// Output that may be under way in the whole job.
const OUTPUT: usize = 64 << 20;
/// The least and most of it that a host may have.
const WINDOW: (usize, usize) = (32 << 10, 1 << 20);
/// The longest value that PMI carries.
const LONGEST_VALUE: usize = 1024;

/// Makes the plan of a job.
///
/// # Errors
/// The launcher's own program or working directory can't be found.
pub fn setup(options: &Options, placement: &Placement) -> Result<Setup, Unfit> {
    let many = &options.many;
    let agent = match &many.prefix {
        Some(prefix) => prefix.join("bin/mpiexec"),
        None => env::current_exe().map_err(|e| unfit("can't find our own program", e))?,
    };
    let bytes = |path: PathBuf| Bytes(path.into_os_string().into_vec());
    let width = many.width.max(1);
    let boot = Boot {
        kind: many.bootstrap.clone().unwrap_or_default(),
        exec: many.exec.clone().map(|exec| Bytes(exec.into_vec())),
        words: many
            .words
            .iter()
            .map(|word| Bytes(word.clone().into_vec()))
            .collect(),
        agent: bytes(agent),
        // People can't be asked by agents on other hosts, and joined agents are connected to the root.
        width: if matches!(many.bootstrap.as_deref(), Some("manual" | JOIN)) {
            u32::MAX
        } else {
            u32::try_from(width).unwrap_or(u32::MAX)
        },
        patience: many.patience(),
        interface: many.interface.clone(),
        silence: many.silence,
    };
    let member = |(number, (host, ranks)): (usize, (&crate::hosts::Host, Vec<usize>))| Member {
        number: number as u32,
        name: host.name.clone(),
        user: host.user.clone(),
        port: host.port,
        ranks: ranks.iter().map(|&rank| rank as u32).collect(),
    };
    let hosts = placement.hosts.iter().zip(placement.ranks());
    let mut members: Vec<Member> = hosts.enumerate().map(member).collect();
    // With `-bootstrap fork`, hosts of all names are on this machine and have agents of their own.
    let joins = boot.kind == JOIN;
    let is_own = |member: &Member| match boot.kind.as_str() {
        _ if placement.is_local => true,
        "fork" => false,
        JOIN => member.number == 0,
        _ => is_here(&member.name),
    };
    let own = members.iter().position(is_own);
    let own = own.map(|own| members.remove(own));
    let branches: Vec<Branch> = tree::branches(&members, boot.width as usize)
        .into_iter()
        .map(|branch| (branch, boot.clone()))
        .collect();
    let is_alone = own.is_some() && branches.is_empty();
    let size = placement.node_of.len();
    let mapping = placement.mapping();
    let window = (OUTPUT / placement.hosts.len().max(1)).clamp(WINDOW.0, WINDOW.1);
    // The agent of this host is where this process is; others that have joined are where they were started.
    let folder = match is_alone || joins {
        true => PathBuf::new(),
        false => folder()?,
    };
    let part = |section: &Section| Part {
        count: section.count as u32,
        wdir: bytes(match &section.wdir {
            Some(wdir) => folder.join(wdir),
            None => folder.clone(),
        }),
        command: section
            .command
            .iter()
            .map(|word| Bytes(word.clone().into_vec()))
            .collect(),
        environment: of_ranks(section, many, is_alone, joins),
        inherits: joins && section.inherit == Inherit::All,
    };
    let terminal = std::io::stdin().is_terminal();
    let has_rank_0 = own.as_ref().is_some_and(|own| own.ranks.contains(&0));
    let inherits =
        has_rank_0 && !terminal && options.spawned.is_none() && many.input == Input::Ranks(vec![0]);
    let mut preput = options
        .spawned
        .as_ref()
        .map_or(Vec::new(), |one| one.preput.clone());
    if is_alone
        && many.pool.is_empty()
        && let Some(network) = pmi::names::network()
    {
        preput.insert(0, (pmi::names::NETWORK.to_owned(), network));
    }
    let appnums = (0..).zip(&options.sections);
    Ok(Setup {
        common: Common {
            kvs: kvs_name()?,
            size: size as u32,
            mapping: if mapping.len() < LONGEST_VALUE {
                mapping
            } else {
                String::new()
            },
            sections: options.sections.iter().map(part).collect(),
            bind: options.bind.show(),
            report: options.many.report_bindings,
            cleanup: options.cleanup,
            // The standard input of a spawned job's launcher is the socket of its options.
            input: match inherits || options.spawned.is_some() {
                true => Vec::new(),
                false => many.input.ranks(size),
            },
            inherits_input: inherits.then_some(0),
            terminal,
            boot,
            window: window as u32,
            universe: options
                .many
                .universe(size, affinity::slots())
                .map(|number| u32::try_from(number).unwrap_or(u32::MAX)),
            spawned: options.spawned.is_some(),
            preput,
        },
        branches,
        own,
        appnums: appnums
            .flat_map(|(appnum, section)| std::iter::repeat_n(appnum, section.count))
            .collect(),
    })
}

/// Returns a name that no other job has, and that no other user can guess: ranks of a node find each
/// other by a socket whose name is a hash of it, which another user must not take before them.
fn kvs_name() -> Result<String, Unfit> {
    let number = random().map_err(|error| unfit("can't draw a random number", error))?;
    let pid = std::process::id();
    Ok(format!("kvs_{pid}_{:032x}", u128::from_ne_bytes(number)))
}

/// Returns the working directory by the shell's name for it, which is valid on other hosts as well,
/// where links and mounts are alike.
fn folder() -> Result<PathBuf, Unfit> {
    let here = env::current_dir().map_err(|e| unfit("can't find the working directory", e))?;
    let Some(named) = env::var_os("PWD").map(PathBuf::from) else {
        return Ok(here);
    };
    let same = match (fs::metadata(&named), fs::metadata(&here)) {
        (Ok(a), Ok(b)) => named.is_absolute() && (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    };
    Ok(if same { named } else { here })
}

/// Returns the environment of a section's ranks. Without `is_alone`, ranks on other hosts get it, too;
/// with `joins` they inherit that of their own hosts instead.
fn of_ranks(section: &Section, many: &Many, is_alone: bool, joins: bool) -> Vec<(Bytes, Bytes)> {
    let mut all = match joins && section.inherit == Inherit::All {
        true => section.set.clone(),
        false => environment(section),
    };
    if section.inherit == Inherit::All && !is_alone {
        let given = |name: &OsString| section.set.iter().any(|(set, _)| set == name);
        all.retain(|(name, _)| given(name) || !is_of_this_host(name.as_encoded_bytes()));
    }
    const INTERFACE: &str = "WEFT_TCP_INTERFACE";
    if let Some(interface) = &many.interface
        && !all.iter().any(|(name, _)| name == INTERFACE)
    {
        all.push((INTERFACE.into(), interface.into()));
    }
    if many.encrypt {
        // No section, and no variable of the user's, leaves a connection unencrypted.
        const ENCRYPT: &str = "WEFT_TCP_ENCRYPT";
        all.retain(|(name, _)| name != ENCRYPT);
        all.push((ENCRYPT.into(), "1".into()));
    }
    let bytes = |text: OsString| Bytes(text.into_vec());
    all.into_iter()
        .map(|(name, value)| (bytes(name), bytes(value)))
        .collect()
}

/// Returns whether a variable describes this host or session.
fn is_of_this_host(name: &[u8]) -> bool {
    const NAMES: &[&[u8]] = &[
        b"HOSTNAME",
        b"SSH_CONNECTION",
        b"SSH_CLIENT",
        b"SSH_TTY",
        b"SSH_AUTH_SOCK",
        b"SSH_AGENT_PID",
        b"PWD",
        b"OLDPWD",
        b"SHLVL",
        b"_",
    ];
    NAMES.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_of_a_job_does_not_give_its_name() {
        let name = kvs_name().unwrap();
        let (_, number) = name.rsplit_once('_').unwrap();
        let number = u128::from_str_radix(number, 16).unwrap();
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos();
        let day = 86_400 * 1_000_000_000;
        assert!(number.abs_diff(now) > day, "{name} is the time");
        assert_ne!(kvs_name().unwrap(), name);
    }
}
