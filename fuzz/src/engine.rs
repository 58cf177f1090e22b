//! Target: point-to-point communication of a process with hostile peers.
//!
//! The peers are bare lanes of the simulated transport, which send the messages that the input describes. Such messages
//! may end requests with errors. They must never end the process, or write beyond a buffer.

use std::sync::Arc;

use mpi_core::datatype::{Datatype, Predefined};
use mpi_core::process::source::Sources;
use mpi_core::process::{
    Config, CriticalSections, Destination, Mode, OneAtATime, Process, Router, Source, Threads,
};
use mpi_core::wait::WaitPolicy;
use mpi_core::{Buffer, RequestId};
use netmod::{Header, Lane, LaneError, OpenError, Payload, Peer, Sink, Token};
use netmod_sim::{Get, SimConfig, Simulation};

use crate::Input;

/// The context of all messages.
const CONTEXT: u64 = 4;
/// Peers, numbered from 1.
const PEERS: u32 = 3;
/// Most operations of the process.
const OPERATIONS: usize = 32;
/// Value of memory that no operation may write.
const POISON: u8 = 0xa5;
/// Bytes behind each buffer.
const MARGIN: usize = 16;
/// The packet kind that reports a lost process.
const LOST: u8 = 11;

struct OnlyWay;

impl Router for OnlyWay {
    fn route(&self, _peer: Peer) -> Result<usize, OpenError> {
        Ok(1)
    }
}

/// Makes process 0 of a simulated job.
pub(crate) fn process(sim: &Simulation, sources: Sources) -> Process {
    let config = Config {
        me: 0,
        transports: vec![sim.transport(0)],
        router: Arc::new(OnlyWay),
        wait: WaitPolicy::for_share(1, 1),
        clock: None,
        watch: None,
        eager_limit: Some(512),
        window: 1 << 16,
        max_vcis: 1,
        // SAFETY: the simulation runs in this thread only.
        threads: Threads::One(unsafe { OneAtATime::promise() }),
        critical: CriticalSections::default(),
        request_caches: true,
        nodes: Vec::new(),
        shared_memory: None,
        sources,
    };
    Process::new(config).expect("a process over the simulated transport")
}

/// Makes a network without remote reads: a forged key would be a misuse of the simulation.
pub(crate) fn network() -> Simulation {
    let config = SimConfig {
        get: Get::Unsupported,
        ..SimConfig::default()
    };
    Simulation::new(1, config)
}

/// Recent words of the process's messages, which peers use in their answers.
#[derive(Default)]
struct Words(Vec<u64>);

/// Number of words kept.
const WORDS: usize = 16;

impl Sink for Words {
    fn message(&mut self, _from: Peer, header: &Header, payload: &[u8]) {
        let (words, _) = payload.as_chunks::<8>();
        let words = words.iter().take(3).map(|word| u64::from_ne_bytes(*word));
        self.0.extend(header.0[..2].iter().copied().chain(words));
        let surplus = self.0.len().saturating_sub(WORDS);
        self.0.drain(..surplus);
    }
    fn complete(&mut self, _token: Token, _result: Result<(), LaneError>) {}
    fn peer_lost(&mut self, _peer: Peer, _why: String) {}
}

/// An operation's buffer, contiguous or of every second byte, with a margin behind it.
struct Memory {
    bytes: Vec<u8>,
    len: usize,
    step: usize,
}

impl Memory {
    fn new(len: usize, has_gaps: bool) -> Memory {
        let step = if has_gaps { 2 } else { 1 };
        let bytes = vec![POISON; len * step + MARGIN];
        Memory { bytes, len, step }
    }

    /// Lends the buffer. The memory must stay until the operation is complete.
    fn lend(&mut self) -> Buffer {
        let address = self.bytes.as_mut_ptr();
        if self.step == 1 {
            // SAFETY: `run` drops the vector after the process and does not resize it before.
            return unsafe { Buffer::bytes(address, self.len) };
        }
        let byte = Datatype::predefined(Predefined::Byte);
        let every = byte.vector(self.len as i64, 1, self.step as i64);
        // SAFETY: `run` drops the vector after the process and does not resize it before; the type
        // covers every second byte of it.
        unsafe { Buffer::typed(address, 1, &every.expect("a small vector")) }
    }

    fn is_sound(&self) -> bool {
        let outside = |at: usize| at >= self.len * self.step || !at.is_multiple_of(self.step);
        (0..self.bytes.len()).all(|at| !outside(at) || self.bytes[at] == POISON)
    }
}

struct Stage {
    sim: Simulation,
    process: Process,
    lanes: Vec<Box<dyn Lane>>,
    words: Words,
    memory: Vec<Memory>,
    open: Vec<RequestId>,
}

impl Stage {
    fn new() -> Stage {
        let sim = network();
        let process = process(&sim, Sources::default());
        let lane = |peer| sim.transport(peer).open_lane(0).expect("a lane");
        Stage {
            lanes: (1..=PEERS).map(lane).collect(),
            process,
            sim,
            words: Words::default(),
            memory: Vec::new(),
            open: Vec::new(),
        }
    }

    /// Delivers all messages.
    fn settle(&mut self) {
        for _ in 0..1000 {
            let mut any = false;
            while self.sim.step().is_some() {
                any = true;
            }
            any |= self.process.poll_all().expect("no peer ends the process");
            for lane in &mut self.lanes {
                any |= lane.poll(&mut self.words, 64);
            }
            if !any {
                return;
            }
        }
        panic!("the peers' messages do not come to an end");
    }

    /// Reads a number: small, near a bound, a word that the process has sent, or any.
    fn number(&self, input: &mut Input) -> u64 {
        match input.byte() {
            0xff => input.word(),
            code @ 0xf0.. => u64::MAX - u64::from(code - 0xf0),
            code @ 0xe0.. => {
                let at = usize::from(code - 0xe0);
                self.words.0.iter().rev().nth(at).copied().unwrap_or(0)
            }
            code @ 0xd0.. => 3000 - u64::from(code - 0xd0),
            code @ 0x80.. => 1 << (code & 63),
            code => code.into(),
        }
    }

    /// Sends a message of a peer.
    fn forge(&mut self, input: &mut Input) {
        let (who, kind) = (input.byte(), input.byte());
        let peer = usize::from(who) % self.lanes.len();
        let words = match who & 0x80 {
            0 => [self.number(input), self.number(input)],
            // A message that a receive may match.
            _ => [
                CONTEXT,
                (peer as u64 + 1) | (u64::from(input.byte() % 4) << 32),
            ],
        };
        let credit = match who & 0x40 {
            0 => 0,
            _ => self.number(input) << 32,
        };
        let vci = u64::from(who >> 4 & 3) / 3;
        // Rare: after the loss of all peers little happens.
        if kind == LOST && who & 0x20 == 0 {
            return;
        }
        let payload = match input.byte() {
            code @ ..0x80 => (0..code % 8)
                .flat_map(|_| self.number(input).to_ne_bytes())
                .collect(),
            code => vec![code; self.number(input) as usize % 4096],
        };
        let header = Header([words[0], words[1], u64::from(kind) | vci << 16 | credit]);
        let _ = self.lanes[peer].send(0, 0, &header, Payload::Bytes(&payload));
    }

    /// Allocates a buffer of any length and layout.
    fn memory(&mut self, input: &mut Input) -> Buffer {
        let len = self.number(input) as usize % 5000;
        let mut memory = Memory::new(len, input.byte() & 1 != 0);
        let buffer = memory.lend();
        self.memory.push(memory);
        buffer
    }

    fn source(input: &mut Input) -> Source {
        let (peer, tag) = (u32::from(input.byte()) % (PEERS + 1), input.byte() % 5);
        Source {
            context: CONTEXT,
            rank: if peer == 0 {
                mpi_core::ANY_SOURCE
            } else {
                peer as i32
            },
            tag: if tag == 4 {
                mpi_core::ANY_TAG
            } else {
                tag.into()
            },
            owner: 0,
            peer,
        }
    }

    fn send(&mut self, input: &mut Input) {
        let peer = 1 + u32::from(input.byte()) % PEERS;
        let to = Destination {
            peer,
            vci: 0,
            context: CONTEXT,
            rank: 0,
            tag: i32::from(input.byte() % 4),
            owner: 0,
        };
        let mode = match input.byte() % 2 {
            0 => Mode::Standard,
            _ => Mode::Synchronous,
        };
        let buffer = self.memory(input);
        if let Ok(sent) = self.process.isend(0, &to, buffer, mode) {
            self.open.extend(sent);
        }
    }

    fn receive(&mut self, input: &mut Input) {
        let from = Stage::source(input);
        let buffer = self.memory(input);
        self.open.extend(self.process.irecv(0, &from, buffer));
    }

    /// Receives by a matched probe.
    fn probe(&mut self, input: &mut Input) {
        let from = Stage::source(input);
        let _ = self.process.iprobe(0, &from);
        if let Ok(Some(message)) = self.process.improbe(0, &from) {
            let buffer = self.memory(input);
            self.open.extend(self.process.imrecv(message, buffer));
        }
    }

    /// Cancels an operation.
    fn cancel(&mut self, input: &mut Input) {
        let at = usize::from(input.byte());
        if let Some(id) = self.open.get(at % self.open.len().max(1)) {
            let _ = self.process.cancel(*id);
        }
    }

    /// Frees the requests that are complete.
    fn finish(&mut self) {
        let process = &self.process;
        self.open.retain(|id| {
            let is_done = process
                .request(*id)
                .is_some_and(|request| request.is_done());
            if is_done {
                process.finish(*id).expect("it is done");
            }
            !is_done
        });
    }
}

/// Runs a process's operations while its peers send forged messages.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut stage = Stage::new();
    while !input.is_empty() {
        match input.byte() % 8 {
            0..3 => stage.forge(&mut input),
            3 if stage.memory.len() < OPERATIONS => stage.send(&mut input),
            4 if stage.memory.len() < OPERATIONS => stage.receive(&mut input),
            5 if stage.memory.len() < OPERATIONS => stage.probe(&mut input),
            6 => stage.cancel(&mut input),
            _ => {
                stage.settle();
                stage.finish();
            }
        }
    }
    stage.settle();
    stage.finish();
    for memory in &stage.memory {
        assert!(memory.is_sound(), "a margin or a gap was written");
    }
    // The process must be dropped before the memory that it may write.
    let Stage {
        process,
        lanes,
        memory,
        ..
    } = stage;
    drop((process, lanes));
    drop(memory);
}
