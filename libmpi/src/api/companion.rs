//! Functions for libraries of other languages beyond the standard (with the names and conventions
//! of the ABI): attributes with the language that set them, and callbacks that are not C functions.

use std::ffi::{CStr, c_char, c_int, c_void};

use mpi_core::{Class, Error, Result};
use mpi_runtime::handles::errhandler;
use mpi_runtime::handles::handler::{Caller, Proxy};
use mpi_runtime::handles::in_call::InCall;
use mpi_runtime::handles::types;
use mpi_runtime::requests;

use super::attr::{self, tell};
use crate::abi::{
    MPI_APPNUM, MPI_Aint, MPI_COMM_WORLD, MPI_Datatype, MPI_Errhandler, MPI_Op, MPI_Request,
    MPI_TAG_UB, MPI_WIN_BASE, MPI_WIN_MODEL, MPI_WIN_SIZE,
};
use crate::args::{Late, LiveComm, LiveWin, Out};
use crate::attributes::{self, CopyProxy, DeleteProxy, Form, ObjectKind, Store};
use crate::ops;
use crate::raise::{On, raise, take_thrown};
use crate::win_values;

/// Returns the C number of a Fortran key: a predefined key's number in Fortran is C's plus one, or
/// the same in the standard ABI.
fn key_of_c(keyval: c_int) -> c_int {
    if cfg!(pointer_abi) {
        return keyval;
    }
    let predefined = (MPI_TAG_UB..=MPI_APPNUM + 1).contains(&keyval)
        || (MPI_WIN_BASE..=MPI_WIN_MODEL + 1).contains(&keyval);
    if predefined && keyval & 1 == 0 {
        keyval - 1
    } else {
        keyval
    }
}

/// Writes an attribute's value as an address-sized integer, and its flag.
fn tell_bits(found: Option<isize>, value: Out<*mut c_void>, flag: Out<c_int>) {
    let bits = found.map(|found| std::ptr::without_provenance_mut(found as usize));
    tell(bits, value, flag);
}

fn get(
    store: &Store,
    kind: ObjectKind,
    keyval: c_int,
    value: Out<*mut c_void>,
    flag: Out<c_int>,
    form: Form,
) -> Result<()> {
    let found = store.get(&attributes::key(keyval, kind)?);
    if form == Form::Pointer {
        tell(found.map(|found| found.pointer()), value, flag);
    } else {
        tell_bits(found.map(|found| found.bits()), value, flag);
    }
    Ok(())
}

/// `MPII_Comm_get_attr`: `MPI_Comm_get_attr` with the form of the result. Predefined attributes are
/// returned by value in forms other than C's.
pub fn comm_get_attr(
    comm: LiveComm,
    keyval: c_int,
    value: Out<*mut c_void>,
    flag: Out<c_int>,
    form: c_int,
) -> Result<()> {
    let (runtime, object, form) = (comm.runtime, comm.object, Form::named(form)?);
    // SAFETY: the predefined attributes of communicators are integers.
    unsafe {
        match attr::predefined(runtime, key_of_c(keyval)) {
            Some(found) if form == Form::Pointer => tell(found, value, flag),
            Some(found) => {
                let number = found.map(|found| found.cast::<c_int>().read() as isize);
                tell_bits(number, value, flag);
            }
            None => {
                return get(
                    &object.attributes,
                    ObjectKind::Comm,
                    keyval,
                    value,
                    flag,
                    form,
                );
            }
        }
    }
    Ok(())
}

/// `MPII_Type_get_attr`: `MPI_Type_get_attr` with the form in which the value is wanted.
pub fn type_get_attr(
    Late(datatype, call): Late<MPI_Datatype>,
    keyval: c_int,
    value: Out<*mut c_void>,
    flag: Out<c_int>,
    form: c_int,
) -> Result<()> {
    let store = &types::object(datatype, call)?.attributes;
    let form = Form::named(form)?;
    get(store, ObjectKind::Type, keyval, value, flag, form)
}

/// `MPII_Type_state`: 2 for a committed datatype, 1 for another one, 0 for none. Raises no error,
/// so that it can be called before the call that does.
pub unsafe fn type_state(datatype: MPI_Datatype) -> c_int {
    // SAFETY: by the chapter on safety no other thread frees the datatype during the call.
    match types::object(datatype, unsafe { InCall::begin() }) {
        Ok(object) if object.datatype.is_committed() => 2,
        Ok(_) => 1,
        Err(_) => 0,
    }
}

/// `MPII_Win_get_attr`: `MPI_Win_get_attr` with the form of the result. Predefined attributes are
/// returned by value in forms other than C's; the base is its address.
pub fn win_get_attr(
    win: LiveWin,
    keyval: c_int,
    value: Out<*mut c_void>,
    flag: Out<c_int>,
    form: c_int,
) -> Result<()> {
    let (object, form) = (win.object, Form::named(form)?);
    let key = key_of_c(keyval);
    // SAFETY: `find` returns the base, or the address of an integer of the type in the table of
    // section 11.2.6, which lives as long as the window.
    unsafe {
        match win_values::find(object, key) {
            Some(found) if form == Form::Pointer => tell(Some(found), value, flag),
            Some(found) => {
                let number = match key {
                    MPI_WIN_BASE => found.expose_provenance() as isize,
                    MPI_WIN_SIZE => found.cast::<MPI_Aint>().read() as isize,
                    _ => found.cast::<c_int>().read() as isize,
                };
                tell_bits(Some(number), value, flag);
            }
            None => {
                return get(
                    &object.attributes,
                    ObjectKind::Win,
                    keyval,
                    value,
                    flag,
                    form,
                );
            }
        }
    }
    Ok(())
}

/// `MPII_Keyval_set_proxy`: makes the callbacks of a key be called through `copy` and `delete`.
pub unsafe fn keyval_set_proxy(keyval: c_int, copy: *mut c_void, delete: *mut c_void) {
    if copy.is_null() || delete.is_null() {
        return;
    }
    // SAFETY: the caller's contract; neither is NULL.
    let (copy, delete) = unsafe {
        (
            std::mem::transmute::<*mut c_void, CopyProxy>(copy),
            std::mem::transmute::<*mut c_void, DeleteProxy>(delete),
        )
    };
    // The caller has just made the key, so the call cannot fail.
    let _ = attributes::set_proxies(keyval, copy, delete);
}

/// `MPII_Grequest_set_lang_f77`: makes the callbacks of a generalized request be called as Fortran
/// subroutines, with the address that was given as extra state.
pub unsafe fn grequest_set_lang_f77(request: MPI_Request) {
    // SAFETY: by the chapter on safety no other thread frees the request during the call.
    let call = unsafe { InCall::begin() };
    if let Some(generalized) = requests::generalized(request, call) {
        generalized.calls().set_fortran();
    }
}

/// `MPII_Op_set_cxx`: makes the function of an operation be called through `call`.
pub unsafe fn op_set_cxx(op: MPI_Op, call: *mut c_void) {
    if !call.is_null() {
        // SAFETY: the caller's contract; not NULL.
        let call = unsafe { std::mem::transmute::<*mut c_void, ops::Proxy>(call) };
        // The caller has just made the operation, so the call cannot fail.
        let _ = ops::set_proxy(op, call);
    }
}

/// `MPII_Errhandler_set_cxx`: makes the function of an error handler be called through `call`.
pub unsafe fn errhandler_set_cxx(handler: MPI_Errhandler, call: *mut c_void) {
    if !call.is_null() {
        // SAFETY: the caller's contract; not NULL.
        let call = unsafe { std::mem::transmute::<*mut c_void, Proxy>(call) };
        // The caller has just made the handler, so the call cannot fail.
        let _ = errhandler::set_caller(handler, Caller::Proxy(call));
    }
}

/// `MPII_Errhandler_set_fc`: makes the function of an error handler be called as a Fortran
/// subroutine.
pub fn errhandler_set_fc(handler: MPI_Errhandler) {
    // The caller has just made the handler, so the call cannot fail.
    let _ = errhandler::set_caller(handler, Caller::Fortran);
}

/// `MPII_Missing`: raises the error for a function of another language's binding that this library
/// lacks, on `MPI_COMM_WORLD`. Returns its code.
pub unsafe fn missing(function: *const c_char) -> c_int {
    // SAFETY: the companion library passes the literal name of a function, which ends in NUL.
    let name = unsafe { CStr::from_ptr::<'static>(function) };
    let name = name.to_str().unwrap_or("MPI");
    let why = format!("{name} is not in this version of the library; call another function");
    raise(
        Error::new(Class::UnsupportedOperation, why),
        name,
        On::Comm(MPI_COMM_WORLD),
        &[],
    )
}

/// `MPII_Thrown`: returns whether the error that this thread's last C function returned is to be
/// thrown, by `MPI::ERRORS_THROW_EXCEPTIONS` (MPI-2.2, section 16.1.8). Returns true once.
pub fn thrown() -> c_int {
    take_thrown().into()
}
