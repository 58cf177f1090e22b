//! Long messages and answers that leave together in one system call.

mod common;

use common::{Node, Random, pair, poll_until};
use netmod::{Header, Issued, LaneError, Payload, RemoteAccess, RemoteAddr, Token, Transport};

const LEN: usize = 100 << 10;

/// Connects both ends.
fn meet(nodes: &mut [Node]) {
    let there = nodes[1].peer;
    while nodes[0].lanes[0]
        .send(there, 0, &Header([0; 3]), Payload::Bytes(&[]))
        .is_err()
    {
        nodes.iter_mut().for_each(|node| _ = node.poll());
    }
    poll_until(nodes, "contact", |nodes| {
        nodes[1].sinks[0].messages.len() == 1
    });
    nodes[1].sinks[0].messages.clear();
}

/// Sends `payload` without a copy. Returns whether it was accepted.
fn lend(node: &mut Node, to: u32, number: u64, payload: &[u8]) -> Option<Option<Token>> {
    let token = node.token();
    let header = Header([number, 1, 2]);
    let block = [netmod::IoVec {
        ptr: payload.as_ptr().cast_mut(),
        len: payload.len(),
    }];
    // SAFETY: payloads stay until the end of each test.
    let lent = unsafe { netmod::Vectored::new(&block, Some(token)) };
    let sent = node.lanes[0].send(to, 0, &header, netmod::Payload::Vectored(lent));
    match sent {
        Ok(Issued::Complete) => Some(None),
        Ok(Issued::Pending) => Some(Some(token)),
        Err(LaneError::Again) => None,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn zero_copy_messages_leave_together_and_in_order() {
    let mut nodes = pair(1);
    meet(&mut nodes);
    let there = nodes[1].peer;
    let mut random = Random::new();
    let payloads: Vec<Vec<u8>> = (0..150).map(|_| random.bytes(LEN)).collect();
    // A burst outside of `coalesce` is cut off after a few.
    let mut number = 0;
    let mut tokens = Vec::new();
    while let Some(token) = lend(&mut nodes[0], there, number, &payloads[number as usize]) {
        tokens.extend(token);
        number += 1;
        assert!(number < 20, "all of a burst leaves one by one");
    }
    assert!(number > 0);
    let singly = number;
    let is_short = |number: u64| number >= singly && number % 7 == 3;
    // Inside, all are accepted as long as there is space, short ones among them.
    let mut rounds = 0;
    while number < payloads.len() as u64 {
        nodes[0].lanes[0].coalesce(true);
        while number < payloads.len() as u64 {
            let payload = &payloads[number as usize];
            let taken = if is_short(number) {
                let header = Header([number, 1, 2]);
                nodes[0].lanes[0]
                    .send(there, 0, &header, Payload::Bytes(&payload[..100]))
                    .is_ok()
            } else {
                let token = lend(&mut nodes[0], there, number, payload);
                tokens.extend(token.flatten());
                token.is_some()
            };
            if !taken {
                break;
            }
            number += 1;
        }
        nodes[0].lanes[0].coalesce(false);
        nodes.iter_mut().for_each(|node| _ = node.poll());
        rounds += 1;
        assert!(rounds < 1_000_000, "no room");
    }
    assert!(!tokens.is_empty(), "nothing was kept");
    poll_until(&mut nodes, "the messages", |nodes| {
        let all_there = nodes[1].sinks[0].messages.len() == payloads.len();
        let completed = &nodes[0].sinks[0].completed;
        all_there && tokens.iter().all(|token| completed.contains_key(&token.0))
    });
    for (place, (from, header, payload)) in nodes[1].sinks[0].messages.iter().enumerate() {
        assert_eq!((*from, header.0[0]), (nodes[0].peer, place as u64));
        let len = if is_short(place as u64) { 100 } else { LEN };
        assert!(
            payload[..] == payloads[place][..len],
            "message {place}: {} bytes",
            payload.len()
        );
    }
    assert!(nodes[0].sinks[0].completed.values().all(Result::is_ok));
}

#[test]
fn gets_are_answered_together() {
    const COUNT: usize = 60;
    let mut nodes = pair(1);
    meet(&mut nodes);
    let there = nodes[1].peer;
    let mut random = Random::new();
    let mut exposed = random.bytes(COUNT * LEN);
    // SAFETY: the memory outlives the exposure.
    let key = unsafe {
        nodes[1]
            .transport
            .expose(exposed.as_mut_ptr(), exposed.len())
    }
    .unwrap();
    let mut back = vec![vec![0; LEN]; COUNT];
    let mut tokens = Vec::new();
    nodes[0].lanes[0].coalesce(true);
    for (place, back) in back.iter_mut().enumerate() {
        let token = nodes[0].token();
        let offset = (place * LEN) as u64;
        // Some are short, so that their answers are copied, and some long.
        let len = if place % 5 == 1 { 10 } else { LEN };
        let remote = RemoteAddr { key, offset };
        // SAFETY: the memory stays until the end.
        let issued = unsafe {
            nodes[0].lanes[0].access(
                there,
                0,
                RemoteAccess::get(back.as_mut_ptr(), len, remote),
                token,
            )
        };
        assert_eq!(issued, Ok(Issued::Pending));
        tokens.push(token);
    }
    nodes[0].lanes[0].coalesce(false);
    poll_until(&mut nodes, "the gets", |nodes| {
        nodes[0].sinks[0].completed.len() == COUNT
    });
    assert!(nodes[0].sinks[0].completed.values().all(Result::is_ok));
    for (place, back) in back.iter().enumerate() {
        let len = if place % 5 == 1 { 10 } else { LEN };
        assert!(back[..len] == exposed[place * LEN..][..len], "get {place}");
    }
}

#[test]
fn withdrawing_memory_during_a_read_ends_the_connection() {
    const LONG: usize = 64 << 20;
    let mut nodes = pair(1);
    meet(&mut nodes);
    let there = nodes[1].peer;
    let mut exposed = vec![5; LONG];
    // SAFETY: the memory outlives the exposure.
    let key = unsafe { nodes[1].transport.expose(exposed.as_mut_ptr(), LONG) }.unwrap();
    let mut back = vec![0; LONG];
    let token = nodes[0].token();
    let remote = RemoteAddr { key, offset: 0 };
    // SAFETY: the memory stays until the end.
    let issued = unsafe {
        nodes[0].lanes[0].access(
            there,
            0,
            RemoteAccess::get(back.as_mut_ptr(), LONG, remote),
            token,
        )
    };
    assert_eq!(issued, Ok(Issued::Pending));
    // The kernel takes only a part, since no process reads.
    for _ in 0..1000 {
        nodes[1].poll();
    }
    nodes[1].transport.withdraw(&key);
    poll_until(&mut nodes, "the loss", |nodes| {
        !nodes[1].sinks[0].lost.is_empty()
    });
    let (_, why) = &nodes[1].sinks[0].lost[0];
    assert!(why.contains("withdrawn"), "{why}");
}

/// A put that leaves by itself costs one more system call at both ends than one that leaves with
/// its flush.
#[test]
fn puts_leave_with_their_flush() {
    let mut nodes = pair(1);
    meet(&mut nodes);
    let there = nodes[1].peer;
    for len in [8, 4097, 8192, 16 << 10] {
        let mut memory = vec![0_u8; len];
        let data = vec![7_u8; len];
        // SAFETY: the memory outlives all use of it.
        let key = unsafe { nodes[1].transport.expose(memory.as_mut_ptr(), len) }.unwrap();
        let token = nodes[0].token();
        let remote = RemoteAddr { key, offset: 0 };
        // SAFETY: the data stays until completion.
        let put = unsafe {
            nodes[0].lanes[0].access(
                there,
                0,
                RemoteAccess::put(data.as_ptr(), len, remote),
                token,
            )
        };
        assert_eq!(put, Ok(Issued::Complete));
        for _ in 0..100 {
            nodes[1].poll();
        }
        // SAFETY: `memory` is alive; volatile, since polls write it by its address.
        let first = unsafe { std::ptr::read_volatile(memory.as_ptr()) };
        assert_eq!(first, 0, "{len} bytes left alone");
        let token = nodes[0].token();
        assert_eq!(nodes[0].lanes[0].flush(there, token), Ok(Issued::Pending));
        poll_until(&mut nodes, "the flush", |nodes| {
            nodes[0].sinks[0].completed.contains_key(&token.0)
        });
        assert_eq!(nodes[0].sinks[0].completed.remove(&token.0), Some(Ok(())));
        assert!(memory == data, "{len} bytes");
        nodes[1].transport.withdraw(&key);
    }
}
