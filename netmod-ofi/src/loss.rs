//! Detects lost peers: those that accept no messages, and those that are waited for.

use std::time::Instant;

use netmod::{Peer, Sink};

use crate::address::untagged_address;
use crate::lane::OfiLane;
use crate::links;
use crate::probe::Stuck;
use crate::watch::Watched;

impl OfiLane {
    /// Records that there was no space for an endpoint, and probes it if that has lasted. If
    /// `leaving`, it is probed immediately, and given up after a while if it cannot be probed: only
    /// a sign that earlier messages have left is needed then. Returns the reason if its process is
    /// gone.
    #[cold]
    pub(crate) fn no_room(&mut self, endpoint: u32, leaving: bool) -> Option<String> {
        let number = self.peers.process_of(endpoint).number;
        if let Some(why) = self.shared.lost.reason(number) {
            return Some(why);
        }
        if !self.probes && !leaving {
            return None;
        }
        let probes = self.probes;
        let state = self.peers.endpoint(endpoint);
        let new = || Box::new(Stuck::new(leaving));
        let stuck = state.stuck.get_or_insert_with(new);
        if !probes {
            let why = || "it no longer receives messages".to_string();
            return stuck.is_hopeless().then(why);
        }
        let number = stuck.step(&state.address)?;
        Some(self.shared.lib.error_text(number))
    }

    /// Implements [`netmod::Lane::check_peers`].
    pub(crate) fn look_after(&mut self, awaited: &[Peer], sink: &mut dyn Sink) {
        if !self.probes {
            return;
        }
        let closed = self
            .listener
            .is_some_and(|listener| !links::is_at(listener, self.port));
        if closed {
            let why = "the program has closed the descriptors of this process's connections; close only \
                       descriptors that the program has opened itself";
            for &peer in awaited {
                self.shared.lost.add(peer, why);
                sink.peer_lost(peer, format!("{}: {why}", self.shared.provider));
            }
            return;
        }
        let now = Instant::now();
        for (_, watched) in self
            .watched
            .iter_mut()
            .filter(|(peer, _)| !awaited.contains(peer))
        {
            watched.settle(now);
        }
        for &peer in awaited {
            if let Some(why) = self.shared.lost.reason(peer) {
                // Another lane may have found it lost.
                self.report_loss(peer, &why, sink);
                continue;
            }
            if !self.watched.contains_key(&peer) {
                let Ok(address) = self.shared.resolver.resolve(peer, 0) else {
                    continue;
                };
                // 16 bytes is the length of an IPv4 address, the shorter kind.
                let name = untagged_address(&address).map(|(_, name)| name);
                let Some(name) = name.filter(|name| name.len() >= 16) else {
                    continue;
                };
                let watched = Watched::new(name.to_vec(), now);
                self.watched.insert(peer, watched);
            }
            let (lib, port) = (self.shared.lib, self.port);
            let gone = self
                .watched
                .get_mut(&peer)
                .and_then(|watched| watched.step(now, port, |number| lib.error_text(number)));
            if let Some(why) = gone {
                self.report_loss(peer, &why, sink);
            }
        }
    }

    /// Ends this lane's operations with a lost peer, and reports the loss once.
    #[cold]
    fn report_loss(&mut self, peer: Peer, why: &str, sink: &mut dyn Sink) {
        if !self.reported_lost.insert(peer) {
            return;
        }
        self.watched.remove(&peer);
        let process = self.peers.find_process(peer);
        let endpoints = process.map(|process| self.peers.endpoints_of(process));
        match endpoints.and_then(|endpoints| endpoints.first().copied()) {
            Some(endpoint) => self.fail_peer(endpoint, "looking after the peer", why),
            None => self.shared.lost.add(peer, why),
        }
        sink.peer_lost(
            peer,
            format!(
                "{}: {why}; the process has ended or the network to it is down: look for its own \
                 message first, then check the interface (WEFT_OFI_INTERFACE)",
                self.shared.provider
            ),
        );
    }
}
