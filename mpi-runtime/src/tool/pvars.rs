//! Performance variables: what the process counts.

use mpi_core::Counters;

use crate::lifecycle::runtime::{self, Runtime};

/// How a variable's value comes about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// What there is now. It can always be read, and not be set.
    Level,
    /// The most there has been of something while the handle was started.
    Peak,
    /// How often something happened while the handle was started.
    Counter,
    /// A sum over what happened while the handle was started.
    Sum,
}

impl Class {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Class::Level => "level",
            Class::Peak => "high watermark",
            Class::Counter => "counter",
            Class::Sum => "aggregate",
        }
    }

    /// Whether it is always at work, and can't be set.
    pub fn is_continuous(self) -> bool {
        self == Class::Level
    }
}

/// A performance variable. All are of type `MPI_UNSIGNED_LONG` and bound to no object.
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// How its value comes about.
    pub class: Class,
    /// Its category.
    pub category: &'static str,
    /// What it tells.
    pub help: &'static str,
    /// Where the value comes from.
    read: fn(&Runtime) -> u64,
}

/// All performance variables.
pub const VARIABLES: &[Variable] = &[
    Variable {
        name: "unexpected_messages",
        class: Class::Level,
        category: "messages",
        help: "Messages that have arrived and that no receive has asked for yet.",
        read: |runtime| totals(runtime).unexpected,
    },
    Variable {
        name: "unexpected_bytes",
        class: Class::Level,
        category: "messages",
        help: "Bytes of such messages that are kept here. (Long messages wait at their senders.)",
        read: |runtime| totals(runtime).unexpected_bytes,
    },
    Variable {
        name: "unexpected_bytes_peak",
        class: Class::Peak,
        category: "messages",
        help: "The most bytes of such messages that were kept on one VCI.",
        // What a peak begins with; see `peak` for what it has come to.
        read: |runtime| {
            let bytes = |vci| runtime.process.counters(vci).map(|it| it.unexpected_bytes);
            let each = runtime.process.open_vcis().filter_map(bytes);
            each.max().unwrap_or(0)
        },
    },
    Variable {
        name: "unexpected_arrived",
        class: Class::Counter,
        category: "messages",
        help: "Messages that no receive had asked for when they arrived.",
        read: |runtime| totals(runtime).unexpected_arrived,
    },
    Variable {
        name: "posted_receives",
        class: Class::Level,
        category: "messages",
        help: "Receives that wait for a message.",
        read: |runtime| totals(runtime).posted,
    },
    Variable {
        name: "eager_self_sent",
        class: Class::Counter,
        category: "messages",
        help: "Messages sent eagerly from the process to itself.",
        read: |runtime| runtime.process.eager_sent(0),
    },
    Variable {
        name: "eager_shm_sent",
        class: Class::Counter,
        category: "shared_memory",
        help: "Messages sent eagerly through shared memory.",
        read: |runtime| eager_sent(runtime, |name| name == "shm"),
    },
    Variable {
        name: "eager_net_sent",
        class: Class::Counter,
        category: "transports",
        help: "Messages sent eagerly over a netmod.",
        read: |runtime| eager_sent(runtime, |name| name != "shm"),
    },
    Variable {
        name: "collective_node_slots",
        class: Class::Counter,
        category: "transports",
        help: "Blocking collectives over several nodes that went by shared slots within this one.",
        read: |runtime| mpi_coll::by_node(&runtime.process),
    },
    Variable {
        name: "collective_writes",
        class: Class::Counter,
        category: "transports",
        help: "Writes of collectives to other processes' memory over a netmod.",
        read: |runtime| totals(runtime).signals,
    },
    Variable {
        name: "eager_bytes_received",
        class: Class::Sum,
        category: "messages",
        help: "Bytes of messages that came eagerly.",
        read: |runtime| totals(runtime).eager_bytes_received,
    },
    Variable {
        name: "rendezvous_sent",
        class: Class::Counter,
        category: "messages",
        help: "Messages that were announced to their receivers, to be fetched or asked for.",
        read: |runtime| totals(runtime).rendezvous_sent,
    },
    Variable {
        name: "rendezvous_bytes_sent",
        class: Class::Sum,
        category: "messages",
        help: "Bytes of such messages.",
        read: |runtime| totals(runtime).rendezvous_bytes_sent,
    },
    Variable {
        name: "single_copy_received",
        class: Class::Counter,
        category: "messages",
        help: "Messages received by reading the sender's memory: one copy within a node, a remote \
               read between nodes.",
        read: |runtime| totals(runtime).fetched,
    },
    Variable {
        name: "single_copy_bytes_received",
        class: Class::Sum,
        category: "messages",
        help: "Bytes of such messages.",
        read: |runtime| totals(runtime).fetched_bytes,
    },
    Variable {
        name: "two_copies_received",
        class: Class::Counter,
        category: "messages",
        help: "Messages received through shared memory in pieces, copied by both processes.",
        read: |runtime| totals(runtime).piped,
    },
    Variable {
        name: "two_copies_bytes_received",
        class: Class::Sum,
        category: "messages",
        help: "Bytes of such messages.",
        read: |runtime| totals(runtime).piped_bytes,
    },
    Variable {
        name: "streamed_sent",
        class: Class::Counter,
        category: "messages",
        help: "Messages sent in pieces, because the receiver could not read them.",
        read: |runtime| totals(runtime).streamed,
    },
    Variable {
        name: "streamed_bytes_sent",
        class: Class::Sum,
        category: "messages",
        help: "Bytes of such messages.",
        read: |runtime| totals(runtime).streamed_bytes,
    },
    Variable {
        name: "gathered_sent",
        class: Class::Counter,
        category: "messages",
        help: "Messages with gaps that were not packed: gather lists of their pieces went to the receiver's \
               memory, or to the network.",
        read: |runtime| totals(runtime).gathered,
    },
    Variable {
        name: "gathered_bytes_sent",
        class: Class::Sum,
        category: "messages",
        help: "Bytes of such messages.",
        read: |runtime| totals(runtime).gathered_bytes,
    },
    Variable {
        name: "scattered_bytes_received",
        class: Class::Sum,
        category: "messages",
        help: "Bytes with gaps that the network brought to their places, without unpacking.",
        read: |runtime| totals(runtime).scattered_bytes,
    },
    Variable {
        name: "rma_native_puts",
        class: Class::Counter,
        category: "transports",
        help: "MPI_Put calls that went by the network's remote memory.",
        read: |runtime| totals(runtime).native_puts,
    },
    Variable {
        name: "rma_native_gets",
        class: Class::Counter,
        category: "transports",
        help: "MPI_Get calls that went by the network's remote memory.",
        read: |runtime| totals(runtime).native_gets,
    },
    Variable {
        name: "rma_native_atomics",
        class: Class::Counter,
        category: "transports",
        help: "Accumulates (also those that fetch, and MPI_Compare_and_swap) that went by the network's atomics.",
        read: |runtime| totals(runtime).native_atomics,
    },
    Variable {
        name: "rma_kernel_copies",
        class: Class::Counter,
        category: "shared_memory",
        help: "Copies that the kernel made to and from created windows of other processes of the node. (The target does \
               what is short, as long as it waits in MPI.)",
        read: |runtime| mpi_rma::kernel_copies(&runtime.process),
    },
    Variable {
        name: "addresses_asked",
        class: Class::Counter,
        category: "transports",
        help: "Processes whose addresses the launcher was asked for. The ranks of a node ask for each once.",
        read: |_| crate::bootstrap::records_requested(),
    },
    Variable {
        name: "vcis_open",
        class: Class::Level,
        category: "vcis",
        help: "VCIs that are open.",
        read: |runtime| runtime.process.open_vcis().count() as u64,
    },
    Variable {
        name: "locks_taken",
        class: Class::Counter,
        category: "vcis",
        help: "How often the lock of a VCI was taken, but for messages that were sent at once. \
               Without MPI_THREAD_MULTIPLE there are no locks.",
        read: |runtime| totals(runtime).locked,
    },
    Variable {
        name: "locks_contended",
        class: Class::Counter,
        category: "vcis",
        help: "How often a thread had to wait for the lock of a VCI.",
        read: |runtime| totals(runtime).contended,
    },
];

fn totals(runtime: &Runtime) -> Counters {
    let each = runtime.process.open_vcis();
    each.filter_map(|vci| runtime.process.counters(vci))
        .fold(Counters::default(), Counters::merge)
}

/// Messages sent eagerly over the transports whose names are asked for, but for the way to oneself.
fn eager_sent(runtime: &Runtime, wanted: impl Fn(&str) -> bool) -> u64 {
    let transports = runtime.process.transports().iter().enumerate().skip(1);
    transports
        .filter(|(_, transport)| wanted(transport.name()))
        .map(|(place, _)| runtime.process.eager_sent(place))
        .sum()
}

impl Variable {
    /// Its value since the start of the process; 0 while MPI is not up.
    pub fn now(&self) -> u64 {
        runtime::running().map_or(0, self.read)
    }
}

/// The most bytes of unexpected messages on a VCI since the last call.
pub fn peak() -> u64 {
    runtime::running().map_or(0, |runtime| runtime.process.take_peak())
}
