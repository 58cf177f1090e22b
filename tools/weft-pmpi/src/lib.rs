//! Look-up of the real MPI functions by libraries that are preloaded before MPI's, for all three
//! ABIs.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The ABI of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abi {
    /// MPICH's.
    Mpich,
    /// That of MPI 5.0.
    Standard,
    /// Open MPI's.
    OpenMpi,
}

/// The names of MPI libraries with their ABIs.
const LIBRARIES: [(&CStr, Abi); 3] = [
    (c"libmpi.so.12", Abi::Mpich),
    (c"libmpi_abi.so.1", Abi::Standard),
    (c"libmpi.so.40", Abi::OpenMpi),
];

/// Returns a handle to the MPI library that the process has loaded, and its ABI.
fn library() -> Option<(*mut c_void, Abi)> {
    LIBRARIES.into_iter().find_map(|(name, abi)| {
        // SAFETY: with RTLD_NOLOAD dlopen only returns libraries that are already loaded.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        (!handle.is_null()).then_some((handle, abi))
    })
}

/// Returns the ABI of the program.
pub fn abi() -> Abi {
    library().map_or(Abi::Mpich, |(_, abi)| abi)
}

/// Returns whether the program uses the standard ABI.
pub fn is_standard_abi() -> bool {
    abi() == Abi::Standard
}

/// Returns the address of a variable that program and library share, or 0.
pub fn variable(name: &CStr) -> usize {
    // RTLD_DEFAULT finds the program's copy relocation first.
    // SAFETY: `name` is a C string.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) as usize }
}

/// A function of the MPI library.
pub struct Real {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Real {
    /// Creates the function of this name; the look-up happens at its first use.
    pub const fn new(name: &'static CStr) -> Real {
        Real {
            name,
            found: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Returns the function's address. Aborts the process if the MPI library lacks it.
    #[inline]
    pub fn get(&self) -> *mut c_void {
        let found = self.found.load(Ordering::Relaxed);
        if found.is_null() { self.find() } else { found }
    }

    #[cold]
    fn find(&self) -> *mut c_void {
        let found = library().map(|(handle, _)| {
            // SAFETY: `handle` is from dlopen, and `name` a C string.
            unsafe { libc::dlsym(handle, self.name.as_ptr()) }
        });
        let found = found.unwrap_or(ptr::null_mut());
        if found.is_null() {
            eprintln!(
                "Weft: {} does not exist in the MPI library of this process; run the program without \
                 -stats, -trace and -check",
                self.name.to_string_lossy()
            );
            std::process::abort();
        }
        self.found.store(found, Ordering::Relaxed);
        found
    }
}
