//! Encrypted and authenticated frames on a stream, after a handshake.
//!
//! A frame is its length (4 bytes, little endian), the ciphertext and a tag of 16 bytes
//! (AES-256-GCM). Nonces count the frames of a direction, whose key is fresh, so that no frame can
//! be changed, left out, repeated or moved without notice. The length of a frame is not hidden.

use std::fmt;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use super::handshake::Keys;
use super::secret::Secret;

/// Bytes of the length before a frame.
const HEAD: usize = 4;
/// Bytes of the tag behind a frame.
pub const TAG: usize = 16;
/// Frames under one key. AES-GCM is safe for 2^34 blocks of 16 bytes under a key (RFC 8446, section
/// 5.5), which are as many frames of 64 KiB.
const FRAMES: u64 = 1 << 22;

/// The part that an end had in the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It connected.
    Initiator,
    /// It accepted.
    Responder,
}

/// A received frame was not sealed by the other end, or is longer than allowed. The connection must
/// be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// The frame says that it is longer than the maximum.
    TooLong,
    /// The frame was changed, left out, repeated or forged.
    Forged,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Broken::TooLong => "a frame is longer than the protocol allows",
            Broken::Forged => "a frame was not sealed by the other end",
        })
    }
}

impl std::error::Error for Broken {}

/// One direction of a connection: its key, and the number of the next frame.
pub struct Direction {
    key: Secret,
    cipher: LessSafeKey,
    next: u64,
}

impl Direction {
    fn new(key: Secret) -> Direction {
        let cipher = UnboundKey::new(&AES_256_GCM, key.as_bytes());
        Direction {
            key,
            cipher: LessSafeKey::new(cipher.expect("the cipher has keys of this length")),
            next: 0,
        }
    }

    /// Returns the outgoing and the incoming direction of an end.
    pub fn both(keys: &Keys, role: Role) -> [Direction; 2] {
        let [outgoing, incoming] = match role {
            Role::Initiator => [keys.to_responder, keys.to_initiator],
            Role::Responder => [keys.to_initiator, keys.to_responder],
        };
        [Direction::new(outgoing), Direction::new(incoming)]
    }

    /// The nonce of the next frame, under a new key after every [`FRAMES`] frames.
    fn nonce(&mut self) -> Nonce {
        if self.next == FRAMES {
            let next = Secret::derive("Weft 2026 next key of a connection", self.key.as_bytes());
            *self = Direction::new(next);
        }
        let mut bytes = [0; 12];
        bytes[4..].copy_from_slice(&self.next.to_le_bytes());
        self.next += 1;
        Nonce::assume_unique_for_key(bytes)
    }

    /// Encrypts the content of a frame, whose `head` stays readable. Returns the tag. Frames must
    /// be sent in the order in which they were sealed.
    ///
    /// # Errors
    /// The content is longer than the cipher allows (64 GiB).
    pub fn seal(&mut self, head: &[u8], content: &mut [u8]) -> Result<[u8; TAG], Broken> {
        let nonce = self.nonce();
        let tag = self
            .cipher
            .seal_in_place_separate_tag(nonce, Aad::from(head), content);
        let tag = tag.map_err(|_| Broken::TooLong)?;
        let mut bytes = [0; TAG];
        bytes.copy_from_slice(tag.as_ref());
        Ok(bytes)
    }

    /// Decrypts the content of the next frame in place; `sealed` is the content with its tag.
    ///
    /// # Errors
    /// The frame is forged. The connection must be closed.
    pub fn open<'a>(&mut self, head: &[u8], sealed: &'a mut [u8]) -> Result<&'a [u8], Broken> {
        let nonce = self.nonce();
        let opened = self.cipher.open_in_place(nonce, Aad::from(head), sealed);
        opened.map(|content| &*content).map_err(|_| Broken::Forged)
    }
}

/// Seals outgoing frames and opens incoming ones.
pub struct Sealed {
    outgoing: Direction,
    incoming: Direction,
    max: usize,
    buffer: Vec<u8>,
    taken: usize,
}

impl Sealed {
    /// Begins after a handshake. No frame has more than `max` bytes of content.
    pub fn new(keys: &Keys, role: Role, max: usize) -> Sealed {
        let [outgoing, incoming] = Direction::both(keys, role);
        Sealed {
            outgoing,
            incoming,
            max: max.min(u32::MAX as usize - TAG),
            buffer: Vec::new(),
            taken: 0,
        }
    }

    /// Appends `content` to `out` as a frame. Frames must be sent in the order in which they were
    /// sealed.
    ///
    /// # Errors
    /// The content is longer than the maximum; nothing is appended.
    pub fn seal(&mut self, content: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
        if content.len() > self.max {
            return Err(Broken::TooLong);
        }
        let head = (content.len() as u32).to_le_bytes();
        let start = out.len() + HEAD;
        out.extend_from_slice(&head);
        out.extend_from_slice(content);
        match self.outgoing.seal(&head, &mut out[start..]) {
            Ok(tag) => out.extend_from_slice(&tag),
            Err(broken) => {
                out.truncate(start - HEAD);
                return Err(broken);
            }
        }
        Ok(())
    }

    /// Takes bytes that were read from the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.taken > 0 && self.taken >= self.buffer.len() / 2 {
            self.buffer.drain(..self.taken);
            self.taken = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Opens the next frame. Returns `None` if it has not arrived completely.
    ///
    /// # Errors
    /// The frame is too long or forged. The connection must be closed.
    pub fn next_frame(&mut self) -> Result<Option<Vec<u8>>, Broken> {
        let rest = &self.buffer[self.taken..];
        let Some((head, rest)) = rest.split_first_chunk::<HEAD>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*head) as usize;
        if length > self.max {
            return Err(Broken::TooLong);
        }
        let Some(sealed) = rest.get(..length + TAG) else {
            return Ok(None);
        };
        let mut content = sealed.to_vec();
        self.incoming.open(head, &mut content)?;
        content.truncate(length);
        self.taken += HEAD + length + TAG;
        if self.taken == self.buffer.len() {
            self.buffer.clear();
            self.taken = 0;
        }
        Ok(Some(content))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(max: usize) -> (Sealed, Sealed) {
        let keys = Keys {
            to_responder: Secret::from_bytes([1; 32]),
            to_initiator: Secret::from_bytes([2; 32]),
        };
        (
            Sealed::new(&keys, Role::Initiator, max),
            Sealed::new(&keys, Role::Responder, max),
        )
    }

    #[test]
    fn frames_arrive_however_the_stream_cuts_them() {
        let (mut near, mut far) = pair(100);
        let mut bytes = Vec::new();
        let sent: [&[u8]; 3] = [b"one", b"", &[9; 100]];
        for content in sent {
            near.seal(content, &mut bytes).unwrap();
        }
        assert!(!bytes.windows(3).any(|part| part == b"one"));
        let mut got = Vec::new();
        for byte in bytes {
            far.push(&[byte]);
            got.extend(far.next_frame().unwrap());
        }
        assert_eq!(got, sent);
        // The other direction has its own key and numbers.
        let mut back = Vec::new();
        far.seal(b"two", &mut back).unwrap();
        near.push(&back);
        assert_eq!(near.next_frame(), Ok(Some(b"two".to_vec())));
    }

    #[test]
    fn changed_repeated_reordered_and_reflected_frames_are_refused() {
        let (mut near, _) = pair(100);
        let mut frames = [Vec::new(), Vec::new()];
        near.seal(b"first", &mut frames[0]).unwrap();
        near.seal(b"second", &mut frames[1]).unwrap();
        let forged = |bytes: &[u8]| {
            let (_, mut far) = pair(100);
            far.push(bytes);
            std::iter::from_fn(|| far.next_frame().transpose()).find_map(Result::err)
        };
        assert_eq!(forged(&frames.concat()), None);
        for bit in 32..8 * frames[0].len() {
            let mut changed = frames[0].clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(forged(&changed), Some(Broken::Forged), "bit {bit}");
        }
        assert_eq!(forged(&frames[1]), Some(Broken::Forged));
        let repeated = [&frames[0][..], &frames[0]].concat();
        assert_eq!(forged(&repeated), Some(Broken::Forged));
        let mut shorter = frames[0].clone();
        shorter[0] -= 1;
        assert_eq!(forged(&shorter), Some(Broken::Forged));
        near.push(&frames[0]);
        assert_eq!(near.next_frame(), Err(Broken::Forged));
    }

    #[test]
    fn frames_beyond_the_maximum_are_neither_made_nor_buffered() {
        let (mut near, mut far) = pair(10);
        let mut bytes = Vec::new();
        assert_eq!(near.seal(&[0; 11], &mut bytes), Err(Broken::TooLong));
        assert!(bytes.is_empty());
        far.push(&11u32.to_le_bytes());
        assert_eq!(far.next_frame(), Err(Broken::TooLong));
    }

    #[test]
    fn both_ends_change_the_key_after_the_same_frame() {
        let (mut near, mut far) = pair(100);
        near.outgoing.next = FRAMES - 1;
        far.incoming.next = FRAMES - 1;
        let first = near.outgoing.key;
        let mut bytes = Vec::new();
        for content in [&b"last"[..], b"first", b"second"] {
            near.seal(content, &mut bytes).unwrap();
        }
        assert_ne!(near.outgoing.key, first);
        // A frame of the same number under the key before.
        let (mut before, _) = pair(100);
        let mut replayed = Vec::new();
        before.seal(b"first", &mut replayed).unwrap();
        let (_, mut other) = pair(100);
        other.incoming.next = FRAMES;
        other.push(&replayed);
        assert_eq!(other.next_frame(), Err(Broken::Forged));
        far.push(&bytes);
        let got: Vec<_> = std::iter::from_fn(|| far.next_frame().unwrap()).collect();
        assert_eq!(got, [&b"last"[..], b"first", b"second"]);
    }
}
