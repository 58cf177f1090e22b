//! Checks that each receive matches its message. The sender sends a description of each message.
//!
//! Messages of one communicator, source and tag match in the order of their sends receives in the
//! order of their posting (MPI-5.0 section 3.5). So the n-th receive that got a message of such a
//! stream got the n-th message of the stream. A pending receive that might have got an earlier one
//! must complete first. If several threads use a communicator, the order is unknown and nothing is
//! compared.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use crate::abi::abi;
use crate::call_site::CallSite;
use crate::pmpi::{self, Sending};
use crate::report::report;
use crate::types::{Signature, Type};

/// The tag of descriptions.
const TAG: i32 = 1;
/// Replaces a message's number in the notice of a cancelled send.
const CANCELLED: u64 = u64::MAX;
/// Calls between two polls for descriptions.
const SELDOM: u64 = 32;

/// Time for descriptions to arrive before a job ends early.
const LAST: Duration = Duration::from_secs(2);

/// The data of a message.
#[derive(Clone)]
pub struct Data {
    /// The datatype.
    pub datatype: Arc<Type>,
    /// Number of elements.
    pub count: u64,
    /// The call site.
    pub place: CallSite,
}

/// Communicator, source and tag: messages of one stream are ordered.
type Stream = (u64, i32, i32);

/// A sender's description of a message.
struct Description {
    signature: Signature,
    /// Whether several threads send on the communicator.
    mixed: bool,
    text: String,
}

/// A receive that was posted.
struct Posted {
    number: u64,
    source: i32,
    tag: i32,
    /// Source and tag of its message.
    got: Option<(i32, i32)>,
    data: Option<Data>,
}

/// A receive whose message is known.
struct Matched {
    number: u64,
    data: Option<Data>,
}

/// All messages of this process.
#[derive(Default)]
pub struct Messages {
    sent: HashMap<Stream, u64>,
    under_way: Vec<Sending>,
    /// Numbers of descriptions sent to and received from each rank of `MPI_COMM_WORLD`.
    told: Vec<u64>,
    heard: Vec<u64>,
    numbers: u64,
    posted: HashMap<u64, VecDeque<Posted>>,
    received: HashMap<Stream, u64>,
    arrived: HashMap<Stream, BTreeMap<u64, Description>>,
    waiting: HashMap<Stream, BTreeMap<u64, Matched>>,
    /// Messages of matched probes, and the data of their receives.
    probed: HashMap<usize, u64>,
    later: HashMap<u64, Data>,
    threads: HashMap<u64, ThreadId>,
    mixed: HashSet<u64>,
    /// Streams with a cancelled send, and communicators with a failed receive, which are not
    /// compared.
    cancelled: HashSet<Stream>,
    spoiled: HashSet<u64>,
    calls: u64,
}

impl Messages {
    /// Creates the state for `size` processes.
    pub fn new(size: usize) -> Messages {
        Messages {
            told: vec![0; size],
            heard: vec![0; size],
            ..Messages::default()
        }
    }

    fn is_mixed(&mut self, comm: u64) -> bool {
        let me = thread::current().id();
        if *self.threads.entry(comm).or_insert(me) != me {
            self.mixed.insert(comm);
        }
        self.mixed.contains(&comm)
    }

    /// Notifies the receiver of a cancelled send, which makes the numbers of the stream unknown.
    pub fn cancel(&mut self, comm: u64, rank: i32, world: i32, tag: i32, shadow: usize) {
        let words = [comm, rank as u64, tag as u64, CANCELLED];
        self.tell(
            words.iter().flat_map(|word| word.to_ne_bytes()).collect(),
            world,
            shadow,
        );
    }

    /// Excludes a communicator after a failed receive.
    pub fn spoil(&mut self, comm: u64) {
        self.spoiled.insert(comm);
    }

    fn tell(&mut self, bytes: Vec<u8>, world: i32, shadow: usize) {
        if let Some(sending) = pmpi::isend(bytes, world, TAG, shadow) {
            self.under_way.push(sending);
            if let Some(told) = self.told.get_mut(world as usize) {
                *told += 1;
            }
        }
        self.poll(shadow, false);
    }

    /// Describes a message to its receiver. `rank` is this process's, `world` the peer's in
    /// `MPI_COMM_WORLD`.
    pub fn sent(
        &mut self,
        comm: u64,
        rank: i32,
        (dest, world): (i32, i32),
        tag: i32,
        data: &Data,
        shadow: usize,
    ) {
        let number = self.sent.entry((comm, dest, tag)).or_default();
        let seq = *number;
        *number += 1;
        let mixed = self.is_mixed(comm);
        let signature = data.datatype.of(data.count);
        let words = [
            comm,
            rank as u64,
            tag as u64,
            seq,
            signature.length,
            signature.hash,
            signature.bytes,
            u64::from(signature.untyped) | u64::from(mixed) << 1,
        ];
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let text = format!(
            "{}\n{}",
            data.datatype.describe(data.count),
            data.place.text()
        );
        bytes.extend(text.bytes());
        self.tell(bytes, world, shadow);
    }

    /// Adds a posted receive and returns its number.
    pub fn post(&mut self, comm: u64, source: i32, tag: i32, data: Option<Data>) -> u64 {
        self.is_mixed(comm);
        self.numbers += 1;
        let number = self.numbers;
        self.posted.entry(comm).or_default().push_back(Posted {
            number,
            source,
            tag,
            got: None,
            data,
        });
        number
    }

    /// Completes a receive, with the source and tag of its message, or without a message.
    pub fn end(&mut self, comm: u64, number: u64, got: Option<(i32, i32)>, shadow: usize) {
        if let Some(posted) = self.posted.get_mut(&comm) {
            match (got, posted.iter().position(|one| one.number == number)) {
                (Some(got), Some(at)) => posted[at].got = Some(got),
                (None, Some(at)) => drop(posted.remove(at)),
                (_, None) => {}
            }
        }
        self.settle(comm);
        self.poll(shadow, false);
    }

    /// Adds a message that a matched probe has returned.
    pub fn probed(&mut self, comm: u64, message: usize, got: (i32, i32), shadow: usize) {
        let (source, tag) = got;
        let number = self.post(comm, source, tag, None);
        self.probed.insert(message, number);
        self.end(comm, number, Some(got), shadow);
    }

    /// Adds the receive of a message of a matched probe.
    pub fn matched(&mut self, message: usize, data: Data) {
        let Some(number) = self.probed.remove(&message) else {
            return;
        };
        self.later.insert(number, data);
        let streams: Vec<Stream> = self.waiting.keys().copied().collect();
        streams.into_iter().for_each(|stream| self.compare(stream));
    }

    /// Determines the messages of completed receives.
    fn settle(&mut self, comm: u64) {
        let Some(posted) = self.posted.get_mut(&comm) else {
            return;
        };
        let any = |pattern: i32, any: i32, value: i32| pattern == any || pattern == value;
        let mut pending: Vec<(i32, i32)> = Vec::new();
        let mut left = VecDeque::new();
        let mut touched = Vec::new();
        for one in posted.drain(..) {
            let known = one.got.filter(|(source, tag)| {
                !pending.iter().any(|(s, t)| {
                    any(*s, abi().any_source, *source) && any(*t, abi().any_tag, *tag)
                })
            });
            match known {
                Some((source, tag)) => {
                    let stream = (comm, source, tag);
                    let next = self.received.entry(stream).or_default();
                    let matched = Matched {
                        number: one.number,
                        data: one.data,
                    };
                    self.waiting
                        .entry(stream)
                        .or_default()
                        .insert(*next, matched);
                    *next += 1;
                    touched.push(stream);
                }
                None => {
                    pending.push(one.got.unwrap_or((one.source, one.tag)));
                    left.push_back(one);
                }
            }
        }
        *posted = left;
        touched.into_iter().for_each(|stream| self.compare(stream));
    }

    /// Compares descriptions with receives of the same number.
    fn compare(&mut self, stream: Stream) {
        let (Some(arrived), Some(waiting)) =
            (self.arrived.get_mut(&stream), self.waiting.get_mut(&stream))
        else {
            return;
        };
        let both: Vec<u64> = waiting
            .keys()
            .filter(|seq| arrived.contains_key(seq))
            .copied()
            .collect();
        for seq in both {
            let data = match waiting.get(&seq) {
                Some(Matched {
                    data: Some(data), ..
                }) => Some(data.clone()),
                Some(Matched { number, .. }) => self.later.remove(number),
                None => None,
            };
            let Some(data) = data else { continue };
            waiting.remove(&seq);
            if let Some(told) = arrived.remove(&seq)
                && !told.mixed
                && !self.mixed.contains(&stream.0)
                && !self.spoiled.contains(&stream.0)
                && !self.cancelled.contains(&stream)
            {
                judge(stream, &told, &data);
            }
        }
    }

    /// Receives descriptions that have arrived, on every [`SELDOM`]th call or if `now`.
    pub fn poll(&mut self, shadow: usize, now: bool) {
        self.calls += 1;
        if !now && !self.calls.is_multiple_of(SELDOM) {
            return;
        }
        self.under_way.retain_mut(|sending| !pmpi::is_sent(sending));
        while let Some((world, bytes)) = pmpi::poll(TAG, shadow) {
            self.hear(world, &bytes);
        }
    }

    /// Waits for the descriptions of received messages, since the job is about to end, for
    /// [`LAST`] at most.
    pub fn flush(&mut self, shadow: usize) {
        let until = Instant::now() + LAST;
        self.poll(shadow, true);
        while self.waiting.values().any(|stream| !stream.is_empty()) && Instant::now() < until {
            thread::yield_now();
            self.poll(shadow, true);
        }
    }

    fn hear(&mut self, world: i32, bytes: &[u8]) {
        if let Some(heard) = self.heard.get_mut(world as usize) {
            *heard += 1;
        }
        let word = |index: usize| {
            let bytes = bytes
                .get(8 * index..8 * index + 8)
                .and_then(|part| part.try_into().ok());
            bytes.map_or(0, u64::from_ne_bytes)
        };
        let stream = (word(0), word(1) as i32, word(2) as i32);
        if word(3) == CANCELLED {
            self.cancelled.insert(stream);
            return;
        }
        let told = Description {
            signature: Signature {
                length: word(4),
                hash: word(5),
                bytes: word(6),
                untyped: word(7) & 1 != 0,
            },
            mixed: word(7) & 2 != 0,
            text: String::from_utf8_lossy(bytes.get(64..).unwrap_or(&[])).into_owned(),
        };
        self.arrived
            .entry(stream)
            .or_default()
            .insert(word(3), told);
        self.compare(stream);
    }

    /// Reports messages that were never received. All processes call it in `MPI_Finalize`.
    pub fn finish(&mut self, rank: i32, shadow: usize) {
        let Some(expected) = pmpi::exchange(&mut self.told.clone(), shadow) else {
            return;
        };
        for (world, all) in expected.into_iter().enumerate() {
            while self.heard[world] < all {
                let Some(bytes) = pmpi::receive(world as i32, TAG, shadow) else {
                    return;
                };
                self.hear(world as i32, &bytes);
            }
        }
        while !self.under_way.is_empty() {
            self.poll(shadow, true);
            std::thread::yield_now();
        }
        let comms: Vec<u64> = self.posted.keys().copied().collect();
        comms.into_iter().for_each(|comm| self.settle(comm));
        let mut lines: BTreeMap<(i32, i32, String), u64> = BTreeMap::new();
        for ((comm, source, tag), told) in &self.arrived {
            let fits = |one: &Posted| {
                (one.source == abi().any_source || one.source == *source)
                    && (one.tag == abi().any_tag || one.tag == *tag)
            };
            // A pending receive may have got the message; its incomplete request is reported
            // elsewhere.
            let is_unknown =
                self.spoiled.contains(comm) || self.cancelled.contains(&(*comm, *source, *tag));
            if is_unknown
                || self
                    .posted
                    .get(comm)
                    .is_some_and(|posted| posted.iter().any(fits))
            {
                continue;
            }
            let waiting = self.waiting.get(&(*comm, *source, *tag));
            for (seq, told) in told {
                if !waiting.is_some_and(|waiting| waiting.contains_key(seq)) {
                    *lines.entry((*source, *tag, told.text.clone())).or_default() += 1;
                }
            }
        }
        for ((source, tag, text), count) in lines {
            let (what, place) = text.split_once('\n').unwrap_or((&text, ""));
            let (noun, verb) = if count == 1 {
                ("message", "was")
            } else {
                ("messages", "were")
            };
            eprintln!(
                "Weft check: rank {rank}, MPI_Finalize: {count} {noun} from rank {source} with tag {tag} ({what}, sent by \
                 {place}) {verb} never received; receive what is sent, or do not send it"
            );
        }
    }
}

fn judge((_, source, tag): Stream, told: &Description, data: &Data) {
    let wanted = data.datatype.first(told.signature.length);
    let all = data.datatype.of(data.count);
    let fits = if told.signature.untyped || all.untyped {
        told.signature.bytes <= all.bytes
    } else {
        told.signature.length <= all.length && told.signature.fits(wanted)
    };
    if fits {
        return;
    }
    let (what, place) = told.text.split_once('\n').unwrap_or((&told.text, ""));
    report(
        "a message has other types than its receive",
        data.place,
        || {
            format!(
                "the receive expects {}, but the message from rank {source} with tag {tag} has {what} (sent by {place}); \
             use the same datatypes, in the same order, on both sides",
                data.datatype.describe(data.count)
            )
        },
    );
}
