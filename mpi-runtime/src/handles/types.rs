//! Datatypes by handle, and user buffers described by them.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use mpi_core::datatype::{Constructor, Datatype, Predefined};
use mpi_core::{Buffer, Class, Error, Result};

use crate::handles::in_call::InCall;
use crate::handles::predefined::{self, MPI_Count, MPI_DATATYPE_NULL, MPI_Datatype};
pub use crate::handles::type_object::TypeObject;
use crate::handles::{HandleTable, Type, predefined_index};
use crate::lifecycle::library::{F90, LIBRARY};
use crate::lifecycle::runtime::demand_memory;

/// The predefined datatypes with their handles.
pub const PREDEFINED: &[(MPI_Datatype, Predefined)] = &[
    (predefined::MPI_CHAR, Predefined::Char),
    (predefined::MPI_WCHAR, Predefined::Wchar),
    (predefined::MPI_CHARACTER, Predefined::Character),
    (predefined::MPI_SIGNED_CHAR, Predefined::SignedChar),
    (predefined::MPI_INT8_T, Predefined::Int8T),
    (predefined::MPI_SHORT, Predefined::Short),
    (predefined::MPI_INT16_T, Predefined::Int16T),
    (predefined::MPI_INT, Predefined::Int),
    (predefined::MPI_INT32_T, Predefined::Int32T),
    (predefined::MPI_LONG, Predefined::Long),
    (predefined::MPI_LONG_LONG_INT, Predefined::LongLong),
    (predefined::MPI_INT64_T, Predefined::Int64T),
    (predefined::MPI_UNSIGNED_CHAR, Predefined::UnsignedChar),
    (predefined::MPI_UINT8_T, Predefined::Uint8T),
    (predefined::MPI_UNSIGNED_SHORT, Predefined::UnsignedShort),
    (predefined::MPI_UINT16_T, Predefined::Uint16T),
    (predefined::MPI_UNSIGNED, Predefined::Unsigned),
    (predefined::MPI_UINT32_T, Predefined::Uint32T),
    (predefined::MPI_UNSIGNED_LONG, Predefined::UnsignedLong),
    (
        predefined::MPI_UNSIGNED_LONG_LONG,
        Predefined::UnsignedLongLong,
    ),
    (predefined::MPI_UINT64_T, Predefined::Uint64T),
    (predefined::MPI_INTEGER, Predefined::Integer),
    (predefined::MPI_INTEGER4, Predefined::Integer4),
    (predefined::MPI_INTEGER1, Predefined::Integer1),
    (predefined::MPI_INTEGER2, Predefined::Integer2),
    (predefined::MPI_INTEGER8, Predefined::Integer8),
    (predefined::MPI_AINT, Predefined::Aint),
    (predefined::MPI_OFFSET, Predefined::Offset),
    (predefined::MPI_COUNT, Predefined::Count),
    (predefined::MPI_FLOAT, Predefined::Float),
    (predefined::MPI_REAL, Predefined::Real),
    (predefined::MPI_REAL4, Predefined::Real4),
    (predefined::MPI_DOUBLE, Predefined::Double),
    (
        predefined::MPI_DOUBLE_PRECISION,
        Predefined::DoublePrecision,
    ),
    (predefined::MPI_REAL8, Predefined::Real8),
    (predefined::MPI_LONG_DOUBLE, Predefined::LongDouble),
    (predefined::MPI_REAL16, Predefined::Real16),
    (predefined::MPI_C_BOOL, Predefined::CBool),
    (predefined::MPI_CXX_BOOL, Predefined::CxxBool),
    (predefined::MPI_LOGICAL, Predefined::Logical),
    (predefined::MPI_C_FLOAT_COMPLEX, Predefined::CFloatComplex),
    (
        predefined::MPI_CXX_FLOAT_COMPLEX,
        Predefined::CxxFloatComplex,
    ),
    (predefined::MPI_COMPLEX, Predefined::Complex),
    (predefined::MPI_COMPLEX8, Predefined::Complex8),
    (predefined::MPI_C_DOUBLE_COMPLEX, Predefined::CDoubleComplex),
    (
        predefined::MPI_CXX_DOUBLE_COMPLEX,
        Predefined::CxxDoubleComplex,
    ),
    (predefined::MPI_DOUBLE_COMPLEX, Predefined::DoubleComplex),
    (predefined::MPI_COMPLEX16, Predefined::Complex16),
    (
        predefined::MPI_C_LONG_DOUBLE_COMPLEX,
        Predefined::CLongDoubleComplex,
    ),
    (
        predefined::MPI_CXX_LONG_DOUBLE_COMPLEX,
        Predefined::CxxLongDoubleComplex,
    ),
    (predefined::MPI_COMPLEX32, Predefined::Complex32),
    (predefined::MPI_BYTE, Predefined::Byte),
    (predefined::MPI_PACKED, Predefined::Packed),
    (predefined::MPI_FLOAT_INT, Predefined::FloatInt),
    (predefined::MPI_DOUBLE_INT, Predefined::DoubleInt),
    (predefined::MPI_LONG_INT, Predefined::LongInt),
    (predefined::MPI_2INT, Predefined::TwoInt),
    (predefined::MPI_SHORT_INT, Predefined::ShortInt),
    (predefined::MPI_LONG_DOUBLE_INT, Predefined::LongDoubleInt),
    (predefined::MPI_2REAL, Predefined::TwoReal),
    (
        predefined::MPI_2DOUBLE_PRECISION,
        Predefined::TwoDoublePrecision,
    ),
    (predefined::MPI_2INTEGER, Predefined::TwoInteger),
    (predefined::MPI_INTEGER16, Predefined::Integer16),
    (predefined::MPI_REAL2, Predefined::Real2),
    (predefined::MPI_COMPLEX4, Predefined::Complex4),
    (predefined::MPI_LOGICAL1, Predefined::Logical1),
    (predefined::MPI_LOGICAL2, Predefined::Logical2),
    (predefined::MPI_LOGICAL4, Predefined::Logical4),
    (predefined::MPI_LOGICAL8, Predefined::Logical8),
    (predefined::MPI_LOGICAL16, Predefined::Logical16),
    (predefined::MPIX_C_FLOAT16, Predefined::CFloat16),
    (predefined::MPIX_BFLOAT16, Predefined::Bfloat16),
];

/// Number of predefined datatypes (pairs with gaps) whose handles have the form of one made at run
/// time: they take the table's first slots.
const PAIRS: u32 = 5;

/// Element sizes in bytes by the low byte of a predefined handle; 0 for handles that don't exist
/// and for types with gaps.
const GAPLESS: [u8; 256] = {
    let mut sizes = [0; 256];
    let mut row = 0;
    while row < PREDEFINED.len() {
        let handle = PREDEFINED[row].0 as u32;
        if handle >> 26 == 0x13 {
            sizes[(handle & 0xff) as usize] = (handle >> 8) as u8;
        }
        row += 1;
    }
    sizes
};

/// As in `GAPLESS`, for integers of 1, 2, 4 or 8 bytes only, on which all atomic operations of the
/// processor work.
const INTEGERS: [u8; 256] = {
    use Predefined as P;
    let mut sizes = [0; 256];
    let mut row = 0;
    while row < PREDEFINED.len() {
        let handle = PREDEFINED[row].0 as u32;
        let is_integer = matches!(
            PREDEFINED[row].1,
            P::Char
                | P::SignedChar
                | P::UnsignedChar
                | P::Short
                | P::UnsignedShort
                | P::Int
                | P::Unsigned
                | P::Long
                | P::UnsignedLong
                | P::LongLong
                | P::UnsignedLongLong
                | P::Int8T
                | P::Int16T
                | P::Int32T
                | P::Int64T
                | P::Uint8T
                | P::Uint16T
                | P::Uint32T
                | P::Uint64T
                | P::Integer
                | P::Integer1
                | P::Integer2
                | P::Integer4
                | P::Integer8
                | P::Aint
                | P::Offset
                | P::Count
        );
        if is_integer && handle >> 26 == 0x13 {
            sizes[(handle & 0xff) as usize] = (handle >> 8) as u8;
        }
        row += 1;
    }
    sizes
};

/// As in `GAPLESS`, for integers, bytes and logicals of 1, 2, 4 or 8 bytes only, on which
/// compare-and-swap works.
const COMPARABLE: [u8; 256] = {
    use Predefined as P;
    let mut sizes = [0; 256];
    let mut row = 0;
    while row < PREDEFINED.len() {
        let handle = PREDEFINED[row].0 as u32;
        let is_integer = handle >> 26 == 0x13 && INTEGERS[(handle & 0xff) as usize] != 0;
        let is_comparable = is_integer
            || matches!(
                PREDEFINED[row].1,
                P::Byte
                    | P::CBool
                    | P::CxxBool
                    | P::Logical
                    | P::Logical1
                    | P::Logical2
                    | P::Logical4
                    | P::Logical8
            );
        if is_comparable && handle >> 26 == 0x13 {
            sizes[(handle & 0xff) as usize] = (handle >> 8) as u8;
        }
        row += 1;
    }
    sizes
};

/// Returns the element size of a predefined datatype without gaps; `None` for all others.
pub fn contiguous_element_len(datatype: MPI_Datatype) -> Option<usize> {
    len_in(&GAPLESS_HANDLES, datatype)
}

/// Returns the size of an integer, byte or logical that compare-and-swap works on; `None` for
/// other datatypes.
pub fn comparable_len(datatype: MPI_Datatype) -> Option<usize> {
    len_in(&COMPARABLE_HANDLES, datatype)
}

/// Returns the size of an integer that atomic operations work on; `None` for other datatypes.
#[inline(always)]
pub fn integer_len(datatype: MPI_Datatype) -> Option<usize> {
    len_in(&INTEGER_HANDLES, datatype)
}

/// Returns the handles with a size in `sizes`, by their low bytes; other entries match no handle.
const fn exact_handles(sizes: &[u8; 256]) -> [u32; 256] {
    let mut handles = [0; 256];
    let mut low = 0;
    while low < 256 {
        handles[low] = match sizes[low] {
            0 => !(low as u32),
            size => 0x4c00_0000 | (size as u32) << 8 | low as u32,
        };
        low += 1;
    }
    handles
}

static GAPLESS_HANDLES: [u32; 256] = exact_handles(&GAPLESS);
static INTEGER_HANDLES: [u32; 256] = exact_handles(&INTEGERS);
static COMPARABLE_HANDLES: [u32; 256] = exact_handles(&COMPARABLE);

/// Returns the size encoded in a handle that is in the table.
#[inline(always)]
fn len_in(handles: &[u32; 256], datatype: MPI_Datatype) -> Option<usize> {
    let right = handles[(datatype & 0xff) as usize] == datatype as u32;
    right.then_some((datatype >> 8 & 0xff) as usize)
}

/// Makes the objects of the predefined handles, by their low bytes.
fn predefined_objects() -> Vec<Option<TypeObject>> {
    let mut objects: Vec<Option<TypeObject>> = (0..256).map(|_| None).collect();
    for &(handle, predefined) in PREDEFINED {
        if predefined_index(handle, Type::Datatype).is_some() {
            let object = TypeObject::new(Datatype::predefined(predefined));
            objects[(handle & 0xff) as usize] = Some(object);
        }
    }
    objects[(predefined::MPI_LB & 0xff) as usize] = Some(TypeObject::new(Datatype::lower_bound()));
    objects[(predefined::MPI_UB & 0xff) as usize] = Some(TypeObject::new(Datatype::upper_bound()));
    objects
}

/// Makes the table of datatypes made at run time, with the pairs with gaps in its first slots.
fn first_objects() -> HandleTable<TypeObject> {
    let table = HandleTable::new(Type::Datatype);
    let pairs = PREDEFINED.iter().filter(|(handle, _)| *handle < 0);
    let mut pairs: Vec<_> = pairs.collect();
    pairs.sort_by_key(|(handle, _)| *handle);
    debug_assert_eq!(pairs.len(), PAIRS as usize);
    for (handle, predefined) in pairs {
        let object = TypeObject::new(Datatype::predefined(*predefined));
        let given = table.insert(Arc::new(object));
        debug_assert_eq!(given, Some(*handle));
    }
    table
}

/// Returns the table of the datatypes that [`predefined_objects`] does not make.
#[inline(always)]
fn made() -> &'static HandleTable<TypeObject> {
    LIBRARY.datatypes.get_or_init(first_objects)
}

/// Makes the predefined datatypes, before several threads could race for it.
pub fn prepare() {
    LIBRARY.predefined_datatypes.get_or_init(predefined_objects);
    made();
}

/// Returns whether a handle is predefined and so can't be freed.
pub fn is_predefined(handle: MPI_Datatype) -> bool {
    let first = predefined::MPI_FLOAT_INT;
    predefined_index(handle, Type::Datatype).is_some()
        || (first..first + PAIRS as c_int).contains(&handle)
}

/// Returns the datatype behind a handle.
pub fn object<'c>(handle: MPI_Datatype, call: InCall<'c>) -> Result<&'c TypeObject> {
    object_named(handle, "datatype", call)
}

/// Returns the datatype behind a handle, which is the parameter `name`.
#[inline(always)]
pub fn object_named<'c>(
    handle: MPI_Datatype,
    name: &str,
    call: InCall<'c>,
) -> Result<&'c TypeObject> {
    match early(handle, call) {
        Some(object) => Ok(object),
        None => late(handle, name, call),
    }
}

/// Returns the datatype behind a handle if it is predefined or in the first segment.
#[inline(always)]
fn early<'c>(handle: MPI_Datatype, call: InCall<'c>) -> Option<&'c TypeObject> {
    if handle as u32 >> 26 == 0x13 {
        let all = LIBRARY.predefined_datatypes.get()?;
        return all[(handle & 0xff) as usize]
            .as_ref()
            .filter(|_| exact(handle));
    }
    LIBRARY.datatypes.get()?.get_early(handle, call)
}

#[inline(never)]
fn late<'c>(handle: MPI_Datatype, name: &str, call: InCall<'c>) -> Result<&'c TypeObject> {
    let found = predefined_object(handle).or_else(|| made().get(handle, call));
    found.ok_or_else(|| invalid_named(handle, name))
}

/// Returns the datatype behind a predefined handle without a slot of the table.
fn predefined_object(handle: MPI_Datatype) -> Option<&'static TypeObject> {
    predefined_index(handle, Type::Datatype).filter(|_| exact(handle))?;
    let all = LIBRARY.predefined_datatypes.get_or_init(predefined_objects);
    all[(handle & 0xff) as usize].as_ref()
}

/// Returns a reference that keeps a datatype alive over callbacks, which may free it.
pub fn hold(handle: MPI_Datatype) -> Option<Arc<TypeObject>> {
    made().get_arc(handle)
}

/// Returns whether a handle with the type bits of a predefined one is predefined in all its bits.
#[inline(always)]
fn exact(handle: MPI_Datatype) -> bool {
    static SIZES: [u8; 256] = GAPLESS;
    let low = (handle & 0xff) as usize;
    handle as u32 & 0x03ff_ff00 == u32::from(SIZES[low]) << 8
}

/// Inserts a datatype. Returns its handle.
pub fn insert(object: TypeObject) -> Result<MPI_Datatype> {
    made().insert(Arc::new(object)).ok_or_else(|| {
        Error::new(
            Class::NoMem,
            "all 67,108,864 datatype handles are in use; free some",
        )
    })
}

/// Calls a function of the program with a handle of the datatype.
///
/// The handle is `likely` if it is one of the datatype's, else another that the program has, else,
/// if it has freed them all, one that lives for the call. No other datatype gets the handle until
/// the function returns, even if it is freed meanwhile.
///
/// # Errors
/// No handle is available. `call` was not called.
pub fn with_handle<T>(
    datatype: &Datatype,
    likely: MPI_Datatype,
    call: impl FnOnce(MPI_Datatype) -> T,
) -> Result<T> {
    let is_it = |object: &TypeObject| object.datatype.is_same(datatype);
    if predefined_object(likely).is_some_and(is_it) {
        return Ok(call(likely));
    }
    let begin = |object: &TypeObject| is_it(object) && object.begin_use();
    let handle = if made().is(likely, begin) {
        likely
    } else if let Constructor::Named(predefined) = *datatype.constructor()
        && let Some((handle, _)) = PREDEFINED.iter().find(|row| row.1 == predefined)
    {
        // Fortran's parameterised types have handles of their own.
        return Ok(call(*handle));
    } else if let Some(handle) = made().find(begin) {
        handle
    } else {
        let object = TypeObject::new(datatype.clone());
        // The object is removed when the function has returned.
        let _ = object.begin_use() && object.free();
        insert(object)?
    };
    let done = call(handle);
    made().is(handle, TypeObject::end_use);
    take_if_over(handle);
    Ok(done)
}

/// Removes a freed handle that no function of the program uses.
fn take_if_over(handle: MPI_Datatype) {
    drop(made().remove_if(handle, TypeObject::is_over));
}

/// Copies attributes to a duplicate, by their copy callbacks.
pub fn copy_attributes(from: MPI_Datatype, to: MPI_Datatype, call: InCall) -> Result<()> {
    let _held = (hold(from), hold(to));
    object(from, call)?
        .attributes
        .copy_all(&from, &object(to, call)?.attributes, &to)
}

/// Frees a handle, after the attributes' delete callbacks.
///
/// The datatype lives on where it is used, and the handle while functions of the program run that
/// got it from [`with_handle`].
pub fn remove(handle: MPI_Datatype) -> Result<Arc<TypeObject>> {
    if is_predefined(handle) {
        return Err(Error::new(
            Class::Type,
            "a predefined datatype cannot be freed",
        ));
    }
    if let Some(gone) = made().remove_if(handle, TypeObject::is_unused) {
        return Ok(gone);
    }
    let object = hold(handle).ok_or_else(|| invalid(handle))?;
    object.attributes.delete_all(&handle)?;
    // A callback may have freed the handle, and a new datatype may have it.
    let frees = |still: &TypeObject| std::ptr::eq(still, &raw const *object) && still.free();
    if !made().is(handle, frees) {
        return Err(invalid(handle));
    }
    take_if_over(handle);
    Ok(object)
}

impl F90 {
    fn make(self) -> Result<Datatype> {
        match self {
            F90::Real(p, r) => Datatype::f90_real(p, r),
            F90::Complex(p, r) => Datatype::f90_complex(p, r),
            F90::Integer(r) => Datatype::f90_integer(r),
        }
    }

    /// Returns the handle of the type, the same on every call.
    pub fn handle(self) -> Result<MPI_Datatype> {
        let mut known = LIBRARY.fortran_types.lock();
        if let Some((_, handle)) = known.iter().find(|(f90, _)| *f90 == self) {
            return Ok(*handle);
        }
        let handle = insert(TypeObject::new(self.make()?))?;
        known.push((self, handle));
        Ok(handle)
    }
}

#[cold]
fn invalid(handle: MPI_Datatype) -> Error {
    invalid_named(handle, "datatype")
}

#[cold]
fn invalid_named(handle: MPI_Datatype, name: &str) -> Error {
    let what = if handle == MPI_DATATYPE_NULL {
        format!("{name} is MPI_DATATYPE_NULL")
    } else {
        format!("datatype {handle:#x} does not exist; it was never made, or has been freed")
    };
    Error::new(Class::Type, what)
}

/// Returns whether an address may be data: neither NULL nor `MPI_IN_PLACE`.
///
/// `MPI_IN_PLACE` is -1 in one ABI and 1 in the others, so one comparison excludes all three. Other
/// addresses that it excludes are checked on the slow path.
#[inline(always)]
pub fn may_be_data(address: *const c_void) -> bool {
    address.addr() as isize > 1
}

/// Returns the bytes of a buffer that the fast path handles: data of a predefined type without
/// gaps.
#[inline(always)]
pub fn contiguous_len(buf: *const c_void, count: c_int, datatype: MPI_Datatype) -> Option<usize> {
    // Tested before the table is read, so that the compiler does not merge the two conditions.
    if !may_be_data(buf) {
        return None;
    }
    let size = len_in(&GAPLESS_HANDLES, datatype)?;
    (count > 0).then(|| count as usize * size)
}

/// Returns the bytes of a message that the fast path handles. It may be empty; then `buf` may be
/// NULL.
#[inline(always)]
pub fn message_len(buf: *const c_void, count: c_int, datatype: MPI_Datatype) -> Option<usize> {
    if !may_be_data(buf) {
        return empty_len(buf, count, datatype);
    }
    let size = len_in(&GAPLESS_HANDLES, datatype)?;
    (count >= 0).then(|| count as usize * size)
}

/// Handles empty messages for [`message_len`]; their address is usually NULL.
#[cold]
#[inline(never)]
fn empty_len(buf: *const c_void, count: c_int, datatype: MPI_Datatype) -> Option<usize> {
    len_in(&GAPLESS_HANDLES, datatype)?;
    (buf.is_null() && count == 0).then_some(0)
}

/// Returns [`message_len`] for a wide count; counts above `c_int::MAX` take the slow path.
#[inline(always)]
pub fn message_len_large(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
) -> Option<usize> {
    message_len(buf, c_int::try_from(count).ok()?, datatype)
}

/// Returns the buffer that a program passes as `buf, count, datatype`.
///
/// # Errors
/// `Count` for a negative count, `Type` for a datatype that doesn't exist or is not committed,
/// `Buffer` for NULL or `MPI_IN_PLACE` with data.
///
/// # Safety
/// The contract of [`Buffer::typed`].
#[inline]
pub unsafe fn buffer(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    call: InCall,
) -> Result<Buffer> {
    match message_len_large(buf, count, datatype) {
        // SAFETY: the caller guarantees the contract of [`Buffer::typed`] for `count` elements,
        // which occupy `len` bytes.
        Some(len) => Ok(unsafe { Buffer::bytes(buf.cast_mut().cast(), len) }),
        // SAFETY: the memory is valid for `count` elements of the datatype as [`Buffer::typed`]
        // asks (# Safety).
        None => unsafe { buffer_checked(buf, count, datatype, call) },
    }
}

/// # Safety
/// The contract of [`Buffer::typed`].
#[inline(never)]
unsafe fn buffer_checked(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    call: InCall,
) -> Result<Buffer> {
    let (count, datatype) = checked(count, datatype, call)?;
    check_address(buf, count, datatype)?;
    // SAFETY: the memory is valid for `count` elements of the datatype as [`Buffer::typed`] asks
    // (# Safety).
    Ok(unsafe { Buffer::typed(buf.cast_mut().cast(), count, datatype) })
}

/// Checks the count and datatype of data to be communicated.
#[inline]
pub fn checked<'c>(
    count: MPI_Count,
    datatype: MPI_Datatype,
    call: InCall<'c>,
) -> Result<(usize, &'c Datatype)> {
    // An int's worth of elements of a predefined type never overflows the total size.
    if len_in(&GAPLESS_HANDLES, datatype).is_some()
        && let Ok(some) = u32::try_from(count)
        && let Some(object) = early(datatype, call)
    {
        return Ok((some as usize, &object.datatype));
    }
    checked_further(count, datatype, call)
}

#[inline(never)]
fn checked_further<'c>(
    count: MPI_Count,
    datatype: MPI_Datatype,
    call: InCall<'c>,
) -> Result<(usize, &'c Datatype)> {
    let Ok(count) = usize::try_from(count) else {
        return Err(Error::new(
            Class::Count,
            format!("count is {count}; it must be 0 or more"),
        ));
    };
    let object = object(datatype, call)?;
    if !object.datatype.is_committed() {
        return Err(Error::new(
            Class::Type,
            format!(
                "datatype {datatype:#x} ({}) is not committed; call MPI_Type_commit first",
                object.datatype
            ),
        ));
    }
    object.datatype.total(count, 1)?;
    Ok((count, &object.datatype))
}

/// Returns the [`buffer`] of a message to or from a rank, or an empty one for `MPI_PROC_NULL`
/// (`rank` is `None`).
///
/// # Errors
/// `Count` for a negative count, `Type` for a datatype that doesn't exist or is not committed,
/// unless there are no elements of `MPI_DATATYPE_NULL`; `Buffer` for NULL or `MPI_IN_PLACE` with
/// data for a rank.
///
/// # Safety
/// The contract of [`Buffer::typed`].
#[inline(always)]
pub unsafe fn buffer_for<Rank>(
    rank: Option<Rank>,
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    call: InCall,
) -> Result<Buffer> {
    if rank.is_none() {
        check_nobody(count, datatype, call)?;
        return Ok(Buffer::EMPTY);
    }
    match message_len_large(buf, count, datatype) {
        // SAFETY: the caller guarantees the contract of [`Buffer::typed`] for `count` elements,
        // which occupy `len` bytes.
        Some(len) => Ok(unsafe { Buffer::bytes(buf.cast_mut().cast(), len) }),
        None if is_untyped(count, datatype) => Ok(Buffer::EMPTY),
        // SAFETY: the memory is valid for `count` elements of the datatype as [`Buffer::typed`]
        // asks (# Safety).
        None => unsafe { buffer_checked(buf, count, datatype, call) },
    }
}

/// Checks the count and datatype of a message to or from `MPI_PROC_NULL`.
///
/// # Errors
/// Those of [`checked`].
#[inline]
pub fn check_nobody(count: MPI_Count, datatype: MPI_Datatype, call: InCall) -> Result<()> {
    match is_untyped(count, datatype) {
        true => Ok(()),
        false => checked(count.min(0), datatype, call).map(drop),
    }
}

/// Returns whether a message has no elements and no datatype, which MPICH accepts.
pub fn is_untyped(count: MPI_Count, datatype: MPI_Datatype) -> bool {
    count == 0 && datatype == MPI_DATATYPE_NULL
}

/// Refuses `MPI_IN_PLACE` for data, and NULL unless its addresses are absolute (`MPI_BOTTOM`).
pub fn check_address(buf: *const c_void, count: usize, datatype: &Datatype) -> Result<()> {
    if may_be_data(buf) || count == 0 || datatype.size() == 0 {
        return Ok(());
    }
    demand_memory("the buffer", buf, Class::Buffer)?;
    if buf.is_null() && datatype.true_lb() == 0 {
        return Err(Error::new(
            Class::Buffer,
            format!(
                "the buffer is NULL, but {count} elements of {} bytes are to be moved",
                datatype.size()
            ),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_predefined_handle_finds_its_type_and_no_other_does() {
        // SAFETY: no datatype is freed.
        let call = unsafe { InCall::begin() };
        for &(handle, predefined) in PREDEFINED {
            let object =
                object(handle, call).unwrap_or_else(|error| panic!("{handle:#x}: {error:?}"));
            assert_eq!(object.datatype.as_predefined(), Some(predefined));
            assert!(is_predefined(handle));
            if handle > 0 {
                assert_eq!(object.datatype.size(), (handle >> 8 & 0xff) as usize);
            }
            assert!(remove(handle).is_err());
        }
        for wrong in [
            0,
            1,
            -1,
            MPI_DATATYPE_NULL,
            predefined::MPI_INT + 0x100,
            0x4c00_00ff,
            predefined::MPI_SUM,
        ] {
            assert_eq!(
                object(wrong, call).err().map(|e| e.class()),
                Some(Class::Type),
                "{wrong:#x}"
            );
        }
    }
}
