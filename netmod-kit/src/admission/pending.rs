//! The unproved connections of a listener.
//!
//! Any user of the network can fill a listener's slots, so an unproved connection must cost little
//! and must never block one that will prove the secret. Slots are few, each has a deadline, and a
//! newcomer takes the slot of the oldest. The age that the oldest must have (the grace) adapts:
//! connections of a burst of the listener's own clients, which may wait for a processor, get a
//! second each; a connection dropped without a proof shortens the grace by an eighth, and a proof
//! doubles it. A flood is therefore drained as fast as it comes in, instead of filling the kernel's
//! queue.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::time::{Duration, Instant};

use super::descriptors;
use super::handshake::{Keys, MAX_HELLO, PROOF, Protocol, Responder};
use super::secret::Secret;

/// Longest grace: the age from which the oldest connection is dropped for a newcomer.
const LONGEST_GRACE: Duration = Duration::from_secs(1);
/// Shortest grace: at or below it, the oldest connection is dropped whatever its age.
const SHORTEST_GRACE: Duration = Duration::from_micros(100);
/// Connections that are kept even if the last descriptors are reserved for the program's own files.
const FEWEST: usize = 4;
/// Most connections accepted in one call, so that a flood does not hold up other work.
const AT_ONCE: usize = 16;

/// A connection that has proved the secret.
#[derive(Debug)]
pub struct Admitted<C> {
    /// The connection. No byte after the proof was read from it.
    pub connection: C,
    /// The context of its hello.
    pub context: Vec<u8>,
    /// The session keys.
    pub keys: Keys,
}

/// The outcome of [`Pending::accept`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepted {
    /// No connection waits.
    Drained,
    /// More connections may wait; call again soon.
    More,
    /// A connection waits, but slots or descriptors are short, and no connection is old enough to
    /// be dropped.
    Short,
}

/// The outcome of [`Pending::serve`].
#[derive(Debug)]
pub enum Served<C> {
    /// More bytes must arrive first, or the slot is free.
    Waiting,
    /// The connection was dropped: the other end closed it, or sent a wrong hello or proof.
    Dropped,
    /// The connection has proved the secret and has left its slot.
    Admitted(Admitted<C>),
}

/// An unproved connection.
struct Slot<C> {
    connection: C,
    /// The received part of the hello, or of the proof.
    buffer: [u8; MAX_HELLO],
    filled: usize,
    /// The context and the challenge, once the hello has arrived.
    asked: Option<(Vec<u8>, Responder)>,
}

/// The unproved connections of a listener, which must be in non-blocking mode.
pub struct Pending<C> {
    protocol: Protocol,
    deadline: Duration,
    grace: Duration,
    /// Connections with their time of acceptance; at most `most`.
    slots: Vec<Option<(Instant, Box<Slot<C>>)>>,
    most: usize,
    count: usize,
    /// Earliest time at which a deadline can pass.
    look: Instant,
}

impl<C: Read + Write + AsFd> Pending<C> {
    /// Makes a set of up to `slots` unproved connections, each of which is dropped after
    /// `deadline`.
    pub fn new(protocol: Protocol, slots: usize, deadline: Duration) -> Pending<C> {
        Pending {
            protocol,
            deadline,
            grace: LONGEST_GRACE,
            slots: Vec::new(),
            most: slots.max(1),
            count: 0,
            look: Instant::now(),
        }
    }

    /// Number of unproved connections.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns whether there is no unproved connection.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Accepts up to 16 connections. `accept` returns the next one, in non-blocking mode. `watch`
    /// gets the slot of each new one, so that an epoll set can name it; if it fails, the connection
    /// is dropped.
    ///
    /// When descriptors are short the soft limit is raised, then the oldest unproved connection is
    /// dropped.
    pub fn accept(
        &mut self,
        mut accept: impl FnMut() -> io::Result<C>,
        mut watch: impl FnMut(usize, &C) -> io::Result<()>,
    ) -> Accepted {
        for _ in 0..AT_ONCE {
            if self.count == self.most && !self.make_way() {
                return Accepted::Short;
            }
            match accept() {
                Ok(connection) => {
                    let fd = connection.as_fd().as_raw_fd();
                    self.take_in(connection, &mut watch);
                    if descriptors::is_among_last(fd)
                        && !descriptors::raise_limit()
                        && self.count > FEWEST
                    {
                        self.make_way();
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Accepted::Drained,
                Err(error) if descriptors::are_short(&error) => {
                    if !descriptors::raise_limit() && !self.make_way() {
                        return Accepted::Short;
                    }
                }
                // The connection ended before it was accepted (accept(2) lists the errors that mean
                // that).
                Err(_) => {}
            }
        }
        Accepted::More
    }

    fn take_in(&mut self, connection: C, watch: &mut impl FnMut(usize, &C) -> io::Result<()>) {
        let free = self.slots.iter().position(Option::is_none);
        let free = free.unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        if watch(free, &connection).is_err() {
            return;
        }
        let now = Instant::now();
        if self.count == 0 {
            self.grace = LONGEST_GRACE;
            self.look = now + self.deadline;
        }
        self.count += 1;
        let slot = Box::new(Slot {
            connection,
            buffer: [0; MAX_HELLO],
            filled: 0,
            asked: None,
        });
        self.slots[free] = Some((now, slot));
    }

    fn oldest(&self) -> Option<(Instant, usize)> {
        let slots = self.slots.iter().enumerate();
        let ages = slots.filter_map(|(at, slot)| Some((slot.as_ref()?.0, at)));
        ages.min()
    }

    /// Drops the oldest connection if it has had its grace. Returns whether one was dropped.
    fn make_way(&mut self) -> bool {
        let Some((since, at)) = self.oldest() else {
            return false;
        };
        if self.grace > SHORTEST_GRACE && since.elapsed() < self.grace {
            return false;
        }
        self.remove(at);
        self.grace -= self.grace / 8;
        true
    }

    /// Drops the oldest connection, whatever its age, because a descriptor is needed for something
    /// else. Returns whether there was one.
    pub fn drop_oldest(&mut self) -> bool {
        let oldest = self.oldest().map(|(_, at)| self.remove(at));
        oldest.is_some()
    }

    /// Undoes the effect of the last proof on the grace: its secret is public, so that it says
    /// nothing about the caller.
    pub fn forget_proof(&mut self) {
        self.grace = (self.grace / 2).max(SHORTEST_GRACE);
    }

    fn remove(&mut self, at: usize) -> Option<Box<Slot<C>>> {
        let (_, slot) = self.slots.get_mut(at)?.take()?;
        self.count -= 1;
        Some(slot)
    }

    /// Continues with the connection in `slot`, which is readable. `secret` returns the secret for
    /// the context of a hello, or `None` if no such connection is expected.
    pub fn serve(&mut self, slot: usize, secret: impl FnMut(&[u8]) -> Option<Secret>) -> Served<C> {
        let Some(Some((_, one))) = self.slots.get_mut(slot) else {
            return Served::Waiting;
        };
        match one.advance(&self.protocol, secret) {
            Ok(None) => Served::Waiting,
            Ok(Some(keys)) => {
                let one = self.remove(slot).map(|one| *one);
                let Some((connection, (context, _))) =
                    one.and_then(|one| Some((one.connection, one.asked?)))
                else {
                    return Served::Dropped;
                };
                self.grace = (self.grace * 2).clamp(SHORTEST_GRACE * 2, LONGEST_GRACE);
                Served::Admitted(Admitted {
                    connection,
                    context,
                    keys,
                })
            }
            Err(_) => {
                self.remove(slot);
                Served::Dropped
            }
        }
    }

    /// Continues with all connections. Returns those that have proved the secret.
    pub fn serve_all(
        &mut self,
        mut secret: impl FnMut(&[u8]) -> Option<Secret>,
    ) -> Vec<Admitted<C>> {
        let mut admitted = Vec::new();
        for slot in 0..self.slots.len() {
            if let Served::Admitted(one) = self.serve(slot, &mut secret) {
                admitted.push(one);
            }
        }
        admitted
    }

    /// Lists descriptors to poll for input, and their slots.
    pub fn descriptors(&self) -> impl Iterator<Item = (RawFd, usize)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(at, slot)| Some((slot.as_ref()?.1.connection.as_fd().as_raw_fd(), at)))
    }

    /// Returns whether to poll the listener. If not, [`Pending::deadline`] says when to try again.
    pub fn has_room(&self) -> bool {
        self.count < self.most
            || self.grace <= SHORTEST_GRACE
            || self
                .oldest()
                .is_none_or(|(since, _)| since.elapsed() >= self.grace)
    }

    /// Returns the time at which to call [`Pending::expire`] or, if there was no room,
    /// [`Pending::accept`].
    pub fn deadline(&self) -> Option<Instant> {
        let (since, _) = self.oldest()?;
        let wait = match self.has_room() {
            true => self.deadline,
            false => self.grace.min(self.deadline),
        };
        Some(since + wait)
    }

    /// Drops connections whose deadline has passed.
    pub fn expire(&mut self, now: Instant) {
        if self.count == 0 || now < self.look {
            return;
        }
        let deadline = self.deadline;
        self.drop_those(|since, _| now.saturating_duration_since(since) >= deadline);
        self.look = self
            .oldest()
            .map_or(now, |(since, _)| since + self.deadline);
    }

    /// Drops connections whose hello has a matching context.
    pub fn drop_context(&mut self, mut unwanted: impl FnMut(&[u8]) -> bool) {
        self.drop_those(|_, slot| {
            let asked = slot.asked.as_ref();
            asked.is_some_and(|(context, _)| unwanted(context))
        });
    }

    fn drop_those(&mut self, mut those: impl FnMut(Instant, &Slot<C>) -> bool) {
        for slot in &mut self.slots {
            let dropped = slot.take_if(|(since, one)| those(*since, one));
            self.count -= usize::from(dropped.is_some());
        }
    }

    /// Drops all connections.
    pub fn clear(&mut self) {
        self.drop_those(|_, _| true);
    }
}

impl<C: Read + Write> Slot<C> {
    /// Reads the available bytes and answers a hello. Returns the session keys when the secret is
    /// proved.
    fn advance(
        &mut self,
        protocol: &Protocol,
        mut secret: impl FnMut(&[u8]) -> Option<Secret>,
    ) -> io::Result<Option<Keys>> {
        loop {
            let wanted = match self.asked {
                None => protocol.hello_len(),
                Some(_) => PROOF,
            };
            while self.filled < wanted {
                // Never reads past the proof: later bytes belong to the user of the connection.
                match self.connection.read(&mut self.buffer[self.filled..wanted]) {
                    Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                    Ok(count) => self.filled += count,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                    Err(error) => return Err(error),
                }
            }
            self.filled = 0;
            if let Some((_, responder)) = &mut self.asked {
                let proof = self.buffer.first_chunk::<PROOF>();
                let proof = proof.ok_or(ErrorKind::InvalidData)?;
                return Ok(Some(responder.check(proof)?));
            }
            let hello = &self.buffer[..wanted];
            let context = protocol.read_hello(hello).ok_or(ErrorKind::InvalidData)?;
            let secret = secret(context).ok_or(ErrorKind::InvalidData)?;
            let (responder, challenge) = Responder::new(protocol, hello, &secret)?;
            // The send buffer of a new connection always holds a challenge.
            if self.connection.write(&challenge)? != challenge.len() {
                return Err(ErrorKind::WriteZero.into());
            }
            self.asked = Some((context.to_vec(), responder));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::os::unix::net::UnixStream;

    use super::super::handshake::{CHALLENGE, Initiator};
    use super::*;

    const PROTOCOL: Protocol = Protocol::new(*b"WeftTst\x01", 1);
    const SECRET: Secret = Secret::from_bytes([7; 32]);

    fn known(context: &[u8]) -> Option<Secret> {
        (context == b"a").then_some(SECRET)
    }

    /// A listener whose connections are pairs of sockets.
    #[derive(Default)]
    struct Queue(VecDeque<UnixStream>);

    impl Queue {
        fn connect(&mut self) -> UnixStream {
            let (near, far) = UnixStream::pair().unwrap();
            far.set_nonblocking(true).unwrap();
            self.0.push_back(far);
            near
        }

        fn accept(&mut self) -> io::Result<UnixStream> {
            self.0.pop_front().ok_or(ErrorKind::WouldBlock.into())
        }
    }

    fn take_all(pending: &mut Pending<UnixStream>, queue: &mut Queue) -> Accepted {
        pending.accept(|| queue.accept(), |_, _| Ok(()))
    }

    fn is_open(mut near: &UnixStream) -> bool {
        near.set_nonblocking(true).unwrap();
        let read = near.read(&mut [0; CHALLENGE]);
        near.set_nonblocking(false).unwrap();
        !matches!(read, Ok(0))
    }

    /// Sends hello and proof, as far as the other end accepts them.
    fn prove(
        near: &mut UnixStream,
        pending: &mut Pending<UnixStream>,
    ) -> Vec<Admitted<UnixStream>> {
        let (mut initiator, hello) = Initiator::new(&PROTOCOL, b"a", &SECRET).unwrap();
        let mut admitted = Vec::new();
        for part in hello.chunks(7) {
            near.write_all(part).unwrap();
            admitted.extend(pending.serve_all(known));
        }
        let mut challenge = [0; CHALLENGE];
        near.read_exact(&mut challenge).unwrap();
        let (proof, _) = initiator.answer(&challenge).unwrap();
        for part in proof.chunks(5) {
            assert!(admitted.is_empty());
            near.write_all(part).unwrap();
            // The user's first bytes follow the proof immediately.
            if part.len() < 5 {
                near.write_all(b"data").unwrap();
            }
            admitted.extend(pending.serve_all(known));
        }
        admitted
    }

    #[test]
    fn a_connection_that_proves_the_secret_is_admitted_with_what_follows_unread() {
        let mut queue = Queue::default();
        let mut pending = Pending::new(PROTOCOL, 4, Duration::from_secs(60));
        let idle = queue.connect();
        let mut near = queue.connect();
        assert_eq!(take_all(&mut pending, &mut queue), Accepted::Drained);
        let mut admitted = prove(&mut near, &mut pending);
        assert_eq!((admitted.len(), pending.len()), (1, 1));
        let one = &mut admitted[0];
        assert_eq!(one.context, b"a");
        let mut data = [0; 4];
        one.connection.read_exact(&mut data).unwrap();
        assert_eq!(&data, b"data");
        assert!(is_open(&idle));
    }

    #[test]
    fn wrong_words_and_ends_free_the_slot() {
        let mut queue = Queue::default();
        let mut pending = Pending::new(PROTOCOL, 8, Duration::from_secs(60));
        let mut ends: Vec<UnixStream> = (0..5).map(|_| queue.connect()).collect();
        take_all(&mut pending, &mut queue);
        let hello = |context: &[u8]| Initiator::new(&PROTOCOL, context, &SECRET).unwrap().1;
        ends[0].write_all(&[0; 100]).unwrap();
        ends[1].write_all(&hello(b"b")).unwrap();
        ends[2]
            .write_all(&[&hello(b"a")[..], &[0; PROOF]].concat())
            .unwrap();
        ends[3].shutdown(std::net::Shutdown::Write).unwrap();
        assert!(pending.serve_all(known).is_empty());
        assert_eq!(pending.len(), 1);
        pending.expire(Instant::now());
        assert_eq!(pending.len(), 1);
        assert!(pending.deadline().unwrap() > Instant::now() + Duration::from_secs(50));
        pending.expire(Instant::now() + Duration::from_secs(60));
        assert!(pending.is_empty());
        assert_eq!(pending.deadline(), None);
    }

    #[test]
    fn a_flood_takes_slots_from_itself_and_not_from_the_newest() {
        let mut queue = Queue::default();
        let mut pending = Pending::new(PROTOCOL, 4, Duration::from_secs(60));
        let mut flood: Vec<UnixStream> = (0..4).map(|_| queue.connect()).collect();
        take_all(&mut pending, &mut queue);
        // A burst gets its grace first.
        flood.push(queue.connect());
        assert_eq!(take_all(&mut pending, &mut queue), Accepted::Short);
        assert!(
            !pending.has_room() && pending.deadline().unwrap() < Instant::now() + LONGEST_GRACE
        );
        std::thread::sleep(LONGEST_GRACE);
        assert!(pending.has_room());
        for _ in 0..200 {
            flood.push(queue.connect());
            while take_all(&mut pending, &mut queue) == Accepted::Short {
                std::thread::sleep(pending.deadline().unwrap() - Instant::now());
            }
        }
        assert!(pending.grace <= SHORTEST_GRACE, "{:?}", pending.grace);
        // By now each newcomer is accepted without delay, and proves the secret before it is the
        // oldest.
        let mut near = queue.connect();
        assert_eq!(take_all(&mut pending, &mut queue), Accepted::Drained);
        flood.push(queue.connect());
        take_all(&mut pending, &mut queue);
        assert_eq!(prove(&mut near, &mut pending).len(), 1);
        assert!(!is_open(&flood[0]));
    }

    #[test]
    fn what_needs_a_descriptor_gets_the_oldest_ones() {
        let mut queue = Queue::default();
        let mut pending = Pending::new(PROTOCOL, 4, Duration::from_secs(60));
        let ends = [queue.connect(), queue.connect()];
        take_all(&mut pending, &mut queue);
        assert!(pending.drop_oldest());
        assert!(!is_open(&ends[0]) && is_open(&ends[1]));
        assert!(pending.drop_oldest() && !pending.drop_oldest());
        // Without any to drop, a lack of descriptors is the caller's problem.
        let short = || Err(io::Error::from_raw_os_error(libc::ENFILE));
        while pending.accept(short, |_, _| Ok(())) == Accepted::More {}
        assert_eq!(pending.accept(short, |_, _| Ok(())), Accepted::Short);
    }

    #[test]
    fn connections_of_a_context_can_be_dropped() {
        let mut queue = Queue::default();
        let mut pending = Pending::new(PROTOCOL, 4, Duration::from_secs(60));
        let mut ends = [queue.connect(), queue.connect()];
        take_all(&mut pending, &mut queue);
        let (_, hello) = Initiator::new(&PROTOCOL, b"a", &SECRET).unwrap();
        ends[0].write_all(&hello).unwrap();
        pending.serve_all(known);
        pending.drop_context(|context| context == b"b");
        assert_eq!(pending.len(), 2);
        pending.drop_context(|context| context == b"a");
        assert_eq!(pending.len(), 1);
        assert!(is_open(&ends[1]));
        pending.clear();
        assert!(pending.is_empty());
    }
}
