//! Two transports with different peer numbers in one process, over loopback.

mod common;

use common::*;
use netmod::{
    AtomicOp, Doorbell, Header, Issued, LaneError, RemoteAddr, RemoteKey, Token, Transport,
};
use netmod_ucx::{Config, UcxTransport};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A way to run the same test.
type Way = (&'static str, fn(&mut Config));

/// Memory keys that travel with what names the memory, and keys that are asked for.
const WAYS: [Way; 2] = [
    ("short keys", |_| {}),
    ("long keys", |config| config.long_keys = true),
];

fn send_polling(nodes: &mut [Node; 2], from: usize, to: usize, header: Header, payload: &[u8]) {
    let peer = nodes[to].peer;
    poll_until(nodes, "sending", |nodes| {
        match nodes[from].lanes[0].send(peer, 0, &header, payload) {
            Ok(()) => true,
            Err(LaneError::Again) => false,
            Err(error) => panic!("{error}"),
        }
    });
}

/// Waits for what `issue` started.
fn finish(
    nodes: &mut [Node; 2],
    mut issue: impl FnMut(&mut Node, Token) -> Result<Issued, LaneError>,
) -> Result<(), LaneError> {
    let token = nodes[0].token();
    let mut issued = Err(LaneError::Again);
    poll_until(nodes, "issuing", |nodes| {
        issued = issue(&mut nodes[0], token);
        issued != Err(LaneError::Again)
    });
    if issued? == Issued::Done {
        return Ok(());
    }
    let mut result = Ok(());
    poll_until(nodes, "completing", |nodes| {
        match nodes[0].sinks[0].completed.remove(&token.0) {
            Some(found) => {
                result = found;
                true
            }
            None => false,
        }
    });
    result
}

fn flush(nodes: &mut [Node; 2]) -> Result<(), LaneError> {
    finish(nodes, |node, token| node.lanes[0].flush(8, token))
}

#[test]
fn messages_arrive_in_order_and_whole() {
    for tls in transports() {
        let mut random = Random::new();
        let mut nodes = pair(|_| {}, &tls, 1);
        let most = nodes[0].transport.limits().max_payload;
        assert!(most >= 1024);
        let sent: Vec<Vec<u8>> = (0..10_000)
            .map(|_| {
                let len = random.length(most);
                random.bytes(len)
            })
            .collect();
        let mut next = 0;
        let mut got = 0;
        poll_until(&mut nodes, "10,000 messages", |nodes| {
            while next < sent.len() {
                let header = Header([next as u64, !0, 7]);
                let payload = &sent[next];
                let result = if next % 3 == 0 {
                    nodes[0].lanes[0].send_with(8, 0, &header, payload.len(), &mut |room| {
                        room.copy_from_slice(payload)
                    })
                } else {
                    nodes[0].lanes[0].send(8, 0, &header, payload)
                };
                match result {
                    Ok(()) => next += 1,
                    Err(LaneError::Again) => break,
                    Err(error) => panic!("{error}"),
                }
            }
            for (from, header, payload) in nodes[1].sinks[0].messages.drain(..) {
                assert_eq!(from, 3);
                assert_eq!(header, Header([got as u64, !0, 7]));
                assert!(payload == sent[got], "message {got} is garbled");
                got += 1;
            }
            got == sent.len()
        });
        poll_until(&mut nodes, "draining", |nodes| nodes[0].lanes[0].drained());
    }
}

#[test]
fn what_is_gathered_keeps_its_order() {
    for tls in transports() {
        let mut random = Random::new();
        let mut nodes = pair(|config| config.send_buffers = 8, &tls, 1);
        let (mut sent, mut got, total) = (0_u64, 0_u64, 5000);
        let length = |i: u64| (i * 31 % 701) as usize;
        poll_until(&mut nodes, "all messages", |nodes| {
            // Some by themselves, as far as the lane likes, the others in a row.
            for gathering in [false, true] {
                nodes[0].lanes[0].gather(gathering);
                for _ in 0..random.below(200) {
                    let payload = vec![sent as u8; length(sent)];
                    let header = Header([sent, !sent, 5]);
                    if sent == total {
                        break;
                    }
                    match nodes[0].lanes[0].send(8, 0, &header, &payload) {
                        Ok(()) => sent += 1,
                        Err(LaneError::Again) => break,
                        Err(error) => panic!("{error}"),
                    }
                }
            }
            nodes[0].lanes[0].gather(false);
            for (from, header, payload) in nodes[1].sinks[0].messages.drain(..) {
                assert_eq!((from, header), (3, Header([got, !got, 5])));
                assert_eq!(payload, vec![got as u8; length(got)]);
                got += 1;
            }
            got == total
        });
        poll_until(&mut nodes, "draining", |nodes| nodes[0].lanes[0].drained());
    }
}

#[test]
fn too_long_messages_are_refused() {
    let mut nodes = pair(|_| {}, &transports()[0], 1);
    let long = vec![0; nodes[0].transport.limits().max_payload + 1];
    let header = Header::default();
    assert_eq!(
        nodes[0].lanes[0].send(8, 0, &header, &long),
        Err(LaneError::Unsupported)
    );
}

#[test]
fn a_receiver_that_does_not_poll_pushes_back() {
    for tls in transports() {
        let mut nodes = pair(|config| config.send_buffers = 8, &tls, 1);
        // Connect first.
        send_polling(&mut nodes, 0, 1, Header([1 << 32, 0, 0]), &[]);
        poll_until(&mut nodes, "connecting", |nodes| {
            !nodes[1].sinks[0].messages.is_empty()
        });
        nodes[1].sinks[0].messages.clear();

        let payload = vec![5; nodes[0].transport.limits().max_payload];
        let mut sent = 0_u64;
        let mut refused_since = None;
        let start = Instant::now();
        loop {
            let [sender, _] = &mut nodes;
            match sender.lanes[0].send(8, 0, &Header([sent, 0, 0]), &payload) {
                Ok(()) => {
                    sent += 1;
                    refused_since = None;
                }
                Err(LaneError::Again) => {
                    sender.poll();
                    let since = *refused_since.get_or_insert_with(Instant::now);
                    if since.elapsed() > Duration::from_millis(300) {
                        break;
                    }
                }
                Err(error) => panic!("{error}"),
            }
            assert!(start.elapsed() < LIMIT);
            assert!(
                sent < 10_000,
                "160 MB were accepted although nobody takes them"
            );
        }
        eprintln!("{tls}: {sent} messages were accepted");
        assert!(sent > 0);
        poll_until(&mut nodes, "what was accepted", |nodes| {
            nodes[1].sinks[0].messages.len() as u64 == sent
        });
        for (i, (_, header, got)) in nodes[1].sinks[0].messages.iter().enumerate() {
            assert_eq!(header.0[0], i as u64);
            assert!(*got == payload);
        }
    }
}

#[test]
fn get_and_put_move_any_size_at_any_offset() {
    for tls in transports() {
        for (name, way) in WAYS {
            for operations in [256, 4] {
                let mut random = Random::new();
                let mut nodes = pair(
                    |config| {
                        way(config);
                        config.operations = operations;
                    },
                    &tls,
                    1,
                );
                eprintln!("{name}, {operations} operations");
                let most = 8 << 20;
                let mut memory = random.bytes(most + 64);
                let mut expected = memory.clone();
                // SAFETY: `memory` outlives the nodes' work.
                let key = unsafe {
                    nodes[1]
                        .transport
                        .expose(memory.as_mut_ptr(), memory.len())
                        .unwrap()
                };
                let sizes = [
                    0,
                    1,
                    7,
                    8,
                    100,
                    4096,
                    4097,
                    16_384,
                    65_537,
                    1 << 20,
                    most - 3,
                    most,
                ];
                for len in sizes {
                    let offset = random.below(63);
                    let shift = random.below(7);
                    let remote = RemoteAddr {
                        key,
                        offset: offset as u64,
                    };
                    let mut local = vec![0xAA; len + 16];
                    let place = local.as_mut_ptr();
                    // SAFETY: `local` lives until completion.
                    finish(&mut nodes, |node, token| unsafe {
                        node.lanes[0].get(8, 0, place.add(shift), len, remote, token)
                    })
                    .unwrap();
                    assert!(local[shift..shift + len] == expected[offset..offset + len]);
                    assert!(
                        local[..shift]
                            .iter()
                            .chain(&local[shift + len..])
                            .all(|&b| b == 0xAA)
                    );

                    let data = random.bytes(len + 16);
                    // SAFETY: `data` lives until completion.
                    finish(&mut nodes, |node, token| unsafe {
                        node.lanes[0].put(8, 0, data.as_ptr().add(shift), len, remote, token)
                    })
                    .unwrap();
                    flush(&mut nodes).unwrap();
                    expected[offset..offset + len].copy_from_slice(&data[shift..shift + len]);
                    assert!(memory == expected, "put of {len} bytes at {offset}");
                }
                nodes[1].transport.withdraw(&key);
            }
        }
    }
}

#[test]
fn many_puts_and_gets_at_once() {
    for tls in transports() {
        for (_, way) in WAYS {
            let mut random = Random::new();
            let mut nodes = pair(way, &tls, 1);
            let slots = 600;
            let width = 5000;
            let mut memory = vec![0_u8; slots * width];
            // SAFETY: `memory` outlives the nodes' work.
            let key = unsafe {
                nodes[1]
                    .transport
                    .expose(memory.as_mut_ptr(), memory.len())
                    .unwrap()
            };
            let data = random.bytes(slots * width);
            let mut back = vec![0_u8; slots * width];
            for round in ["put", "get"] {
                let mut next = 0;
                let mut waiting = Vec::new();
                poll_until(&mut nodes, round, |nodes| {
                    while next < slots {
                        let remote = RemoteAddr {
                            key,
                            offset: (next * width) as u64,
                        };
                        let len = if next % 2 == 0 { width } else { 77 };
                        let token = nodes[0].token();
                        // SAFETY: both live until completion; slots don't overlap.
                        let issued = unsafe {
                            if round == "put" {
                                let local = data.as_ptr().add(next * width);
                                nodes[0].lanes[0].put(8, 0, local, len, remote, token)
                            } else {
                                let local = back.as_mut_ptr().add(next * width);
                                nodes[0].lanes[0].get(8, 0, local, len, remote, token)
                            }
                        };
                        match issued {
                            Ok(Issued::Done) => {}
                            Ok(Issued::Pending) => waiting.push(token.0),
                            Err(LaneError::Again) => break,
                            Err(error) => panic!("{error}"),
                        }
                        next += 1;
                    }
                    let completed = &mut nodes[0].sinks[0].completed;
                    waiting.retain(|token| match completed.remove(token) {
                        Some(result) => {
                            result.unwrap();
                            false
                        }
                        None => true,
                    });
                    next == slots && waiting.is_empty()
                });
                flush(&mut nodes).unwrap();
                let got = if round == "put" { &memory } else { &back };
                for slot in 0..slots {
                    let len = if slot % 2 == 0 { width } else { 77 };
                    let range = slot * width..slot * width + len;
                    assert!(got[range.clone()] == data[range], "{round} of slot {slot}");
                }
            }
        }
    }
}

fn atomic_way(ways: &[Way], provider: &str) {
    for (name, way) in ways {
        let mut nodes = pair(way, provider, 1);
        let mut words = [0_u64; 4];
        // SAFETY: `words` outlives the nodes' work.
        let key = unsafe {
            nodes[1]
                .transport
                .expose(words.as_mut_ptr().cast(), 32)
                .unwrap()
        };
        let remote = RemoteAddr { key, offset: 16 };
        let mut atomic = |op, operand, compare| {
            let mut found = !0_u64;
            let place = &raw mut found;
            // SAFETY: `found` lives until completion.
            finish(&mut nodes, |node, token| unsafe {
                node.lanes[0].atomic(8, 0, op, operand, compare, place, remote, token)
            })
            .unwrap();
            found
        };
        assert_eq!(atomic(AtomicOp::Load, 9, 9), 0, "{name}");
        assert_eq!(atomic(AtomicOp::Swap, 0xF0, 9), 0);
        assert_eq!(atomic(AtomicOp::Add, u64::MAX, 0), 0xF0);
        assert_eq!(atomic(AtomicOp::Add, 1, 0), 0xEF);
        assert_eq!(atomic(AtomicOp::And, 0x3C, 0), 0xF0);
        assert_eq!(atomic(AtomicOp::Or, 0x03, 0), 0x30);
        assert_eq!(atomic(AtomicOp::Xor, 0x11, 0), 0x33);
        assert_eq!(atomic(AtomicOp::CompareSwap, 77, 1), 0x22);
        assert_eq!(atomic(AtomicOp::CompareSwap, 1 << 63 | 5, 0x22), 0x22);
        assert_eq!(atomic(AtomicOp::Load, 0, 0), 1 << 63 | 5);
        for _ in 0..500 {
            atomic(AtomicOp::Add, 3, 0);
        }
        flush(&mut nodes).unwrap();
        // SAFETY: `words` is alive; it is read as memory that others changed.
        let now = unsafe { (&raw const words[2]).read_volatile() };
        assert_eq!(now, (1 << 63 | 5) + 1500);
    }
}

#[test]
fn atomics_return_the_value_found() {
    for tls in transports() {
        atomic_way(&WAYS, &tls);
    }
}

#[test]
fn withdrawn_memory_of_a_long_key_is_an_error() {
    let mut nodes = pair(WAYS[1].1, &transports()[0], 1);
    let mut words = [7_u64; 2];
    // SAFETY: `words` outlives the nodes' work.
    let key = unsafe {
        nodes[1]
            .transport
            .expose(words.as_mut_ptr().cast(), 16)
            .unwrap()
    };
    nodes[1].transport.withdraw(&key);
    let mut found = 0_u64;
    let place = &raw mut found;
    let bad = RemoteKey {
        address: key.address,
        words: [0, 0],
    };
    for key in [key, bad] {
        let remote = RemoteAddr { key, offset: 0 };
        // SAFETY: `found` lives until completion.
        let result = finish(&mut nodes, |node, token| unsafe {
            node.lanes[0].atomic(8, 0, AtomicOp::Swap, 1, 0, place, remote, token)
        });
        assert!(
            matches!(&result, Err(LaneError::PeerLost(lost)) if lost.peer == 8)
                || result == Err(LaneError::Unsupported),
            "{result:?}"
        );
    }
    assert_eq!(words, [7; 2]);
    // SAFETY: an empty piece is nowhere read or written.
    let empty = unsafe {
        nodes[1]
            .transport
            .expose(std::ptr::dangling_mut(), 0)
            .unwrap()
    };
    nodes[1].transport.withdraw(&empty);
}

#[test]
fn five_lanes_are_independent() {
    for tls in transports() {
        let mut random = Random::new();
        let mut nodes = pair(|config| config.send_buffers = 8, &tls, 5);
        let each = 400;
        // From lane i of both to every lane of the other, and to lane 0 of the same process.
        let mut next = [[[0_u64; 5]; 5]; 2];
        let mut next_self = [0_u64; 5];
        poll_until(&mut nodes, "all lanes", |nodes| {
            for n in 0..2 {
                let other = nodes[1 - n].peer;
                for (from, row) in next[n].iter_mut().enumerate() {
                    for (to, seq) in row.iter_mut().enumerate() {
                        if *seq == each {
                            continue;
                        }
                        let header = Header([*seq, from as u64, to as u64]);
                        let len = random.length(5000);
                        let payload = vec![from as u8; len];
                        match nodes[n].lanes[from].send(other, to as u16, &header, &payload) {
                            Ok(()) => *seq += 1,
                            Err(LaneError::Again) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
            }
            for (from, seq) in next_self.iter_mut().enumerate() {
                if *seq < each {
                    let header = Header([*seq, from as u64, 0]);
                    match nodes[0].lanes[from].send(3, 0, &header, &[from as u8]) {
                        Ok(()) => *seq += 1,
                        Err(LaneError::Again) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            }
            nodes[0].sinks[0].messages.len() as u64 == each * 10
                && nodes[0].sinks[1..]
                    .iter()
                    .all(|s| s.messages.len() as u64 == each * 5)
                && nodes[1]
                    .sinks
                    .iter()
                    .all(|s| s.messages.len() as u64 == each * 5)
        });
        for node in &nodes {
            for (vci, sink) in node.sinks.iter().enumerate() {
                let mut seen = [[0_u64; 5]; 16];
                for (peer, header, payload) in &sink.messages {
                    let [seq, from, to] = header.0;
                    assert_eq!(to, vci as u64);
                    let expected = &mut seen[*peer as usize][from as usize];
                    assert_eq!(seq, *expected, "peer {peer}, lane {from} to {to}");
                    *expected += 1;
                    assert!(payload.iter().all(|&byte| u64::from(byte) == from));
                }
            }
        }
    }
}

#[test]
fn lanes_work_from_several_threads() {
    for tls in transports() {
        let nodes = pair(|_| {}, &tls, 4);
        let mut rows: [Vec<_>; 2] = nodes.map(|node| {
            let Node {
                transport,
                lanes,
                sinks,
                ..
            } = node;
            // The transport stays open as long as its lanes.
            drop(transport);
            lanes.into_iter().zip(sinks).collect()
        });
        let [left, right] = &mut rows;
        std::thread::scope(|scope| {
            for (vci, (a, b)) in left.iter_mut().zip(right.iter_mut()).enumerate() {
                scope.spawn(move || {
                    let vci = vci as u16;
                    let start = Instant::now();
                    let (mut sent, total) = (0_u64, 3000);
                    while (b.1.messages.len() as u64) < total {
                        if sent < total {
                            let header = Header([sent, 0, 0]);
                            let payload = [vci as u8; 700];
                            match a.0.send(8, vci, &header, &payload[..(sent % 700) as usize]) {
                                Ok(()) => sent += 1,
                                Err(LaneError::Again) => {}
                                Err(error) => panic!("{error}"),
                            }
                        }
                        a.0.poll(&mut a.1, 16);
                        b.0.poll(&mut b.1, 16);
                        assert!(start.elapsed() < LIMIT);
                    }
                    for (i, (from, header, _)) in b.1.messages.iter().enumerate() {
                        assert_eq!((*from, header.0[0]), (3, i as u64));
                    }
                });
            }
        });
    }
}

#[test]
fn the_doorbell_rings() {
    for tls in transports() {
        let mut nodes = pair(|_| {}, &tls, 1);
        send_polling(&mut nodes, 0, 1, Header::default(), b"hello");
        poll_until(&mut nodes, "first", |nodes| {
            !nodes[1].sinks[0].messages.is_empty()
        });
        nodes[1].sinks[0].messages.clear();
        let Doorbell::Fd(fd) = nodes[1].lanes[0].doorbell() else {
            eprintln!("{tls}: no doorbell");
            continue;
        };
        let ring = |ms: i32| {
            let mut poll = libc::pollfd {
                fd,
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: one valid entry.
            unsafe { libc::poll(&mut poll, 1, ms) == 1 }
        };
        let mut false_alarms = 0;
        for i in 0..20 {
            let start = Instant::now();
            while !nodes[1].lanes[0].arm() {
                nodes[1].poll();
                assert!(start.elapsed() < LIMIT, "never quiet");
            }
            // Rings for nothing cost a poll each.
            false_alarms += u32::from(ring(5));
            let payload = vec![1; if i % 2 == 0 { 8 } else { 9000 }];
            let header = Header::default();
            nodes[0].lanes[0].send(8, 0, &header, &payload).unwrap();
            // The sender's side may need polls too.
            nodes[0].poll();
            assert!(ring(5000), "{tls}: does not ring (round {i})");
            nodes[1].lanes[0].disarm();
            poll_until(&mut nodes, "message", |nodes| {
                !nodes[1].sinks[0].messages.is_empty()
            });
            nodes[1].sinks[0].messages.clear();
        }
        eprintln!("{tls}: {false_alarms} false alarms");
        assert!(false_alarms < 20, "{tls}: rings for nothing");
    }
}

fn open_error(config: Config) -> String {
    match UcxTransport::open(config, Arc::new(Directory::default())) {
        Ok(_) => panic!("opened"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn failures_to_open_say_what_was_tried() {
    let mut missing = Config::new(0);
    missing.library = "/nonexistent/libucp.so.0".to_string();
    let text = open_error(missing);
    assert!(text.contains("/nonexistent/libucp.so.0"), "{text}");
    assert!(text.contains("apt install libucx0"), "{text}");

    let mut other = Config::new(0);
    other.library = "libc.so.6".to_string();
    let text = open_error(other);
    assert!(
        text.contains("ucp_get_version") && text.contains("not UCP"),
        "{text}"
    );

    let mut tls = Config::new(0);
    tls.tls = Some("nosuch".to_string());
    let text = open_error(tls);
    assert!(
        text.contains("nosuch") && text.contains("WEFT_UCX_TLS"),
        "{text}"
    );

    let mut devices = Config::new(0);
    devices.devices = Some("nosuch0".to_string());
    let text = open_error(devices);
    assert!(
        text.contains("nosuch0") && text.contains("WEFT_UCX_DEVICES"),
        "{text}"
    );

    let mut size = Config::new(0);
    size.buffer_size = Some(17);
    assert!(open_error(size).contains("17"));
}

#[test]
fn unusable_addresses_are_explained() {
    let mut nodes = pair(|_| {}, &transports()[0], 1);
    let header = Header::default();
    let directory = nodes[0].directory.clone();
    let mut why = |address: Option<&[u8]>| {
        if let Some(address) = address {
            let mut addresses = directory.0.lock().unwrap();
            addresses.insert((51, 0), address.to_vec());
        }
        match nodes[0].lanes[0].send(51, 0, &header, &[]) {
            Err(LaneError::PeerLost(lost)) if lost.peer == 51 => lost.why,
            other => panic!("{other:?}"),
        }
    };
    assert!(why(None).contains("no VCI 0"));
    assert!(why(Some(&[])).contains("not one of UCX"));
    assert!(why(Some(b"\x05verbs12345678")).contains("not one of UCX"));
}
