//! Registration of this transport with libmpi: its control variables and how it is opened.

use crate::config::Config;
use crate::transport::VerbsTransport;
use netmod::{OpenError, Transport};
use netmod_kit::variables::Variable;
use netmod_kit::{Netmod, Start, need_rdma_device};
use std::sync::Arc;

/// The transport over InfiniBand verbs.
pub const NETMOD: Netmod = Netmod {
    name: "verbs",
    title: "InfiniBand verbs",
    variables: VARIABLES,
    check: |variables| Config::read(0, variables).map(drop),
    open_rdma: Some(open),
    open: None,
};

const VARIABLES: &[Variable] = &[
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
        help: "The entry of the port's address table (GIDs) that verbs uses.",
    },
    Variable {
        name: "WEFT_VERBS_SHARING",
        kind: "context, domain, uar, cq or qp",
        default: "domain",
        help: "What the VCIs of a process share of the adapter: nothing (a device context each); one context, but a \
               thread domain and thus a doorbell page each; the context's doorbell pages; also the completion \
               queue; or also the queue pairs (then the same on all ranks). More sharing uses fewer resources of the \
               adapter and costs speed when several threads communicate. See osu-bench verbs-sharing.",
    },
    Variable {
        name: "WEFT_VERBS_LIBRARY",
        kind: "name",
        default: "libibverbs.so.1",
        help: "File name or path of libibverbs.",
    },
];

fn open(start: &Start) -> Result<Arc<dyn Transport>, OpenError> {
    need_rdma_device()?;
    let config = Config::read(start.me, &start.variables).map_err(OpenError)?;
    let transport = VerbsTransport::open(config, start.resolver.clone())?;
    Ok(Arc::new(transport))
}
