//! Strangers where descriptors are few. (The limit is the process's, so this test has one for itself.)

mod common;

use std::net::TcpStream;
use std::time::{Duration, Instant};

use common::{pair, poll_until};
use netmod::Header;

/// They don't cost the job a connection.
#[test]
fn strangers_get_no_descriptors_of_others() {
    let mut nodes = pair(1);
    let there = nodes[1].peer;
    poll_until(&mut nodes, "contact", |nodes| {
        nodes[0].lanes[0]
            .send(there, 0, &Header([1; 3]), &[])
            .is_ok()
    });
    poll_until(&mut nodes, "a message", |nodes| {
        nodes[1].sinks[0].messages.pop().is_some()
    });
    let before = nodes[1].accepted();
    assert_eq!(before.len(), 1);
    let port = nodes[1].port();
    let strangers: Vec<TcpStream> = (0..60)
        .map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap())
        .collect();
    // Room for a third of them.
    let files = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let used: Vec<u64> = files
        .filter_map(|file| file.file_name().to_str()?.parse().ok())
        .collect();
    let mut free = (0..).filter(|number| !used.contains(number));
    let most = free.nth(20).unwrap();
    let few = libc::rlimit {
        rlim_cur: most,
        rlim_max: most,
    };
    // SAFETY: the call reads the limit.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &few) }, 0);
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(2) {
        nodes.iter_mut().for_each(|node| _ = node.poll());
    }
    drop(strangers);
    for _ in 0..1000 {
        nodes.iter_mut().for_each(|node| _ = node.poll());
    }
    assert_eq!(nodes[1].accepted(), before);
    assert!(nodes.iter().all(|node| node.sinks[0].lost.is_empty()));
}
