//! Looks after peers from which something is awaited.
//!
//! Perhaps nothing is under way to such a peer, so that no broken connection shows that it has gone. As
//! with peers that take nothing (see `probe`), its listening socket is asked. Its host shows in two ways
//! that it can be reached: by what comes on connections with it (see `links`), and by the refusal of a
//! port that nobody uses. A host that is silent for long on a connection is lost, and so is one that
//! refused once and then does so no more; one that never refuses may just be behind a firewall.
//!
//! What is known of a peer is kept while nothing is awaited from it: a program that communicates all
//! the time waits for somebody else at each look.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use crate::links;
use crate::probe::{Verdict, answer, ask, is_gone};

/// Time between two questions to a process at first and at last; each takes a place in the queue of
/// a process that doesn't accept for a while.
const FIRST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(10);
/// Time between two questions to a host.
const HOST_EVERY: Duration = Duration::from_secs(1);
/// Time between two looks at a connection.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long a host that has answered may be silent.
const SILENCE: Duration = Duration::from_secs(9);
/// For so long of that time it must have been asked: nobody asks while nobody waits.
const ASKED: Duration = Duration::from_secs(7);

/// The TCP port multiplexer's: next to nobody offers it.
const UNUSED_PORT: u16 = 1;

/// A peer that is looked after.
pub(crate) struct Watched {
    address: Vec<u8>,
    process: Asked,
    pause: Duration,
    host: Asked,
    heard: Option<Instant>,
    /// Since when the kernel asks on a connection.
    kept: Option<Instant>,
    /// The next look at the connection.
    look: Instant,
}

#[derive(Default)]
struct Asked {
    question: Option<OwnedFd>,
    /// When it was asked.
    since: Option<Instant>,
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
                    self.since = Some(now);
                    verdict
                }
            },
        };
        if !matches!(verdict, Verdict::Unknown) {
            self.question = None;
        }
        verdict
    }

    /// Whether there has been no answer for long.
    fn is_silent(&self, now: Instant) -> bool {
        self.question.is_some() && self.since.is_some_and(|since| now > since + ASKED)
    }
}

impl Watched {
    pub(crate) fn new(address: Vec<u8>, now: Instant) -> Watched {
        Watched {
            address,
            process: Asked::default(),
            pause: FIRST,
            host: Asked::default(),
            heard: None,
            kept: None,
            look: now,
        }
    }

    /// Takes note of answers, and asks nothing.
    pub(crate) fn settle(&mut self, now: Instant) {
        for (asked, is_host) in [(&mut self.process, false), (&mut self.host, true)] {
            let Some(socket) = &asked.question else {
                continue;
            };
            match answer(socket) {
                Verdict::Unknown => continue,
                Verdict::Alive | Verdict::Gone(libc::ECONNREFUSED) if is_host => {
                    self.heard = Some(now);
                }
                // It is asked again when it is awaited.
                _ => {}
            }
            asked.question = None;
        }
    }

    /// How long nothing has come on a connection with the host, if that means something.
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
        // Another lane may have begun.
        let kept = *self.kept.get_or_insert(now);
        (now > kept + ASKED).then_some(state.silent)
    }

    /// Why the peer is gone, if it is.
    pub(crate) fn step(
        &mut self,
        now: Instant,
        port: u16,
        error_text: impl Fn(i32) -> String,
    ) -> Option<String> {
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
        let refused_before = self.heard.is_some_and(|at| now > at + SILENCE);
        let silent = refused_before && self.host.is_silent(now)
            || self.silence(now, port).is_some_and(|long| long > SILENCE);
        silent.then(|| {
            format!(
                "its host has not answered for {} seconds",
                SILENCE.as_secs()
            )
        })
    }
}
