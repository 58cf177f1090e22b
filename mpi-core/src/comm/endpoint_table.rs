//! Addresses of the ranks of a communicator with endpoints; one process may have several ranks.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::AtomicU16;

use netmod::{Peer, VciId};

use super::{Comm, ContextId};
use crate::error::{Class, Error, Result};
use crate::group::Group;

/// The address of a rank.
#[derive(Clone, Copy)]
pub struct EndpointAddress {
    /// The process.
    pub peer: Peer,
    /// The VCI at which the rank receives.
    pub vci: VciId,
    /// Number of the rank within its process, from 0. The rank receives in the context of this
    /// number within the communicator's block.
    pub number: u16,
}

/// The ranks of a communicator with endpoints or streams, shared by its duplicates.
pub struct EndpointTable {
    /// Addresses, indexed by rank.
    pub list: Box<[EndpointAddress]>,
    /// Whether each process has exactly one rank, bound to its stream.
    pub one_each: bool,
    /// Number of contexts in the communicator's block.
    pub contexts: u32,
    /// Keeps this process's VCIs open while one of its endpoints exists.
    pub _kept: Option<Arc<dyn Any + Send + Sync>>,
}

impl EndpointTable {
    /// Returns the address of `rank`, which must be less than the number of ranks.
    #[inline]
    pub fn get(&self, rank: u32) -> EndpointAddress {
        self.list[rank as usize]
    }
}

/// The own rank of a communicator with endpoints or streams.
pub(super) struct Endpoint {
    pub table: Arc<EndpointTable>,
    /// The VCI from which the rank sends.
    pub vci: [VciId; 1],
    /// [`EndpointAddress::number`] of the rank.
    pub number: u16,
}

impl Endpoint {
    /// Duplicates `comm`, which this endpoint belongs to, in another block of contexts.
    #[cold]
    pub fn duplicate(&self, comm: &Comm, context: ContextId) -> Comm {
        let (table, group) = (self.table.clone(), comm.local().clone());
        Comm::endpoint_from(table, group, context, comm.rank(), self.vci[0])
    }
}

impl Comm {
    /// Creates the communicator of an endpoint of this process, in the block of contexts that
    /// begins with `context`.
    pub fn endpoint(
        table: Arc<EndpointTable>,
        group: Group,
        context: ContextId,
        rank: u32,
    ) -> Comm {
        let vci = table.get(rank).vci;
        Comm::endpoint_from(table, group, context, rank, vci)
    }

    /// Creates the communicator of an endpoint that sends from `vci`. To receive, `vci` must be the
    /// VCI of the rank's [`EndpointAddress`].
    pub fn endpoint_from(
        table: Arc<EndpointTable>,
        group: Group,
        context: ContextId,
        rank: u32,
        vci: VciId,
    ) -> Comm {
        let number = table.get(rank).number;
        let comm = Comm {
            vci: AtomicU16::new(vci),
            endpoint: Some(Endpoint {
                table,
                vci: [vci],
                number,
            }),
            ..Comm::new(context.plus(number.into()), group, rank)
        };
        comm.mark_used();
        comm
    }

    /// Number of contexts that a duplicate needs.
    pub fn contexts(&self) -> u32 {
        self.endpoint_table().map_or(1, |table| table.contexts)
    }

    /// Fails if a process has several ranks, which a group cannot tell apart.
    ///
    /// # Errors
    /// `MPI_ERR_COMM` if the communicator has endpoints.
    pub fn check_groups(&self) -> Result<()> {
        if self.endpoint_table().is_none_or(|table| table.one_each) {
            return Ok(());
        }
        Err(Error::new(
            Class::Comm,
            "the communicator has endpoints, which groups of processes cannot tell apart; use fences \
             and locks instead of MPI_Win_start and MPI_Win_post, and ranks instead of groups",
        ))
    }

    /// Whether the ranks are endpoints.
    pub fn has_endpoints(&self) -> bool {
        self.endpoint_table().is_some_and(|table| !table.one_each)
    }

    /// Fails if the communicator has endpoints or streams, which `function` does not support.
    ///
    /// # Errors
    /// `MPI_ERR_COMM` if the communicator has endpoints or streams.
    pub fn check_plain(&self, function: &str) -> Result<()> {
        if self.endpoint_table().is_none() {
            return Ok(());
        }
        Err(Error::new(
            Class::Comm,
            format!(
                "the communicator has endpoints or streams, which {function} does not support; use \
                 the communicator it was created from (MPI_Comm_dup and MPI_Comm_idup work)"
            ),
        ))
    }
}
