//! The options for the launcher of a spawned job.

use std::ffi::{OsStr, OsString};

use pmi::{Command, SPAWN_KEYS, Spawn, words::protect};

use super::pool::{self, Pool};
use super::{OFFER, OWN, POOL, PREPUT, USED};
use crate::children::JOIN;
use crate::hosts::{self, Host};
use crate::options::{INITIAL_ERRHANDLER, Inherit, Many, Section, Universe, quoted};

/// Protects words that would end a section.
fn protected(words: Vec<OsString>) -> Vec<OsString> {
    words.iter().map(|word| protect(word)).collect()
}

/// Returns the options that a spawned job inherits: the launching of agents, and `-usize`.
pub fn of_launcher(many: &Many) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    let mut add = |name: &str, value: OsString| words.extend([name.into(), value]);
    if let Some(kind) = many.bootstrap.as_ref().filter(|kind| *kind != JOIN) {
        add("-bootstrap", kind.into());
    }
    if let Some(exec) = &many.exec {
        add("-bootstrap-exec", exec.clone());
    }
    for word in &many.words {
        add("-bootstrap-exec-args", quoted(word));
    }
    if let Some(interface) = &many.interface {
        add("-iface", interface.into());
    }
    if let Some(prefix) = &many.prefix {
        add("-prefix", prefix.into());
    }
    add("-bootstrap-width", many.width.to_string().into());
    add("-bootstrap-timeout", many.patience().to_string().into());
    add("-agent-timeout", many.silence.to_string().into());
    add("-stdin", "none".into());
    match many.universe {
        Some(Universe::Processes(number)) => add("-usize", number.to_string().into()),
        Some(Universe::Infinite) => add("-usize", "infinite".into()),
        None => {}
    }
    if many.encrypt {
        words.push("-encrypt".into());
    }
    if !many.oversubscribe {
        words.push("-nooversubscribe".into());
    }
    protected(words)
}

/// Returns the hosts that a command names. Adds those of `add-host` and `add-hostfile` to the pool.
fn named(command: &Command, pool: &mut Pool) -> Result<Option<Vec<Host>>, String> {
    let mut all: Option<Vec<Host>> = None;
    for key in ["host", "hosts", "hostfile", "add-host", "add-hostfile"] {
        let found = match key.ends_with("file") {
            true => command.info(key).map(|file| pool.of_file(key, file)),
            false => command
                .info_text(key)?
                .map(|names| pool.named(key, hosts::list(names))),
        };
        let Some(found) = found.transpose()? else {
            continue;
        };
        if key.starts_with("add-") {
            pool.add(&found);
        }
        all.get_or_insert_default().extend(found);
    }
    Ok(all)
}

/// Returns all options of a job. `like` is the section of the spawning rank.
pub fn of_job(spawn: &Spawn, like: &Section, pool: &mut Pool) -> Result<Vec<OsString>, String> {
    let mut words: Vec<OsString> = Vec::new();
    for (key, value) in &spawn.preput {
        words.extend([format!("-{PREPUT}").into(), key.into(), value.into()]);
    }
    let mut own = Vec::new();
    for command in &spawn.commands {
        own.push(named(command, pool)?);
    }
    let anywhere = spawn.commands.iter().zip(&own);
    let anywhere = anywhere.filter(|(_, own)| own.is_none());
    let wanted: usize = anywhere.map(|(command, _)| command.count).sum();
    if wanted > 0 {
        let offer = pool.offer(wanted)?;
        if !offer.is_empty() {
            words.extend([format!("-{OFFER}").into(), pool::show(&offer).into()]);
        }
    }
    let all = pool.all();
    if !all.is_empty() {
        words.extend([format!("-{POOL}").into(), pool::show(&all).into()]);
        words.extend([format!("-{USED}").into(), pool.used().into()]);
    }
    // Info keys for the whole job, most with Open MPI's names.
    for (key, option) in [
        ("mpi_initial_errhandler", "-initial-errhandler"),
        ("map_by", "-map-by"),
        ("bind_to", "-bind-to"),
        ("npernode", "-npernode"),
    ] {
        if let Some(one) = spawn.commands.iter().find(|one| one.info(key).is_some())
            && let Some(value) = one.info_text(key)?
        {
            words.extend([option.into(), value.into()]);
        }
    }
    let mut words = protected(words);
    let like = as_chosen(like, spawn);
    for (number, (command, own)) in spawn.commands.iter().zip(own).enumerate() {
        if number > 0 {
            words.push(":".into());
        }
        words.extend(protected(of_section(command, own, &like)?));
    }
    Ok(words)
}

/// Returns the section of the spawning rank, without its initial error handler if an Info key names
/// one: the variable of a section would override the option of the job.
fn as_chosen(like: &Section, spawn: &Spawn) -> Section {
    let mut like = like.clone();
    let mut commands = spawn.commands.iter();
    if commands.any(|one| one.info("mpi_initial_errhandler").is_some()) {
        like.set.retain(|(name, _)| name != INITIAL_ERRHANDLER);
    }
    like
}

fn of_section(
    command: &Command,
    own: Option<Vec<Host>>,
    like: &Section,
) -> Result<Vec<OsString>, String> {
    let mut args: Vec<OsString> = vec!["-n".into(), command.count.to_string().into()];
    match &like.inherit {
        Inherit::All => {}
        Inherit::None => args.push("-envnone".into()),
        Inherit::List(names) => {
            args.extend(["-envlist".into(), names.join(OsStr::new(","))]);
        }
    }
    let info = |key: &str| command.info(key);
    // The section's own values are from the spawn that has started it.
    let is_own = |name: &OsStr| SPAWN_KEYS.iter().any(|(_, variable)| name == *variable);
    for (name, value) in like.set.iter().filter(|(name, _)| !is_own(name)) {
        args.extend(["-env".into(), name.clone(), value.clone()]);
    }
    for (key, variable) in SPAWN_KEYS {
        if let Some(value) = info(key) {
            args.extend(["-env".into(), variable.into(), value.into()]);
        }
    }
    if let Some(hosts) = &own {
        args.extend([format!("-{OWN}").into(), pool::show(hosts).into()]);
    }
    let wdir = info("wdir").or_else(|| info("wd"));
    match (wdir, &like.wdir) {
        (Some(dir), _) => args.extend(["-wdir".into(), dir.into()]),
        (None, Some(dir)) => args.extend(["-wdir".into(), dir.into()]),
        (None, None) => {}
    }
    let program = match (command.locate(), info("path")) {
        (Ok(program), _) => program,
        // The program may be on the other hosts only; their agents search for it.
        (Err(_), Some(path)) if own.is_some() && info("arch").is_none() => {
            args.extend(["-path".into(), path.into()]);
            command.program.clone()
        }
        (Err(why), _) => return Err(why),
    };
    args.push("--".into());
    args.push(program);
    args.extend(command.args.iter().cloned());
    Ok(args)
}
