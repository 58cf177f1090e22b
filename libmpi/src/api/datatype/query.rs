//! Inquiry about datatypes (sections 4.1, 6.8, 12.3 and 16.1).

use std::ffi::{CStr, c_int};
use std::ptr;

use mpi_core::datatype::{Combiner, Datatype, Envelope, Numbers};
use mpi_core::{Class, Error, Result};
use mpi_runtime::handles::type_object::TypeObject;
use mpi_runtime::handles::types;
use mpi_runtime::settings::text;

use crate::abi::{self, MPI_Aint, MPI_Count, MPI_DATATYPE_NULL, MPI_Datatype};
use crate::api::datatype::handle_of;
use crate::api::null;
use crate::args::{Late, Out, OutInt, OutText, StatusIn, StatusOut};
use crate::status;

/// `MPI_Type_size` and `MPI_Type_size_x`: undefined for an optional datatype that the library lacks
/// (MPI-5.0 section 21.4).
pub fn type_size(Late(datatype, call): Late<MPI_Datatype>, size: OutInt) -> Result<()> {
    let bytes = match crate::outward::ABSENT.contains(&datatype) {
        true => None,
        false => Some(types::object(datatype, call)?.datatype.size()),
    };
    size.set_defined(bytes);
    Ok(())
}

/// `MPI_Type_get_extent` and `MPI_Type_get_extent_x`.
pub fn type_get_extent(
    datatype: &Datatype,
    lb: Out<MPI_Aint>,
    extent: Out<MPI_Aint>,
) -> Result<()> {
    lb.set(datatype.lb() as MPI_Aint);
    extent.set(datatype.extent() as MPI_Aint);
    Ok(())
}

/// `MPI_Type_get_true_extent` and `MPI_Type_get_true_extent_x`.
pub fn type_get_true_extent(
    datatype: &Datatype,
    true_lb: Out<MPI_Aint>,
    true_extent: Out<MPI_Aint>,
) -> Result<()> {
    true_lb.set(datatype.true_lb() as MPI_Aint);
    true_extent.set(datatype.true_extent() as MPI_Aint);
    Ok(())
}

/// `MPI_Type_extent` of MPI-1.
pub fn type_extent(datatype: &Datatype, extent: Out<MPI_Aint>) -> Result<()> {
    extent.set(datatype.extent() as MPI_Aint);
    Ok(())
}

/// `MPI_Type_lb` of MPI-1.
pub fn type_lb(datatype: &Datatype, displacement: Out<MPI_Aint>) -> Result<()> {
    displacement.set(datatype.lb() as MPI_Aint);
    Ok(())
}

/// `MPI_Type_ub` of MPI-1.
pub fn type_ub(datatype: &Datatype, displacement: Out<MPI_Aint>) -> Result<()> {
    displacement.set(datatype.ub() as MPI_Aint);
    Ok(())
}

/// `MPI_Get_elements` and `MPI_Get_elements_x`: the number of basic elements.
pub fn get_elements(status: StatusIn, datatype: &Datatype, count: OutInt) -> Result<()> {
    let bytes = usize::try_from(status::bytes(status.read()?)).ok();
    let elements = bytes.and_then(|bytes| datatype.elements_in(bytes));
    count.set_defined(elements.and_then(|elements| elements.try_into().ok()));
    Ok(())
}

/// `MPI_Status_set_elements` and `MPI_Status_set_elements_x`.
pub unsafe fn status_set_elements(
    mut status: StatusOut,
    datatype: &Datatype,
    count: MPI_Count,
) -> Result<()> {
    let Ok(elements) = u64::try_from(count) else {
        let detail = format!("count is {count}; it must be 0 or more");
        return Err(Error::new(Class::Count, detail));
    };
    let Some(bytes) = datatype.bytes_of(elements) else {
        let detail =
            format!("count is {count}; the size of that many elements of {datatype} overflows");
        return Err(Error::new(Class::Count, detail));
    };
    // SAFETY: the program passes a status that is set (output arguments, chapter of the module `api`).
    if let Some(status) = unsafe { status.initialized() } {
        status::set_bytes(status, bytes as u64);
    }
    Ok(())
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

/// Refuses large counts in functions that return ints (MPI-4.0 section 5.1.13).
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
pub fn type_get_envelope(
    datatype: &Datatype,
    num_integers: Out<c_int>,
    num_addresses: Out<c_int>,
    num_datatypes: Out<c_int>,
    combiner: Out<c_int>,
) -> Result<()> {
    let envelope = datatype.envelope();
    let envelope = demand_ints(envelope, "MPI_Type_get_envelope_c")?;
    for (place, number) in [
        (num_integers, envelope.integers),
        (num_addresses, envelope.addresses),
        (num_datatypes, envelope.datatypes),
    ] {
        OutInt::Int(place).set_defined(Some(number));
    }
    combiner.set(self::combiner(envelope.combiner));
    Ok(())
}

/// `MPI_Type_get_envelope_c` (MPI-4.0 section 5.1.13).
pub fn type_get_envelope_c(
    datatype: &Datatype,
    num_integers: Out<MPI_Count>,
    num_addresses: Out<MPI_Count>,
    num_large_counts: Out<MPI_Count>,
    num_datatypes: Out<MPI_Count>,
    combiner: Out<c_int>,
) -> Result<()> {
    let envelope = datatype.envelope();
    for (place, number) in [
        (num_integers, envelope.integers),
        (num_addresses, envelope.addresses),
        (num_large_counts, envelope.large_counts),
        (num_datatypes, envelope.datatypes),
    ] {
        OutInt::Large(place).set_defined(Some(number));
    }
    combiner.set(self::combiner(envelope.combiner));
    Ok(())
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
pub unsafe fn type_get_contents(
    datatype: &Datatype,
    max_integers: c_int,
    max_addresses: c_int,
    max_datatypes: c_int,
    array_of_integers: *mut c_int,
    array_of_addresses: *mut MPI_Aint,
    array_of_datatypes: *mut MPI_Datatype,
) -> Result<()> {
    demand_ints(datatype.envelope(), "MPI_Type_get_contents_c")?;
    // SAFETY: each array is NULL or has as many elements as its maximum says (arrays, chapter of
    // the module `api`).
    unsafe {
        contents(
            datatype,
            (max_integers.into(), array_of_integers),
            (max_addresses.into(), array_of_addresses),
            (0, ptr::null_mut()),
            (max_datatypes.into(), array_of_datatypes),
        )
    }
}

/// `MPI_Type_get_contents_c` (MPI-4.0 section 5.1.13), as [`type_get_contents`].
pub unsafe fn type_get_contents_c(
    datatype: &Datatype,
    max_integers: MPI_Count,
    max_addresses: MPI_Count,
    max_large_counts: MPI_Count,
    max_datatypes: MPI_Count,
    array_of_integers: *mut c_int,
    array_of_addresses: *mut MPI_Aint,
    array_of_large_counts: *mut MPI_Count,
    array_of_datatypes: *mut MPI_Datatype,
) -> Result<()> {
    // SAFETY: each array is NULL or has as many elements as its maximum says (arrays, chapter of
    // the module `api`).
    unsafe {
        contents(
            datatype,
            (max_integers, array_of_integers),
            (max_addresses, array_of_addresses),
            (max_large_counts, array_of_large_counts),
            (max_datatypes, array_of_datatypes),
        )
    }
}

/// Writes a datatype's contents to arrays.
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
            let detail = format!("an argument of the constructor is {value}, which exceeds an int; call MPI_Type_get_contents_c");
            Error::new(Class::Count, detail)
        })
    });
    let wide = |list: Vec<i64>| list.into_iter().map(Ok);
    let handles = contents.datatypes.iter().map(handle_of);
    // SAFETY: the arrays are NULL or have the lengths that go with them (# Safety).
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
pub fn type_set_name(datatype: &TypeObject, type_name: &CStr) -> Result<()> {
    let room = abi::MPI_MAX_OBJECT_NAME as usize - 1;
    *datatype.name.lock() = Some(text::beginning(type_name.to_bytes(), room));
    Ok(())
}

/// `MPI_Type_get_name`. Predefined types and the null handle (MPI-4.0 section 7.8) have names from
/// the start, others have none.
pub fn type_get_name(
    Late(datatype, call): Late<MPI_Datatype>,
    type_name: OutText<{ abi::MPI_MAX_OBJECT_NAME }>,
    resultlen: Out<c_int>,
) -> Result<()> {
    if datatype == MPI_DATATYPE_NULL {
        return type_name.set("MPI_DATATYPE_NULL", &resultlen);
    }
    let object = types::object(datatype, call)?;
    let name = object.name.lock().clone().unwrap_or_else(|| {
        let datatype = &object.datatype;
        match datatype.envelope().combiner {
            Combiner::Named => datatype.to_string(),
            _ => String::new(),
        }
    });
    type_name.set(&name, &resultlen)
}
