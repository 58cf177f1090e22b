//! Control variables: everything that the environment can change, in one table.
//!
//! The tool interface reads and writes them, too (`tool::cvars`), and `docs/tuning.md` is generated
//! from the table.

pub mod document;
pub mod hints;
pub mod text;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::{LazyLock, OnceLock};

use mpi_core::process::CriticalSections;
use mpi_rma::{NetworkAtomics, PassiveTargets};
use netmod_kit::variables::Reader;
pub use netmod_kit::variables::{Variable, parse_number};
use parking_lot::Mutex;

mod algorithms;
mod costs;

pub use algorithms::{add_choices, choices, choices_with_table, old_spellings};
pub use costs::{Source as CostsSource, find as find_costs};

use crate::bootstrap::netmods::{self, Choice, NETMODS};

/// Values that were given by the tool interface, which take the place of the environment's.
static GIVEN: Mutex<BTreeMap<&'static str, String>> = Mutex::new(BTreeMap::new());

/// What `MPI_Init` has found.
static CHOSEN: OnceLock<BTreeMap<&'static str, String>> = OnceLock::new();

fn look_up(name: &str) -> Option<String> {
    let given = GIVEN.lock().get(name).cloned();
    given.or_else(|| std::env::var(name).ok())
}

/// A variable's value as text, if it is set: from `MPI_Init` on as that has found it.
pub fn raw(name: &str) -> Option<String> {
    match CHOSEN.get() {
        Some(chosen) => chosen.get(name).cloned(),
        None => look_up(name),
    }
    .filter(|value| !value.is_empty())
}

/// A variable of the environment; of a control variable the value that a tool has given it, if one has.
pub fn environment(name: &str) -> Option<OsString> {
    match variables().iter().any(|variable| variable.name == name) {
        true => raw(name).map(OsString::from),
        false => std::env::var_os(name),
    }
}

/// The same for people and tools: what was found elsewhere, too, where the variable isn't set.
pub fn shown(name: &str) -> Option<String> {
    raw(name).or_else(|| match name {
        "WEFT_COLL_COSTS" | "WEFT_COLL_COSTS_FILE" => {
            costs::found(name, raw("WEFT_COLL_COSTS_FILE").as_deref())
        }
        _ => None,
    })
}

/// Whether `MPI_Init` has read the variables, so that they can't be changed any more.
pub fn are_chosen() -> bool {
    CHOSEN.get().is_some()
}

/// Sets a variable, before `MPI_Init`. Empty: as if it were not set.
///
/// # Errors
/// The value can't be understood.
pub fn give(variable: &'static Variable, value: String) -> Result<(), String> {
    Settings::read(|name| (name == variable.name).then(|| value.clone()))?;
    GIVEN.lock().insert(variable.name, value);
    Ok(())
}

/// All control variables: Weft's own, and after what chooses them those of the transports.
pub fn variables() -> &'static [Variable] {
    static ALL: LazyLock<Vec<Variable>> = LazyLock::new(|| {
        let mut all = Vec::new();
        for variable in OWN {
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

/// What the initial error handler is chosen by; `mpiexec -initial-errhandler` sets it.
pub const INITIAL_ERRHANDLER: &str = "WEFT_INITIAL_ERRHANDLER";

/// Names of predefined error handlers in info objects and on command lines.
pub const ERRHANDLERS: [&str; 3] = [
    "mpi_errors_are_fatal",
    "mpi_errors_abort",
    "mpi_errors_return",
];

/// Those that no transport owns.
const OWN: &[Variable] = &[
    Variable {
        name: "WEFT_SHM",
        kind: "0 or 1",
        default: "1",
        help: "Shared memory between the processes of a node, the same on all ranks. With 0 they talk \
               over the netmod, as if they were on different nodes.",
    },
    Variable {
        name: "WEFT_EAGER_LIMIT",
        kind: "bytes",
        default: "8192; 65536 between nodes over TCP",
        help: "Messages up to this size are sent before the receiver asks for them. Transports may \
               allow less; over TCP single messages up to 262144 leave so, too. Where it is set, longer ones \
               always wait for their receivers: with 0 programs that rely on buffering hang.",
    },
    Variable {
        name: "WEFT_EAGER_WINDOW",
        kind: "bytes",
        default: "1048576, less in jobs of more than 64 processes",
        help: "How much a sender may have lying unexpected at a receiver, per pair of processes; \
               beyond that its messages wait at the sender.",
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
        help: "VCIs that a communicator gets without asking for them by hints, the same on all ranks. With \
               auto, and MPI_THREAD_MULTIPLE, each that a program makes gets one of as many as the process \
               has cores, in turn. 0: all have VCI 0. 1 gives each from MPI_Comm_dup one of its own \
               while there are some. See docs/vcis.md.",
    },
    Variable {
        name: "WEFT_CRITICAL_SECTION",
        kind: "per-vci, global or lockless",
        default: "per-vci",
        help: "With MPI_THREAD_MULTIPLE: each VCI has a lock (per-vci), or all have one together \
               (global, for measuring), or the VCIs that communicators get by hints have none \
               (lockless, the same on all ranks: as if all these communicators had the hint \
               weft_lockless, see docs/vcis.md).",
    },
    Variable {
        name: "WEFT_REQUEST_CACHE",
        kind: "0 or 1",
        default: "1",
        help: "Each VCI keeps free requests for itself. With 0 (for measuring) all take them from one \
               pool and give them back to it.",
    },
    Variable {
        name: "WEFT_PROGRESS_ROUND",
        kind: "count",
        default: "64",
        help: "A waiting thread polls the VCIs that it waits for, and all others once in so many \
               fruitless polls. With 1 all are polled every time. 0 never polls others: for \
               measuring only, since correct programs can then wait forever.",
    },
    Variable {
        name: INITIAL_ERRHANDLER,
        kind: "mpi_errors_are_fatal, mpi_errors_abort or mpi_errors_return",
        default: "mpi_errors_are_fatal",
        help: "The error handler of MPI_COMM_WORLD and MPI_COMM_SELF at the beginning, and that for \
               errors before there are any (MPI-4.1 section 9.3). mpiexec -initial-errhandler sets it.",
    },
    Variable {
        name: "WEFT_ASYNC_PROGRESS",
        kind: "0 or 1",
        default: "0",
        help: "With 1 a thread of each process serves its windows to processes of other nodes while \
               the program computes and doesn't call MPI. It sleeps while there are no such \
               windows. All calls take locks then, as with MPI_THREAD_MULTIPLE.",
    },
    Variable {
        name: "WEFT_RMA_NATIVE",
        kind: "0 or 1",
        default: "1",
        help: "With 0 MPI_Put and MPI_Get between nodes go by messages, which the target's process \
               takes in, whatever remote memory the network has.",
    },
    Variable {
        name: "WEFT_RMA_ATOMICS",
        kind: "auto, network or messages",
        default: "auto",
        help: "How accumulates go in windows over several nodes whose hints promise that the network's \
               atomics cover them (see docs/vcis.md), the same on all ranks. auto: by the network if \
               targets need not call MPI for it; network: wherever the transport has atomics; messages: \
               never by the network.",
    },
    Variable {
        name: "WEFT_RMA_PASSIVE",
        kind: "auto, on or off",
        default: "auto",
        help: "Whether windows over several nodes do without their targets' processors: locks and accumulates \
               by the network's atomics, puts and gets alone, however long a target computes. The same on all \
               ranks. auto: where the network does all of these so (verbs, on adapters with atomics); on: \
               wherever it has remote memory and atomics; off: what synchronises and accumulates go by \
               messages.",
    },
    Variable {
        name: "WEFT_ALLOC_SHARED",
        kind: "0 or 1",
        default: "1",
        help: "MPI_Alloc_mem takes 64 KiB and more from memory that processes of the node can map, so \
               that windows created of it are as quick as allocated ones. A forked process has it in \
               common with its parent. Up to 32 MiB that the program has freed are kept for the next calls. 0: \
               from memory of the process alone.",
    },
    Variable {
        name: "WEFT_SPIN",
        kind: "count",
        default: "50000, or 0.15 ms while other programs use the core; 4 when a node has more ranks \
                  than cores",
        help: "Fruitless polls of a waiting thread before it yields its core between polls, or sleeps. A value that is \
               set holds on busy cores, too.",
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
        help: "See `netmods::variable`.",
    },
    Variable {
        name: "WEFT_COLL",
        kind: "list",
        default: "auto",
        help: "Algorithms of collectives, the same on all ranks: \"bcast=chain:65536,barrier=tree\". \
               There are barrier (dissemination, tree), bcast (binomial, scatter-ring, chain with \
               the bytes of a piece), gather and scatter (linear, binomial), allgather \
               (recursive-doubling, bruck, ring, neighbor-exchange), alltoall (bruck, spread, \
               pairwise with the rounds under way at once), reduce (binomial, halving), allreduce \
               (recursive-doubling, halving, ring), reduce_scatter (halving, pairwise), scan and exscan (recursive-doubling), for each of \
               these slots (by shared memory, between ranks of one node), for reduce slots-tree (up a tree \
               there, with its degree and the bytes of a piece, as in slots-tree:4:8192), for bcast, allgather, alltoall, reduce and allreduce direct \
               (by copying from each other's memory there; the latter two with the bytes of a piece, as in \
               direct:65536), for barrier, bcast, reduce, \
               allgather, alltoall and allreduce rdma (by writes to each other's memory over a network, \
               the way that takes the least time by what writes cost, or by name: of bcast \
               rdma-binomial and rdma-chain, of reduce rdma-tree with the degree 1, 3, 7 or 15 and \
               rdma-chain, of allgather rdma-direct, rdma-doubling and rdma-ring, of alltoall \
               rdma-direct and rdma-doubling, of allreduce rdma-pairs, rdma-tree with a degree and \
               rdma-ring; what a way can't take goes by messages), and nodes (on, off: within \
               each node and between nodes, whatever the size), slots (off: none use them) and rdma \
               (off: none goes that way; on: up to 8 KiB). auto \
               goes by WEFT_COLL_TABLE, or else by ranks and bytes. A communicator's info hint \
               weft_coll says the same for it alone, if all members give it.",
    },
    Variable {
        name: "WEFT_COLL_TABLE",
        kind: "name",
        default: "none",
        help: "A file with a table of algorithms by ranks, ranks per node and bytes, the same on all ranks; \
               osu-bench tune writes it.",
    },
    Variable {
        name: "WEFT_COLL_COSTS",
        kind: "list",
        default: "a small network's",
        help: "What a write over the network costs, in microseconds: wire time of \
               a byte, start of a transfer, copy of a byte, the adapter's, the processor's and the \
               library's part, and a reduction, once and per byte. Collectives by rdma choose between their \
               ways by it. Without it, what the file that \
               WEFT_COLL_COSTS_FILE names says of the netmod in use; a communicator goes by what its \
               rank 0 knows.",
    },
    Variable {
        name: "WEFT_COLL_COSTS_FILE",
        kind: "name",
        default: "weft/costs.HOST in $XDG_CONFIG_HOME or ~/.config, if there is one",
        help: "A file with what writes over each netmod cost on this host, and up to how many bytes they are \
               quicker than messages in each collective; osu-bench tune --costs writes it. One that can't be used is named by rank \
               0 and ignored.",
    },
    Variable {
        name: "WEFT_COLL_PRINT",
        kind: "0 or 1",
        default: "0",
        help: "Rank 0 of each communicator prints which algorithm a collective takes, when it is first \
               called with these arguments.",
    },
    Variable {
        name: "WEFT_COLL_NODE",
        kind: "count",
        default: "as the launcher tells",
        help: "Collectives and MPI_Cart_create take so many ranks of MPI_COMM_WORLD, one after the \
               other, for a node, the same on all ranks.",
    },
    Variable {
        name: "WEFT_PMI",
        kind: "auto, pmi1, pmi2, pmix or none",
        default: "auto",
        help: "How to talk to the launcher, the same on all ranks. With auto its environment decides: \
               a socket (PMI_FD, PMI_PORT) comes first, then a PMIx server. With none each process \
               runs alone, as rank 0 of 1.",
    },
    Variable {
        name: "WEFT_PMIX_LIBRARY",
        kind: "name",
        default: "the launcher's own, else libpmix.so.2",
        help: "Path of the library that talks to a PMIx server.",
    },
    Variable {
        name: "WEFT_SINGLETON",
        kind: "0 or 1",
        default: "0",
        help: "With 1 the process runs alone, as rank 0 of 1, whatever launcher has started it.",
    },
    Variable {
        name: "WEFT_APP_SIZE",
        kind: "count",
        default: "the number of ranks of the job",
        help: "How many ranks of the job run this one's command, for `MPI_INFO_ENV`; mpiexec sets it.",
    },
    Variable {
        name: "WEFT_APP_SOFT",
        kind: "text",
        default: "none",
        help: "The key soft of the MPI_Comm_spawn that has started this rank, for `MPI_INFO_ENV`; mpiexec sets it.",
    },
    Variable {
        name: "WEFT_APP_FILE",
        kind: "path",
        default: "none",
        help: "The key file of the MPI_Comm_spawn that has started this rank, for `MPI_INFO_ENV`; mpiexec sets it.",
    },
    Variable {
        name: "WEFT_LOCAL_SIZE",
        kind: "count",
        default: "as the launcher tells",
        help: "How many ranks of the job this node has; mpiexec sets it.",
    },
    Variable {
        name: "WEFT_LOCAL_CORES",
        kind: "count",
        default: "as many as this process may use; all of the machine if it may use one only",
        help: "How many cores the ranks of this node have together: with more ranks than cores, waiting ranks give \
               way to each other. mpiexec sets it.",
    },
    Variable {
        name: "WEFT_HANG",
        kind: "count",
        default: "not at all",
        help: "Seconds: after so long without anything happening in any process of the job, all of which wait, mpiexec \
               prints who waits where and for whom, and the job goes on. The same on all ranks; started by \
               other launchers, nothing is printed.",
    },
    Variable {
        name: "WEFT_INFO",
        kind: "off, on or all",
        default: "off",
        help: "With on, or 1, rank 0 prints at start the library's version, the launcher, which transports were \
               chosen, and what was refused and why. With all it also tries the transports that \
               are not needed.",
    },
];

/// The control variables as set.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "see the table above")]
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
}

/// `WEFT_INFO`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the table says it")]
pub enum Info {
    None,
    Used,
    All,
}

impl Settings {
    /// From the environment; the error names the variable, its value and what it may hold.
    pub fn from_env() -> Result<Settings, String> {
        let settings = Settings::read(look_up)?;
        let found = variables()
            .iter()
            .filter_map(|variable| Some((variable.name, look_up(variable.name)?)));
        let _ = CHOSEN.set(found.collect());
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
        // Only looked at here: the crate that finds the launcher reads it itself.
        let pmi = reader.text("WEFT_PMI");
        let known = ["auto", "pmi1", "pmi2", "pmix", "none"];
        if let Some(other) = pmi.filter(|text| !known.contains(&text.as_str())) {
            return Err(format!(
                "WEFT_PMI is {other:?}; it can be auto, pmi1, pmi2, pmix or none"
            ));
        }
        reader.flag("WEFT_SINGLETON", false)?;
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
            ("WEFT_OFI_BUFFERS", "3"),
            ("WEFT_TCP_PORTS", "9-8"),
            ("WEFT_TCP_INTERFACE", "10.0.0.0/40"),
            ("WEFT_HANG", "soon"),
            ("WEFT_INFO", "2"),
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
