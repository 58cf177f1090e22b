//! Calls that come while a process computes, and calls that come through in one direction only.

mod common;

use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use common::{nodes, pair, poll_until};
use netmod::Header;

/// All of a job may call a process that computes.
#[test]
fn calls_wait_for_who_computes() {
    let nodes = pair(1);
    let place = std::net::SocketAddr::from(([127, 0, 0, 1], nodes[1].port()));
    let callers: Vec<TcpStream> = (0..300)
        .map_while(|_| TcpStream::connect_timeout(&place, Duration::from_millis(500)).ok())
        .collect();
    assert_eq!(callers.len(), 300);
}

/// Both call, and the call that would count never comes through: the other one counts then.
#[test]
fn a_call_that_is_refused_gives_way_to_one_that_comes_through() {
    let mut nodes = nodes(2, 1);
    // Somebody between them, who ends all calls of the lower one.
    let between = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = between.local_addr().unwrap().port();
    std::thread::spawn(move || while between.accept().is_ok() {});
    let (low, high) = (nodes[0].peer, nodes[1].peer);
    // Only the lower one asks where the higher one is.
    if let Some(record) = nodes[0].directory.0.lock().unwrap().get_mut(&(high, 0)) {
        record[33..35].copy_from_slice(&port.to_le_bytes());
    }
    let start = Instant::now();
    let mut sent = [false; 2];
    poll_until(&mut nodes, "both messages", |nodes| {
        for (from, to) in [(0, high), (1, low)] {
            let header = Header([from as u64; 3]);
            sent[from] = sent[from] || nodes[from].lanes[0].send(to, 0, &header, b"hello").is_ok();
        }
        sent == [true; 2] && nodes.iter().all(|node| !node.sinks[0].messages.is_empty())
    });
    for node in &nodes {
        assert!(node.sinks[0].lost.is_empty(), "{:?}", node.sinks[0].lost);
    }
    assert!(start.elapsed() < Duration::from_secs(8));
}
