//! An origin's pending messages to the targets of a window.

use mpi_core::process::loan::Loan;
use mpi_core::pt2pt::request::RequestId;
use mpi_types::error::{Class, Error, Result};

/// A message that has not left yet.
pub(crate) type Sent = Loan<Vec<u8>>;

/// Pending requests and answers of this process as an origin, on one lane.
#[derive(Default)]
pub(crate) struct Origin {
    pub(crate) sends: Vec<Sent>,
    /// Pending answers in the order of their requests.
    pub(crate) fetches: Vec<Fetch>,
    pub(crate) begun: u64,
    /// Operations that have ended because their target is lost, until a call that completes
    /// operations at the target raises the error.
    lost: Vec<(u32, Error)>,
}

/// A pending answer, and the program's request that it completes.
pub(crate) struct Fetch {
    pub(crate) number: u64,
    pub(crate) target: u32,
    pub(crate) id: RequestId,
    pub(crate) outer: Option<RequestId>,
}

impl Origin {
    /// Returns the number of the next answer, for [`Origin::awaits`].
    pub fn mark(&self) -> u64 {
        self.begun
    }

    /// Whether answers of `target` (of any, if `None`) with numbers below `until` are pending.
    pub fn awaits(&self, target: Option<u32>, until: u64) -> bool {
        let is = |fetch: &Fetch| target.is_none_or(|target| fetch.target == target);
        let mut early = self.fetches.iter().take_while(|it| it.number < until);
        early.any(is)
    }

    /// Removes the answers for which `end` returns a result. Returns the last error that is not the
    /// loss of a target.
    pub fn end_fetches(&mut self, mut end: impl FnMut(&Fetch) -> Option<Result<()>>) -> Result<()> {
        let mut result = Ok(());
        let Origin { fetches, lost, .. } = self;
        fetches.retain(|fetch| match end(fetch) {
            None => true,
            Some(ended) => {
                if let Err(error) = keep_loss(lost, fetch.target, ended) {
                    result = Err(error);
                }
                false
            }
        });
        result
    }

    /// Keeps the error of an operation if it is the loss of its target. Returns other errors.
    pub fn keep_loss(&mut self, target: u32, result: Result<()>) -> Result<()> {
        keep_loss(&mut self.lost, target, result)
    }

    /// Whether errors of lost targets are kept.
    pub fn has_losses(&self) -> bool {
        !self.lost.is_empty()
    }

    /// Raises the first kept error of `target` (of any, if `None`), and forgets the others.
    pub fn raise_loss(&mut self, target: Option<u32>) -> Result<()> {
        let is = |lost: &mut (u32, Error)| target.is_none_or(|target| lost.0 == target);
        let first = self
            .lost
            .extract_if(.., is)
            .fold(None, |first, lost| first.or(Some(lost.1)));
        first.map_or(Ok(()), Err)
    }

    /// Whether all messages have left and all answers have arrived.
    pub fn is_idle(&self) -> bool {
        self.fetches.is_empty() && self.sends.is_empty()
    }

    pub fn sends(&self) -> usize {
        self.sends.len()
    }
}

/// Keeps an error in `lost` if it is the loss of a target, since the call that makes progress may
/// not concern that target. Returns other errors.
fn keep_loss(lost: &mut Vec<(u32, Error)>, target: u32, result: Result<()>) -> Result<()> {
    match result {
        Err(error) if error.class() == Class::ProcFailed => {
            lost.push((target, error));
            Ok(())
        }
        result => result,
    }
}
