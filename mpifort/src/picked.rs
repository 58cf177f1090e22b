//! A datatype for the elements that a datatype with gaps selects from an array section with gaps.
//! For one-sided calls without a request, which cannot use a copy.

use std::ffi::c_int;

use crate::abi::{
    MPI_Aint, MPI_BYTE, MPI_COMBINER_CONTIGUOUS, MPI_COMBINER_DUP, MPI_COMBINER_F90_COMPLEX,
    MPI_COMBINER_F90_INTEGER, MPI_COMBINER_F90_REAL, MPI_COMBINER_HINDEXED,
    MPI_COMBINER_HINDEXED_BLOCK, MPI_COMBINER_INDEXED, MPI_COMBINER_INDEXED_BLOCK,
    MPI_COMBINER_NAMED, MPI_COMBINER_STRUCT, MPI_COMBINER_VECTOR, MPI_COMM_SELF, MPI_Count,
    MPI_DATATYPE_NULL, MPI_Datatype, MPI_SUCCESS,
};
use crate::imports as c;

/// The contents of a datatype. Drops free the derived datatypes among them.
struct Made {
    combiner: c_int,
    integers: Vec<c_int>,
    addresses: Vec<MPI_Aint>,
    /// Empty if the datatype was created with ints.
    counts: Vec<MPI_Count>,
    datatypes: Vec<MPI_Datatype>,
}

impl Drop for Made {
    fn drop(&mut self) {
        for one in &mut self.datatypes {
            if !is_predefined(*one) {
                // SAFETY: `contents` returned this derived datatype to us, and it is not used
                // again.
                unsafe { c::MPI_Type_free(one) };
            }
        }
    }
}

/// Returns the sizes of a datatype's contents, and its combiner.
fn envelope(datatype: MPI_Datatype) -> Option<([MPI_Count; 4], c_int)> {
    let ([mut integers, mut addresses, mut counts, mut datatypes], mut combiner) = ([0; 4], 0);
    // SAFETY: local variables.
    let code = unsafe {
        c::MPI_Type_get_envelope_c(
            datatype,
            &raw mut integers,
            &raw mut addresses,
            &raw mut counts,
            &raw mut datatypes,
            &raw mut combiner,
        )
    };
    (code == MPI_SUCCESS).then_some(([integers, addresses, counts, datatypes], combiner))
}

/// Returns whether a datatype is predefined. Those created by precision and range are unnamed but
/// predefined.
fn is_predefined(datatype: MPI_Datatype) -> bool {
    let named = [
        MPI_COMBINER_NAMED,
        MPI_COMBINER_F90_REAL,
        MPI_COMBINER_F90_COMPLEX,
        MPI_COMBINER_F90_INTEGER,
    ];
    envelope(datatype).is_some_and(|(_, combiner)| named.contains(&combiner))
}

/// Returns the contents of a datatype that is not predefined.
fn contents(datatype: MPI_Datatype) -> Option<Made> {
    let (numbers, combiner) = envelope(datatype)?;
    let [integers, addresses, counts, datatypes] = numbers;
    let length = |number: MPI_Count| usize::try_from(number).unwrap_or(0);
    let mut made = Made {
        combiner,
        integers: vec![0; length(integers)],
        addresses: vec![0; length(addresses)],
        counts: vec![0; length(counts)],
        datatypes: Vec::new(),
    };
    let mut inner = vec![MPI_DATATYPE_NULL; length(datatypes)];
    // SAFETY: the lists have the lengths that the envelope returned.
    let code = unsafe {
        c::MPI_Type_get_contents_c(
            datatype,
            integers,
            addresses,
            counts,
            datatypes,
            made.integers.as_mut_ptr(),
            made.addresses.as_mut_ptr(),
            made.counts.as_mut_ptr(),
            inner.as_mut_ptr(),
        )
    };
    if code != MPI_SUCCESS {
        return None;
    }
    made.datatypes = inner;
    Some(made)
}

/// Returns the predefined datatype that a datatype consists of, if it is a single one.
pub fn basic(datatype: MPI_Datatype) -> Option<MPI_Datatype> {
    if is_predefined(datatype) {
        return Some(datatype);
    }
    let made = contents(datatype)?;
    let mut found: Option<MPI_Datatype> = None;
    for one in &made.datatypes {
        let made_of = basic(*one)?;
        if found.is_some_and(|found| found != made_of) {
            return None;
        }
        found = Some(made_of);
    }
    found
}

/// Returns the length of a datatype that covers its bytes from offset 0 on, each once and in order,
/// as far as its constructor shows. Such a type has no gap at its end either.
pub fn in_order(datatype: MPI_Datatype) -> Option<usize> {
    if is_predefined(datatype) {
        let (mut lb, mut extent) = (0, 0);
        // SAFETY: local variables.
        let code = unsafe { c::MPI_Type_get_extent_c(datatype, &raw mut lb, &raw mut extent) };
        let size = size(datatype)?;
        let whole = lb == 0 && usize::try_from(extent) == Ok(size);
        return (code == MPI_SUCCESS && whole).then_some(size);
    }
    let made = contents(datatype)?;
    let mut members = made.datatypes.iter().map(|one| in_order(*one));
    let one = members.next()??;
    let count = |at: usize| {
        let number = made.integers.get(at).copied();
        number.and_then(|number| usize::try_from(number).ok())
    };
    // Blocks (members, offset in bytes) that each begin where the one before ends.
    let follow = |blocks: &mut dyn Iterator<Item = (Option<usize>, Option<i128>)>, len: usize| {
        let mut end = 0_usize;
        for (block, place) in blocks {
            let block = block?.checked_mul(len)?;
            if block > 0 && place? != end as i128 {
                return None;
            }
            end = end.checked_add(block)?;
        }
        Some(end)
    };
    let places = |from: usize| made.integers.iter().skip(from);
    let members_apart = |places: &mut dyn Iterator<Item = i128>,
                         blocks: &dyn Fn(usize) -> Option<usize>| {
        let places: Vec<i128> = places.collect();
        let mut each = places
            .iter()
            .enumerate()
            .map(|(at, place)| (blocks(at), Some(*place)));
        follow(&mut each, one)
    };
    let addresses = || made.addresses.iter().map(|at| i128::from(*at));
    match made.combiner {
        MPI_COMBINER_DUP => Some(one),
        MPI_COMBINER_CONTIGUOUS => {
            let large = made.counts.first().copied();
            let large = large.and_then(|count| usize::try_from(count).ok());
            large.or_else(|| count(0))?.checked_mul(one)
        }
        // The other combiners are only understood with ints.
        _ if !made.counts.is_empty() => None,
        MPI_COMBINER_VECTOR => {
            let (blocks, len) = (count(0)?, count(1)?);
            let follows = blocks < 2 || count(2) == Some(len);
            follows.then(|| blocks.checked_mul(len)?.checked_mul(one))?
        }
        MPI_COMBINER_INDEXED => {
            let blocks = count(0)?;
            let mut places = places(1 + blocks).map(|at| i128::from(*at) * one as i128);
            members_apart(&mut places, &|at| count(1 + at))
        }
        MPI_COMBINER_INDEXED_BLOCK => {
            let mut places = places(2).map(|at| i128::from(*at) * one as i128);
            members_apart(&mut places, &|_| count(1))
        }
        MPI_COMBINER_HINDEXED => members_apart(&mut addresses(), &|at| count(1 + at)),
        MPI_COMBINER_HINDEXED_BLOCK => members_apart(&mut addresses(), &|_| count(1)),
        MPI_COMBINER_STRUCT => {
            let lens = std::iter::once(Some(one)).chain(members);
            let mut end = 0_usize;
            for (at, (len, place)) in lens.zip(addresses()).enumerate() {
                let block = count(1 + at)?.checked_mul(len?)?;
                if block > 0 && place != end as i128 {
                    return None;
                }
                end = end.checked_add(block)?;
            }
            Some(end)
        }
        _ => None,
    }
}

/// Packs the `total` bytes that elements of a datatype select from `from`.
fn packed(count: MPI_Count, datatype: MPI_Datatype, from: &[u8], total: usize) -> Option<Vec<u8>> {
    let mut to = vec![0_u8; total];
    let mut position: MPI_Count = 0;
    // SAFETY: `datatype` has checked by `is_within` that the elements lie within `from`; `to` has
    // `total` bytes, which limits what is packed.
    let code = unsafe {
        c::MPI_Pack_c(
            from.as_ptr().cast(),
            count,
            datatype,
            to.as_mut_ptr().cast(),
            total as MPI_Count,
            &raw mut position,
            MPI_COMM_SELF,
        )
    };
    (code == MPI_SUCCESS && position == total as MPI_Count).then_some(to)
}

/// Returns the size of a datatype.
pub fn size(datatype: MPI_Datatype) -> Option<usize> {
    let mut size = 0;
    // SAFETY: a local variable.
    let code = unsafe { c::MPI_Type_size_c(datatype, &raw mut size) };
    usize::try_from(size).ok().filter(|_| code == MPI_SUCCESS)
}

/// Creates a committed datatype for the bytes that `count` elements of `datatype` select from
/// `length` consecutive bytes, each of which actually lies at offset `place`. `piece` consecutive
/// bytes stay together.
pub fn datatype(
    count: MPI_Count,
    datatype: MPI_Datatype,
    length: usize,
    piece: usize,
    place: impl Fn(usize) -> isize,
) -> Option<MPI_Datatype> {
    let (unit, width) = match basic(datatype) {
        Some(unit) if size(unit).is_some_and(|size| size > 0 && piece.is_multiple_of(size)) => {
            (unit, size(unit)?)
        }
        // Bytes suffice unless an operation needs the type, which is an error then.
        _ => (MPI_BYTE, 1),
    };
    if !is_within(count, datatype, length) {
        return None;
    }
    let total = size(datatype)?.checked_mul(usize::try_from(count).ok()?)?;
    // Fills each unit with its number and packs: the result lists the selected units in order. One
    // byte of the number at a time, since units may be a single byte.
    let mut numbers = vec![0_usize; total / width];
    for byte in 0..size_of::<u32>() {
        let mut from = vec![0_u8; length];
        for (number, unit) in from.chunks_exact_mut(width).enumerate() {
            unit[0] = (number >> (8 * byte)) as u8;
        }
        let to = packed(count, datatype, &from, total)?;
        for (number, unit) in numbers.iter_mut().zip(to.chunks_exact(width)) {
            *number |= usize::from(unit[0]) << (8 * byte);
        }
    }
    let places: Vec<MPI_Count> = numbers
        .iter()
        .map(|number| place(number * width) as MPI_Count)
        .collect();
    let mut made = MPI_DATATYPE_NULL;
    // SAFETY: `places` has `number` entries; `made` is a local variable.
    unsafe {
        let number = places.len() as MPI_Count;
        let code =
            c::MPI_Type_create_hindexed_block_c(number, 1, places.as_ptr(), unit, &raw mut made);
        if code != MPI_SUCCESS {
            return None;
        }
        c::MPI_Type_commit(&raw mut made);
    }
    Some(made)
}

/// Returns whether all data of the elements lies within `length` bytes from the first element on.
fn is_within(count: MPI_Count, datatype: MPI_Datatype, length: usize) -> bool {
    let (mut lb, mut extent, mut true_lb, mut true_extent) = (0, 0, 0, 0);
    // SAFETY: local variables.
    unsafe {
        if c::MPI_Type_get_extent_c(datatype, &raw mut lb, &raw mut extent) != MPI_SUCCESS
            || c::MPI_Type_get_true_extent_c(datatype, &raw mut true_lb, &raw mut true_extent)
                != MPI_SUCCESS
        {
            return false;
        }
    }
    let last = i128::from(extent) * i128::from(count - 1);
    let (first, last) = (last.min(0), last.max(0));
    let begin = i128::from(true_lb) + first;
    let end = i128::from(true_lb) + i128::from(true_extent) + last;
    count < 1 || (begin >= 0 && end <= length as i128 && u32::try_from(length).is_ok())
}
