//! The elements that a datatype with gaps takes out of an array section with gaps, as one datatype: for calls that can't
//! use a copy, which are one-sided ones without a request.

use std::ffi::c_int;

use crate::abi::{
    MPI_BYTE, MPI_COMBINER_F90_COMPLEX, MPI_COMBINER_F90_INTEGER, MPI_COMBINER_F90_REAL,
    MPI_COMBINER_NAMED, MPI_COMM_SELF, MPI_Count, MPI_DATATYPE_NULL, MPI_Datatype, MPI_SUCCESS,
};
use crate::imports as c;

/// The predefined datatype that a datatype is made of, if it is one alone.
pub fn basic(datatype: MPI_Datatype) -> Option<MPI_Datatype> {
    let (mut integers, mut addresses, mut counts, mut datatypes) = (0, 0, 0, 0);
    let mut combiner: c_int = 0;
    // SAFETY: local variables, with room for what the first call tells.
    unsafe {
        let code = c::MPI_Type_get_envelope_c(
            datatype,
            &raw mut integers,
            &raw mut addresses,
            &raw mut counts,
            &raw mut datatypes,
            &raw mut combiner,
        );
        if code != MPI_SUCCESS {
            return None;
        }
        // Those by precision and range have no name, but are predefined as well.
        if [
            MPI_COMBINER_NAMED,
            MPI_COMBINER_F90_REAL,
            MPI_COMBINER_F90_COMPLEX,
            MPI_COMBINER_F90_INTEGER,
        ]
        .contains(&combiner)
        {
            return Some(datatype);
        }
        let room = |number: MPI_Count| usize::try_from(number).unwrap_or(0);
        let mut inner = vec![MPI_DATATYPE_NULL; room(datatypes)];
        let mut all_integers = vec![0; room(integers)];
        let mut all_addresses = vec![0; room(addresses)];
        let mut all_counts = vec![0; room(counts)];
        let code = c::MPI_Type_get_contents_c(
            datatype,
            integers,
            addresses,
            counts,
            datatypes,
            all_integers.as_mut_ptr(),
            all_addresses.as_mut_ptr(),
            all_counts.as_mut_ptr(),
            inner.as_mut_ptr(),
        );
        if code != MPI_SUCCESS {
            return None;
        }
        let mut found: Option<MPI_Datatype> = None;
        let mut alone = true;
        for mut one in inner {
            let made_of = basic(one);
            alone &= made_of.is_some() && found.is_none_or(|found| Some(found) == made_of);
            found = made_of;
            // Those that have no name are ours now.
            if made_of != Some(one) {
                c::MPI_Type_free(&raw mut one);
            }
        }
        found.filter(|_| alone)
    }
}

/// Whether a datatype takes its `size` bytes as they lie there: each once, in order, from where it begins.
pub fn is_in_order(datatype: MPI_Datatype, size: usize) -> bool {
    if basic(datatype) == Some(datatype) {
        return true;
    }
    if !is_within(1, datatype, size) {
        return false;
    }
    // Each byte is told its number, one byte of that at a time, and what is packed must be the same.
    let last = size.max(1) - 1;
    (0..size_of::<u32>()).all(|byte| {
        if byte > 0 && last >> (8 * byte) == 0 {
            return true;
        }
        let from: Vec<u8> = (0..size).map(|at| (at >> (8 * byte)) as u8).collect();
        packed(1, datatype, &from, size).is_some_and(|to| to == from)
    })
}

/// The `total` bytes that elements of a datatype take out of `from`.
fn packed(count: MPI_Count, datatype: MPI_Datatype, from: &[u8], total: usize) -> Option<Vec<u8>> {
    let mut to = vec![0_u8; total];
    let mut position: MPI_Count = 0;
    // SAFETY: what the datatype takes lies within the one, by the callers' checks; what it packs has room in the other.
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

/// The size of a datatype.
pub fn size(datatype: MPI_Datatype) -> Option<usize> {
    let mut size = 0;
    // SAFETY: a local variable.
    let code = unsafe { c::MPI_Type_size_c(datatype, &raw mut size) };
    usize::try_from(size).ok().filter(|_| code == MPI_SUCCESS)
}

/// A committed datatype for what `count` elements of `datatype` take out of `length` bytes that lie one after the
/// other, where `place` tells how far each byte is from the first. Pieces of `piece` bytes are in one place.
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
        // Bytes do unless an operation needs to know what they are, and then that is an error.
        _ => (MPI_BYTE, 1),
    };
    if !is_within(count, datatype, length) {
        return None;
    }
    let total = size(datatype)?.checked_mul(usize::try_from(count).ok()?)?;
    // Each unit is given its number, and what is packed tells which are taken, in their order; a byte of the number at
    // a time, since units may be as short.
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
    // SAFETY: as many places as told, a local variable.
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

/// Whether all data of elements of a datatype lies within so many bytes from where the first begins.
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
