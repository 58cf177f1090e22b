//! Options about hosts: their names, the placement of ranks, and the launching of agents.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::binding::{self, Bind, Memory, To};
use crate::children::KINDS;
use crate::hosts::batch::SYSTEMS;
use crate::hosts::place::Order;
use crate::hosts::rankfile::{self, Entry};
use crate::hosts::{self, Host, MAX_RANKS, MOST_SLOTS};
use crate::spawned;
use crate::topology::{ObjectKind, cpu_list};
use crate::wire::link::{MAX_SILENCE, SILENCE};

use super::syntax::{contents, split};
use super::text;

/// The values of these options.
#[derive(Debug)]
pub struct Many {
    /// Hosts for all sections.
    pub hosts: Vec<Host>,
    /// All hosts that the job may use, also for spawned processes.
    pub pool: Vec<Host>,
    /// Slots of these hosts that other jobs use.
    pub used: Vec<(String, usize)>,
    /// The value of `-usize`.
    pub universe: Option<Universe>,
    /// Ranks on each host.
    pub per_host: Option<usize>,
    /// Whether the machine's objects give the number of ranks without `-n` (`-map-by ppr:N:socket`).
    pub ppr: bool,
    /// The order in which ranks take slots.
    pub order: Order,
    /// Whether hosts may get more ranks than they have slots.
    pub oversubscribe: bool,
    /// Whether this machine gets no ranks.
    pub skip_this: bool,
    /// The batch system that names the hosts; `user` for none.
    pub rmk: Option<String>,
    /// The launcher of agents.
    pub bootstrap: Option<String>,
    /// The command that starts agents.
    pub exec: Option<OsString>,
    /// The arguments of `exec`.
    pub words: Vec<OsString>,
    /// The network between agents.
    pub interface: Option<String>,
    /// Whether the ranks encrypt their TCP connections.
    pub encrypt: bool,
    /// Where Weft is on the other hosts.
    pub prefix: Option<PathBuf>,
    /// Most agents that one agent starts.
    pub width: usize,
    /// Seconds that a host has to answer, if not the default.
    pub patience: Option<u32>,
    /// Seconds of silence after which a host counts as lost.
    pub silence: u32,
    /// How this machine joins others.
    pub join: Option<Join>,
    /// The ranks that get standard input.
    pub input: Input,
    /// Whether to print the ranks of each host.
    pub print_map: bool,
    /// Whether to print the CPUs of each rank.
    pub report_bindings: bool,
    /// Whether to print the placement only, and start nothing.
    pub dry_run: bool,
    /// Host and binding of each rank, from a rankfile.
    pub rankfile: Option<Vec<Entry>>,
    /// Whether to print the traffic of the connections at the end.
    pub verbose: bool,
}

/// The ranks that get standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// No rank.
    None,
    /// All ranks.
    All,
    /// These ranks.
    Ranks(Vec<usize>),
}

/// The value of `-usize` for the attribute `MPI_UNIVERSE_SIZE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Universe {
    /// This number of processes.
    Processes(usize),
    /// The attribute is not set.
    Infinite,
}

impl Many {
    /// Returns the size of the universe (MPI-4.1 section 11.10.1): the hosts' slots, or this
    /// machine's cores if no hosts were named, but at least the job's ranks. Returns `None` for
    /// `-usize infinite`.
    pub fn universe(&self, ranks: usize, cores: usize) -> Option<usize> {
        match self.universe {
            Some(Universe::Processes(number)) => Some(number),
            Some(Universe::Infinite) => None,
            None if self.pool.is_empty() => Some(ranks.max(cores)),
            None => Some(spawned::slots(&self.pool).max(ranks)),
        }
    }
}

impl Default for Many {
    fn default() -> Many {
        Many {
            hosts: Vec::new(),
            pool: Vec::new(),
            used: Vec::new(),
            universe: None,
            per_host: None,
            ppr: false,
            order: Order::Slots,
            oversubscribe: true,
            skip_this: false,
            rmk: None,
            bootstrap: None,
            exec: None,
            words: Vec::new(),
            interface: None,
            encrypt: false,
            prefix: None,
            width: 32,
            patience: None,
            silence: SILENCE,
            join: None,
            input: Input::Ranks(vec![0]),
            print_map: false,
            report_bindings: false,
            dry_run: false,
            rankfile: None,
            verbose: false,
        }
    }
}

/// How a machine joins others that have started the same command.
#[derive(Debug)]
pub struct Join {
    /// `HOST:PORT` of the first machine.
    pub place: String,
    /// The number of machines, at least 1.
    pub size: usize,
    /// The index of this one.
    pub index: Option<usize>,
    /// The file with the secret.
    pub secret: Option<OsString>,
}

/// The options of [`Join`] as they were given.
#[derive(Debug, Default)]
pub struct JoinDraft {
    place: Option<String>,
    size: Option<usize>,
    index: Option<usize>,
    secret: Option<OsString>,
}

impl JoinDraft {
    /// The names of the options.
    pub const NAMES: &[&str] = &["join", "size", "index", SECRET];

    /// Applies one of [`Self::NAMES`]; returns `false` for others.
    pub fn option(
        &mut self,
        name: &str,
        value: &mut impl FnMut(&str) -> Result<OsString, String>,
    ) -> Result<bool, String> {
        match name {
            "join" => {
                let place = text(&value("HOST:PORT")?);
                let port = place.rsplit_once(':').filter(|(host, _)| !host.is_empty());
                let port = port.and_then(|(_, port)| port.parse().ok());
                if port.is_none_or(|port: u16| port == 0) {
                    return Err(format!(
                        "option -join: '{place}' is not HOST:PORT, the address of the first machine"
                    ));
                }
                self.place = Some(place);
            }
            "size" => {
                let size = super::count(name, &value("a number of machines")?)?;
                if size > MAX_RANKS {
                    return Err(format!("option -size is {size}; it is at most {MAX_RANKS}"));
                }
                self.size = Some(size);
            }
            "index" => {
                let index = text(&value("a number")?);
                self.index = Some(index.parse().map_err(|_| {
                    format!("option -index is '{index}'; it must be a whole number, 0 or more")
                })?);
            }
            SECRET => self.secret = Some(value("a file")?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Checks that the options belong together. `has_hosts`: whether there are options about hosts.
    pub fn finish(self, has_hosts: bool) -> Result<Option<Join>, String> {
        let Some(place) = self.place else {
            let given = [
                ("size", self.size.is_some()),
                ("index", self.index.is_some()),
                (SECRET, self.secret.is_some()),
            ];
            return match given.iter().find(|(_, given)| *given) {
                Some((name, _)) => Err(format!(
                    "option -{name} has no use without -join HOST:PORT; add that or leave it out"
                )),
                None => Ok(None),
            };
        };
        if has_hosts {
            return Err(
                "-join and hosts or -bootstrap can't be used together, since the machines come by \
                 themselves; leave one out"
                    .to_owned(),
            );
        }
        let Some(size) = self.size else {
            return Err("option -join needs -size N, the number of machines".to_owned());
        };
        Ok(Some(Join {
            place,
            size,
            index: self.index,
            secret: self.secret,
        }))
    }
}

/// The option that names the file with the secret of machines that join.
const SECRET: &str = "secret";

impl Many {
    /// Returns the seconds that a host has to answer.
    pub fn patience(&self) -> u32 {
        self.patience.unwrap_or(20)
    }

    /// Gives standard input to all ranks.
    pub fn input_for_all(&mut self) {
        if let Ok(all) = input("s", "all") {
            self.input = all;
        }
    }
}

/// The names of these options.
pub const NAMES: &[&str] = &[
    "hosts",
    "host",
    "H",
    "hosts-group",
    "hostlist",
    "f",
    "hostfile",
    "machinefile",
    "default-hostfile",
    "ppn",
    "perhost",
    "npernode",
    "N",
    "pernode",
    "grr",
    "rr",
    "bynode",
    "byslot",
    "map-by",
    "bycore",
    "npersocket",
    "bind-to-core",
    "bind-to-socket",
    "bind-to-none",
    "cpus-per-proc",
    "cpus-per-rank",
    "report-bindings",
    "display-bindings",
    "dry-run",
    "do-not-launch",
    "display",
    "display-allocation",
    "display-devel-map",
    "ppr",
    "rankfile",
    "rf",
    "membind",
    "topolib",
    "oversubscribe",
    "nooversubscribe",
    "skip-launch-node",
    "nolocal",
    "rmk",
    "launcher",
    "bootstrap",
    "launcher-exec",
    "bootstrap-exec",
    "launcher-exec-args",
    "bootstrap-exec-args",
    "iface",
    "encrypt",
    "prefix",
    "bootstrap-width",
    "bootstrap-timeout",
    "agent-timeout",
    "s",
    "stdin",
    "usize",
    "print-rank-map",
    "display-map",
    "v",
    "verbose",
];

/// Applies an option of [`NAMES`]; returns `false` for others. `own` are the hosts of the section.
pub fn option(
    name: &str,
    value: &mut impl FnMut(&str) -> Result<OsString, String>,
    many: &mut Many,
    own: &mut Option<Vec<Host>>,
    bind: &mut Bind,
) -> Result<bool, String> {
    let said = |why: String| format!("option -{name}: {why}");
    match name {
        // Hydra's and Open MPI's, for one section.
        "host" | "H" => {
            let text = text(&value("names")?);
            own.get_or_insert_default()
                .extend(hosts::list(&text).map_err(said)?);
        }
        "hosts" | "hostlist" | "hosts-group" => {
            let text = text(&value("names")?);
            many.hosts.extend(hosts::list(&text).map_err(said)?);
        }
        "f" | "hostfile" | "machinefile" | "default-hostfile" => {
            let file = value("a file name")?;
            let words = contents(name, &file)?;
            // Host names are ASCII; comments in the file may have any encoding.
            let words = String::from_utf8_lossy(&words);
            let hosts = hosts::file::read(&text(&file), &words);
            many.hosts.extend(hosts.map_err(said)?);
        }
        "ppn" | "perhost" | "npernode" | "N" => {
            let count = super::count(name, &value("a number of ranks")?)?;
            many.per_host = Some(count.min(MOST_SLOTS));
        }
        "pernode" => many.per_host = Some(1),
        "grr" => {
            let count = super::count(name, &value("a number of ranks")?)?;
            many.order = Order::Nodes(count);
        }
        "rr" | "bynode" => many.order = Order::Nodes(1),
        "byslot" => many.order = Order::Slots,
        "bycore" => bind.map = Some((ObjectKind::Core, 1)),
        "npersocket" => {
            let count = super::count(name, &value("a number of ranks")?)?;
            bind.map = Some((ObjectKind::Socket, count));
            many.ppr = true;
        }
        "bind-to-core" => bind.to = To::Objects(ObjectKind::Core, 1),
        "bind-to-socket" => bind.to = To::Objects(ObjectKind::Socket, 1),
        "bind-to-none" => bind.to = To::None,
        "cpus-per-proc" | "cpus-per-rank" => {
            let count = super::count(name, &value("a number of cores")?)?;
            bind.to = To::Objects(ObjectKind::Core, count);
        }
        "report-bindings" | "display-bindings" => many.report_bindings = true,
        "dry-run" | "do-not-launch" => many.dry_run = true,
        // Open MPI's collective option for what to print.
        "display" => {
            for what in text(&value("'map', 'bind' or both")?).split(',') {
                match what {
                    "map" | "map-devel" | "allocation" => many.print_map = true,
                    "bind" | "bindings" => many.report_bindings = true,
                    _ => {
                        return Err(said(format!(
                            "takes 'map', 'bind' or both with a comma, not '{what}'"
                        )));
                    }
                }
            }
        }
        "rankfile" | "rf" => {
            let file = value("a file name")?;
            let words = contents(name, &file)?;
            let words = String::from_utf8_lossy(&words);
            let entries = rankfile::read(&text(&file), &words).map_err(said)?;
            let slots = entries.iter().map(|entry| entry.slots.clone());
            bind.to = To::Slots(slots.collect());
            many.rankfile = Some(entries);
        }
        "membind" => {
            let how = text(&value("'local', 'none', 'bind' or 'interleave'")?);
            bind.memory = Memory::read(&how).ok_or_else(|| {
                said(format!(
                    "takes 'local', 'none', 'bind[:NODES]' or 'interleave[:NODES]' with NODES such as 0+1, \
                     not '{how}'"
                ))
            })?;
        }
        "topolib" => {
            let who = text(&value("'hwloc' or 'sys'")?);
            bind.library = binding::library(&who).ok_or_else(|| {
                said(format!(
                    "takes 'auto', 'hwloc', 'sys' or the name of hwloc's library, not '{who}'"
                ))
            })?;
        }
        "ppr" => {
            let how = text(&value("a number and a kind")?);
            map_by(&format!("ppr:{how}"), many, bind)?;
        }
        "map-by" => map_by(&text(&value("'slot', 'node' or the like")?), many, bind)?,
        "oversubscribe" => many.oversubscribe = true,
        "nooversubscribe" => many.oversubscribe = false,
        "skip-launch-node" | "nolocal" => many.skip_this = true,
        "rmk" => {
            let system = text(&value("a batch system")?);
            if system != "user" && !SYSTEMS.contains(&system.as_str()) {
                return Err(format!(
                    "option -rmk takes 'user' or one of {}, not '{system}'",
                    SYSTEMS.join(", ")
                ));
            }
            many.rmk = Some(system);
        }
        "launcher" | "bootstrap" => {
            let kind = text(&value("a kind")?);
            many.bootstrap = match kind.as_str() {
                "auto" => None,
                kind if KINDS.contains(&kind) => Some(kind.to_owned()),
                kind => {
                    return Err(format!(
                        "option -{name} takes one of {}, not '{kind}'",
                        KINDS.join(", ")
                    ));
                }
            };
        }
        "launcher-exec" | "bootstrap-exec" => many.exec = Some(value("a command")?),
        "launcher-exec-args" | "bootstrap-exec-args" => {
            let words = split(value("words for the command")?.as_bytes());
            let words = words.ok_or_else(|| said("a quotation mark is not closed".into()))?;
            many.words.extend(words);
        }
        "iface" => many.interface = Some(text(&value("an interface")?)),
        "encrypt" => many.encrypt = true,
        "prefix" => many.prefix = Some(PathBuf::from(value("a folder")?)),
        "bootstrap-width" => many.width = super::count(name, &value("a number")?)?,
        "bootstrap-timeout" => {
            let seconds = super::count(name, &value("a number of seconds")?)?;
            many.patience = Some(u32::try_from(seconds).unwrap_or(u32::MAX).min(86_400));
        }
        "agent-timeout" => {
            let seconds = super::count(name, &value("a number of seconds")?)?;
            let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
            if seconds > MAX_SILENCE {
                return Err(said(format!(
                    "{seconds} seconds are too many; it is at most {MAX_SILENCE}"
                )));
            }
            many.silence = seconds;
        }
        "s" | "stdin" => many.input = input(name, &text(&value("a rank, 'all' or 'none'")?))?,
        "usize" => many.universe = universe(&text(&value("a number, 'infinite' or 'system'")?))?,
        "print-rank-map" | "display-map" | "display-allocation" | "display-devel-map" => {
            many.print_map = true
        }
        "v" | "verbose" => many.verbose = true,
        _ => return Ok(false),
    }
    Ok(true)
}

fn map_by(how: &str, many: &mut Many, bind: &mut Bind) -> Result<(), String> {
    let instead = match how.to_ascii_lowercase() {
        how if how.starts_with("rankfile") => Some("-rankfile FILE"),
        how if how.starts_with("pe-list=") => Some("-bind-to user:LIST"),
        _ => None,
    };
    if let Some(instead) = instead {
        return Err(format!(
            "option -map-by: '{how}' is not supported; use {instead}"
        ));
    }
    // Open MPI's modifiers follow a colon; `ppr:N:KIND` has two colons of its own.
    let colons = if how.starts_with("ppr:") { 2 } else { 0 };
    let end = how.match_indices(':').nth(colons).map(|(at, _)| at);
    let (what, modifiers) = how.split_at(end.unwrap_or(how.len()));
    let mut width = None;
    let mut unit = ObjectKind::Core;
    for modifier in modifiers.split([',', ':']).filter(|m| !m.is_empty()) {
        let modifier = modifier.to_ascii_lowercase();
        match modifier.as_str() {
            "oversubscribe" => many.oversubscribe = true,
            "nooversubscribe" => many.oversubscribe = false,
            "nolocal" => many.skip_this = true,
            "hwtcpus" => unit = ObjectKind::Thread,
            "corecpus" => unit = ObjectKind::Core,
            // Weft's behaviour in both cases.
            "inherit" | "noinherit" => {}
            _ => {
                let number = modifier.strip_prefix("pe=").and_then(|n| n.parse().ok());
                let number: Option<usize> = number.filter(|number| *number > 0);
                width = Some(number.ok_or_else(|| {
                    format!(
                        "option -map-by: '{modifier}' in '{how}' is not a modifier; use 'pe=N', 'hwtcpus', \
                         'oversubscribe', 'nooversubscribe' or 'nolocal', and 'ppr:N:socket' for N ranks \
                         on each"
                    )
                })?);
            }
        }
    }
    if let Some(width) = width {
        bind.to = To::Objects(unit, width);
    }
    match what.to_ascii_lowercase().as_str() {
        "slot" | "" => many.order = Order::Slots,
        "node" => many.order = Order::Nodes(1),
        "seq" => many.order = Order::Mentions,
        what => {
            let per_node = what
                .strip_prefix("ppr:")
                .and_then(|rest| rest.strip_suffix(":node"))
                .and_then(|number| number.parse().ok())
                .filter(|number| *number > 0);
            if let Some(number) = per_node {
                many.per_host = Some(MOST_SLOTS.min(number));
                many.order = Order::Slots;
                return Ok(());
            }
            let map = binding::map(what).ok_or_else(|| {
                format!(
                    "option -map-by takes 'slot', 'node', 'seq', one of hwthread, core, l2cache, \
                     l3cache, numa and socket, or 'ppr:N:' before 'node' or one of these, not '{how}'"
                )
            })?;
            bind.map = Some(map);
            many.ppr = what.starts_with("ppr:");
        }
    }
    Ok(())
}

fn universe(text: &str) -> Result<Option<Universe>, String> {
    match text.to_ascii_lowercase().as_str() {
        "infinite" => Ok(Some(Universe::Infinite)),
        "system" => Ok(None),
        number => match number.parse().ok().filter(|number| *number > 0) {
            Some(number) => Ok(Some(Universe::Processes(number))),
            None => Err(format!(
                "option -usize takes a number of processes, 'infinite' or 'system', not '{text}'"
            )),
        },
    }
}

fn input(name: &str, who: &str) -> Result<Input, String> {
    match who {
        "all" => Ok(Input::All),
        "none" => Ok(Input::None),
        list => {
            let list: String = list.chars().filter(|c| !c.is_whitespace()).collect();
            cpu_list(&list).map(Input::Ranks).ok_or_else(|| {
                format!("option -{name} takes ranks (0,2-4), 'all' or 'none', not '{list}'")
            })
        }
    }
}

impl Input {
    /// Returns the ranks of a job of `size` ranks that get standard input.
    pub fn ranks(&self, size: usize) -> Vec<u32> {
        match self {
            Input::None => Vec::new(),
            Input::All => (0..size as u32).collect(),
            Input::Ranks(ranks) => {
                let there = ranks.iter().filter(|rank| **rank < size);
                there.map(|rank| *rank as u32).collect()
            }
        }
    }
}
