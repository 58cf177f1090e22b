//! Lost peers: checking for them, notifying others, failing operations with them.

#![deny(unsafe_code)]

use netmod::{LaneError, Lost, Payload, Peer};

use super::{OWN, VciState};
use crate::error::Error;
use crate::pt2pt::NOBODY;
use crate::pt2pt::context::{ContextId, Purpose};
use crate::pt2pt::engine::{Action, Address, Engine, lost_peer};
use crate::pt2pt::notice::Notice;
use crate::pt2pt::request::Role;
use crate::pt2pt::wire::{Control, PacketKind};

impl VciState {
    /// Returns whether [`VciState::take_news`] has anything new to return.
    #[inline(always)]
    pub fn has_news(&self) -> bool {
        self.engine.news
    }

    /// Returns the processes lost and the notices received since the last call.
    pub fn take_news(&mut self) -> (Vec<(Peer, String)>, Vec<Notice>) {
        let reported = std::mem::replace(&mut self.engine.lost_reported, self.engine.lost.len());
        self.engine.news = false;
        let notices = std::mem::take(&mut self.engine.notices);
        (self.engine.lost[reported..].to_vec(), notices)
    }

    /// Marks all losses as reported.
    pub(super) fn losses_are_known(&mut self) {
        self.engine.lost_reported = self.engine.lost.len();
        self.engine.news = !self.engine.notices.is_empty();
    }

    /// Fails the operations in which a lost process takes part, or may take part: receives from any
    /// source.
    ///
    /// A transfer of the transport (a read of the peer's memory) is ended and reported by the
    /// transport; until then its buffer is in use.
    ///
    /// `owners` are the owners of requests that have a process of another job as a member; `None`
    /// stands for all. With `spares` the program's receives from any source stay pending, and waiting
    /// for them reports the loss.
    pub fn handle_lost_peer(
        &mut self,
        peer: Peer,
        why: &str,
        owners: Option<&[u32]>,
        spares: bool,
    ) {
        self.engine.spares_any = spares;
        let concerns = |owner| owners.is_none_or(|owners| owners.contains(&owner));
        let owners = owners.unwrap_or(&[]);
        // A loss that this VCI has found itself meanwhile is still to be reported.
        let all_reported = self.engine.lost_reported == self.engine.lost.len();
        netmod::Sink::peer_lost(&mut self.engine, peer, why.to_string());
        if all_reported {
            self.losses_are_known();
        }
        let members = &mut self.engine.lost_members;
        for owner in owners {
            if !members.contains(&(peer, *owner)) {
                members.push((peer, *owner));
            }
        }
        for id in self.engine.records.active() {
            let owner = self.engine.records.owner_of(id);
            let Some(record) = self.engine.records.get(id) else {
                continue;
            };
            let with_it = record.peer == peer;
            let spared = spares && Purpose::PointToPoint.is_of(record.key.context);
            let from_any = record.peer == NOBODY && concerns(owner) && !spared;
            let ends = match record.role {
                Role::Posted(_) => with_it || from_any,
                Role::Receiving => with_it && !record.fetching,
                Role::AwaitingAck | Role::AwaitingReceiver | Role::Streaming => with_it,
                Role::Queued | Role::Leaving | Role::Ending => false,
                Role::External | Role::Idle => false,
            };
            if ends {
                let to = Address {
                    peer,
                    vci: record.peer_vci,
                };
                if !matches!(record.role, Role::Posted(_) | Role::Receiving) {
                    self.withdraw(to, id);
                }
                self.engine.fail(id, lost_peer(peer, why));
            }
        }
        // Actions that wait for space to this peer fail now.
        self.dispatch();
    }

    /// Fails the program's messages in a revoked context. A send that its receiver may be reading is
    /// recalled; a transfer in progress goes on.
    pub fn end_messages(&mut self, context: ContextId, error: &Error) {
        let contexts = [Purpose::PointToPoint, Purpose::Partitioned].map(|one| context.of(one));
        for id in self.engine.records.active() {
            let Some(record) = self.engine.records.get(id) else {
                continue;
            };
            if !contexts.contains(&record.key.context) {
                continue;
            }
            let role = record.role;
            match role {
                Role::Posted(_) => self.engine.fail(id, error.clone()),
                Role::Queued if self.unqueue(id) => self.engine.fail(id, error.clone()),
                _ => self.engine.recall(id, error),
            }
        }
        self.dispatch();
    }

    /// Notifies the processes with which this one communicates of a loss: they may wait for a process
    /// that has given up because of it. Only processes of the own job are notified, since others know
    /// the lost process by another number.
    pub fn announce_loss(&mut self, peer: Peer, is_foreign: impl Fn(Peer) -> bool) {
        if is_foreign(peer) {
            return;
        }
        let body = Control {
            value: u64::from(peer),
            ..Control::default()
        };
        let Engine {
            streams,
            outbox,
            lost,
            ..
        } = &mut self.engine;
        for (to, vci, stream) in streams.iter() {
            if stream.is_used() && !is_foreign(to) && !lost.iter().any(|(lost, _)| *lost == to) {
                outbox.push(Action::Control(
                    Address { peer: to, vci },
                    PacketKind::Lost,
                    body,
                ));
            }
        }
        self.dispatch();
    }

    /// Adds all peers that messages were sent to.
    pub fn add_known_peers(&mut self, peers: &mut Vec<Peer>) {
        let streams = self.engine.streams.iter();
        let used = streams.filter(|(_, _, stream)| stream.is_used());
        peers.extend(used.map(|(peer, ..)| peer));
    }

    /// Returns the owners of posted receives from any source.
    pub fn owners_from_any(&mut self) -> Vec<u32> {
        let mut owners = Vec::new();
        for id in self.engine.records.active() {
            let owner = self.engine.records.owner_of(id);
            if let Some(record) = self.engine.records.get(id)
                && matches!(record.role, Role::Posted(_))
                && record.peer == NOBODY
                && !owners.contains(&owner)
            {
                owners.push(owner);
            }
        }
        owners
    }

    /// Makes the transports check whether peers are alive, above all those that requests wait for and
    /// those in `awaited`.
    pub fn check_peers(&mut self, mut awaited: Vec<Peer>) {
        for id in self.engine.records.active() {
            if let Some(record) = self.engine.records.get(id)
                && !matches!(record.role, Role::External | Role::Idle)
                && record.peer != NOBODY
                && awaited.last() != Some(&record.peer)
            {
                awaited.push(record.peer);
            }
        }
        awaited.extend(self.engine.remote.peers());
        awaited.sort_unstable();
        awaited.dedup();
        let found: Vec<(usize, Peer)> = awaited
            .into_iter()
            .filter_map(|peer| Some((self.route_index(Address { peer, vci: 0 }).ok()?, peer)))
            .collect();
        let VciState { engine, routes, .. } = self;
        for (index, route) in routes.iter_mut().enumerate() {
            let here = found.iter().filter(|(route, _)| *route == index);
            let here: Vec<Peer> = here.map(|(_, peer)| *peer).collect();
            route.lane.check_peers(&here, engine);
        }
        for (route, peer) in found {
            if self.routes[route].transport.shared_memory().is_none() && route != OWN {
                self.connect(Address { peer, vci: 0 });
            }
        }
    }

    /// Sends an empty message to a peer to which none was sent before, so that there is a connection
    /// whose end the transport notices.
    pub(super) fn connect(&mut self, to: Address) {
        let stream = self.engine.streams.get(to.peer, to.vci);
        if std::mem::replace(&mut stream.connected, true) || stream.is_pending() {
            return;
        }
        let trailer = self.engine.trailer(to, PacketKind::Credit);
        let header = Control::default().header(trailer);
        let result = match self.route_to(to) {
            Ok(route) => route
                .lane
                .send(to.peer, to.vci, &header, Payload::Bytes(&[])),
            Err(error) => Err(error),
        };
        self.restore_credit(to, trailer, &result);
        match result {
            Err(LaneError::PeerLost(lost)) => {
                let Lost { peer, why } = *lost;
                netmod::Sink::peer_lost(&mut self.engine, peer, why);
            }
            // No space: the next check tries again.
            Err(_) => self.engine.streams.get(to.peer, to.vci).connected = false,
            Ok(_) => {}
        }
    }
}
