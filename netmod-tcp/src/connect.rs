//! Making connections: calling, being called, and the end of connections.
//!
//! Who has something to send calls. If both call at the same time, the call of the process with the
//! lower number counts (of the lower VCI, within a process): the one called decides that once the
//! caller has proved itself, and a caller that yields waits for the other's. If the lower one's call has met
//! with a refusal, as behind a firewall that lets calls through in one direction only, the other's counts.

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use netmod::{LaneError, Peer};
use rustix::event::epoll::{self, EventFlags};
use rustix::io::Errno;
use rustix::net::sockopt;

use crate::calls::{Attempt, Guest, Phase, Reading, connect, explain, read, say, set_options};
use crate::conn::{Conn, NOBODY, Out};
use crate::lane::{Notice, State, TcpLane, about, event};
use crate::proof::{self, CHALLENGE, Call, HELLO, PROOF, VERDICT, Verdict};
use crate::record::Record;
use crate::shared::allow_descriptors;
use crate::silence;
use crate::streams;

/// How long one address is tried.
const ADDRESS: Duration = Duration::from_secs(3);
/// How long the other's call is waited for before this side calls again.
const EXPECTING: Duration = Duration::from_secs(3);
/// How long all are tried, again and again.
const PATIENCE: Duration = Duration::from_secs(10);
/// So many rounds at least, if this process polls seldom.
const ROUNDS: u32 = 10;
/// Between two rounds of trying.
const PAUSE: Duration = Duration::from_millis(50);
/// How long a stranger may take to say who it is.
const GUEST: Duration = Duration::from_secs(5);
/// How long a guest may take to prove itself where descriptors are short: many times what one of the job takes, though
/// others have its core.
const STRANGER: Duration = Duration::from_secs(1);
/// How long it may take to prove that: it has to poll for it, and may compute.
const PROVING: Duration = Duration::from_secs(60);
/// Strangers at a time.
const GUESTS: usize = 1024;

impl TcpLane {
    /// Calls a peer's VCI.
    pub(crate) fn call(&mut self, index: u32) {
        let endpoint = &self.endpoints[index as usize];
        let (peer, vci, stream) = (endpoint.peer, endpoint.vci, endpoint.stream);
        let found = self.shared.resolver.resolve(peer, vci);
        let record = match found.map(|bytes| Record::parse(&bytes)) {
            Ok(Some(record)) => record,
            Ok(None) => return self.not_reached(index, "its TCP address can't be read"),
            Err(error) => return self.not_reached(index, &error.0),
        };
        let call = Call {
            from: (self.me(), self.vci),
            to: (peer, vci),
            stream,
        };
        let Ok(nonce) = proof::random() else {
            return self.not_reached(index, "the kernel gives no random numbers");
        };
        let mut places: Vec<SocketAddr> = record.places().collect();
        streams::sort(&mut places, &self.shared.interfaces, stream);
        let now = Instant::now();
        let attempt = Attempt {
            secret: record.secret,
            places,
            next: 0,
            stream: None,
            phase: Phase::Connecting,
            hello: proof::hello(call, nonce),
            buffer: [0; CHALLENGE],
            got: 0,
            refusals: Vec::new(),
            nobody: true,
            silent: false,
            rounds: 0,
            began: now,
            since: now,
        };
        self.endpoints[index as usize].state = State::Calling(Box::new(attempt));
        self.attempts.push(index);
        self.try_next(index);
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

    /// Tries the next address; when all were tried, gives up or begins anew.
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
                    attempt.note(explain(error), error == Errno::CONNREFUSED);
                    if error == Errno::MFILE {
                        self.park_one();
                    }
                }
            }
        }
        let Some(attempt) = self.attempt(index) else {
            return;
        };
        attempt.rounds += 1;
        let is_early = attempt.rounds < ROUNDS || attempt.began.elapsed() < PATIENCE;
        if attempt.silent || (!attempt.nobody && is_early) {
            attempt.phase = Phase::Pausing(Instant::now() + PAUSE);
            attempt.next = 0;
            attempt.nobody = true;
            attempt.silent = false;
            return;
        }
        let tried = attempt.refusals.iter();
        let tried: Vec<String> = tried
            .map(|(place, why)| format!("{place}: {why}"))
            .collect();
        let why = format!(
            "no TCP connection to it could be made ({}); WEFT_TCP_INTERFACE names the network to use, \
             WEFT_TCP_PORTS the ports that a firewall lets through",
            tried.join("; ")
        );
        self.not_reached(index, &why);
    }

    /// A call has come to nothing.
    fn not_reached(&mut self, index: u32, why: &str) {
        let endpoint = &mut self.endpoints[index as usize];
        if endpoint.stream > 0 {
            endpoint.state = State::Off;
            return;
        }
        let peer = endpoint.peer;
        self.lose(peer, why);
    }

    /// The kernel has something to tell of a call.
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
                    if let Err(why) = say(stream, &attempt.hello) {
                        attempt.note(why, false);
                        return self.try_next(index);
                    }
                    attempt.phase = Phase::Challenged;
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
                        Reading::Part => return,
                        Reading::Ended(why) => attempt.note(why, false),
                        Reading::Whole => {
                            let ours =
                                proof::proof(&attempt.secret, &attempt.hello, &attempt.buffer);
                            let said =
                                match (ours, &attempt.stream) {
                                    (Some(ours), Some(stream)) => say(stream, &ours),
                                    _ => Err("another program, or another job, listens there"
                                        .to_string()),
                                };
                            match said {
                                Ok(()) => {
                                    attempt.phase = Phase::Judged;
                                    attempt.got = 0;
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
                        Reading::Part => return,
                        Reading::Ended(why) => {
                            // We were too slow; it lives, or has just died, which the next round shows.
                            attempt.silent = true;
                            Err(why)
                        }
                        Reading::Whole => Verdict::from_bytes(&bytes)
                            .ok_or_else(|| "an answer that is none".to_string()),
                    };
                    match verdict {
                        Ok(Verdict::Accepted) => {
                            if let Some(stream) = attempt.stream.take() {
                                self.show_out_crossed(index);
                                self.opened(index, stream);
                            }
                            return;
                        }
                        Ok(Verdict::Crossed) => {
                            let now = Instant::now();
                            self.endpoints[index as usize].state = State::Expecting(now);
                            return;
                        }
                        Ok(Verdict::Refused) => {
                            attempt.note("it has a connection to us already".to_string(), false);
                        }
                        Err(why) => attempt.note(why, false),
                    }
                    return self.try_next(index);
                }
            }
        }
    }

    /// A connection is there for use.
    fn opened(&mut self, index: u32, stream: TcpStream) {
        let data = event(about::CONN, index);
        if let Err(error) = epoll::modify(&self.epoll, &stream, data, EventFlags::IN) {
            let peer = self.endpoints[index as usize].peer;
            return self.lose(peer, &explain(error));
        }
        silence::made(&stream);
        let mut conn = Conn::new(stream);
        // One that has never been in use is not the one that was not for longest.
        conn.used = self.round;
        self.endpoints[index as usize].state = State::Open(Box::new(conn));
        self.open += 1;
        match self.endpoints[index as usize].stream {
            0 => self.heat(index),
            _ => self.streams += 1,
        }
    }

    /// Takes in who calls.
    pub(crate) fn accept(&mut self) {
        for _ in 0..16 {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.raw_os_error() == Some(libc::EMFILE) && allow_descriptors() => {
                    continue;
                }
                Err(error) => {
                    if error.raw_os_error() == Some(libc::EMFILE) {
                        // Strangers have no right to the descriptors of those who have one to be here. Who is
                        // new is given the time to prove itself.
                        if self.show_out_the_oldest(is_stranger) {
                            continue;
                        }
                        let mut guests = self.guests.iter().flatten();
                        if guests.all(|guest| guest.known.is_some()) {
                            self.park_one();
                        }
                    }
                    return;
                }
            };
            if stream.set_nonblocking(true).is_err() || set_options(&stream).is_err() {
                continue;
            }
            if self.guest_count >= GUESTS {
                self.show_out_the_oldest(|_| true);
            }
            let guest = Guest {
                stream,
                known: None,
                buffer: [0; HELLO],
                got: 0,
                since: Instant::now(),
            };
            let free = self.guests.iter().position(Option::is_none);
            let place = free.unwrap_or_else(|| {
                self.guests.push(None);
                self.guests.len() - 1
            });
            let data = event(about::GUEST, place as u32);
            if epoll::add(&self.epoll, &guest.stream, data, EventFlags::IN).is_ok() {
                self.guests[place] = Some(Box::new(guest));
                self.guest_count += 1;
            }
        }
    }

    /// Shows out the one of those that has been here longest. Returns whether there was one.
    fn show_out_the_oldest(&mut self, those: impl Fn(&Guest) -> bool) -> bool {
        let all = self.guests.iter().enumerate();
        let oldest = all
            .filter_map(|(place, guest)| Some((guest.as_deref()?, place)))
            .filter(|(guest, _)| those(guest))
            .map(|(guest, place)| (guest.since, place))
            .min();
        oldest.is_some_and(|(_, place)| self.show_out(place as u32).is_some())
    }

    /// The other end has accepted our call, and given up its own, if that crossed ours: whose proof may be there, to be read
    /// when the connection that it was meant to be has been closed again.
    fn show_out_crossed(&mut self, index: u32) {
        let endpoint = &self.endpoints[index as usize];
        let (from, stream) = ((endpoint.peer, endpoint.vci), endpoint.stream);
        let crossed = |guest: &Guest| {
            let call = guest.known.as_ref().map(|known| known.0);
            call.is_some_and(|call| call.from == from && call.stream == stream)
        };
        for place in 0..self.guests.len() {
            if self.guests[place].as_deref().is_some_and(crossed) {
                self.show_out(place as u32);
            }
        }
    }

    fn show_out(&mut self, place: u32) -> Option<Box<Guest>> {
        let guest = self.guests.get_mut(place as usize)?.take();
        self.guest_count -= usize::from(guest.is_some());
        guest
    }

    /// A guest has said something, or has gone.
    pub(crate) fn guest_speaks(&mut self, place: u32) {
        let own = (self.me(), self.vci);
        let secret = self.shared.secret;
        loop {
            let Some(Some(guest)) = self.guests.get_mut(place as usize) else {
                return;
            };
            let Guest {
                stream,
                known,
                buffer,
                got,
                ..
            } = &mut **guest;
            let wanted = if known.is_some() { PROOF } else { HELLO };
            let reading = read(stream, &mut buffer[..wanted], got);
            match (reading, &known) {
                (Reading::Part, _) => return,
                (Reading::Whole, None) => {
                    let hello = *buffer;
                    let call = proof::read_hello(&hello);
                    let call = call.filter(|call| call.to == own && call.from != own);
                    if let (Some(call), Ok(nonce)) = (call, proof::random()) {
                        let challenge = proof::challenge(&secret, &hello, nonce);
                        if say(stream, &challenge).is_ok() {
                            *known = Some((call, hello, challenge));
                            *got = 0;
                            continue;
                        }
                    }
                }
                (Reading::Whole, Some((call, hello, challenge))) => {
                    let theirs = buffer.first_chunk::<PROOF>();
                    if theirs.is_some_and(|it| proof::is_proved(&secret, hello, challenge, it)) {
                        let call = *call;
                        if let Some(guest) = self.show_out(place) {
                            self.admit(call, guest.stream);
                        }
                        return;
                    }
                }
                (Reading::Ended(_), _) => {}
            }
            self.show_out(place);
            return;
        }
    }

    /// Decides about a caller that has proved itself.
    fn admit(&mut self, call: Call, stream: TcpStream) {
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
        let said = say(&stream, &verdict.to_bytes());
        if said.is_ok() && verdict == Verdict::Accepted {
            self.shared
                .congestion
                .admit(&stream, &self.shared.interfaces);
            self.opened(index, stream);
            self.make_room();
        }
    }

    /// Ends what takes too long, and tries again what was put off.
    #[cold]
    pub(crate) fn look_at_clock(&mut self) {
        let now = Instant::now();
        for index in std::mem::take(&mut self.attempts) {
            let endpoint = &mut self.endpoints[index as usize];
            match &mut endpoint.state {
                // It may compute, or have died: a call of our own finds out, and crosses again if need be.
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
                                attempt.note("no answer".to_string(), false);
                            }
                            over
                        }
                        // It has to poll in order to answer, and that may take a while; or this is
                        // somebody else, and another address leads to it.
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
        for place in 0..self.guests.len() {
            let over = |guest: &Guest| match guest.known {
                None => now - guest.since > GUEST,
                Some(_) => now - guest.since > PROVING,
            };
            if self.guests[place].as_deref().is_some_and(over) {
                self.show_out(place as u32);
            }
        }
    }

    /// Ends everything with a process.
    fn end(&mut self, peer: Peer, why: &str, state: impl Fn() -> State) {
        let error = || Err(LaneError::lost(peer, why));
        for endpoint in &mut self.endpoints {
            if endpoint.peer != peer || matches!(endpoint.state, State::Lost(_)) {
                continue;
            }
            if let State::Open(conn) = std::mem::replace(&mut endpoint.state, state()) {
                self.open -= 1;
                self.streams -= usize::from(endpoint.stream > 0);
                self.pipes_made -= u32::from(conn.pipe.is_some());
                let incoming = conn.incoming.map(|incoming| incoming.target);
                if let Some(
                    crate::conn::Target::Placed { token, .. }
                    | crate::conn::Target::Pieces { token, .. }
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

    /// A process can't be reached any more.
    #[cold]
    pub(crate) fn lose(&mut self, peer: Peer, why: &str) {
        self.end(peer, why, || State::Lost(why.to_string()));
        self.notices.push_back(Notice::Lost(peer, why.to_string()));
    }

    /// A connection has ended after a farewell: its process has left MPI.
    #[cold]
    pub(crate) fn leave_taken(&mut self, peer: Peer) {
        self.end(peer, "it has left MPI (MPI_Finalize)", || State::Left);
    }
}

/// Whether a guest has had the time to prove itself, and has not.
fn is_stranger(guest: &Guest) -> bool {
    guest.known.is_none() && guest.since.elapsed() > STRANGER
}
