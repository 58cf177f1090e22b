//! Datatypes: their signatures (sequences of basic types, MPI-5.0 section 5.1) and layouts.

use std::collections::HashMap;
use std::sync::Arc;

use crate::abi::abi;
use crate::calls::ParamKind;
use crate::pmpi;

/// The modulus of signatures' hashes, which are polynomials in [`BASE`] over the basic types.
const PRIME: u128 = (1 << 61) - 1;
const BASE: u64 = 0x1f35_7a4c_92e1_6b0d;
/// Most contiguous blocks of a layout.
const PIECES: usize = 65_536;

fn times(a: u64, b: u64) -> u64 {
    (u128::from(a) * u128::from(b) % PRIME) as u64
}

fn plus(a: u64, b: u64) -> u64 {
    ((u128::from(a) + u128::from(b)) % PRIME) as u64
}

fn power(mut exponent: u64) -> u64 {
    let (mut result, mut base) = (1, BASE);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = times(result, base);
        }
        base = times(base, base);
        exponent >>= 1;
    }
    result
}

/// A sequence of basic types, by length and hash.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Signature {
    /// Number of basic elements.
    pub length: u64,
    /// The hash of the sequence.
    pub hash: u64,
    /// Bytes of data.
    pub bytes: u64,
    /// Whether it is MPI_BYTE or MPI_PACKED, which match any type.
    pub untyped: bool,
}

impl Signature {
    fn then(self, next: Signature) -> Signature {
        Signature {
            // Sums wrap around equally on both sides.
            length: self.length.wrapping_add(next.length),
            hash: plus(times(self.hash, power(next.length)), next.hash),
            bytes: self.bytes.wrapping_add(next.bytes),
            untyped: self.untyped || next.untyped,
        }
    }

    /// Repeats the sequence.
    fn repeated(self, count: u64) -> Signature {
        let mut result = Signature::default();
        let (mut part, mut left) = (self, count);
        while left > 0 {
            if left & 1 == 1 {
                result = result.then(part);
            }
            part = part.then(part);
            left >>= 1;
        }
        result
    }

    /// Returns whether both sequences have the same types, up to names with the same
    /// representation.
    pub fn fits(self, other: Signature) -> bool {
        self.bytes == other.bytes
            && (self.untyped
                || other.untyped
                || self.length == other.length && self.hash == other.hash)
    }
}

/// A datatype.
pub struct Type {
    /// The name of a basic type, or the constructor.
    pub name: String,
    /// Its parts with repetitions; empty for basic types.
    parts: Vec<(Arc<Type>, u64)>,
    /// The signature of one element.
    pub signature: Signature,
    /// Its contiguous blocks (offset, length); `None` if they are too many or unknown.
    pieces: Option<Vec<(i64, u64)>>,
    extent: i64,
}

/// Returns the class of a basic type by its name. Class and size determine its representation.
fn class(name: &str) -> u64 {
    let name = name.trim_start_matches("MPIX_").trim_start_matches("MPI_");
    let has = |part: &str| name.contains(part);
    u64::from(match name {
        "BYTE" | "PACKED" => b'b',
        "CHAR" | "CHARACTER" | "WCHAR" => b't',
        _ if has("COMPLEX") => b'c',
        _ if has("BOOL") || has("LOGICAL") => b'l',
        _ if has("UNSIGNED") || has("UINT") => b'u',
        _ if has("FLOAT") || has("REAL") || has("DOUBLE") => b'f',
        _ => b'i',
    })
}

/// Returns class and size of both parts of a pair type.
fn pair(name: &str) -> Option<[(u64, u64); 2]> {
    let (f, i) = (u64::from(b'f'), u64::from(b'i'));
    Some(match name {
        "MPI_FLOAT_INT" => [(f, 4), (i, 4)],
        "MPI_DOUBLE_INT" => [(f, 8), (i, 4)],
        "MPI_LONG_INT" => [(i, 8), (i, 4)],
        "MPI_SHORT_INT" => [(i, 2), (i, 4)],
        "MPI_LONG_DOUBLE_INT" => [(f, 16), (i, 4)],
        "MPI_2INT" | "MPI_2INTEGER" => [(i, 4), (i, 4)],
        "MPI_2REAL" => [(f, 4), (f, 4)],
        "MPI_2DOUBLE_PRECISION" => [(f, 8), (f, 8)],
        _ => return None,
    })
}

/// Returns the signature of one basic element.
fn basic(class: u64, bytes: u64) -> Signature {
    let untyped = class == u64::from(b'b');
    Signature {
        // Untyped data is compared by its bytes only.
        length: 1,
        hash: (class << 32 | bytes) + 1,
        bytes,
        untyped,
    }
}

impl Type {
    fn named(handle: usize, name: &str) -> Type {
        let bytes = pmpi::type_size(handle);
        let signature = match pair(name) {
            Some([first, second]) => basic(first.0, first.1).then(basic(second.0, second.1)),
            None => basic(class(name), bytes),
        };
        let extent = pmpi::extent(handle);
        let pieces = match extent == bytes as i64 {
            true => Some(vec![(0, bytes)]),
            // A pair type with padding, which counts as data.
            false => Some(vec![(0, extent.unsigned_abs())]),
        };
        Type {
            name: name.to_owned(),
            parts: Vec::new(),
            signature,
            pieces,
            extent,
        }
    }

    /// Returns the signature of `count` elements.
    pub fn of(&self, count: u64) -> Signature {
        self.signature.repeated(count)
    }

    /// Returns the signature of the first `elements` basic elements.
    pub fn first(&self, elements: u64) -> Signature {
        let length = self.signature.length;
        if length == 0 {
            return Signature::default();
        }
        let mut result = self.of(elements / length);
        let mut left = elements % length;
        for (part, count) in &self.parts {
            let all = part.signature.length.wrapping_mul(*count);
            if left == 0 || all == 0 {
                continue;
            }
            let now = left.min(all);
            result = result.then(part.first(now));
            left -= now;
        }
        result
    }

    /// Describes `count` elements: `3 MPI_INT, 1 MPI_DOUBLE`.
    pub fn describe(&self, count: u64) -> String {
        let mut runs: Vec<(String, u64)> = Vec::new();
        let whole = self.runs(count, &mut runs);
        let mut text: Vec<String> = runs
            .iter()
            .map(|(name, count)| format!("{count} {name}"))
            .collect();
        if !whole {
            text.push("...".to_owned());
        }
        if text.is_empty() {
            return "no data".to_owned();
        }
        let text = text.join(", ");
        match self.parts.is_empty() {
            true => text,
            false => format!("{text} ({count} of a datatype of {})", self.name),
        }
    }

    fn runs(&self, count: u64, runs: &mut Vec<(String, u64)>) -> bool {
        if self.parts.is_empty() {
            if count > 0 && self.signature.length > 0 {
                match runs.last_mut() {
                    Some((name, already)) if *name == self.name => {
                        *already = already.wrapping_add(count)
                    }
                    _ => runs.push((self.name.clone(), count)),
                }
            }
            return true;
        }
        if let [(part, times)] = &self.parts[..] {
            return part.runs(times.wrapping_mul(count), runs);
        }
        for _ in 0..count {
            for (part, times) in &self.parts {
                if runs.len() > 4 || !part.runs(*times, runs) {
                    return false;
                }
            }
        }
        true
    }

    /// Returns the contiguous blocks (address, length) of `count` elements in ascending order.
    pub fn pieces(&self, from: usize, count: u64) -> Option<Vec<(usize, usize)>> {
        let own = self.pieces.as_ref()?;
        let mut pieces: Vec<(i64, u64)> = Vec::new();
        repeat(own, count, self.extent, &mut pieces)?;
        pieces.sort_unstable();
        let mut merged: Vec<(usize, usize)> = Vec::new();
        for (offset, length) in pieces {
            let begin = (from as i64).wrapping_add(offset) as usize;
            let length = length as usize;
            match merged.last_mut() {
                Some((before, already)) if begin <= before.saturating_add(*already) => {
                    *already = (*already).max(begin.saturating_add(length) - *before);
                }
                _ if length > 0 => merged.push((begin, length)),
                _ => {}
            }
        }
        Some(merged)
    }
}

/// Appends `count` copies of blocks at a stride, and merges adjacent ones.
fn repeat(own: &[(i64, u64)], count: u64, stride: i64, to: &mut Vec<(i64, u64)>) -> Option<()> {
    if let [(offset, length)] = own
        && *length as i64 == stride
    {
        push(to, *offset, length.checked_mul(count)?);
        return (to.len() <= PIECES).then_some(());
    }
    if (own.len() as u64).saturating_mul(count) > PIECES as u64 {
        return None;
    }
    for index in 0..count as i64 {
        for (offset, length) in own {
            push(to, offset.wrapping_add(index.wrapping_mul(stride)), *length);
        }
    }
    (to.len() <= PIECES).then_some(())
}

fn push(to: &mut Vec<(i64, u64)>, offset: i64, length: u64) {
    match to.last_mut() {
        Some((before, already)) if before.wrapping_add(*already as i64) == offset => {
            *already = already.saturating_add(length);
        }
        _ if length > 0 => to.push((offset, length)),
        _ => {}
    }
}

/// The parts and the blocks of a datatype.
type Parts = (Vec<(Arc<Type>, u64)>, Option<Vec<(i64, u64)>>);

/// Returns parts and blocks of a constructor with blocks of (elements, offset).
fn blocks(part: &Arc<Type>, blocks: &[(u64, i64)]) -> Parts {
    let elements = blocks
        .iter()
        .fold(0u64, |sum, (count, _)| sum.wrapping_add(*count));
    let mut pieces = Vec::new();
    let known = part.pieces.as_ref().and_then(|own| {
        for (count, offset) in blocks {
            let mut block = Vec::new();
            repeat(own, *count, part.extent, &mut block)?;
            block
                .iter()
                .for_each(|(at, length)| push(&mut pieces, at.wrapping_add(*offset), *length));
            if pieces.len() > PIECES {
                return None;
            }
        }
        Some(())
    });
    (vec![(Arc::clone(part), elements)], known.map(|()| pieces))
}

/// The datatypes that the program uses.
#[derive(Default)]
pub struct Types(HashMap<usize, Arc<Type>>);

impl Types {
    /// Returns a datatype, which it asks the MPI library for at first use.
    pub fn get(&mut self, handle: usize) -> Option<Arc<Type>> {
        if let Some(known) = self.0.get(&handle) {
            return Some(Arc::clone(known));
        }
        let new = match abi().predefined(ParamKind::Datatype, handle) {
            Some("MPI_DATATYPE_NULL" | "MPI_LB" | "MPI_UB") => return None,
            Some(name) => Type::named(handle, name),
            None => self.derived(handle)?,
        };
        let new = Arc::new(new);
        self.0.insert(handle, Arc::clone(&new));
        Some(new)
    }

    /// Removes a datatype that is freed, since its handle may be reused.
    pub fn forget(&mut self, handle: usize) {
        self.0.remove(&handle);
    }

    fn derived(&mut self, handle: usize) -> Option<Type> {
        let contents = pmpi::contents(handle)?;
        let types: Option<Vec<Arc<Type>>> =
            contents.types.iter().map(|part| self.get(*part)).collect();
        for part in contents.types {
            if abi().predefined(ParamKind::Datatype, part).is_none() {
                self.forget(part);
                pmpi::type_free(part);
            }
        }
        let types = types?;
        let combiner = contents.combiner;
        if types.is_empty() {
            // MPI_Type_create_f90_*: types by precision and range.
            let name = match combiner {
                "F90_REAL" => "MPI_REAL",
                "F90_COMPLEX" => "MPI_COMPLEX",
                _ => "MPI_INTEGER",
            };
            return Some(Type::named(handle, name));
        }
        // The order is the same in both forms of contents, except for subarrays and darrays.
        let numbers: Vec<i64> = contents.ints.iter().map(|n| i64::from(*n)).collect();
        let all: Vec<i64> = [&numbers[..], &contents.addresses, &contents.large].concat();
        let first = &types[0];
        let (parts, pieces) = parts(combiner, &numbers, &contents.large, &all, &types)
            .unwrap_or_else(|| {
                (
                    vec![(
                        Arc::clone(first),
                        pmpi::type_size(handle) / first.signature.bytes.max(1),
                    )],
                    None,
                )
            });
        let signature = parts
            .iter()
            .fold(Signature::default(), |sum, (part, count)| {
                sum.then(part.of(*count))
            });
        Some(Type {
            name: format!("MPI_Type_{}", made_by(combiner)),
            parts,
            signature,
            pieces,
            extent: pmpi::extent(handle),
        })
    }
}

fn made_by(combiner: &str) -> String {
    let name = combiner.trim_end_matches("_INTEGER").to_lowercase();
    match name.as_str() {
        "contiguous" | "vector" | "indexed" | "dup" => name,
        _ => format!("create_{name}"),
    }
}

fn parts(
    combiner: &str,
    ints: &[i64],
    large: &[i64],
    all: &[i64],
    types: &[Arc<Type>],
) -> Option<Parts> {
    let part = types.first()?;
    let number = |index: usize| all.get(index).copied();
    let positive = |index: usize| number(index).and_then(|n| u64::try_from(n).ok());
    Some(match combiner {
        "DUP" | "RESIZED" => blocks(part, &[(1, 0)]),
        "CONTIGUOUS" => blocks(part, &[(positive(0)?, 0)]),
        "VECTOR" | "HVECTOR" | "HVECTOR_INTEGER" => {
            let (count, length, stride) = (positive(0)?, positive(1)?, number(2)?);
            let unit = if combiner == "VECTOR" { part.extent } else { 1 };
            if count > PIECES as u64 {
                return Some((vec![(Arc::clone(part), count.wrapping_mul(length))], None));
            }
            let all: Vec<_> = (0..count as i64)
                .map(|i| (length, i.wrapping_mul(stride).wrapping_mul(unit)))
                .collect();
            blocks(part, &all)
        }
        "INDEXED" | "HINDEXED" | "HINDEXED_INTEGER" => {
            let count = positive(0)? as usize;
            let unit = if combiner == "INDEXED" {
                part.extent
            } else {
                1
            };
            let all: Option<Vec<_>> = (0..count)
                .map(|i| Some((positive(1 + i)?, number(1 + count + i)?.wrapping_mul(unit))))
                .collect();
            blocks(part, &all?)
        }
        "INDEXED_BLOCK" | "HINDEXED_BLOCK" => {
            let (count, length) = (positive(0)? as usize, positive(1)?);
            let unit = if combiner == "INDEXED_BLOCK" {
                part.extent
            } else {
                1
            };
            let all: Option<Vec<_>> = (0..count)
                .map(|i| Some((length, number(2 + i)?.wrapping_mul(unit))))
                .collect();
            blocks(part, &all?)
        }
        "STRUCT" | "STRUCT_INTEGER" => {
            let count = positive(0)? as usize;
            let mut parts = Vec::new();
            let mut pieces = Some(Vec::new());
            for (i, one) in types.iter().enumerate().take(count) {
                let (length, offset) = (positive(1 + i)?, number(1 + count + i)?);
                parts.push((Arc::clone(one), length));
                let (_, own) = blocks(one, &[(length, offset)]);
                pieces = pieces.zip(own).map(|(mut all, own)| {
                    own.iter()
                        .for_each(|(at, length)| push(&mut all, *at, *length));
                    all
                });
            }
            (parts, pieces)
        }
        "SUBARRAY" => {
            let dims = usize::try_from(*ints.first()?).ok()?;
            let numbers = if large.is_empty() {
                ints.get(1..)?
            } else {
                large
            };
            let order = *ints.last()?;
            let (sizes, rest) = numbers.split_at_checked(dims)?;
            let (sub, rest) = rest.split_at_checked(dims)?;
            let starts = rest.get(..dims)?;
            let elements = sub.iter().fold(1i64, |all, one| all.wrapping_mul(*one)) as u64;
            (
                vec![(Arc::clone(part), elements)],
                subarray(part, order, sizes, sub, starts),
            )
        }
        _ => return None,
    })
}

/// Returns the blocks of a subarray. `order` is MPI_ORDER_C or MPI_ORDER_FORTRAN.
fn subarray(
    part: &Arc<Type>,
    order: i64,
    sizes: &[i64],
    sub: &[i64],
    starts: &[i64],
) -> Option<Vec<(i64, u64)>> {
    let dims = sizes.len();
    // MPI_ORDER_C is 56 in MPICH's ABI, 0xC in the standard one and 0 in Open MPI's.
    let is_c = [56, 0xc, 0].contains(&order);
    let mut strides = vec![1i64; dims];
    let order: Vec<usize> = if is_c {
        (0..dims).rev().collect()
    } else {
        (0..dims).collect()
    };
    for pair in order.windows(2) {
        strides[pair[1]] = strides[pair[0]].checked_mul(sizes[pair[0]])?;
    }
    let mut offsets = vec![0i64];
    // The innermost dimension is contiguous.
    for &dim in order.iter().skip(1).rev() {
        let next = |offset: &i64| {
            let offset = *offset;
            (0..sub[dim]).map(move |i| (offset, i))
        };
        if offsets
            .len()
            .saturating_mul(usize::try_from(sub[dim]).ok()?)
            > PIECES
        {
            return None;
        }
        offsets = offsets
            .iter()
            .flat_map(next)
            .map(|(offset, i)| {
                (starts[dim] + i)
                    .wrapping_mul(strides[dim])
                    .wrapping_add(offset)
            })
            .collect();
    }
    let inner = *order.first()?;
    let length = u64::try_from(sub[inner]).ok()?;
    let all: Vec<(u64, i64)> = offsets
        .iter()
        .map(|offset| (length, (offset + starts[inner]).wrapping_mul(part.extent)))
        .collect();
    blocks(part, &all).1
}
