//! Encrypted and authenticated frames on a stream, after a handshake.
//!
//! A frame is its length (4 bytes, little endian), the ciphertext and a tag of 16 bytes
//! (ChaCha20-Poly1305, RFC 8439). Nonces count the frames of a direction, whose key is fresh, so
//! that no frame can be changed, left out, repeated or moved without notice. The length of a frame
//! is not hidden.

use std::fmt;

use chacha20poly1305::aead::{AeadInOut, KeyInit};
use chacha20poly1305::{ChaCha20Poly1305, Nonce, Tag};

use super::handshake::Keys;
use super::secret::Secret;

/// Bytes of the length before a frame.
const HEAD: usize = 4;
/// Bytes of the tag behind a frame.
const TAG: usize = 16;

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

/// One direction's key and the number of its next frame.
struct Direction {
    cipher: ChaCha20Poly1305,
    next: u64,
}

impl Direction {
    fn new(key: &Secret) -> Direction {
        Direction {
            cipher: ChaCha20Poly1305::new(key.as_bytes().into()),
            next: 0,
        }
    }

    /// The nonce of the next frame. 2^64 frames are more than any connection carries.
    fn nonce(&mut self) -> Nonce {
        let mut bytes = [0; 12];
        bytes[4..].copy_from_slice(&self.next.to_le_bytes());
        self.next += 1;
        bytes.into()
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
        let (outgoing, incoming) = match role {
            Role::Initiator => (&keys.to_responder, &keys.to_initiator),
            Role::Responder => (&keys.to_initiator, &keys.to_responder),
        };
        Sealed {
            outgoing: Direction::new(outgoing),
            incoming: Direction::new(incoming),
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
        let nonce = self.outgoing.nonce();
        let cipher = &self.outgoing.cipher;
        let tag = cipher.encrypt_inout_detached(&nonce, &head, (&mut out[start..]).into());
        match tag {
            Ok(tag) => out.extend_from_slice(&tag),
            Err(_) => {
                out.truncate(start - HEAD);
                return Err(Broken::TooLong);
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
        let Some((content, rest)) = rest.split_at_checked(length) else {
            return Ok(None);
        };
        let Some(tag) = rest.first_chunk::<TAG>() else {
            return Ok(None);
        };
        let nonce = self.incoming.nonce();
        let mut content = content.to_vec();
        let cipher = &self.incoming.cipher;
        let tag = Tag::from(*tag);
        cipher
            .decrypt_inout_detached(&nonce, head, content.as_mut_slice().into(), &tag)
            .map_err(|_| Broken::Forged)?;
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
}
