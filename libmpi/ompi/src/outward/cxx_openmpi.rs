//! The C++ functions that programs need when they include `mpi.h` of Open MPI.
//!
//! The bindings of MPI-2.2 are inline functions there, and the virtual tables of their classes,
//! which each program contains, refer to these five functions of `libmpi_cxx.so.40` and
//! `libmpi.so.40`. `libmpi_cxx.so.40` is a link to this library. The other parts of the bindings
//! that are not in the header (above all their constants) are missing, so programs that use them do
//! not start.
//!
//! All functions are unsafe with the contract of the bindings (MPI-2.2 chapter 16).

#![allow(
    clippy::missing_safety_doc,
    reason = "the module's documentation states the contract of all"
)]

use std::ffi::{CStr, c_int, c_void};

use mpi_runtime::lifecycle::fatal;

use super::Outward;
use crate::abi::{MPI_COMM_NULL, MPI_Datatype, MPI_Op, MPI_User_function};
use crate::ops;

unsafe extern "C" {
    // Declared by name, so that a tool that intercepts them sees the calls.
    fn MPI_Type_free(datatype: *mut Outward) -> c_int;
    fn MPI_Win_free(win: *mut Outward) -> c_int;
}

/// An object of a class of the bindings: the address of the class's virtual table, and the handle.
#[repr(C)]
pub struct Object {
    table: *const c_void,
    handle: Outward,
}

/// A C++ reduction function: two buffers, the number of elements, and the datatype as an object.
type Function = unsafe extern "C" fn(*const c_void, *mut c_void, c_int, *const Object);

/// `MPI::Comm::Comm()` of an object of a derived class: `MPI::Comm` is abstract. The derived
/// class's constructor writes the virtual table afterwards.
#[unsafe(export_name = "_ZN3MPI4CommC2Ev")]
pub unsafe extern "C" fn comm(this: *mut Object) {
    // SAFETY: the contract of a constructor: `this` is valid for writes of an object.
    unsafe { (&raw mut (*this).handle).write(Outward::comm(MPI_COMM_NULL)) };
}

/// `MPI::Datatype::Free()`.
#[unsafe(export_name = "_ZN3MPI8Datatype4FreeEv")]
pub unsafe extern "C" fn datatype_free(this: *mut Object) {
    // SAFETY: `this` is a valid object by the contract of a C++ method; errors go to the error
    // handler.
    unsafe { MPI_Type_free(&raw mut (*this).handle) };
}

/// `MPI::Win::Free()`.
#[unsafe(export_name = "_ZN3MPI3Win4FreeEv")]
pub unsafe extern "C" fn win_free(this: *mut Object) {
    // SAFETY: `this` is a valid object by the contract of a C++ method; errors go to the error
    // handler.
    unsafe { MPI_Win_free(&raw mut (*this).handle) };
}

/// The function that `MPI::Op::Init` passes to `MPI_Op_create`: calls `function`, a C++ function,
/// with an object for the datatype.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ompi_mpi_cxx_op_intercept(
    input: *mut c_void,
    inout: *mut c_void,
    len: *const c_int,
    datatype: *const Outward,
    function: MPI_User_function,
) {
    // SAFETY: the caller passes a C++ reduction function and valid arguments for it (MPI-2.2
    // section 5.9.5).
    unsafe {
        let object = Object {
            table: datatype_table(function),
            handle: *datatype,
        };
        let function = std::mem::transmute::<MPI_User_function, Function>(function);
        function(input, inout, *len, &raw const object);
    }
}

/// `ompi_op_set_cxx_callback`, by which `MPI::Op::Init` registers the program's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ompi_op_set_cxx_callback(op: Outward, function: MPI_User_function) {
    // Cannot fail: the operation has just been made.
    let _ = ops::set_proxy_for(op.inward() as MPI_Op, call, Some(function));
}

/// Calls a C++ function for an operation.
unsafe extern "C" fn call(
    input: *const c_void,
    inout: *mut c_void,
    len: c_int,
    datatype: MPI_Datatype,
    function: MPI_User_function,
) {
    let datatype = Outward::datatype(Outward::datatype_from_int(datatype));
    let (len, datatype) = (&raw const len, &raw const datatype);
    // SAFETY: the arguments are those of a reduction, and `function` was registered as a C++
    // reduction function.
    unsafe { ompi_mpi_cxx_op_intercept(input.cast_mut(), inout, len, datatype, function) };
}

/// Returns the virtual table of `MPI::Datatype`. The compiler emits it where the class is used, so
/// it is in the program, or in the library that has `function`.
unsafe fn datatype_table(function: MPI_User_function) -> *const c_void {
    const NAME: &CStr = c"_ZTVN3MPI8DatatypeE";
    // The class's offset and type information come before the address that an object points to.
    const BEFORE: usize = 2 * size_of::<usize>();
    // SAFETY: the names end with NUL; zeroes are valid in the structure, which the loader fills;
    // its path lives as long as the library, which is loaded since `function` is in it.
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
            "A C++ reduction function needs an object of MPI::Datatype, and neither the program nor the library \
             with the function exports that class's table of virtual functions (_ZTVN3MPI8DatatypeE). Link the program \
             with -rdynamic, or make the operation by MPI_Op_create.\n",
        );
        fatal::abort(crate::abi::MPI_ERR_OP);
    }
    table.wrapping_byte_add(BEFORE)
}
