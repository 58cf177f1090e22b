//! Conversion of handles in Open MPI's ABI: pointers in C, unrelated integers in Fortran. The C
//! library converts each.

#![allow(non_snake_case, reason = "names of C")]

use std::ffi::c_int;

use crate::abi::MPI_Comm;

/// A C handle.
pub type Pointer = usize;

/// The conversion functions of a type of handles.
#[derive(Clone, Copy, Debug)]
pub struct Of {
    f2c: unsafe extern "C" fn(c_int) -> Pointer,
    c2f: unsafe extern "C" fn(Pointer) -> c_int,
}

macro_rules! types {
    ($($name:ident = $type:literal, $f2c:ident, $c2f:ident;)*) => {
        $(
            #[doc = concat!("Of `", $type, "`.")]
            pub const $name: Of = Of { f2c: $f2c, c2f: $c2f };
        )*

        unsafe extern "C" {
            $(
                fn $f2c(handle: c_int) -> Pointer;
                fn $c2f(handle: Pointer) -> c_int;
            )*
        }
    };
}

types! {
    COMM = "MPI_Comm", PMPI_Comm_f2c, PMPI_Comm_c2f;
    DATATYPE = "MPI_Datatype", PMPI_Type_f2c, PMPI_Type_c2f;
    ERRHANDLER = "MPI_Errhandler", PMPI_Errhandler_f2c, PMPI_Errhandler_c2f;
    GROUP = "MPI_Group", PMPI_Group_f2c, PMPI_Group_c2f;
    INFO = "MPI_Info", PMPI_Info_f2c, PMPI_Info_c2f;
    MESSAGE = "MPI_Message", PMPI_Message_f2c, PMPI_Message_c2f;
    OP = "MPI_Op", PMPI_Op_f2c, PMPI_Op_c2f;
    REQUEST = "MPI_Request", PMPI_Request_f2c, PMPI_Request_c2f;
    SESSION = "MPI_Session", PMPI_Session_f2c, PMPI_Session_c2f;
    WIN = "MPI_Win", PMPI_Win_f2c, PMPI_Win_c2f;
}

/// Returns the C handle of a communicator.
#[inline(always)]
pub fn wide_comm(comm: MPI_Comm) -> Pointer {
    wide(COMM, comm)
}

/// Returns the C form of a handle.
#[inline(always)]
pub fn wide(of: Of, handle: c_int) -> Pointer {
    // SAFETY: the function accepts any integer.
    unsafe { (of.f2c)(handle) }
}

/// Returns Fortran's form of a handle.
///
/// # Safety
/// `handle` is a C handle of this type.
#[inline(always)]
pub unsafe fn narrow(of: Of, handle: Pointer) -> c_int {
    // SAFETY: `handle` is a handle of this kind (# Safety).
    unsafe { (of.c2f)(handle) }
}

/// Returns the C form of the handle at an address; 0 for NULL.
///
/// # Safety
/// The address is valid or NULL.
#[inline(always)]
pub unsafe fn load(of: Of, at: *const c_int) -> Pointer {
    // SAFETY: the address is NULL or valid (# Safety).
    unsafe { at.as_ref() }.map_or(0, |handle| wide(of, *handle))
}

/// Returns the address that C uses for a handle that Fortran has at `narrow`: NULL for NULL.
#[inline(always)]
pub fn place(narrow: *mut c_int, wide: *mut Pointer) -> *mut Pointer {
    if narrow.is_null() {
        return std::ptr::null_mut();
    }
    wide
}

/// Stores a handle that C has written in Fortran's form; 0 means that C has written none.
///
/// # Safety
/// The address is valid or NULL.
#[inline(always)]
pub unsafe fn store(of: Of, at: *mut c_int, handle: Pointer) {
    if !at.is_null() && handle != 0 {
        // SAFETY: the address is not NULL, and so valid (# Safety).
        unsafe { at.write(narrow(of, handle)) };
    }
}

/// An array of C handles, converted from Fortran's.
#[derive(Debug)]
pub struct Array(Option<Vec<Pointer>>, Of);

impl Array {
    /// Converts an array. NULL stays NULL; C reports an invalid length.
    ///
    /// # Safety
    /// The address is NULL or valid for `length` handles.
    pub unsafe fn new(of: Of, narrow: *const c_int, length: i64) -> Array {
        if narrow.is_null() {
            return Array(None, of);
        }
        let length = usize::try_from(length).unwrap_or(0);
        // SAFETY: not NULL, and so valid for `length` handles (# Safety).
        let each = (0..length).map(|index| wide(of, unsafe { narrow.add(index).read() }));
        Array(Some(each.collect()), of)
    }

    /// Returns the address to pass to C.
    pub fn as_mut_ptr(&mut self) -> *mut Pointer {
        match &mut self.0 {
            Some(handles) => handles.as_mut_ptr(),
            None => std::ptr::null_mut(),
        }
    }

    /// Stores the handles that C has written in Fortran's form.
    ///
    /// # Safety
    /// The address is the one that the array was made from.
    pub unsafe fn store(&self, at: *mut c_int) {
        for (index, handle) in self.0.iter().flatten().enumerate() {
            // SAFETY: the address is the one that the array was made from, with as many handles
            // (# Safety).
            unsafe { store(self.1, at.wrapping_add(index), *handle) };
        }
    }
}
