//! Properties of the simulated network.

use netmod::{
    AtomicOp, Header, Issued, Lane, LaneError, Payload, Peer, RemoteAccess, RemoteAddr, Sink,
    Token, Transport, VciId,
};
use netmod_sim::{Get, Latency, Rng, SimConfig, Simulation};

#[derive(Default)]
struct Got {
    messages: Vec<(Peer, u64, Vec<u8>)>,
    complete: Vec<(u64, Result<(), LaneError>)>,
    lost: Vec<Peer>,
}

impl Sink for Got {
    fn message(&mut self, from: Peer, header: &Header, payload: &[u8]) {
        self.messages.push((from, header.0[0], payload.to_vec()));
    }
    fn complete(&mut self, token: Token, result: Result<(), LaneError>) {
        self.complete.push((token.0, result));
    }
    fn peer_lost(&mut self, peer: Peer, _why: String) {
        self.lost.push(peer);
    }
}

fn lane(sim: &Simulation, peer: Peer, vci: VciId) -> Box<dyn Lane> {
    sim.transport(peer).open_lane(vci).unwrap()
}

fn number(value: u64) -> Header {
    Header([value, 0, 0])
}

fn jittery() -> SimConfig {
    let latency = Latency {
        base: 1000,
        per_byte: 1000,
        jitter: 100_000,
    };
    SimConfig {
        latency,
        reorder: true,
        ..SimConfig::default()
    }
}

#[test]
fn streams_keep_order_and_different_vcis_overtake() {
    let (mut overtaken, mut order) = (false, Vec::new());
    for seed in 0..20 {
        let sim = Simulation::new(seed, jittery());
        let mut sender = lane(&sim, 0, 0);
        for i in 0..20 {
            sender
                .send(1, (i % 2) as VciId, &number(i), Payload::Bytes(&[0; 10]))
                .unwrap();
        }
        let mut got = Got::default();
        let mut receivers = [lane(&sim, 1, 0), lane(&sim, 1, 1)];
        while let Some(delivery) = sim.step() {
            receivers[usize::from(delivery.vci)].poll(&mut got, 8);
        }
        let numbers: Vec<u64> = got.messages.iter().map(|message| message.1).collect();
        assert_eq!(numbers.len(), 20);
        for vci in 0..2 {
            let of_one: Vec<_> = numbers.iter().filter(|number| *number % 2 == vci).collect();
            assert!(of_one.is_sorted());
        }
        overtaken |= !numbers.is_sorted();
        order.extend(numbers);
    }
    assert!(overtaken);
}

#[test]
fn a_seed_decides_everything() {
    let run = |seed| {
        let config = SimConfig {
            again: 30,
            log: 1000,
            ..jittery()
        };
        let sim = Simulation::new(seed, config);
        let mut lanes: Vec<_> = (0..5).map(|peer| lane(&sim, peer, 0)).collect();
        let mut rng = Rng::new(seed);
        for i in 0..100 {
            let (from, to) = (rng.index(5), rng.index(5));
            let _ = lanes[from].send(
                to as Peer,
                0,
                &number(i),
                Payload::Bytes(&vec![0; rng.index(100)]),
            );
            if rng.chance(50) {
                sim.step();
            }
        }
        sim.run_until(u64::MAX / 2);
        sim.log()
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

#[test]
fn full_queues_push_back_until_polled() {
    let sim = Simulation::new(
        1,
        SimConfig {
            depth: 3,
            ..SimConfig::default()
        },
    );
    let (mut sender, mut receiver) = (lane(&sim, 0, 0), lane(&sim, 1, 0));
    for i in 0..3 {
        sender.send(1, 0, &number(i), Payload::Bytes(&[])).unwrap();
    }
    assert_eq!(
        sender.send(1, 0, &number(3), Payload::Bytes(&[])),
        Err(LaneError::Again)
    );
    assert!(!sender.drained());
    sim.run_until(1_000_000);
    assert!(sender.drained());
    assert_eq!(
        sender.send(1, 0, &number(3), Payload::Bytes(&[])),
        Err(LaneError::Again)
    );
    assert!(!receiver.arm());
    assert!(receiver.poll(&mut Got::default(), 1));
    assert_eq!(
        sender.send(1, 0, &number(3), Payload::Bytes(&[])),
        Ok(Issued::Complete)
    );
    assert_eq!(sim.traffic(0).messages, 4);
    assert_eq!(sim.total(), sim.traffic(0));
}

fn exposed(transport: &dyn Transport, memory: &mut [u64]) -> RemoteAddr {
    // SAFETY: the tests keep the memory until they have withdrawn it.
    let key = unsafe { transport.expose(memory.as_mut_ptr().cast(), size_of_val(memory)) };
    RemoteAddr {
        key: key.unwrap(),
        offset: 0,
    }
}

#[test]
fn memory_is_read_at_once_or_later_or_not_at_all() {
    for get in [Get::Immediate, Get::Delayed, Get::Unsupported] {
        let sim = Simulation::new(
            1,
            SimConfig {
                get,
                ..SimConfig::default()
            },
        );
        let owner = sim.transport(1);
        let mut memory = [11u64, 22];
        let remote = exposed(&*owner, &mut memory);
        let mut reader = lane(&sim, 0, 0);
        let mut local = [0u64; 2];
        // SAFETY: `local` outlives the read.
        let issued = unsafe {
            reader.access(
                1,
                0,
                RemoteAccess::get(local.as_mut_ptr().cast(), 16, remote),
                Token(7),
            )
        };
        match get {
            Get::Immediate => assert_eq!(issued, Ok(Issued::Complete)),
            Get::Unsupported => assert_eq!(issued, Err(LaneError::Unsupported)),
            _ => {
                assert_eq!((issued, local), (Ok(Issued::Pending), [0, 0]));
                assert_eq!(sim.step().map(|delivery| delivery.peer), Some(0));
                let mut got = Got::default();
                assert!(reader.poll(&mut got, 1));
                assert_eq!(got.complete, [(7, Ok(()))]);
            }
        }
        if get != Get::Unsupported {
            assert_eq!(local, [11, 22]);
            sim.refuse_get(0, 1);
            // SAFETY: `local` outlives the read.
            let again = unsafe {
                reader.access(
                    1,
                    0,
                    RemoteAccess::get(local.as_mut_ptr().cast(), 8, remote),
                    Token(8),
                )
            };
            assert_eq!(again, Err(LaneError::Unsupported));
        }
        assert_eq!(sim.exposed(), 1);
        owner.withdraw(&remote.key);
        assert_eq!(sim.exposed(), 0);
    }
}

#[test]
#[should_panic(expected = "not exposed")]
fn memory_that_was_withdrawn_is_not_to_be_used() {
    let sim = Simulation::new(1, SimConfig::default());
    let owner = sim.transport(1);
    let (mut memory, mut local) = ([0u64], 0u64);
    let remote = exposed(&*owner, &mut memory);
    owner.withdraw(&remote.key);
    // SAFETY: `local` is valid; nothing is read.
    let _ = unsafe {
        lane(&sim, 0, 0).access(
            1,
            0,
            RemoteAccess::get((&raw mut local).cast(), 8, remote),
            Token(0),
        )
    };
}

#[test]
fn puts_and_atomics_land_in_order_and_flush_tells() {
    let sim = Simulation::new(3, jittery());
    let owner = sim.transport(1);
    let mut memory = [0u64; 2];
    let remote = exposed(&*owner, &mut memory);
    let mut lane = lane(&sim, 0, 0);
    let mut found = u64::MAX;
    for value in 1..=10u64 {
        // SAFETY: `value` is valid during the call, which copies it.
        let put = unsafe {
            lane.access(
                1,
                0,
                RemoteAccess::put((&raw const value).cast(), 8, remote),
                Token(value),
            )
        };
        assert_eq!(put, Ok(Issued::Complete));
    }
    // SAFETY: `found` lives until the completion.
    let add = unsafe {
        lane.access(
            1,
            0,
            RemoteAccess::atomic(AtomicOp::Add, [5, 0], &raw mut found, remote),
            Token(20),
        )
    };
    assert_eq!(add, Ok(Issued::Pending));
    assert_eq!(lane.flush(1, Token(21)), Ok(Issued::Pending));
    let mut got = Got::default();
    while sim.step().is_some() {
        lane.poll(&mut got, 1);
    }
    let mut tokens: Vec<_> = got.complete.iter().map(|complete| complete.0).collect();
    tokens.sort();
    assert_eq!((tokens.as_slice(), found), ([20, 21].as_slice(), 10));
    // SAFETY: `memory` is alive; the read is volatile because the transport changes it.
    assert_eq!(unsafe { (&raw const memory[0]).read_volatile() }, 15);
    assert_eq!(lane.flush(1, Token(22)), Ok(Issued::Complete));
    owner.withdraw(&remote.key);
}

#[test]
fn the_loss_of_a_peer_is_told_to_those_who_know_it() {
    let sim = Simulation::new(1, SimConfig::default());
    let mut lanes: Vec<_> = (0..3).map(|peer| lane(&sim, peer, 0)).collect();
    lanes[0]
        .send(1, 0, &number(1), Payload::Bytes(&[]))
        .unwrap();
    lanes[1]
        .send(0, 0, &number(2), Payload::Bytes(&[]))
        .unwrap();
    sim.lose(1, 500);
    sim.run_until(2000);
    let mut got: Vec<Got> = (0..3).map(|_| Got::default()).collect();
    for (lane, got) in lanes.iter_mut().zip(&mut got) {
        lane.poll(got, 10);
    }
    assert_eq!(
        (got[0].messages.len(), got[0].lost.as_slice()),
        (1, [1].as_slice())
    );
    assert!(got[1].messages.is_empty() && got[2].lost.is_empty());
    assert!(matches!(
        lanes[2].send(1, 0, &number(3), Payload::Bytes(&[])),
        Err(LaneError::PeerLost(lost)) if lost.peer == 1
    ));
}

#[test]
fn a_million_processes_fit() {
    let sim = Simulation::new(1, SimConfig::default());
    let mut lanes: Vec<_> = (0..1_000_000).map(|peer| lane(&sim, peer, 0)).collect();
    let mut got = Got::default();
    for from in (0..1_000_000).step_by(1000) {
        lanes[from]
            .send(
                999_999 - from as Peer,
                0,
                &number(from as u64),
                Payload::Bytes(&[1]),
            )
            .unwrap();
    }
    while let Some(delivery) = sim.step() {
        assert!(lanes[delivery.peer as usize].poll(&mut got, 1));
    }
    assert_eq!(got.messages.len(), 1000);
}
