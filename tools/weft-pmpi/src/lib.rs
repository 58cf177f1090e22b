//! Look-up of the real MPI functions by libraries that are preloaded before MPI's, for all three
//! ABIs.

use std::ffi::{CStr, c_void};
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use libloading::os::unix::{Library, RTLD_LAZY};

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
const LIBRARIES: [(&str, Abi); 3] = [
    ("libmpi.so.12", Abi::Mpich),
    ("libmpi_abi.so.1", Abi::Standard),
    ("libmpi.so.40", Abi::OpenMpi),
];

/// Returns the MPI library that the process has loaded, which stays loaded, and its ABI.
fn library() -> Option<(ManuallyDrop<Library>, Abi)> {
    LIBRARIES.into_iter().find_map(|(name, abi)| {
        // SAFETY: with RTLD_NOLOAD the loader only finds libraries that are already loaded.
        let library = unsafe { Library::open(Some(name), RTLD_LAZY | libc::RTLD_NOLOAD) };
        Some((ManuallyDrop::new(library.ok()?), abi))
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
        let found = library().and_then(|(library, _)| {
            // SAFETY: a function's address is a pointer of this type; it is not called here.
            unsafe { library.get::<*mut c_void>(self.name) }.ok()
        });
        let found = found.map_or(ptr::null_mut(), |found| *found);
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
