//! What a transport between nodes says of itself to libmpi.

use std::sync::Arc;

use netmod::{OpenError, Peer, Resolver, Transport};

use crate::variables::{Reader, Variable};

/// A transport between nodes, as `WEFT_NETMOD` names it. Each such crate has one as a constant; libmpi has a
/// list of them, in the order in which they are tried.
pub struct Netmod {
    /// Its value of `WEFT_NETMOD`, and what [`Transport::name`] says.
    pub name: &'static str,
    /// What it is, for people: "libfabric".
    pub title: &'static str,
    /// Its control variables.
    pub variables: &'static [Variable],
    /// Whether the values can be understood; the error names the variable, its value and what it can be.
    pub check: fn(&Reader) -> Result<(), String>,
    /// Opens it if there is an RDMA device that it can use. Those that can are tried first.
    pub open_rdma: Option<Open>,
    /// Opens it, whatever the network. `None`: it is for RDMA devices only.
    pub open: Option<Open>,
}

/// Opens a transport. The error says what was tried and what to do.
pub type Open = fn(&Start) -> Result<Arc<dyn Transport>, OpenError>;

/// What a transport between nodes is opened with.
pub struct Start<'a> {
    /// This process.
    pub me: Peer,
    /// Knows the peers' addresses.
    pub resolver: Arc<dyn Resolver>,
    /// The control variables.
    pub variables: Reader<'a>,
    /// All processes are on this machine, and the choice is free: they need no more than its loopback
    /// interface.
    pub one_machine: bool,
    /// Waiting threads may have to leave the cores to others, and so need something to be woken by.
    pub may_sleep: bool,
}

/// Whether there is an RDMA device, so that libraries for them are worth loading.
///
/// # Errors
/// There is none.
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
