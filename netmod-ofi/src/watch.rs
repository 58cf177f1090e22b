//! Looks after peers from which something is awaited.
//!
//! Nothing is under way to such a peer, so no broken connection shows that it has gone. As with
//! peers that take nothing (see `probe`), its listening socket is asked. And its host is: by a port
//! that nobody uses, whose refusal shows that the host can be reached. A host that answered once and
//! then is silent for long is lost; one that never answers may just be behind a firewall.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use netmod::{Peer, Sink};

use crate::connect::untagged_address;
use crate::lane::OfiLane;
use crate::probe::{Verdict, answer, ask, is_gone};

/// Time between two questions to a process at first and at last; each takes a place in the queue of
/// a process that doesn't accept for a while.
const FIRST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(10);
/// Time between two questions to a host.
const HOST_EVERY: Duration = Duration::from_secs(1);
/// How long a host that has answered may be silent.
const SILENCE: Duration = Duration::from_secs(10);

/// The TCP port multiplexer's: next to nobody offers it.
const UNUSED_PORT: u16 = 1;

/// A peer that is looked after.
pub(crate) struct Watched {
    address: Vec<u8>,
    process: Asked,
    pause: Duration,
    host: Asked,
    heard: Option<Instant>,
}

#[derive(Default)]
struct Asked {
    question: Option<OwnedFd>,
    next: Option<Instant>,
}

impl Asked {
    /// Asks when it is time, and looks for the answer.
    fn step(&mut self, address: &[u8], now: Instant) -> Verdict {
        let verdict = match &self.question {
            Some(socket) => answer(socket),
            None if self.next.is_some_and(|next| now < next) => return Verdict::Unknown,
            None => match ask(address) {
                Err(number) => Verdict::Gone(number),
                Ok(socket) => {
                    let verdict = answer(&socket);
                    self.question = Some(socket);
                    verdict
                }
            },
        };
        if !matches!(verdict, Verdict::Unknown) {
            self.question = None;
        }
        verdict
    }
}

impl Watched {
    /// Why the peer is gone, if it is.
    fn step(&mut self, now: Instant, error_text: impl Fn(i32) -> String) -> Option<String> {
        match self.process.step(&self.address, now) {
            Verdict::Unknown => {}
            Verdict::Alive => {
                self.process.next = Some(now + self.pause);
                self.pause = (2 * self.pause).min(LONGEST);
            }
            Verdict::Gone(number) if is_gone(number) => return Some(error_text(number)),
            Verdict::Gone(_) => self.process.next = Some(now + self.pause),
        }
        let mut host = self.address.clone();
        host[2..4].copy_from_slice(&UNUSED_PORT.to_be_bytes());
        match self.host.step(&host, now) {
            Verdict::Unknown => {}
            Verdict::Alive | Verdict::Gone(libc::ECONNREFUSED) => {
                self.heard = Some(now);
                self.host.next = Some(now + HOST_EVERY);
            }
            Verdict::Gone(number) if is_gone(number) && self.heard.is_some() => {
                return Some(error_text(number));
            }
            Verdict::Gone(_) => self.host.next = Some(now + HOST_EVERY),
        }
        // Nobody asks while nobody waits: silence counts from the question on.
        let silent =
            self.host.question.is_some() && self.heard.is_some_and(|at| now > at + SILENCE);
        silent.then(|| {
            format!(
                "its host has not answered for {} seconds",
                SILENCE.as_secs()
            )
        })
    }
}

impl OfiLane {
    /// See [`netmod::Lane::check_peers`].
    pub(crate) fn look_after(&mut self, awaited: &[Peer], sink: &mut dyn Sink) {
        if !self.probes {
            return;
        }
        let now = Instant::now();
        // Whoever is awaited again later is asked anew.
        self.watched.retain(|peer, _| awaited.contains(peer));
        for &peer in awaited {
            if self.shared.lost(peer).is_some() {
                continue;
            }
            if !self.watched.contains_key(&peer) {
                let Ok(address) = self.shared.resolver.resolve(peer, 0) else {
                    continue;
                };
                // An IPv4 address is the shorter one.
                let name = untagged_address(&address).map(|(_, name)| name);
                let Some(name) = name.filter(|name| name.len() >= 16) else {
                    continue;
                };
                let watched = Watched {
                    address: name.to_vec(),
                    process: Asked::default(),
                    pause: FIRST,
                    host: Asked::default(),
                    heard: None,
                };
                self.watched.insert(peer, watched);
            }
            let lib = self.shared.lib;
            let gone = self
                .watched
                .get_mut(&peer)
                .and_then(|watched| watched.step(now, |number| lib.error_text(number)));
            let Some(why) = gone else { continue };
            self.watched.remove(&peer);
            match self.peers.find(peer, 0) {
                Some(endpoint) => self.fail_peer(endpoint, "looking after the peer", &why),
                None => self.shared.set_lost(peer, &why),
            }
            sink.peer_lost(
                peer,
                format!(
                    "{}: {why}; it has ended or the network to it is down: look for its own \
                     message first, then at the interface (WEFT_OFI_INTERFACE)",
                    self.shared.provider
                ),
            );
        }
    }
}
