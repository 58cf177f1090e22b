//! The state of a simulation: clock, pending events, arrived items, processes.
//!
//! Maps are only looked up and never iterated, so that their order, which differs from run to run,
//! has no effect.

use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};

use netmod::{AtomicOp, Header, LaneError, Peer, RemoteAddr, RemoteKey, Token, VciId};

use crate::config::SimConfig;
use crate::event::{Event, Item, What};
use crate::log::{Entry, Log, Place};
use crate::memory;
use crate::rng::Rng;
use crate::simulation::{Delivery, Traffic};
use crate::watch::{Look, Watch};

/// The mailbox of a lane.
#[derive(Default)]
struct Post {
    arrived: VecDeque<Item>,
    /// Messages in flight to it or arrived.
    load: usize,
    /// Messages from it that have not arrived.
    leaving: usize,
}

struct Exposure {
    peer: Peer,
    len: u64,
}

/// From a lane to a peer's VCI, or to any of its VCIs without reordering.
type Stream = (Place, Peer, Option<VciId>);

pub(crate) struct World {
    pub config: SimConfig,
    seed: u64,
    rng: Rng,
    pub now: u64,
    order: u64,
    events: BinaryHeap<Event>,
    posts: HashMap<Place, Post>,
    /// Arrival time of the last message of each stream.
    streams: HashMap<Stream, u64>,
    /// Landing time of the last put of a lane to a peer.
    puts: HashMap<(Place, Peer), u64>,
    /// Completed puts that leave with the next flush.
    held: HashMap<(Place, Peer), Vec<(Place, What)>>,
    /// Lanes in contact with a process, in order of first contact.
    contacts: HashMap<Peer, Vec<Place>>,
    dead: HashMap<Peer, String>,
    pub watch: Watch,
    refused: HashSet<(Peer, Peer)>,
    exposed: HashMap<u64, Exposure>,
    exposures: u64,
    traffic: HashMap<Peer, Traffic>,
    pub total: Traffic,
    pub log: Log,
}

impl World {
    pub fn new(seed: u64, config: SimConfig) -> World {
        assert!(
            config.max_payload >= 1024,
            "the contract asks for payloads of 1,024 bytes"
        );
        World {
            config,
            seed,
            rng: Rng::new(seed),
            now: 0,
            order: 0,
            events: BinaryHeap::new(),
            posts: HashMap::new(),
            streams: HashMap::new(),
            puts: HashMap::new(),
            held: HashMap::new(),
            contacts: HashMap::new(),
            dead: HashMap::new(),
            watch: Watch::default(),
            refused: HashSet::new(),
            exposed: HashMap::new(),
            exposures: 0,
            traffic: HashMap::new(),
            total: Traffic::default(),
            log: Log::new(config.log),
        }
    }

    fn latency(&mut self, len: usize) -> u64 {
        let latency = self.config.latency;
        let jitter = match latency.jitter {
            0 => 0,
            jitter => self.rng.below(jitter.saturating_add(1)),
        };
        latency.base + latency.per_byte * len as u64 / 1000 + jitter
    }

    fn schedule(&mut self, at: u64, from: Place, to: Place, what: What) {
        self.order += 1;
        let order = self.order;
        self.events.push(Event {
            at,
            order,
            from,
            to,
            what,
        });
    }

    /// Returns the arrival time of an item that is ordered in its stream.
    fn in_order(&mut self, from: Place, to: Place, len: usize) -> u64 {
        let at = self.now + self.latency(len);
        let stream = (from, to.0, self.config.reorder.then_some(to.1));
        let last = self.streams.entry(stream).or_insert_with(|| {
            for (peer, lane) in [(from.0, to), (to.0, from)] {
                self.contacts.entry(peer).or_default().push(lane);
            }
            0
        });
        *last = at.max(*last);
        *last
    }

    fn note(&mut self, what: &'static str, from: Place, to: Place, len: usize) {
        let at = self.now;
        self.log.note(Entry {
            at,
            what,
            from,
            to,
            len,
            header: None,
        });
    }

    pub fn alive(&self, peers: [Peer; 2]) -> Result<(), LaneError> {
        for peer in peers {
            if let Some(why) = self.dead.get(&peer) {
                return Err(LaneError::lost(peer, why.clone()));
            }
        }
        Ok(())
    }

    /// Checks whether a message may leave now.
    pub fn admit(&mut self, from: Place, to: Place) -> Result<(), LaneError> {
        self.alive([from.0, to.0])?;
        let full = self
            .posts
            .get(&to)
            .is_some_and(|post| post.load >= self.config.depth);
        if full || self.rng.chance(self.config.again) {
            return Err(LaneError::Again);
        }
        Ok(())
    }

    /// Sends an admitted message.
    pub fn send(&mut self, from: Place, to: Place, header: Header, payload: Box<[u8]>) {
        let len = payload.len();
        let at = self.now;
        self.log.note(Entry {
            at,
            what: "send",
            from,
            to,
            len,
            header: Some(header),
        });
        for traffic in [&mut self.total, self.traffic.entry(from.0).or_default()] {
            traffic.messages += 1;
            traffic.bytes += len as u64;
        }
        self.posts.entry(to).or_default().load += 1;
        self.posts.entry(from).or_default().leaving += 1;
        let at = self.in_order(from, to, len);
        let item = Item::Message {
            from: from.0,
            header,
            payload,
        };
        self.schedule(at, from, to, What::Item(item));
    }

    /// Executes the next event, if it is due by `limit`.
    pub fn step(&mut self, limit: u64) -> Option<Delivery> {
        if self.events.peek()?.at > limit {
            return None;
        }
        let Event {
            at, from, to, what, ..
        } = self.events.pop()?;
        self.now = self.now.max(at);
        match what {
            What::Item(item) => self.arrive(from, to, item),
            What::Read {
                reader,
                token,
                local,
                len,
                remote,
                outcome,
            } => {
                let gone = self.alive([from.0, to.0]);
                let outcome = gone.and(outcome);
                if outcome.is_ok() {
                    self.read(to.0, local, len, remote);
                }
                let item = Item::Complete(token, outcome);
                if self.keeps_order(len) {
                    // The memory was read now, and the data travels back.
                    let at = self.now + self.latency(len);
                    self.schedule(at, to, reader, What::Item(item));
                } else {
                    self.post(reader, item);
                    return Some(Delivery {
                        at: self.now,
                        peer: reader.0,
                        vci: reader.1,
                    });
                }
            }
            What::Write { remote, data } => {
                self.note("put lands", from, to, data.len());
                if self.alive([to.0, to.0]).is_ok() {
                    let place = self.place(to.0, remote, data.len());
                    // SAFETY: `place` checks that it is exposed, so it is valid by the contract of
                    // `expose`.
                    unsafe { memory::write(data.as_ptr(), place, data.len()) };
                }
            }
            What::WriteLater {
                token,
                local,
                len,
                remote,
                outcome,
            } => {
                let outcome = self.alive([from.0, to.0]).and(outcome);
                if outcome.is_ok() {
                    self.note("put lands", from, to, len);
                    let place = self.place(to.0, remote, len);
                    // SAFETY: `place` checks that it is exposed, so it is valid by the contract of
                    // `expose`; the caller of `Lane::access` keeps `local` valid until completion.
                    unsafe { memory::write(local as *const u8, place, len) };
                }
                self.post(from, Item::Complete(token, outcome));
                return Some(Delivery {
                    at: self.now,
                    peer: from.0,
                    vci: from.1,
                });
            }
            What::Atomic {
                issuer,
                token,
                op,
                operand,
                compare,
                result,
                remote,
            } => {
                let outcome = self.alive([to.0, to.0]);
                if outcome.is_ok() {
                    let found = self.atomic(to.0, op, operand, compare, remote);
                    // SAFETY: the caller of `Lane::access` keeps the result valid until completion.
                    unsafe { (result as *mut u64).write(found) };
                }
                let at = self.now + self.latency(8);
                let item = Item::Complete(token, outcome);
                self.schedule(at, to, issuer, What::Item(item));
            }
            What::Loss => self.end_process(to.0),
            What::Silence => {
                self.note("falls silent", to, to, 0);
                self.watch.silence(to.0);
            }
            What::Question if self.watch.is_silent(to.0) || self.alive([to.0; 2]).is_err() => {}
            What::Question => {
                let at = self.now + self.latency(0);
                self.schedule(at, to, from, What::Answer);
            }
            What::Answer => self.watch.answered(to, from.0),
        }
        Some(Delivery {
            at: self.now,
            peer: to.0,
            vci: to.1,
        })
    }

    fn arrive(&mut self, from: Place, to: Place, item: Item) {
        if let Item::Message {
            header, payload, ..
        } = &item
        {
            let (at, header, len) = (self.now, Some(*header), payload.len());
            self.log.note(Entry {
                at,
                what: "arrives",
                from,
                to,
                len,
                header,
            });
            if let Some(post) = self.posts.get_mut(&from) {
                post.leaving -= 1;
            }
        }
        if self.dead.contains_key(&to.0) {
            return;
        }
        self.post(to, item);
    }

    fn post(&mut self, to: Place, item: Item) {
        self.posts.entry(to).or_default().arrived.push_back(item);
    }

    /// Takes at most `budget` arrived items.
    pub fn take(&mut self, lane: Place, budget: usize, out: &mut Vec<Item>) {
        if self.dead.contains_key(&lane.0) {
            return;
        }
        let Some(post) = self.posts.get_mut(&lane) else {
            return;
        };
        let count = budget.min(post.arrived.len());
        out.extend(post.arrived.drain(..count));
        let messages = out
            .iter()
            .filter(|item| matches!(item, Item::Message { .. }))
            .count();
        post.load -= messages;
    }

    pub fn has_arrived(&self, lane: Place) -> bool {
        self.posts
            .get(&lane)
            .is_some_and(|post| !post.arrived.is_empty())
    }

    pub fn drained(&self, lane: Place) -> bool {
        self.posts.get(&lane).is_none_or(|post| post.leaving == 0)
    }

    pub fn under_way(&self) -> usize {
        self.events.len()
    }

    pub fn traffic(&self, peer: Peer) -> Traffic {
        self.traffic.get(&peer).copied().unwrap_or_default()
    }

    // Remote memory.

    pub fn expose(&mut self, peer: Peer, ptr: *mut u8, len: usize) -> RemoteKey {
        self.exposures += 1;
        self.exposed.insert(
            self.exposures,
            Exposure {
                peer,
                len: len as u64,
            },
        );
        RemoteKey {
            address: ptr as u64,
            words: [self.exposures, 0],
        }
    }

    pub fn withdraw(&mut self, peer: Peer, key: &RemoteKey) {
        let found = self.exposed.remove(&key.words[0]);
        assert!(
            found.is_some_and(|exposure| exposure.peer == peer),
            "process {peer} withdraws memory that it has not exposed, or has withdrawn: {key:?}"
        );
    }

    pub fn exposed(&self) -> usize {
        self.exposed.len()
    }

    /// Returns the address of exposed memory. Panics if it is not exposed.
    fn place(&self, owner: Peer, remote: RemoteAddr, len: usize) -> *mut u8 {
        let exposure = self.exposed.get(&remote.key.words[0]);
        let within = exposure.is_some_and(|exposure| {
            exposure.peer == owner
                && remote
                    .offset
                    .checked_add(len as u64)
                    .is_some_and(|end| end <= exposure.len)
        });
        assert!(
            within,
            "memory of process {owner} is used that is not exposed: {len} bytes at {remote:?}\n{}",
            self.log
        );
        (remote.key.address + remote.offset) as *mut u8
    }

    fn read(&mut self, owner: Peer, local: usize, len: usize, remote: RemoteAddr) {
        let place = self.place(owner, remote, len);
        // SAFETY: `place` checks that it is exposed, so it is valid by the contract of `expose`;
        // the caller of `Lane::access` keeps `local` valid until completion.
        unsafe { memory::read(place, local as *mut u8, len) };
    }

    pub fn refuse_get(&mut self, reader: Peer, owner: Peer) {
        self.refused.insert((reader, owner));
    }

    fn refused(&self, reader: Peer, owner: Peer) -> bool {
        let pair = u64::from(reader) << 32 | u64::from(owner);
        let mut of_pair = Rng::new(self.seed ^ Rng::new(pair).number());
        of_pair.chance(self.config.get_refused) || self.refused.contains(&(reader, owner))
    }

    /// Returns whether an access of this length is ordered with atomics.
    pub fn keeps_order(&self, len: usize) -> bool {
        self.config.ordered_put && len <= self.config.ordered_access
    }

    /// Starts a read. Returns whether it is complete.
    pub fn get(
        &mut self,
        reader: Place,
        owner: Place,
        local: *mut u8,
        len: usize,
        remote: RemoteAddr,
        token: Token,
        immediate: bool,
    ) -> Result<bool, LaneError> {
        self.alive([reader.0, owner.0])?;
        if self.refused(reader.0, owner.0) {
            self.note("refuses", owner, reader, len);
            return Err(LaneError::Unsupported);
        }
        if self.rng.chance(self.config.again) {
            return Err(LaneError::Again);
        }
        for traffic in [&mut self.total, self.traffic.entry(reader.0).or_default()] {
            traffic.gets += 1;
            traffic.get_bytes += len as u64;
        }
        self.note("get", reader, owner, len);
        if immediate {
            self.read(owner.0, local as usize, len, remote);
            return Ok(true);
        }
        let mut outcome = Ok(());
        if self.rng.chance(self.config.get_fails) {
            outcome = Err(self.rng_pick(LaneError::Unsupported, LaneError::Again));
        }
        let at = match self.keeps_order(len) {
            true => self.in_order(reader, owner, 0),
            false => self.now + self.latency(0) + self.latency(len),
        };
        let local = local as usize;
        let what = What::Read {
            reader,
            token,
            local,
            len,
            remote,
            outcome,
        };
        self.schedule(at, reader, owner, what);
        Ok(false)
    }

    fn rng_pick(&mut self, a: LaneError, b: LaneError) -> LaneError {
        if self.rng.chance(50) { a } else { b }
    }

    /// Returns a random number below `end`.
    pub fn pick(&mut self, end: usize) -> usize {
        self.rng.index(end)
    }

    pub fn coin(&mut self) -> bool {
        self.rng.chance(50)
    }

    fn schedule_put(&mut self, at: u64, from: Place, to: Place, what: What) {
        let last = self.puts.entry((from, to.0)).or_default();
        *last = at.max(*last);
        self.schedule(at, from, to, what);
    }

    /// Starts a write that is ordered after earlier ones to the same memory.
    pub fn put_in_order(&mut self, from: Place, to: Place, remote: RemoteAddr, data: Box<[u8]>) {
        self.count_put(from, data.len());
        let at = self.in_order(from, to, data.len());
        self.schedule_put(at, from, to, What::Write { remote, data });
    }

    fn count_put(&mut self, from: Place, len: usize) {
        for traffic in [&mut self.total, self.traffic.entry(from.0).or_default()] {
            traffic.puts += 1;
            traffic.put_bytes += len as u64;
        }
    }

    /// Starts a write. Returns whether the data has been copied.
    pub fn put(
        &mut self,
        from: Place,
        to: Place,
        local: *const u8,
        len: usize,
        remote: RemoteAddr,
        token: Token,
    ) -> Result<bool, LaneError> {
        self.alive([from.0, to.0])?;
        if self.refused(from.0, to.0) {
            self.note("refuses", to, from, len);
            return Err(LaneError::Unsupported);
        }
        if self.rng.chance(self.config.again) {
            return Err(LaneError::Again);
        }
        self.count_put(from, len);
        let at = match self.config.ordered_put {
            true => self.in_order(from, to, len),
            false => self.now + self.latency(len),
        };
        let delayed = self.rng.chance(self.config.put_delayed);
        let what = match delayed {
            false => What::Write {
                remote,
                // SAFETY: the caller of `Lane::access` promises that `local` is valid for reads of
                // `len` bytes.
                data: unsafe { std::slice::from_raw_parts(local, len) }.into(),
            },
            true => What::WriteLater {
                token,
                local: local as usize,
                len,
                remote,
                outcome: match self.rng.chance(self.config.put_fails) {
                    true => Err(self.rng_pick(LaneError::Unsupported, LaneError::Again)),
                    false => Ok(()),
                },
            },
        };
        if self.config.put_held && !self.config.ordered_put && !delayed {
            self.held.entry((from, to.0)).or_default().push((to, what));
        } else {
            self.schedule_put(at, from, to, what);
        }
        Ok(!delayed)
    }

    /// Checks whether an atomic may be issued now.
    pub fn admit_atomic(&mut self, from: Peer, to: Peer) -> Result<(), LaneError> {
        self.alive([from, to])?;
        match self.rng.chance(self.config.again) {
            true => Err(LaneError::Again),
            false => Ok(()),
        }
    }

    pub fn issue_atomic(&mut self, from: Place, to: Place, what: What) {
        let at = match self.config.ordered_put {
            true => self.in_order(from, to, 8),
            false => self.now + self.latency(8),
        };
        let last = self.puts.entry((from, to.0)).or_default();
        *last = at.max(*last);
        self.schedule(at, from, to, what);
    }

    fn atomic(
        &self,
        owner: Peer,
        op: AtomicOp,
        operand: u64,
        compare: u64,
        remote: RemoteAddr,
    ) -> u64 {
        let word: *mut u64 = self.place(owner, remote, 8).cast();
        assert!(
            word.is_aligned(),
            "an atomic on an address that is not aligned to 8 bytes"
        );
        // SAFETY: `place` checks that it is exposed, so it is valid by the contract of `expose`;
        // its alignment is asserted above.
        unsafe { memory::atomic(word, op, operand, compare) }
    }

    /// Completes `token` when all puts of a lane to a peer have landed. Returns `false` if they
    /// already have.
    pub fn flush(&mut self, lane: Place, peer: Peer, token: Token) -> bool {
        for (to, put) in self.held.remove(&(lane, peer)).unwrap_or_default() {
            let at = self.now + self.latency(0);
            self.schedule_put(at, lane, to, put);
        }
        let last = self.puts.get(&(lane, peer)).copied().unwrap_or(0);
        if last < self.now || last == 0 {
            return false;
        }
        let at = last + self.latency(0);
        let item = Item::Complete(token, Ok(()));
        self.schedule(at, (peer, 0), lane, What::Item(item));
        true
    }

    // Loss.

    pub fn lose(&mut self, peer: Peer, at: u64) {
        let at = at.max(self.now);
        self.schedule(at, (peer, 0), (peer, 0), What::Loss);
    }

    pub fn silence(&mut self, peer: Peer, at: u64) {
        let at = at.max(self.now);
        self.schedule(at, (peer, 0), (peer, 0), What::Silence);
    }

    /// Checks a peer for a lane. Returns why it is lost if it has been silent for too long.
    pub fn look_after(&mut self, lane: Place, peer: Peer) -> Option<String> {
        match self.watch.look(lane, peer, self.now) {
            Look::Wait => None,
            Look::Ask => {
                let at = self.now + self.latency(0);
                self.schedule(at, lane, (peer, 0), What::Question);
                None
            }
            Look::Silent(time) => {
                let why = format!("its host has been silent for {time} ns of the simulation");
                self.dead.entry(peer).or_insert_with(|| why.clone());
                Some(why)
            }
        }
    }

    fn end_process(&mut self, peer: Peer) {
        self.note("dies", (peer, 0), (peer, 0), 0);
        let why = format!("it was lost at {} ns of the simulation", self.now);
        self.dead.insert(peer, why.clone());
        let mut told = HashSet::new();
        for lane in self.contacts.remove(&peer).unwrap_or_default() {
            if lane.0 != peer && told.insert(lane) {
                self.post(lane, Item::Lost(peer, why.clone()));
            }
        }
    }
}
