//! What libraries between a program and MPI have in common: the library behind them, of whichever ABI.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Which handles and constants a program has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abi {
    /// MPICH's.
    Mpich,
    /// That of MPI 5.0.
    Standard,
    /// Open MPI's.
    OpenMpi,
}

/// A library's name, and which ABI it has.
const LIBRARIES: [(&CStr, Abi); 3] = [
    (c"libmpi.so.12", Abi::Mpich),
    (c"libmpi_abi.so.1", Abi::Standard),
    (c"libmpi.so.40", Abi::OpenMpi),
];

/// Opens the library of the program's, which is there, and says which ABI it has.
fn library() -> Option<(*mut c_void, Abi)> {
    LIBRARIES.into_iter().find_map(|(name, abi)| {
        // SAFETY: with this flag nothing is loaded; only what is there is looked for.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        (!handle.is_null()).then_some((handle, abi))
    })
}

/// Which ABI the program uses.
pub fn abi() -> Abi {
    library().map_or(Abi::Mpich, |(_, abi)| abi)
}

/// Whether the program uses the standard ABI.
pub fn is_standard_abi() -> bool {
    abi() == Abi::Standard
}

/// Where a variable is that the program and the library have in common; 0 if there is none.
pub fn variable(name: &CStr) -> usize {
    // The program's copy comes first, where it has one.
    // SAFETY: the name ends with NUL.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) as usize }
}

/// A function of the library's.
pub struct Real {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Real {
    /// The function of this name.
    pub const fn new(name: &'static CStr) -> Real {
        Real {
            name,
            found: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Its address. Ends the process if there is none: what the program called can't be done.
    #[inline]
    pub fn get(&self) -> *mut c_void {
        let found = self.found.load(Ordering::Relaxed);
        if found.is_null() { self.find() } else { found }
    }

    #[cold]
    fn find(&self) -> *mut c_void {
        let found = library().map(|(handle, _)| {
            // SAFETY: the handle is one of the loader's, and the name ends with NUL.
            unsafe { libc::dlsym(handle, self.name.as_ptr()) }
        });
        let found = found.unwrap_or(ptr::null_mut());
        if found.is_null() {
            eprintln!(
                "Weft: {} was called, but no MPI library of the process has it; run the program without \
                 -stats, -trace and -check",
                self.name.to_string_lossy()
            );
            std::process::abort();
        }
        self.found.store(found, Ordering::Relaxed);
        found
    }
}
