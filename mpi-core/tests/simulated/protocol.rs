//! Details of the protocol, each with the invariant or the rule of the standard that it checks.

use mpi_core::process::{Destination, Mode, NOBODY, Source};
use mpi_core::{ANY_SOURCE, ANY_TAG, Buffer, Class, RequestId};
use netmod_sim::{Get, SimConfig};

use crate::job::{Job, Setup};

const CONTEXT: u64 = 4;

fn to(from: u32, peer: u32, tag: i32) -> Destination {
    Destination {
        peer,
        vci: 0,
        context: CONTEXT,
        rank: from as i32,
        tag,
        owner: 0,
    }
}

fn from(rank: i32, tag: i32) -> Source {
    Source {
        context: CONTEXT,
        rank,
        tag,
        owner: 0,
        peer: u32::try_from(rank).unwrap_or(NOBODY),
    }
}

fn buffer(bytes: &mut [u8]) -> Buffer {
    // SAFETY: the tests keep the memory until the job has ended.
    unsafe { Buffer::bytes(bytes.as_mut_ptr(), bytes.len()) }
}

impl Job {
    pub fn send(&self, rank: u32, peer: u32, tag: i32, data: &mut [u8]) -> Option<RequestId> {
        self.send_mode(rank, peer, tag, data, Mode::Standard)
    }

    fn send_mode(
        &self,
        rank: u32,
        peer: u32,
        tag: i32,
        data: &mut [u8],
        mode: Mode,
    ) -> Option<RequestId> {
        self.ranks[rank as usize]
            .isend(0, &to(rank, peer, tag), buffer(data), mode)
            .unwrap()
    }

    pub fn receive(&self, rank: u32, source: i32, tag: i32, room: &mut [u8]) -> RequestId {
        self.ranks[rank as usize]
            .irecv(0, &from(source, tag), buffer(room))
            .unwrap()
    }

    fn done(&self, rank: u32, id: RequestId) -> bool {
        self.ranks[rank as usize].request(id).unwrap().is_done()
    }

    pub fn finish(&self, rank: u32, id: Option<RequestId>) {
        if let Some(id) = id {
            assert!(self.done(rank, id));
            let (status, error) = self.ranks[rank as usize].finish(id).unwrap();
            assert!(!status.is_cancelled() && error.is_none());
        }
    }
}

/// Credit that returns while a rendezvous waits for space may turn it into an eager message; its
/// exposed memory must be withdrawn all the same.
#[test]
fn a_rendezvous_that_becomes_eager_withdraws_its_memory() {
    let setup = Setup {
        window: 1000,
        ..Setup::new(2)
    };
    let job = Job::new(
        1,
        SimConfig {
            depth: 1,
            ..SimConfig::default()
        },
        setup,
    );
    let (mut one, mut two) = ([1; 500], [2; 500]);
    let mut rooms = [[0; 500]; 2];
    let first = job.send(0, 1, 0, &mut one);
    let second = job.send(0, 1, 0, &mut two);
    assert_eq!(
        job.sim.exposed(),
        1,
        "the test wants a rendezvous that found no room"
    );
    let receives = [0, 1].map(|i| job.receive(1, 0, 0, &mut rooms[i]));
    job.settle();
    assert_eq!(job.ranks[0].counters(0).unwrap().eager_sent, 2);
    job.finish(0, first);
    job.finish(0, second);
    receives.into_iter().for_each(|id| job.finish(1, Some(id)));
    assert_eq!(rooms, [[1; 500], [2; 500]]);
    job.check_ended();
}

/// MPI-3.1 section 3.8.4: the wait for an operation marked for cancellation is local. A send that
/// has not left can be cancelled locally.
#[test]
fn a_send_that_has_not_left_is_cancelled_at_once() {
    for len in [100, 2000] {
        let job = Job::new(
            1,
            SimConfig {
                depth: 1,
                ..SimConfig::default()
            },
            Setup::new(2),
        );
        let (mut one, mut two, mut three) = ([1; 10], vec![2; len], [3; 10]);
        let first = job.send(0, 1, 0, &mut one);
        let second = job.send_mode(0, 1, 0, &mut two, Mode::Synchronous).unwrap();
        let third = job.send(0, 1, 0, &mut three);
        job.ranks[0].cancel(second).unwrap();
        assert!(job.done(0, second), "nobody else is needed for this");
        let (status, error) = job.ranks[0].finish(second).unwrap();
        assert!(status.is_cancelled() && error.is_none());
        let mut rooms = [[0; 10]; 2];
        let receives = [0, 1].map(|i| job.receive(1, ANY_SOURCE, ANY_TAG, &mut rooms[i]));
        job.settle();
        job.finish(0, first);
        job.finish(0, third);
        receives.into_iter().for_each(|id| job.finish(1, Some(id)));
        assert_eq!(rooms, [[1; 10], [3; 10]]);
        job.check_ended();
    }
}

/// A receive may be the last call of its process for a long time: when it is complete, the sender
/// must have been notified.
#[test]
fn a_receive_completes_after_its_sender_is_notified() {
    let job = Job::new(1, SimConfig::default(), Setup::new(2));
    let (mut data, mut room) = (vec![7; 5000], vec![0; 5000]);
    let send = job.send(0, 1, 0, &mut data).unwrap();
    let receive = job.receive(1, 0, 0, &mut room);
    job.sim.change(|config| config.again = 100);
    while job.sim.step().is_some() {}
    job.ranks[1].poll(0).unwrap();
    assert!(!job.done(1, receive), "there is no room for the read");
    job.sim.change(|config| config.again = 0);
    while !job.done(1, receive) {
        job.ranks[1].poll(0).unwrap();
    }
    while job.sim.step().is_some() {}
    job.ranks[0].poll(0).unwrap();
    job.finish(0, Some(send));
    job.finish(1, Some(receive));
    assert_eq!(room, data);
    job.check_ended();
}

/// Exposed memory must stay valid until it is withdrawn, and belongs to the program when its send
/// is complete. It is therefore withdrawn first, even if messages to the same peer wait for space.
#[test]
fn memory_is_withdrawn_before_its_send_is_complete() {
    let job = Job::new(
        1,
        SimConfig {
            depth: 1,
            ..SimConfig::default()
        },
        Setup::new(2),
    );
    let (mut big, mut room, mut small) = (vec![7; 2000], vec![0; 2000], [1; 10]);
    let send = job.send(0, 1, 0, &mut big).unwrap();
    let receive = job.receive(1, 0, 0, &mut room);
    job.sim.step();
    job.ranks[1].poll(0).unwrap();
    job.finish(1, Some(receive));
    let others = [0, 1, 2].map(|_| job.send(0, 1, 1, &mut small));
    job.sim.step();
    job.ranks[0].poll(0).unwrap();
    job.finish(0, Some(send));
    assert_eq!(job.sim.exposed(), 0);
    let mut rooms = [[0; 10]; 3];
    let receives = rooms.each_mut().map(|room| job.receive(1, 0, 1, room));
    job.settle();
    others.into_iter().for_each(|id| job.finish(0, id));
    receives.into_iter().for_each(|id| job.finish(1, Some(id)));
    job.check_ended();
}

/// A send that fails because its peer is lost withdraws its memory.
#[test]
fn a_failed_send_withdraws_its_memory() {
    let job = Job::new(
        1,
        SimConfig {
            depth: 1,
            ..SimConfig::default()
        },
        Setup::new(2),
    );
    let (mut one, mut two) = ([1; 10], [2; 2000]);
    let first = job.send(0, 1, 0, &mut one);
    let second = job.send(0, 1, 0, &mut two).unwrap();
    assert_eq!(job.sim.exposed(), 1);
    job.finish(0, first);
    job.sim.lose(1, 0);
    job.sim.run_until(100);
    assert!(job.ranks[0].poll(0).unwrap());
    let error = job.ranks[0].first_loss().unwrap();
    assert_eq!(error.class(), Class::ProcFailed);
    assert!(job.done(0, second));
    let error = job.ranks[0].finish(second).unwrap().1.unwrap();
    assert_eq!(error.class(), Class::ProcFailed);
    let _ = job.ranks[0].poll(0);
    assert_eq!(job.sim.exposed(), 0);
}

/// MPI-3.1 section 3.5, progress: a program that only probes progresses all its operations, on any
/// VCI.
#[test]
fn probing_makes_progress_on_other_vcis() {
    let config = SimConfig {
        get: Get::Unsupported,
        ..SimConfig::default()
    };
    for matched in [false, true] {
        let job = Job::new(
            1,
            config,
            Setup {
                vcis: 2,
                ..Setup::new(2)
            },
        );
        let (mut data, mut room) = (vec![7; 50_000], vec![0; 50_000]);
        let there = Destination {
            vci: 1,
            ..to(0, 1, 0)
        };
        let send = job.ranks[0]
            .isend(1, &there, buffer(&mut data), Mode::Standard)
            .unwrap();
        let receive = job.ranks[1]
            .irecv(1, &from(0, 0), buffer(&mut room))
            .unwrap();
        for _ in 0..10_000 {
            if matched {
                assert!(job.ranks[0].improbe(0, &from(1, 9)).unwrap().is_none());
            } else {
                assert!(job.ranks[0].iprobe(0, &from(1, 9)).unwrap().is_none());
            }
            job.sim.step();
            job.ranks[1].poll(1).unwrap();
        }
        job.finish(0, send);
        job.finish(1, Some(receive));
        assert_eq!(room, data);
        job.check_ended();
    }
}

/// The same for polls of a single VCI, such as tests of a request.
#[test]
fn polling_one_vci_makes_progress_on_others() {
    let config = SimConfig {
        get: Get::Unsupported,
        ..SimConfig::default()
    };
    let job = Job::new(
        1,
        config,
        Setup {
            vcis: 2,
            ..Setup::new(2)
        },
    );
    let (mut data, mut room) = (vec![7; 50_000], vec![0; 50_000]);
    let there = Destination {
        vci: 1,
        ..to(0, 1, 0)
    };
    let send = job.ranks[0]
        .isend(1, &there, buffer(&mut data), Mode::Standard)
        .unwrap();
    let receive = job.ranks[1]
        .irecv(1, &from(0, 0), buffer(&mut room))
        .unwrap();
    for _ in 0..10_000 {
        job.ranks[0].poll(0).unwrap();
        job.sim.step();
        job.ranks[1].poll(0).unwrap();
    }
    job.finish(0, send);
    job.finish(1, Some(receive));
    job.check_ended();
}

/// Invariant: a receiver buffers at most the window of a stream, and a sender beyond it falls back
/// to rendezvous. Once the messages are received, eager sends continue.
#[test]
fn a_fast_sender_cannot_exhaust_a_slow_receiver() {
    for get in [Get::Immediate, Get::Unsupported] {
        let setup = Setup {
            window: 4500, // room for 12 such messages
            ..Setup::new(2)
        };
        let job = Job::new(
            1,
            SimConfig {
                get,
                ..SimConfig::default()
            },
            setup,
        );
        let mut data = vec![[0u8; 100]; 200];
        for (i, data) in data.iter_mut().enumerate() {
            data.fill(i as u8);
        }
        for round in 0..3 {
            let sends: Vec<_> = data
                .iter_mut()
                .map(|data| job.send(0, 1, 0, data))
                .collect();
            job.settle();
            let counters = job.ranks[1].counters(0).unwrap();
            assert!(counters.unexpected_bytes_peak <= 4500, "{counters:?}");
            let mut rooms = vec![[255u8; 100]; 200];
            let receives: Vec<_> = rooms
                .iter_mut()
                .map(|room| job.receive(1, 0, ANY_TAG, room))
                .collect();
            job.settle();
            sends.into_iter().for_each(|id| job.finish(0, id));
            receives.into_iter().for_each(|id| job.finish(1, Some(id)));
            assert_eq!(rooms, data);
            let eager = job.ranks[0].counters(0).unwrap().eager_sent;
            assert!(eager >= 12 * (round + 1), "credit came back: {eager}");
        }
        job.check_ended();
    }
}

/// Invariant: cancel either cancels or completes, never both, in any order of events.
#[test]
fn a_cancelled_send_is_given_back_or_received() {
    for (len, get) in [
        (10, Get::Immediate),
        (2000, Get::Immediate),
        (2000, Get::Unsupported),
    ] {
        for cancel_first in [true, false] {
            let config = SimConfig {
                get,
                ..SimConfig::default()
            };
            let job = Job::new(1, config, Setup::new(2));
            let (mut data, mut room) = (vec![7; len], vec![0; len]);
            let send = job
                .send_mode(0, 1, 0, &mut data, Mode::Synchronous)
                .unwrap();
            let mut receive = None;
            if cancel_first {
                // The message is in the unexpected queue when the sender asks, twice.
                job.settle();
                job.ranks[0].cancel(send).unwrap();
                job.ranks[0].cancel(send).unwrap();
                job.settle();
                receive = Some(job.receive(1, 0, 0, &mut room));
            } else {
                // The message is matched when the sender asks.
                job.ranks[0].cancel(send).unwrap();
                receive.replace(job.receive(1, 0, 0, &mut room));
                job.settle();
            }
            job.settle();
            assert!(job.done(0, send));
            let (status, _) = job.ranks[0].finish(send).unwrap();
            let receive = receive.unwrap();
            assert_eq!(
                (status.is_cancelled(), job.done(1, receive)),
                (cancel_first, !cancel_first)
            );
            job.ranks[1].cancel(receive).unwrap();
            assert_eq!(
                job.ranks[1].finish(receive).unwrap().0.is_cancelled(),
                cancel_first
            );
            assert_eq!(room, vec![if cancel_first { 0 } else { 7 }; len]);
            job.check_ended();
        }
    }
}

/// Invariant: non-overtaking, also when only some messages find space, and when eager and
/// rendezvous messages alternate.
#[test]
fn messages_do_not_overtake_each_other_without_space() {
    for seed in 0..50 {
        let config = SimConfig {
            depth: 2,
            again: 40,
            ..SimConfig::default()
        };
        let job = Job::new(
            seed,
            config,
            Setup {
                window: 1500,
                ..Setup::new(2)
            },
        );
        let mut data: Vec<Vec<u8>> = (0..40)
            .map(|i| vec![i as u8; if i % 3 == 0 { 3000 } else { 40 * (i % 11) }])
            .collect();
        let sends: Vec<_> = data
            .iter_mut()
            .map(|data| job.send(0, 1, 5, data))
            .collect();
        let mut rooms = vec![vec![255; 3000]; 40];
        let half = |job: &Job, rooms: &mut [Vec<u8>], wild| -> Vec<RequestId> {
            let tag = if wild { ANY_TAG } else { 5 };
            rooms
                .iter_mut()
                .map(|room| job.receive(1, 0, tag, room))
                .collect()
        };
        let mut receives = half(&job, &mut rooms[..20], seed % 2 == 0);
        job.settle();
        receives.extend(half(&job, &mut rooms[20..], seed % 2 == 1));
        job.settle();
        sends.into_iter().for_each(|id| job.finish(0, id));
        for ((id, room), data) in receives.into_iter().zip(&rooms).zip(&data) {
            assert_eq!(
                job.ranks[1].request(id).unwrap().status().bytes as usize,
                data.len()
            );
            job.finish(1, Some(id));
            assert!(room.starts_with(data));
        }
        job.check_ended();
    }
}

/// A truncated receive reports it, and neither its sender nor later receives are affected.
#[test]
fn a_truncated_receive_affects_no_other_operation() {
    for (len, get) in [
        (300, Get::Immediate),
        (3000, Get::Delayed),
        (3000, Get::Unsupported),
    ] {
        for late in [false, true] {
            let config = SimConfig {
                get,
                ..SimConfig::default()
            };
            let job = Job::new(1, config, Setup::new(2));
            let (mut one, mut two) = (vec![1; len], vec![2; len]);
            let (mut short, mut long) = (vec![0; 100], vec![0; len]);
            let mut receives = Vec::new();
            let post = |short: &mut [u8], long: &mut [u8]| {
                vec![
                    job.receive(1, 0, 0, &mut short[..50]),
                    job.receive(1, 0, 0, long),
                ]
            };
            if !late {
                receives = post(&mut short, &mut long);
            }
            let sends = [job.send(0, 1, 0, &mut one), job.send(0, 1, 0, &mut two)];
            job.settle();
            if late {
                receives = post(&mut short, &mut long);
                job.settle();
            }
            sends.into_iter().for_each(|id| job.finish(0, id));
            let (status, error) = job.ranks[1].finish(receives[0]).unwrap();
            assert_eq!(
                (status.bytes, error.unwrap().class()),
                (50, Class::Truncate)
            );
            job.finish(1, Some(receives[1]));
            assert!(short[..50] == [1; 50] && short[50..] == [0; 50] && long == two);
            job.check_ended();
        }
    }
}

/// `MPI_Finalize` drains: messages are sent although their requests are freed.
#[test]
fn drain_sends_queued_messages() {
    let config = SimConfig {
        depth: 1,
        poll_steps: true,
        ..SimConfig::default()
    };
    let job = Job::new(1, config, Setup::new(2));
    let mut data = vec![[3u8; 10]; 20];
    for data in &mut data {
        if let Some(id) = job.send(0, 1, 0, data) {
            job.ranks[0].detach(id).unwrap();
        }
    }
    let mut rooms = vec![[0u8; 10]; 20];
    let receives: Vec<_> = rooms
        .iter_mut()
        .map(|room| job.receive(1, 0, 0, room))
        .collect();
    std::thread::scope(|scope| {
        // Sender and receiver make progress in their own threads.
        let receiver = scope.spawn(|| {
            for id in receives {
                job.ranks[1].wait(id).unwrap();
            }
        });
        job.ranks[0].drain().unwrap();
        receiver.join().unwrap();
    });
    assert_eq!(rooms, data);
    job.check_ended();
}

/// Flow control: a process that only sends finds returned credit. Programs rely on that whose
/// receivers have taken all messages and make no further MPI call.
#[test]
fn a_process_that_only_sends_finds_its_credit() {
    let setup = Setup {
        window: 2000,
        ..Setup::new(2)
    };
    let job = Job::new(1, SimConfig::default(), setup);
    let mut data = [7u8; 100];
    for round in 0..100 {
        let mut room = [0u8; 100];
        let receive = job.receive(1, 0, 0, &mut room);
        // The first message establishes the connection.
        match job.send(0, 1, 0, &mut data) {
            Some(id) if round == 0 => job.finish(0, Some(id)),
            send => assert_eq!(send, None, "no need to wait in round {round}"),
        }
        while !job.ranks[1].request(receive).unwrap().is_done() {
            job.ranks[1].poll(0).unwrap();
            job.sim.step();
        }
        job.finish(1, Some(receive));
        // Delivers the credit, without a poll of rank 0.
        while job.sim.step().is_some() {}
    }
    assert_eq!(job.ranks[0].counters(0).unwrap().rendezvous_sent, 0);
}

/// Flow control: credit that found no space on its return is not lost. The receiver keeps less than
/// a quarter of the window at the end of a round, and the rest suffices for the next round.
#[test]
fn credit_is_not_lost_without_space() {
    let config = SimConfig {
        again: 40,
        depth: 2,
        ..SimConfig::default()
    };
    let job = Job::new(
        1,
        config,
        Setup {
            window: 2000,
            ..Setup::new(2)
        },
    );
    let mut data = vec![[1u8; 100]; 8];
    for round in 1..=50 {
        let mut rooms = vec![[0u8; 100]; 8];
        let receives: Vec<_> = rooms
            .iter_mut()
            .map(|room| job.receive(1, 0, 0, room))
            .collect();
        let sends: Vec<_> = data
            .iter_mut()
            .map(|data| job.send(0, 1, 0, data))
            .collect();
        job.settle();
        sends.into_iter().for_each(|id| job.finish(0, id));
        receives.into_iter().for_each(|id| job.finish(1, Some(id)));
        let counters = job.ranks[0].counters(0).unwrap();
        assert_eq!(
            (counters.eager_sent, counters.rendezvous_sent),
            (8 * round, 0)
        );
    }
    job.check_ended();
}

/// The failure of a peer ends all operations with it, in any state, with an error; others continue.
/// Sends that could not leave leave nothing exposed.
#[test]
fn a_lost_peer_is_reported() {
    for at in [0, 500, 1500, 2500, 3500] {
        let config = SimConfig {
            get: Get::Delayed,
            ..SimConfig::default()
        };
        let job = Job::new(1, config, Setup::new(3));
        let (mut data, mut room) = (vec![1; 2000], vec![0; 2000]);
        let send = job.send(1, 0, 0, &mut data);
        let receive = job.receive(0, 1, 0, &mut room);
        let mut rooms = vec![vec![0; 10]; 4];
        let [posted, any, other, late] = &mut rooms[..] else {
            unreachable!("there are four")
        };
        let posted = job.receive(0, 1, 7, posted);
        let any = job.receive(0, ANY_SOURCE, 8, any);
        let other = job.receive(0, 2, 9, other);
        job.sim.lose(1, at);
        for _ in 0..100 {
            job.sim.step();
            assert!(job.ranks[0].poll(0).is_ok());
            assert!(
                job.ranks[2].poll(0).is_ok(),
                "it has nothing to do with the lost peer"
            );
            let _ = job.ranks[1].poll(0);
        }
        // After an early failure the message never came: the data is whole or the receive failed.
        assert!(job.done(0, receive), "lost at {at} ns");
        if job.ranks[0].finish(receive).unwrap().1.is_none() {
            assert_eq!(room, data);
        }
        let failed = |id, what: &str| {
            assert!(job.done(0, id), "{what}, lost at {at} ns");
            let error = job.ranks[0].finish(id).unwrap().1.expect(what);
            assert_eq!(error.class(), Class::ProcFailed, "{what}: {error}");
        };
        failed(posted, "posted");
        failed(any, "from any");
        failed(job.receive(0, 1, 7, late), "posted after the loss");
        let error = job.ranks[0].iprobe(0, &from(1, 9)).unwrap_err();
        assert_eq!(error.class(), Class::ProcFailed);
        assert!(job.ranks[0].iprobe(0, &from(2, 99)).unwrap().is_none());
        assert_eq!(
            job.ranks[0].first_loss().unwrap().class(),
            Class::ProcFailed
        );
        // Others are not disturbed.
        assert!(!job.done(0, other));
        let mut word = vec![5; 10];
        let _ = job.send(2, 0, 9, &mut word);
        for _ in 0..100 {
            job.sim.step();
            job.ranks.iter().for_each(|rank| drop(rank.poll(0)));
        }
        assert!(job.done(0, other));
        assert!(job.ranks[0].finish(other).unwrap().1.is_none());
        let mut lost = [1u8; 10];
        let to = to(0, 1, 0);
        let error = job.ranks[0].isend(0, &to, buffer(&mut lost), Mode::Standard);
        match error {
            Err(error) => assert_eq!(error.class(), Class::ProcFailed),
            Ok(Some(id)) => assert!(job.done(0, id)),
            Ok(None) => panic!("sent to a process that is lost"),
        }
        let _ = send;
        // The buffers of a failed process have no defined content; they stay until the end.
        drop(job);
    }
}
