//! Active messages between two nodes of one process.

use std::time::{Duration, Instant};

use netmod::{Header, IoVec, Issued, LaneError, Payload, Vectored};

use super::case::{Case, Claims, Need, always};
use super::node::{LIMIT, PEERS, Random, connect, pair, poll_until, send_polling};
use super::variant::{Topic, Variant};

const fn case(name: &'static str, run: fn(&Variant)) -> Case {
    Case::new(name, Topic::Messages, always, run)
}

pub(super) const CASES: &[Case] = &[
    case("limits_are_sound", limits_are_sound),
    case("messages_arrive_in_order_and_whole", messages_arrive),
    case("payloads_of_all_sizes_arrive", all_sizes),
    case("bundled_messages_keep_their_order", gathered),
    case("too_long_messages_are_refused", too_long),
    case("a_receiver_that_does_not_poll_pushes_back", push_back),
    case("an_idle_poll_returns_false", idle_polls),
    Case::new(
        "zero_copy_payloads_arrive_in_order_and_complete",
        Topic::Messages,
        lends,
        lent_payloads,
    ),
];

fn lends(claims: &Claims) -> Need {
    claims.need(|limits| limits.zcopy_min != usize::MAX, "no vectored sends")
}

fn limits_are_sound(variant: &Variant) {
    let [node, _] = pair(variant, 1);
    let limits = node.transport.limits();
    assert!(limits.max_payload >= 1024);
    assert!(limits.max_vcis >= 1);
    assert!(!node.transport.name().is_empty() && !node.transport.describe().is_empty());
}

fn messages_arrive(variant: &Variant) {
    let mut random = Random::new();
    let mut nodes = pair(variant, 1);
    let most = nodes[0].transport.limits().max_payload;
    let sent: Vec<Vec<u8>> = (0..variant.effort.messages)
        .map(|_| {
            let len = random.length(most);
            random.bytes(len)
        })
        .collect();
    let mut next = 0;
    let mut got = 0;
    poll_until(&mut nodes, "all messages", |nodes| {
        while next < sent.len() {
            let header = Header([next as u64, !0, 7]);
            let payload = &sent[next];
            let lane = &mut nodes[0].lanes[0];
            let result = if next % 3 == 0 {
                let mut fill = |room: &mut [u8]| room.copy_from_slice(payload);
                let payload = Payload::Fill(payload.len(), &mut fill);
                lane.send(PEERS[1], 0, &header, payload)
            } else {
                lane.send(PEERS[1], 0, &header, Payload::Bytes(payload))
            };
            match result {
                Ok(_) => next += 1,
                Err(LaneError::Again) => break,
                Err(error) => panic!("{error}"),
            }
        }
        for (from, header, payload) in nodes[1].sinks[0].messages.drain(..) {
            assert_eq!(from, PEERS[0]);
            assert_eq!(header, Header([got as u64, !0, 7]));
            assert!(payload == sent[got], "message {got} is garbled");
            got += 1;
        }
        got == sent.len()
    });
    poll_until(&mut nodes, "draining", |nodes| nodes[0].lanes[0].drained());
}

/// Sizes around each length at which transports switch protocols, each by `send` and by
/// `Payload::Fill`.
fn all_sizes(variant: &Variant) {
    let mut nodes = pair(variant, 1);
    let most = nodes[0].transport.limits().max_payload;
    let mut sizes: Vec<usize> = (0..200)
        .chain([511, 512, 513, 1023, 1024, most - 1, most])
        .collect();
    sizes.extend(
        [4095, 4096, 4097, 8191, 8192, 8193]
            .into_iter()
            .filter(|&len| len <= most),
    );
    for &len in &sizes {
        let payload = vec![len as u8; len];
        send_polling(&mut nodes, Header([len as u64, 2, 3]), &payload);
        poll_until(&mut nodes, "sending", |nodes| {
            let lane = &mut nodes[0].lanes[0];
            let header = Header([len as u64, 2, 3]);
            let mut fill = |room: &mut [u8]| room.copy_from_slice(&payload);
            match lane.send(PEERS[1], 0, &header, Payload::Fill(len, &mut fill)) {
                Ok(_) => true,
                Err(LaneError::Again) => false,
                Err(error) => panic!("{error}"),
            }
        });
    }
    poll_until(&mut nodes, "all sizes", |nodes| {
        nodes[1].sinks[0].messages.len() == 2 * sizes.len()
    });
    let got = &nodes[1].sinks[0].messages;
    for (&len, pair) in sizes.iter().zip(got.chunks(2)) {
        for (from, header, payload) in pair {
            assert_eq!((*from, *header), (PEERS[0], Header([len as u64, 2, 3])));
            assert!(*payload == vec![len as u8; len], "{len} bytes");
        }
    }
}

fn gathered(variant: &Variant) {
    let mut random = Random::new();
    let mut nodes = pair(variant, 1);
    let (mut sent, mut got, total) = (0_u64, 0_u64, variant.effort.messages as u64 / 2);
    let length = |i: u64| (i * 31 % 701) as usize;
    poll_until(&mut nodes, "all messages", |nodes| {
        // Some messages outside of a batch, as many as the lane accepts, the others inside one.
        for gathering in [false, true] {
            nodes[0].lanes[0].coalesce(gathering);
            for _ in 0..random.below(200) {
                let payload = vec![sent as u8; length(sent)];
                let header = Header([sent, !sent, 5]);
                if sent == total {
                    break;
                }
                match nodes[0].lanes[0].send(PEERS[1], 0, &header, Payload::Bytes(&payload)) {
                    Ok(_) => sent += 1,
                    Err(LaneError::Again) => break,
                    Err(error) => panic!("{error}"),
                }
            }
        }
        nodes[0].lanes[0].coalesce(false);
        for (from, header, payload) in nodes[1].sinks[0].messages.drain(..) {
            assert_eq!((from, header), (PEERS[0], Header([got, !got, 5])));
            assert_eq!(payload, vec![got as u8; length(got)]);
            got += 1;
        }
        got == total
    });
    poll_until(&mut nodes, "draining", |nodes| nodes[0].lanes[0].drained());
}

fn too_long(variant: &Variant) {
    let mut nodes = pair(variant, 1);
    connect(&mut nodes);
    let long = vec![0; nodes[0].transport.limits().max_payload + 1];
    let header = Header::default();
    let lane = &mut nodes[0].lanes[0];
    let refused = lane.send(PEERS[1], 0, &header, Payload::Bytes(&long));
    assert_eq!(refused, Err(LaneError::Unsupported));
    let mut fill = |_: &mut [u8]| panic!("the function was called for a message that is not sent");
    let payload = Payload::Fill(long.len(), &mut fill);
    let refused = lane.send(PEERS[1], 0, &header, payload);
    assert_eq!(refused, Err(LaneError::Unsupported));
}

fn push_back(variant: &Variant) {
    let mut nodes = pair(variant, 1);
    connect(&mut nodes);
    // Twice: a lane that was full accepts messages again.
    for _ in 0..2 {
        let payload = vec![5; nodes[0].transport.limits().max_payload];
        let mut sent = 0_u64;
        let mut refused_since = None;
        let start = Instant::now();
        loop {
            let [sender, _] = &mut nodes;
            let mut filled = false;
            let mut fill = |room: &mut [u8]| {
                filled = true;
                room.copy_from_slice(&payload);
            };
            let header = Header([sent, 0, 0]);
            let filled_payload = Payload::Fill(payload.len(), &mut fill);
            match sender.lanes[0].send(PEERS[1], 0, &header, filled_payload) {
                Ok(_) => {
                    sent += 1;
                    refused_since = None;
                }
                Err(LaneError::Again) => {
                    assert!(
                        !filled,
                        "the function was called for a message that is not sent"
                    );
                    sender.poll();
                    let since = *refused_since.get_or_insert_with(Instant::now);
                    if since.elapsed() > Duration::from_millis(300) {
                        break;
                    }
                }
                Err(error) => panic!("{error}"),
            }
            assert!(start.elapsed() < LIMIT);
            assert!(
                sent <= variant.backlog,
                "{sent} messages were accepted although the receiver does not poll"
            );
        }
        assert!(sent > 0);
        poll_until(&mut nodes, "what was accepted", |nodes| {
            nodes[1].sinks[0].messages.len() as u64 == sent
        });
        let messages = std::mem::take(&mut nodes[1].sinks[0].messages);
        for (i, (_, header, got)) in messages.iter().enumerate() {
            assert_eq!(header.0[0], i as u64);
            assert!(*got == payload);
        }
    }
}

fn idle_polls(variant: &Variant) {
    let mut nodes = pair(variant, 1);
    connect(&mut nodes);
    let start = Instant::now();
    let mut quiet = 0;
    while quiet < 3 {
        let any = nodes[0].poll() | nodes[1].poll();
        quiet = if any { 0 } else { quiet + 1 };
        assert!(start.elapsed() < LIMIT, "no idle poll in {LIMIT:?}");
    }
    assert!(nodes[1].sinks[0].messages.is_empty());
}

fn lent_payloads(variant: &Variant) {
    let mut random = Random::new();
    let mut nodes = pair(variant, 1);
    let limits = nodes[0].transport.limits();
    let (least, most) = (limits.zcopy_min, limits.max_payload);
    let mut sizes = vec![least, least + 1, most];
    sizes.extend((0..30).map(|_| least + random.below(most - least + 1)));
    let payloads: Vec<Vec<u8>> = sizes.iter().map(|&len| random.bytes(len)).collect();
    let mut pending = Vec::new();
    for (i, payload) in payloads.iter().enumerate() {
        let token = nodes[0].token();
        poll_until(&mut nodes, "lending", |nodes| {
            let header = Header([2 * i as u64, 1, 1]);
            let block = [IoVec {
                ptr: payload.as_ptr().cast_mut(),
                len: payload.len(),
            }];
            // SAFETY: the payloads live to the end of the case, which waits for all completions.
            let lent = Payload::Vectored(unsafe { Vectored::new(&block, Some(token)) });
            let lane = &mut nodes[0].lanes[0];
            match lane.send(PEERS[1], 0, &header, lent) {
                Ok(Issued::Complete) => true,
                Ok(Issued::Pending) => {
                    pending.push(token.0);
                    true
                }
                Err(LaneError::Again) => false,
                Err(error) => panic!("{error}"),
            }
        });
        send_polling(&mut nodes, Header([2 * i as u64 + 1, 0, 0]), b"next");
    }
    poll_until(&mut nodes, "all payloads", |nodes| {
        nodes[1].sinks[0].messages.len() == 2 * payloads.len()
    });
    for (i, (_, header, got)) in nodes[1].sinks[0].messages.iter().enumerate() {
        assert_eq!(header.0[0], i as u64);
        let expected: &[u8] = if i % 2 == 0 {
            &payloads[i / 2]
        } else {
            b"next"
        };
        assert!(got == expected, "message {i}");
    }
    poll_until(&mut nodes, "giving back", |nodes| {
        let completed = &mut nodes[0].sinks[0].completed;
        pending.retain(|token| completed.remove(token).is_none_or(|result| result.is_err()));
        pending.is_empty()
    });
}
