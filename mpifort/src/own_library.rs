//! Checks that the C library of an ABI whose handles are pointers is Weft's.

use std::ffi::{c_char, c_int};

use crate::abi::MPI_MAX_LIBRARY_VERSION_STRING;

/// This library and its C library.
const NAMES: [&str; 2] = if cfg!(openmpi_abi) {
    ["libmpi_mpifh.so.40", "libmpi.so.40"]
} else {
    ["libmpifort_abi.so.1", "libmpi_abi.so.1"]
};

unsafe extern "C" {
    fn PMPI_Get_library_version(version: *mut c_char, length: *mut c_int) -> c_int;
}

/// Terminates the program before it runs if the C library is not Weft's: another one may represent
/// handles differently.
extern "C" fn check_library() {
    let mut text = [0_u8; MPI_MAX_LIBRARY_VERSION_STRING as usize];
    let mut length = 0;
    // SAFETY: the text has the length that the standard requires; MPI need not be initialized for
    // this call.
    unsafe { PMPI_Get_library_version(text.as_mut_ptr().cast(), &raw mut length) };
    if !text.starts_with(b"Weft ") {
        let length = usize::try_from(length).unwrap_or(0).min(text.len());
        let name = String::from_utf8_lossy(&text[..length]);
        let [own, needed] = NAMES;
        eprintln!(
            "Weft: {own} works with Weft's {needed} only, and this program found that of another library ({}); have \
             LD_LIBRARY_PATH name Weft's folder, or take that library's own Fortran bindings",
            name.lines().next().unwrap_or_default().trim_end()
        );
        std::process::exit(1);
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static CHECK_LIBRARY: extern "C" fn() = check_library;
