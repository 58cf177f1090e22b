//! Performance variables: the counters of the process.

use mpi_core::Counters;

use crate::lifecycle::runtime::{self, Runtime};

/// The class of a variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// The current level of something. Can always be read, and not be set.
    Level,
    /// The maximum while the handle was started.
    Peak,
    /// A count of events while the handle was started.
    Counter,
    /// A sum over events while the handle was started.
    Sum,
}

impl Class {
    /// Returns the name in documents.
    pub fn name(self) -> &'static str {
        match self {
            Class::Level => "level",
            Class::Peak => "high watermark",
            Class::Counter => "counter",
            Class::Sum => "aggregate",
        }
    }

    /// Returns whether the variable is always active and cannot be set.
    pub fn is_continuous(self) -> bool {
        self == Class::Level
    }
}

/// A performance variable. All are of type `MPI_UNSIGNED_LONG` and bound to no object.
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// Its class.
    pub class: Class,
    /// Its category.
    pub category: &'static str,
    /// Its description.
    pub help: &'static str,
    /// Reads its value.
    read: fn(&Runtime) -> u64,
}

/// All performance variables.
pub const VARIABLES: &[Variable] = &[
    Variable {
        name: "unexpected_messages",
        class: Class::Level,
        category: "messages",
        help: "Messages in the unexpected queues.",
        read: |runtime| totals(runtime).unexpected,
    },
    Variable {
        name: "unexpected_bytes",
        class: Class::Level,
        category: "messages",
        help: "Bytes of unexpected messages stored here. (Long messages wait at their senders.)",
        read: |runtime| totals(runtime).unexpected_bytes,
    },
    Variable {
        name: "unexpected_bytes_peak",
        class: Class::Peak,
        category: "messages",
        help: "The most bytes of unexpected messages stored on one VCI.",
        // The initial value of a peak; `peak` returns later ones.
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
        help: "Messages that arrived before a matching receive was posted.",
        read: |runtime| totals(runtime).unexpected_arrived,
    },
    Variable {
        name: "posted_receives",
        class: Class::Level,
        category: "messages",
        help: "Receives in the posted queues.",
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
        help: "Blocking collectives over several nodes that used shared slots within this node.",
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
        help: "Bytes of messages received eagerly.",
        read: |runtime| totals(runtime).eager_bytes_received,
    },
    Variable {
        name: "rendezvous_sent",
        class: Class::Counter,
        category: "messages",
        help: "Messages sent by rendezvous.",
        read: |runtime| totals(runtime).rendezvous_sent,
    },
    Variable {
        name: "rendezvous_bytes_sent",
        class: Class::Sum,
        category: "messages",
        help: "Bytes of messages sent by rendezvous.",
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
        help: "Bytes of messages received by reading the sender's memory.",
        read: |runtime| totals(runtime).fetched_bytes,
    },
    Variable {
        name: "two_copies_received",
        class: Class::Counter,
        category: "messages",
        help: "Messages received through a pipeline in shared memory, copied by both processes.",
        read: |runtime| totals(runtime).piped,
    },
    Variable {
        name: "two_copies_bytes_received",
        class: Class::Sum,
        category: "messages",
        help: "Bytes of messages received through a pipeline in shared memory.",
        read: |runtime| totals(runtime).piped_bytes,
    },
    Variable {
        name: "streamed_sent",
        class: Class::Counter,
        category: "messages",
        help: "Messages sent in chunks, because the receiver could not read the sender's memory.",
        read: |runtime| totals(runtime).streamed,
    },
    Variable {
        name: "streamed_bytes_sent",
        class: Class::Sum,
        category: "messages",
        help: "Bytes of messages sent in chunks.",
        read: |runtime| totals(runtime).streamed_bytes,
    },
    Variable {
        name: "gathered_sent",
        class: Class::Counter,
        category: "messages",
        help: "Noncontiguous messages sent without packing: gather lists of their blocks went to the receiver's \
               memory, or to the network.",
        read: |runtime| totals(runtime).gathered,
    },
    Variable {
        name: "gathered_bytes_sent",
        class: Class::Sum,
        category: "messages",
        help: "Bytes of noncontiguous messages sent without packing.",
        read: |runtime| totals(runtime).gathered_bytes,
    },
    Variable {
        name: "rma_native_puts",
        class: Class::Counter,
        category: "transports",
        help: "MPI_Put calls that used the network's remote memory.",
        read: |runtime| totals(runtime).native_puts,
    },
    Variable {
        name: "rma_native_gets",
        class: Class::Counter,
        category: "transports",
        help: "MPI_Get calls that used the network's remote memory.",
        read: |runtime| totals(runtime).native_gets,
    },
    Variable {
        name: "rma_native_atomics",
        class: Class::Counter,
        category: "transports",
        help: "Accumulates (also those that fetch, and MPI_Compare_and_swap) that used the network's atomics.",
        read: |runtime| totals(runtime).native_atomics,
    },
    Variable {
        name: "rma_kernel_copies",
        class: Class::Counter,
        category: "shared_memory",
        help: "Copies by the kernel to and from created windows of other processes of the node. (A target that waits \
               in MPI does short ones itself.)",
        read: |runtime| mpi_rma::kernel_copies(&runtime.process),
    },
    Variable {
        name: "addresses_asked",
        class: Class::Counter,
        category: "transports",
        help: "Processes whose address records this rank requested from the launcher. The ranks of a node request each once.",
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
        help: "Times that the lock of a VCI was taken. Without MPI_THREAD_MULTIPLE and thread communicators there \
               are no locks.",
        read: |runtime| totals(runtime).locked,
    },
    Variable {
        name: "locks_contended",
        class: Class::Counter,
        category: "vcis",
        help: "Times that a thread had to wait for the lock of a VCI.",
        read: |runtime| totals(runtime).contended,
    },
];

fn totals(runtime: &Runtime) -> Counters {
    let each = runtime.process.open_vcis();
    each.filter_map(|vci| runtime.process.counters(vci))
        .fold(Counters::default(), Counters::merge)
}

/// Returns the number of messages sent eagerly over the selected transports, without the loopback.
fn eager_sent(runtime: &Runtime, wanted: impl Fn(&str) -> bool) -> u64 {
    let transports = runtime.process.transports().iter().enumerate().skip(1);
    transports
        .filter(|(_, transport)| wanted(transport.name()))
        .map(|(place, _)| runtime.process.eager_sent(place))
        .sum()
}

impl Variable {
    /// Returns the value since the start of the process; 0 while MPI is not initialized.
    pub fn now(&self) -> u64 {
        runtime::running().map_or(0, self.read)
    }
}

/// Returns the most bytes of unexpected messages on a VCI since the last call.
pub fn peak() -> u64 {
    runtime::running().map_or(0, |runtime| runtime.process.take_peak())
}
