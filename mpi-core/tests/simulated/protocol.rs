//! Single points of the protocol, each with the invariant or the rule of the standard it checks.

use mpi_core::process::{Destination, Mode, Source};
use mpi_core::{ANY_SOURCE, ANY_TAG, Buffer, Class, RequestId};
use netmod_sim::{Get, SimConfig};

use crate::job::{Job, Setup};

const CONTEXT: u64 = 4;

fn to(from: u32, peer: u32, tag: i32) -> Destination {
    Destination { peer, vci: 0, context: CONTEXT, rank: from as i32, tag, owner: 0 }
}

fn from(rank: i32, tag: i32) -> Source {
    Source { context: CONTEXT, rank, tag, owner: 0 }
}

fn buffer(bytes: &mut [u8]) -> Buffer {
    // SAFETY: the tests keep their memory until the job has ended.
    unsafe { Buffer::bytes(bytes.as_mut_ptr(), bytes.len()) }
}

impl Job {
    fn send(&self, rank: u32, peer: u32, tag: i32, data: &mut [u8]) -> Option<RequestId> {
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
        self.ranks[rank as usize].isend(0, &to(rank, peer, tag), buffer(data), mode).unwrap()
    }

    fn receive(&self, rank: u32, source: i32, tag: i32, room: &mut [u8]) -> RequestId {
        self.ranks[rank as usize].irecv(0, &from(source, tag), buffer(room)).unwrap()
    }

    fn done(&self, rank: u32, id: RequestId) -> bool {
        self.ranks[rank as usize].request(id).unwrap().is_done()
    }

    fn finish(&self, rank: u32, id: Option<RequestId>) {
        if let Some(id) = id {
            assert!(self.done(rank, id));
            let (status, error) = self.ranks[rank as usize].finish(id).unwrap();
            assert!(!status.cancelled && error.is_none());
        }
    }
}

/// Invariant: a receiver holds at most the window of a stream, and a sender that goes on sending
/// falls back on rendezvous. Once received, everything flows again.
#[test]
fn a_fast_sender_cannot_exhaust_a_slow_receiver() {
    for get in [Get::Immediate, Get::Unsupported] {
        let setup = Setup { window: 2000, ..Setup::new(2) };
        let job = Job::new(1, SimConfig { get, ..SimConfig::default() }, setup);
        let mut data = vec![[0u8; 100]; 200];
        for (i, data) in data.iter_mut().enumerate() {
            data.fill(i as u8);
        }
        for round in 0..3 {
            let sends: Vec<_> = data.iter_mut().map(|data| job.send(0, 1, 0, data)).collect();
            job.settle();
            let counters = job.ranks[1].counters(0).unwrap();
            assert!(counters.unexpected_bytes_peak <= 2000, "{counters:?}");
            let mut rooms = vec![[255u8; 100]; 200];
            let receives: Vec<_> =
                rooms.iter_mut().map(|room| job.receive(1, 0, ANY_TAG, room)).collect();
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

/// Invariant: cancel either cancels or completes, never both, whoever comes first.
#[test]
fn a_cancelled_send_is_given_back_or_received() {
    for (len, get) in [(10, Get::Immediate), (2000, Get::Immediate), (2000, Get::Unsupported)] {
        for cancel_first in [true, false] {
            let config = SimConfig { get, ..SimConfig::default() };
            let job = Job::new(1, config, Setup::new(2));
            let (mut data, mut room) = (vec![7; len], vec![0; len]);
            let send = job.send_mode(0, 1, 0, &mut data, Mode::Synchronous).unwrap();
            let mut receive = None;
            if cancel_first {
                // The sender asks while the message lies unexpected at the receiver. Twice.
                job.settle();
                job.ranks[0].cancel(send).unwrap();
                job.ranks[0].cancel(send).unwrap();
                job.settle();
                receive = Some(job.receive(1, 0, 0, &mut room));
            } else {
                // The request to cancel meets a message that has been matched.
                job.ranks[0].cancel(send).unwrap();
                receive.replace(job.receive(1, 0, 0, &mut room));
                job.settle();
            }
            job.settle();
            assert!(job.done(0, send));
            let (status, _) = job.ranks[0].finish(send).unwrap();
            let receive = receive.unwrap();
            assert_eq!((status.cancelled, job.done(1, receive)), (cancel_first, !cancel_first));
            job.ranks[1].cancel(receive).unwrap();
            assert_eq!(job.ranks[1].finish(receive).unwrap().0.cancelled, cancel_first);
            assert_eq!(room, vec![if cancel_first { 0 } else { 7 }; len]);
            job.check_ended();
        }
    }
}

/// A truncated receive says so, and neither its sender nor its neighbours notice.
#[test]
fn a_truncated_receive_hurts_nobody_else() {
    for (len, get) in [(300, Get::Immediate), (3000, Get::Delayed), (3000, Get::Unsupported)] {
        for late in [false, true] {
            let config = SimConfig { get, ..SimConfig::default() };
            let job = Job::new(1, config, Setup::new(2));
            let (mut one, mut two) = (vec![1; len], vec![2; len]);
            let (mut short, mut long) = (vec![0; 100], vec![0; len]);
            let mut receives = Vec::new();
            let post = |short: &mut [u8], long: &mut [u8]| {
                vec![job.receive(1, 0, 0, &mut short[..50]), job.receive(1, 0, 0, long)]
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
            assert_eq!((status.bytes, error.unwrap().class()), (50, Class::Truncate));
            job.finish(1, Some(receives[1]));
            assert!(short[..50] == [1; 50] && short[50..] == [0; 50] && long == two);
            job.check_ended();
        }
    }
}

/// `MPI_Finalize` drains: what was sent leaves although its requests are gone.
#[test]
fn drain_sends_what_waits_for_room() {
    let config = SimConfig { depth: 1, poll_steps: true, ..SimConfig::default() };
    let job = Job::new(1, config, Setup::new(2));
    let mut data = vec![[3u8; 10]; 20];
    for data in &mut data {
        if let Some(id) = job.send(0, 1, 0, data) {
            job.ranks[0].detach(id).unwrap();
        }
    }
    let mut rooms = vec![[0u8; 10]; 20];
    let receives: Vec<_> = rooms.iter_mut().map(|room| job.receive(1, 0, 0, room)).collect();
    std::thread::scope(|scope| {
        // The receiver makes progress while the sender drains, each in its thread.
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
