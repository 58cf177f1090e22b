//! Making and freeing datatypes (sections 4.1, 16.1 and 17.1.9).

pub mod pack;
pub mod query;
pub mod value_index;

use std::borrow::Cow;
use std::ffi::c_int;
use std::slice;

use mpi_core::datatype::{Constructor, Datatype, Distribution, Marker, Order, TypeClass};
use mpi_core::{Class, Error, Result};
use mpi_runtime::handles::types::{self, TypeObject};
use mpi_runtime::lifecycle::library::F90;

use super::null;
use crate::abi::{self, MPI_Aint, MPI_Count, MPI_DATATYPE_NULL, MPI_Datatype};
use crate::args::{Late, Out};
use mpi_runtime::handles::counts::IntArray;

/// Returns the datatype behind a handle.
fn datatype<'c>(Late(handle, call): Late<'c, MPI_Datatype>) -> Result<&'c Datatype> {
    Ok(&types::object(handle, call)?.datatype)
}

/// Gives a new datatype to the program; `large` says whether it was made with large counts.
fn give(newtype: Out<MPI_Datatype>, large: bool, made: Result<Datatype>) -> Result<()> {
    let made = match large {
        true => made?.with_large_counts(),
        false => made?,
    };
    newtype.set(types::insert(TypeObject::new(made))?);
    Ok(())
}

/// Returns an array argument.
///
/// # Safety
/// `array` is NULL or valid for reads of `count` elements.
unsafe fn array<'a, T>(array: *const T, count: MPI_Count, name: &str) -> Result<&'a [T]> {
    let length = length(count, name)?;
    if length > isize::MAX as usize / size_of::<T>() {
        return Err(too_long(name, count));
    }
    match (length, array.is_null()) {
        (0, _) => Ok(&[]),
        (_, true) => Err(null(name)),
        // SAFETY: not NULL, and then valid by the contract of this function.
        (_, false) => Ok(unsafe { slice::from_raw_parts(array, length) }),
    }
}

/// Returns the length of an array argument.
fn length(count: MPI_Count, name: &str) -> Result<usize> {
    usize::try_from(count).map_err(|_| {
        let detail = format!("the length of {name} is {count}; it must be 0 or more");
        Error::new(Class::Count, detail)
    })
}

/// Returns the error for more elements than fit in memory.
#[cold]
fn too_long(name: &str, count: MPI_Count) -> Error {
    let detail = format!("the length of {name} is {count}, which is more than memory holds");
    Error::new(Class::Count, detail)
}

/// Returns an array argument of integers, widened if they are C's ints.
///
/// # Safety
/// `start` is NULL or valid for reads of `count` elements.
unsafe fn integers<'a>(start: IntArray, count: MPI_Count, name: &str) -> Result<Cow<'a, [i64]>> {
    // SAFETY: the array is NULL or has `count` elements (# Safety).
    unsafe {
        Ok(match start {
            IntArray::Int(start) => {
                let list: &[c_int] = array(start, count, name)?;
                Cow::Owned(list.iter().map(|&value| value.into()).collect())
            }
            IntArray::Large(start) => Cow::Borrowed(array(start, count, name)?),
        })
    }
}

/// `MPI_Type_contiguous`.
pub fn type_contiguous(
    large: bool,
    count: MPI_Count,
    oldtype: &Datatype,
    newtype: Out<MPI_Datatype>,
) -> Result<()> {
    let made = oldtype.contiguous(count);
    give(newtype, large, made)
}

/// `MPI_Type_vector`.
pub fn type_vector(
    large: bool,
    count: MPI_Count,
    blocklength: MPI_Count,
    stride: MPI_Count,
    oldtype: &Datatype,
    newtype: Out<MPI_Datatype>,
) -> Result<()> {
    let made = oldtype.vector(count, blocklength, stride);
    give(newtype, large, made)
}

/// `MPI_Type_create_hvector`, and `MPI_Type_hvector` of MPI-1.
pub fn type_create_hvector(
    large: bool,
    count: MPI_Count,
    blocklength: MPI_Count,
    stride: MPI_Count,
    oldtype: &Datatype,
    newtype: Out<MPI_Datatype>,
) -> Result<()> {
    let made = oldtype.hvector(count, blocklength, stride);
    give(newtype, large, made)
}

/// `MPI_Type_indexed`.
pub unsafe fn type_indexed(
    count: MPI_Count,
    array_of_blocklengths: IntArray,
    array_of_displacements: IntArray,
    oldtype: &Datatype,
    newtype: Out<MPI_Datatype>,
) -> Result<()> {
    // SAFETY: each array is NULL or has as many elements as the argument that goes with it says
    // (arrays, chapter of the module `api`).
    unsafe {
        let blocks = integers(array_of_blocklengths, count, "array_of_blocklengths")?;
        let places = integers(array_of_displacements, count, "array_of_displacements")?;
        give(
            newtype,
            array_of_blocklengths.is_large(),
            oldtype.indexed(&blocks, &places),
        )
    }
}

/// `MPI_Type_create_hindexed`, and `MPI_Type_hindexed` of MPI-1.
pub unsafe fn type_create_hindexed(
    count: MPI_Count,
    array_of_blocklengths: IntArray,
    array_of_displacements: *const MPI_Aint,
    oldtype: &Datatype,
    newtype: Out<MPI_Datatype>,
) -> Result<()> {
    // SAFETY: each array is NULL or has as many elements as the argument that goes with it says
    // (arrays, chapter of the module `api`).
    unsafe {
        let blocks = integers(array_of_blocklengths, count, "array_of_blocklengths")?;
        let places = array(array_of_displacements, count, "array_of_displacements")?;
        give(
            newtype,
            array_of_blocklengths.is_large(),
            oldtype.hindexed(&blocks, places),
        )
    }
}

/// `MPI_Type_create_indexed_block`.
pub unsafe fn type_create_indexed_block(
    count: MPI_Count,
    blocklength: MPI_Count,
    array_of_displacements: IntArray,
    oldtype: &Datatype,
    newtype: Out<MPI_Datatype>,
) -> Result<()> {
    // SAFETY: each array is NULL or has as many elements as the argument that goes with it says
    // (arrays, chapter of the module `api`).
    unsafe {
        let places = integers(array_of_displacements, count, "array_of_displacements")?;
        give(
            newtype,
            array_of_displacements.is_large(),
            oldtype.indexed_block(blocklength, &places),
        )
    }
}

/// `MPI_Type_create_hindexed_block`.
pub unsafe fn type_create_hindexed_block(
    large: bool,
    count: MPI_Count,
    blocklength: MPI_Count,
    array_of_displacements: *const MPI_Aint,
    oldtype: &Datatype,
    newtype: Out<MPI_Datatype>,
) -> Result<()> {
    // SAFETY: each array is NULL or has as many elements as the argument that goes with it says
    // (arrays, chapter of the module `api`).
    unsafe {
        let places = array(array_of_displacements, count, "array_of_displacements")?;
        give(newtype, large, oldtype.hindexed_block(blocklength, places))
    }
}

/// `MPI_Type_create_struct`, and `MPI_Type_struct` of MPI-1.
pub unsafe fn type_create_struct(
    count: MPI_Count,
    array_of_blocklengths: IntArray,
    array_of_displacements: *const MPI_Aint,
    array_of_types: *const MPI_Datatype,
    newtype: Out<MPI_Datatype>,
) -> Result<()> {
    // SAFETY: each array is NULL or has as many elements as the argument that goes with it says
    // (arrays, chapter of the module `api`).
    unsafe {
        let blocks = integers(array_of_blocklengths, count, "array_of_blocklengths")?;
        let places = array(array_of_displacements, count, "array_of_displacements")?;
        let handles = array(array_of_types, count, "array_of_types")?;
        let types: Result<Vec<_>> = handles
            .iter()
            .map(|&t| datatype(Late::new(t)).cloned())
            .collect();
        give(
            newtype,
            array_of_blocklengths.is_large(),
            Datatype::structure(&blocks, places, &types?),
        )
    }
}

fn order(number: c_int) -> Result<Order> {
    match number {
        abi::MPI_ORDER_C => Ok(Order::C),
        abi::MPI_ORDER_FORTRAN => Ok(Order::Fortran),
        _ => Err(Error::new(
            Class::Arg,
            format!("order is {number}; it must be MPI_ORDER_C or MPI_ORDER_FORTRAN"),
        )),
    }
}

/// `MPI_Type_create_subarray`.
pub unsafe fn type_create_subarray(
    ndims: c_int,
    array_of_sizes: IntArray,
    array_of_subsizes: IntArray,
    array_of_starts: IntArray,
    order: c_int,
    oldtype: &Datatype,
    newtype: Out<MPI_Datatype>,
) -> Result<()> {
    dimensions(ndims)?;
    let order = self::order(order)?;
    let ndims = MPI_Count::from(ndims);
    // SAFETY: each array is NULL or has as many elements as the argument that goes with it says
    // (arrays, chapter of the module `api`).
    unsafe {
        let sizes = integers(array_of_sizes, ndims, "array_of_sizes")?;
        let subsizes = integers(array_of_subsizes, ndims, "array_of_subsizes")?;
        let starts = integers(array_of_starts, ndims, "array_of_starts")?;
        give(
            newtype,
            array_of_sizes.is_large(),
            oldtype.subarray(&sizes, &subsizes, &starts, order),
        )
    }
}

fn dimensions(ndims: c_int) -> Result<()> {
    if ndims < 1 {
        let detail = format!("ndims is {ndims}; it must be 1 or more");
        return Err(Error::new(Class::Arg, detail));
    }
    Ok(())
}

fn distribution(number: i64) -> Result<Distribution> {
    match c_int::try_from(number) {
        Ok(abi::MPI_DISTRIBUTE_BLOCK) => Ok(Distribution::Block),
        Ok(abi::MPI_DISTRIBUTE_CYCLIC) => Ok(Distribution::Cyclic),
        Ok(abi::MPI_DISTRIBUTE_NONE) => Ok(Distribution::None),
        _ => Err(Error::new(
            Class::Arg,
            format!(
                "array_of_distribs has {number}; entries must be MPI_DISTRIBUTE_BLOCK, \
                 MPI_DISTRIBUTE_CYCLIC or MPI_DISTRIBUTE_NONE"
            ),
        )),
    }
}

/// `MPI_Type_create_darray`.
pub unsafe fn type_create_darray(
    size: c_int,
    rank: c_int,
    ndims: c_int,
    array_of_gsizes: IntArray,
    array_of_distribs: *const c_int,
    array_of_dargs: *const c_int,
    array_of_psizes: *const c_int,
    order: c_int,
    oldtype: &Datatype,
    newtype: Out<MPI_Datatype>,
) -> Result<()> {
    dimensions(ndims)?;
    let order = self::order(order)?;
    let ndims = MPI_Count::from(ndims);
    let default = i64::from(abi::MPI_DISTRIBUTE_DFLT_DARG);
    // SAFETY: each array is NULL or has as many elements as the argument that goes with it says
    // (arrays, chapter of the module `api`).
    unsafe {
        let gsizes = integers(array_of_gsizes, ndims, "array_of_gsizes")?;
        let distribs = integers(IntArray::Int(array_of_distribs), ndims, "array_of_distribs")?;
        let distribs: Result<Vec<_>> = distribs.iter().copied().map(distribution).collect();
        let dargs = integers(IntArray::Int(array_of_dargs), ndims, "array_of_dargs")?;
        let dargs: Vec<_> = dargs
            .iter()
            .map(|&arg| (arg != default).then_some(arg))
            .collect();
        let psizes = integers(IntArray::Int(array_of_psizes), ndims, "array_of_psizes")?;
        let (size, rank) = (size.into(), rank.into());
        let made = oldtype.darray(size, rank, &gsizes, &distribs?, &dargs, &psizes, order);
        give(newtype, array_of_gsizes.is_large(), made)
    }
}

/// `MPI_Type_create_resized`.
pub fn type_create_resized(
    large: bool,
    oldtype: &Datatype,
    lb: MPI_Aint,
    extent: MPI_Aint,
    newtype: Out<MPI_Datatype>,
) -> Result<()> {
    let made = oldtype.resized(lb, extent);
    give(newtype, large, made)
}

/// `MPI_Type_dup`, with the attributes that the copy callbacks give to the new type.
pub fn type_dup(oldtype: Late<MPI_Datatype>, newtype: Out<MPI_Datatype>) -> Result<()> {
    let made = datatype(oldtype)?.dup()?;
    // A program that ignores the error gets the null handle.
    newtype.set(MPI_DATATYPE_NULL);
    let handle = types::insert(TypeObject::new(made))?;
    if let Err(error) = types::copy_attributes(oldtype.0, handle, oldtype.1) {
        types::remove(handle)?;
        return Err(error);
    }
    newtype.set(handle);
    Ok(())
}

/// `MPI_Type_commit`.
pub fn type_commit(Late(datatype, call): Late<&mut MPI_Datatype>) -> Result<()> {
    self::datatype(Late(*datatype, call))?.commit();
    Ok(())
}

/// `MPI_Type_free`. Pending operations that use the type continue.
pub fn type_free(Late(datatype, call): Late<&mut MPI_Datatype>) -> Result<()> {
    let old = self::datatype(Late(*datatype, call))?;
    if old.is_builtin() {
        return Err(Error::new(
            Class::Type,
            format!("{old} is predefined and cannot be freed"),
        ));
    }
    types::remove(*datatype)?;
    *datatype = MPI_DATATYPE_NULL;
    Ok(())
}

/// Returns a handle for a datatype's member: that of a predefined type, or a new one.
pub(crate) fn handle_of(member: &Datatype) -> Result<MPI_Datatype> {
    match *member.constructor() {
        Constructor::Named(name) => {
            let row = types::PREDEFINED.iter().find(|row| row.1 == name);
            let row = row.ok_or_else(|| {
                Error::new(Class::Intern, format!("{member} has no handle in the ABI"))
            })?;
            Ok(row.0)
        }
        Constructor::Marker(Marker::LowerBound) => Ok(abi::MPI_LB),
        Constructor::Marker(Marker::UpperBound) => Ok(abi::MPI_UB),
        Constructor::F90Real { precision, range } => F90::Real(precision, range).handle(),
        Constructor::F90Complex { precision, range } => F90::Complex(precision, range).handle(),
        Constructor::F90Integer { range } => F90::Integer(range).handle(),
        _ => types::insert(TypeObject::new(member.clone())),
    }
}

/// Converts an argument; `MPI_UNDEFINED` is `None`.
fn defined(value: c_int) -> Option<i64> {
    (value != abi::MPI_UNDEFINED).then_some(value.into())
}

/// `MPI_Type_create_f90_real`.
pub fn type_create_f90_real(p: c_int, r: c_int, newtype: Out<MPI_Datatype>) -> Result<()> {
    newtype.set(F90::Real(defined(p), defined(r)).handle()?);
    Ok(())
}

/// `MPI_Type_create_f90_complex`.
pub fn type_create_f90_complex(p: c_int, r: c_int, newtype: Out<MPI_Datatype>) -> Result<()> {
    newtype.set(F90::Complex(defined(p), defined(r)).handle()?);
    Ok(())
}

/// `MPI_Type_create_f90_integer`.
pub fn type_create_f90_integer(r: c_int, newtype: Out<MPI_Datatype>) -> Result<()> {
    newtype.set(F90::Integer(r.into()).handle()?);
    Ok(())
}

/// `MPI_Type_match_size`.
pub fn type_match_size(typeclass: c_int, size: c_int, datatype: Out<MPI_Datatype>) -> Result<()> {
    let class = match typeclass {
        abi::MPI_TYPECLASS_REAL => TypeClass::Real,
        abi::MPI_TYPECLASS_INTEGER => TypeClass::Integer,
        abi::MPI_TYPECLASS_COMPLEX => TypeClass::Complex,
        _ => {
            return Err(Error::new(
                Class::Arg,
                format!(
                    "typeclass is {typeclass}; it must be MPI_TYPECLASS_REAL, \
                     MPI_TYPECLASS_INTEGER or MPI_TYPECLASS_COMPLEX"
                ),
            ));
        }
    };
    datatype.set(handle_of(&Datatype::match_size(class, size.into())?)?);
    Ok(())
}
