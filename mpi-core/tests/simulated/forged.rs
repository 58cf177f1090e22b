//! Invalid messages: stale ones, to another addressee, for another role, with random words.
//!
//! One process is real; its peers are bare lanes of the transport, by which the test sends any
//! message.

use mpi_core::process::{Destination, Mode, Source};
use mpi_core::{Class, Process, RequestId};
use netmod::{Header, Lane, LaneError, Peer, Sink, Token};
use netmod_sim::{Get, Rng, SimConfig};

use crate::job::{Job, Setup, for_seeds};
use crate::memory::Memory;

const CONTEXT: u64 = 4;

const EAGER: u64 = 1;
const EAGER_SYNC: u64 = 2;
const RTS: u64 = 3;
const ACK: u64 = 4;
const CTS: u64 = 5;
const DATA: u64 = 6;
const FIN: u64 = 7;
const CANCEL: u64 = 8;
const CANCEL_REPLY: u64 = 9;
const LOST: u64 = 11;

/// An arrived message: header and payload.
type Letter = ([u64; 3], Vec<u8>);

#[derive(Default)]
struct Letters(Vec<Letter>);

impl Sink for Letters {
    fn message(&mut self, _from: Peer, header: &Header, payload: &[u8]) {
        self.0.push((header.0, payload.to_vec()));
    }
    fn complete(&mut self, _token: Token, _result: Result<(), LaneError>) {}
    fn peer_lost(&mut self, _peer: Peer, _why: String) {}
}

/// A peer without a process.
struct Forger {
    lane: Box<dyn Lane>,
}

impl Forger {
    fn new(job: &Job, peer: Peer) -> Forger {
        let lane = job.sim.transport(peer).open_lane(0).unwrap();
        Forger { lane }
    }

    /// Sends to VCI 0 of the real process, as if from VCI `vci`.
    fn send_as(&mut self, vci: u64, kind: u64, words: [u64; 2], payload: &[u8]) {
        let header = Header([words[0], words[1], kind | vci << 16]);
        self.lane
            .send(0, 0, &header, netmod::Payload::Bytes(payload))
            .unwrap();
    }

    fn send(&mut self, kind: u64, words: [u64; 2], payload: &[u8]) {
        self.send_as(0, kind, words, payload);
    }

    fn letters(&mut self) -> Vec<Letter> {
        let mut letters = Letters::default();
        while self.lane.poll(&mut letters, 64) {}
        letters.0
    }

    /// Returns the only arrived message of a kind.
    fn letter(&mut self, kind: u64) -> Letter {
        let mut letters = self.letters();
        letters.retain(|letter| letter.0[2] & 0xff == kind);
        assert_eq!(letters.len(), 1);
        letters.remove(0)
    }
}

struct Stage {
    job: Job,
    peers: Vec<Forger>,
}

impl Stage {
    /// Creates process 0, and peers 1, 2 and 3.
    fn new(seed: u64) -> Stage {
        let config = SimConfig {
            get: Get::Unsupported,
            ..SimConfig::default()
        };
        let setup = Setup {
            window: 1 << 16,
            ..Setup::new(1)
        };
        let job = Job::new(seed, config, setup);
        let peers = (0..4).map(|peer| Forger::new(&job, peer.max(1))).collect();
        Stage { job, peers }
    }

    fn real(&self) -> &Process {
        &self.job.ranks[0]
    }

    fn done(&self, id: RequestId) -> bool {
        self.job.settle();
        self.real().request(id).unwrap().is_done()
    }

    /// Returns the error class of a complete request.
    fn class(&self, id: RequestId) -> Option<Class> {
        assert!(self.done(id));
        self.real().finish(id).unwrap().1.map(|error| error.class())
    }

    fn isend(&self, peer: Peer, tag: i32, memory: &mut Memory, mode: Mode) -> RequestId {
        let to = Destination {
            peer,
            vci: 0,
            context: CONTEXT,
            rank: 0,
            tag,
            owner: 0,
        };
        let sent = self.real().isend(0, &to, memory.lend(), mode).unwrap();
        self.job.settle();
        sent.expect("a send that has to wait")
    }

    fn irecv(&self, peer: Peer, tag: i32, memory: &mut Memory) -> RequestId {
        let from = Source {
            context: CONTEXT,
            rank: peer as i32,
            tag,
            owner: 0,
            peer,
        };
        self.real().irecv(0, &from, memory.lend()).unwrap()
    }
}

fn key(peer: Peer, tag: i32) -> [u64; 2] {
    [CONTEXT, u64::from(peer) | (tag as u64) << 32]
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Returns the name in a ready-to-send message.
fn name_in(rts: &Letter) -> u64 {
    u64::from_ne_bytes(rts.1[8..16].try_into().unwrap()) & !(3 << 62)
}

/// Returns names of the same request with other generations.
fn aged(name: u64) -> [u64; 4] {
    let one = 1 << 25;
    [name - one, name + one, name & (one - 1), name | 1 << 62]
}

/// Only the receiver's answer to this send completes it.
#[test]
fn a_send_is_ended_by_its_own_answer_only() {
    let mut stage = Stage::new(1);
    let (mut long, mut short) = (Memory::new(&[7; 3000], false), Memory::new(&[8; 10], false));
    let offered = stage.isend(1, 5, &mut long, Mode::Standard);
    let name = name_in(&stage.peers[1].letter(RTS));
    let sync = stage.isend(1, 6, &mut short, Mode::Synchronous);
    let letter = stage.peers[1].letter(EAGER_SYNC);
    let sync_name = u64::from_ne_bytes(letter.1[..8].try_into().unwrap());
    assert_ne!(name, sync_name);
    let all = words(&[3000]);
    // From other peers, with other generations, from another VCI of the same peer, of other kinds.
    for right in [name, sync_name] {
        for kind in [ACK, CTS, DATA, FIN, CANCEL_REPLY] {
            stage.peers[2].send(kind, [right, 1], &all);
            stage.peers[1].send_as(3, kind, [right, 1], &all);
            for wrong in aged(right) {
                stage.peers[1].send(kind, [wrong, 1], &all);
            }
        }
    }
    for (right, kinds) in [
        (name, [ACK, DATA, CANCEL_REPLY]),
        (sync_name, [FIN, DATA, CTS]),
    ] {
        for kind in kinds {
            stage.peers[1].send(kind, [right, 1], &all);
        }
    }
    assert!(!stage.done(offered) && !stage.done(sync));
    // No chunk of the data was sent.
    assert_eq!(stage.peers[1].letters(), []);
    stage.peers[1].send(FIN, [name, 0], &[]);
    stage.peers[1].send(ACK, [sync_name, 0], &[]);
    assert_eq!(stage.class(offered), None);
    assert_eq!(stage.class(sync), None);
    // Again after both are complete, when their numbers may be in other use.
    let again = stage.isend(1, 5, &mut long, Mode::Standard);
    for kind in [ACK, CTS, DATA, FIN, CANCEL_REPLY] {
        stage.peers[1].send(kind, [name, 1], &all);
        stage.peers[1].send(kind, [sync_name, 1], &all);
    }
    assert!(!stage.done(again));
}

/// A receiver that asks for more than there is counts as failed.
#[test]
fn no_more_is_sent_than_there_is() {
    for (len, ends) in [(3001, true), (u64::MAX, true), (0, false), (2999, false)] {
        let mut stage = Stage::new(1);
        let mut data = Memory::new(&[7; 3000], len % 2 == 0);
        let send = stage.isend(1, 5, &mut data, Mode::Standard);
        let name = name_in(&stage.peers[1].letter(RTS));
        stage.peers[1].send(CTS, [name, 77], &words(&[len]));
        let class = stage.class(send);
        assert_eq!(class, ends.then_some(Class::ProcFailed), "{len} bytes");
        let sent = stage.peers[1].letters();
        let pieces = sent.iter().filter(|letter| letter.0[2] & 0xff == DATA);
        let bytes: usize = pieces.map(|piece| piece.1.len()).sum();
        assert_eq!(bytes as u64, if ends { 0 } else { len });
    }
}

/// Data is written only into its receive's buffer, and in order.
#[test]
fn chunks_that_do_not_fit_are_refused() {
    let piece = vec![9; 100];
    // Offset in the next chunk, and its length.
    for (place, len) in [(0, 100), (99, 100), (101, 1), (u64::MAX, 1), (100, 0)] {
        for gaps in [false, true] {
            let mut stage = Stage::new(1);
            let mut room = Memory::new(&[0; 150], gaps);
            let receive = stage.irecv(1, 5, &mut room);
            stage.peers[1].send(RTS, key(1, 5), &words(&[150, 1234, 0, 0, 0]));
            stage.job.settle();
            let cts = stage.peers[1].letter(CTS);
            assert_eq!((cts.0[0], &cts.1[..8]), (1234, &words(&[150])[..]));
            let name = cts.0[1];
            // From another peer, and with another generation.
            stage.peers[2].send(DATA, [name, 0], &piece);
            stage.peers[1].send(DATA, [aged(name)[1], 0], &piece);
            stage.peers[1].send(FIN, [name, 0], &[]);
            stage.peers[1].send(CTS, [name, 0], &words(&[10]));
            assert!(!stage.done(receive));
            assert_eq!(room.data(), [0; 150]);
            stage.peers[1].send(DATA, [name, 0], &piece);
            assert!(!stage.done(receive));
            stage.peers[1].send(DATA, [name, place], &piece[..len]);
            assert_eq!(stage.class(receive), Some(Class::ProcFailed));
            assert!(room.is_sound());
            assert_eq!(room.data()[100..], [0; 50]);
        }
    }
}

/// A process was taken for failed although it runs: its later messages have no effect, nor have its
/// reports about others.
#[test]
fn messages_of_a_peer_taken_for_lost_are_harmless() {
    let mut stage = Stage::new(1);
    let mut data = Memory::new(&[7; 3000], false);
    let mut room = Memory::new(&[0; 3000], false);
    let (send, receive) = (
        stage.isend(1, 5, &mut data, Mode::Standard),
        stage.irecv(1, 6, &mut room),
    );
    let old_send = name_in(&stage.peers[1].letter(RTS));
    stage.peers[1].send(RTS, key(1, 6), &words(&[3000, 1234, 0, 0, 0]));
    stage.job.settle();
    let old_receive = stage.peers[1].letter(CTS).0[1];
    stage.peers[3].send(LOST, [0, 1], &[]);
    assert_eq!(stage.class(send), Some(Class::ProcFailed));
    assert_eq!(stage.class(receive), Some(Class::ProcFailed));

    // The numbers are reused for another peer.
    let mut room = Memory::new(&[0; 3000], false);
    let send = stage.isend(2, 5, &mut data, Mode::Standard);
    let name = name_in(&stage.peers[2].letter(RTS));
    let receive = stage.irecv(2, 6, &mut room);
    stage.peers[2].send(RTS, key(2, 6), &words(&[3000, 4321, 0, 0, 0]));
    stage.job.settle();
    let new_receive = stage.peers[2].letter(CTS).0[1];
    let number = |name| name & ((1 << 25) - 1);
    let numbers = [old_send, old_receive].map(number);
    assert!(numbers.contains(&number(name)) && numbers.contains(&number(new_receive)));

    stage.peers[1].send(LOST, [0, 2], &[]);
    for old in [old_send, old_receive] {
        stage.peers[1].send(CTS, [old, 1234], &words(&[3000]));
        stage.peers[1].send(DATA, [old, 0], &[1; 1000]);
        stage.peers[1].send(ACK, [old, 0], &[]);
        stage.peers[1].send(FIN, [old, 0], &[]);
        stage.peers[1].send(CANCEL_REPLY, [old, 1], &[]);
    }
    assert!(!stage.done(send) && !stage.done(receive));
    for place in [0, 1000, 2000] {
        stage.peers[2].send(DATA, [new_receive, place], &[2; 1000]);
    }
    assert_eq!(stage.class(receive), None);
    assert_eq!(room.data(), [2; 3000]);
    stage.peers[2].send(FIN, [name, 0], &[]);
    assert_eq!(stage.class(send), None);
}

/// Random messages of every kind, half of them with valid names of another peer's requests.
#[test]
fn random_messages_have_no_effect() {
    for_seeds(300, |seed| {
        let mut rng = Rng::new(seed);
        let mut stage = Stage::new(seed);
        let mut long = Memory::new(&[7; 3000], rng.chance(50));
        let mut short = Memory::new(&[8; 10], false);
        let mut room = Memory::new(&[0; 3000], rng.chance(50));
        let mut unmatched = Memory::new(&[0; 100], rng.chance(50));
        let send = stage.isend(3, 5, &mut long, Mode::Standard);
        let offered = name_in(&stage.peers[3].letter(RTS));
        let sync = stage.isend(3, 6, &mut short, Mode::Synchronous);
        let letter = stage.peers[3].letter(EAGER_SYNC);
        let awaited = u64::from_ne_bytes(letter.1[..8].try_into().unwrap());
        let receive = stage.irecv(3, 7, &mut room);
        stage.peers[3].send(RTS, key(3, 7), &words(&[3000, 1234, 0, 0, 0]));
        stage.job.settle();
        let asked = stage.peers[3].letter(CTS).0[1];
        let posted = stage.irecv(3, 8, &mut unmatched);
        let requests = [send, sync, receive, posted];

        for _ in 0..200 {
            let kind = 1 + rng.below(12);
            let name = rng.pick(&[offered, awaited, asked]);
            let word = |rng: &mut Rng| match rng.below(4) {
                0 => name,
                1 => rng.number() % 5000,
                2 => u64::MAX - rng.number() % 3,
                _ => rng.number(),
            };
            let mut header = [word(&mut rng), word(&mut rng)];
            if kind == LOST && rng.chance(90) {
                continue;
            }
            if [EAGER, EAGER_SYNC, RTS, CANCEL].contains(&kind) && rng.chance(50) {
                // A context in use, but with no key of the receives.
                header = key(1, 5 + rng.below(5) as i32);
            }
            // Peer 3 itself is alive.
            if kind == LOST && header[1] == 3 {
                continue;
            }
            let mut payload = vec![0; rng.index(80)];
            for byte in &mut payload {
                *byte = rng.number() as u8;
            }
            if rng.chance(70) {
                let many = rng.index(6);
                payload = (0..many)
                    .flat_map(|_| word(&mut rng).to_ne_bytes())
                    .collect();
            } else if kind == RTS {
                payload.truncate(39);
            }
            // Never a remote key, which would name memory that is not exposed.
            if let Some(byte) = payload.get_mut(15).filter(|_| kind == RTS) {
                *byte &= 0x7f;
            }
            let peer = 1 + rng.index(2);
            let vci = if rng.chance(90) { 0 } else { rng.below(4) };
            stage.peers[peer].send_as(vci, kind, header, &payload);
            if rng.chance(20) {
                stage.job.settle();
            }
        }
        stage.job.settle();
        for id in requests {
            assert!(!stage.done(id));
        }
        for memory in [&room, &unmatched, &long, &short] {
            assert!(memory.is_sound());
        }
        assert_eq!(
            (room.data(), unmatched.data()),
            (vec![0; 3000], vec![0; 100])
        );
        assert!(stage.real().counters(0).unwrap().unexpected_bytes < 200 * 80);

        // The operations complete as if nothing had happened.
        stage.peers[3].send(FIN, [offered, 0], &[]);
        stage.peers[3].send(ACK, [awaited, 0], &[]);
        for place in [0, 1000, 2000] {
            stage.peers[3].send(DATA, [asked, place], &[2; 1000]);
        }
        stage.peers[3].send(EAGER, key(3, 8), &[3; 100]);
        for id in requests {
            assert_eq!(stage.class(id), None);
        }
        assert_eq!(
            (room.data(), unmatched.data()),
            (vec![2; 3000], vec![3; 100])
        );
    });
}
