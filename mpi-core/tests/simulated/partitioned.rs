//! Partitioned communication with random delays, over several VCIs whose messages overtake each
//! other; and the failure of either side during it.

use std::sync::Arc;

use mpi_core::comm::vci_map::{VciMap, VciSelection};
use mpi_core::comm::{Comm, ContextId};
use mpi_core::datatype::{Datatype, Predefined};
use mpi_core::group::Group;
use mpi_core::partitioned::{PartitionedReceive, PartitionedSend, Partitions};
use mpi_core::{Class, Error, Process};
use netmod_sim::{Rng, SimConfig};

use crate::job::{Job, Setup, for_seeds, random_network};

const SECOND: u64 = 1_000_000_000;

/// A send of rank 0 with its receive at rank 1.
struct Pair {
    send: Arc<PartitionedSend>,
    receive: Option<Arc<PartitionedReceive>>,
    out: Vec<u8>,
    room: Vec<u8>,
    partitions: usize,
    /// Number of partitions at the receiver.
    there: usize,
    /// Partitions that are not marked in this round.
    unmarked: Vec<usize>,
    rounds: usize,
    received: bool,
    sent: bool,
}

fn partitions(data: &mut [u8], number: usize) -> Partitions {
    let byte = Datatype::predefined(Predefined::Byte);
    // SAFETY: the tests keep the data until the job has ended.
    unsafe { Partitions::new(data.as_mut_ptr(), number, data.len() / number, &byte) }
}

fn comms(job: &Job, vcis: u16) -> Vec<Arc<Comm>> {
    let members = Group::identity(job.ranks.len() as u32);
    let all: Vec<u16> = (0..vcis).collect();
    let comm = |(rank, process): (u32, &Process)| {
        let comm = Comm::new(ContextId::new(0, 1), members.clone(), rank);
        if vcis > 1 {
            // All members have the VCIs open and know their addresses, so that no agreement is
            // needed.
            let map = VciMap::new(VciSelection::Tag, all.clone(), process.users(), false);
            comm.use_vcis(Arc::new(map.unwrap()));
        }
        Arc::new(comm)
    };
    (0..).zip(&job.ranks).map(comm).collect()
}

impl Pair {
    fn new(
        job: &Job,
        comms: &[Arc<Comm>],
        tag: i32,
        (here, there, unit): (usize, usize, usize),
    ) -> Pair {
        let mut out = vec![0; here * there * unit];
        let room = vec![0; out.len()];
        let data = partitions(&mut out, here);
        let send = PartitionedSend::new(&job.ranks[0], comms[0].clone(), data, 1, tag).unwrap();
        Pair {
            send,
            receive: None,
            out,
            room,
            partitions: here,
            there,
            unmarked: Vec::new(),
            rounds: 0,
            received: true,
            sent: true,
        }
    }

    fn make_receive(&mut self, job: &Job, comms: &[Arc<Comm>], tag: i32) {
        let data = partitions(&mut self.room, self.there);
        let made = PartitionedReceive::new(&job.ranks[1], comms[1].clone(), data, 0, tag);
        self.receive = Some(made.unwrap());
    }

    fn start_send(&mut self) {
        self.rounds += 1;
        self.sent = false;
        let round = self.rounds as u8;
        for (place, byte) in self.out.iter_mut().enumerate() {
            *byte = (place as u8).wrapping_mul(31).wrapping_add(round);
        }
        self.unmarked = (0..self.partitions).collect();
        self.send.start().unwrap();
    }

    fn finish_send(&mut self, job: &Job) {
        if !self.sent && self.send.is_complete(&job.ranks[0]) {
            assert!(self.unmarked.is_empty(), "complete before all was ready");
            assert_eq!(self.send.take(&job.ranks[0]).unwrap(), None);
            self.sent = true;
        }
    }

    fn finish_receive(&mut self, job: &Job, rng: &mut Rng) {
        let Some(receive) = &self.receive else { return };
        if self.received {
            return;
        }
        let each = self.room.len() / self.there;
        let one = rng.index(self.there);
        if receive.has_arrived(&job.ranks[1], one as i64).unwrap() {
            let range = one * each..(one + 1) * each;
            assert_eq!(self.room[range.clone()], self.out[range]);
        }
        if receive.is_complete(&job.ranks[1]).unwrap() {
            let (status, error) = receive.take(&job.ranks[1]).unwrap();
            assert_eq!((status.bytes as usize, error), (self.room.len(), None));
            assert_eq!(self.room, self.out);
            self.received = true;
        }
    }
}

fn run(seed: u64) {
    let mut rng = Rng::new(seed);
    let setup = Setup {
        vcis: 1 + rng.below(4) as u16,
        eager_limit: rng.pick(&[0, 64, 512, 4096]),
        window: rng.pick(&[0, 300, 4096, 1 << 20]),
        threaded: rng.chance(50),
        ..Setup::new(2)
    };
    let job = Job::new(seed, random_network(&mut rng), setup);
    let comms = comms(&job, setup.vcis);
    let count = 1 + rng.index(3);
    let tag = |index: usize| (index / 2) as i32; // some have the same
    let mut pairs: Vec<Pair> = (0..count)
        .map(|index| {
            let shape = (
                1 + rng.index(12),
                1 + rng.index(12),
                rng.pick(&[1, 7, 100, 3000]),
            );
            Pair::new(&job, &comms, tag(index), shape)
        })
        .collect();
    let rounds = 1 + rng.index(3);
    let mut made = 0;
    let over = |pairs: &[Pair]| {
        pairs
            .iter()
            .all(|pair| pair.rounds == rounds && pair.sent && pair.received)
    };
    let mut steps = 0u64;
    while !over(&pairs) {
        steps += 1;
        assert!(steps < 5_000_000, "the test does not end");
        let index = rng.index(count);
        match rng.index(8) {
            0 => {
                job.sim.step();
            }
            1 => drop(job.ranks[rng.index(2)].poll_all().unwrap()),
            2 if made < count => {
                pairs[made].make_receive(&job, &comms, tag(made));
                made += 1;
            }
            3 => {
                let pair = &mut pairs[index];
                if pair.sent && pair.received && pair.rounds < rounds {
                    // Either side may start first, even long before the other.
                    let late = pair.receive.is_none();
                    if let (Some(receive), true) = (&pair.receive, rng.chance(50)) {
                        receive.start(&job.ranks[1]).unwrap();
                        pair.received = false;
                        pair.start_send();
                    } else if !late {
                        pair.start_send();
                        pair.receive.as_ref().unwrap().start(&job.ranks[1]).unwrap();
                        pair.received = false;
                    }
                }
            }
            4 | 5 => {
                let pair = &mut pairs[index];
                if !pair.unmarked.is_empty() {
                    let one = pair.unmarked.swap_remove(rng.index(pair.unmarked.len())) as i64;
                    pair.send.ready(&job.ranks[0], one, one).unwrap();
                    let again = pair.send.ready(&job.ranks[0], one, one);
                    assert_eq!(again.unwrap_err().class(), Class::Arg);
                }
            }
            6 => pairs[index].finish_send(&job),
            _ => pairs[index].finish_receive(&job, &mut rng),
        }
    }
    while job.settle() {}
    job.check_ended();
}

#[test]
fn partitions_arrive_in_place_despite_overtaking() {
    for_seeds(150, run);
}

fn lost(error: Option<Error>) {
    assert_eq!(error.expect("the peer is lost").class(), Class::ProcFailed);
}

/// Rank `silent` fails after some of the data has arrived.
fn loss(silent: u32, vcis: u16) {
    let setup = Setup {
        vcis,
        ..Setup::new(2)
    };
    let job = Job::new(7, SimConfig::default(), setup);
    job.sim.watch_hosts(SECOND);
    let comms = comms(&job, vcis);
    let mut pair = Pair::new(&job, &comms, 0, (8, 4, 10_000));
    pair.make_receive(&job, &comms, 0);
    let receive = pair.receive.clone().unwrap();
    // The first round succeeds.
    receive.start(&job.ranks[1]).unwrap();
    pair.start_send();
    pair.send.ready(&job.ranks[0], 0, 7).unwrap();
    while job.settle() {}
    receive.wait(&job.ranks[1]).unwrap();
    assert_eq!(receive.take(&job.ranks[1]).unwrap().1, None);
    assert_eq!(pair.room, pair.out);
    pair.send.wait(&job.ranks[0]).unwrap();
    assert_eq!(pair.send.take(&job.ranks[0]).unwrap(), None);
    receive.start(&job.ranks[1]).unwrap();
    pair.start_send();
    pair.send.ready(&job.ranks[0], 0, 3).unwrap();
    while job.settle() {}
    job.sim.silence(silent, job.sim.now());
    if silent == 0 {
        assert!(receive.has_arrived(&job.ranks[1], 0).unwrap());
        receive.wait(&job.ranks[1]).unwrap();
        lost(receive.take(&job.ranks[1]).unwrap().1);
        assert!(receive.is_idle());
        // A restart fails immediately.
        receive.start(&job.ranks[1]).unwrap();
        receive.wait(&job.ranks[1]).unwrap();
        lost(receive.take(&job.ranks[1]).unwrap().1);
    } else {
        pair.send.ready(&job.ranks[0], 4, 7).unwrap();
        pair.send.wait(&job.ranks[0]).unwrap();
        lost(pair.send.take(&job.ranks[0]).unwrap());
        pair.send.start().unwrap();
        pair.send.ready(&job.ranks[0], 0, 7).unwrap();
        pair.send.wait(&job.ranks[0]).unwrap();
        lost(pair.send.take(&job.ranks[0]).unwrap());
    }
}

#[test]
fn a_lost_sender_ends_the_receive() {
    loss(0, 1);
    loss(0, 3);
}

#[test]
fn a_lost_receiver_ends_the_send() {
    loss(1, 1);
    loss(1, 3);
}

/// The sender fails before it has created its send.
#[test]
fn a_receive_of_a_lost_process_ends() {
    let job = Job::new(8, SimConfig::default(), Setup::new(2));
    job.sim.watch_hosts(SECOND);
    let comms = comms(&job, 1);
    let mut room = vec![0u8; 64];
    let data = partitions(&mut room, 4);
    let receive = PartitionedReceive::new(&job.ranks[1], comms[1].clone(), data, 0, 3).unwrap();
    receive.start(&job.ranks[1]).unwrap();
    assert!(!receive.has_arrived(&job.ranks[1], 0).unwrap());
    job.sim.silence(0, 0);
    receive.wait(&job.ranks[1]).unwrap();
    lost(receive.take(&job.ranks[1]).unwrap().1);
}

/// One thread finds both sides idle, another starts them, and then the first takes its result.
#[test]
fn a_late_take_does_not_affect_a_new_activation() {
    let job = Job::new(9, SimConfig::default(), Setup::new(2));
    let comms = comms(&job, 1);
    let mut pair = Pair::new(&job, &comms, 0, (8, 4, 10_000));
    pair.make_receive(&job, &comms, 0);
    let receive = pair.receive.clone().unwrap();
    for _ in 0..2 {
        assert!(receive.is_complete(&job.ranks[1]).unwrap());
        assert!(pair.send.is_complete(&job.ranks[0]));
        receive.start(&job.ranks[1]).unwrap();
        pair.start_send();
        let (status, error) = receive.take(&job.ranks[1]).unwrap();
        assert_eq!((status.bytes, error), (0, None));
        assert_eq!(pair.send.take(&job.ranks[0]).unwrap(), None);
        assert!(!receive.is_idle() && !pair.send.is_idle());
        pair.send.ready(&job.ranks[0], 0, 7).unwrap();
        while job.settle() {}
        receive.wait(&job.ranks[1]).unwrap();
        pair.send.wait(&job.ranks[0]).unwrap();
        let (status, error) = receive.take(&job.ranks[1]).unwrap();
        assert_eq!((status.bytes as usize, error), (pair.room.len(), None));
        assert_eq!(pair.send.take(&job.ranks[0]).unwrap(), None);
        assert_eq!(pair.room, pair.out);
    }
}
