//! Several lanes, several nodes in one process, wake-ups, and addresses.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use netmod::{Header, LaneError, Payload, WakeUp};

use super::case::{Case, always, wakes};
use super::node::{
    Directory, LIMIT, Node, PEERS, Random, connect, is_woken, node, pair, poll_until,
};
use super::variant::{End, Topic, Variant};

pub(super) const CASES: &[Case] = &[
    Case::new(
        "five_lanes_are_independent",
        Topic::Lanes,
        always,
        five_lanes,
    ),
    Case::new(
        "lanes_work_from_several_threads",
        Topic::Lanes,
        always,
        threads,
    ),
    Case::new(
        "many_senders_reach_one_receiver",
        Topic::Lanes,
        always,
        many_senders,
    ),
    Case::new("the_wake_up_comes", Topic::WakeUp, wakes, wake_up),
    Case::new(
        "each_lane_has_its_own_wake_up",
        Topic::WakeUp,
        wakes,
        wake_ups_apart,
    ),
    Case::new(
        "unusable_addresses_are_explained",
        Topic::Addresses,
        always,
        addresses,
    ),
];

fn five_lanes(variant: &Variant) {
    let mut random = Random::new();
    let mut nodes = pair(variant, 5);
    let each = variant.effort.per_lane;
    let most = nodes[0].transport.limits().max_payload.min(5000);
    // From each lane of both nodes to every lane of the other, and to lane 0 of the same node.
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
                    let len = random.length(most);
                    let payload = vec![from as u8; len];
                    match nodes[n].lanes[from].send(
                        other,
                        to as u16,
                        &header,
                        Payload::Bytes(&payload),
                    ) {
                        Ok(_) => *seq += 1,
                        Err(LaneError::Again) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        }
        for (from, seq) in next_self.iter_mut().enumerate() {
            if *seq < each {
                let header = Header([*seq, from as u64, 0]);
                match nodes[0].lanes[from].send(PEERS[0], 0, &header, Payload::Bytes(&[from as u8]))
                {
                    Ok(_) => *seq += 1,
                    Err(LaneError::Again) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
        let has = |node: &Node, lane: usize, count| {
            node.sinks[lane].messages.len() as u64 == each * count
        };
        has(&nodes[0], 0, 10)
            && (1..5).all(|lane| has(&nodes[0], lane, 5))
            && (0..5).all(|lane| has(&nodes[1], lane, 5))
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

fn threads(variant: &Variant) {
    let nodes = pair(variant, 4);
    let total = variant.effort.per_thread;
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
                let mut sent = 0_u64;
                while (b.1.messages.len() as u64) < total {
                    if sent < total {
                        let header = Header([sent, 0, 0]);
                        let payload = [vci as u8; 700];
                        let payload = &payload[..(sent % 700) as usize];
                        match a.0.send(PEERS[1], vci, &header, Payload::Bytes(payload)) {
                            Ok(_) => sent += 1,
                            Err(LaneError::Again) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                    a.0.poll(&mut a.1, 16);
                    b.0.poll(&mut b.1, 16);
                    assert!(start.elapsed() < LIMIT);
                }
                for (i, (from, header, _)) in b.1.messages.iter().enumerate() {
                    assert_eq!((*from, header.0[0]), (PEERS[0], i as u64));
                }
            });
        }
    });
}

fn many_senders(variant: &Variant) {
    let (senders, each) = (variant.effort.senders, variant.effort.per_sender);
    let directory = Arc::new(Directory::default());
    let mut receiver = node(variant, PEERS[0], End::First, &directory, 1);
    let sizes = [0, 1, 87, 88, 89, 600, 1000];
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for sender in 0..senders {
            let (directory, done) = (&directory, &done);
            scope.spawn(move || {
                let me = 10 + sender;
                let mut node = node(variant, me, End::Second, directory, 1);
                let mut sent = 0;
                while !done.load(Ordering::Relaxed) {
                    if sent < each {
                        let payload = vec![sent as u8; sizes[sent as usize % sizes.len()]];
                        let header = Header([sent, !sent, me.into()]);
                        match node.lanes[0].send(PEERS[0], 0, &header, Payload::Bytes(&payload)) {
                            Ok(_) => sent += 1,
                            Err(LaneError::Again) => {
                                node.poll();
                                std::thread::yield_now();
                            }
                            Err(error) => panic!("{error}"),
                        }
                    } else if !node.poll() {
                        std::thread::yield_now();
                    }
                }
            });
        }
        // Ends the senders even if the receiver panics.
        struct Ends<'a>(&'a AtomicBool);
        impl Drop for Ends<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let _ends = Ends(&done);
        let start = Instant::now();
        let mut next = vec![0_u64; senders as usize];
        while next.iter().any(|&count| count < each) {
            if !receiver.poll() {
                std::thread::yield_now();
            }
            for (from, header, payload) in receiver.sinks[0].messages.drain(..) {
                let next = &mut next[(from - 10) as usize];
                assert_eq!(header.0, [*next, !*next, from.into()], "order from {from}");
                assert!(payload == vec![*next as u8; sizes[*next as usize % sizes.len()]]);
                *next += 1;
            }
            assert!(
                start.elapsed() < LIMIT,
                "{next:?} of {each} messages have arrived"
            );
        }
    });
}

fn wake_up(variant: &Variant) {
    let mut nodes = pair(variant, 1);
    connect(&mut nodes);
    let wake_up = nodes[1].lanes[0].wake_up();
    let long = 9000.min(nodes[0].transport.limits().max_payload);
    let mut false_alarms = 0;
    for i in 0..20 {
        let start = Instant::now();
        while !nodes[1].lanes[0].arm() {
            nodes[1].poll();
            assert!(start.elapsed() < LIMIT, "never quiet");
        }
        // A spurious wake-up costs one poll.
        false_alarms += u32::from(is_woken(wake_up, Duration::from_millis(5)));
        let payload = vec![1; if i % 2 == 0 { 8 } else { long }];
        let header = Header::default();
        nodes[0].lanes[0]
            .send(PEERS[1], 0, &header, Payload::Bytes(&payload))
            .unwrap();
        // The sender's side may need polls too.
        nodes[0].poll();
        let woken = is_woken(wake_up, Duration::from_secs(5));
        assert!(woken, "no wake-up (round {i})");
        nodes[1].lanes[0].disarm();
        poll_until(&mut nodes, "message", |nodes| {
            !nodes[1].sinks[0].messages.is_empty()
        });
        nodes[1].sinks[0].messages.clear();
    }
    assert!(
        false_alarms <= variant.false_alarms,
        "{false_alarms} spurious wake-ups"
    );
    // A lane does not sleep on a message that has arrived.
    nodes[0].lanes[0]
        .send(PEERS[1], 0, &Header::default(), Payload::Bytes(&[1; 8]))
        .unwrap();
    nodes[0].poll();
    std::thread::sleep(Duration::from_millis(20));
    if nodes[1].lanes[0].arm() {
        let woken = is_woken(wake_up, Duration::from_secs(5));
        assert!(woken, "the lane sleeps though a message has arrived");
    }
}

fn wake_ups_apart(variant: &Variant) {
    let nodes = pair(variant, 2);
    let name = |wake_up: WakeUp| match wake_up {
        WakeUp::None => panic!("no wake-up"),
        WakeUp::Fd(fd) => fd as usize,
        WakeUp::Futex(word) => word as usize,
    };
    let lanes = nodes.iter().flat_map(|node| &node.lanes);
    let mut names: Vec<usize> = lanes.map(|lane| name(lane.wake_up())).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 4);
}

fn addresses(variant: &Variant) {
    let mut nodes = pair(variant, 1);
    let header = Header::default();
    let directory = nodes[0].directory.clone();
    let lane = &mut nodes[0].lanes[0];
    let mut why = |peer, vci| match lane.send(peer, vci, &header, Payload::Bytes(&[])) {
        Err(LaneError::PeerLost(lost)) if lost.peer == peer => lost.why,
        other => panic!("{other:?}"),
    };
    // The resolver's error.
    assert!(why(50, 0).contains("no VCI 0"));
    assert!(why(PEERS[1], 7).contains("no VCI 7"));
    for (peer, address) in [(51, &b""[..]), (52, b"\xff123"), (53, b"\x05verbs12345678")] {
        directory.add(peer, 0, address.to_vec());
        assert!(!why(peer, 0).is_empty());
    }
}
