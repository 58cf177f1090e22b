//! Registration of this transport with libmpi: its control variables and how it is opened.

use crate::config::Config;
use crate::transport::UcxTransport;
use netmod::{OpenError, Transport};
use netmod_kit::variables::Variable;
use netmod_kit::{Netmod, Start, need_rdma_device};
use std::sync::Arc;

/// The transport over UCX.
pub const NETMOD: Netmod = Netmod {
    name: "ucx",
    title: "UCX",
    variables: VARIABLES,
    check: |variables| Config::read(0, variables).map(drop),
    open_rdma: Some(open_rdma),
    open: Some(open),
};

const VARIABLES: &[Variable] = &[
    Variable {
        name: "WEFT_UCX_TLS",
        kind: "list",
        default: "UCX_TLS; without it all transports of UCX that reach other hosts",
        help: "UCX's own transports to use, the same on all ranks, for instance tcp or rc,ud_verbs:aux (see ucx_info -d). \
               UCX's own variables hold for all other settings.",
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
];

fn ucx(start: &Start) -> Result<UcxTransport, OpenError> {
    let config = Config::read(start.me, &start.variables).map_err(OpenError)?;
    UcxTransport::open(config, start.resolver.clone())
}

fn open(start: &Start) -> Result<Arc<dyn Transport>, OpenError> {
    Ok(Arc::new(ucx(start)?))
}

fn open_rdma(start: &Start) -> Result<Arc<dyn Transport>, OpenError> {
    need_rdma_device()?;
    let transport = ucx(start)?;
    if !transport.has_rdma() {
        return Err(OpenError(format!(
            "no RDMA device serves ({})",
            transport.describe()
        )));
    }
    Ok(Arc::new(transport))
}
