//! Makes and ends connections.
//!
//! A VCI that has something to send connects. If both ends connect at the same time, the connection
//! of the process with the lower number counts (within a process, of the lower VCI): the accepting
//! end decides that once the other has proved the secret, and a process whose attempt is rejected
//! waits for the other's. If the lower one's attempt was refused, as behind a firewall that admits
//! connections in one direction only, the other's counts.

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use netmod::{LaneError, Peer};
use netmod_kit::Notice;
use netmod_kit::admission::handshake::CHALLENGE;
use netmod_kit::admission::{Accepted, Admitted, Initiator, Keys, Role, Served};
use rustix::event::epoll::{self, EventFlags};
use rustix::io::Errno;
use rustix::net::sockopt;

use crate::calls::{Attempt, Phase, ReadState, connect, explain, read, say, set_options};
use crate::conn::{Conn, NOBODY, Out};
use crate::hello::{Call, VERDICT, Verdict};
use crate::lane::{State, TcpLane, about, event};
use crate::record::Record;
use crate::silence;
use crate::socket::Socket;
use crate::streams;
use netmod_kit::event;

/// Time limit for one address.
const ADDRESS: Duration = Duration::from_secs(3);
/// Time to wait for the peer's connection before connecting again.
const EXPECTING: Duration = Duration::from_secs(3);
/// Time limit for all addresses, over all rounds.
const PATIENCE: Duration = Duration::from_secs(10);
/// Least rounds, for a process that polls rarely.
const ROUNDS: u32 = 10;
/// Pause between two rounds.
const PAUSE: Duration = Duration::from_millis(50);
/// Time limit for all addresses if the peer closed a connection before its challenge: under a flood
/// of connections it takes several tries.
const PATIENCE_IF_DROPPED: Duration = Duration::from_secs(60);

impl<S: Socket> TcpLane<S> {
    /// Begins to connect to a peer's VCI.
    pub(crate) fn call(&mut self, index: u32) {
        let endpoint = &self.endpoints[index as usize];
        let (peer, vci, stream) = (endpoint.peer, endpoint.vci, endpoint.stream);
        let found = self.shared.resolver.resolve(peer, vci);
        let record = match found.map(|bytes| Record::parse(&bytes)) {
            Ok(Some(record)) if record.encrypts != S::ENCRYPTS => {
                let (its, ours) = match S::ENCRYPTS {
                    true => ("unencrypted", "encrypts"),
                    false => ("encrypted", "does not encrypt"),
                };
                let why = format!(
                    "its TCP connections are {its}, while this process {ours} (WEFT_TCP_ENCRYPT); start all jobs \
                     that communicate with or without mpiexec -encrypt"
                );
                return self.not_reached(index, &why);
            }
            Ok(Some(record)) => record,
            Ok(None) => return self.not_reached(index, "its TCP address record is malformed"),
            Err(error) => return self.not_reached(index, &error.0),
        };
        let call = Call {
            from: (self.me(), self.vci),
            to: (peer, vci),
            stream,
        };
        let mut places: Vec<SocketAddr> = record.places().collect();
        streams::sort(&mut places, &self.shared.interfaces, stream);
        let now = Instant::now();
        let attempt = Attempt {
            call,
            secret: record.secret,
            places,
            next: 0,
            stream: None,
            phase: Phase::Connecting,
            initiator: None,
            keys: None,
            buffer: [0; CHALLENGE],
            got: 0,
            refusals: Vec::new(),
            nobody: true,
            silent: false,
            was_dropped: false,
            rounds: 0,
            began: now,
            since: now,
        };
        self.endpoints[index as usize].state = State::Calling(Box::new(attempt));
        self.attempts.push(index);
        self.try_next(index);
    }

    /// Reports an event of a connection.
    fn report(&self, index: u32, text: std::fmt::Arguments<'_>) {
        let endpoint = &self.endpoints[index as usize];
        let (peer, vci, stream) = (endpoint.peer, endpoint.vci, endpoint.stream);
        event!(
            Tcp,
            Info,
            "process {peer} VCI {vci} stream {stream}: {text}"
        );
    }

    fn attempt(&mut self, index: u32) -> Option<&mut Attempt> {
        match self
            .endpoints
            .get_mut(index as usize)
            .map(|it| &mut it.state)
        {
            Some(State::Calling(attempt)) => Some(attempt),
            _ => None,
        }
    }

    /// Tries the next address. After the last one, gives up or starts a new round.
    fn try_next(&mut self, index: u32) {
        loop {
            let shared = self.shared.clone();
            let Some(attempt) = self.attempt(index) else {
                return;
            };
            let Some(place) = attempt.places.get(attempt.next).copied() else {
                break;
            };
            attempt.next += 1;
            match connect(place, &shared) {
                Ok(stream) => {
                    self.report(index, format_args!("connecting to {place}"));
                    let flags = EventFlags::IN | EventFlags::OUT;
                    let added = epoll::add(&self.epoll, &stream, event(about::CALL, index), flags);
                    let Some(attempt) = self.attempt(index) else {
                        return;
                    };
                    if let Err(error) = added {
                        attempt.note(explain(error), false);
                        continue;
                    }
                    attempt.stream = Some(stream);
                    attempt.phase = Phase::Connecting;
                    attempt.got = 0;
                    attempt.since = Instant::now();
                    return;
                }
                Err(error) => {
                    let is_short = matches!(error, Errno::MFILE | Errno::NFILE);
                    if is_short && self.pending.drop_oldest() {
                        if let Some(attempt) = self.attempt(index) {
                            attempt.next -= 1;
                        }
                        continue;
                    }
                    if let Some(attempt) = self.attempt(index) {
                        attempt.note(explain(error), error == Errno::CONNREFUSED);
                    }
                    if is_short {
                        self.park_one();
                    }
                }
            }
        }
        let Some(attempt) = self.attempt(index) else {
            return;
        };
        attempt.rounds += 1;
        let patience = match attempt.was_dropped {
            true => PATIENCE_IF_DROPPED,
            false => PATIENCE,
        };
        let is_early = attempt.rounds < ROUNDS || attempt.began.elapsed() < patience;
        if attempt.silent || (!attempt.nobody && is_early) {
            attempt.phase = Phase::Pausing(Instant::now() + PAUSE);
            attempt.next = 0;
            attempt.nobody = true;
            attempt.silent = false;
            let round = attempt.rounds;
            self.report(
                index,
                format_args!("no address has answered in round {round}; pausing"),
            );
            return;
        }
        let tried = attempt.refusals.iter();
        let tried: Vec<String> = tried
            .map(|(place, why)| format!("{place}: {why}"))
            .collect();
        let why = format!(
            "cannot connect to it by TCP ({}); set WEFT_TCP_INTERFACE to the network to use, \
             WEFT_TCP_PORTS to ports that the firewall admits",
            tried.join("; ")
        );
        self.not_reached(index, &why);
    }

    /// Ends a failed connection attempt.
    fn not_reached(&mut self, index: u32, why: &str) {
        let endpoint = &mut self.endpoints[index as usize];
        if endpoint.stream > 0 {
            endpoint.state = State::Off;
            return;
        }
        let peer = endpoint.peer;
        self.lose(peer, why);
    }

    /// Continues a connection attempt after an event.
    pub(crate) fn call_goes_on(&mut self, index: u32) {
        loop {
            let Some(attempt) = self.attempt(index) else {
                return;
            };
            let Some(stream) = &attempt.stream else {
                return;
            };
            match attempt.phase {
                Phase::Pausing(_) => return,
                Phase::Connecting => {
                    let outcome = match sockopt::socket_error(stream) {
                        Ok(Ok(())) => set_options(stream),
                        Ok(Err(error)) | Err(error) => Err(error),
                    };
                    if let Err(error) = outcome {
                        attempt.note(explain(error), error == Errno::CONNREFUSED);
                        return self.try_next(index);
                    }
                    let context = attempt.call.to_context();
                    let begun = Initiator::new(&S::PROTOCOL, &context, &attempt.secret);
                    let said = match begun {
                        Ok((initiator, hello)) => say(stream, &hello).map(|()| initiator),
                        Err(error) => Err(format!("cannot get random numbers: {error}")),
                    };
                    match said {
                        Ok(initiator) => attempt.initiator = Some(initiator),
                        Err(why) => {
                            attempt.was_dropped = true;
                            attempt.note(why, false);
                            return self.try_next(index);
                        }
                    }
                    attempt.phase = Phase::Challenged;
                    self.report(index, format_args!("connected; the challenge is awaited"));
                    let data = event(about::CALL, index);
                    let changed = match self.endpoints[index as usize].state {
                        State::Calling(ref attempt) => attempt
                            .stream
                            .as_ref()
                            .map(|stream| epoll::modify(&self.epoll, stream, data, EventFlags::IN)),
                        _ => None,
                    };
                    if changed.is_some_and(|it| it.is_ok()) {
                        return;
                    }
                }
                Phase::Challenged => {
                    let Attempt {
                        stream,
                        buffer,
                        got,
                        ..
                    } = &mut *attempt;
                    let reading = match stream {
                        Some(stream) => read(stream, buffer, got),
                        None => return,
                    };
                    match reading {
                        ReadState::Part => return,
                        ReadState::Ended(why) => {
                            attempt.was_dropped = true;
                            attempt.note(why, false);
                        }
                        ReadState::Whole => {
                            let initiator = attempt.initiator.take();
                            let ours = initiator.and_then(|mut it| it.answer(&attempt.buffer).ok());
                            let said = match (ours, &attempt.stream) {
                                (Some((ours, keys)), Some(stream)) => {
                                    attempt.keys = Some(keys);
                                    say(stream, &ours)
                                }
                                _ => {
                                    Err("another program or another job listens there".to_string())
                                }
                            };
                            match said {
                                Ok(()) => {
                                    attempt.phase = Phase::Judged;
                                    attempt.got = 0;
                                    self.report(
                                        index,
                                        format_args!("proved the secret; the verdict is awaited"),
                                    );
                                    continue;
                                }
                                Err(why) => attempt.note(why, false),
                            }
                        }
                    }
                    return self.try_next(index);
                }
                Phase::Judged => {
                    let mut bytes = [0; VERDICT];
                    let got = attempt.got;
                    bytes[..got].copy_from_slice(&attempt.buffer[..got]);
                    let reading = read(stream, &mut bytes, &mut attempt.got);
                    attempt.buffer[..VERDICT].copy_from_slice(&bytes);
                    let verdict = match reading {
                        ReadState::Part => return,
                        ReadState::Ended(why) => {
                            // The proof came too late, or the peer has just died; the next round
                            // shows which.
                            attempt.silent = true;
                            Err(why)
                        }
                        ReadState::Whole => Verdict::from_bytes(&bytes)
                            .ok_or_else(|| "malformed verdict".to_string()),
                    };
                    match verdict {
                        Ok(Verdict::Accepted) => {
                            if let (Some(stream), Some(keys)) =
                                (attempt.stream.take(), attempt.keys.take())
                            {
                                self.drop_crossed(index);
                                self.opened(index, stream, &keys, Role::Initiator);
                            }
                            return;
                        }
                        Ok(Verdict::Crossed) => {
                            let now = Instant::now();
                            self.endpoints[index as usize].state = State::Expecting(now);
                            return;
                        }
                        Ok(Verdict::Refused) => {
                            attempt
                                .note("it is already connected to this process".to_string(), false);
                        }
                        Err(why) => attempt.note(why, false),
                    }
                    return self.try_next(index);
                }
            }
        }
    }

    /// Takes a connection into use.
    fn opened(&mut self, index: u32, stream: TcpStream, keys: &Keys, role: Role) {
        let data = event(about::CONN, index);
        if let Err(error) = epoll::modify(&self.epoll, &stream, data, EventFlags::IN) {
            let peer = self.endpoints[index as usize].peer;
            return self.lose(peer, &explain(error));
        }
        silence::made(&stream);
        let mut conn = Conn::new(S::new(stream, keys, role));
        // A new connection counts as just used, so that it is not parked first.
        conn.used = self.round;
        self.endpoints[index as usize].state = State::Open(Box::new(conn));
        self.open += 1;
        self.report(index, format_args!("the connection is open"));
        match self.endpoints[index as usize].stream {
            0 => self.heat(index),
            _ => self.streams += 1,
        }
    }

    /// Accepts connections, which must prove the secret first.
    pub(crate) fn accept(&mut self) {
        let (listener, epoll) = (&self.listener, &self.epoll);
        let accepted = self.pending.accept(
            || {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                set_options(&stream)?;
                Ok(stream)
            },
            |slot, stream| {
                let data = event(about::PENDING, slot as u32);
                Ok(epoll::add(epoll, stream, data, EventFlags::IN)?)
            },
        );
        // No descriptor is free, and no unproved connection holds one.
        if accepted == Accepted::Short && self.pending.is_empty() {
            self.park_one();
        }
    }

    /// Drops the peer's crossing connection after the peer has accepted ours. A proof that has
    /// arrived on it must not be read after the accepted connection has closed.
    fn drop_crossed(&mut self, index: u32) {
        let endpoint = &self.endpoints[index as usize];
        let (from, stream) = ((endpoint.peer, endpoint.vci), endpoint.stream);
        self.pending.drop_context(|context| {
            let call = Call::from_context(context);
            call.is_some_and(|call| call.from == from && call.stream == stream)
        });
    }

    /// Serves an unproved connection that is readable or has ended.
    pub(crate) fn go_on_with_pending(&mut self, slot: u32) {
        let own = (self.me(), self.vci);
        let secret = self.shared.secret;
        let is_for_us = |call: &Call| call.to == own && call.from != own;
        let served = self.pending.serve(slot as usize, |context| {
            Call::from_context(context)
                .filter(is_for_us)
                .map(|_| secret)
        });
        if let Served::Admitted(Admitted {
            connection,
            context,
            keys,
        }) = served
            && let Some(call) = Call::from_context(&context)
        {
            self.admit(call, connection, &keys);
        }
    }

    /// Decides about a connection that has proved the secret.
    fn admit(&mut self, call: Call, stream: TcpStream, keys: &Keys) {
        let (peer, vci) = call.from;
        let first = self.index_of(peer, vci);
        let index = self.stream_of(first, call.stream);
        let verdict = match self.endpoints[index as usize].state {
            State::Idle | State::Expecting(_) | State::Off => Verdict::Accepted,
            State::Calling(_) if call.from < call.to => Verdict::Accepted,
            State::Calling(ref attempt) if attempt.fails() => Verdict::Accepted,
            State::Calling(_) => Verdict::Crossed,
            State::Open(_) | State::Left | State::Lost(_) => Verdict::Refused,
        };
        let verdict = match self.endpoints[first as usize].state {
            State::Left | State::Lost(_) => Verdict::Refused,
            _ => verdict,
        };
        self.report(index, format_args!("its connection is {verdict:?}"));
        let said = say(&stream, &verdict.to_bytes());
        if said.is_ok() && verdict == Verdict::Accepted {
            self.shared
                .congestion
                .admit(&stream, &self.shared.interfaces);
            self.opened(index, stream, keys, Role::Responder);
            self.make_room();
        }
    }

    /// Ends attempts that have timed out, and resumes paused ones.
    #[cold]
    pub(crate) fn look_at_clock(&mut self) {
        let now = Instant::now();
        for index in std::mem::take(&mut self.attempts) {
            let endpoint = &mut self.endpoints[index as usize];
            match &mut endpoint.state {
                // The peer computes or has died: connecting again shows which, and crosses again if
                // need be.
                State::Expecting(since) if now - *since > EXPECTING => {
                    endpoint.state = State::Idle;
                    self.call(index);
                    continue;
                }
                State::Expecting(_) => {}
                State::Calling(attempt) => {
                    let again = match attempt.phase {
                        Phase::Pausing(until) => now >= until,
                        Phase::Connecting => {
                            let over = now - attempt.since > ADDRESS;
                            if over {
                                // Within a host only a listener with a full queue gives no answer.
                                attempt.silent |= attempt.is_within_host(&self.shared);
                                attempt.note("no answer".to_string(), false);
                            }
                            over
                        }
                        // The peer must poll in order to answer, which may take a while; or it is a
                        // stranger, and another address leads to the peer.
                        Phase::Challenged if attempt.places.len() > 1 => {
                            let over = now - attempt.since > ADDRESS;
                            if over {
                                attempt.note("connected, but no answer yet".to_string(), false);
                                attempt.silent = true;
                            }
                            over
                        }
                        Phase::Challenged | Phase::Judged => false,
                    };
                    if again {
                        self.try_next(index);
                    }
                }
                _ => continue,
            }
            self.attempts.push(index);
        }
        self.pending.expire(now);
    }

    /// Ends all connections and operations with a process.
    fn end(&mut self, peer: Peer, why: &str, state: impl Fn() -> State<S>) {
        event!(Tcp, Info, "process {peer}: its connections end: {why}");
        let error = || Err(LaneError::lost(peer, why));
        for endpoint in &mut self.endpoints {
            if endpoint.peer != peer || matches!(endpoint.state, State::Lost(_)) {
                continue;
            }
            if let State::Open(conn) = std::mem::replace(&mut endpoint.state, state()) {
                self.open -= 1;
                self.streams -= usize::from(endpoint.stream > 0);
                let incoming = conn.incoming.map(|incoming| incoming.target);
                if let Some(
                    crate::conn::Target::Placed { token, .. }
                    | crate::conn::Target::Spoilt { token, .. },
                ) = incoming
                {
                    self.notices.push_back(Notice::Complete(token, error()));
                }
                for out in conn.out {
                    if let Out::Lent { token, .. } = out
                        && token != NOBODY
                    {
                        self.notices.push_back(Notice::Complete(token, error()));
                    }
                }
            }
        }
        for op in self.ops.take_all(peer) {
            if op.token == NOBODY {
                continue;
            }
            self.notices.push_back(Notice::Complete(op.token, error()));
        }
    }

    /// Marks a process as lost and reports it.
    #[cold]
    pub(crate) fn lose(&mut self, peer: Peer, why: &str) {
        self.end(peer, why, || State::Lost(why.to_string()));
        self.notices.push_back(Notice::Lost(peer, why.to_string()));
    }

    /// Marks a process as finalized after its farewell.
    #[cold]
    pub(crate) fn leave_taken(&mut self, peer: Peer) {
        self.end(peer, "it has left MPI (MPI_Finalize)", || State::Left);
    }
}
