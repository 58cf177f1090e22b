//! How the two ends of a new connection make sure of each other.
//!
//! Each process has a secret, which its address record carries: only who can read the launcher's
//! key-value store knows it. Who connects says which process it is and which it wants; both ends then
//! prove, each over a number that the other has just drawn, that they know the secret of the one
//! that was called. Nothing else of a stranger's is looked at.
//!
//! This keeps strangers out. It does not keep data secret or unchanged on the way.

use netmod::{Peer, VciId};

/// Bytes of a secret.
pub(crate) const SECRET: usize = 32;

/// A process's secret.
pub(crate) type Secret = [u8; SECRET];

const NONCE: usize = 16;

/// The first bytes of all; the last is the version.
const MAGIC: [u8; 8] = *b"WeftTCP\x01";

/// Bytes of what the caller says first.
pub(crate) const HELLO: usize = 40;
/// Bytes of what the one called answers.
pub(crate) const CHALLENGE: usize = NONCE + 32;
/// Bytes of the caller's proof.
pub(crate) const PROOF: usize = 32;
/// Bytes of the verdict.
pub(crate) const VERDICT: usize = 8;

/// Random bytes from the kernel.
pub(crate) fn random<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    if got == N {
        Ok(bytes)
    } else {
        Err(std::io::Error::other(
            "the kernel gave too few random bytes",
        ))
    }
}

/// Who calls whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Call {
    pub from: (Peer, VciId),
    pub to: (Peer, VciId),
    /// Which of several connections between them.
    pub stream: u8,
}

/// The most connections between two VCIs.
pub(crate) const STREAMS: u8 = 8;

/// What the caller says first, with a number it has drawn.
pub(crate) fn hello(call: Call, nonce: [u8; NONCE]) -> [u8; HELLO] {
    let mut bytes = [0; HELLO];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&call.from.0.to_le_bytes());
    bytes[12..16].copy_from_slice(&call.to.0.to_le_bytes());
    bytes[16..18].copy_from_slice(&call.from.1.to_le_bytes());
    bytes[18..20].copy_from_slice(&call.to.1.to_le_bytes());
    bytes[20] = call.stream;
    bytes[24..].copy_from_slice(&nonce);
    bytes
}

/// Reads what a caller says; `None`: it speaks something else.
pub(crate) fn read_hello(bytes: &[u8; HELLO]) -> Option<Call> {
    let long = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| bytes[at + i]));
    let short = |at: usize| u16::from_le_bytes([0, 1].map(|i| bytes[at + i]));
    (bytes[..8] == MAGIC && bytes[20] < STREAMS && bytes[21..24] == [0; 3]).then(|| Call {
        from: (long(8), short(16)),
        to: (long(12), short(18)),
        stream: bytes[20],
    })
}

/// Keyed hash of a role, the hello and the number of the one called.
fn hash(secret: &Secret, role: &[u8; 8], hello: &[u8; HELLO], nonce: &[u8]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new_keyed(secret);
    hasher.update(role).update(hello).update(nonce);
    hasher.finalize()
}

const CALLED: &[u8; 8] = b"called  ";
const CALLER: &[u8; 8] = b"caller  ";

/// What the one called answers: a number it has drawn, and its own proof.
pub(crate) fn challenge(
    secret: &Secret,
    hello: &[u8; HELLO],
    nonce: [u8; NONCE],
) -> [u8; CHALLENGE] {
    let mut bytes = [0; CHALLENGE];
    bytes[..NONCE].copy_from_slice(&nonce);
    bytes[NONCE..].copy_from_slice(hash(secret, CALLED, hello, &nonce).as_bytes());
    bytes
}

/// The caller's proof, if the challenge comes from who knows the secret.
pub(crate) fn proof(
    secret: &Secret,
    hello: &[u8; HELLO],
    challenge: &[u8; CHALLENGE],
) -> Option<[u8; PROOF]> {
    let (nonce, theirs) = challenge.split_at(NONCE);
    let theirs: [u8; 32] = theirs.try_into().ok()?;
    // Hashes are compared in constant time.
    let known = hash(secret, CALLED, hello, nonce) == blake3::Hash::from_bytes(theirs);
    known.then(|| *hash(secret, CALLER, hello, nonce).as_bytes())
}

/// Whether the caller knows the secret.
pub(crate) fn is_proved(
    secret: &Secret,
    hello: &[u8; HELLO],
    challenge: &[u8; CHALLENGE],
    proof: &[u8; PROOF],
) -> bool {
    hash(secret, CALLER, hello, &challenge[..NONCE]) == blake3::Hash::from_bytes(*proof)
}

/// What the one called makes of a caller that has proved itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Verdict {
    /// The connection is used.
    Accepted = 1,
    /// The one called is calling, too, and its connection is the one that counts.
    Crossed = 2,
    /// There was a connection already, or the caller counts as lost.
    Refused = 3,
}

impl Verdict {
    pub(crate) fn to_bytes(self) -> [u8; VERDICT] {
        [b'W', b'e', b'f', b't', 0, 0, 0, self as u8]
    }

    pub(crate) fn from_bytes(bytes: &[u8; VERDICT]) -> Option<Verdict> {
        let all = [Verdict::Accepted, Verdict::Crossed, Verdict::Refused];
        all.into_iter().find(|it| it.to_bytes() == *bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: Call = Call {
        from: (70_000, 3),
        to: (5, 63),
        stream: 7,
    };

    #[test]
    fn who_knows_the_secret_is_believed_and_nobody_else() {
        let hello = hello(CALL, [1; NONCE]);
        assert_eq!(read_hello(&hello), Some(CALL));
        let secret = [7; SECRET];
        let challenge = challenge(&secret, &hello, [2; NONCE]);
        let proved = proof(&secret, &hello, &challenge).expect("the same secret");
        assert!(is_proved(&secret, &hello, &challenge, &proved));
        assert_eq!(proof(&[8; SECRET], &hello, &challenge), None);
        for bit in [0, 100, 255] {
            let mut wrong = proved;
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_proved(&secret, &hello, &challenge, &wrong));
        }
        // The number that the one called has drawn is part of it, and so is who calls.
        let again = super::challenge(&secret, &hello, [3; NONCE]);
        assert!(!is_proved(&secret, &hello, &again, &proved));
        let other = super::hello(
            Call {
                from: (70_001, 3),
                ..CALL
            },
            [1; NONCE],
        );
        assert!(!is_proved(&secret, &other, &challenge, &proved));
        // The challenge's own proof is none of the caller's.
        let echo: [u8; 32] = challenge[NONCE..].try_into().unwrap();
        assert!(!is_proved(&secret, &hello, &challenge, &echo));
    }

    #[test]
    fn other_bytes_are_no_hello_and_no_verdict() {
        let mut bytes = hello(CALL, [0; NONCE]);
        bytes[7] = 2;
        assert_eq!(read_hello(&bytes), None);
        for verdict in [Verdict::Accepted, Verdict::Crossed, Verdict::Refused] {
            assert_eq!(Verdict::from_bytes(&verdict.to_bytes()), Some(verdict));
        }
        assert_eq!(Verdict::from_bytes(&[0; VERDICT]), None);
    }
}
