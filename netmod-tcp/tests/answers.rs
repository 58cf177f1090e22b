//! Long answers to gets.

mod common;

use common::{Node, Random, nodes, poll_until};
use netmod::{
    Header, Issued, LaneError, Payload, RemoteAccess, RemoteAddr, RemoteKey, Token, Transport,
};

/// Connected processes.
fn processes(count: usize) -> Vec<Node> {
    let mut nodes = nodes(count, 1);
    let there = nodes[0].peer;
    for number in 1..count {
        while nodes[number].lanes[0]
            .send(there, 0, &Header([0; 3]), Payload::Bytes(&[]))
            .is_err()
        {
            nodes.iter_mut().for_each(|node| _ = node.poll());
        }
    }
    poll_until(&mut nodes, "contact", |nodes| {
        nodes[0].sinks[0].messages.len() == count - 1
    });
    nodes
}

fn expose(node: &Node, memory: &mut [u8]) -> RemoteKey {
    // SAFETY: all tests keep the memory until its last use.
    unsafe { node.transport.expose(memory.as_mut_ptr(), memory.len()) }.unwrap()
}

fn begin(node: &mut Node, from: u32, to: &mut [u8], key: RemoteKey, offset: usize) -> Token {
    let token = node.token();
    let remote = RemoteAddr {
        key,
        offset: offset as u64,
    };
    // SAFETY: all tests keep the destination until completion.
    let issued = unsafe {
        node.lanes[0].access(
            from,
            0,
            RemoteAccess::get(to.as_mut_ptr(), to.len(), remote),
            token,
        )
    };
    assert_eq!(issued, Ok(Issued::Pending));
    token
}

fn take(node: &mut Node, token: Token) -> Option<Result<(), LaneError>> {
    node.sinks[0].completed.remove(&token.0)
}

#[test]
fn data_read_does_not_change_with_the_memory() {
    const LEN: usize = 3 << 20;
    let mut nodes = processes(2);
    let from = nodes[0].peer;
    let mut random = Random::new();
    let mut exposed = random.bytes(LEN);
    let key = expose(&nodes[0], &mut exposed);
    for round in 0..60 {
        // Lengths that are copied into a frame, parts of pages, and more than a send buffer holds.
        let mut gets = Vec::new();
        for _ in 0..1 + random.below(6) {
            let most = [20_000, 100_000, LEN][random.below(3)];
            let len = 1 + random.below(most);
            let offset = random.below(LEN - len + 1);
            let mut data = vec![0; len];
            let token = begin(&mut nodes[1], from, &mut data, key, offset);
            gets.push((token, data, offset));
        }
        // Messages in both directions keep their order among the answers.
        for (at, to) in [(0, 1), (1, 0)] {
            let to = nodes[to].peer;
            let sent =
                nodes[at].lanes[0].send(to, 0, &Header([round; 3]), Payload::Bytes(&[7; 100]));
            assert!(sent.is_ok() || sent == Err(LaneError::Again), "{sent:?}");
        }
        let wanted: Vec<Vec<u8>> = gets
            .iter()
            .map(|(_, data, offset)| exposed[*offset..offset + data.len()].to_vec())
            .collect();
        poll_until(&mut nodes, "gets", |nodes| {
            let done = &nodes[1].sinks[0].completed;
            gets.iter().all(|(token, ..)| done.contains_key(&token.0))
        });
        // After completion the owner may write immediately.
        for word in exposed.chunks_mut(8) {
            word[0] = word[0].wrapping_add(round as u8 + 1);
        }
        for ((token, data, offset), wanted) in gets.iter().zip(&wanted) {
            assert_eq!(take(&mut nodes[1], *token), Some(Ok(())));
            assert!(data == wanted, "{} bytes at {offset}", data.len());
        }
    }
}

#[test]
fn many_connections_wait_for_space() {
    const LEN: usize = 20 << 20;
    let mut nodes = processes(8);
    let from = nodes[0].peer;
    let mut random = Random::new();
    let mut exposed = random.bytes(LEN);
    let key = expose(&nodes[0], &mut exposed);
    let mut gets = Vec::new();
    for node in &mut nodes[1..] {
        let mut data = vec![0; LEN];
        let token = begin(node, from, &mut data, key, 0);
        gets.push((token, data));
    }
    // No process reads for a while: the send buffers are full.
    for _ in 0..2000 {
        nodes[0].poll();
    }
    // One process ends meanwhile.
    let away = nodes.pop().unwrap();
    let (_, unread) = gets.pop().unwrap();
    let gone = away.peer;
    drop(away);
    poll_until(&mut nodes, "gets", |nodes| {
        let mut all = nodes[1..].iter().zip(&gets);
        all.all(|(node, (token, _))| node.sinks[0].completed.contains_key(&token.0))
    });
    for (node, (token, data)) in nodes[1..].iter_mut().zip(&gets) {
        assert_eq!(take(node, *token), Some(Ok(())));
        assert!(*data == exposed);
    }
    drop(unread);
    let lost = &nodes[0].sinks[0].lost;
    assert!(lost.iter().all(|(peer, _)| *peer == gone), "{lost:?}");

    // The end of one process does not delay later gets.
    for at in 1..nodes.len() {
        let mut data = vec![0; LEN];
        let token = begin(&mut nodes[at], from, &mut data, key, 0);
        poll_until(&mut nodes, "a get", |nodes| {
            nodes[at].sinks[0].completed.contains_key(&token.0)
        });
        assert_eq!(take(&mut nodes[at], token), Some(Ok(())));
        assert!(data == exposed);
    }
}

#[test]
fn a_broken_connection_ends_answers() {
    const LEN: usize = 20 << 20;
    let mut nodes = processes(2);
    let from = nodes[0].peer;
    let mut exposed = vec![3; LEN];
    let key = expose(&nodes[0], &mut exposed);
    let mut data = vec![0; LEN];
    let token = begin(&mut nodes[1], from, &mut data, key, 0);
    for _ in 0..2000 {
        nodes[0].poll();
    }
    nodes[0].reset_connections();
    poll_until(&mut nodes, "the end", |nodes| {
        nodes[1].sinks[0].completed.contains_key(&token.0) && !nodes[0].sinks[0].lost.is_empty()
    });
    assert!(take(&mut nodes[1], token).unwrap().is_err());
    assert_eq!(nodes[0].sinks[0].lost.len(), 1);
}

#[test]
fn an_unmapped_page_ends_only_its_connection() {
    const LEN: usize = 1 << 20;
    let mut nodes = processes(2);
    let from = nodes[0].peer;
    // SAFETY: a new mapping of this length that stays; no reference covers the half that is
    // unmapped.
    let place = unsafe {
        let none = std::ptr::null_mut();
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let place = libc::mmap(none, LEN, rights, flags, -1, 0);
        assert!(place != libc::MAP_FAILED);
        assert_eq!(
            libc::mprotect(place.add(LEN / 2), LEN / 2, libc::PROT_NONE),
            0
        );
        place.cast::<u8>()
    };
    // SAFETY: wrong on purpose, like a program that unmaps memory of a window; no reference covers
    // it.
    let key = unsafe { nodes[0].transport.expose(place, LEN) }.unwrap();
    let mut data = vec![0; LEN];
    let token = begin(&mut nodes[1], from, &mut data, key, 0);
    poll_until(&mut nodes, "an end", |nodes| {
        nodes[1].sinks[0].completed.contains_key(&token.0)
    });
    assert!(take(&mut nodes[1], token).unwrap().is_err());
}
