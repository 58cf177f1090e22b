//! Splits long gets over several connections. Each fetches a part at a time, so that faster ones
//! fetch more.
//!
//! The first connection of two VCIs carries all messages, puts and atomics and thus keeps their
//! order; gets have none. So the loss of another connection loses nothing: the first one fetches what
//! that one owed.

use std::net::SocketAddr;

use netmod::{Peer, RemoteAddr, Token};
use netmod_kit::{Notice, event};

use crate::conn::NOBODY;
use crate::interfaces::Interface;
use crate::lane::{Endpoint, State, TcpLane};
use crate::ops::{Act, Op, Part, Rest};
use crate::receive::not_exposed;
use crate::socket::Socket;
use crate::wire::{FrameKind, words};

/// Bytes. Gets of at least this size are split.
pub(crate) const LEAST: usize = 1 << 20;

/// Smallest and largest part, in bytes.
const PARTS: (usize, usize) = (256 << 10, 4 << 20);

/// Parts requested ahead on each connection, so that none idles.
const AHEAD: usize = 2;

/// Sorts the addresses to connect to: those on a network of this host first, and of these the one
/// for this stream.
pub(crate) fn sort(places: &mut [SocketAddr], interfaces: &[Interface], stream: u8) {
    let through = |place: &SocketAddr| {
        let mut near = interfaces.iter().enumerate();
        let near = near.find(|(_, it)| it.subnet.contains(place.ip()));
        near.map(|(number, it)| {
            let mut same = interfaces.iter();
            same.position(|other| other.name == it.name)
                .unwrap_or(number)
        })
    };
    places.sort_by_key(|place| through(place).is_none());
    // The first address on each interface.
    let mut seen = Vec::new();
    let firsts: Vec<usize> = (0..places.len())
        .filter(|&at| {
            let new = through(&places[at]).filter(|number| !seen.contains(number));
            seen.extend(new);
            new.is_some()
        })
        .collect();
    if !firsts.is_empty() {
        let at = firsts[usize::from(stream) % firsts.len()];
        places[..=at].rotate_right(1);
    }
}

impl<S: Socket> TcpLane<S> {
    /// Returns the endpoint of a stream to a VCI, made on first use.
    pub(crate) fn stream_of(&mut self, first: u32, stream: u8) -> u32 {
        let Some(place) = usize::from(stream).checked_sub(1) else {
            return first;
        };
        while self.endpoints[first as usize].others.len() <= place {
            let index = self.endpoints.len() as u32;
            let Endpoint { peer, vci, .. } = self.endpoints[first as usize];
            let others = &mut self.endpoints[first as usize].others;
            others.push(index);
            let stream = others.len() as u8;
            self.endpoints.push(Endpoint::new(peer, vci, stream));
        }
        self.endpoints[first as usize].others[place]
    }

    /// Returns the streams of a VCI that can be used now. Begins to connect the others.
    fn streams_of(&mut self, first: u32) -> Vec<u32> {
        let mut all = vec![first];
        for stream in 1..self.shared.config.streams {
            let index = self.stream_of(first, stream);
            match &self.endpoints[index as usize].state {
                State::Open(conn) if !conn.waits() => all.push(index),
                State::Idle if self.open < self.shared.config.most => self.call(index),
                _ => {}
            }
        }
        all
    }

    /// Requests memory over all streams of a VCI.
    pub(crate) fn share_get(
        &mut self,
        first: u32,
        local: *mut u8,
        len: usize,
        remote: RemoteAddr,
        token: Token,
    ) {
        let peer = self.endpoints[first as usize].peer;
        let all = self.streams_of(first);
        let part = len.div_ceil(2 * AHEAD * all.len()).clamp(PARTS.0, PARTS.1);
        let rest = Rest {
            local,
            len,
            number: remote.key.words[0],
            offset: remote.offset,
            part: part.next_multiple_of(4096),
        };
        let act = Act::Shared {
            rest,
            open: 0,
            failed: false,
        };
        let whole = self.ops.add(Op { token, peer, act });
        for _ in 0..AHEAD {
            for &index in &all {
                self.ask_part(index, peer, whole);
            }
        }
    }

    /// Requests the next part of a get, if there is one.
    fn ask_part(&mut self, index: u32, peer: Peer, whole: u64) {
        let Some(Act::Shared { rest, open, failed }) =
            self.ops.get(whole, peer).map(|op| &mut op.act)
        else {
            return;
        };
        if *failed || rest.len == 0 {
            return;
        }
        let asked = Rest {
            len: rest.part.min(rest.len),
            ..*rest
        };
        rest.local = rest.local.wrapping_add(asked.len);
        rest.offset = rest.offset.wrapping_add(asked.len as u64);
        rest.len -= asked.len;
        *open += 1;
        let act = Act::Get {
            local: asked.local,
            len: asked.len,
            filled: 0,
            part: Some(Part { whole, index }),
        };
        let token = NOBODY;
        let cookie = self.ops.add(Op { token, peer, act });
        let fixed = words::<4, 32>([asked.number, asked.offset, asked.len as u64, cookie]);
        if let Some(conn) = self.conn(index) {
            conn.append(FrameKind::Get, 0, &fixed, &[]);
        }
        self.write(index);
    }

    /// Gives up a stream that has broken, and requests the parts that it owes over the first one.
    /// Returns `false` if it is the first one, or that one is not open.
    #[cold]
    pub(crate) fn give_up(&mut self, index: u32, why: &str) -> bool {
        let Endpoint {
            peer, vci, stream, ..
        } = self.endpoints[index as usize];
        let first = self.index_of(peer, vci);
        if stream == 0 || self.conn(first).is_none() {
            return false;
        }
        event!(
            Tcp,
            Info,
            "process {peer} VCI {vci} stream {stream}: given up: {why}"
        );
        let endpoint = &mut self.endpoints[index as usize];
        if let State::Open(_) = std::mem::replace(&mut endpoint.state, State::Off) {
            self.open -= 1;
            self.streams -= 1;
        }
        for cookie in self.ops.parts(index) {
            self.ask_again(cookie, peer, first);
        }
        self.write(first);
        true
    }

    /// Requests a part again, over another stream.
    fn ask_again(&mut self, cookie: u64, peer: Peer, over: u32) {
        let Some(&mut Act::Get {
            local,
            len,
            ref mut filled,
            part: Some(Part {
                whole,
                ref mut index,
            }),
        }) = self.ops.get(cookie, peer).map(|op| &mut op.act)
        else {
            return;
        };
        (*filled, *index) = (0, over);
        let Some(&mut Act::Shared { rest, .. }) = self.ops.get(whole, peer).map(|op| &mut op.act)
        else {
            return;
        };
        let before = rest.local.addr().wrapping_sub(local.addr());
        let offset = rest.offset.wrapping_sub(before as u64);
        let fixed = words::<4, 32>([rest.number, offset, len as u64, cookie]);
        if let Some(conn) = self.conn(over) {
            conn.append(FrameKind::Get, 0, &fixed, &[]);
        }
    }

    /// Handles the end of a part: it has arrived, or was refused.
    pub(crate) fn part_is_over(&mut self, index: u32, part: &Act, well: bool) {
        let peer = self.endpoints[index as usize].peer;
        let &Act::Get {
            part: Some(Part { whole, .. }),
            ..
        } = part
        else {
            return;
        };
        let Some(Act::Shared { open, failed, .. }) =
            self.ops.get(whole, peer).map(|op| &mut op.act)
        else {
            return;
        };
        *open -= 1;
        *failed |= !well;
        self.ask_part(index, peer, whole);
        let over = match self.ops.get(whole, peer).map(|op| &op.act) {
            Some(Act::Shared {
                open: 0, failed, ..
            }) => Some(*failed),
            _ => None,
        };
        if let Some(failed) = over
            && let Some(op) = self.ops.take(whole, peer)
        {
            let result = if failed {
                Err(not_exposed(peer))
            } else {
                Ok(())
            };
            self.notices.push_back(Notice::Complete(op.token, result));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subnet::Subnet;

    #[test]
    fn streams_go_over_different_interfaces() {
        let interface = |name: &str, address: &str, subnet: &str| Interface {
            name: name.to_string(),
            address: address.parse().unwrap(),
            subnet: Subnet::parse(subnet).unwrap(),
        };
        let interfaces = [
            interface("eth0", "10.1.0.1", "10.1.0.0/16"),
            interface("eth0", "fd01::1", "fd01::/64"),
            interface("eth1", "10.2.0.1", "10.2.0.0/16"),
        ];
        let places = ["192.0.2.1:1", "10.1.0.2:1", "[fd01::2]:1", "10.2.0.2:1"];
        let called = |stream| {
            let mut places = places.map(|place| place.parse().unwrap());
            sort(&mut places, &interfaces, stream);
            places.map(|place| place.to_string())
        };
        assert_eq!(
            called(0),
            ["10.1.0.2:1", "[fd01::2]:1", "10.2.0.2:1", "192.0.2.1:1"]
        );
        assert_eq!(called(1)[..2], ["10.2.0.2:1", "10.1.0.2:1"]);
        assert_eq!(called(2), called(0));
    }
}
