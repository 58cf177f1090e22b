//! Strangers where descriptors are few. The limit is the process's, so this test has a program of
//! its own.

mod common;

use std::io::Write;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use common::{caller, hello, pair, poll_until};
use netmod::{Header, Payload, Transport};
use rustix::net::{AddressFamily, SocketType};
use rustix::process::{Resource, Rlimit, setrlimit};

/// Neither idle strangers nor those that send a hello without a proof cost the job a connection or
/// keep a process of the job out.
#[test]
fn strangers_do_not_exhaust_descriptors() {
    let mut nodes = pair(1);
    let there = nodes[1].peer;
    poll_until(&mut nodes, "contact", |nodes| {
        nodes[0].lanes[0]
            .send(there, 0, &Header([1; 3]), Payload::Bytes(&[]))
            .is_ok()
    });
    poll_until(&mut nodes, "a message", |nodes| {
        nodes[1].sinks[0].messages.pop().is_some()
    });
    let before = nodes[1].accepted();
    assert_eq!(before.len(), 1);
    let port = nodes[1].port();
    // A process of the job with a descriptor outside of this process's limit.
    let late: OwnedFd = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    let strangers: Vec<TcpStream> = (0..60)
        .map(|number| {
            let mut stranger = TcpStream::connect(("127.0.0.1", port)).unwrap();
            if number % 2 == 0 {
                stranger.write_all(&hello(number, there)).unwrap();
            }
            stranger
        })
        .collect();
    // Descriptors for a third of them.
    let files = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let used: Vec<u64> = files
        .filter_map(|file| file.file_name().to_str()?.parse().ok())
        .collect();
    let mut free = (0..).filter(|number| !used.contains(number));
    let most = free.nth(20).unwrap();
    let few = Rlimit {
        current: Some(most),
        maximum: Some(most),
    };
    setrlimit(Resource::Nofile, few).unwrap();
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(2) {
        nodes.iter_mut().for_each(|node| _ = node.poll());
    }
    let place = std::net::SocketAddr::from(([127, 0, 0, 1], port));
    rustix::net::connect(&late, &place).unwrap();
    let record = nodes[1].transport.address(0);
    let admitted = caller(TcpStream::from(late), &record, 77, there);
    let start = Instant::now();
    while !admitted.is_finished() {
        nodes.iter_mut().for_each(|node| _ = node.poll());
        assert!(start.elapsed() < Duration::from_secs(10), "not admitted");
    }
    let late = admitted.join().unwrap();
    drop(strangers);
    for _ in 0..1000 {
        nodes.iter_mut().for_each(|node| _ = node.poll());
    }
    let after = nodes[1].accepted();
    assert!(after.len() == 2 && after.contains(&before[0]), "{after:?}");
    assert!(nodes.iter().all(|node| node.sinks[0].lost.is_empty()));
    drop(late);
}
