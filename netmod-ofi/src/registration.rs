//! What libmpi is told of this transport: its control variables, and how it is opened by them.

use crate::config::Config;
use crate::transport::OfiTransport;
use netmod::{OpenError, Transport};
use netmod_kit::variables::Variable;
use netmod_kit::{Netmod, Start};
use std::sync::Arc;

/// Weft over libfabric.
pub const NETMOD: Netmod = Netmod {
    name: "ofi",
    title: "libfabric",
    variables: VARIABLES,
    check: |variables| Config::read(0, variables).map(drop),
    open_rdma: None,
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
        default: "lo when all ranks share this node, otherwise chosen by what libfabric offers",
        help: "The network interface or libfabric domain to use, for instance eth0 or lo.",
    },
    Variable {
        name: "WEFT_OFI_LIBRARY",
        kind: "name",
        default: "libfabric.so.1",
        help: "File name or path of libfabric, 1.17 or newer.",
    },
];

fn open(start: &Start) -> Result<Arc<dyn Transport>, OpenError> {
    let mut config = Config::read(start.me, &start.variables).map_err(OpenError)?;
    // For its wake-up the tcp provider makes two system calls per message.
    config.wake_up = start.may_sleep;
    if config.interface.is_none() && start.one_machine {
        config.interface = Some("lo".to_string());
    }
    let transport = OfiTransport::open(config, start.resolver.clone())?;
    Ok(Arc::new(transport))
}
