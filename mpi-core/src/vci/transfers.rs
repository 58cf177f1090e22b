//! Transfers that progress chunk by chunk: pulls and pushes of pipelines.

#![deny(unsafe_code)]

use netmod::{LaneError, Lost, PipeReader};

use super::VciState;
use crate::pt2pt::engine::{Address, failed};
use crate::pt2pt::wire::Name;

/// A receive whose data comes through a pipeline.
pub(super) struct Pull {
    pub reading: PipeReader,
    pub request: Name,
    /// Whether the sender is to be told of the end.
    pub fin: bool,
}

/// A send whose pipeline has no space at the moment.
pub(super) struct Push {
    pub to: Address,
    pub request: Name,
}

impl VciState {
    /// Moves data through all pipelines. Returns whether there was progress.
    pub(super) fn move_all(&mut self) -> bool {
        let mut any = false;
        let mut pulls = std::mem::take(&mut self.pulls);
        pulls.retain_mut(|pull| {
            let (is_over, did) = self.pull(pull);
            any |= did;
            !is_over
        });
        // Pulls that were begun meanwhile come last.
        pulls.append(&mut self.pulls);
        self.pulls = pulls;
        let mut pushes = std::mem::take(&mut self.pushes);
        pushes.retain(|push| {
            let (is_over, did) = self.push(push);
            any |= did;
            !is_over
        });
        pushes.append(&mut self.pushes);
        self.pushes = pushes;
        self.count_transfers();
        any
    }

    /// Ends a transfer whose other side is lost or cannot be trusted.
    #[cold]
    pub(super) fn end_transfer(&mut self, with: Address, request: Name, error: LaneError) {
        if let Some(id) = request.id()
            && self.engine.records.named(request).is_some()
        {
            self.withdraw(with, id);
            self.engine.fail(id, failed(error.clone()));
        }
        let (peer, why) = match error {
            LaneError::PeerLost(lost) => {
                let Lost { peer, why } = *lost;
                (peer, why)
            }
            error => (with.peer, error.to_string()),
        };
        netmod::Sink::peer_lost(&mut self.engine, peer, why);
    }

    pub(super) fn count_transfers(&mut self) {
        self.waiting
            .set_transfers(self.pulls.len() + self.pushes.len());
    }

    /// Whether any pipeline is in use.
    pub(super) fn has_transfers(&self) -> bool {
        !self.pulls.is_empty() || !self.pushes.is_empty()
    }
}
