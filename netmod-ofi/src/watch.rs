//! Detects the loss of peers that are waited for.
//!
//! If no operation with such a peer is pending, no broken connection shows that it is gone. As with
//! peers that accept no messages (see `probe`), its listening socket is probed. Its host is known
//! to be reachable in two cases: it answers on connections with it (see `links`), or it refuses a
//! port that nobody uses. A host that is silent for long on a connection is lost, and so is one
//! that once refused and no longer does; one that never refuses may just be behind a firewall.
//!
//! The state of a peer is kept while it is not waited for: a busy program waits for a different
//! peer at each check.

use std::time::{Duration, Instant};

use crate::links;
use crate::probe::{Asked, Probe, Verdict, answer, is_gone};

/// Time between two probes of a host.
const HOST_EVERY: Duration = Duration::from_secs(1);
/// Time between two checks of a connection.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Longest silence of a host that has answered.
const SILENCE: Duration = Duration::from_secs(9);
/// Least time of that during which it must have been probed: no probes are sent while no thread
/// waits.
const ASKED: Duration = Duration::from_secs(7);

/// The TCP port multiplexer's port, which is practically unused.
const UNUSED_PORT: u16 = 1;

/// A peer that is waited for.
pub(crate) struct Watched {
    address: Vec<u8>,
    process: Probe,
    host: Asked,
    heard: Option<Instant>,
    /// Time since which keep-alive has been enabled on a connection.
    kept: Option<Instant>,
    /// Time of the next check of the connection.
    look: Instant,
}

impl Watched {
    pub(crate) fn new(address: Vec<u8>, now: Instant) -> Watched {
        Watched {
            address,
            process: Probe::default(),
            host: Asked::default(),
            heard: None,
            kept: None,
            look: now,
        }
    }

    /// Records answers without sending probes.
    pub(crate) fn settle(&mut self, now: Instant) {
        for (asked, is_host) in [(&mut self.process.asked, false), (&mut self.host, true)] {
            let Some(socket) = &asked.question else {
                continue;
            };
            match answer(socket) {
                Verdict::Unknown => continue,
                Verdict::Alive | Verdict::Gone(libc::ECONNREFUSED) if is_host => {
                    self.heard = Some(now);
                }
                // The process is probed again when it is waited for.
                _ => {}
            }
            asked.question = None;
        }
    }

    /// Returns how long a connection with the host has been silent, if that is significant.
    fn silence(&mut self, now: Instant, port: u16) -> Option<Duration> {
        if now < self.look {
            return None;
        }
        self.look = now + LOOK_EVERY;
        let Some(state) = links::state(&self.address, port) else {
            self.kept = None;
            return None;
        };
        if state.is_new {
            self.kept = Some(now);
        }
        // Another lane may have enabled it.
        let kept = *self.kept.get_or_insert(now);
        (now > kept + ASKED).then_some(state.silent)
    }

    /// Returns whether a probe of the host has been unanswered for long.
    fn host_is_silent(&self, now: Instant) -> bool {
        self.host.question.is_some() && self.host.since.is_some_and(|since| now > since + ASKED)
    }

    /// Returns the reason if the peer is gone.
    pub(crate) fn step(
        &mut self,
        now: Instant,
        port: u16,
        error_text: impl Fn(i32) -> String,
    ) -> Option<String> {
        if let Some(number) = self.process.step(&self.address, now) {
            return Some(error_text(number));
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
        let refused_before = self.heard.is_some_and(|at| now > at + SILENCE);
        let silent = refused_before && self.host_is_silent(now)
            || self.silence(now, port).is_some_and(|long| long > SILENCE);
        silent.then(|| {
            format!(
                "its host has not answered for {} seconds",
                SILENCE.as_secs()
            )
        })
    }
}
