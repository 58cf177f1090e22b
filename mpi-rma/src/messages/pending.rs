//! What a process has under way to the targets of a window by messages.

use mpi_core::process::loan::Loan;
use mpi_core::pt2pt::request::RequestId;

/// The data of a message of ours, until it has left.
pub(crate) type Sent = Loan<Vec<u8>>;

/// What this process has under way to targets.
#[derive(Default)]
pub(crate) struct Origin {
    pub(crate) sends: Vec<Sent>,
    /// In the order in which they were begun.
    pub(crate) fetches: Vec<Fetch>,
    pub(crate) begun: u64,
}

/// An answer that is waited for, and the request that tells the program of it.
pub(crate) struct Fetch {
    pub(crate) number: u64,
    pub(crate) target: u32,
    pub(crate) id: RequestId,
    pub(crate) outer: Option<RequestId>,
}

impl Origin {
    /// For [`Origin::awaits`]: now.
    pub fn mark(&self) -> u64 {
        self.begun
    }

    /// Whether answers of `target` (of any, if none is said) are missing that were asked for before
    /// `until`.
    pub fn awaits(&self, target: Option<u32>, until: u64) -> bool {
        let is = |fetch: &Fetch| target.is_none_or(|target| fetch.target == target);
        let mut early = self.fetches.iter().take_while(|it| it.number < until);
        early.any(is)
    }

    /// Whether nothing has been sent that has not left, and no answer is missing.
    pub fn is_idle(&self) -> bool {
        self.fetches.is_empty() && self.sends.is_empty()
    }

    pub fn sends(&self) -> usize {
        self.sends.len()
    }
}
