//! Transfers that progress chunk by chunk: pulls and pushes of pipelines, and memory that receivers
//! of the node read.

#![deny(unsafe_code)]

use netmod::{LaneError, Lost, PipeReader, RemoteAddr};

use super::VciState;
use crate::pt2pt::engine::{Address, failed};
use crate::pt2pt::wire::Name;

/// A receive whose data comes through a pipeline.
pub(super) struct Pull {
    pub reading: PipeReader,
    pub request: Name,
    /// Where the sender's memory can be read if the sender is busy.
    pub remote: Option<RemoteAddr>,
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
        any || self.help()
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

    /// Copies a share of what a receiver reads from this process's memory. Returns whether there was
    /// one.
    fn help(&mut self) -> bool {
        let own = self.rx_ring.as_ref().filter(|_| self.offers > 0);
        own.is_some_and(|(_, own)| {
            let node = self.routes[*own].lane.node();
            node.is_some_and(|node| node.help())
        })
    }

    /// Adds `more`, which may be negative, to the number of sends whose memory receivers of this node
    /// may read.
    pub(super) fn count_offers(&mut self, more: isize) {
        self.offers = self.offers.saturating_add_signed(more);
        self.count_transfers();
    }

    pub(super) fn count_transfers(&mut self) {
        self.waiting
            .set_transfers(self.pulls.len() + self.pushes.len() + self.offers);
    }

    /// Whether any pipeline is in use, or memory may be read by receivers.
    pub(super) fn has_transfers(&self) -> bool {
        !self.pulls.is_empty() || !self.pushes.is_empty() || self.offers > 0
    }

    /// Whether a pull must be polled although no peer may ever notify this process.
    pub(super) fn pulls_need_polling(&self) -> bool {
        self.pulls.iter().any(|pull| pull.remote.is_some())
    }
}
