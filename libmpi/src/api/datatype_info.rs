//! What datatypes say of themselves (sections 4.1, 6.8, 12.3 and 16.1).

use std::ffi::{CStr, c_char, c_int};
use std::ptr;

use mpi_core::datatype::{Combiner, Datatype, Envelope, Numbers};
use mpi_core::{Class, Error, Result};

use super::datatype::handle_of;
use super::env::put_text;
use super::{null, put};
use crate::abi::{self, MPI_Aint, MPI_Count, MPI_DATATYPE_NULL, MPI_Datatype, MPI_Status};
use crate::counts::IntOut;
use crate::{status, types};

/// The size of a datatype; none for an optional one that the library lacks (MPI-5.0 section 21.4).
fn size_of(datatype: MPI_Datatype) -> Result<Option<usize>> {
    if types::is_absent(datatype) {
        return Ok(None);
    }
    Ok(Some(types::object(datatype)?.datatype.size()))
}

/// `MPI_Type_size`.
pub unsafe fn type_size(datatype: MPI_Datatype, size: IntOut) -> Result<()> {
    let bytes = size_of(datatype)?;
    // SAFETY: by the contract of this function.
    unsafe { size.put_defined("size", bytes) }
}

/// `MPI_Type_size_x`.
pub unsafe fn type_size_x(datatype: MPI_Datatype, size: *mut MPI_Count) -> Result<()> {
    let bytes = size_of(datatype)?;
    // SAFETY: by the contract of this function.
    unsafe { IntOut::Large(size).put_defined("size", bytes) }
}

/// `MPI_Type_get_extent`.
pub unsafe fn type_get_extent(
    datatype: MPI_Datatype,
    lb: *mut MPI_Aint,
    extent: *mut MPI_Aint,
) -> Result<()> {
    let datatype = &types::object(datatype)?.datatype;
    // SAFETY: by the contract of this function.
    unsafe {
        put(lb, "lb", datatype.lb() as MPI_Aint)?;
        put(extent, "extent", datatype.extent() as MPI_Aint)
    }
}

/// `MPI_Type_get_extent_x`.
pub unsafe fn type_get_extent_x(
    datatype: MPI_Datatype,
    lb: *mut MPI_Count,
    extent: *mut MPI_Count,
) -> Result<()> {
    let datatype = &types::object(datatype)?.datatype;
    // SAFETY: by the contract of this function.
    unsafe {
        put(lb, "lb", datatype.lb() as MPI_Count)?;
        put(extent, "extent", datatype.extent() as MPI_Count)
    }
}

/// `MPI_Type_get_true_extent`.
pub unsafe fn type_get_true_extent(
    datatype: MPI_Datatype,
    true_lb: *mut MPI_Aint,
    true_extent: *mut MPI_Aint,
) -> Result<()> {
    let datatype = &types::object(datatype)?.datatype;
    // SAFETY: by the contract of this function.
    unsafe {
        put(true_lb, "true_lb", datatype.true_lb() as MPI_Aint)?;
        let extent = datatype.true_extent() as MPI_Aint;
        put(true_extent, "true_extent", extent)
    }
}

/// `MPI_Type_get_true_extent_x`.
pub unsafe fn type_get_true_extent_x(
    datatype: MPI_Datatype,
    true_lb: *mut MPI_Count,
    true_extent: *mut MPI_Count,
) -> Result<()> {
    let datatype = &types::object(datatype)?.datatype;
    // SAFETY: by the contract of this function.
    unsafe {
        put(true_lb, "true_lb", datatype.true_lb() as MPI_Count)?;
        let extent = datatype.true_extent() as MPI_Count;
        put(true_extent, "true_extent", extent)
    }
}

/// `MPI_Type_extent` of MPI-1.
pub unsafe fn type_extent(datatype: MPI_Datatype, extent: *mut MPI_Aint) -> Result<()> {
    let bytes = types::object(datatype)?.datatype.extent();
    // SAFETY: by the contract of this function.
    unsafe { put(extent, "extent", bytes as MPI_Aint) }
}

/// `MPI_Type_lb` of MPI-1.
pub unsafe fn type_lb(datatype: MPI_Datatype, displacement: *mut MPI_Aint) -> Result<()> {
    let bytes = types::object(datatype)?.datatype.lb();
    // SAFETY: by the contract of this function.
    unsafe { put(displacement, "displacement", bytes as MPI_Aint) }
}

/// `MPI_Type_ub` of MPI-1.
pub unsafe fn type_ub(datatype: MPI_Datatype, displacement: *mut MPI_Aint) -> Result<()> {
    let bytes = types::object(datatype)?.datatype.ub();
    // SAFETY: by the contract of this function.
    unsafe { put(displacement, "displacement", bytes as MPI_Aint) }
}

/// The elements that a status tells of.
fn elements(status: *const MPI_Status, datatype: MPI_Datatype) -> Result<Option<usize>> {
    let datatype = &types::object(datatype)?.datatype;
    if status::ignored(status.cast_mut()) {
        return Err(Error::new(
            Class::Arg,
            "status is MPI_STATUS_IGNORE or NULL, which tells nothing; pass one that was filled in",
        ));
    }
    // SAFETY: neither NULL nor a constant, and then valid by the contract of the callers.
    let bytes = status::bytes(unsafe { &*status });
    Ok(usize::try_from(bytes)
        .ok()
        .and_then(|bytes| datatype.elements_in(bytes))
        .and_then(|elements| elements.try_into().ok()))
}

/// `MPI_Get_elements`.
pub unsafe fn get_elements(
    status: *const MPI_Status,
    datatype: MPI_Datatype,
    count: IntOut,
) -> Result<()> {
    let elements = elements(status, datatype)?;
    // SAFETY: by the contract of this function.
    unsafe { count.put_defined("count", elements) }
}

/// `MPI_Get_elements_x`.
pub unsafe fn get_elements_x(
    status: *const MPI_Status,
    datatype: MPI_Datatype,
    count: *mut MPI_Count,
) -> Result<()> {
    // SAFETY: by the contract of this function.
    unsafe { get_elements(status, datatype, IntOut::Large(count)) }
}

/// `MPI_Status_set_elements`.
pub unsafe fn status_set_elements(
    status: *mut MPI_Status,
    datatype: MPI_Datatype,
    count: MPI_Count,
) -> Result<()> {
    let datatype = &types::object(datatype)?.datatype;
    let Ok(elements) = u64::try_from(count) else {
        let detail = format!("count is {count}; it must be 0 or more");
        return Err(Error::new(Class::Count, detail));
    };
    let Some(bytes) = datatype.bytes_of(elements) else {
        let detail = format!("{count} elements of {datatype} are more than there can be");
        return Err(Error::new(Class::Count, detail));
    };
    if !status::ignored(status) {
        // SAFETY: valid by the contract of this function.
        status::set_bytes(unsafe { &mut *status }, bytes as u64);
    }
    Ok(())
}

/// `MPI_Status_set_elements_x`.
pub unsafe fn status_set_elements_x(
    status: *mut MPI_Status,
    datatype: MPI_Datatype,
    count: MPI_Count,
) -> Result<()> {
    // SAFETY: by the contract of this function.
    unsafe { status_set_elements(status, datatype, count) }
}

fn combiner(combiner: Combiner) -> c_int {
    match combiner {
        Combiner::Named => abi::MPI_COMBINER_NAMED,
        Combiner::Dup => abi::MPI_COMBINER_DUP,
        Combiner::Contiguous => abi::MPI_COMBINER_CONTIGUOUS,
        Combiner::Vector => abi::MPI_COMBINER_VECTOR,
        Combiner::Hvector => abi::MPI_COMBINER_HVECTOR,
        Combiner::Indexed => abi::MPI_COMBINER_INDEXED,
        Combiner::Hindexed => abi::MPI_COMBINER_HINDEXED,
        Combiner::IndexedBlock => abi::MPI_COMBINER_INDEXED_BLOCK,
        Combiner::HindexedBlock => abi::MPI_COMBINER_HINDEXED_BLOCK,
        Combiner::Struct => abi::MPI_COMBINER_STRUCT,
        Combiner::Subarray => abi::MPI_COMBINER_SUBARRAY,
        Combiner::Darray => abi::MPI_COMBINER_DARRAY,
        Combiner::F90Real => abi::MPI_COMBINER_F90_REAL,
        Combiner::F90Complex => abi::MPI_COMBINER_F90_COMPLEX,
        Combiner::F90Integer => abi::MPI_COMBINER_F90_INTEGER,
        Combiner::Resized => abi::MPI_COMBINER_RESIZED,
    }
}

/// Refuses to tell large counts by functions that can't (MPI-4.0 section 5.1.13).
fn demand_ints(envelope: Envelope, function: &str) -> Result<Envelope> {
    if envelope.large_counts > 0 {
        let detail = format!(
            "the datatype was made by a function with large counts; call {function}, which can \
             tell them"
        );
        return Err(Error::new(Class::Type, detail));
    }
    Ok(envelope)
}

/// `MPI_Type_get_envelope`.
///
/// # Safety
/// The results are valid or NULL.
pub unsafe fn type_get_envelope(
    datatype: MPI_Datatype,
    num_integers: *mut c_int,
    num_addresses: *mut c_int,
    num_datatypes: *mut c_int,
    combiner: *mut c_int,
) -> Result<()> {
    let envelope = types::object(datatype)?.datatype.envelope();
    let envelope = demand_ints(envelope, "MPI_Type_get_envelope_c")?;
    for (place, name, number) in [
        (num_integers, "num_integers", envelope.integers),
        (num_addresses, "num_addresses", envelope.addresses),
        (num_datatypes, "num_datatypes", envelope.datatypes),
    ] {
        // SAFETY: by the contract of this function.
        unsafe { IntOut::Int(place).put_defined(name, Some(number))? };
    }
    // SAFETY: by the contract of this function.
    unsafe { put(combiner, "combiner", self::combiner(envelope.combiner)) }
}

/// `MPI_Type_get_envelope_c` (MPI-4.0 section 5.1.13).
///
/// # Safety
/// The results are valid or NULL.
pub unsafe fn type_get_envelope_c(
    datatype: MPI_Datatype,
    num_integers: *mut MPI_Count,
    num_addresses: *mut MPI_Count,
    num_large_counts: *mut MPI_Count,
    num_datatypes: *mut MPI_Count,
    combiner: *mut c_int,
) -> Result<()> {
    let envelope = types::object(datatype)?.datatype.envelope();
    for (place, name, number) in [
        (num_integers, "num_integers", envelope.integers),
        (num_addresses, "num_addresses", envelope.addresses),
        (num_large_counts, "num_large_counts", envelope.large_counts),
        (num_datatypes, "num_datatypes", envelope.datatypes),
    ] {
        // SAFETY: by the contract of this function.
        unsafe { IntOut::Large(place).put_defined(name, Some(number))? };
    }
    // SAFETY: by the contract of this function.
    unsafe { put(combiner, "combiner", self::combiner(envelope.combiner)) }
}

const NUMBERS: Numbers = Numbers {
    order_c: abi::MPI_ORDER_C as i64,
    order_fortran: abi::MPI_ORDER_FORTRAN as i64,
    distribute_block: abi::MPI_DISTRIBUTE_BLOCK as i64,
    distribute_cyclic: abi::MPI_DISTRIBUTE_CYCLIC as i64,
    distribute_none: abi::MPI_DISTRIBUTE_NONE as i64,
    distribute_default_argument: abi::MPI_DISTRIBUTE_DFLT_DARG as i64,
    undefined: abi::MPI_UNDEFINED as i64,
};

/// Writes a list to an array of the program's.
///
/// # Safety
/// `to` is NULL or valid for writes of `room` elements.
unsafe fn put_list<T>(
    list: impl ExactSizeIterator<Item = Result<T>>,
    (room, to): (MPI_Count, *mut T),
    name: &str,
) -> Result<()> {
    let length = list.len();
    if usize::try_from(room).is_ok_and(|room| room >= length) {
        if length > 0 && to.is_null() {
            return Err(null(name));
        }
        for (index, value) in list.enumerate() {
            // SAFETY: not NULL, and then there is room by the contract of this function.
            unsafe { to.add(index).write(value?) };
        }
        return Ok(());
    }
    Err(Error::new(
        Class::Arg,
        format!(
            "{name} has room for {room} entries, but {length} are there; ask \
             MPI_Type_get_envelope how many there are"
        ),
    ))
}

/// `MPI_Type_get_contents`. Members that are not predefined get new handles, which the program
/// is to free.
///
/// # Safety
/// The arrays have the lengths given, or are NULL.
pub unsafe fn type_get_contents(
    datatype: MPI_Datatype,
    max_integers: c_int,
    max_addresses: c_int,
    max_datatypes: c_int,
    array_of_integers: *mut c_int,
    array_of_addresses: *mut MPI_Aint,
    array_of_datatypes: *mut MPI_Datatype,
) -> Result<()> {
    let object = types::object(datatype)?;
    demand_ints(object.datatype.envelope(), "MPI_Type_get_contents_c")?;
    // SAFETY: by the contract of this function.
    unsafe {
        contents(
            &object.datatype,
            (max_integers.into(), array_of_integers),
            (max_addresses.into(), array_of_addresses),
            (0, ptr::null_mut()),
            (max_datatypes.into(), array_of_datatypes),
        )
    }
}

/// `MPI_Type_get_contents_c` (MPI-4.0 section 5.1.13), as [`type_get_contents`].
///
/// # Safety
/// The arrays have the lengths given, or are NULL.
pub unsafe fn type_get_contents_c(
    datatype: MPI_Datatype,
    max_integers: MPI_Count,
    max_addresses: MPI_Count,
    max_large_counts: MPI_Count,
    max_datatypes: MPI_Count,
    array_of_integers: *mut c_int,
    array_of_addresses: *mut MPI_Aint,
    array_of_large_counts: *mut MPI_Count,
    array_of_datatypes: *mut MPI_Datatype,
) -> Result<()> {
    // SAFETY: by the contract of this function.
    unsafe {
        contents(
            &types::object(datatype)?.datatype,
            (max_integers, array_of_integers),
            (max_addresses, array_of_addresses),
            (max_large_counts, array_of_large_counts),
            (max_datatypes, array_of_datatypes),
        )
    }
}

/// Writes a datatype's contents to arrays, which have room for so many.
///
/// # Safety
/// The arrays have the lengths given, or are NULL.
unsafe fn contents(
    datatype: &Datatype,
    integers: (MPI_Count, *mut c_int),
    addresses: (MPI_Count, *mut MPI_Aint),
    large_counts: (MPI_Count, *mut MPI_Count),
    datatypes: (MPI_Count, *mut MPI_Datatype),
) -> Result<()> {
    let contents = datatype.contents(&NUMBERS)?;
    let ints = contents.integers.into_iter().map(|value| {
        c_int::try_from(value).map_err(|_| {
            let detail = format!("an argument is {value}, which C's int can't hold");
            Error::new(Class::Count, detail)
        })
    });
    let wide = |list: Vec<i64>| list.into_iter().map(Ok);
    let handles = contents.datatypes.iter().map(handle_of);
    // SAFETY: by the contract of this function.
    unsafe {
        put_list(ints, integers, "array_of_integers")?;
        put_list(wide(contents.addresses), addresses, "array_of_addresses")?;
        put_list(
            wide(contents.large_counts),
            large_counts,
            "array_of_large_counts",
        )?;
        put_list(handles, datatypes, "array_of_datatypes")
    }
}

/// `MPI_Type_set_name`. Longer names are cut.
///
/// # Safety
/// `type_name` is a string or NULL.
pub unsafe fn type_set_name(datatype: MPI_Datatype, type_name: *const c_char) -> Result<()> {
    let object = types::object(datatype)?;
    if type_name.is_null() {
        return Err(null("type_name"));
    }
    // SAFETY: a string by the contract of this function.
    let name = unsafe { CStr::from_ptr(type_name) }.to_string_lossy();
    let mut end = name.len().min(abi::MPI_MAX_OBJECT_NAME as usize - 1);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    *object.name.lock() = Some(name[..end].to_owned());
    Ok(())
}

/// `MPI_Type_get_name`. Predefined types have their names from the start, and so has the null handle
/// (MPI-4.0 section 7.8), others none.
///
/// # Safety
/// `type_name` has room for `MPI_MAX_OBJECT_NAME` characters, or is NULL, as may be `resultlen`.
pub unsafe fn type_get_name(
    datatype: MPI_Datatype,
    type_name: *mut c_char,
    resultlen: *mut c_int,
) -> Result<()> {
    if datatype == MPI_DATATYPE_NULL {
        // SAFETY: by the contract of this function.
        return unsafe { put_text(type_name, "type_name", "MPI_DATATYPE_NULL", resultlen) };
    }
    let object = types::object(datatype)?;
    let name = object.name.lock().clone().unwrap_or_else(|| {
        let datatype = &object.datatype;
        match datatype.envelope().combiner {
            Combiner::Named => datatype.to_string(),
            _ => String::new(),
        }
    });
    // SAFETY: by the contract of this function; names are kept short enough.
    unsafe { put_text(type_name, "type_name", &name, resultlen) }
}
