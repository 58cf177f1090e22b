//! What libraries between a program and MPI have in common: the library behind them, of either ABI.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A library's name, and whether it has the standard ABI.
const LIBRARIES: [(&CStr, bool); 2] = [(c"libmpi.so.12", false), (c"libmpi_abi.so.1", true)];

/// Opens the library of the program's, which is there, and says whether it has the standard ABI.
fn library() -> Option<(*mut c_void, bool)> {
    LIBRARIES.into_iter().find_map(|(name, standard)| {
        // SAFETY: with this flag nothing is loaded; only what is there is looked for.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        (!handle.is_null()).then_some((handle, standard))
    })
}

/// Whether the program uses the standard ABI.
pub fn is_standard_abi() -> bool {
    library().is_some_and(|(_, standard)| standard)
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
