//! Encrypted connections, through a proxy that listens in, changes bits and cuts.

mod common;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use common::{LIMIT, Node, Random, hello, nodes_with, poll_until};
use netmod::{Header, LaneError, Payload};

/// Bytes of the handshake from and to the process that connects.
const HANDSHAKE: [usize; 2] = [85, 72];

const MARKER: &[u8] = b"a marker that no key has by chance";

/// What the proxy does to the bytes of a direction (0: from the process that connects).
#[derive(Clone, Copy, Debug)]
enum Attack {
    /// Changes a bit of a byte.
    Flip(usize, usize, u32),
    /// Ends the stream after so many records.
    Cut(usize, usize),
}

/// What went in each direction.
type Capture = Arc<Mutex<[Vec<u8>; 2]>>;

fn encrypting(name: &str) -> Option<String> {
    (name == "WEFT_TCP_ENCRYPT").then(|| "1".to_string())
}

fn plain(_: &str) -> Option<String> {
    None
}

/// Returns where the record with this number begins in what went in a direction, if that is known.
fn record(bytes: &[u8], way: usize, number: usize) -> Option<usize> {
    (0..number).try_fold(HANDSHAKE[way], |at, _| {
        let len = u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?);
        let end = at + 4 + usize::from(len) + 16;
        (end <= bytes.len()).then_some(end)
    })
}

fn forward(
    mut from: TcpStream,
    mut to: TcpStream,
    way: usize,
    attack: Option<Attack>,
    log: Capture,
) {
    let mut buffer = [0; 4096];
    let mut before = 0;
    let mut is_cut = false;
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let mut bytes = &mut buffer[..count];
        let mut log = log.lock().unwrap();
        match attack {
            Some(Attack::Flip(direction, at, bit))
                if direction == way && (before..before + count).contains(&at) =>
            {
                bytes[at - before] ^= 1 << bit;
            }
            Some(Attack::Cut(direction, number)) if direction == way => {
                let all = [&log[way], &*bytes].concat();
                if let Some(end) = record(&all, way, number).filter(|end| *end <= all.len()) {
                    bytes = &mut bytes[..end - before];
                    is_cut = true;
                }
            }
            _ => {}
        }
        before += count;
        log[way].extend_from_slice(bytes);
        drop(log);
        if to.write_all(bytes).is_err() || is_cut {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

/// Places a proxy before VCI 0 of `node`, for all who ask the directory.
fn proxy(node: &Node, attack: Option<Attack>) -> Capture {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut addresses = node.directory.0.lock().unwrap();
    let record = addresses.get_mut(&(node.peer, 0)).unwrap();
    record[33..35].copy_from_slice(&port.to_le_bytes());
    let target = node.port();
    let log = Capture::default();
    let all = log.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let near = stream.unwrap();
            let far = TcpStream::connect((Ipv4Addr::LOCALHOST, target)).unwrap();
            let ends = [(&near, &far), (&far, &near)];
            for (way, (from, to)) in ends.into_iter().enumerate() {
                let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                let log = log.clone();
                std::thread::spawn(move || forward(from, to, way, attack, log));
            }
        }
    });
    all
}

/// Sends `messages` from node 0 to node 1 and back. Ends when all have arrived, or with the loss
/// that one of them has seen.
fn exchange(nodes: &mut [Node], messages: &[Vec<u8>]) -> Option<String> {
    let peers = [nodes[0].peer, nodes[1].peer];
    let start = Instant::now();
    let mut sent = [0, 0];
    loop {
        for from in [0, 1] {
            let next = sent[from];
            // Node 1 answers, so that node 0 connects.
            let ready = from == 0 || next < nodes[1].sinks[0].messages.len();
            if ready && next < messages.len() {
                let payload = Payload::Bytes(&messages[next]);
                let header = Header([next as u64; 3]);
                match nodes[from].lanes[0].send(peers[1 - from], 0, &header, payload) {
                    Ok(_) => sent[from] += 1,
                    Err(LaneError::Again) => {}
                    Err(error) => return Some(error.to_string()),
                }
            }
        }
        for node in nodes.iter_mut() {
            node.poll();
        }
        for (at, node) in nodes.iter().enumerate() {
            let got = &node.sinks[0].messages;
            for (place, (from, header, payload)) in got.iter().enumerate() {
                assert_eq!(*from, peers[1 - at]);
                assert_eq!(*header, Header([place as u64; 3]));
                assert!(*payload == messages[place], "message {place} was changed");
            }
            if let Some((peer, why)) = node.sinks[0].lost.first() {
                assert_eq!(*peer, peers[1 - at]);
                return Some(why.clone());
            }
        }
        let done = |node: &Node| node.sinks[0].messages.len() == messages.len();
        if nodes.iter().all(done) {
            return None;
        }
        assert!(start.elapsed() < LIMIT, "neither data nor a loss");
        std::thread::yield_now();
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn a_listener_between_reads_plain_connections_and_no_encrypted_ones() {
    for (lookup, is_read) in [(plain as fn(&str) -> _, true), (encrypting, false)] {
        let mut nodes = nodes_with(2, 1, lookup);
        let log = proxy(&nodes[1], None);
        let messages = [b"short", MARKER, &[7; 60_000]].map(<[u8]>::to_vec);
        assert_eq!(exchange(&mut nodes, &messages), None);
        let log = log.lock().unwrap();
        for way in 0..2 {
            assert!(log[way].len() > HANDSHAKE[way] + 60_000);
            assert_eq!(contains(&log[way], MARKER), is_read);
            assert_eq!(contains(&log[way], &[7; 32]), is_read);
        }
    }
}

/// Each bit of a record counts: head, content and tag.
#[test]
fn a_changed_bit_is_a_loss_and_never_data() {
    let mut random = Random::new();
    let messages: Vec<Vec<u8>> = (0..20).map(|at| vec![at; 40 + 997 * at as usize]).collect();
    let mut flips: Vec<Attack> = (0..40)
        .map(|at| Attack::Flip(at % 2, HANDSHAKE[at % 2] + at / 2, at as u32 % 8))
        .collect();
    flips.extend((0..60).map(|_| {
        let way = random.below(2);
        let at = HANDSHAKE[way] + random.below(150_000);
        Attack::Flip(way, at, random.below(8) as u32)
    }));
    for flip in flips {
        let mut nodes = nodes_with(2, 1, encrypting);
        proxy(&nodes[1], Some(flip));
        let why = exchange(&mut nodes, &messages);
        let why = why.unwrap_or_else(|| panic!("{flip:?} was not noticed"));
        let expected = "was changed or forged on the network";
        assert!(why.contains(expected), "{flip:?}: {why}");
    }
}

/// An attacker can end a connection between two records. That is a loss, and no end of the data.
#[test]
fn a_cut_between_records_is_a_loss() {
    let messages: Vec<Vec<u8>> = (0..20).map(|at| vec![at; 40 + 997 * at as usize]).collect();
    for cut in (0..8).map(|at| Attack::Cut(at % 2, at / 2)) {
        let mut nodes = nodes_with(2, 1, encrypting);
        let log = proxy(&nodes[1], Some(cut));
        let why = exchange(&mut nodes, &messages).unwrap_or_else(|| panic!("{cut:?}"));
        assert!(
            why.contains("its TCP connection was closed"),
            "{cut:?}: {why}"
        );
        let Attack::Cut(way, number) = cut else {
            unreachable!()
        };
        let log = log.lock().unwrap();
        assert_eq!(record(&log[way], way, number), Some(log[way].len()));
    }
}

/// Both kinds of connections prove the same secret. An attacker who takes the encryption out of a
/// hello, or puts it in, gets no proof from the process that it leads to.
#[test]
fn a_process_answers_hellos_of_its_own_kind_only() {
    for (lookup, label) in [
        (encrypting as fn(&str) -> _, b"WeftTCP\x02"),
        (plain, b"WeftTCE\x01"),
    ] {
        let mut nodes = nodes_with(2, 1, lookup);
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, nodes[1].port())).unwrap();
        let mut said = hello(nodes[0].peer, nodes[1].peer);
        said[..8].copy_from_slice(label);
        stream.write_all(&said).unwrap();
        let mut answer = Vec::new();
        stream.set_nonblocking(true).unwrap();
        poll_until(
            &mut nodes,
            "the end of the connection",
            |_| !matches!(stream.read_to_end(&mut answer), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock),
        );
        assert_eq!(answer, []);
    }
}

/// What was recorded on one connection is nothing on another.
#[test]
fn a_recorded_connection_cannot_be_repeated() {
    let mut nodes = nodes_with(2, 1, encrypting);
    let log = proxy(&nodes[1], None);
    assert_eq!(exchange(&mut nodes, &[MARKER.to_vec()]), None);
    let recorded = log.lock().unwrap()[0].clone();
    let mut again = nodes_with(2, 1, encrypting);
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, again[1].port())).unwrap();
    stream.write_all(&recorded).unwrap();
    let mut answer = Vec::new();
    stream.set_nonblocking(true).unwrap();
    poll_until(
        &mut again,
        "the end of the connection",
        |_| !matches!(stream.read_to_end(&mut answer), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock),
    );
    assert!(again[1].sinks[0].messages.is_empty());
}

#[test]
fn both_ends_must_encrypt_or_neither() {
    for (first, why) in [
        (0, "connections are encrypted"),
        (1, "connections are unencrypted"),
    ] {
        let config = |peer: u32, encrypts: bool| {
            let value = |name: &str| encrypting(name).filter(|_| encrypts);
            let variables = netmod_kit::variables::Reader::new(&value);
            let mut config = netmod_tcp::Config::read(peer, &variables).unwrap();
            config.set_interfaces("lo").unwrap();
            config
        };
        let directory = Arc::new(common::Directory::default());
        let open = |peer| Node::open(config(peer, peer == 1), directory.clone(), 1).unwrap();
        let mut nodes = [open(0), open(1)];
        if first == 1 {
            nodes.reverse();
        }
        let lost = exchange(&mut nodes, &[MARKER.to_vec()]).expect("a refusal");
        assert!(
            lost.contains(why) && lost.contains("WEFT_TCP_ENCRYPT"),
            "{lost}"
        );
    }
}
