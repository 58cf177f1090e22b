//! Registration of this transport with libmpi: its control variables and how it is opened.

use crate::config::Config;
use crate::transport::OfiTransport;
use netmod::{OpenError, Transport};
use netmod_kit::variables::Variable;
use netmod_kit::{Netmod, Start, need_rdma_device};
use std::sync::Arc;

/// The transport over libfabric.
pub const NETMOD: Netmod = Netmod {
    name: "ofi",
    title: "libfabric",
    variables: VARIABLES,
    check: |variables| Config::read(0, variables).map(drop),
    open_rdma: Some(open_rdma),
    open: Some(open),
};

const VARIABLES: &[Variable] = &[
    Variable {
        name: "WEFT_OFI_PROVIDER",
        kind: "name",
        default: "chosen by what libfabric offers",
        help: "The libfabric provider to use, the same on all ranks, for instance tcp or \"tcp;ofi_rxm\" (see fi_info).",
    },
    Variable {
        name: "WEFT_OFI_INTERFACE",
        kind: "name",
        default: "lo when all ranks share this node and no container separates them, otherwise chosen by what libfabric offers",
        help: "The network interface or libfabric domain to use, for instance eth0 or lo.",
    },
    Variable {
        name: "WEFT_OFI_LIBRARY",
        kind: "name",
        default: "libfabric.so.1",
        help: "File name or path of libfabric, 1.17 or newer.",
    },
    Variable {
        name: "WEFT_OFI_RMA",
        kind: "auto, native or emulated",
        default: "auto",
        help: "MPI_Put and MPI_Get over libfabric, the same on all ranks: by the provider's remote memory where it \
               pays (auto), wherever the provider has it (native), or by messages that the target's process answers \
               (emulated).",
    },
    Variable {
        name: "WEFT_OFI_ATOMICS",
        kind: "auto, native or emulated",
        default: "auto",
        help: "The same choice for atomics over libfabric, the same on all ranks.",
    },
];

fn open(start: &Start) -> Result<Arc<dyn Transport>, OpenError> {
    Ok(Arc::new(ofi(start)?))
}

/// Opens the transport if it has an RDMA device to use.
fn open_rdma(start: &Start) -> Result<Arc<dyn Transport>, OpenError> {
    // Loading the library is slow.
    if !std::path::Path::new("/sys/class/cxi").exists() {
        need_rdma_device()?;
    }
    let transport = ofi(start)?;
    if !transport.has_rdma() {
        return Err(OpenError(format!(
            "no RDMA device serves ({})",
            transport.describe()
        )));
    }
    Ok(Arc::new(transport))
}

fn ofi(start: &Start) -> Result<OfiTransport, OpenError> {
    let mut config = Config::read(start.me, &start.variables).map_err(OpenError)?;
    // For a wake-up the tcp provider makes two system calls per message.
    config.wake_up = start.may_sleep;
    if config.interface.is_none() && start.one_machine {
        config.interface = Some("lo".to_string());
    }
    OfiTransport::open(config, start.resolver.clone())
}
