//! What programs in C++ ask of Open MPI's `libmpi_cxx.so.40` and `libmpi.so.40` when they do no more than include
//! `mpi.h`: the bindings of MPI-2.2 are inline functions there, and the classes' tables of virtual functions, which
//! each program has for itself, name these five. `libmpi_cxx.so.40` is a link to this library. What else the bindings
//! have outside the header (their constants above all) isn't here, so programs that use it don't start.
//!
//! All functions are unsafe with the contract of the bindings (MPI-2.2 chapter 16).

#![allow(clippy::missing_safety_doc, reason = "said above, once for all")]

use std::ffi::{CStr, c_int, c_void};

use mpi_runtime::lifecycle::fatal;

use super::Outward;
use crate::abi::{MPI_COMM_NULL, MPI_Datatype, MPI_Op, MPI_User_function};
use crate::ops;

unsafe extern "C" {
    // By these names, so that a tool that has them in our place sees the calls.
    fn MPI_Type_free(datatype: *mut Outward) -> c_int;
    fn MPI_Win_free(win: *mut Outward) -> c_int;
}

/// An object of a class of the bindings: the address of its class's table of virtual functions, and the handle.
#[repr(C)]
pub struct Object {
    table: *const c_void,
    handle: Outward,
}

/// A reduction function of C++'s: two buffers, the number of elements, and the datatype, an object.
type Function = unsafe extern "C" fn(*const c_void, *mut c_void, c_int, *const Object);

/// `MPI::Comm::Comm()`, of an object of a class derived from it: `MPI::Comm` is abstract. The derived class's constructor
/// writes the table after this.
#[unsafe(export_name = "_ZN3MPI4CommC2Ev")]
pub unsafe extern "C" fn comm(this: *mut Object) {
    // SAFETY: the contract of a constructor: there is room for the object.
    unsafe { (&raw mut (*this).handle).write(Outward::comm(MPI_COMM_NULL)) };
}

/// `MPI::Datatype::Free()`.
#[unsafe(export_name = "_ZN3MPI8Datatype4FreeEv")]
pub unsafe extern "C" fn datatype_free(this: *mut Object) {
    // SAFETY: the object is valid; errors go to the error handler.
    unsafe { MPI_Type_free(&raw mut (*this).handle) };
}

/// `MPI::Win::Free()`.
#[unsafe(export_name = "_ZN3MPI3Win4FreeEv")]
pub unsafe extern "C" fn win_free(this: *mut Object) {
    // SAFETY: as above.
    unsafe { MPI_Win_free(&raw mut (*this).handle) };
}

/// What `MPI::Op::Init` gives to `MPI_Op_create`: calls `function`, one of C++'s, with an object for the datatype.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ompi_mpi_cxx_op_intercept(
    input: *mut c_void,
    inout: *mut c_void,
    len: *const c_int,
    datatype: *const Outward,
    function: MPI_User_function,
) {
    // SAFETY: `function` was given as one of C++'s; the others are those of a reduction function (MPI-2.2 section 5.9.5).
    unsafe {
        let object = Object {
            table: datatype_table(function),
            handle: *datatype,
        };
        let function = std::mem::transmute::<MPI_User_function, Function>(function);
        function(input, inout, *len, &raw const object);
    }
}

/// `ompi_op_set_cxx_callback`, by which `MPI::Op::Init` tells the program's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ompi_op_set_cxx_callback(op: Outward, function: MPI_User_function) {
    // The operation has just been made, so this is no error.
    let _ = ops::set_proxy_for(op.inward() as MPI_Op, call, Some(function));
}

/// Calls a function of C++'s for an operation.
unsafe extern "C" fn call(
    input: *const c_void,
    inout: *mut c_void,
    len: c_int,
    datatype: MPI_Datatype,
    function: MPI_User_function,
) {
    let datatype = Outward::datatype(Outward::datatype_from_int(datatype));
    let (len, datatype) = (&raw const len, &raw const datatype);
    // SAFETY: these are the arguments of a reduction.
    unsafe { ompi_mpi_cxx_op_intercept(input.cast_mut(), inout, len, datatype, function) };
}

/// The table of virtual functions of `MPI::Datatype`. The compiler gave one to all that use the class, so it is in the
/// program, or in the library with the function.
unsafe fn datatype_table(function: MPI_User_function) -> *const c_void {
    const NAME: &CStr = c"_ZTVN3MPI8DatatypeE";
    // Before what an object points to are the class's offset and its type information.
    const BEFORE: usize = 2 * size_of::<usize>();
    // SAFETY: names end with NUL; the loader writes the structure, whose zeroes are valid, and its path lives as long as
    // the library, which is open, since the function is in it.
    let table = unsafe {
        let everywhere = libc::dlsym(libc::RTLD_DEFAULT, NAME.as_ptr());
        let mut place: libc::Dl_info = std::mem::zeroed();
        if everywhere.is_null() && libc::dladdr(function as *const c_void, &raw mut place) != 0 {
            let library = libc::dlopen(place.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            match library.is_null() {
                true => everywhere,
                false => {
                    let found = libc::dlsym(library, NAME.as_ptr());
                    libc::dlclose(library);
                    found
                }
            }
        } else {
            everywhere
        }
    };
    if table.is_null() {
        fatal::complain(
            "A reduction function of C++'s wants an object of MPI::Datatype, and neither the program nor the library \
             with the function exports that class's table of virtual functions (_ZTVN3MPI8DatatypeE). Link the program \
             with -rdynamic, or make the operation by MPI_Op_create.\n",
        );
        fatal::abort(crate::abi::MPI_ERR_OP);
    }
    table.wrapping_byte_add(BEFORE)
}
