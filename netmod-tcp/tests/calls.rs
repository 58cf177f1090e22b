//! Connections to a process that computes, and connections that are possible in one direction only.

mod common;

use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use common::{nodes, pair, poll_until};
use netmod::Header;

/// All processes of a job may connect to one that computes.
#[test]
fn connections_wait_for_a_computing_process() {
    let nodes = pair(1);
    let place = std::net::SocketAddr::from(([127, 0, 0, 1], nodes[1].port()));
    let callers: Vec<TcpStream> = (0..300)
        .map_while(|_| TcpStream::connect_timeout(&place, Duration::from_millis(500)).ok())
        .collect();
    assert_eq!(callers.len(), 300);
}

/// Both ends connect, and the connection that would count never succeeds: the other one counts
/// then.
#[test]
fn a_refused_connection_yields_to_the_other_direction() {
    let mut nodes = nodes(2, 1);
    // A stand-in for a firewall, which ends all connections of the lower process.
    let between = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = between.local_addr().unwrap().port();
    std::thread::spawn(move || while between.accept().is_ok() {});
    let (low, high) = (nodes[0].peer, nodes[1].peer);
    // Only the lower process resolves this address.
    if let Some(record) = nodes[0].directory.0.lock().unwrap().get_mut(&(high, 0)) {
        record[33..35].copy_from_slice(&port.to_le_bytes());
    }
    let start = Instant::now();
    let mut sent = [false; 2];
    poll_until(&mut nodes, "both messages", |nodes| {
        for (from, to) in [(0, high), (1, low)] {
            let header = Header([from as u64; 3]);
            sent[from] = sent[from]
                || nodes[from].lanes[0]
                    .send(to, 0, &header, netmod::Payload::Bytes(b"hello"))
                    .is_ok();
        }
        sent == [true; 2] && nodes.iter().all(|node| !node.sinks[0].messages.is_empty())
    });
    for node in &nodes {
        assert!(node.sinks[0].lost.is_empty(), "{:?}", node.sinks[0].lost);
    }
    assert!(start.elapsed() < Duration::from_secs(8));
}
