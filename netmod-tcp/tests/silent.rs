//! A peer that reads nothing for long.

mod common;

use std::time::{Duration, Instant};

use common::{Node, pair, poll_until};
use netmod::{Header, Issued, LaneError};

/// Longer than a host may be silent.
const LONG: Duration = Duration::from_secs(13);

/// Lets both ends know each other.
fn meet(nodes: &mut [Node]) {
    for (from, to) in [(0, 1), (1, 0)] {
        let peer = nodes[to].peer;
        let header = Header([9; 3]);
        poll_until(nodes, "contact", |nodes| {
            nodes[from].lanes[0].send(peer, 0, &header, &[]).is_ok()
        });
        poll_until(nodes, "the first message", |nodes| {
            nodes[to].sinks[0].messages.pop().is_some()
        });
    }
}

/// A process that computes reads nothing. Its host answers all the same that it has no room, and that is no silence.
#[test]
fn a_peer_that_computes_for_long_is_not_lost() {
    let mut nodes = pair(1);
    meet(&mut nodes);
    let there = nodes[1].peer;
    // More than both kernels hold.
    let data = vec![7_u8; 256 << 10];
    let mut count = 0;
    let last = loop {
        let token = nodes[0].token();
        // SAFETY: the data stays until the end of the test.
        let sent = unsafe {
            nodes[0].lanes[0].send_zcopy(
                there,
                0,
                &Header([1; 3]),
                data.as_ptr(),
                data.len(),
                token,
            )
        };
        match sent {
            Ok(Issued::Pending) => break token,
            Ok(Issued::Done) => count += 1,
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
