//! Long gets over several connections.

mod common;

use common::{Node, Random, nodes_with, poll_until};
use netmod::{Header, Issued, LaneError, Payload, RemoteAccess, RemoteAddr, Token, Transport};

/// Two processes with four open connections between their VCIs.
fn pair() -> Vec<Node> {
    let mut nodes = nodes_with(2, 1, |name| {
        (name == "WEFT_TCP_STREAMS").then(|| "4".to_string())
    });
    let there = nodes[1].peer;
    while nodes[0].lanes[0]
        .send(there, 0, &Header([0; 3]), Payload::Bytes(&[]))
        .is_err()
    {
        nodes.iter_mut().for_each(|node| _ = node.poll());
    }
    poll_until(&mut nodes, "contact", |nodes| {
        !nodes[1].sinks[0].messages.is_empty()
    });
    nodes
}

fn begin(node: &mut Node, from: u32, to: &mut [u8], remote: RemoteAddr) -> Token {
    let token = node.token();
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

fn end(nodes: &mut [Node], token: Token) -> Result<(), LaneError> {
    poll_until(nodes, "a get", |nodes| {
        nodes[0].sinks[0].completed.contains_key(&token.0)
    });
    nodes[0].sinks[0].completed.remove(&token.0).unwrap()
}

#[test]
fn long_gets_are_split_over_connections() {
    const LEN: usize = 12 << 20;
    let mut nodes = pair();
    let there = nodes[1].peer;
    let mut random = Random::new();
    let mut exposed = random.bytes(LEN);
    // SAFETY: the memory outlives the exposure.
    let key = unsafe { nodes[1].transport.expose(exposed.as_mut_ptr(), LEN) }.unwrap();
    for _ in 0..20 {
        let mut gets = Vec::new();
        for _ in 0..1 + random.below(3) {
            let len = (1 << 20) + random.below(LEN - (1 << 20) + 1);
            let offset = random.below(LEN - len + 1);
            let mut data = vec![0; len];
            let remote = RemoteAddr {
                key,
                offset: offset as u64,
            };
            let token = begin(&mut nodes[0], there, &mut data, remote);
            gets.push((token, data, offset));
        }
        // Messages continue meanwhile.
        let sent = nodes[0].lanes[0].send(there, 0, &Header([1; 3]), Payload::Bytes(&[7; 100]));
        assert!(sent.is_ok() || sent == Err(LaneError::Again), "{sent:?}");
        for (token, data, offset) in gets {
            end(&mut nodes, token).unwrap();
            assert!(data == exposed[offset..offset + data.len()]);
        }
    }
    assert_eq!(nodes[1].connections(), 4);

    // A get beyond the end fails as a whole, after all of its parts have ended.
    let mut data = vec![0; 8 << 20];
    let remote = RemoteAddr {
        key,
        offset: (LEN - (4 << 20)) as u64,
    };
    let token = begin(&mut nodes[0], there, &mut data, remote);
    let error = end(&mut nodes, token).unwrap_err();
    assert!(error.to_string().contains("does not expose"), "{error}");
    let remote = RemoteAddr { key, offset: 0 };
    let token = begin(&mut nodes[0], there, &mut data, remote);
    end(&mut nodes, token).unwrap();
    assert!(data == exposed[..8 << 20]);

    // The end of the peer ends each get once.
    let token = begin(&mut nodes[0], there, &mut data, remote);
    nodes[1].break_connections();
    assert!(end(&mut nodes[..1], token).is_err());
    for _ in 0..100 {
        nodes[0].poll();
    }
    assert!(nodes[0].sinks[0].completed.is_empty());
    assert_eq!(nodes[0].sinks[0].lost.len(), 1);
}

/// The first connection has asked for all that others owe, so a get survives their loss, whenever it
/// comes; later ones do without them.
#[test]
fn the_first_connection_fetches_what_others_owed() {
    const LEN: usize = 16 << 20;
    let mut random = Random::new();
    let mut exposed = random.bytes(LEN);
    for round in 0..12 {
        let mut nodes = pair();
        let there = nodes[1].peer;
        // SAFETY: the memory outlives the exposure.
        let key = unsafe { nodes[1].transport.expose(exposed.as_mut_ptr(), LEN) }.unwrap();
        let remote = RemoteAddr { key, offset: 0 };
        let first = nodes[1].accepted();
        assert_eq!(first.len(), 1);
        let mut data = vec![0; LEN];
        let mut after = 0;
        while after < 5 {
            let token = begin(&mut nodes[0], there, &mut data, remote);
            end(&mut nodes, token).unwrap();
            after += usize::from(nodes[1].accepted().len() == 4);
        }
        data.fill(0);
        let token = begin(&mut nodes[0], there, &mut data, remote);
        for _ in 0..random.below(60) {
            nodes.iter_mut().for_each(|node| _ = node.poll());
        }
        for (fd, port) in nodes[1].accepted() {
            if !first.contains(&(fd, port)) {
                common::end_connection(fd, round % 2 == 0);
            }
        }
        end(&mut nodes, token).unwrap();
        assert!(data == exposed);
        data.fill(0);
        let token = begin(&mut nodes[0], there, &mut data, remote);
        end(&mut nodes, token).unwrap();
        assert!(data == exposed);
        assert_eq!(nodes[0].connections() + nodes[1].connections(), 1);
        for node in &nodes {
            assert!(node.sinks[0].lost.is_empty(), "{:?}", node.sinks[0].lost);
        }
    }
}
