//! Random programs run on random networks, checked against the model.

use mpi_core::process::{Destination, NOBODY, Source};
use mpi_core::{ANY_SOURCE, ANY_TAG, Cancelled, Class, Error, MatchedMessage, RequestId, Status};
use netmod_sim::Rng;

use crate::job::{Job, Setup, for_seeds, random_network};
use crate::memory::{Memory, POISON};
use crate::model::{Match, overtaking};
use crate::program::{self, End, How, Op, Program, Receive, UNIQUE};

/// Returns the bytes of message `id`.
fn content(id: usize, len: usize) -> Vec<u8> {
    let byte =
        |i: usize| (Rng::new(((id as u64) << 32) | (i as u64 / 8)).number() >> (i % 8 * 8)) as u8;
    let mut bytes: Vec<u8> = (0..len).map(byte).collect();
    if len >= 4 {
        bytes[..4].copy_from_slice(&(id as u32).to_le_bytes());
    }
    bytes
}

/// Allocates memory for a receive, some of it with gaps.
fn room(receive: &Receive, index: usize) -> Memory {
    Memory::new(&vec![POISON; receive.room], index % 4 == 2)
}

#[derive(Clone, Debug, PartialEq)]
enum Sending {
    NotYet,
    Active(RequestId),
    /// Freed: its receive identifies it.
    Detached,
    Done {
        cancelled: bool,
        at: u64,
    },
}

enum Receiving {
    NotYet,
    /// A probe that has found no message yet.
    Looking,
    Active(RequestId),
    Detached,
    Done(Status, Option<Error>),
}

struct Execution<'a> {
    job: &'a Job,
    program: Program,
    rng: Rng,
    sends: Vec<(Sending, Memory)>,
    receives: Vec<(Receiving, Memory)>,
    next: Vec<usize>,
    /// Number of actions; orders the actions of one rank.
    clock: u64,
    sent: Vec<u64>,
    posted: Vec<u64>,
    /// Bytes that a probe announced.
    probed: Vec<Option<u64>>,
}

impl<'a> Execution<'a> {
    fn new(job: &'a Job, program: Program, rng: Rng) -> Self {
        let sends = (program.messages.iter().enumerate())
            .map(|(id, message)| {
                (
                    Sending::NotYet,
                    Memory::new(&content(id, message.len), id % 4 == 3),
                )
            })
            .collect();
        let receives = (program.receives.iter().enumerate())
            .map(|(index, receive)| (Receiving::NotYet, room(receive, index)))
            .collect();
        Execution {
            job,
            rng,
            sends,
            receives,
            next: vec![0; program.ranks.len()],
            clock: 0,
            sent: vec![0; program.messages.len()],
            posted: vec![0; program.receives.len()],
            probed: vec![None; program.receives.len()],
            program,
        }
    }

    fn source(&self, index: usize) -> (u16, Source) {
        let receive = &self.program.receives[index];
        let context = &self.program.contexts[receive.context];
        let source = Source {
            context: context.number,
            rank: receive.source,
            tag: receive.tag,
            owner: index as u32,
            peer: u32::try_from(receive.source).unwrap_or(NOBODY),
        };
        (context.receive_vci[receive.rank as usize], source)
    }

    fn send(&mut self, index: usize) {
        let message = self.program.messages[index].clone();
        let context = &self.program.contexts[message.context];
        let to = Destination {
            peer: message.to,
            vci: context.receive_vci[message.to as usize],
            context: context.number,
            rank: message.source as i32,
            tag: message.tag,
            owner: index as u32,
        };
        let vci = context.send_vci[message.source as usize];
        let buffer = self.sends[index].1.lend();
        self.sent[index] = self.clock;
        let rank = &self.job.ranks[message.source as usize];
        let started = rank.isend(vci, &to, buffer, message.mode).unwrap();
        self.sends[index].0 = match started {
            None => Sending::Done {
                cancelled: false,
                at: self.clock,
            },
            Some(id) if message.end == End::Detach => {
                rank.detach(id).unwrap();
                Sending::Detached
            }
            Some(id) => Sending::Active(id),
        };
    }

    fn receive(&mut self, index: usize) {
        let Receive { rank, how, end, .. } = self.program.receives[index];
        if how != How::Receive {
            self.receives[index].0 = Receiving::Looking;
            return self.look(index);
        }
        let (vci, source) = self.source(index);
        let buffer = self.receives[index].1.lend();
        self.posted[index] = self.clock;
        let rank = &self.job.ranks[rank as usize];
        let id = rank.irecv(vci, &source, buffer).unwrap();
        self.receives[index].0 = Receiving::Active(id);
        if end == End::Detach {
            rank.detach(id).unwrap();
            self.receives[index].0 = Receiving::Detached;
        }
    }

    /// Continues a receive that began as a probe.
    fn look(&mut self, index: usize) {
        let Receive { rank, how, .. } = self.program.receives[index];
        let (vci, source) = self.source(index);
        let rank = &self.job.ranks[rank as usize];
        let matched: Option<MatchedMessage>;
        let status = match how {
            How::Matched => {
                matched = rank.improbe(vci, &source).unwrap();
                matched.as_ref().map(MatchedMessage::status)
            }
            _ => {
                matched = None;
                rank.iprobe(vci, &source).unwrap()
            }
        };
        let Some(status) = status else { return };
        self.posted[index] = self.clock;
        self.probed[index] = Some(status.bytes);
        let buffer = self.receives[index].1.lend();
        let id = match matched {
            Some(message) => rank.imrecv(message, buffer).unwrap(),
            None => {
                let receive = &mut self.program.receives[index];
                (receive.source, receive.tag) = (status.source, status.tag);
                let found = Source {
                    rank: status.source,
                    tag: status.tag,
                    ..source
                };
                rank.irecv(vci, &found, buffer).unwrap()
            }
        };
        self.receives[index].0 = Receiving::Active(id);
    }

    fn try_finish_send(&mut self, index: usize) {
        let Sending::Active(id) = self.sends[index].0 else {
            return;
        };
        let rank = &self.job.ranks[self.program.messages[index].source as usize];
        let request = rank.request(id).unwrap();
        assert_eq!(request.owner(), index as u32);
        if request.is_done() {
            let (status, error) = rank.finish(id).unwrap();
            assert_eq!(error, None);
            self.sends[index].0 = Sending::Done {
                cancelled: status.is_cancelled(),
                at: self.clock,
            };
        }
    }

    fn try_finish_receive(&mut self, index: usize) -> bool {
        let Receiving::Active(id) = self.receives[index].0 else {
            return false;
        };
        let rank = &self.job.ranks[self.program.receives[index].rank as usize];
        let request = rank.request(id).unwrap();
        assert_eq!(request.owner(), index as u32);
        if !request.is_done() {
            return false;
        }
        let (status, error) = rank.finish(id).unwrap();
        self.receives[index].0 = Receiving::Done(status, error);
        if status.is_cancelled() {
            // Another receive must take the message.
            let again = Receive {
                end: End::Wait,
                ..self.program.receives[index].clone()
            };
            let new = self.program.receives.len();
            self.receives.push((Receiving::NotYet, room(&again, new)));
            self.program.receives.push(again);
            self.posted.push(0);
            self.probed.push(None);
            self.receive(new);
        }
        true
    }

    fn cancel_send(&mut self, index: usize) {
        let message = &self.program.messages[index];
        if let (End::Cancel, Sending::Active(id)) = (message.end, &self.sends[index].0) {
            self.job.ranks[message.source as usize].cancel(*id).unwrap();
        }
    }

    fn cancel_receive(&mut self, index: usize) {
        let receive = &self.program.receives[index];
        if let (End::Cancel, Receiving::Active(id)) = (receive.end, &self.receives[index].0) {
            self.job.ranks[receive.rank as usize].cancel(*id).unwrap();
        }
    }

    /// Makes one random action.
    fn act(&mut self) {
        self.clock += 1;
        let rank = self.rng.index(self.job.ranks.len());
        match self.rng.index(10) {
            0..=2 => {
                if let Some(&op) = self.program.ranks[rank].get(self.next[rank]) {
                    self.next[rank] += 1;
                    match op {
                        Op::Send(index) => self.send(index),
                        Op::Receive(index) => self.receive(index),
                    }
                }
            }
            3..=5 => {
                self.job.sim.step();
            }
            6 | 7 => {
                let vci = self.rng.below(u64::from(self.job.setup.vcis)) as u16;
                self.job.ranks[rank].poll(vci).unwrap();
            }
            8 => {
                let index = self.rng.index(self.sends.len());
                self.try_finish_send(index);
                if self.rng.chance(20) {
                    self.cancel_send(index);
                }
            }
            _ => {
                let index = self.rng.index(self.receives.len());
                if let Receiving::Looking = self.receives[index].0 {
                    self.look(index);
                }
                self.try_finish_receive(index);
                if self.rng.chance(20) {
                    self.cancel_receive(index);
                }
            }
        }
    }

    fn run(&mut self) {
        while (0..self.next.len()).any(|rank| self.next[rank] < self.program.ranks[rank].len()) {
            self.act();
        }
        for _ in 0..self.rng.index(400) {
            self.act();
        }
        loop {
            let mut any = self.job.settle();
            self.clock += 1;
            for index in 0..self.sends.len() {
                self.try_finish_send(index);
            }
            for index in 0..self.receives.len() {
                if let Receiving::Looking = self.receives[index].0 {
                    self.look(index);
                    any |= !matches!(self.receives[index].0, Receiving::Looking);
                }
                any |= self.try_finish_receive(index);
            }
            if !any {
                break;
            }
        }
        self.end();
    }

    /// Checks that all sends are complete, and that left-over receives have no messages.
    fn end(&mut self) {
        for (index, (state, _)) in self.sends.iter().enumerate() {
            assert!(
                matches!(state, Sending::Done { .. } | Sending::Detached),
                "send {index} does not end: {:?}",
                self.program.messages[index]
            );
        }
        for index in 0..self.receives.len() {
            let rank = &self.job.ranks[self.program.receives[index].rank as usize];
            let (vci, source) = self.source(index);
            match self.receives[index].0 {
                Receiving::Active(id) => {
                    rank.cancel(id).unwrap();
                    let request = rank.request(id).unwrap();
                    assert!(
                        request.is_done(),
                        "receive {index} neither ends nor is cancelled"
                    );
                    let (status, error) = rank.finish(id).unwrap();
                    assert!(status.is_cancelled() && error.is_none(), "receive {index}");
                    self.receives[index].0 = Receiving::Done(status, error);
                }
                Receiving::Looking => {
                    assert_eq!(rank.iprobe(vci, &source).unwrap(), None, "probe {index}");
                }
                _ => {}
            }
        }
    }

    /// Returns the message that a receive got.
    fn identify(&self, index: usize, status: &Status) -> usize {
        let Receive { rank, context, .. } = self.program.receives[index];
        if status.bytes >= 4 {
            let bytes: [u8; 4] = self.receives[index].1.data()[..4].try_into().unwrap();
            let id = u32::from_le_bytes(bytes) as usize;
            assert!(
                id < self.sends.len(),
                "receive {index} got no message's content"
            );
            return id;
        }
        let found = self.program.messages.iter().position(|message| {
            (message.to, message.context, message.tag) == (rank, context, status.tag)
                && message.source as i32 == status.source
                && message.tag >= UNIQUE
        });
        found.unwrap_or_else(|| panic!("receive {index} got a message nobody sent: {status:?}"))
    }

    fn check_receive(&self, index: usize, id: usize, status: &Status, error: &Option<Error>) {
        let (receive, message) = (&self.program.receives[index], &self.program.messages[id]);
        assert!(
            receive.accepts(message),
            "receive {index} {receive:?} got {message:?}"
        );
        assert_eq!(
            (status.source, status.tag),
            (message.source as i32, message.tag)
        );
        assert_eq!(status.bytes as usize, message.len.min(receive.room));
        let class = error.as_ref().map(Error::class);
        assert_eq!(
            class,
            (message.len > receive.room).then_some(Class::Truncate)
        );
        let len = status.bytes as usize;
        let bytes = self.receives[index].1.data();
        assert!(self.receives[index].1.is_sound(), "around message {id}");
        assert!(
            bytes[..len] == content(id, message.len)[..len],
            "content of message {id}"
        );
        assert!(
            bytes[len..].iter().all(|&byte| byte == POISON),
            "beyond message {id}"
        );
        if let Some(probed) = self.probed[index] {
            assert_eq!(
                probed, message.len as u64,
                "the probe spoke of another message"
            );
        }
    }

    fn check(&self) {
        let messages = &self.program.messages;
        let mut taken: Vec<Option<usize>> = vec![None; messages.len()];
        let mut matches = Vec::new();
        for index in 0..self.receives.len() {
            let receive = &self.program.receives[index];
            let (status, error) = match &self.receives[index].0 {
                Receiving::Done(status, _) if status.is_cancelled() => {
                    let memory = &self.receives[index].1;
                    let data = memory.data();
                    let untouched = memory.is_sound() && data.iter().all(|&byte| byte == POISON);
                    assert!(untouched, "receive {index} was cancelled and got data");
                    continue;
                }
                Receiving::Done(status, error) => (*status, error.clone()),
                Receiving::Detached => {
                    assert!(receive.source != ANY_SOURCE && receive.tag != ANY_TAG);
                    let id = (receive.tag - UNIQUE) as usize;
                    let bytes = messages[id].len.min(receive.room) as u64;
                    let truncated = messages[id].len > receive.room;
                    let (source, tag) = (receive.source, receive.tag);
                    let error = truncated.then(|| Error::new(Class::Truncate, ""));
                    (
                        Status {
                            source,
                            tag,
                            bytes,
                            cancelled: Cancelled::No,
                        },
                        error,
                    )
                }
                _ => continue,
            };
            let id = self.identify(index, &status);
            self.check_receive(index, id, &status, &error);
            let before = taken[id].replace(index);
            assert_eq!(before, None, "message {id} was received twice");
            let (sent, posted) = (self.sent[id], self.posted[index]);
            matches.push(Match {
                message: id,
                receive: index,
                sent,
                posted,
            });
            if let (mpi_core::process::Mode::Synchronous, Sending::Done { at, .. }) =
                (messages[id].mode, &self.sends[id].0)
            {
                assert!(
                    *at >= posted,
                    "synchronous send {id} was complete before its receive"
                );
            }
        }
        for (id, (state, memory)) in self.sends.iter().enumerate() {
            let cancelled = matches!(
                state,
                Sending::Done {
                    cancelled: true,
                    ..
                }
            );
            // Either cancelled or received.
            assert_eq!(
                taken[id].is_none(),
                cancelled,
                "message {id}: {:?}",
                messages[id]
            );
            assert!(!cancelled || messages[id].end == End::Cancel);
            assert!(
                memory.is_sound() && memory.data() == content(id, messages[id].len),
                "a send changed its buffer"
            );
        }
        if let Some(circle) = overtaking(messages, &self.program.receives, &matches) {
            panic!("{circle}");
        }
    }

    /// Checks that no VCI buffered more than the window of each stream, except for messages no
    /// longer than the ready-to-send message that they replace.
    fn check_window(&self) {
        let setup = self.job.setup;
        for (me, rank) in self.job.ranks.iter().enumerate() {
            for vci in 0..setup.vcis {
                let here: Vec<_> = (self.program.messages.iter())
                    .filter(|message| message.to as usize == me)
                    .map(|message| (message, &self.program.contexts[message.context]))
                    .filter(|(_, context)| context.receive_vci[me] == vci)
                    .collect();
                let small = here.iter().filter(|(m, _)| m.len <= 32);
                let small: usize = small.map(|(m, _)| m.len).sum();
                let mut streams: Vec<(u32, u16)> = here
                    .into_iter()
                    .map(|(m, context)| (m.source, context.send_vci[m.source as usize]))
                    .collect();
                streams.sort();
                streams.dedup();
                let bound = u64::from(setup.window) * streams.len() as u64 + small as u64;
                let peak = rank.counters(vci).unwrap().unexpected_bytes_peak;
                assert!(peak <= bound, "{peak} bytes unexpected, {bound} allowed");
            }
        }
    }
}

fn random_setup(rng: &mut Rng) -> Setup {
    Setup {
        ranks: 1 + rng.below(5) as u32,
        vcis: 1 + rng.below(3) as u16,
        eager_limit: rng.pick(&[0, 16, 100, 512, 4096]),
        window: rng.pick(&[0, 100, 500, 2000, 65536]),
        threaded: rng.chance(50),
    }
}

/// Runs one random program. Returns the network's log, for comparisons of runs.
pub fn run(seed: u64) -> String {
    let mut rng = Rng::new(seed);
    let network = random_network(&mut rng);
    let setup = random_setup(&mut rng);
    let size = 1 + rng.index(80);
    let cancel = rng.chance(50);
    let program = program::random(&mut rng, &setup, size, 6000, cancel);
    let job = Job::new(seed, network, setup);
    let mut execution = Execution::new(&job, program, rng);
    execution.run();
    execution.check();
    execution.check_window();
    job.check_ended();
    job.sim.log()
}

#[test]
fn random_programs_match_as_mpi_says() {
    for_seeds(200, |seed| {
        run(seed);
    });
}

/// A failing seed must fail again.
#[test]
fn the_same_seed_gives_the_same_run() {
    for_seeds(10, |seed| {
        let (first, second) = (run(seed), run(seed));
        let mut lines = first.lines().zip(second.lines());
        if let Some((one, other)) = lines.find(|(one, other)| one != other) {
            panic!("a run says\n{one}\nwhere another one of the same seed says\n{other}");
        }
        assert_eq!(first.lines().count(), second.lines().count());
    });
}
