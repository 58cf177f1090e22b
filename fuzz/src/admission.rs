//! Connections that prove a secret, and the sealed frames that follow.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use netmod_kit::admission::handshake::CHALLENGE;
use netmod_kit::admission::{Accepted, Initiator, Keys, Pending, Protocol, Role, Sealed, Secret};

use crate::Input;

/// A protocol with one byte of context.
const PROTOCOL: Protocol = Protocol::new(*b"WeftFuz\x01", 1);
/// The only context with a secret.
const KNOWN: u8 = 7;
/// Most unproved connections.
const SLOTS: usize = 3;
/// Most connections of an input.
const CALLS: usize = 8;
/// Most bytes of a frame's content.
const LONGEST: usize = 1000;

fn secret() -> Secret {
    Secret::from_bytes([42; Secret::LENGTH])
}

/// The calling end of a connection.
struct Caller {
    stream: UnixStream,
    /// The descriptor of the accepted end.
    accepted: RawFd,
    initiator: Option<Initiator>,
    keys: Option<Keys>,
    /// Whether the bytes sent so far are the beginning of a correct handshake.
    is_honest: bool,
    /// Bytes sent behind the proof.
    behind: Vec<u8>,
}

impl Caller {
    /// Sends bytes. Before the proof is complete, bytes other than the handshake's make the caller
    /// dishonest.
    fn send(&mut self, bytes: &[u8], is_right: bool) {
        match self.keys {
            Some(_) if self.is_honest => self.behind.extend_from_slice(bytes),
            _ => self.is_honest &= is_right || bytes.is_empty(),
        }
        let _ = self.stream.write_all(bytes);
    }

    fn hello(&mut self, context: u8) {
        if self.initiator.is_some() {
            return;
        }
        let begun = Initiator::new(&PROTOCOL, &[context], &secret());
        let (initiator, hello) = begun.expect("random numbers");
        self.send(&hello, context == KNOWN);
        self.initiator = Some(initiator);
    }

    /// Reads the challenge if it has arrived, and sends the proof with one byte changed by `change`.
    fn prove(&mut self, change: u8) {
        let mut challenge = [0; CHALLENGE];
        let Some(initiator) = &mut self.initiator else {
            return;
        };
        if self.keys.is_some() || self.stream.read_exact(&mut challenge).is_err() {
            return;
        }
        let Ok((mut proof, keys)) = initiator.answer(&challenge) else {
            // The listener answers a hello that was among the other bytes of this caller.
            assert!(!self.is_honest, "the listener knows the secret");
            return;
        };
        proof[usize::from(change) % 32] ^= change;
        self.send(&proof, change == 0);
        self.keys = Some(keys);
    }
}

/// Runs callers with and without the secret against a listener, in any order. Checks that exactly
/// the callers that prove the secret are admitted, with all bytes behind the proof.
pub fn admission(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut pending: Pending<UnixStream> = Pending::new(PROTOCOL, SLOTS, Duration::from_secs(600));
    let mut callers: Vec<Caller> = Vec::new();
    let mut arrived = VecDeque::new();
    while !input.is_empty() {
        let code = input.byte();
        let has_room = callers.len() < CALLS;
        let which = usize::from(code >> 4) % callers.len().max(1);
        let caller = callers.get_mut(which);
        match (code % 8, caller) {
            (0, _) if has_room => {
                let (near, far) = UnixStream::pair().expect("a pair of sockets");
                for end in [&near, &far] {
                    end.set_nonblocking(true).expect("a socket");
                }
                callers.push(Caller {
                    stream: near,
                    accepted: far.as_raw_fd(),
                    initiator: None,
                    keys: None,
                    is_honest: true,
                    behind: Vec::new(),
                });
                arrived.push_back(far);
            }
            (1, Some(caller)) => caller.send(input.piece(), false),
            (2, Some(caller)) => caller.hello(KNOWN),
            (3, Some(caller)) => caller.hello(input.byte()),
            (4, Some(caller)) => caller.prove(0),
            (5, Some(caller)) => caller.prove(input.byte()),
            (6, _) => {
                pending.drop_oldest();
                pending.expire(Instant::now());
            }
            _ => {}
        }
        let accept = || {
            arrived
                .pop_front()
                .ok_or_else(|| ErrorKind::WouldBlock.into())
        };
        let accepted = pending.accept(accept, |_, _| Ok(()));
        assert!(accepted != Accepted::Short || pending.len() == SLOTS);
        assert!(pending.len() <= SLOTS);
        assert_eq!(pending.descriptors().count(), pending.len());
        let known = |context: &[u8]| (context == [KNOWN]).then(secret);
        for admitted in pending.serve_all(known) {
            assert_eq!(admitted.context, [KNOWN]);
            let fd = admitted.connection.as_raw_fd();
            let caller = callers.iter_mut().rev().find(|one| one.accepted == fd);
            let caller = caller.expect("a caller");
            assert!(caller.is_honest, "a dishonest caller was admitted");
            assert_eq!(caller.keys.as_ref(), Some(&admitted.keys));
            let mut behind = vec![0; caller.behind.len()];
            let mut stream = admitted.connection;
            stream.read_exact(&mut behind).expect("what was sent");
            assert_eq!(behind, caller.behind);
        }
    }
}

/// Seals frames, changes bytes of the stream and cuts it. Checks that frames arrive up to the first
/// changed byte, and none behind it.
pub fn frames(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let keys = Keys {
        to_responder: Secret::from_bytes([1; Secret::LENGTH]),
        to_initiator: Secret::from_bytes([2; Secret::LENGTH]),
    };
    let mut near = Sealed::new(&keys, Role::Initiator, LONGEST);
    let mut far = Sealed::new(&keys, Role::Responder, LONGEST);
    let (mut sent, mut received): (Vec<Vec<u8>>, usize) = (Vec::new(), 0);
    let mut stream: Vec<u8> = Vec::new();
    // Frames before the first changed or added byte.
    let mut right: Option<usize> = None;
    while !input.is_empty() {
        match input.byte() % 8 {
            0 | 1 => {
                let content = input.piece();
                let before = stream.len();
                match near.seal(content, &mut stream) {
                    Ok(()) => {
                        assert_eq!(stream.len(), before + 4 + content.len() + 16);
                        sent.push(content.to_vec());
                    }
                    Err(_) => {
                        assert!(content.len() > LONGEST);
                        assert_eq!(stream.len(), before);
                    }
                }
            }
            2 if !stream.is_empty() && right.is_none() => {
                let at = usize::from(input.short()) % stream.len();
                stream[at] ^= input.byte().max(1);
                // Frames end at the end of the stream.
                let (mut end, mut whole) = (stream.len(), sent.len());
                while end > at {
                    whole -= 1;
                    end = end.saturating_sub(4 + sent[whole].len() + 16);
                }
                right = Some(whole);
            }
            3 if right.is_none() => {
                // Foreign bytes between frames.
                let piece = input.piece();
                if !piece.is_empty() {
                    right = Some(sent.len());
                    stream.extend_from_slice(piece);
                }
            }
            _ => {
                let count = usize::from(input.byte()).min(stream.len());
                far.push(&stream[..count]);
                stream.drain(..count);
                loop {
                    match far.next_frame() {
                        Ok(Some(frame)) => {
                            assert_eq!(frame, sent[received]);
                            received += 1;
                        }
                        Ok(None) => break,
                        Err(_) => {
                            assert!(right.is_some(), "a correct frame was refused");
                            return;
                        }
                    }
                }
                assert!(
                    right.is_none_or(|right| received <= right),
                    "a changed frame was accepted"
                );
            }
        }
    }
}
