//! Several processes of a job, simulated within one, over loopback.

mod common;

use common::{Node, Random, hello, nodes, nodes_with, pair, poll_until};
use netmod::{
    AtomicOp, Header, Issued, LaneError, Payload, RemoteAccess, RemoteAddr, Signal, Token,
    Transport,
};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

fn send(nodes: &mut [Node], from: usize, to: u32, header: Header, payload: &[u8]) {
    let start = Instant::now();
    loop {
        match nodes[from].lanes[0].send(to, 0, &header, Payload::Bytes(payload)) {
            Ok(_) => return,
            Err(LaneError::Again) => {
                nodes.iter_mut().for_each(|node| _ = node.poll());
                assert!(start.elapsed() < common::LIMIT, "no room");
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn messages_of_all_lengths_arrive_in_order() {
    let mut nodes = pair(1);
    let mut random = Random::new();
    let mut sent = [Vec::new(), Vec::new()];
    for number in 0..3000_u64 {
        let from = random.below(2);
        let to = nodes[1 - from].peer;
        let most = if number % 50 == 0 { 256 << 10 } else { 6000 };
        let len = random.length(most);
        let payload = random.bytes(len);
        let header = Header([number, !number, random.next()]);
        let message = (nodes[from].peer, header, payload);
        send(&mut nodes, from, to, header, &message.2);
        sent[1 - from].push(message);
    }
    poll_until(&mut nodes, "messages", |nodes| {
        (0..2).all(|i| nodes[i].sinks[0].messages.len() == sent[i].len())
    });
    for (node, sent) in nodes.iter().zip(&sent) {
        assert!(node.sinks[0].messages == *sent);
    }
    poll_until(&mut nodes, "draining", |nodes| {
        nodes.iter_mut().all(|node| node.lanes[0].drained())
    });
}

#[test]
fn a_flood_meets_back_pressure_and_arrives() {
    let mut nodes = pair(1);
    let to = nodes[1].peer;
    let payload = vec![5; 100_000];
    let mut sent = 0_u64;
    let mut refused = 0;
    // Connect first.
    send(&mut nodes, 0, to, Header([0; 3]), &[]);
    poll_until(&mut nodes, "first", |nodes| {
        !nodes[1].sinks[0].messages.is_empty()
    });
    while refused < 100 {
        match nodes[0].lanes[0].send(to, 0, &Header([sent, 0, 0]), Payload::Bytes(&payload)) {
            Ok(_) => sent += 1,
            Err(LaneError::Again) => refused += 1,
            Err(error) => panic!("{error}"),
        }
        nodes[0].poll();
    }
    assert!(!nodes[0].lanes[0].drained());
    poll_until(&mut nodes, "the flood", |nodes| {
        nodes[1].sinks[0].messages.len() as u64 == sent + 1
    });
    for (number, message) in nodes[1].sinks[0].messages[1..].iter().enumerate() {
        assert_eq!(message.1.0[0], number as u64);
        assert!(message.2 == payload);
    }
}

#[test]
fn bursts_travel_together_in_order() {
    let mut nodes = pair(1);
    let to = nodes[1].peer;
    send(&mut nodes, 0, to, Header([0; 3]), &[]);
    let mut number = 1_u64;
    for _ in 0..20 {
        while nodes[0].lanes[0]
            .send(to, 0, &Header([number, 0, 0]), Payload::Bytes(&[1; 8]))
            .is_ok()
        {
            number += 1;
        }
        nodes[0].lanes[0].coalesce(true);
        for _ in 0..64 {
            nodes[0].lanes[0]
                .send(to, 0, &Header([number, 0, 0]), Payload::Bytes(&[2; 40]))
                .unwrap();
            number += 1;
        }
        nodes[0].lanes[0].coalesce(false);
        nodes[0].poll();
    }
    poll_until(&mut nodes, "bursts", |nodes| {
        nodes[1].sinks[0].messages.len() as u64 == number
    });
    let numbers = nodes[1].sinks[0]
        .messages
        .iter()
        .map(|message| message.1.0[0]);
    assert!(numbers.eq(0..number));
}

#[test]
fn both_ends_connect_at_the_same_time() {
    for round in 0..30 {
        let mut nodes = nodes(4, 1);
        // All to all, without a poll in between: all connections cross.
        let peers: Vec<u32> = nodes.iter().map(|node| node.peer).collect();
        let mut open: Vec<(usize, u32)> = Vec::new();
        for from in 0..4 {
            let others = peers.iter().filter(|peer| **peer != peers[from]);
            open.extend(others.map(|peer| (from, *peer)));
        }
        let mut random = Random(fastrand::Rng::with_seed(round));
        let start = Instant::now();
        while !open.is_empty() {
            open.retain(|&(from, to)| {
                let header = Header([nodes[from].peer.into(), to.into(), 0]);
                nodes[from].lanes[0]
                    .send(to, 0, &header, Payload::Bytes(b"hello"))
                    .is_err()
            });
            let who = random.below(4);
            nodes[who].poll();
            assert!(start.elapsed() < common::LIMIT);
        }
        poll_until(&mut nodes, "crossing calls", |nodes| {
            nodes.iter().all(|node| node.sinks[0].messages.len() >= 3)
        });
        for node in &nodes {
            assert_eq!(node.sinks[0].messages.len(), 3);
            assert!(node.sinks[0].lost.is_empty(), "{:?}", node.sinks[0].lost);
        }
    }
}

#[test]
fn vcis_reach_each_other_also_within_a_process() {
    let mut nodes = pair(3);
    let peers = [nodes[0].peer, nodes[1].peer];
    let mut count = 0;
    for from in 0..2 {
        for lane in 0..3_usize {
            for (to, peer) in peers.into_iter().enumerate() {
                for vci in 0..3_u16 {
                    if (from, lane) == (to, vci.into()) {
                        continue;
                    }
                    count += 1;
                    let header = Header([from as u64, lane as u64, u64::from(vci)]);
                    let start = Instant::now();
                    while nodes[from].lanes[lane]
                        .send(peer, vci, &header, Payload::Bytes(&[]))
                        .is_err()
                    {
                        nodes.iter_mut().for_each(|node| _ = node.poll());
                        assert!(start.elapsed() < common::LIMIT);
                    }
                }
            }
        }
    }
    poll_until(&mut nodes, "all lanes", |nodes| {
        let got = nodes.iter().flat_map(|node| &node.sinks);
        got.map(|sink| sink.messages.len()).sum::<usize>() == count
    });
    for node in &nodes {
        for (vci, sink) in node.sinks.iter().enumerate() {
            assert!(
                sink.messages
                    .iter()
                    .all(|message| message.1.0[2] == vci as u64)
            );
        }
    }
}

/// Polls until an operation completes.
fn finish(
    nodes: &mut [Node],
    who: usize,
    issued: Result<Issued, LaneError>,
    token: Token,
) -> Result<(), LaneError> {
    match issued? {
        Issued::Complete => Ok(()),
        Issued::Pending => {
            poll_until(nodes, "an operation", |nodes| {
                nodes[who].sinks[0].completed.contains_key(&token.0)
            });
            nodes[who].sinks[0].completed.remove(&token.0).unwrap()
        }
    }
}

#[test]
fn remote_memory_is_read_and_written() {
    let mut nodes = pair(1);
    let peer = nodes[1].peer;
    send(&mut nodes, 0, peer, Header([0; 3]), &[]);
    poll_until(&mut nodes, "first", |nodes| {
        !nodes[1].sinks[0].messages.is_empty()
    });
    const LEN: usize = 5 << 20;
    let mut random = Random::new();
    let mut exposed = random.bytes(LEN);
    let mut model = exposed.clone();
    // SAFETY: the memory outlives the exposure.
    let key = unsafe { nodes[1].transport.expose(exposed.as_mut_ptr(), LEN) }.unwrap();
    for _ in 0..200 {
        let most = if random.below(20) == 0 {
            LEN - 1
        } else {
            20_000
        };
        let len = 1 + random.length(most);
        let offset = random.below(LEN - len + 1);
        let remote = RemoteAddr {
            key,
            offset: offset as u64,
        };
        let token = nodes[0].token();
        if random.below(2) == 0 {
            let data = random.bytes(len);
            // SAFETY: the data stays until completion.
            let issued = unsafe {
                nodes[0].lanes[0].access(
                    peer,
                    0,
                    RemoteAccess::put(data.as_ptr(), len, remote),
                    token,
                )
            };
            finish(&mut nodes, 0, issued, token).unwrap();
            model[offset..offset + len].copy_from_slice(&data);
        } else {
            let mut data = vec![0; len];
            // SAFETY: the data stays until completion.
            let issued = unsafe {
                nodes[0].lanes[0].access(
                    peer,
                    0,
                    RemoteAccess::get(data.as_mut_ptr(), len, remote),
                    token,
                )
            };
            finish(&mut nodes, 0, issued, token).unwrap();
            assert!(
                data == model[offset..offset + len],
                "{len} bytes at {offset}"
            );
        }
    }
    let token = nodes[0].token();
    let flushed = nodes[0].lanes[0].flush(peer, token);
    finish(&mut nodes, 0, flushed, token).unwrap();
    assert!(exposed == model);
    let token = nodes[0].token();
    assert_eq!(nodes[0].lanes[0].flush(peer, token), Ok(Issued::Complete));

    // Across the end, and beyond it.
    let beyond = RemoteAddr {
        key,
        offset: LEN as u64 - 3,
    };
    let mut word = [0_u8; 8];
    let token = nodes[0].token();
    // SAFETY: the word stays until completion.
    let issued = unsafe {
        nodes[0].lanes[0].access(
            peer,
            0,
            RemoteAccess::get(word.as_mut_ptr(), 8, beyond),
            token,
        )
    };
    assert!(finish(&mut nodes, 0, issued, token).is_err());
    for len in [8_usize, 300_000] {
        let data = vec![1; len];
        let token = nodes[0].token();
        // SAFETY: the data stays until completion.
        let issued = unsafe {
            nodes[0].lanes[0].access(
                peer,
                0,
                RemoteAccess::put(data.as_ptr(), len, beyond),
                token,
            )
        };
        finish(&mut nodes, 0, issued, token).unwrap();
        let token = nodes[0].token();
        let flushed = nodes[0].lanes[0].flush(peer, token);
        let error = finish(&mut nodes, 0, flushed, token).unwrap_err();
        assert!(error.to_string().contains("does not expose"), "{error}");
    }
    nodes[1].transport.withdraw(&key);
    let token = nodes[0].token();
    let remote = RemoteAddr { key, offset: 0 };
    // SAFETY: the word stays until completion.
    let issued = unsafe {
        nodes[0].lanes[0].access(
            peer,
            0,
            RemoteAccess::get(word.as_mut_ptr(), 8, remote),
            token,
        )
    };
    assert!(finish(&mut nodes, 0, issued, token).is_err());
    assert!(exposed == model, "nothing was written beyond the end");
}

#[test]
fn atomics_are_carried_out_and_signals_stored() {
    let mut nodes = pair(1);
    let peer = nodes[1].peer;
    let mut memory = [0_u64; 64];
    // SAFETY: the memory outlives the exposure.
    let key = unsafe { nodes[1].transport.expose(memory.as_mut_ptr().cast(), 512) }.unwrap();
    send(&mut nodes, 0, peer, Header([0; 3]), &[]);
    let remote = RemoteAddr { key, offset: 8 };
    let mut model = 0_u64;
    for (op, operand, compare, after) in [
        (AtomicOp::Swap, 7, 0, 7),
        (AtomicOp::Add, u64::MAX, 0, 6),
        (AtomicOp::Or, 9, 0, 15),
        (AtomicOp::And, 12, 0, 12),
        (AtomicOp::Xor, 5, 0, 9),
        (AtomicOp::CompareSwap, 1, 8, 9),
        (AtomicOp::CompareSwap, 1, 9, 1),
        (AtomicOp::Load, 0, 0, 1),
    ] {
        let mut found = 0_u64;
        let token = nodes[0].token();
        // SAFETY: the result stays until completion.
        let issued = unsafe {
            let lane = &mut nodes[0].lanes[0];
            lane.access(
                peer,
                0,
                RemoteAccess::atomic(op, [operand, compare], &mut found, remote),
                token,
            )
        };
        finish(&mut nodes, 0, issued, token).unwrap();
        assert_eq!(found, model, "{op:?}");
        model = after;
    }
    let place = |offset| RemoteAddr { key, offset };
    let mut signal = |data: &[u8], words: &[u64], at| {
        let (remote, at) = (place(64), place(at));
        let signal = Signal {
            data,
            remote,
            words,
            at,
        };
        nodes[0].lanes[0].signal(peer, 0, signal).unwrap();
    };
    signal(&[3; 100], &[11, 12], 16);
    signal(&[], &[13], 32);
    let start = Instant::now();
    let word = |place: usize| {
        // SAFETY: aligned and valid; the lane stores it atomically.
        unsafe {
            (*(&raw const memory[place]).cast::<std::sync::atomic::AtomicU64>())
                .load(std::sync::atomic::Ordering::Acquire)
        }
    };
    while word(4) != 13 {
        nodes[1].poll();
        assert!(start.elapsed() < common::LIMIT);
    }
    assert_eq!((word(1), word(2), word(3)), (1, 11, 12));
    assert_eq!(word(8), u64::from_ne_bytes([3; 8]));
}

#[test]
fn strangers_cost_only_their_own_connection() {
    let mut nodes = pair(1);
    let port = nodes[1].port();
    let mut random = Random::new();
    let mut strangers: Vec<TcpStream> = Vec::new();
    for number in 0..60 {
        let mut stranger = TcpStream::connect(("127.0.0.1", port)).unwrap();
        // No bytes, a few, many, and a hello without its proof.
        let bytes = match number % 4 {
            0 => Vec::new(),
            1 => random.bytes(10),
            2 => random.bytes(100_000),
            _ => {
                let mut bytes = hello(3, nodes[1].peer);
                bytes.extend(random.bytes(200));
                bytes
            }
        };
        stranger
            .set_write_timeout(Some(Duration::from_millis(50)))
            .unwrap();
        let _ = stranger.write(&bytes);
        strangers.push(stranger);
        nodes[1].poll();
    }
    let to = nodes[1].peer;
    send(&mut nodes, 0, to, Header([7; 3]), b"from the job");
    poll_until(&mut nodes, "a message of the job's", |nodes| {
        !nodes[1].sinks[0].messages.is_empty()
    });
    for _ in 0..2000 {
        nodes[1].poll();
    }
    assert_eq!(nodes[1].sinks[0].messages.len(), 1);
    assert!(nodes[1].sinks[0].lost.is_empty());
    // Connections with too many bytes were closed.
    let mut closed = 0;
    for stranger in &mut strangers {
        stranger
            .set_read_timeout(Some(Duration::from_millis(20)))
            .unwrap();
        let mut bytes = Vec::new();
        let read = stranger.read_to_end(&mut bytes);
        let waits = read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
        closed += usize::from(!waits);
        assert!(bytes.len() <= 64, "{} bytes for a stranger", bytes.len());
    }
    assert!(closed >= 30, "{closed} of 60 were closed");
}

#[test]
fn a_peer_that_dies_is_lost_and_one_that_leaves_is_not() {
    for farewell in [true, false] {
        let mut nodes = pair(1);
        let (here, there) = (nodes[0].peer, nodes[1].peer);
        send(&mut nodes, 0, there, Header([1; 3]), &[]);
        send(&mut nodes, 1, here, Header([2; 3]), &[]);
        poll_until(&mut nodes, "contact", |nodes| {
            nodes.iter().all(|node| !node.sinks[0].messages.is_empty())
        });
        // A get without an answer.
        let mut memory = [0_u8; 64];
        // SAFETY: the memory outlives all.
        let key = unsafe { nodes[1].transport.expose(memory.as_mut_ptr(), 64) }.unwrap();
        let mut word = [0_u8; 8];
        let token = nodes[0].token();
        let remote = RemoteAddr { key, offset: 0 };
        // SAFETY: the word stays until completion.
        let issued = unsafe {
            nodes[0].lanes[0].access(
                there,
                0,
                RemoteAccess::get(word.as_mut_ptr(), 8, remote),
                token,
            )
        };
        assert_eq!(issued, Ok(Issued::Pending));
        let mut gone = nodes.pop().unwrap();
        if farewell {
            gone.lanes.clear();
        } else {
            gone.break_connections();
        }
        poll_until(&mut nodes, "the end", |nodes| {
            nodes[0].sinks[0].completed.contains_key(&token.0)
        });
        assert!(nodes[0].sinks[0].completed[&token.0].is_err());
        assert_eq!(nodes[0].sinks[0].lost.is_empty(), farewell);
        let sent = nodes[0].lanes[0].send(there, 0, &Header([3; 3]), Payload::Bytes(&[]));
        assert_eq!(sent.is_ok(), farewell, "{sent:?}");
        drop(gone);
    }
}

#[test]
fn an_unreachable_peer_is_lost_with_all_addresses_named() {
    let mut nodes = pair(1);
    let there = nodes[1].peer;
    let gone = nodes.pop().unwrap();
    drop(gone);
    poll_until(&mut nodes, "a refusal", |nodes| {
        let _ = nodes[0].lanes[0].send(there, 0, &Header([1; 3]), Payload::Bytes(&[]));
        !nodes[0].sinks[0].lost.is_empty()
    });
    let (peer, why) = &nodes[0].sinks[0].lost[0];
    assert_eq!(*peer, there);
    assert!(
        why.contains("127.0.0.1:") && why.contains("connection refused"),
        "{why}"
    );
}

#[test]
fn the_doorbell_rings() {
    let mut nodes = pair(1);
    let there = nodes[1].peer;
    send(&mut nodes, 0, there, Header([1; 3]), &[]);
    poll_until(&mut nodes, "contact", |nodes| {
        !nodes[1].sinks[0].messages.is_empty()
    });
    for _ in 0..100 {
        nodes.iter_mut().for_each(|node| _ = node.poll());
    }
    let netmod::WakeUp::Fd(fd) = nodes[1].lanes[0].wake_up() else {
        panic!("no descriptor")
    };
    let rings = |patience: i32| {
        let mut poll = libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one valid `pollfd`.
        unsafe { libc::poll(&mut poll, 1, patience) == 1 }
    };
    assert!(nodes[1].lanes[0].arm());
    assert!(!rings(20));
    nodes[0].lanes[0]
        .send(there, 0, &Header([2; 3]), Payload::Bytes(&[]))
        .unwrap();
    assert!(rings(10_000));
    nodes[1].lanes[0].disarm();
}

#[test]
fn long_messages_are_read_into_their_destination() {
    let mut nodes = pair(1);
    let to = nodes[1].peer;
    let mut random = Random::new();
    let count = 200;
    nodes[1].sinks[0].places = vec![vec![0; 256 << 10]; count];
    let mut sent = Vec::new();
    for number in 0..count as u64 {
        let long = number % 3 != 0;
        let len = if long {
            40_000 + random.below(200_000)
        } else {
            random.below(3000)
        };
        let payload = random.bytes(len);
        send(&mut nodes, 0, to, Header([number, 0, 0]), &payload);
        sent.push(payload);
    }
    poll_until(&mut nodes, "messages", |nodes| {
        let sink = &nodes[1].sinks[0];
        sink.messages.len() + sink.completed.len() == count
    });
    let sink = &nodes[1].sinks[0];
    assert!(
        sink.placed > count / 2,
        "{} of {count} were placed",
        sink.placed
    );
    let whole: Vec<u64> = sink.messages.iter().map(|message| message.1.0[0]).collect();
    let placed = sent.iter().enumerate();
    let placed = placed.filter(|(number, _)| !whole.contains(&(*number as u64)));
    for ((_, payload), place) in placed.zip(&sink.places) {
        assert!(place[..payload.len()] == payload[..]);
    }
    for message in &sink.messages {
        assert!(message.2 == sent[message.1.0[0] as usize]);
    }
}

#[test]
fn an_unwritable_destination_is_reported_and_the_peer_lives() {
    const LEN: usize = 256 << 10;
    const PAGE: usize = 4096;
    let mut nodes = pair(1);
    let to = nodes[1].peer;
    let mut place = vec![0u8; LEN];
    let closed = place[LEN / 2..].as_mut_ptr();
    let closed = closed.with_addr(closed.addr().next_multiple_of(PAGE));
    // SAFETY: a page of `place`, which is not accessed until it is unprotected.
    let protect = |rights| unsafe { libc::mprotect(closed.cast(), PAGE, rights) };
    assert_eq!(protect(libc::PROT_NONE), 0);
    nodes[1].sinks[0].places = vec![place];
    send(&mut nodes, 0, to, Header([1; 3]), &vec![7; LEN]);
    // The next message follows on the same connection.
    send(&mut nodes, 0, to, Header([2; 3]), &[5; 100]);
    poll_until(&mut nodes, "messages", |nodes| {
        !nodes[1].sinks[0].messages.is_empty()
    });
    assert_eq!(protect(libc::PROT_READ | libc::PROT_WRITE), 0);
    let sink = &nodes[1].sinks[0];
    let results: Vec<_> = sink.completed.values().collect();
    assert!(
        matches!(results[..], [Err(netmod::LaneError::BadMemory(bad))] if bad.is_local),
        "{results:?}"
    );
    assert_eq!(sink.messages[0].2, [5; 100]);
    assert!(sink.lost.is_empty());
}

#[test]
fn a_sender_that_dies_within_a_message_frees_its_destination() {
    let mut nodes = pair(1);
    let to = nodes[0].peer;
    send(&mut nodes, 0, 8, Header([0; 3]), &[]);
    nodes[0].sinks[0].places = vec![vec![0; 256 << 10]];
    // Fill the send buffer.
    let payload = vec![7; 256 << 10];
    while nodes[1].lanes[0]
        .send(to, 0, &Header([1; 3]), Payload::Bytes(&payload))
        .is_err()
    {
        nodes.iter_mut().for_each(|node| _ = node.poll());
    }
    while nodes[1].lanes[0]
        .send(to, 0, &Header([2; 3]), Payload::Bytes(&payload))
        .is_ok()
    {}
    nodes[1].break_connections();
    poll_until(&mut nodes[..1], "the end", |nodes| {
        !nodes[0].sinks[0].lost.is_empty()
    });
    let sink = &nodes[0].sinks[0];
    assert_eq!(sink.placed, sink.completed.len());
    assert_eq!(sink.lost.len(), 1);
}

#[test]
fn connections_above_the_limit_are_parked_and_reopened() {
    const COUNT: usize = 6;
    let mut nodes = nodes_with(COUNT, 1, |name| {
        (name == "WEFT_TCP_CONNECTIONS").then(|| "2".to_string())
    });
    let peers: Vec<u32> = nodes.iter().map(|node| node.peer).collect();
    let mut random = Random::new();
    let mut memory = vec![0_u8; 64];
    // SAFETY: the memory outlives all.
    let key = unsafe { nodes[0].transport.expose(memory.as_mut_ptr(), 64) }.unwrap();
    let mut sent = vec![vec![0_u64; COUNT]; COUNT];
    let mut total = 0;
    for step in 0..1500_u64 {
        let from = random.below(COUNT);
        let to = (from + 1 + random.below(COUNT - 1)) % COUNT;
        let len = if step % 40 == 0 {
            200_000
        } else {
            random.below(300)
        };
        let payload = vec![step as u8; len];
        let header = Header([sent[from][to], step, 0]);
        send(&mut nodes, from, peers[to], header, &payload);
        sent[from][to] += 1;
        total += 1;
        if step % 100 == 7 && from != 0 {
            let token = nodes[from].token();
            let mut word = [9_u8; 8];
            let remote = RemoteAddr { key, offset: 0 };
            let issued = loop {
                // SAFETY: the word stays until completion.
                let issued = unsafe {
                    let lane = &mut nodes[from].lanes[0];
                    lane.access(
                        peers[0],
                        0,
                        RemoteAccess::get(word.as_mut_ptr(), 8, remote),
                        token,
                    )
                };
                if issued != Err(LaneError::Again) {
                    break issued;
                }
                nodes.iter_mut().for_each(|node| _ = node.poll());
            };
            finish(&mut nodes, from, issued, token).unwrap();
            assert_eq!(word, [0; 8]);
        }
    }
    poll_until(&mut nodes, "all messages", |nodes| {
        let got = nodes.iter().map(|node| node.sinks[0].messages.len());
        got.sum::<usize>() == total
    });
    // All pairs are connected.
    let open: usize = nodes.iter().map(Node::connections).sum();
    assert!(
        open < COUNT * (COUNT - 1) / 2,
        "{open} connections are open"
    );
    for (to, node) in nodes.iter().enumerate() {
        assert!(node.sinks[0].lost.is_empty(), "{:?}", node.sinks[0].lost);
        let mut next = [0; COUNT];
        for (peer, header, payload) in &node.sinks[0].messages {
            let from = peers.iter().position(|other| other == peer).unwrap();
            assert_eq!(header.0[0], next[from], "{from} to {to}");
            assert!(payload.iter().all(|byte| *byte == header.0[1] as u8));
            next[from] += 1;
        }
    }
}

#[test]
fn a_connection_that_breaks_while_both_live_is_a_loss_at_both_ends() {
    let mut random = Random::new();
    for _ in 0..10 {
        let mut nodes = pair(1);
        let (here, there) = (nodes[0].peer, nodes[1].peer);
        send(&mut nodes, 0, there, Header([0; 3]), &[]);
        let whole = 1 + random.below(60) as u64;
        for number in 1..whole {
            let len = random.length(30_000);
            let payload = vec![number as u8; len];
            send(&mut nodes, 0, there, Header([number, 0, 0]), &payload);
            if random.below(3) == 0 {
                nodes[1].poll();
            }
        }
        nodes[1].reset_connections();
        poll_until(&mut nodes, "both losses", |nodes| {
            nodes.iter().all(|node| !node.sinks[0].lost.is_empty())
        });
        for (node, other) in nodes.iter().zip([there, here]) {
            let [(peer, why)] = &node.sinks[0].lost[..] else {
                panic!("{:?}", node.sinks[0].lost)
            };
            assert_eq!(*peer, other);
            assert!(why.contains("TCP connection"), "{why}");
        }
        // Every message arrived once, in order, and unchanged.
        for (number, message) in nodes[1].sinks[0].messages.iter().enumerate() {
            assert_eq!(message.1.0[0], number as u64);
            assert!(message.2.iter().all(|byte| *byte == number as u8));
        }
        assert!(nodes[1].sinks[0].messages.len() as u64 <= whole);
        let sent = nodes[0].lanes[0].send(there, 0, &Header([3; 3]), Payload::Bytes(&[]));
        assert!(matches!(sent, Err(LaneError::PeerLost(_))), "{sent:?}");
    }
}
