//! Registration of this transport with libmpi: its control variables and how it is opened.

use std::sync::Arc;

use netmod::{OpenError, Transport};
use netmod_kit::{Netmod, Start};

use crate::TcpTransport;
use crate::config::{Config, VARIABLES};

/// The transport over plain sockets.
pub const NETMOD: Netmod = Netmod {
    name: "tcp",
    title: "plain sockets",
    variables: VARIABLES,
    check: |variables| Config::read(0, variables).map(drop),
    open_rdma: None,
    open: Some(open),
};

fn open(start: &Start) -> Result<Arc<dyn Transport>, OpenError> {
    let mut config = Config::read(start.me, &start.variables).map_err(OpenError)?;
    if !config.names_interfaces() && start.one_machine {
        config.set_interfaces("lo")?;
    }
    let transport = TcpTransport::open(config, start.resolver.clone())?;
    Ok(Arc::new(transport))
}
