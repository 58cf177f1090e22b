//! How a transport between nodes describes itself to libmpi.

use std::sync::Arc;

use netmod::{OpenError, Peer, Resolver, Transport};

use crate::variables::{Reader, Variable};

/// Describes a transport between nodes, as `WEFT_NETMOD` names it. Each such crate has one as a
/// constant; libmpi lists them in the order in which they are tried.
pub struct Netmod {
    /// Value of `WEFT_NETMOD`, equal to [`Transport::name`].
    pub name: &'static str,
    /// Name for people, such as "libfabric".
    pub title: &'static str,
    /// Control variables.
    pub variables: &'static [Variable],
    /// Checks the values of the variables; the error names the variable, its value and the allowed
    /// values.
    pub check: fn(&Reader) -> Result<(), String>,
    /// Opens the transport if it can use an RDMA device. Transports that can are tried first.
    pub open_rdma: Option<Open>,
    /// Opens the transport on any network. `None`: it needs an RDMA device.
    pub open: Option<Open>,
}

/// Opens a transport. The error says what was tried and what to do.
pub type Open = fn(&Start) -> Result<Arc<dyn Transport>, OpenError>;

/// Parameters for opening a transport between nodes.
pub struct Start<'a> {
    /// This process.
    pub me: Peer,
    /// Source of the peers' addresses.
    pub resolver: Arc<dyn Resolver>,
    /// The control variables.
    pub variables: Reader<'a>,
    /// Whether all processes are on this machine and the user has not chosen an interface: the
    /// loopback interface suffices.
    pub one_machine: bool,
    /// Whether waiting threads may have to yield their cores, so that they need an object to sleep
    /// on.
    pub may_sleep: bool,
}

/// Checks that the host has an RDMA device, before a library for such devices is loaded.
///
/// # Errors
/// The host has no RDMA device.
pub fn need_rdma_device() -> Result<(), OpenError> {
    let devices = std::fs::read_dir("/sys/class/infiniband");
    if devices.map_or(0, Iterator::count) > 0 {
        return Ok(());
    }
    Err(OpenError(
        "this host has no RDMA device (/sys/class/infiniband is empty; if it has an adapter, load \
         its kernel module)"
            .to_string(),
    ))
}
