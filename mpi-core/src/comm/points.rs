//! Where the ranks of a communicator with endpoints are: several of them may be in one process.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::AtomicU16;

use netmod::{Peer, VciId};

use super::{Comm, ContextId};
use crate::error::{Class, Error, Result};
use crate::group::Group;

/// Where a rank is.
#[derive(Clone, Copy)]
pub struct Point {
    /// The process.
    pub peer: Peer,
    /// The VCI at which it receives.
    pub vci: VciId,
    /// Counts the ranks of the process from 0. Each receives in a context of its own: the one of this number in the
    /// communicator's block.
    pub number: u16,
}

/// The ranks of a communicator with endpoints or streams, which its duplicates share.
pub struct Points {
    /// By rank.
    pub list: Box<[Point]>,
    /// Whether each process has one rank, at its stream.
    pub one_each: bool,
    /// Contexts in the block of such a communicator.
    pub contexts: u32,
    /// This process's VCIs, kept for as long as one of its endpoints is there.
    pub _kept: Option<Arc<dyn Any + Send + Sync>>,
}

impl Points {
    /// The point of a rank, which must be less than their number.
    #[inline]
    pub fn get(&self, rank: u32) -> Point {
        self.list[rank as usize]
    }
}

/// What a communicator knows of its own rank as an endpoint.
pub(super) struct Endpoint {
    pub points: Arc<Points>,
    /// The VCI from which it sends.
    pub vci: [VciId; 1],
    /// [`Point::number`] of its rank.
    pub number: u16,
}

impl Endpoint {
    /// Makes a communicator like `comm`, whose endpoint this is, in another block of contexts.
    #[cold]
    pub fn duplicate(&self, comm: &Comm, context: ContextId) -> Comm {
        let (points, group) = (self.points.clone(), comm.local().clone());
        Comm::endpoint_from(points, group, context, comm.rank(), self.vci[0])
    }
}

impl Comm {
    /// The rank of an endpoint of this process, in the block of contexts that begins with `context`.
    pub fn endpoint(points: Arc<Points>, group: Group, context: ContextId, rank: u32) -> Comm {
        let vci = points.get(rank).vci;
        Comm::endpoint_from(points, group, context, rank, vci)
    }

    /// The same, which sends from another VCI than the one where messages to it arrive. To receive by, it
    /// must be the same.
    pub fn endpoint_from(
        points: Arc<Points>,
        group: Group,
        context: ContextId,
        rank: u32,
        vci: VciId,
    ) -> Comm {
        let number = points.get(rank).number;
        let comm = Comm {
            vci: AtomicU16::new(vci),
            endpoint: Some(Endpoint {
                points,
                vci: [vci],
                number,
            }),
            ..Comm::new(context.plus(number.into()), group, rank)
        };
        comm.mark_used();
        comm
    }

    /// Returns how many contexts a duplicate needs.
    pub fn contexts(&self) -> u32 {
        self.points().map_or(1, |points| points.contexts)
    }

    /// Refuses to speak of groups where a process has several ranks.
    ///
    /// # Errors
    /// `MPI_ERR_COMM`.
    pub fn check_groups(&self) -> Result<()> {
        if self.points().is_none_or(|points| points.one_each) {
            return Ok(());
        }
        Err(Error::new(
            Class::Comm,
            "it has endpoints, which groups, being of processes, can't tell apart; use fences and \
             locks rather than MPI_Win_start and MPI_Win_post, and ranks rather than groups",
        ))
    }

    /// Whether ranks of it are endpoints.
    pub fn has_endpoints(&self) -> bool {
        self.points().is_some_and(|points| !points.one_each)
    }

    /// Refuses what is not made for communicators with endpoints.
    ///
    /// # Errors
    /// `MPI_ERR_COMM`.
    pub fn check_plain(&self, function: &str) -> Result<()> {
        if self.points().is_none() {
            return Ok(());
        }
        Err(Error::new(
            Class::Comm,
            format!(
                "the communicator has endpoints or streams, of which {function} can't make others; take \
                 the communicator that it was made of (MPI_Comm_dup and MPI_Comm_idup work)"
            ),
        ))
    }
}
