//! Routines whose arguments differ from those of C. Each returns the error code.
//!
//! All functions are unsafe with the same contract: arguments are valid as the standard requires of
//! the Fortran routine.

#![allow(clippy::missing_safety_doc, reason = "said above, once for all")]

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;

#[cfg(all(feature = "io", not(openmpi_abi)))]
use crate::abi::MPI_Errhandler;
use crate::abi::{
    MPI_Comm, MPI_Comm_copy_attr_function, MPI_Comm_delete_attr_function, MPI_Info, MPI_Request,
    MPI_SUCCESS, MPI_Session, MPI_Status,
};
use crate::convert::{Text, callback, error_codes, give};
#[cfg(all(feature = "io", not(openmpi_abi)))]
pub use crate::datareps::{register_datarep, register_datarep_c};
#[cfg(all(feature = "io", openmpi_abi))]
pub use crate::handlers::file_create_errhandler;
#[cfg(openmpi_abi)]
pub use crate::handlers::{comm_create_errhandler, op_create, win_create_errhandler};
use crate::imports as c;
use crate::sentinels;

/// The forms of attribute values in the interface of `MPII_` functions.
const ADDRESS: c_int = 1;
const INTEGER: c_int = 3;

/// `MPI_BUFFER_DETACH`: does not return the buffer, whose address Fortran cannot use.
pub unsafe fn buffer_detach(_buffer: *mut c_void, size: *mut c_int) -> c_int {
    let mut address = null_mut::<c_void>();
    // SAFETY: the arguments are valid as the standard requires (the contract of this module); a
    // local variable for the address.
    unsafe { c::MPI_Buffer_detach((&raw mut address).cast(), size) }
}

/// `MPI_COMM_DETACH_BUFFER`: does not return the buffer, whose address Fortran cannot use.
pub unsafe fn comm_detach_buffer(
    comm: *const MPI_Comm,
    _buffer: *mut c_void,
    size: *mut c_int,
) -> c_int {
    let mut address = null_mut::<c_void>();
    // SAFETY: the arguments are valid as the standard requires (the contract of this module); a
    // local variable for the address.
    unsafe { c::MPI_Comm_detach_buffer(*comm, (&raw mut address).cast(), size) }
}

/// `MPI_SESSION_DETACH_BUFFER`: does not return the buffer, whose address Fortran cannot use.
pub unsafe fn session_detach_buffer(
    session: *const MPI_Session,
    _buffer: *mut c_void,
    size: *mut c_int,
) -> c_int {
    let mut address = null_mut::<c_void>();
    // SAFETY: the arguments are valid as the standard requires (the contract of this module); a
    // local variable for the address.
    unsafe { c::MPI_Session_detach_buffer(*session, (&raw mut address).cast(), size) }
}

/// `MPI_FILE_CREATE_ERRHANDLER`: the subroutine receives Fortran's integer for the file.
#[cfg(all(feature = "io", not(openmpi_abi)))]
pub unsafe fn file_create_errhandler(
    function: *mut c_void,
    errhandler: *mut MPI_Errhandler,
) -> c_int {
    // SAFETY: the arguments are valid as the standard requires (module's contract); the handler was
    // just created.
    unsafe {
        let code = c::MPI_File_create_errhandler(callback(function), errhandler);
        if code == MPI_SUCCESS {
            c::MPII_Errhandler_set_fc(*errhandler);
        }
        code
    }
}

/// `MPI_SIZEOF`: the size of a variable, from its descriptor.
///
/// # Safety
/// The arguments are as the standard asks.
#[cfg(not(openmpi_abi))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpi_sizeof_cdesc(
    variable: *const crate::descriptors::Standard,
    size: *mut c_int,
    ierror: *mut c_int,
) {
    // SAFETY: the compiler passes a descriptor and the addresses of two integers, as the interface
    // in `mpi_f08` says.
    unsafe {
        *size = c_int::try_from((*variable).element()).unwrap_or(c_int::MAX);
        crate::convert::finish(ierror, MPI_SUCCESS);
    }
}

/// `PMPI_SIZEOF`.
///
/// # Safety
/// The arguments are as the standard asks.
#[cfg(not(openmpi_abi))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmpi_sizeof_cdesc(
    variable: *const crate::descriptors::Standard,
    size: *mut c_int,
    ierror: *mut c_int,
) {
    // SAFETY: the compiler passes a descriptor and the addresses of two integers, as the interface
    // in `mpi_f08` says.
    unsafe { mpi_sizeof_cdesc(variable, size, ierror) };
}

type CopyFunction = unsafe extern "C" fn(
    *mut c_int,
    *mut c_int,
    *mut isize,
    *mut isize,
    *mut isize,
    *mut c_int,
    *mut c_int,
);
type DeleteFunction =
    unsafe extern "C" fn(*mut c_int, *mut c_int, *mut isize, *mut isize, *mut c_int);

/// Calls an attribute copy subroutine. The extra state is the program's own variable, as in other
/// libraries of this ABI. Values have the size of an address; an `INTEGER` is the lower half at the
/// same address.
unsafe extern "C" fn copy(
    function: MPI_Comm_copy_attr_function,
    object: c_int,
    keyval: c_int,
    extra: *mut c_void,
    form: c_int,
    value: *mut c_void,
    new: *mut *mut c_void,
    flag: *mut c_int,
) -> c_int {
    let (mut object, mut keyval, mut code, mut copies) = (object, keyval, MPI_SUCCESS, 0);
    let (mut value, mut out) = (Cell::new(value), Cell(0));
    // SAFETY: a `*_create_keyval` function registered it as a subroutine with these arguments.
    unsafe {
        let function: CopyFunction = std::mem::transmute(function);
        function(
            &raw mut object,
            &raw mut keyval,
            extra.cast(),
            &raw mut value.0,
            &raw mut out.0,
            &raw mut copies,
            &raw mut code,
        );
        *new = out.get(form);
        *flag = c_int::from(copies != 0);
    }
    code
}

/// Calls an attribute delete subroutine.
unsafe extern "C" fn delete(
    function: MPI_Comm_delete_attr_function,
    object: c_int,
    keyval: c_int,
    _form: c_int,
    value: *mut c_void,
    extra: *mut c_void,
) -> c_int {
    let (mut object, mut keyval, mut code) = (object, keyval, MPI_SUCCESS);
    let mut value = Cell::new(value);
    // SAFETY: a `*_create_keyval` function registered it as a subroutine with these arguments.
    unsafe {
        let function: DeleteFunction = std::mem::transmute(function);
        function(
            &raw mut object,
            &raw mut keyval,
            &raw mut value.0,
            extra.cast(),
            &raw mut code,
        );
    }
    code
}

/// A value as a subroutine sees it. An `INTEGER` is at the beginning of the cell, which on a
/// big-endian machine is the upper half: both halves would have to be filled there.
struct Cell(isize);

impl Cell {
    fn new(bits: *mut c_void) -> Cell {
        Cell(bits.expose_provenance() as isize)
    }

    fn get(&self, form: c_int) -> *mut c_void {
        let bits = if form == INTEGER {
            self.0 as c_int as isize
        } else {
            self.0
        };
        std::ptr::with_exposed_provenance_mut(bits as usize)
    }
}

#[cfg(target_endian = "big")]
compile_error!("INTEGER attributes need another representation on big-endian machines");

/// Makes the C library call the callbacks of a new key as subroutines.
fn set_proxies(code: c_int, keyval: *mut c_int) -> c_int {
    if code == MPI_SUCCESS {
        // SAFETY: the key was just created; both proxies have the arguments that the C library
        // passes.
        unsafe { c::MPII_Keyval_set_proxy(*keyval, copy as *mut c_void, delete as *mut c_void) };
    }
    code
}

/// Returns the value of an integer of the size of an address.
unsafe fn wide(value: *mut c_void) -> *mut c_void {
    // SAFETY: the arguments are valid as the standard requires (the contract of this module).
    std::ptr::with_exposed_provenance_mut(unsafe { value.cast::<usize>().read() })
}

/// `MPI_COMM_CREATE_KEYVAL`.
pub unsafe fn comm_create_keyval(
    copy: *mut c_void,
    delete: *mut c_void,
    keyval: *mut c_int,
    extra_state: *mut c_void,
) -> c_int {
    // SAFETY: the arguments are valid as the standard requires (the contract of this module).
    unsafe {
        let code = c::MPI_Comm_create_keyval(callback(copy), callback(delete), keyval, extra_state);
        set_proxies(code, keyval)
    }
}

/// `MPI_TYPE_CREATE_KEYVAL`.
pub unsafe fn type_create_keyval(
    copy: *mut c_void,
    delete: *mut c_void,
    keyval: *mut c_int,
    extra_state: *mut c_void,
) -> c_int {
    // SAFETY: the arguments are valid as the standard requires (the contract of this module).
    unsafe {
        let code = c::MPI_Type_create_keyval(callback(copy), callback(delete), keyval, extra_state);
        set_proxies(code, keyval)
    }
}

/// `MPI_WIN_CREATE_KEYVAL`.
pub unsafe fn win_create_keyval(
    copy: *mut c_void,
    delete: *mut c_void,
    keyval: *mut c_int,
    extra_state: *mut c_void,
) -> c_int {
    // SAFETY: the arguments are valid as the standard requires (the contract of this module).
    unsafe {
        let code = c::MPI_Win_create_keyval(callback(copy), callback(delete), keyval, extra_state);
        set_proxies(code, keyval)
    }
}

/// `MPI_KEYVAL_CREATE`, with an `INTEGER` as extra state.
pub unsafe fn keyval_create(
    copy: *mut c_void,
    delete: *mut c_void,
    keyval: *mut c_int,
    extra_state: *mut c_void,
) -> c_int {
    // SAFETY: the arguments are valid as the standard requires (the contract of this module).
    unsafe { comm_create_keyval(copy, delete, keyval, extra_state) }
}

/// `MPI_COMM_SET_ATTR`.
pub unsafe fn comm_set_attr(comm: *const MPI_Comm, key: *const c_int, value: *mut c_void) -> c_int {
    // SAFETY: the arguments are valid as the standard requires (the contract of this module).
    unsafe { c::MPII_Comm_set_attr(*comm, *key, wide(value), ADDRESS) }
}

/// `MPI_TYPE_SET_ATTR`.
pub unsafe fn type_set_attr(object: *const c_int, key: *const c_int, value: *mut c_void) -> c_int {
    // SAFETY: the arguments are valid as the standard requires (the contract of this module).
    unsafe { c::MPII_Type_set_attr(*object, *key, wide(value), ADDRESS) }
}

/// `MPI_WIN_SET_ATTR`.
pub unsafe fn win_set_attr(win: *const c_int, key: *const c_int, value: *mut c_void) -> c_int {
    // SAFETY: the arguments are valid as the standard requires (the contract of this module).
    unsafe { c::MPII_Win_set_attr(*win, *key, wide(value), ADDRESS) }
}

/// `MPI_ATTR_PUT`: the value is an `INTEGER`.
pub unsafe fn attr_put(comm: *const MPI_Comm, key: *const c_int, value: *mut c_void) -> c_int {
    // SAFETY: the arguments are valid as the standard requires (the contract of this module).
    unsafe {
        let bits = value.cast::<c_int>().read() as isize as usize;
        let value = std::ptr::with_exposed_provenance_mut(bits);
        c::MPII_Comm_set_attr(*comm, *key, value, INTEGER)
    }
}

/// A C function that returns an attribute.
type Get = unsafe extern "C" fn(c_int, c_int, *mut c_void, *mut c_int, c_int) -> c_int;

/// Returns the error code and an attribute's value, 0 if it is not set.
unsafe fn get(
    ask: Get,
    object: *const c_int,
    key: *const c_int,
    form: c_int,
    flag: *mut c_int,
) -> (c_int, isize) {
    let (mut value, mut found) = (0_isize, 0);
    // SAFETY: the arguments are valid as the standard requires (the contract of this module); local
    // variables take the results.
    unsafe {
        let code = ask(*object, *key, (&raw mut value).cast(), &raw mut found, form);
        if code == MPI_SUCCESS {
            *flag = c_int::from(found != 0);
        }
        (code, if found != 0 { value } else { 0 })
    }
}

unsafe fn get_address(
    ask: Get,
    object: *const c_int,
    key: *const c_int,
    value: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: the arguments are valid as the standard requires (the contract of this module).
    unsafe {
        let (code, found) = get(ask, object, key, ADDRESS, flag);
        if code == MPI_SUCCESS {
            value.cast::<isize>().write(found);
        }
        code
    }
}

/// `MPI_COMM_GET_ATTR`.
pub unsafe fn comm_get_attr(
    comm: *const MPI_Comm,
    key: *const c_int,
    value: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: the arguments are valid as the standard requires (the contract of this module).
    unsafe { get_address(c::MPII_Comm_get_attr, comm, key, value, flag) }
}

/// `MPI_TYPE_GET_ATTR`.
pub unsafe fn type_get_attr(
    object: *const c_int,
    key: *const c_int,
    value: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: the arguments are valid as the standard requires (the contract of this module).
    unsafe { get_address(c::MPII_Type_get_attr, object, key, value, flag) }
}

/// `MPI_WIN_GET_ATTR`.
pub unsafe fn win_get_attr(
    win: *const c_int,
    key: *const c_int,
    value: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: the arguments are valid as the standard requires (the contract of this module).
    unsafe { get_address(c::MPII_Win_get_attr, win, key, value, flag) }
}

/// `MPI_ATTR_GET`: the value is an `INTEGER`; of an address, the lower half (section 17.2.7).
pub unsafe fn attr_get(
    comm: *const MPI_Comm,
    key: *const c_int,
    value: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: the arguments are valid as the standard requires (the contract of this module).
    unsafe {
        let (code, found) = get(c::MPII_Comm_get_attr, comm, key, INTEGER, flag);
        if code == MPI_SUCCESS {
            value.cast::<c_int>().write(found as c_int);
        }
        code
    }
}

/// The callbacks of a generalized request, and their extra state.
struct Generalized {
    query: unsafe extern "C" fn(*mut isize, *mut MPI_Status, *mut c_int),
    free: unsafe extern "C" fn(*mut isize, *mut c_int),
    cancel: unsafe extern "C" fn(*mut isize, *mut c_int, *mut c_int),
    /// The program's own variable.
    extra: *mut isize,
}

unsafe extern "C" fn query(state: *mut c_void, status: *mut MPI_Status) -> c_int {
    let mut code = MPI_SUCCESS;
    // SAFETY: `grequest_start` made the state, and `free`, which drops it, is the last callback.
    unsafe {
        let request = state.cast::<Generalized>();
        ((*request).query)((*request).extra, status, &raw mut code);
    }
    code
}

unsafe extern "C" fn free(state: *mut c_void) -> c_int {
    let mut code = MPI_SUCCESS;
    // SAFETY: `grequest_start` made the state from a Box; this is the last callback.
    unsafe {
        let request = Box::from_raw(state.cast::<Generalized>());
        (request.free)(request.extra, &raw mut code);
    }
    code
}

unsafe extern "C" fn cancel(state: *mut c_void, complete: c_int) -> c_int {
    let (mut complete, mut code) = (complete, MPI_SUCCESS);
    // SAFETY: `grequest_start` made the state, and `free`, which drops it, is the last callback.
    unsafe {
        let request = state.cast::<Generalized>();
        ((*request).cancel)((*request).extra, &raw mut complete, &raw mut code);
    }
    code
}

/// `MPI_GREQUEST_START`.
pub unsafe fn grequest_start(
    query_fn: *mut c_void,
    free_fn: *mut c_void,
    cancel_fn: *mut c_void,
    extra_state: *mut c_void,
    request: *mut MPI_Request,
) -> c_int {
    // SAFETY: the arguments are valid as the standard requires (the contract of this module).
    unsafe {
        let made = Box::into_raw(Box::new(Generalized {
            query: callback(query_fn),
            free: callback(free_fn),
            cancel: callback(cancel_fn),
            extra: extra_state.cast(),
        }));
        let code =
            c::MPI_Grequest_start(Some(query), Some(free), Some(cancel), made.cast(), request);
        if code != MPI_SUCCESS {
            drop(Box::from_raw(made));
        }
        code
    }
}

/// `MPI_INFO_GET`.
pub unsafe fn info_get(
    info: *const MPI_Info,
    key: *const c_char,
    valuelen: *const c_int,
    value: *mut c_char,
    flag: *mut c_int,
    key_len: usize,
    value_len: usize,
) -> c_int {
    // SAFETY: the arguments are valid as the standard requires (the contract of this module).
    unsafe {
        let key = Text::trimmed(key, key_len);
        let mut room = vec![0_u8; usize::try_from(*valuelen).unwrap_or(0) + 1];
        let mut found = 0;
        let out = room.as_mut_ptr().cast::<c_char>();
        let code = c::MPI_Info_get(*info, key.as_ptr(), *valuelen, out, &raw mut found);
        if code == MPI_SUCCESS {
            *flag = c_int::from(found != 0);
            if found != 0 {
                give(out, value, value_len);
            }
        }
        code
    }
}

/// `MPI_INFO_GET_STRING` (MPI-4.1 section 10): lengths are without the NUL of C.
pub unsafe fn info_get_string(
    info: *const MPI_Info,
    key: *const c_char,
    buflen: *mut c_int,
    value: *mut c_char,
    flag: *mut c_int,
    key_len: usize,
    value_len: usize,
) -> c_int {
    // SAFETY: the arguments are valid as the standard requires (the contract of this module).
    unsafe {
        let key = Text::trimmed(key, key_len);
        let wanted = *buflen;
        let mut room = vec![0_u8; usize::try_from(wanted).unwrap_or(0) + 1];
        let mut length = if wanted > 0 { wanted + 1 } else { wanted };
        let mut found = 0;
        let out = room.as_mut_ptr().cast::<c_char>();
        let code =
            c::MPI_Info_get_string(*info, key.as_ptr(), &raw mut length, out, &raw mut found);
        if code == MPI_SUCCESS {
            *flag = c_int::from(found != 0);
            if found != 0 {
                if wanted > 0 {
                    give(out, value, value_len);
                }
                *buflen = length - 1;
            }
        }
        code
    }
}

/// `MPI_SESSION_GET_NTH_PSET` (MPI-4.1 section 11.3.2): lengths are without the NUL of C.
pub unsafe fn session_get_nth_pset(
    session: *const MPI_Session,
    info: *const MPI_Info,
    n: *const c_int,
    pset_len: *mut c_int,
    pset_name: *mut c_char,
    name_len: usize,
) -> c_int {
    // SAFETY: the arguments are valid as the standard requires (the contract of this module).
    unsafe {
        let wanted = *pset_len;
        let mut room = vec![0_u8; usize::try_from(wanted).unwrap_or(0) + 1];
        let mut length = if wanted > 0 { wanted + 1 } else { wanted };
        let out = room.as_mut_ptr().cast::<c_char>();
        let code = c::MPI_Session_get_nth_pset(*session, *info, *n, &raw mut length, out);
        if code == MPI_SUCCESS {
            if wanted > 0 {
                give(out, pset_name, name_len);
            }
            *pset_len = length - 1;
        }
        code
    }
}

/// Returns the strings of an array up to the first blank one, without leading and trailing blanks
/// (MPI-3.1 section
/// 10.3.2); successive strings are `step` characters apart.
unsafe fn strings(first: *const c_char, length: usize, step: usize) -> Vec<Text> {
    let mut all = Vec::new();
    loop {
        // SAFETY: the standard requires that a blank string ends the array.
        let text = unsafe { Text::trimmed(first.wrapping_add(all.len() * step), length) };
        if text.is_blank() {
            return all;
        }
        all.push(text);
    }
}

/// Returns pointers to strings, and a final NULL.
fn pointers(strings: &[Text]) -> Vec<*mut c_char> {
    let each = strings.iter().map(|text| text.as_ptr().cast_mut());
    each.chain([null_mut()]).collect()
}

/// `MPI_Comm_spawn` of C.
type Spawn = unsafe extern "C" fn(
    *const c_char,
    *mut *mut c_char,
    c_int,
    MPI_Info,
    c_int,
    MPI_Comm,
    *mut MPI_Comm,
    *mut c_int,
) -> c_int;

/// `MPI_COMM_SPAWN`.
pub unsafe fn comm_spawn(
    spawn: Spawn,
    command: *const c_char,
    argv: *const c_char,
    maxprocs: *const c_int,
    info: *const MPI_Info,
    root: *const c_int,
    comm: *const MPI_Comm,
    intercomm: *mut MPI_Comm,
    array_of_errcodes: *mut c_int,
    command_len: usize,
    argv_len: usize,
) -> c_int {
    // SAFETY: the arguments are valid as the standard requires (the contract of this module).
    unsafe {
        let command = Text::trimmed(command, command_len);
        let arguments = if sentinels::is_no_arguments(argv.cast_mut().cast()) {
            Vec::new()
        } else {
            strings(argv, argv_len, argv_len)
        };
        spawn(
            command.as_ptr(),
            pointers(&arguments).as_mut_ptr(),
            *maxprocs,
            *info,
            *root,
            *comm,
            intercomm,
            error_codes(array_of_errcodes),
        )
    }
}

/// `MPI_Comm_spawn_multiple` of C.
type SpawnMultiple = unsafe extern "C" fn(
    c_int,
    *mut *mut c_char,
    *mut *mut *mut c_char,
    *const c_int,
    *const MPI_Info,
    c_int,
    MPI_Comm,
    *mut MPI_Comm,
    *mut c_int,
) -> c_int;

/// `MPI_COMM_SPAWN_MULTIPLE`.
pub unsafe fn comm_spawn_multiple(
    spawn: SpawnMultiple,
    count: *const c_int,
    array_of_commands: *const c_char,
    array_of_argv: *const c_char,
    array_of_maxprocs: *const c_int,
    array_of_info: *const MPI_Info,
    root: *const c_int,
    comm: *const MPI_Comm,
    intercomm: *mut MPI_Comm,
    array_of_errcodes: *mut c_int,
    commands_len: usize,
    argv_len: usize,
) -> c_int {
    // SAFETY: the arguments are valid as the standard requires (the contract of this module).
    unsafe {
        let many = usize::try_from(*count).unwrap_or(0);
        let commands: Vec<Text> = (0..many)
            .map(|index| Text::trimmed(array_of_commands.add(index * commands_len), commands_len))
            .collect();
        // Argument j of command i is element (i, j) of an array with `count` rows.
        let arguments: Vec<Vec<Text>> =
            if sentinels::is_no_arguments_at_all(array_of_argv.cast_mut().cast()) {
                (0..many).map(|_| Vec::new()).collect()
            } else {
                (0..many)
                    .map(|row| {
                        strings(array_of_argv.add(row * argv_len), argv_len, many * argv_len)
                    })
                    .collect()
            };
        let mut rows: Vec<Vec<*mut c_char>> = arguments.iter().map(|row| pointers(row)).collect();
        let mut tables: Vec<*mut *mut c_char> =
            rows.iter_mut().map(|row| row.as_mut_ptr()).collect();
        spawn(
            *count,
            pointers(&commands).as_mut_ptr(),
            tables.as_mut_ptr(),
            array_of_maxprocs,
            array_of_info,
            *root,
            *comm,
            intercomm,
            error_codes(array_of_errcodes),
        )
    }
}
