//! Control variables: everything that the environment can change, in one table.
//!
//! The tool interface reads and writes them, too (`tool::cvars`), and `docs/tuning.md` is generated
//! from the table.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use mpi_coll::Choices;
use mpi_core::process::CriticalSections;
use mpi_rma::NetworkAtomics;
use netmod_verbs::Sharing;
use parking_lot::Mutex;

/// A control variable.
pub struct Variable {
    /// Name in the environment.
    pub name: &'static str,
    /// What it holds: "0 or 1", "count", "bytes", "name", "list", or named values as in
    /// "auto, ofi or none". The tool interface goes by it.
    pub kind: &'static str,
    /// Its value when it is not set, for people.
    pub default: &'static str,
    /// What it does. Where a variable must be, this says "the same on all ranks".
    pub help: &'static str,
}

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

/// All control variables.
pub const VARIABLES: &[Variable] = &[
    Variable {
        name: "WEFT_SHM",
        kind: "0 or 1",
        default: "1",
        help: "Shared memory between the processes of a node, the same on all ranks. With 0 they talk \
               over the netmod, as if they were on different nodes.",
    },
    Variable {
        name: "WEFT_SHM_SINGLE_COPY",
        kind: "0 or 1",
        default: "1",
        help: "Large messages between processes of a node are copied once, by the kernel \
               (process_vm_readv), if a trial at first contact shows that it is allowed. With 0 they \
               always go through shared memory in pieces.",
    },
    Variable {
        name: "WEFT_EAGER_LIMIT",
        kind: "bytes",
        default: "8192; 65536 between nodes over TCP",
        help: "Messages up to this size are sent before the receiver asks for them. Transports may \
               allow less.",
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
        kind: "count",
        default: "0",
        help: "VCIs that a communicator from MPI_Comm_dup gets without asking for them by hints, the \
               same on all ranks: 1 gives each its own, for programs whose threads have \
               communicators of their own and that can't be changed. See docs/vcis.md.",
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
        name: "WEFT_ALLOC_SHARED",
        kind: "0 or 1",
        default: "1",
        help: "MPI_Alloc_mem takes 64 KiB and more from memory that processes of the node can map, so \
               that windows created of it are as quick as allocated ones. A forked process has it in \
               common with its parent. 0: from memory of the process alone.",
    },
    Variable {
        name: "WEFT_SPIN",
        kind: "count",
        default: "20000; 4 when a node has more ranks than cores",
        help: "Fruitless polls of a waiting thread before it yields its core between polls.",
    },
    Variable {
        name: "WEFT_YIELD",
        kind: "count",
        default: "2000; 200 when a node has more ranks than cores",
        help: "Yields of a waiting thread before it sleeps until something arrives.",
    },
    Variable {
        name: "WEFT_NETMOD",
        kind: "auto, verbs, ofi, ucx or none",
        default: "auto",
        help: "The transport between nodes, the same on all ranks: InfiniBand verbs (verbs), libfabric (ofi) or UCX. \
               With auto it is verbs or else UCX if they have an RDMA device to use, otherwise libfabric, otherwise \
               UCX; none is opened if the launcher says that all ranks share this node.",
    },
    Variable {
        name: "WEFT_VERBS_DEVICE",
        kind: "name",
        default: "the first that can be used",
        help: "The RDMA device for verbs, for instance mlx5_0, or one port of it, mlx5_0:2 (see ibv_devinfo). Ranks \
               may differ, if their devices are on one network.",
    },
    Variable {
        name: "WEFT_VERBS_GID_INDEX",
        kind: "count",
        default: "RoCE: the first IPv4 address of version 2; InfiniBand: 0",
        help: "Which entry of the port's table of addresses verbs uses.",
    },
    Variable {
        name: "WEFT_VERBS_SHARING",
        kind: "context, domain, uar, cq or qp",
        default: "domain",
        help: "What the VCIs of a process share of the adapter, from nothing to all: a device context each; one \
               context, but a thread domain and so a doorbell page each; the context's doorbell pages; a completion \
               queue too; or also the queue pairs (then the same on all ranks). More sharing takes less of the adapter \
               and costs speed when several threads communicate. See osu-bench verbs-sharing.",
    },
    Variable {
        name: "WEFT_VERBS_LIBRARY",
        kind: "name",
        default: "libibverbs.so.1",
        help: "File name or path of libibverbs.",
    },
    Variable {
        name: "WEFT_OFI_PROVIDER",
        kind: "name",
        default: "chosen by what libfabric offers",
        help: "The libfabric provider to use, the same on all ranks, for instance tcp or \"tcp;ofi_rxm\" (see fi_info).",
    },
    Variable {
        name: "WEFT_OFI_INTERFACE",
        kind: "name",
        default: "lo when all ranks share this node, otherwise chosen by what libfabric offers",
        help: "The network interface or libfabric domain to use, for instance eth0 or lo.",
    },
    Variable {
        name: "WEFT_OFI_LIBRARY",
        kind: "name",
        default: "libfabric.so.1",
        help: "File name or path of libfabric, 1.17 or newer.",
    },
    Variable {
        name: "WEFT_UCX_TLS",
        kind: "list",
        default: "UCX_TLS; without it all transports of UCX that reach other hosts",
        help: "UCX's own transports to use, the same on all ranks, for instance tcp or rc,ud_verbs:aux (see ucx_info -d). \
               UCX's own variables hold for everything that is not said here.",
    },
    Variable {
        name: "WEFT_UCX_DEVICES",
        kind: "list",
        default: "UCX_NET_DEVICES; without it all but bridges to containers and virtual machines",
        help: "Network devices that UCX is to use, for instance eth0 or mlx5_0:1 (see ucx_info -d).",
    },
    Variable {
        name: "WEFT_UCX_LIBRARY",
        kind: "name",
        default: "libucp.so.0",
        help: "File name or path of UCX's library UCP, 1.13 or newer.",
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
               (recursive-doubling, halving, ring), reduce-scatter (halving, pairwise), for each of \
               these slots (by shared memory, between ranks of one node), for bcast, allgather and \
               alltoall direct (by copying from each other's memory there), for barrier, bcast and \
               allreduce rdma (by writes to each other's memory over a network; of allreduce also \
               rdma-pairs, and rdma-tree with the degree 1, 3, 7 or 15), and nodes (on, off: within \
               each node and between nodes, whatever the size), slots (off: none use them) and rdma \
               (off: none goes that way). auto \
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
        help: "What a write over the network costs, in microseconds, the same on all ranks: wire time of \
               a byte, start of a transfer, copy of a byte, the adapter's, the processor's and the \
               library's part, and a reduction, once and per byte. An allreduce by rdma chooses between \
               pairs of ranks and trees of degree 1, 3, 7 and 15 by it.",
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
    pub shm_single_copy: bool,
    pub eager_limit: Option<usize>,
    pub eager_window: Option<u32>,
    pub num_vcis: usize,
    pub dup_vcis: u32,
    pub critical_sections: CriticalSections,
    pub request_caches: bool,
    pub progress_round: Option<u32>,
    pub async_progress: bool,
    /// Windows use the network's remote memory.
    pub rma_native: bool,
    pub rma_atomics: NetworkAtomics,
    pub alloc_shared: bool,
    pub spin: Option<u32>,
    pub yields: Option<u32>,
    pub netmod: Netmod,
    pub verbs_device: Option<String>,
    pub verbs_gid_index: Option<u32>,
    pub verbs_sharing: Sharing,
    pub verbs_library: Option<String>,
    pub ofi_provider: Option<String>,
    pub ofi_interface: Option<String>,
    pub ofi_library: Option<String>,
    pub ucx_tls: Option<String>,
    pub ucx_devices: Option<String>,
    pub ucx_library: Option<String>,
    pub coll: Option<String>,
    pub coll_table: Option<String>,
    pub coll_costs: Option<mpi_coll::model::Parameters>,
    pub coll_print: bool,
    pub coll_node: Option<u32>,
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

/// `WEFT_NETMOD`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Netmod {
    Auto,
    Verbs,
    Ofi,
    Ucx,
    None,
}

impl Settings {
    /// From the environment; the error names the variable, its value and what it may hold.
    pub fn from_env() -> Result<Settings, String> {
        let settings = Settings::read(look_up)?;
        let found = VARIABLES
            .iter()
            .filter_map(|variable| Some((variable.name, look_up(variable.name)?)));
        let _ = CHOSEN.set(found.collect());
        Ok(settings)
    }

    fn read(get: impl Fn(&str) -> Option<String>) -> Result<Settings, String> {
        let reader = Reader { get };
        // Only looked at here: the crate that finds the launcher reads it itself.
        let pmi = reader.text("WEFT_PMI");
        let known = ["auto", "pmi1", "pmi2", "pmix", "none"];
        if let Some(other) = pmi.filter(|text| !known.contains(&text.as_str())) {
            return Err(format!(
                "WEFT_PMI is {other:?}; it can be auto, pmi1, pmi2, pmix or none"
            ));
        }
        Ok(Settings {
            shm: reader.flag("WEFT_SHM", true)?,
            shm_single_copy: reader.flag("WEFT_SHM_SINGLE_COPY", true)?,
            eager_limit: reader
                .number("WEFT_EAGER_LIMIT", 0..=1 << 30)?
                .map(|bytes| bytes as usize),
            eager_window: reader
                .number("WEFT_EAGER_WINDOW", 4096..=1 << 30)?
                .map(|bytes| bytes as u32),
            num_vcis: reader
                .number("WEFT_NUM_VCIS", 1..=mpi_core::vci::pool::MAX_VCIS as u64)?
                .unwrap_or(64) as usize,
            dup_vcis: reader.number("WEFT_DUP_VCIS", 0..=4096)?.unwrap_or(0) as u32,
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
            alloc_shared: reader.flag("WEFT_ALLOC_SHARED", true)?,
            spin: reader
                .number("WEFT_SPIN", 0..=1 << 30)?
                .map(|count| count as u32),
            yields: reader
                .number("WEFT_YIELD", 0..=1 << 30)?
                .map(|count| count as u32),
            netmod: match reader.text("WEFT_NETMOD").as_deref() {
                None | Some("auto") => Netmod::Auto,
                Some("verbs") => Netmod::Verbs,
                Some("ofi") => Netmod::Ofi,
                Some("ucx") => Netmod::Ucx,
                Some("none") => Netmod::None,
                Some(other) => {
                    return Err(format!(
                        "WEFT_NETMOD is {other:?}; it can be auto, verbs, ofi, ucx or none"
                    ));
                }
            },
            verbs_device: reader.text("WEFT_VERBS_DEVICE"),
            verbs_gid_index: reader
                .number("WEFT_VERBS_GID_INDEX", 0..=255)?
                .map(|index| index as u32),
            verbs_sharing: match reader.text("WEFT_VERBS_SHARING") {
                None => Sharing::default(),
                Some(text) => Sharing::named(&text).ok_or_else(|| {
                    format!(
                        "WEFT_VERBS_SHARING is {text:?}; it can be context, domain, uar, cq or qp"
                    )
                })?,
            },
            verbs_library: reader.text("WEFT_VERBS_LIBRARY"),
            ofi_provider: reader.text("WEFT_OFI_PROVIDER"),
            ofi_interface: reader.text("WEFT_OFI_INTERFACE"),
            ofi_library: reader.text("WEFT_OFI_LIBRARY"),
            ucx_tls: reader.text("WEFT_UCX_TLS"),
            ucx_devices: reader.text("WEFT_UCX_DEVICES"),
            ucx_library: reader.text("WEFT_UCX_LIBRARY"),
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
            coll_print: reader.flag("WEFT_COLL_PRINT", false)?,
            coll_node: reader
                .number("WEFT_COLL_NODE", 1..=1 << 30)?
                .map(|count| count as u32),
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

/// The algorithms that `WEFT_COLL` asks for.
pub fn choices(text: Option<&str>) -> Result<Choices, String> {
    add_choices(Choices::default(), text)
}

/// The same on top of others.
pub fn add_choices(mut choices: Choices, text: Option<&str>) -> Result<Choices, String> {
    let items = text.filter(|text| *text != "auto").unwrap_or("");
    for item in items.split(',').filter(|item| !item.is_empty()) {
        let Some((collective, algorithm)) = item.split_once('=') else {
            return Err(format!(
                "WEFT_COLL has {item:?}; each item must be COLLECTIVE=ALGORITHM"
            ));
        };
        choices
            .set(collective, algorithm)
            .map_err(|error| format!("WEFT_COLL has {item:?}: {}", error.detail()))?;
    }
    Ok(choices)
}

/// The algorithms of a table in a file, and on top of it those that `WEFT_COLL` asks for.
pub fn choices_with_table(text: Option<&str>, table: Option<&str>) -> Result<Choices, String> {
    let mut choices = Choices::default();
    if let Some(file) = table {
        let advice = "write it with osu-bench tune, or leave WEFT_COLL_TABLE away";
        let text = std::fs::read_to_string(file).map_err(|error| {
            format!("the table of WEFT_COLL_TABLE, {file}, can't be read ({error}); {advice}")
        })?;
        choices.read_table(&text).map_err(|error| {
            format!(
                "the table of WEFT_COLL_TABLE, {file}, {}; {advice}",
                error.detail()
            )
        })?;
    }
    add_choices(choices, text)
}

struct Reader<F> {
    get: F,
}

impl<F: Fn(&str) -> Option<String>> Reader<F> {
    fn text(&self, name: &str) -> Option<String> {
        debug_assert!(VARIABLES.iter().any(|variable| variable.name == name));
        (self.get)(name).filter(|value| !value.is_empty())
    }

    fn flag(&self, name: &str, default: bool) -> Result<bool, String> {
        match self.text(name).as_deref() {
            None => Ok(default),
            Some("1" | "yes" | "on" | "true") => Ok(true),
            Some("0" | "no" | "off" | "false") => Ok(false),
            Some(other) => Err(format!("{name} is {other:?}; it can be 0 or 1")),
        }
    }

    fn number(
        &self,
        name: &str,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<Option<u64>, String> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        match parse_number(&text) {
            Some(value) if range.contains(&value) => Ok(Some(value)),
            _ => Err(format!(
                "{name} is {text:?}; it can be a number from {} to {} (k and m may follow)",
                range.start(),
                range.end()
            )),
        }
    }
}

/// A number, after which k and m may stand.
pub fn parse_number(text: &str) -> Option<u64> {
    let (digits, unit) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 1 << 10),
        b'm' | b'M' => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
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
