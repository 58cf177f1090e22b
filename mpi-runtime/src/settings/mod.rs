//! The control variables: all that the environment can change, in one table.
//!
//! The tool interface reads and writes them as well (`tool::cvars`), and `docs/tuning.md` is
//! generated from the table.

pub mod document;
pub mod hints;
pub mod text;
pub mod unread;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::{LazyLock, OnceLock};

use mpi_core::process::CriticalSections;
use mpi_rma::{NetworkAtomics, PassiveTargets};
use netmod_kit::events;
use netmod_kit::variables::Reader;
pub use netmod_kit::variables::{Variable, parse_number};
use parking_lot::Mutex;

mod algorithms;
mod costs;

pub use algorithms::{add_choices, choices, choices_with_table, old_spellings};
pub use costs::{Source as CostsSource, find as find_costs};

use crate::bootstrap::netmods::{self, Choice, NETMODS};

/// Values set through the tool interface; they override the environment's.
static OVERRIDES: Mutex<BTreeMap<&'static str, String>> = Mutex::new(BTreeMap::new());

/// Values that `MPI_Init` read.
static AT_INIT: OnceLock<BTreeMap<&'static str, String>> = OnceLock::new();

fn look_up(name: &str) -> Option<String> {
    let given = OVERRIDES.lock().get(name).cloned();
    given.or_else(|| std::env::var(name).ok())
}

/// Returns the text of a variable that is set; from `MPI_Init` on, the text that it read.
pub fn raw(name: &str) -> Option<String> {
    match AT_INIT.get() {
        Some(chosen) => chosen.get(name).cloned(),
        None => look_up(name),
    }
    .filter(|value| !value.is_empty())
}

/// Returns an environment variable; for a control variable, a tool's value comes first.
pub fn environment(name: &str) -> Option<OsString> {
    match variables().iter().any(|variable| variable.name == name) {
        true => raw(name).map(OsString::from),
        false => std::env::var_os(name),
    }
}

/// Returns a variable's text for people and tools; unset cost variables show the costs file's
/// content.
pub fn displayed(name: &str) -> Option<String> {
    raw(name).or_else(|| match name {
        "WEFT_COLL_COSTS" | "WEFT_COLL_COSTS_FILE" => {
            costs::unset_value(name, raw("WEFT_COLL_COSTS_FILE").as_deref())
        }
        _ => None,
    })
}

/// Returns the variables that are set, each with its value and who has set it; without `WEFT_INFO`,
/// which asks for them.
pub fn in_force() -> Vec<String> {
    let line = |variable: &Variable| {
        let Variable { name, help, .. } = variable;
        let by = match OVERRIDES.lock().contains_key(name) {
            true => "MPI_T_cvar_write",
            false if help.contains("mpiexec sets it") => "the launcher",
            false => "the environment",
        };
        raw(name).map(|value| format!("{name}={value} by {by}"))
    };
    let others = variables().iter().filter(|it| it.name != "WEFT_INFO");
    others.filter_map(line).collect()
}

/// Returns whether `MPI_Init` has read the variables, so that they can no longer be changed.
pub fn are_read() -> bool {
    AT_INIT.get().is_some()
}

/// Sets a variable before `MPI_Init`. An empty value unsets it.
///
/// # Errors
/// The value is invalid.
pub fn override_value(variable: &'static Variable, value: String) -> Result<(), String> {
    Settings::read(|name| (name == variable.name).then(|| value.clone()))?;
    OVERRIDES.lock().insert(variable.name, value);
    Ok(())
}

/// Returns all control variables: Weft's own, each followed by those of the transports it selects.
pub fn variables() -> &'static [Variable] {
    static ALL: LazyLock<Vec<Variable>> = LazyLock::new(|| {
        let mut all = Vec::new();
        for variable in COMMON {
            match variable.name {
                "WEFT_SHM" => {
                    all.push(*variable);
                    all.extend(shmmod::VARIABLES);
                }
                "WEFT_NETMOD" => {
                    all.push(netmods::variable());
                    all.extend(NETMODS.iter().flat_map(|netmod| netmod.variables));
                }
                _ => all.push(*variable),
            }
        }
        all
    });
    &ALL
}

/// The variable of the initial error handler; `mpiexec -initial-errhandler` sets it.
pub const INITIAL_ERRHANDLER: &str = "WEFT_INITIAL_ERRHANDLER";

/// Names of predefined error handlers in info objects and on command lines.
pub const ERRHANDLERS: [&str; 3] = [
    "mpi_errors_are_fatal",
    "mpi_errors_abort",
    "mpi_errors_return",
];

/// The variables that belong to no transport.
const COMMON: &[Variable] = &[
    Variable {
        name: "WEFT_SHM",
        kind: "0 or 1",
        default: "1",
        help: "Shared memory between the processes of a node, the same on all ranks. With 0 they use \
               the netmod, as if they were on different nodes.",
    },
    Variable {
        name: "WEFT_EAGER_LIMIT",
        kind: "bytes",
        default: "8192; 65536 between nodes over TCP",
        help: "Messages up to this size are sent eagerly, before the receiver asks for them. Transports may \
               allow less; over TCP a single message of up to 262144 bytes is sent eagerly, too. If the \
               variable is set, longer messages always wait for their receivers: with 0, programs that rely \
               on buffering hang.",
    },
    Variable {
        name: "WEFT_EAGER_WINDOW",
        kind: "bytes",
        default: "1048576, less in jobs of more than 64 processes",
        help: "How many bytes a sender may have in a receiver's unexpected queue, per pair of processes; \
               further messages wait at the sender.",
    },
    Variable {
        name: "WEFT_NUM_VCIS",
        kind: "count",
        default: "64",
        help: "The greatest number of VCIs that this process opens. They are opened when a \
               communicator or window first asks for one; unused ones cost nothing.",
    },
    Variable {
        name: "WEFT_DUP_VCIS",
        kind: "auto or count",
        default: "auto",
        help: "VCIs that communicators get without hints, the same on all ranks. With auto and \
               MPI_THREAD_MULTIPLE, communicators use as many VCIs as the process has cores, in turn. With 0 \
               all use VCI 0. With 1 each duplicate made by MPI_Comm_dup gets a VCI of its own while some \
               are left. See docs/vcis.md.",
    },
    Variable {
        name: "WEFT_CRITICAL_SECTION",
        kind: "per-vci, global or lockless",
        default: "per-vci",
        help: "With MPI_THREAD_MULTIPLE: per-vci gives each VCI a lock; global uses one lock for all (for \
               measuring); lockless removes the lock from VCIs that communicators get by hints (the same on \
               all ranks: as if all these communicators had the hint weft_lockless, see docs/vcis.md).",
    },
    Variable {
        name: "WEFT_REQUEST_CACHE",
        kind: "0 or 1",
        default: "1",
        help: "With 1 each VCI has a cache of free requests. With 0 (for measuring) all VCIs use one \
               shared pool.",
    },
    Variable {
        name: "WEFT_PROGRESS_ROUND",
        kind: "count",
        default: "64",
        help: "A waiting thread polls the VCIs that it waits for, and all others once per this number of \
               fruitless polls. With 1 all are polled every time. 0 never polls the others (for measuring \
               only, since correct programs can then hang).",
    },
    Variable {
        name: INITIAL_ERRHANDLER,
        kind: "mpi_errors_are_fatal, mpi_errors_abort or mpi_errors_return",
        default: "mpi_errors_are_fatal",
        help: "The initial error handler of MPI_COMM_WORLD and MPI_COMM_SELF, also used for errors before \
               they exist (MPI-4.1 section 9.3). mpiexec -initial-errhandler sets it.",
    },
    Variable {
        name: "WEFT_ASYNC_PROGRESS",
        kind: "0 or 1",
        default: "0",
        help: "With 1 a thread of each process serves its windows to processes of other nodes while the \
               program computes outside MPI. It sleeps while there are no such windows. All calls then take \
               locks, as with MPI_THREAD_MULTIPLE.",
    },
    Variable {
        name: "WEFT_RMA_NATIVE",
        kind: "0 or 1",
        default: "1",
        help: "With 0 MPI_Put and MPI_Get between nodes use messages that the target's process handles, \
               whatever remote memory the network offers.",
    },
    Variable {
        name: "WEFT_RMA_ATOMICS",
        kind: "auto, network or messages",
        default: "auto",
        help: "How accumulates work in windows over several nodes whose hints promise that the network's \
               atomics cover them (see docs/vcis.md), the same on all ranks. auto: by the network if targets \
               then need not call MPI; network: wherever the transport has atomics; messages: never by the \
               network.",
    },
    Variable {
        name: "WEFT_RMA_PASSIVE",
        kind: "auto, on or off",
        default: "auto",
        help: "Whether passive targets of windows over several nodes need not call MPI, the same on all \
               ranks: the network's atomics then carry out locks and accumulates, and its remote memory puts \
               and gets. auto: where the adapter does all of these without the target's processor (verbs, with \
               atomics); on: wherever the transport has remote memory and atomics; off: synchronization and \
               accumulates use messages.",
    },
    Variable {
        name: "WEFT_ALLOC_SHARED",
        kind: "0 or 1",
        default: "1",
        help: "With 1 MPI_Alloc_mem takes 64 KiB and more from memory that processes of the node can map, so \
               that windows created on it are as fast as allocated ones. A forked process shares it with its \
               parent. Up to 32 MiB of freed memory are kept for later calls. With 0 all memory is private.",
    },
    Variable {
        name: "WEFT_SPIN",
        kind: "count",
        default: "50000, or 0.15 ms while other programs use the core; 4 when a node has more ranks \
                  than cores",
        help: "Fruitless polls of a waiting thread before it yields its core between polls, or sleeps. If the \
               variable is set, the value also holds on busy cores.",
    },
    Variable {
        name: "WEFT_YIELD",
        kind: "count",
        default: "0; 200 when a node has more ranks than cores",
        help: "Yields of a waiting thread before it sleeps until something arrives.",
    },
    Variable {
        name: "WEFT_NETMOD",
        kind: "name",
        default: "auto",
        help: "Replaced by `netmods::variable`.",
    },
    Variable {
        name: "WEFT_COLL",
        kind: "list",
        default: "auto",
        help: mpi_sched::collective::HELP,
    },
    Variable {
        name: "WEFT_COLL_TABLE",
        kind: "name",
        default: "none",
        help: "A tuning file, the same on all ranks; osu-bench tune writes it. A line is a rule: collective, ranks, \
               ranks per node, bytes, algorithms as in WEFT_COLL, for instance \"bcast 8 1 32k scatter-ring\". It \
               applies from these numbers on; of the rules that apply the one with the most ranks decides, then \
               ranks per node, then bytes. mpi-sched/tuning has the built-in rules.",
    },
    Variable {
        name: "WEFT_COLL_COSTS",
        kind: "list",
        default: "a small network's",
        help: "The cost of a write over the network, in microseconds: wire time of a byte, start of a \
               transfer, copy of a byte, the adapter's, the processor's and the library's part, and a \
               reduction, once and per byte. Collectives by rdma choose their algorithm by it. Without it \
               the costs of the netmod in use come from the file of WEFT_COLL_COSTS_FILE. A communicator \
               uses the costs of its rank 0.",
    },
    Variable {
        name: "WEFT_COLL_COSTS_FILE",
        kind: "name",
        default: "weft/costs.HOST in $XDG_CONFIG_HOME or ~/.config, if there is one",
        help: "A file with the cost of writes over each netmod on this host, and per collective the bytes up to \
               which writes are faster than messages; osu-bench tune --costs writes it. Rank 0 reports an \
               unusable file, which is ignored.",
    },
    Variable {
        name: "WEFT_COLL_PRINT",
        kind: "0 or 1",
        default: "0",
        help: "With 1 rank 0 of each communicator prints the algorithm of each collective when it is first \
               called with these arguments.",
    },
    Variable {
        name: "WEFT_COLL_NODE",
        kind: "count",
        default: "as reported by the launcher",
        help: "Collectives and MPI_Cart_create treat this number of consecutive ranks of MPI_COMM_WORLD as \
               a node, the same on all ranks.",
    },
    Variable {
        name: "WEFT_PMI",
        kind: "auto, pmi1, pmi2, pmix or none",
        default: "auto",
        help: "The protocol to the launcher, the same on all ranks. With auto the launcher's environment \
               decides: a socket (PMI_FD, PMI_PORT) comes first, then a PMIx server. With none each process \
               runs alone, as rank 0 of 1.",
    },
    Variable {
        name: "WEFT_PMIX_LIBRARY",
        kind: "name",
        default: "the launcher's own, else libpmix.so.2",
        help: "Path of the library that connects to a PMIx server.",
    },
    Variable {
        name: "WEFT_SINGLETON",
        kind: "0 or 1",
        default: "0",
        help: "With 1 the process runs alone, as rank 0 of 1, whichever launcher started it.",
    },
    Variable {
        name: "WEFT_APP_SIZE",
        kind: "count",
        default: "the number of ranks of the job",
        help: "The number of ranks of the job with this rank's command, for `MPI_INFO_ENV`; mpiexec sets it.",
    },
    Variable {
        name: "WEFT_APP_SOFT",
        kind: "name",
        default: "none",
        help: "The key soft of the MPI_Comm_spawn that has started this rank, for `MPI_INFO_ENV`; mpiexec sets it.",
    },
    Variable {
        name: "WEFT_APP_FILE",
        kind: "name",
        default: "none",
        help: "The key file of the MPI_Comm_spawn that has started this rank, for `MPI_INFO_ENV`; mpiexec sets it.",
    },
    Variable {
        name: "WEFT_LOCAL_SIZE",
        kind: "count",
        default: "as reported by the launcher",
        help: "The number of ranks of the job on this node; mpiexec sets it.",
    },
    Variable {
        name: "WEFT_LOCAL_CORES",
        kind: "count",
        default: "as many as this process may use; all of the machine if it may use one only",
        help: "The number of cores that the ranks of this node share. With more ranks than cores, waiting \
               ranks yield to each other. mpiexec sets it.",
    },
    Variable {
        name: "WEFT_HANG",
        kind: "count",
        default: "not at all",
        help: "Seconds without progress in any process of the job, while all wait, after which mpiexec prints \
               what each rank waits for; the job goes on. The same on all ranks. Other launchers print \
               nothing.",
    },
    Variable {
        name: "WEFT_INFO",
        kind: "off, on or all",
        default: "off",
        help: "With on, or 1, rank 0 prints at start the library's version and file, the launcher, the transports \
               in use, which were refused and why, and the variables that are set; mpiexec prints what each rank \
               is bound to. With all it also tries the transports that are not \
               needed.",
    },
    Variable {
        name: "WEFT_LOG",
        kind: "list",
        default: "none",
        help: "Events of protocols to print on standard error, in debug builds and those with the feature \
               trace: vci, send, pending, rendezvous, route, tcp, coll, rma, loss or all, each with =info for \
               rare events only, as in \"vci,rendezvous,tcp=info\". Other builds refuse it.",
    },
    Variable {
        name: unread::SWITCH,
        kind: "0 or 1",
        default: "1",
        help: "With 1 rank 0 prints at start a line for each variable that looks like a misspelt one of Weft's, \
               or is another MPI library's with a counterpart in Weft.",
    },
];

/// The values of the control variables.
#[derive(Clone, Debug, PartialEq)]
#[allow(
    missing_docs,
    reason = "the fields are the variables of the table `COMMON`"
)]
pub struct Settings {
    pub shm: bool,
    pub eager_limit: Option<usize>,
    pub eager_window: Option<u32>,
    pub num_vcis: usize,
    pub dup_vcis: Option<u32>,
    pub critical_sections: CriticalSections,
    pub request_caches: bool,
    pub progress_round: Option<u32>,
    pub async_progress: bool,
    /// Windows use the network's remote memory.
    pub rma_native: bool,
    pub rma_atomics: NetworkAtomics,
    pub rma_passive: PassiveTargets,
    pub alloc_shared: bool,
    pub spin: Option<u32>,
    pub yields: Option<u32>,
    pub netmod: Choice,
    pub coll: Option<String>,
    pub coll_table: Option<String>,
    pub coll_costs: Option<mpi_sched::model::Parameters>,
    pub coll_costs_file: Option<String>,
    pub coll_print: bool,
    pub coll_node: Option<u32>,
    pub local_size: Option<usize>,
    pub local_cores: Option<usize>,
    pub hang: Option<u64>,
    pub info: Info,
    pub warn: bool,
}

/// `WEFT_INFO`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the help of the variable describes the values")]
pub enum Info {
    None,
    Used,
    All,
}

impl Settings {
    /// Reads the environment. The error names the variable, its value, and the allowed values.
    pub fn from_env() -> Result<Settings, String> {
        let settings = Settings::read(look_up)?;
        let found = variables()
            .iter()
            .filter_map(|variable| Some((variable.name, look_up(variable.name)?)));
        let _ = AT_INIT.set(found.collect());
        Ok(settings)
    }

    fn read(get: impl Fn(&str) -> Option<String>) -> Result<Settings, String> {
        let get = |name: &str| {
            debug_assert!(variables().iter().any(|variable| variable.name == name));
            get(name)
        };
        let reader = Reader::new(&get);
        shmmod::Config::read(0, &reader)?;
        for netmod in NETMODS {
            (netmod.check)(&reader)?;
        }
        // Only validated here: the crate `pmi` reads it itself.
        let pmi = reader.text("WEFT_PMI");
        let known = ["auto", "pmi1", "pmi2", "pmix", "none"];
        if let Some(other) = pmi.filter(|text| !known.contains(&text.as_str())) {
            return Err(format!(
                "WEFT_PMI is {other:?}; it can be auto, pmi1, pmi2, pmix or none"
            ));
        }
        reader.flag("WEFT_SINGLETON", false)?;
        // Only validated here: `netmod_kit::events` reads it itself.
        if let Some(text) = reader.text("WEFT_LOG") {
            if !events::ARE_BUILT {
                return Err(
                    "WEFT_LOG is set, but this library was built without events; unset it, or \
                            build with the feature trace of libmpi"
                        .to_string(),
                );
            }
            events::Filter::parse(&text).map_err(|why| format!("WEFT_LOG is {text:?}: {why}"))?;
        }
        let initial = reader.text(INITIAL_ERRHANDLER);
        if let Some(other) = initial.filter(|name| !ERRHANDLERS.contains(&name.as_str())) {
            return Err(format!(
                "{INITIAL_ERRHANDLER} is {other:?}; it can be mpi_errors_are_fatal, \
                 mpi_errors_abort or mpi_errors_return"
            ));
        }
        Ok(Settings {
            shm: reader.flag("WEFT_SHM", true)?,
            eager_limit: reader
                .number("WEFT_EAGER_LIMIT", 0..=1 << 30)?
                .map(|bytes| bytes as usize),
            eager_window: reader
                .number("WEFT_EAGER_WINDOW", 4096..=1 << 30)?
                .map(|bytes| bytes as u32),
            num_vcis: reader
                .number("WEFT_NUM_VCIS", 1..=mpi_core::vci::pool::MAX_VCIS as u64)?
                .unwrap_or(64) as usize,
            dup_vcis: match reader.text("WEFT_DUP_VCIS").as_deref() {
                None | Some("auto") => None,
                Some(_) => reader
                    .number("WEFT_DUP_VCIS", 0..=4096)?
                    .map(|count| count as u32),
            },
            request_caches: reader.flag("WEFT_REQUEST_CACHE", true)?,
            critical_sections: match reader.text("WEFT_CRITICAL_SECTION").as_deref() {
                None | Some("per-vci") => CriticalSections::PerVci,
                Some("global") => CriticalSections::Global,
                Some("lockless") => CriticalSections::Lockless,
                Some(other) => {
                    return Err(format!(
                        "WEFT_CRITICAL_SECTION is {other:?}; it can be per-vci, global or lockless"
                    ));
                }
            },
            progress_round: reader
                .number("WEFT_PROGRESS_ROUND", 0..=1 << 30)?
                .map(|polls| polls as u32),
            async_progress: reader.flag("WEFT_ASYNC_PROGRESS", false)?,
            rma_native: reader.flag("WEFT_RMA_NATIVE", true)?,
            rma_atomics: match reader.text("WEFT_RMA_ATOMICS").as_deref() {
                None | Some("auto") => NetworkAtomics::Auto,
                Some("network") => NetworkAtomics::Always,
                Some("messages") => NetworkAtomics::Never,
                Some(other) => {
                    return Err(format!(
                        "WEFT_RMA_ATOMICS is {other:?}; it can be auto, network or messages"
                    ));
                }
            },
            rma_passive: match reader.text("WEFT_RMA_PASSIVE").as_deref() {
                None | Some("auto") => PassiveTargets::Auto,
                Some("on") => PassiveTargets::On,
                Some("off") => PassiveTargets::Off,
                Some(other) => {
                    return Err(format!(
                        "WEFT_RMA_PASSIVE is {other:?}; it can be auto, on or off"
                    ));
                }
            },
            alloc_shared: reader.flag("WEFT_ALLOC_SHARED", true)?,
            spin: reader
                .number("WEFT_SPIN", 0..=1 << 30)?
                .map(|count| count as u32),
            yields: reader
                .number("WEFT_YIELD", 0..=1 << 30)?
                .map(|count| count as u32),
            netmod: Choice::read(&reader)?,
            coll: {
                let text = reader.text("WEFT_COLL");
                choices(text.as_deref())?;
                text
            },
            coll_table: reader.text("WEFT_COLL_TABLE"),
            coll_costs: match reader.text("WEFT_COLL_COSTS") {
                None => None,
                Some(text) => {
                    let wrong = |why| format!("WEFT_COLL_COSTS is {text:?}: {why}");
                    Some(text.parse().map_err(wrong)?)
                }
            },
            coll_costs_file: reader.text("WEFT_COLL_COSTS_FILE"),
            coll_print: reader.flag("WEFT_COLL_PRINT", false)?,
            coll_node: reader
                .number("WEFT_COLL_NODE", 1..=1 << 30)?
                .map(|count| count as u32),
            local_size: reader
                .number("WEFT_LOCAL_SIZE", 1..=1 << 30)?
                .map(|count| count as usize),
            local_cores: reader
                .number("WEFT_LOCAL_CORES", 1..=1 << 30)?
                .map(|count| count as usize),
            hang: reader.number("WEFT_HANG", 1..=1 << 30)?,
            info: match reader.text("WEFT_INFO").as_deref() {
                None | Some("off" | "0" | "no" | "false") => Info::None,
                Some("on" | "1" | "yes" | "true") => Info::Used,
                Some("all") => Info::All,
                Some(other) => {
                    return Err(format!("WEFT_INFO is {other:?}; it can be off, on or all"));
                }
            },
            warn: reader.flag(unread::SWITCH, true)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &'static str, value: &'static str) -> Result<Settings, String> {
        Settings::read(move |asked| (asked == name).then(|| value.to_string()))
    }

    #[test]
    fn the_eager_limit_is_the_one_in_use() {
        let limit = variables().iter().find(|it| it.name == "WEFT_EAGER_LIMIT");
        let shown = limit.and_then(|limit| limit.default.split(';').next());
        assert_eq!(shown, Some(&netmod::EAGER.to_string()[..]));
    }

    #[test]
    fn values_are_read_and_wrong_ones_named() {
        assert!(with("", "").unwrap().shm);
        assert!(!with("WEFT_SHM", "0").unwrap().shm);
        assert_eq!(
            with("WEFT_EAGER_WINDOW", "64k").unwrap().eager_window,
            Some(65536)
        );
        assert!(with("WEFT_COLL", "auto").is_ok());
        assert!(with("WEFT_COLL", "barrier=tree,bcast=chain:4096").is_ok());
        for (name, value) in [
            ("WEFT_SHM", "maybe"),
            ("WEFT_NUM_VCIS", "0"),
            ("WEFT_EAGER_LIMIT", "-1"),
            ("WEFT_EAGER_LIMIT", "99999999999999999999k"),
            ("WEFT_NETMOD", "ucy"),
            ("WEFT_VERBS_SHARING", "everything"),
            ("WEFT_VERBS_GID_INDEX", "256"),
            ("WEFT_PMI", "pmi3"),
            ("WEFT_SINGLETON", "maybe"),
            (INITIAL_ERRHANDLER, "mpi_errors_ignore"),
            ("WEFT_OFI_RMA", "maybe"),
            ("WEFT_TCP_PORTS", "9-8"),
            ("WEFT_TCP_INTERFACE", "10.0.0.0/40"),
            ("WEFT_HANG", "soon"),
            ("WEFT_INFO", "2"),
            ("WEFT_LOG", "vci,rndv"),
            ("WEFT_CRITICAL_SECTION", "locks"),
            ("WEFT_COLL", "bcast"),
            ("WEFT_COLL", "barrier=tree,bcast=chian"),
            ("WEFT_COLL_NODE", "0"),
        ] {
            let error = with(name, value).unwrap_err();
            let wrong = value.rsplit(',').next().unwrap_or(value);
            assert!(error.contains(name) && error.contains(wrong), "{error}");
        }
    }
}
