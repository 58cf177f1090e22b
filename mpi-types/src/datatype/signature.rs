//! Type signatures (MPI-3.1 section 4.1): the basic types of a map in order, without
//! displacements.
//!
//! A signature is a tree of repetitions and sequences: it stays small, and one descent answers any
//! question about its first n bytes.

use std::sync::Arc;

use super::Representation;
use crate::Result;

/// A type signature with precomputed totals.
pub(super) struct Signature {
    /// Bytes in native form.
    pub bytes: usize,
    /// Bytes in the external32 format.
    pub external: usize,
    /// Basic types.
    pub elements: u64,
    digest: Digest,
    opaque: bool,
    form: Form,
}

enum Form {
    Empty,
    Basic(Representation),
    Repeat(Arc<Signature>),
    Sequence(Box<[Part]>),
}

/// One part of a sequence, and its start.
struct Part {
    bytes: usize,
    elements: u64,
    signature: Arc<Signature>,
}

/// A summary of a type signature, for comparing a message's with its receive's.
///
/// C and Fortran types with the same representation count as equal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SignatureDigest {
    elements: u64,
    bytes: usize,
    opaque: bool,
    hash: u64,
}

impl SignatureDigest {
    /// Returns the number of basic types.
    pub fn elements(&self) -> u64 {
        self.elements
    }

    /// Returns a hash over the basic types in order.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Returns whether data of one signature may be received with the other. A signature that
    /// contains `MPI_BYTE` or `MPI_PACKED` matches every signature of the same size.
    pub fn matches(&self, other: &SignatureDigest) -> bool {
        if self.opaque || other.opaque {
            return self.bytes == other.bytes;
        }
        self.elements == other.elements && self.hash == other.hash
    }
}

/// A polynomial hash modulo 2^61 - 1: the hash of a concatenation follows from those of its parts.
#[derive(Clone, Copy)]
struct Digest {
    hash: u64,
    /// The base to the power of the number of elements.
    power: u64,
}

const MODULUS: u64 = (1 << 61) - 1;
const BASE: u64 = 0x0b5a_d4e9_17c3_6f2d;

fn multiply(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    add((product as u64) & MODULUS, (product >> 61) as u64)
}

fn add(a: u64, b: u64) -> u64 {
    let sum = a + b;
    if sum >= MODULUS { sum - MODULUS } else { sum }
}

impl Digest {
    const EMPTY: Digest = Digest { hash: 0, power: 1 };

    fn basic(kind: Representation) -> Digest {
        let scrambled = (kind as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 4;
        Digest {
            hash: scrambled % MODULUS,
            power: BASE % MODULUS,
        }
    }

    fn then(self, next: Digest) -> Digest {
        Digest {
            hash: add(multiply(self.hash, next.power), next.hash),
            power: multiply(self.power, next.power),
        }
    }

    fn repeated(self, mut count: u64) -> Digest {
        let (mut result, mut square) = (Digest::EMPTY, self);
        while count > 0 {
            if count & 1 == 1 {
                result = result.then(square);
            }
            square = square.then(square);
            count >>= 1;
        }
        result
    }
}

impl Signature {
    pub fn empty() -> Arc<Signature> {
        Arc::new(Signature {
            bytes: 0,
            external: 0,
            elements: 0,
            digest: Digest::EMPTY,
            opaque: false,
            form: Form::Empty,
        })
    }

    /// Returns the signature of a predefined type; pairs consist of two basic types.
    pub fn of(kind: Representation) -> Arc<Signature> {
        let two = |a, b| Signature::sequence([Signature::of(a), Signature::of(b)]);
        match kind {
            Representation::FloatInt => two(Representation::F32, Representation::I32),
            Representation::DoubleInt => two(Representation::F64, Representation::I32),
            Representation::LongInt => {
                // C long, not long long: its external32 form is shorter.
                Signature::sequence([Signature::c_long(), Signature::of(Representation::I32)])
            }
            Representation::ShortInt => two(Representation::I16, Representation::I32),
            Representation::F80Int => two(Representation::F80, Representation::I32),
            Representation::F128Int => two(Representation::F128, Representation::I32),
            Representation::IntInt => Signature::repeat(2, &Signature::of(Representation::I32)),
            Representation::FloatFloat => Signature::repeat(2, &Signature::of(Representation::F32)),
            Representation::DoubleDouble => {
                Signature::repeat(2, &Signature::of(Representation::F64))
            }
            basic => Signature::basic(basic, super::external32::size(basic)),
        }
    }

    /// Returns the signature of C `long` or `unsigned long`, which take 4 bytes in external32.
    pub fn long(kind: Representation) -> Arc<Signature> {
        Signature::basic(kind, 4)
    }

    fn c_long() -> Arc<Signature> {
        Signature::long(Representation::I64)
    }

    fn basic(kind: Representation, external: usize) -> Arc<Signature> {
        Arc::new(Signature {
            bytes: kind.size(),
            external,
            elements: 1,
            digest: Digest::basic(kind),
            opaque: kind == Representation::Byte,
            form: Form::Basic(kind),
        })
    }

    /// Returns `count` repetitions of `body`; the caller has checked that sizes do not overflow.
    pub fn repeat(count: u64, body: &Arc<Signature>) -> Arc<Signature> {
        if count == 0 || body.elements == 0 {
            return Signature::empty();
        }
        if count == 1 {
            return body.clone();
        }
        let inner = match &body.form {
            Form::Repeat(inner) => inner,
            _ => body,
        };
        Arc::new(Signature {
            bytes: body.bytes * count as usize,
            external: body.external * count as usize,
            elements: body.elements * count,
            digest: body.digest.repeated(count),
            opaque: body.opaque,
            form: Form::Repeat(inner.clone()),
        })
    }

    /// Returns the concatenation; the caller has checked that sizes do not overflow.
    pub fn sequence(all: impl IntoIterator<Item = Arc<Signature>>) -> Arc<Signature> {
        let mut list: Vec<Arc<Signature>> = Vec::new();
        for next in all.into_iter().filter(|s| s.elements > 0) {
            let merged = list.last().and_then(|last| last.joined(&next));
            match (merged, list.last_mut()) {
                (Some(merged), Some(last)) => *last = merged,
                _ => list.push(next),
            }
        }
        if list.len() <= 1 {
            return list.pop().unwrap_or_else(Signature::empty);
        }
        let (mut bytes, mut external, mut elements) = (0, 0, 0);
        let (mut digest, mut opaque) = (Digest::EMPTY, false);
        let parts = list.into_iter().map(|signature| {
            let part = (bytes, elements);
            bytes += signature.bytes;
            external += signature.external;
            elements += signature.elements;
            digest = digest.then(signature.digest);
            opaque |= signature.opaque;
            Part {
                bytes: part.0,
                elements: part.1,
                signature,
            }
        });
        let form = Form::Sequence(parts.collect());
        Arc::new(Signature {
            bytes,
            external,
            elements,
            digest,
            opaque,
            form,
        })
    }

    /// Joins two signatures into one repetition, if they repeat the same basic type.
    fn joined(&self, next: &Signature) -> Option<Arc<Signature>> {
        let basic = |s: &Signature| match &s.form {
            Form::Basic(kind) => Some((*kind, s.external)),
            Form::Repeat(body) => match body.form {
                Form::Basic(kind) => Some((kind, body.external)),
                _ => None,
            },
            _ => None,
        };
        let (kind, external) = basic(self)?;
        (basic(next)? == (kind, external)).then(|| {
            let body = Signature::basic(kind, external);
            Signature::repeat(self.elements + next.elements, &body)
        })
    }

    /// Returns the number of basic types in the first `bytes` bytes; `None` if they end within one.
    pub fn elements_in(&self, bytes: usize) -> Option<u64> {
        Some(self.prefix(bytes)?.0)
    }

    /// Returns the bytes of the first `elements` basic types.
    pub fn bytes_of(&self, mut elements: u64) -> usize {
        let (mut signature, mut before) = (self, 0);
        while elements < signature.elements {
            match &signature.form {
                Form::Empty | Form::Basic(_) => return before,
                Form::Repeat(body) => {
                    before += (elements / body.elements) as usize * body.bytes;
                    elements %= body.elements;
                    signature = body;
                }
                Form::Sequence(parts) => {
                    let index = parts.partition_point(|p| p.elements <= elements) - 1;
                    let part = &parts[index];
                    before += part.bytes;
                    elements -= part.elements;
                    signature = &part.signature;
                }
            }
        }
        before + signature.bytes
    }

    /// Returns number, hash and opaqueness of the basic types in the first `bytes` bytes.
    fn prefix(&self, mut bytes: usize) -> Option<(u64, Digest, bool)> {
        let mut signature = self;
        let (mut elements, mut digest, mut opaque) = (0, Digest::EMPTY, false);
        loop {
            if bytes == 0 {
                return Some((elements, digest, opaque));
            }
            if bytes == signature.bytes {
                elements += signature.elements;
                digest = digest.then(signature.digest);
                return Some((elements, digest, opaque || signature.opaque));
            }
            match &signature.form {
                Form::Empty | Form::Basic(_) => return None,
                Form::Repeat(body) => {
                    let full = (bytes / body.bytes) as u64;
                    elements += full * body.elements;
                    digest = digest.then(body.digest.repeated(full));
                    opaque |= full > 0 && body.opaque;
                    bytes %= body.bytes;
                    signature = body;
                }
                Form::Sequence(parts) => {
                    let index = parts.partition_point(|p| p.bytes <= bytes) - 1;
                    for part in &parts[..index] {
                        digest = digest.then(part.signature.digest);
                        opaque |= part.signature.opaque;
                    }
                    elements += parts[index].elements;
                    bytes -= parts[index].bytes;
                    signature = &parts[index].signature;
                }
            }
        }
    }

    /// Summarizes the first `bytes` bytes of repetitions of this signature.
    pub fn digest_of(&self, bytes: usize) -> Option<SignatureDigest> {
        let full = bytes.checked_div(self.bytes).unwrap_or(0);
        let rest = bytes.checked_rem(self.bytes).unwrap_or(bytes);
        let rest = self.prefix(rest)?;
        let repeated = self.digest.repeated(full as u64);
        Some(SignatureDigest {
            elements: full as u64 * self.elements + rest.0,
            bytes,
            opaque: (full > 0 && self.opaque) || rest.2,
            hash: repeated.then(rest.1).hash,
        })
    }

    /// Calls `visit` with each run of equal basic types: kind, size in external32, number.
    pub fn runs(
        &self,
        visit: &mut dyn FnMut(Representation, usize, usize) -> Result<()>,
    ) -> Result<()> {
        // Signatures left to visit with their repetitions; the next one is last.
        let mut left = vec![(self, 1)];
        while let Some((signature, times)) = left.pop() {
            if times > 1 {
                left.push((signature, times - 1));
            }
            match &signature.form {
                Form::Empty => {}
                Form::Basic(kind) => visit(*kind, signature.external, 1)?,
                Form::Repeat(body) => {
                    let count = signature.bytes / body.bytes;
                    match body.form {
                        Form::Basic(kind) => visit(kind, body.external, count)?,
                        _ => left.push((body, count)),
                    }
                }
                Form::Sequence(parts) => {
                    left.extend(parts.iter().rev().map(|p| (&*p.signature, 1)));
                }
            }
        }
        Ok(())
    }
}
