//! Malformed requests from a rank.

use std::sync::Arc;

use netmod::{Header, Lane, LaneError, OpenError, Peer, Sink, Token};
use netmod_sim::{Get, Rng, SimConfig, Simulation};

use super::*;
use crate::messages::message::{self, Layout};
use mpi_core::comm::{Comm, ContextId};
use mpi_core::group::Group;
use mpi_core::process::{Config, CriticalSections, Router, Threads};
use mpi_core::wait::WaitPolicy;
use mpi_types::datatype::Predefined;
use mpi_types::op::PredefinedOp;

const MARGIN: usize = 64;
const WINDOW: usize = 64;
const POISON: u8 = 0xa5;

/// Kinds of messages, as trailers say them.
const READY_TO_SEND: u64 = 3;
const FIN: u64 = 7;
/// Where the generation begins in a request's name.
const GENERATION: u32 = 25;

/// Routes all peers by one transport, except one that cannot be reached.
struct OnlyWay {
    unreachable: Option<Peer>,
}

impl Router for OnlyWay {
    fn route(&self, peer: Peer) -> Result<usize, OpenError> {
        match self.unreachable == Some(peer) {
            true => Err(OpenError("no address".to_string())),
            false => Ok(1),
        }
    }
}

/// A target: process 0 of three, with a window between margins.
struct Target {
    sim: Simulation,
    process: Process,
    service: Service,
    memory: Box<[u8]>,
}

impl Target {
    fn new(dynamic: bool) -> Target {
        Target::beside(None, dynamic)
    }

    /// A target that cannot reach one of the two other members.
    fn beside(unreachable: Option<Peer>, dynamic: bool) -> Target {
        let sim = Simulation::new(
            1,
            SimConfig {
                get: Get::Unsupported,
                ..SimConfig::default()
            },
        );
        let process = Process::new(Config {
            me: 0,
            transports: vec![sim.transport(0)],
            router: Arc::new(OnlyWay { unreachable }),
            wait: WaitPolicy::for_share(1, 1),
            clock: None,
            watch: None,
            eager_limit: Some(512),
            window: 1 << 20,
            max_vcis: 1,
            threads: Threads::Many,
            critical: CriticalSections::default(),
            request_caches: true,
            nodes: Vec::new(),
            shared_memory: None,
            sources: mpi_core::process::source::Sources::default(),
        })
        .unwrap();
        let comm = Arc::new(Comm::new(ContextId::new(0, 5), Group::identity(3), 0));
        let mut memory = vec![POISON; WINDOW + 2 * MARGIN].into_boxed_slice();
        let base = memory[MARGIN..].as_mut_ptr();
        let fixed = (!dynamic).then_some((base, WINDOW));
        let service = Service::new(comm, fixed, false, false);
        if dynamic {
            service.attach(base.expose_provenance(), WINDOW);
        }
        Target {
            sim,
            process,
            service,
            memory,
        }
    }

    /// Where the window begins, as requests say it.
    fn origin(&self) -> i64 {
        match self.service.memory {
            Some(_) => 0,
            None => self.memory[MARGIN..].as_ptr().addr() as i64,
        }
    }

    /// Carries out a request of rank 1. Returns whether it failed.
    fn ask(&self, bytes: &[u8]) -> bool {
        let mut state = self.service.state.lock();
        self.service
            .carry_out(&self.process, &mut state, (1, 0), bytes)
            .unwrap();
        state.failed.remove(&1).is_some()
    }

    fn is_sound(&self) -> bool {
        let (low, rest) = self.memory.split_at(MARGIN);
        let (_, high) = rest.split_at(WINDOW);
        low.iter().chain(high).all(|byte| *byte == POISON)
    }
}

fn index(op: PredefinedOp, element: Predefined) -> [u64; 2] {
    [op as u64, element as u64]
}

#[test]
fn products_that_overflow_are_no_small_numbers() {
    for dynamic in [false, true] {
        let target = Target::new(dynamic);
        let at = target.origin();
        let sum = index(PredefinedOp::Sum, Predefined::Int64T);
        let look = index(PredefinedOp::NoOp, Predefined::Int64T);
        // 8 bytes each: 8 more than 2^64 bytes.
        let wraps = (1 << 61) + 1;
        let data = |out: &mut [u8]| out.fill(1);
        for (tag, words) in [(0, sum), (1, sum), (1, look)] {
            for runs in [
                vec![(at, wraps)],
                vec![(at, 1), (at, usize::MAX / 8)],
                vec![(at, usize::MAX)],
                vec![(at - 8, 1)],
                vec![(at + 64, 1)],
                vec![(i64::MAX, 1)],
                vec![(-1, 1)],
            ] {
                let bytes = message::encode(
                    Vec::new(),
                    Kind::Accumulate,
                    tag,
                    words,
                    Layout::Runs(&runs),
                    64,
                    data,
                );
                assert!(target.ask(&bytes), "{runs:?}");
            }
        }
        for runs in [
            vec![(at, usize::MAX), (at, 2)],
            vec![(at, 1), (at, usize::MAX)],
            vec![(at, 65)],
            vec![(-1, 1)],
        ] {
            assert!(target.ask(&message::encode(
                Vec::new(),
                Kind::Get,
                1,
                [0; 2],
                Layout::Runs(&runs),
                0,
                |_| {}
            )));
            assert!(target.ask(&message::encode(
                Vec::new(),
                Kind::Put,
                0,
                [0; 2],
                Layout::Runs(&runs),
                64,
                data
            )));
        }
        // With no receive to answer to, or more than the processor compares.
        let runs = [(at, 8)];
        assert!(target.ask(&message::encode(
            Vec::new(),
            Kind::Get,
            0,
            [0; 2],
            Layout::Runs(&runs),
            0,
            |_| {}
        )));
        assert!(target.ask(&message::encode(
            Vec::new(),
            Kind::Flush,
            -7,
            [0; 2],
            Layout::NONE,
            0,
            |_| {}
        )));
        let swap = |runs: &[_]| {
            message::encode(
                Vec::new(),
                Kind::CompareAndSwap,
                1,
                [0; 2],
                Layout::Runs(runs),
                0,
                |_| {},
            )
        };
        assert!(target.ask(&swap(&[(at, 9)])) && target.ask(&swap(&[])));
        assert!(target.is_sound());
        // And one that is as it should be.
        assert!(!target.ask(&message::encode(
            Vec::new(),
            Kind::Accumulate,
            1,
            sum,
            Layout::Runs(&[(at, 8)]),
            64,
            data
        )));
    }
}

#[test]
fn random_requests_stay_in_the_window() {
    let start = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    let seeds = match std::env::var("WEFT_TEST_SEED").map(|seed| seed.parse()) {
        Ok(Ok(seed)) => vec![seed],
        _ => (0..40).map(|i| start + i).collect(),
    };
    for seed in seeds {
        println!("WEFT_TEST_SEED={seed}");
        let mut rng = Rng::new(seed);
        let target = Target::new(rng.chance(50));
        let kinds = [
            Kind::Put,
            Kind::Get,
            Kind::Accumulate,
            Kind::CompareAndSwap,
            Kind::Flush,
            Kind::Key,
            Kind::Record,
            Kind::Post,
            Kind::Complete,
        ];
        for _ in 0..500 {
            let some = |rng: &mut Rng| match rng.below(4) {
                0 => rng.below(9),
                1 => rng.below(70),
                2 => u64::MAX - rng.below(70),
                _ => rng.number(),
            };
            let runs: Vec<_> = (0..rng.below(5))
                .map(|_| {
                    let at = some(&mut rng) as i64;
                    let near = rng.chance(80);
                    let at = if near {
                        at.wrapping_add(target.origin())
                    } else {
                        at
                    };
                    (at, some(&mut rng) as usize)
                })
                .collect();
            let words = [rng.below(20), rng.below(80)];
            let tag = rng.pick(&[0, 1, 2, -1, i32::MIN]);
            let len = rng.index(200);
            let kind = rng.pick(&kinds);
            let mut bytes = message::encode(
                Vec::new(),
                kind,
                tag,
                words,
                Layout::Runs(&runs),
                len,
                |out| out.fill(3),
            );
            if rng.chance(10) {
                bytes.truncate(rng.index(bytes.len()));
            }
            if rng.chance(10) && bytes.len() > 40 {
                bytes[32..40].copy_from_slice(&some(&mut rng).to_ne_bytes());
            }
            target.ask(&bytes);
            assert!(target.is_sound());
        }
        while target.sim.step().is_some() {}
    }
}

#[derive(Default)]
struct Kinds(Vec<u64>);

impl Sink for Kinds {
    fn message(&mut self, _from: Peer, header: &Header, _payload: &[u8]) {
        self.0.push(header.0[2] & 0xff);
    }
    fn complete(&mut self, _token: Token, _result: Result<(), LaneError>) {}
    fn peer_lost(&mut self, _peer: Peer, _why: String) {}
}

#[test]
fn requests_longer_than_memory_and_of_strangers_are_let_go() {
    let target = Target::new(false);
    let mut lane = target.sim.transport(1).open_lane(0).unwrap();
    let context = target.service.comm.context().of(Purpose::Rma);
    let offer = |lane: &mut Box<dyn Lane>, source, len| {
        // What matches it, and a trailer of VCI 0; then its length, the sender's request, and no key.
        let matched = u64::from(source as u32) | u64::from(REQUEST as u32) << 32;
        let header = Header([context, matched, READY_TO_SEND]);
        let words: [u64; 5] = [len, 7 | 1 << GENERATION, 0, 0, 0];
        let offer: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        lane.send(0, 0, &header, netmod::Payload::Bytes(&offer))
            .unwrap();
        while target.sim.step().is_some() {}
        target.process.poll_all().unwrap();
        target.service.advance(&target.process, 0, true).unwrap();
        while target.sim.step().is_some() {}
        let mut answers = Kinds::default();
        lane.poll(&mut answers, 64);
        let failed = target.service.state.lock().failed.remove(&1);
        (answers.0, failed)
    };
    let fin = FIN;
    for len in [u64::MAX, 1 << 62] {
        assert_eq!(offer(&mut lane, 1, len), (vec![fin], Some(1)));
    }
    // Of a rank that there is not, and of one that is not the sender's.
    for source in [2, -7, i32::MAX, 0] {
        assert_eq!(offer(&mut lane, source, 100), (vec![fin], None));
    }
    assert!(target.service.is_idle(&target.process));
}

/// The loss of an origin is no error of the call in which its last requests are carried out.
#[test]
fn requests_of_an_unreachable_origin_are_no_error() {
    let target = Target::beside(Some(1), false);
    let one = [(0, 8)];
    let add = index(PredefinedOp::Sum, Predefined::Int64T);
    for (kind, words, runs, data) in [
        (Kind::Get, [0; 2], &one[..], &[][..]),
        (Kind::Accumulate, add, &[(0, 1)], &[0; 8]),
        (Kind::CompareAndSwap, [0; 2], &one, &[]),
        (Kind::Flush, [0; 2], &[], &[]),
        (Kind::Lock, [1, 0], &[], &[]),
        (Kind::Unlock, [1, 0], &[], &[]),
        (Kind::Key, [0; 2], &[], &[]),
    ] {
        let fill = |out: &mut [u8]| out.copy_from_slice(data);
        let layout = Layout::Runs(runs);
        let bytes = message::encode(Vec::new(), kind, 1, words, layout, data.len(), fill);
        assert!(!target.ask(&bytes), "{kind:?}");
    }
}

/// A lock that an origin has given back before it was lost goes to the next in the queue.
#[test]
fn the_lock_of_an_unreachable_origin_goes_on() {
    let target = Target::beside(Some(1), false);
    let service = &target.service;
    let awaited = || service.state.lock().lock.awaited();
    let carry_out = |rank, kind| {
        let bytes = message::encode(Vec::new(), kind, 1, [1, 0], Layout::NONE, 0, |_| {});
        let state = &mut service.state.lock();
        service.carry_out(&target.process, state, (rank, 0), &bytes)
    };
    {
        // Rank 1 has it, and rank 2 waits.
        let state = &mut service.state.lock();
        for rank in [1, 2] {
            let waiter = Waiter {
                from: (rank, 0),
                tag: 1,
                exclusive: true,
            };
            state.lock.join(waiter, false);
        }
        assert_eq!(state.lock.next().map(|waiter| waiter.from.0), Some(1));
    }
    assert_eq!(awaited(), [1]);
    carry_out(1, Kind::Unlock).unwrap();
    // Rank 2 has it, for which another one waits.
    carry_out(0, Kind::Lock).unwrap();
    assert_eq!(awaited(), [2]);
}
