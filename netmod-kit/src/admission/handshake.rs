//! Mutual proof of a secret by challenge and response, without I/O.
//!
//! The initiator (the end that connected) sends a hello: the protocol's label, a context that names
//! its purpose, and a nonce. The responder (the end that accepted) looks up the secret that belongs
//! to the context and answers with a challenge: its own nonce and its proof. The initiator checks
//! that and sends its proof. Proofs are keyed hashes over the role, the hello and the responder's
//! nonce, so that a proof of one role, connection, context or protocol is invalid in another.
//!
//! Nonces are public keys that only this connection uses (X25519). Session keys depend on the secret
//! and on what both ends compute from these keys: the secret alone does not decrypt a recorded
//! connection.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use ring::agreement::{EphemeralPrivateKey, UnparsedPublicKey, X25519, agree_ephemeral};
use ring::rand::SystemRandom;

use super::secret::{Secret, random};

/// Bytes of a nonce.
const NONCE: usize = 32;
/// Bytes of a label.
const LABEL: usize = 8;
/// Bytes of a context, at most.
pub const MAX_CONTEXT: usize = 64;
/// Bytes of a hello, at most.
pub const MAX_HELLO: usize = LABEL + MAX_CONTEXT + NONCE;
/// Bytes of a challenge.
pub const CHALLENGE: usize = NONCE + PROOF;
/// Bytes of a proof.
pub const PROOF: usize = 32;

/// A protocol that begins with this handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocol {
    label: [u8; LABEL],
    context: usize,
    agrees: bool,
}

impl Protocol {
    /// Names a protocol. The last byte of `label` is its version; `context` is the length of the
    /// context in its hello, in bytes.
    ///
    /// # Panics
    /// The context is longer than [`MAX_CONTEXT`].
    pub const fn new(label: [u8; LABEL], context: usize) -> Protocol {
        assert!(context <= MAX_CONTEXT);
        Protocol {
            label,
            context,
            agrees: true,
        }
    }

    /// Names a protocol that only proves the secret and has no use for session keys, so that it needs
    /// no computation with public keys: nonces are random numbers.
    ///
    /// # Panics
    /// The context is longer than [`MAX_CONTEXT`].
    pub const fn proving(label: [u8; LABEL], context: usize) -> Protocol {
        let agrees = false;
        Protocol {
            agrees,
            ..Protocol::new(label, context)
        }
    }

    /// Bytes of a hello.
    pub const fn hello_len(&self) -> usize {
        LABEL + self.context + NONCE
    }

    /// Takes a hello apart and returns its context. Returns `None` if the bytes are no hello of
    /// this protocol.
    pub fn read_hello<'a>(&self, hello: &'a [u8]) -> Option<&'a [u8]> {
        let ours = hello.len() == self.hello_len() && hello.starts_with(&self.label);
        ours.then(|| &hello[LABEL..LABEL + self.context])
    }
}

/// The other end does not know the secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotProved;

impl fmt::Display for NotProved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the other end does not know the secret")
    }
}

impl std::error::Error for NotProved {}

impl From<NotProved> for io::Error {
    fn from(error: NotProved) -> io::Error {
        io::Error::new(io::ErrorKind::PermissionDenied, error)
    }
}

/// Session keys, one per direction. They are fresh for each connection.
#[derive(Clone, PartialEq, Eq)]
pub struct Keys {
    /// The key of frames from the initiator to the responder.
    pub to_responder: Secret,
    /// The key of frames from the responder to the initiator.
    pub to_initiator: Secret,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys(..)")
    }
}

/// The nonce of an end, and the private key that belongs to it.
struct Nonce {
    bytes: [u8; NONCE],
    /// Whether the protocol agrees on a secret by public keys.
    agrees: bool,
    /// The private key until it has been used; `None` if the protocol does not agree.
    key: Option<EphemeralPrivateKey>,
}

impl Nonce {
    fn new(agrees: bool) -> io::Result<Nonce> {
        if !agrees {
            return Ok(Nonce {
                bytes: random()?,
                agrees,
                key: None,
            });
        }
        let key = EphemeralPrivateKey::generate(&X25519, &SystemRandom::new());
        let made = key.and_then(|key| Ok((key.compute_public_key()?, key)));
        let (public, key) = made.map_err(|_| io::Error::other("no random numbers"))?;
        let mut bytes = [0; NONCE];
        bytes.copy_from_slice(public.as_ref());
        let key = Some(key);
        Ok(Nonce { bytes, agrees, key })
    }

    /// Returns what both ends compute from the two nonces, or zeros if the protocol does not agree.
    ///
    /// # Errors
    /// The other end's nonce is no public key, or the private key has been used.
    fn agree(&mut self, theirs: &[u8]) -> Result<Secret, NotProved> {
        if !self.agrees {
            return Ok(Secret::from_bytes([0; Secret::LENGTH]));
        }
        let key = self.key.take().ok_or(NotProved)?;
        let theirs = UnparsedPublicKey::new(&X25519, theirs);
        let shared = agree_ephemeral(key, &theirs, |shared| shared.try_into().ok());
        let shared = shared.ok().flatten();
        shared.map(Secret::from_bytes).ok_or(NotProved)
    }
}

/// Purposes of keyed hashes. All have the same length, so that no two inputs coincide.
const RESPONDS: &[u8; 12] = b"responds    ";
const INITIATES: &[u8; 12] = b"initiates   ";
const TO_RESPONDER: &[u8; 12] = b"to responder";
const TO_INITIATOR: &[u8; 12] = b"to initiator";

/// The input of all hashes but the responder's nonce: the secret and the hello.
#[derive(Clone)]
struct Transcript {
    secret: Secret,
    hello: [u8; MAX_HELLO],
    hello_len: usize,
}

impl Transcript {
    fn new(secret: &Secret, hello: &[u8]) -> Transcript {
        let mut padded = [0; MAX_HELLO];
        padded[..hello.len()].copy_from_slice(hello);
        Transcript {
            secret: *secret,
            hello: padded,
            hello_len: hello.len(),
        }
    }

    fn hasher(&self, purpose: &[u8; 12], nonce: &[u8]) -> blake3::Hasher {
        let mut hasher = blake3::Hasher::new_keyed(self.secret.as_bytes());
        hasher.update(purpose).update(&self.hello[..self.hello_len]);
        hasher.update(nonce);
        hasher
    }

    fn hash(&self, purpose: &[u8; 12], nonce: &[u8]) -> blake3::Hash {
        self.hasher(purpose, nonce).finalize()
    }

    fn keys(&self, nonce: &[u8], shared: &Secret) -> Keys {
        let key = |purpose| {
            let mut hasher = self.hasher(purpose, nonce);
            let hash = hasher.update(shared.as_bytes()).finalize();
            Secret::from_bytes(*hash.as_bytes())
        };
        Keys {
            to_responder: key(TO_RESPONDER),
            to_initiator: key(TO_INITIATOR),
        }
    }
}

/// The end that connected and waits for a challenge.
pub struct Initiator {
    transcript: Transcript,
    nonce: Nonce,
}

impl Initiator {
    /// Begins a handshake. Returns the hello to send too.
    ///
    /// # Errors
    /// The kernel gives no random numbers.
    ///
    /// `context` does not have the protocol's length.
    pub fn new(
        protocol: &Protocol,
        context: &[u8],
        secret: &Secret,
    ) -> io::Result<(Initiator, Vec<u8>)> {
        assert_eq!(
            context.len(),
            protocol.context,
            "length of the context differs from the protocol's"
        );
        let nonce = Nonce::new(protocol.agrees)?;
        let hello = [&protocol.label[..], context, &nonce.bytes].concat();
        let transcript = Transcript::new(secret, &hello);
        Ok((Initiator { transcript, nonce }, hello))
    }

    /// Checks the responder's proof. Returns the own proof to send, and the session keys.
    ///
    /// # Errors
    /// The responder does not know the secret; nothing must be sent to it.
    pub fn answer(
        &mut self,
        challenge: &[u8; CHALLENGE],
    ) -> Result<([u8; PROOF], Keys), NotProved> {
        let (nonce, theirs) = challenge.split_at(NONCE);
        let theirs = <[u8; PROOF]>::try_from(theirs).map_err(|_| NotProved)?;
        // Hashes are compared in constant time.
        if self.transcript.hash(RESPONDS, nonce) != blake3::Hash::from_bytes(theirs) {
            return Err(NotProved);
        }
        let proof = self.transcript.hash(INITIATES, nonce);
        let shared = self.nonce.agree(nonce)?;
        Ok((*proof.as_bytes(), self.transcript.keys(nonce, &shared)))
    }
}

/// The end that accepted and waits for a proof.
pub struct Responder {
    transcript: Transcript,
    nonce: Nonce,
}

impl Responder {
    /// Answers a hello that [`Protocol::read_hello`] has accepted. Returns the challenge to send
    /// too.
    ///
    /// # Errors
    /// The kernel gives no random numbers.
    ///
    /// # Panics
    /// The hello is longer than [`MAX_HELLO`].
    pub fn new(
        protocol: &Protocol,
        hello: &[u8],
        secret: &Secret,
    ) -> io::Result<(Responder, [u8; CHALLENGE])> {
        let nonce = Nonce::new(protocol.agrees)?;
        let transcript = Transcript::new(secret, hello);
        let mut challenge = [0; CHALLENGE];
        challenge[..NONCE].copy_from_slice(&nonce.bytes);
        challenge[NONCE..].copy_from_slice(transcript.hash(RESPONDS, &nonce.bytes).as_bytes());
        Ok((Responder { transcript, nonce }, challenge))
    }

    /// Checks the initiator's proof.
    ///
    /// # Errors
    /// The initiator does not know the secret.
    pub fn check(&mut self, proof: &[u8; PROOF]) -> Result<Keys, NotProved> {
        let expected = self.transcript.hash(INITIATES, &self.nonce.bytes);
        if expected != blake3::Hash::from_bytes(*proof) {
            return Err(NotProved);
        }
        let theirs = &self.transcript.hello[..self.transcript.hello_len];
        let shared = self.nonce.agree(&theirs[theirs.len() - NONCE..])?;
        Ok(self.transcript.keys(&self.nonce.bytes, &shared))
    }
}

/// Carries out the initiator's part over a blocking stream, whose time-outs bound the wait.
///
/// # Errors
/// Reading or writing fails, or the other end does not know the secret (`PermissionDenied`).
pub fn initiate(
    stream: &mut (impl Read + Write),
    protocol: &Protocol,
    context: &[u8],
    secret: &Secret,
) -> io::Result<Keys> {
    let (mut initiator, hello) = Initiator::new(protocol, context, secret)?;
    stream.write_all(&hello)?;
    let mut challenge = [0; CHALLENGE];
    stream.read_exact(&mut challenge)?;
    let (proof, keys) = initiator.answer(&challenge)?;
    stream.write_all(&proof)?;
    Ok(keys)
}

/// Carries out the initiator's part over a TCP stream within `time`, however slowly the other end
/// sends. Both time-outs of the stream are `time` afterwards.
///
/// The same as [`initiate`], or the time is over.
pub fn initiate_within(
    stream: &TcpStream,
    time: Duration,
    protocol: &Protocol,
    context: &[u8],
    secret: &Secret,
) -> io::Result<Keys> {
    let end = Instant::now() + time;
    let keys = initiate(&mut Within { stream, end }, protocol, context, secret)?;
    stream.set_read_timeout(Some(time))?;
    stream.set_write_timeout(Some(time))?;
    Ok(keys)
}

/// A stream whose reads and writes share one deadline.
struct Within<'a> {
    stream: &'a TcpStream,
    end: Instant,
}

impl Within<'_> {
    fn left(&self) -> io::Result<Duration> {
        let left = self.end.saturating_duration_since(Instant::now());
        match left.is_zero() {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => Ok(left),
        }
    }
}

impl Read for Within<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        self.stream.read(buffer)
    }
}

impl Write for Within<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROTOCOL: Protocol = Protocol::new(*b"WeftTst\x01", 4);

    fn secret(byte: u8) -> Secret {
        Secret::from_bytes([byte; 32])
    }

    #[test]
    fn both_ends_of_a_secret_are_admitted_and_get_the_same_keys() {
        let (mut initiator, hello) = Initiator::new(&PROTOCOL, b"a->b", &secret(7)).unwrap();
        assert_eq!(hello.len(), PROTOCOL.hello_len());
        assert_eq!(PROTOCOL.read_hello(&hello), Some(&b"a->b"[..]));
        let (mut responder, challenge) = Responder::new(&PROTOCOL, &hello, &secret(7)).unwrap();
        let (proof, keys) = initiator.answer(&challenge).unwrap();
        assert_eq!(responder.check(&proof), Ok(keys.clone()));
        assert_ne!(keys.to_responder, keys.to_initiator);
    }

    #[test]
    fn another_secret_convinces_neither_end() {
        let (mut initiator, hello) = Initiator::new(&PROTOCOL, b"a->b", &secret(7)).unwrap();
        let (_, challenge) = Responder::new(&PROTOCOL, &hello, &secret(8)).unwrap();
        assert_eq!(initiator.answer(&challenge), Err(NotProved));
        let (mut responder, challenge) = Responder::new(&PROTOCOL, &hello, &secret(7)).unwrap();
        let mut liar = Initiator {
            transcript: Transcript::new(&secret(8), &hello),
            nonce: Nonce::new(true).unwrap(),
        };
        assert_eq!(liar.answer(&challenge), Err(NotProved));
        // The responder's own proof, sent back, is none of the initiator's.
        let echo = challenge[NONCE..].try_into().unwrap();
        assert_eq!(responder.check(echo), Err(NotProved));
    }

    #[test]
    fn a_proof_is_good_for_one_connection_and_context() {
        let (mut initiator, hello) = Initiator::new(&PROTOCOL, b"a->b", &secret(7)).unwrap();
        let (mut responder, challenge) = Responder::new(&PROTOCOL, &hello, &secret(7)).unwrap();
        let (proof, _) = initiator.answer(&challenge).unwrap();
        for bit in [0, 100, 255] {
            let mut wrong = proof;
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(responder.check(&wrong), Err(NotProved));
        }
        let (mut again, _) = Responder::new(&PROTOCOL, &hello, &secret(7)).unwrap();
        assert_eq!(again.check(&proof), Err(NotProved));
        let mut other = hello.clone();
        other[8] = b'c';
        let mut replayed = Responder {
            transcript: Transcript::new(&secret(7), &other),
            nonce: responder.nonce,
        };
        assert_eq!(replayed.check(&proof), Err(NotProved));
        // A recorded challenge does not convince another initiator.
        let (mut second, _) = Initiator::new(&PROTOCOL, b"a->b", &secret(7)).unwrap();
        assert_eq!(second.answer(&challenge), Err(NotProved));
    }

    #[test]
    fn the_secret_alone_does_not_give_the_keys() {
        let agreed = |protocol: &Protocol| {
            let (mut initiator, hello) = Initiator::new(protocol, b"a->b", &secret(7)).unwrap();
            let (mut responder, challenge) = Responder::new(protocol, &hello, &secret(7)).unwrap();
            let (proof, keys) = initiator.answer(&challenge).unwrap();
            assert_eq!(responder.check(&proof), Ok(keys.clone()));
            // All that was sent, with the secret and without the private keys.
            let known = Transcript::new(&secret(7), &hello);
            let guess = known.keys(&challenge[..NONCE], &Secret::from_bytes([0; 32]));
            guess == keys
        };
        assert!(!agreed(&PROTOCOL));
        assert!(agreed(&Protocol::proving(*b"WeftTst\x01", 4)));
        // Public keys that lead to the same numbers for all are refused.
        let mut hello = Initiator::new(&PROTOCOL, b"a->b", &secret(7)).unwrap().1;
        hello[12..].fill(0);
        let (mut responder, challenge) = Responder::new(&PROTOCOL, &hello, &secret(7)).unwrap();
        let known = Transcript::new(&secret(7), &hello);
        let proof = known.hash(INITIATES, &challenge[..NONCE]);
        assert_eq!(responder.check(proof.as_bytes()), Err(NotProved));
    }

    /// Runs a handshake through `attacker`, which may change the hello, the challenge and the proof.
    /// Returns what each end has got.
    fn through(attacker: impl Fn(usize, &mut [u8])) -> [Option<Keys>; 2] {
        let (mut initiator, mut hello) = Initiator::new(&PROTOCOL, b"a->b", &secret(7)).unwrap();
        attacker(0, &mut hello);
        if PROTOCOL.read_hello(&hello).is_none() {
            return [None, None];
        }
        let (mut responder, mut challenge) = Responder::new(&PROTOCOL, &hello, &secret(7)).unwrap();
        attacker(1, &mut challenge);
        let Ok((mut proof, keys)) = initiator.answer(&challenge) else {
            return [None, None];
        };
        attacker(2, &mut proof);
        [Some(keys), responder.check(&proof).ok()]
    }

    /// Keys are bound to all bytes of both ends: a change leaves the responder without keys, and the
    /// initiator, too, unless only its own last message was changed.
    #[test]
    fn a_changed_bit_is_noticed() {
        let [ours, theirs] = through(|_, _| {});
        assert!(ours.is_some() && ours == theirs);
        for (message, len) in [PROTOCOL.hello_len(), CHALLENGE, PROOF]
            .into_iter()
            .enumerate()
        {
            for bit in 0..8 * len {
                let flip = |at: usize, bytes: &mut [u8]| {
                    if at == message {
                        bytes[bit / 8] ^= 1 << (bit % 8);
                    }
                };
                let [ours, theirs] = through(flip);
                assert_eq!(
                    (ours.is_some(), theirs),
                    (message == 2, None),
                    "{message}: {bit}"
                );
            }
        }
    }

    /// An attacker without the secret has only what the ends have said: none of it, sent back to the
    /// end that said it or to another one of the same role, is an answer.
    #[test]
    fn an_end_is_not_convinced_by_its_own_role() {
        let begin = || Initiator::new(&PROTOCOL, b"a->b", &secret(7)).unwrap();
        let ((mut first, hello), (mut second, other)) = (begin(), begin());
        let nonce = |hello: &[u8]| <[u8; NONCE]>::try_from(&hello[LABEL + 4..]).unwrap();
        for (initiator, said) in [(&mut first, &hello), (&mut second, &hello)] {
            let reflected = [nonce(said), nonce(&other)].concat().try_into().unwrap();
            assert_eq!(initiator.answer(&reflected), Err(NotProved));
        }
        // A proof by which an initiator answers is no challenge for another connection's.
        let (_, challenge) = Responder::new(&PROTOCOL, &hello, &secret(7)).unwrap();
        let (proof, _) = first.answer(&challenge).unwrap();
        let (mut third, _) = begin();
        for nonce in [nonce(&hello), challenge[..NONCE].try_into().unwrap()] {
            let made = [nonce, proof].concat().try_into().unwrap();
            assert_eq!(third.answer(&made), Err(NotProved));
        }
        // The challenge of one responder is no proof to another one that got the same hello.
        let (mut again, _) = Responder::new(&PROTOCOL, &hello, &secret(7)).unwrap();
        for proof in challenge.chunks(PROOF) {
            assert_eq!(again.check(proof.try_into().unwrap()), Err(NotProved));
        }
    }

    /// The protocols of plain and encrypted connections share a secret: what one proves is nothing
    /// to the other, so an attacker cannot talk an end out of encryption.
    #[test]
    fn a_proof_is_good_for_one_protocol() {
        const PLAIN: Protocol = Protocol::proving(*b"WeftTsp\x01", 4);
        let (mut initiator, hello) = Initiator::new(&PROTOCOL, b"a->b", &secret(7)).unwrap();
        assert_eq!(PLAIN.read_hello(&hello), None);
        let renamed = [b"WeftTsp\x01", &hello[LABEL..]].concat();
        assert!(PLAIN.read_hello(&renamed).is_some());
        let (mut responder, challenge) = Responder::new(&PLAIN, &renamed, &secret(7)).unwrap();
        assert_eq!(initiator.answer(&challenge), Err(NotProved));
        let known = Transcript::new(&secret(7), &hello);
        let proof = known.hash(INITIATES, &challenge[..NONCE]);
        assert_eq!(responder.check(proof.as_bytes()), Err(NotProved));
    }

    /// Points of low order (RFC 7748, section 6.1), also not in canonical form: an end that knows the
    /// secret cannot make the other agree on keys that all know.
    #[test]
    fn points_of_low_order_are_refused() {
        let hex = |text: &str| *Secret::from_hex(text).unwrap().as_bytes();
        let plus = |first: u8, last: u8| {
            let mut point = [0xff; NONCE];
            (point[0], point[NONCE - 1]) = (first, last);
            point
        };
        let mut one = [0; NONCE];
        one[0] = 1;
        let points = [
            [0; NONCE],
            one,
            hex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
            hex("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"),
            // p - 1, p and p + 1 for p = 2^255 - 19, and p with the bit that is not looked at.
            plus(0xec, 0x7f),
            plus(0xed, 0x7f),
            plus(0xee, 0x7f),
            plus(0xed, 0xff),
        ];
        for point in points {
            let (mut initiator, mut hello) =
                Initiator::new(&PROTOCOL, b"a->b", &secret(7)).unwrap();
            let proof = initiator.transcript.hash(RESPONDS, &point);
            let challenge = [point, *proof.as_bytes()].concat().try_into().unwrap();
            assert_eq!(initiator.answer(&challenge), Err(NotProved), "{point:?}");
            hello[LABEL + 4..].copy_from_slice(&point);
            let (mut responder, challenge) = Responder::new(&PROTOCOL, &hello, &secret(7)).unwrap();
            let known = Transcript::new(&secret(7), &hello);
            let proof = known.hash(INITIATES, &challenge[..NONCE]);
            assert_eq!(
                responder.check(proof.as_bytes()),
                Err(NotProved),
                "{point:?}"
            );
        }
    }

    #[test]
    fn other_bytes_are_no_hello() {
        let (_, mut hello) = Initiator::new(&PROTOCOL, b"a->b", &secret(7)).unwrap();
        assert_eq!(PROTOCOL.read_hello(&hello[1..]), None);
        hello[7] = 2;
        assert_eq!(PROTOCOL.read_hello(&hello), None);
        assert_eq!(PROTOCOL.read_hello(&[]), None);
    }
}
