//! The kernel's view of connections: a peer that reads nothing for long, the epoll set, two calls
//! for a message.

mod common;

use std::time::{Duration, Instant};

use common::{Node, pair, poll_until};
use netmod::{Header, Issued, LaneError, Payload, WakeUp};

/// A time longer than a host may be silent.
const LONG: Duration = Duration::from_secs(13);

/// Connects both ends.
fn meet(nodes: &mut [Node]) {
    for (from, to) in [(0, 1), (1, 0)] {
        let peer = nodes[to].peer;
        let header = Header([9; 3]);
        poll_until(nodes, "contact", |nodes| {
            nodes[from].lanes[0]
                .send(peer, 0, &header, Payload::Bytes(&[]))
                .is_ok()
        });
        poll_until(nodes, "the first message", |nodes| {
            nodes[to].sinks[0].messages.pop().is_some()
        });
    }
}

/// A process that computes reads nothing. Its host still answers that its buffer is full, which is
/// no silence.
#[test]
fn a_peer_that_computes_for_long_is_not_lost() {
    let mut nodes = pair(1);
    meet(&mut nodes);
    let there = nodes[1].peer;
    // More data than both kernels' buffers hold.
    let data = vec![7_u8; 256 << 10];
    let mut count = 0;
    let last = loop {
        let token = nodes[0].token();
        let block = [netmod::IoVec {
            ptr: data.as_ptr().cast_mut(),
            len: data.len(),
        }];
        // SAFETY: the data stays until the end of the test.
        let lent = unsafe { netmod::Vectored::new(&block, Some(token)) };
        let sent = nodes[0].lanes[0].send(there, 0, &Header([1; 3]), Payload::Vectored(lent));
        match sent {
            Ok(Issued::Pending) => break token,
            Ok(Issued::Complete) => count += 1,
            Err(error) => assert_eq!(error, LaneError::Again),
        }
        nodes[0].poll();
    };
    let start = Instant::now();
    while start.elapsed() < LONG {
        nodes[0].poll();
        let Node { lanes, sinks, .. } = &mut nodes[0];
        lanes[0].check_peers(&[there], &mut sinks[0]);
        assert!(sinks[0].lost.is_empty(), "{:?}", sinks[0].lost);
        std::thread::sleep(Duration::from_millis(20));
    }
    poll_until(&mut nodes, "the messages", |nodes| {
        nodes[1].sinks[0].messages.len() > count
    });
    assert_eq!(nodes[0].sinks[0].completed.get(&last.0), Some(&Ok(())));
}

/// Lists the descriptors in an epoll set.
fn watched(node: &Node) -> usize {
    let WakeUp::Fd(epoll) = node.lanes[0].wake_up() else {
        panic!("no descriptor");
    };
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{epoll}")).unwrap();
    text.lines().filter(|line| line.starts_with("tfd:")).count()
}

fn is_readable(node: &Node, wait: i32) -> bool {
    let WakeUp::Fd(fd) = node.lanes[0].wake_up() else {
        panic!("no descriptor");
    };
    let events = libc::POLLIN;
    let revents = 0;
    let mut entry = libc::pollfd {
        fd,
        events,
        revents,
    };
    // SAFETY: one entry, which the call reads and writes.
    unsafe { libc::poll(&mut entry, 1, wait) > 0 }
}

/// A busy connection leaves the epoll set, and joins it again before a sleep.
#[test]
fn a_busy_connection_is_watched_only_by_sleepers() {
    let mut nodes = pair(1);
    meet(&mut nodes);
    let before = watched(&nodes[1]);
    for round in 0..3 {
        for _ in 0..100 {
            let peer = nodes[1].peer;
            nodes[0].lanes[0]
                .send(peer, 0, &Header([2; 3]), Payload::Bytes(&[1]))
                .unwrap();
            poll_until(&mut nodes, "a message", |nodes| {
                nodes[1].sinks[0].messages.pop().is_some()
            });
        }
        assert_eq!(watched(&nodes[1]), before - 1, "round {round}");
        while !nodes[1].lanes[0].arm() {
            nodes[1].poll();
        }
        assert_eq!(watched(&nodes[1]), before);
        assert!(!is_readable(&nodes[1], 0));
        let peer = nodes[1].peer;
        nodes[0].lanes[0]
            .send(peer, 0, &Header([2; 3]), Payload::Bytes(&[1]))
            .unwrap();
        assert!(is_readable(&nodes[1], 5_000), "nobody is woken");
        nodes[1].lanes[0].disarm();
        poll_until(&mut nodes, "the message", |nodes| {
            nodes[1].sinks[0].messages.pop().is_some()
        });
    }
}

/// Data of two segments leaves in two calls and keeps its order with frames between and behind
/// them, also where the kernel takes only a part.
#[test]
fn messages_of_two_segments_arrive_whole() {
    let mut nodes = pair(1);
    meet(&mut nodes);
    let there = nodes[1].peer;
    let sizes = [60 << 10, 65_471, 65_472, 1 << 16, 80_000, 130_000, 131_000];
    let data: Vec<u8> = (0..200_000_u32).map(|at| (at % 251) as u8).collect();
    let mut sent = Vec::new();
    for round in 0..40 {
        let len = sizes[round % sizes.len()];
        let payload = &data[round..round + len];
        let header = Header([round as u64; 3]);
        let token = nodes[0].token();
        let lane = &mut nodes[0].lanes[0];
        let block = [netmod::IoVec {
            ptr: payload.as_ptr().cast_mut(),
            len,
        }];
        // SAFETY: the data stays until the end of the test.
        let vectored = |token| Payload::Vectored(unsafe { netmod::Vectored::new(&block, token) });
        let payload = match round % 3 {
            0 => Payload::Bytes(payload),
            1 => vectored(None),
            _ => vectored(Some(token)),
        };
        match lane.send(there, 0, &header, payload) {
            Ok(_) => sent.push((header, round, len)),
            Err(error) => assert!(
                matches!(error, LaneError::Again | LaneError::Unsupported),
                "{error:?}"
            ),
        }
        // The receiver falls behind, so that the send buffer fills up.
        nodes[0].poll();
        if round % 10 == 9 {
            nodes[1].poll();
        }
    }
    assert!(sent.len() > 15);
    poll_until(&mut nodes, "all of them", |nodes| {
        nodes[1].sinks[0].messages.len() == sent.len()
    });
    for ((_, header, payload), (wanted, from, len)) in nodes[1].sinks[0].messages.iter().zip(sent) {
        assert_eq!(*header, wanted);
        assert!(payload[..] == data[from..from + len]);
    }
}
