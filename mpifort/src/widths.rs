//! Conversion of handles in the standard ABI: pointers in C, integers in Fortran (MPI-5.0 section
//! 21.4.4).
//!
//! The integer is the lower half of the pointer, whose upper half is 0. On a little-endian machine,
//! Fortran's integer is therefore at the address of a handle that a callback receives.

#![allow(non_snake_case, reason = "names of C")]

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::abi::{MPI_Comm, MPI_F08_status, MPI_Fint, MPI_SUCCESS};

#[cfg(target_endian = "big")]
compile_error!("callbacks get handles of another width on big-endian machines");

/// A C handle.
pub type Pointer = usize;

/// Returns the C handle of a communicator.
#[inline(always)]
pub fn wide_comm(comm: MPI_Comm) -> Pointer {
    wide(comm)
}

/// Returns the C form of a handle.
#[inline(always)]
pub fn wide(handle: c_int) -> Pointer {
    handle as u32 as Pointer
}

/// Returns the C form of the handle at an address; 0 for NULL.
///
/// # Safety
/// The address is valid or NULL.
#[inline(always)]
pub unsafe fn load(at: *const c_int) -> Pointer {
    // SAFETY: the address is NULL or valid (# Safety).
    unsafe { at.as_ref() }.map_or(0, |handle| wide(*handle))
}

/// Returns the address that C uses for a handle that Fortran has at `narrow`: NULL for NULL.
#[inline(always)]
pub fn place(narrow: *mut c_int, wide: *mut Pointer) -> *mut Pointer {
    if narrow.is_null() {
        return std::ptr::null_mut();
    }
    wide
}

/// Stores a handle that C has written in Fortran's form.
///
/// # Safety
/// The address is valid or NULL.
#[inline(always)]
pub unsafe fn store(at: *mut c_int, handle: Pointer) {
    if !at.is_null() {
        // SAFETY: the address is not NULL, and so valid (# Safety).
        unsafe { at.write(handle as c_int) };
    }
}

/// An array of C handles, converted from Fortran's.
#[derive(Debug)]
pub struct Array(Option<Vec<Pointer>>);

impl Array {
    /// Converts an array. NULL stays NULL; C reports an invalid length.
    ///
    /// # Safety
    /// The address is NULL or valid for `length` handles.
    pub unsafe fn new(narrow: *const c_int, length: i64) -> Array {
        if narrow.is_null() {
            return Array(None);
        }
        let length = usize::try_from(length).unwrap_or(0);
        // SAFETY: not NULL, and so valid for `length` handles (# Safety).
        let each = (0..length).map(|index| wide(unsafe { narrow.add(index).read() }));
        Array(Some(each.collect()))
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
    pub unsafe fn store(&self, narrow: *mut c_int) {
        for (index, handle) in self.0.iter().flatten().enumerate() {
            // SAFETY: the address is the one that the array was made from, with as many handles
            // (# Safety).
            unsafe { narrow.add(index).write(*handle as c_int) };
        }
    }
}

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// Looks up a function that only Weft's `libmpi_abi.so.1` has; other libraries are detected at the
/// first use.
pub fn own(name: &CStr) -> *mut c_void {
    // SAFETY: a string that ends in NUL; NULL stands for all libraries of the program
    // (`RTLD_DEFAULT`).
    let function = unsafe { dlsym(std::ptr::null_mut(), name.as_ptr()) };
    if function.is_null() {
        eprintln!(
            "Weft: libmpifort_abi.so.1 needs {} of libmpi_abi.so.1, and this program found an older one; have \
             LD_LIBRARY_PATH name the folder that both were installed in",
            name.to_string_lossy()
        );
        std::process::exit(1);
    }
    function
}

/// Returns the file of an integer.
///
/// # Safety
/// None beyond that of C's function.
#[cfg(feature = "io")]
pub unsafe extern "C" fn MPI_File_f2c(file: MPI_Fint) -> crate::abi::MPI_File {
    // SAFETY: takes any integer.
    unsafe { crate::imports::outer::MPI_File_fromint(file) }
}

/// Returns the integer of a file.
///
/// # Safety
/// `file` is a file's handle.
#[cfg(feature = "io")]
pub unsafe extern "C" fn MPI_File_c2f(file: crate::abi::MPI_File) -> MPI_Fint {
    // SAFETY: `file` is a file's handle (# Safety).
    unsafe { crate::imports::outer::MPI_File_toint(file) }
}

/// Converts a status of `mpif.h` to one of `mpi_f08`: the same integers.
///
/// # Safety
/// Both are valid.
pub unsafe extern "C" fn MPI_Status_f2f08(from: *const MPI_Fint, to: *mut MPI_F08_status) -> c_int {
    // SAFETY: the caller promises valid statuses (`# Safety`); `copy` allows them to be the same.
    unsafe { std::ptr::copy(from.cast(), to, 1) };
    MPI_SUCCESS
}

/// Converts a status of `mpi_f08` to one of `mpif.h`: the same integers.
///
/// # Safety
/// Both are valid.
pub unsafe extern "C" fn MPI_Status_f082f(from: *const MPI_F08_status, to: *mut MPI_Fint) -> c_int {
    // SAFETY: the caller promises valid statuses (`# Safety`); `copy` allows them to be the same.
    unsafe { std::ptr::copy(from, to.cast(), 1) };
    MPI_SUCCESS
}
