//! What agents are told, as the command line and our surroundings have it.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::IsTerminal;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use crate::hosts::place::Placement;
use crate::many::here::is_here;
use crate::many::messages::{Boot, Common, Member, Part};
use crate::many::tree;
use crate::many::wire::Bytes;
use crate::options::{Inherit, Options, Section};
use crate::program::environment;

/// What is needed to start a job.
pub struct Setup {
    /// For all agents.
    pub common: Common,
    /// The agents that we start, with those below them.
    pub branches: Vec<(Vec<Member>, Boot)>,
    /// For each rank its section.
    pub appnums: Vec<u32>,
}

/// Output that may be under way in the whole job.
const OUTPUT: usize = 64 << 20;
/// The least and most of it that a host may have.
const WINDOW: (usize, usize) = (32 << 10, 1 << 20);
/// The longest value that PMI carries.
const LONGEST_VALUE: usize = 1024;

/// Puts it together.
pub fn setup(options: &Options, placement: &Placement) -> Result<Setup, String> {
    let many = &options.many;
    let own = env::current_exe().map_err(|e| format!("can't find our own program: {e}"))?;
    let agent = match &many.prefix {
        Some(prefix) => prefix.join("bin/mpiexec"),
        None => own.clone(),
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
        // People can't be asked by agents on other hosts.
        width: if many.bootstrap.as_deref() == Some("manual") {
            u32::MAX
        } else {
            u32::try_from(width).unwrap_or(u32::MAX)
        },
        patience: many.patience,
        interface: many.interface.clone(),
    };
    let member = |(number, (host, ranks)): (usize, (&crate::hosts::Host, Vec<usize>))| Member {
        number: number as u32,
        name: host.name.clone(),
        user: host.user.clone(),
        port: host.port,
        ranks: ranks.iter().map(|&rank| rank as u32).collect(),
    };
    let hosts = placement.hosts.iter().zip(placement.ranks());
    let members: Vec<Member> = hosts.enumerate().map(member).collect();
    let apart = boot.kind == "fork";
    let (here, there): (Vec<Member>, Vec<Member>) = members
        .into_iter()
        .partition(|member| !apart && is_here(&member.name));
    let fork = Boot {
        kind: "fork".to_owned(),
        agent: bytes(own),
        ..boot.clone()
    };
    let mut branches: Vec<(Vec<Member>, Boot)> = tree::branches(&there, boot.width as usize)
        .into_iter()
        .map(|branch| (branch, boot.clone()))
        .collect();
    branches.extend(here.into_iter().map(|member| (vec![member], fork.clone())));
    let size = placement.node_of.len();
    let mapping = placement.mapping();
    let window = (OUTPUT / placement.hosts.len().max(1)).clamp(WINDOW.0, WINDOW.1);
    let cwd = folder()?;
    let part = |section: &Section| Part {
        count: section.count as u32,
        wdir: bytes(match &section.wdir {
            Some(wdir) => cwd.join(wdir),
            None => cwd.clone(),
        }),
        command: section
            .command
            .iter()
            .map(|word| Bytes(word.clone().into_vec()))
            .collect(),
        environment: of_ranks(section, many.interface.as_deref()),
    };
    let appnums = (0..).zip(&options.sections);
    Ok(Setup {
        common: Common {
            kvs: crate::job::kvs_name(),
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
            input: many.input.ranks(size),
            terminal: std::io::stdin().is_terminal(),
            boot,
            window: window as u32,
            universe: options
                .many
                .universe(size, 0)
                .map(|number| u32::try_from(number).unwrap_or(u32::MAX)),
            spawned: options.spawned.is_some(),
            preput: options
                .spawned
                .as_ref()
                .map_or(Vec::new(), |one| one.preput.clone()),
        },
        branches,
        appnums: appnums
            .flat_map(|(appnum, section)| std::iter::repeat_n(appnum, section.count))
            .collect(),
    })
}

/// The working folder, by the name that the shell has for it: what it is on other hosts as well,
/// where links and mounts are alike.
fn folder() -> Result<PathBuf, String> {
    let here = env::current_dir().map_err(|e| format!("can't find the working directory: {e}"))?;
    let Some(named) = env::var_os("PWD").map(PathBuf::from) else {
        return Ok(here);
    };
    let same = match (fs::metadata(&named), fs::metadata(&here)) {
        (Ok(a), Ok(b)) => named.is_absolute() && (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    };
    Ok(if same { named } else { here })
}

/// The environment of a section's ranks.
fn of_ranks(section: &Section, interface: Option<&str>) -> Vec<(Bytes, Bytes)> {
    let mut all = environment(section);
    if section.inherit == Inherit::All {
        let given = |name: &OsString| section.set.iter().any(|(set, _)| set == name);
        all.retain(|(name, _)| given(name) || !is_of_this_host(name.as_encoded_bytes()));
    }
    const INTERFACE: &str = "WEFT_TCP_INTERFACE";
    if let Some(interface) = interface
        && !all.iter().any(|(name, _)| name == INTERFACE)
    {
        all.push((INTERFACE.into(), interface.into()));
    }
    let bytes = |text: OsString| Bytes(text.into_vec());
    all.into_iter()
        .map(|(name, value)| (bytes(name), bytes(value)))
        .collect()
}

/// Whether a variable is about the host or the session that we are in.
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
