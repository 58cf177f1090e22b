//! Matching with a known order of arrival: the job settles after each step, so that MPI's matching
//! has one correct result, that of two plain lists.

use std::collections::HashMap;

use mpi_core::process::{Destination, Mode, NOBODY, Source};
use mpi_core::{ANY_SOURCE, ANY_TAG, Buffer, MatchedMessage, RequestId};
use netmod_sim::{Get, SimConfig};
use proptest::prelude::*;

use crate::job::{Job, Setup};

/// Rank 0 receives from ranks 0 to 2.
const SOURCES: u32 = 3;

#[derive(Clone, Debug)]
enum Step {
    Send {
        source: u32,
        context: u64,
        tag: i32,
        len: usize,
        sync: bool,
    },
    Receive(Pattern),
    /// Cancels the receive of this index from the end.
    CancelReceive(usize),
    CancelSend(usize),
    Probe(Pattern),
    Take(Pattern),
    /// Receives the taken message of this index from the end.
    ReceiveTaken(usize),
}

#[derive(Clone, Copy, Debug)]
struct Pattern {
    context: u64,
    source: i32,
    tag: i32,
}

impl Pattern {
    fn accepts(&self, message: &Sent) -> bool {
        self.context == message.context
            && (self.source == ANY_SOURCE || self.source == message.source as i32)
            && (self.tag == ANY_TAG || self.tag == message.tag)
    }

    fn source(&self) -> Source {
        let Pattern {
            context,
            source,
            tag,
        } = *self;
        Source {
            context,
            rank: source,
            tag,
            owner: 0,
            peer: u32::try_from(source).unwrap_or(NOBODY),
        }
    }
}

fn pattern() -> impl Strategy<Value = Pattern> {
    let source = prop_oneof![Just(ANY_SOURCE), 0..SOURCES as i32];
    let tag = prop_oneof![Just(ANY_TAG), 0..3];
    (prop_oneof![Just(4u64), Just(8)], source, tag).prop_map(|(context, source, tag)| Pattern {
        context,
        source,
        tag,
    })
}

fn step() -> impl Strategy<Value = Step> {
    let send = (
        0..SOURCES,
        prop_oneof![Just(4u64), Just(8)],
        0..3,
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(source, context, tag, long, sync)| {
            let len = if long { 300 } else { 20 };
            Step::Send {
                source,
                context,
                tag,
                len,
                sync,
            }
        });
    prop_oneof![
        6 => send,
        5 => pattern().prop_map(Step::Receive),
        1 => (0..4usize).prop_map(Step::CancelReceive),
        1 => (0..4usize).prop_map(Step::CancelSend),
        1 => pattern().prop_map(Step::Probe),
        1 => pattern().prop_map(Step::Take),
        1 => (0..3usize).prop_map(Step::ReceiveTaken),
    ]
}

/// A message of the model; `number` is its content.
#[derive(Clone, Debug, PartialEq)]
struct Sent {
    source: u32,
    context: u64,
    tag: i32,
    number: usize,
    len: usize,
}

/// The model: MPI-3.1 section 3.5 with two lists.
#[derive(Default)]
struct Lists {
    posted: Vec<(usize, Pattern)>,
    unexpected: Vec<Sent>,
    /// The message that each receive has matched.
    got: HashMap<usize, Sent>,
}

impl Lists {
    fn arrives(&mut self, message: Sent) {
        match self
            .posted
            .iter()
            .position(|(_, pattern)| pattern.accepts(&message))
        {
            Some(place) => {
                let (receive, _) = self.posted.remove(place);
                self.got.insert(receive, message);
            }
            None => self.unexpected.push(message),
        }
    }

    fn find(&self, pattern: &Pattern) -> Option<usize> {
        self.unexpected
            .iter()
            .position(|message| pattern.accepts(message))
    }

    fn receive(&mut self, receive: usize, pattern: Pattern) {
        match self.find(&pattern) {
            Some(place) => {
                let message = self.unexpected.remove(place);
                self.got.insert(receive, message);
            }
            None => self.posted.push((receive, pattern)),
        }
    }
}

struct Comparison {
    job: Job,
    lists: Lists,
    sends: Vec<(u32, Option<RequestId>, Box<[u8]>)>,
    receives: Vec<(RequestId, Box<[u8]>)>,
    taken: Vec<(MatchedMessage, Sent)>,
}

impl Comparison {
    fn perform(&mut self, step: &Step) {
        match *step {
            Step::Send {
                source,
                context,
                tag,
                len,
                sync,
            } => {
                let number = self.sends.len();
                let mut data = vec![number as u8; len].into_boxed_slice();
                let (peer, vci, owner) = (0, 0, 0);
                let to = Destination {
                    peer,
                    vci,
                    context,
                    rank: source as i32,
                    tag,
                    owner,
                };
                // SAFETY: `sends` keeps the box until the job has ended.
                let buffer = unsafe { Buffer::bytes(data.as_mut_ptr(), len) };
                let mode = if sync {
                    Mode::Synchronous
                } else {
                    Mode::Standard
                };
                let id = self.job.ranks[source as usize]
                    .isend(0, &to, buffer, mode)
                    .unwrap();
                self.sends.push((source, id, data));
                self.lists.arrives(Sent {
                    source,
                    context,
                    tag,
                    number,
                    len,
                });
            }
            Step::Receive(pattern) => {
                let (room, buffer) = room();
                let id = self.job.ranks[0]
                    .irecv(0, &pattern.source(), buffer)
                    .unwrap();
                self.lists.receive(self.receives.len(), pattern);
                self.receives.push((id, room));
            }
            Step::CancelReceive(back) => {
                let Some(index) = self.receives.len().checked_sub(back + 1) else {
                    return;
                };
                self.job.ranks[0].cancel(self.receives[index].0).unwrap();
                let posted = self
                    .lists
                    .posted
                    .iter()
                    .position(|(receive, _)| *receive == index);
                if let Some(place) = posted {
                    self.lists.posted.remove(place);
                }
                let status = self.job.ranks[0].request(self.receives[index].0).unwrap();
                let cancelled = status.is_done() && status.status().is_cancelled();
                assert!(cancelled || self.lists.got.contains_key(&index));
            }
            Step::CancelSend(back) => {
                let Some(index) = self.sends.len().checked_sub(back + 1) else {
                    return;
                };
                let (source, Some(id), _) = &self.sends[index] else {
                    return;
                };
                let rank = &self.job.ranks[*source as usize];
                let was_done = rank.request(*id).unwrap().is_done();
                rank.cancel(*id).unwrap();
                self.job.settle();
                let request = rank.request(*id).unwrap();
                if self.taken.iter().any(|(_, sent)| sent.number == index) {
                    return; // matched, by a probe: it ends with its receive
                }
                assert!(request.is_done(), "a cancelled send ends");
                let lists = &mut self.lists;
                let place = lists
                    .unexpected
                    .iter()
                    .position(|message| message.number == index);
                if !was_done {
                    assert_eq!(request.status().is_cancelled(), place.is_some());
                    place.map(|place| lists.unexpected.remove(place));
                }
            }
            Step::Probe(pattern) => {
                let found = self.job.ranks[0].iprobe(0, &pattern.source()).unwrap();
                let found = found.map(|status| (status.source, status.tag, status.bytes));
                let expected = self.lists.find(&pattern).map(|place| {
                    let message = &self.lists.unexpected[place];
                    (message.source as i32, message.tag, message.len as u64)
                });
                assert_eq!(found, expected);
            }
            Step::Take(pattern) => {
                let found = self.job.ranks[0].improbe(0, &pattern.source()).unwrap();
                let expected = self.lists.find(&pattern);
                assert_eq!(found.is_some(), expected.is_some());
                if let (Some(message), Some(place)) = (found, expected) {
                    self.taken
                        .push((message, self.lists.unexpected.remove(place)));
                }
            }
            Step::ReceiveTaken(back) => {
                let Some(index) = self.taken.len().checked_sub(back + 1) else {
                    return;
                };
                let (message, sent) = self.taken.remove(index);
                let (room, buffer) = room();
                let id = self.job.ranks[0].imrecv(message, buffer).unwrap();
                self.lists.got.insert(self.receives.len(), sent);
                self.receives.push((id, room));
            }
        }
        self.job.settle();
    }

    /// Compares the complete receives and their messages with the lists.
    fn compare(&self) {
        for (index, (id, room)) in self.receives.iter().enumerate() {
            let request = self.job.ranks[0].request(*id).unwrap();
            match self.lists.got.get(&index) {
                Some(message) => {
                    assert!(request.is_done(), "receive {index} should have {message:?}");
                    let status = request.status();
                    let got = (status.source, status.tag, status.bytes);
                    let len = message.len;
                    assert_eq!(got, (message.source as i32, message.tag, len as u64));
                    assert!(!status.is_cancelled());
                    assert!(room[..len].iter().all(|&byte| byte == message.number as u8));
                }
                None => assert!(!request.is_done() || request.status().is_cancelled()),
            }
        }
    }
}

fn room() -> (Box<[u8]>, Buffer) {
    let mut room = vec![0; 300].into_boxed_slice();
    // SAFETY: the caller keeps the box until the job has ended.
    let buffer = unsafe { Buffer::bytes(room.as_mut_ptr(), room.len()) };
    (room, buffer)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn matching_equals_two_lists(
        steps in proptest::collection::vec(step(), 1..60),
        window in prop_oneof![Just(0u32), Just(300), Just(65536)],
        get in prop_oneof![Just(Get::Immediate), Just(Get::Delayed), Just(Get::Unsupported)],
    ) {
        let setup = Setup { window, eager_limit: 100, ..Setup::new(SOURCES) };
        let job = Job::new(1, SimConfig { get, ..SimConfig::default() }, setup);
        let mut comparison = Comparison {
            job,
            lists: Lists::default(),
            sends: Vec::new(),
            receives: Vec::new(),
            taken: Vec::new(),
        };
        for step in &steps {
            comparison.perform(step);
            comparison.compare();
        }
    }
}
