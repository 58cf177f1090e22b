//! Where the ranks of a communicator with endpoints are: several of them may be in one process.

use std::any::Any;
use std::sync::Arc;

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
    /// The context in which it receives.
    pub context: ContextId,
}

/// The ranks of a communicator with endpoints, and what this process's share.
pub struct Points {
    /// By rank.
    pub list: Box<[Point]>,
    /// Whether each process has one rank, at its stream.
    pub one_each: bool,
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

impl Comm {
    /// The rank of an endpoint of this process.
    pub fn endpoint(points: Arc<Points>, group: Group, rank: u32) -> Comm {
        let vci = points.get(rank).vci;
        Comm::endpoint_from(points, group, rank, vci)
    }

    /// The same, which sends from another VCI than the one where messages to it arrive. To receive by, it
    /// must be the same.
    pub fn endpoint_from(points: Arc<Points>, group: Group, rank: u32, vci: VciId) -> Comm {
        let own = points.get(rank);
        let comm = Comm::new(own.context, group, rank).with_points(points, vci);
        comm.mark_used();
        comm
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
                 the communicator that it was made of (MPI_Comm_dup works)"
            ),
        ))
    }
}
