//! Handles of C and of Fortran in the standard ABI: pointers there, integers here (MPI-5.0 section 21.4.4).
//!
//! The integer is the lower half of the pointer, whose upper half is 0. On a little-endian machine a
//! callback that is given the address of a handle finds Fortran's integer there.

#![allow(non_snake_case, reason = "names of C")]

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::abi::{
    MPI_Comm, MPI_F08_status, MPI_File, MPI_Fint, MPI_MAX_LIBRARY_VERSION_STRING, MPI_SUCCESS,
};
use crate::imports::outer;

#[cfg(target_endian = "big")]
compile_error!("callbacks get handles of another width on big-endian machines");

/// A handle as C has it.
pub type Pointer = usize;

/// Whether the library has handles as they are here is not known of others, so those are refused before the
/// program runs.
extern "C" fn check_library() {
    let mut text = [0_u8; MPI_MAX_LIBRARY_VERSION_STRING as usize];
    let mut length = 0;
    // SAFETY: the text has the room that the standard asks for; may be called before MPI is initialized.
    unsafe { PMPI_Get_library_version(text.as_mut_ptr().cast(), &raw mut length) };
    if !text.starts_with(b"Weft ") {
        let length = usize::try_from(length).unwrap_or(0).min(text.len());
        let name = String::from_utf8_lossy(&text[..length]);
        eprintln!(
            "Weft: libmpifort_abi.so.1 works with Weft's libmpi_abi.so.1 only, and this program found that of another \
             library ({}); have LD_LIBRARY_PATH name Weft's folder, or take that library's own Fortran bindings",
            name.lines().next().unwrap_or_default().trim_end()
        );
        std::process::exit(1);
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static CHECK_LIBRARY: extern "C" fn() = check_library;

/// C's form of a communicator.
#[inline(always)]
pub fn wide_comm(comm: MPI_Comm) -> Pointer {
    wide(comm)
}

/// C's form of a handle.
#[inline(always)]
pub fn wide(handle: c_int) -> Pointer {
    handle as u32 as Pointer
}

/// C's form of the handle at an address; 0 for NULL.
///
/// # Safety
/// The address is valid or NULL.
#[inline(always)]
pub unsafe fn load(at: *const c_int) -> Pointer {
    // SAFETY: the caller's contract.
    unsafe { at.as_ref() }.map_or(0, |handle| wide(*handle))
}

/// Where C is to find and put a handle that Fortran has at `narrow`: NULL stays NULL.
#[inline(always)]
pub fn place(narrow: *mut c_int, wide: *mut Pointer) -> *mut Pointer {
    if narrow.is_null() {
        return std::ptr::null_mut();
    }
    wide
}

/// Gives Fortran what C has left.
///
/// # Safety
/// The address is valid or NULL.
#[inline(always)]
pub unsafe fn store(at: *mut c_int, handle: Pointer) {
    if !at.is_null() {
        // SAFETY: the caller's contract.
        unsafe { at.write(handle as c_int) };
    }
}

/// An array of handles of C, made of one of Fortran.
#[derive(Debug)]
pub struct Array(Option<Vec<Pointer>>);

impl Array {
    /// NULL stays NULL; a length that is none is left to C to complain about.
    ///
    /// # Safety
    /// Another address than NULL is valid for `length` handles.
    pub unsafe fn new(narrow: *const c_int, length: i64) -> Array {
        if narrow.is_null() {
            return Array(None);
        }
        let length = usize::try_from(length).unwrap_or(0);
        // SAFETY: the caller's contract.
        let each = (0..length).map(|index| wide(unsafe { narrow.add(index).read() }));
        Array(Some(each.collect()))
    }

    /// For C.
    pub fn as_mut_ptr(&mut self) -> *mut Pointer {
        match &mut self.0 {
            Some(handles) => handles.as_mut_ptr(),
            None => std::ptr::null_mut(),
        }
    }

    /// Gives Fortran what C has left.
    ///
    /// # Safety
    /// It is the address that this was made of.
    pub unsafe fn store(&self, narrow: *mut c_int) {
        for (index, handle) in self.0.iter().flatten().enumerate() {
            // SAFETY: the caller's contract.
            unsafe { narrow.add(index).write(*handle as c_int) };
        }
    }
}

unsafe extern "C" {
    fn PMPI_Get_library_version(version: *mut c_char, length: *mut c_int) -> c_int;
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// A function of `libmpi_abi.so.1` that only Weft's has, so that it is asked for when it is needed.
pub fn own(name: &CStr) -> *mut c_void {
    // SAFETY: a string that ends in NUL; NULL stands for all libraries of the program (`RTLD_DEFAULT`).
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

/// The file of an integer.
///
/// # Safety
/// None beyond that of C's function.
pub unsafe extern "C" fn MPI_File_f2c(file: MPI_Fint) -> MPI_File {
    // SAFETY: takes any integer.
    unsafe { outer::MPI_File_fromint(file) }
}

/// The integer of a file.
///
/// # Safety
/// It is a file's handle.
pub unsafe extern "C" fn MPI_File_c2f(file: MPI_File) -> MPI_Fint {
    // SAFETY: the caller's contract.
    unsafe { outer::MPI_File_toint(file) }
}

/// A status of `mpif.h` as one of `mpi_f08`: the same integers.
///
/// # Safety
/// Both are valid.
pub unsafe extern "C" fn MPI_Status_f2f08(from: *const MPI_Fint, to: *mut MPI_F08_status) -> c_int {
    // SAFETY: the caller's contract; they may be the same.
    unsafe { std::ptr::copy(from.cast(), to, 1) };
    MPI_SUCCESS
}

/// A status of `mpi_f08` as one of `mpif.h`.
///
/// # Safety
/// Both are valid.
pub unsafe extern "C" fn MPI_Status_f082f(from: *const MPI_F08_status, to: *mut MPI_Fint) -> c_int {
    // SAFETY: the caller's contract; they may be the same.
    unsafe { std::ptr::copy(from, to.cast(), 1) };
    MPI_SUCCESS
}
