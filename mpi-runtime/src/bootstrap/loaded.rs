//! The shared libraries loaded in this process.

use std::ffi::{CStr, OsStr, c_int, c_void};
use std::fs;
use std::os::unix::ffi::OsStrExt;

/// Returns whether a library is loaded, under its versioned name or as the unversioned link target.
///
/// Walks the loader's list: `dlopen` would search the system's library folders for a library that
/// is not loaded, at the cost of many system calls per process.
pub fn is_loaded(library: &'static CStr) -> bool {
    let mut search = Search {
        library: library.to_bytes(),
        is_found: false,
    };
    // SAFETY: `visit` reads the pointer as a `Search`, which it points to and which outlives this
    // call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    search.is_found
}

struct Search {
    library: &'static [u8],
    is_found: bool,
}

/// Tests one loaded library; returns 1, which ends the walk, if it is the one searched for.
unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
    // SAFETY: the loader passes a valid `dl_phdr_info`, and `search` is the local variable of
    // `is_loaded`, which nothing else accesses during the walk.
    let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
    if info.dlpi_name.is_null() {
        return 0;
    }
    // SAFETY: the name of a loaded library is a NUL-terminated string that lives while the library
    // is loaded, and the loader unloads none during the walk.
    let path = unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes();
    search.is_found = is_file_of(path, search.library);
    c_int::from(search.is_found)
}

/// Returns whether a path names a file of the library: `lib.so.1`, `lib.so.1.2`, or `lib.so` as a
/// link to one of these.
///
/// MPICH's and Open MPI's libraries share the unversioned name, and a program that opens
/// `libmpi.so` at run time, as mpi4py does, gets either; so its link target decides.
fn is_file_of(path: &[u8], library: &[u8]) -> bool {
    let has_version = |path: &[u8]| {
        let rest = file_of(path).strip_prefix(library);
        rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'.')
    };
    if !file_of(path).ends_with(b".so") {
        return has_version(path);
    }
    let target = fs::canonicalize(OsStr::from_bytes(path));
    target.is_ok_and(|target| has_version(target.as_os_str().as_bytes()))
}

fn file_of(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_known_by_its_file() {
        let standard = c"libmpi_abi.so.1".to_bytes();
        for path in ["/a/libmpi_abi.so.1", "/b/libmpi_abi.so.1.2.3"] {
            assert!(is_file_of(path.as_bytes(), standard), "{path}");
        }
        for path in [
            "/a/libmpi_abi.so.12",
            "/libmpi_abi.so.1/x",
            "libmpi.so.1",
            "",
        ] {
            assert!(!is_file_of(path.as_bytes(), standard), "{path}");
        }
        assert!(is_loaded(c"libc.so.6"));
        assert!(!is_loaded(c"libnowhere.so.1"));
    }

    #[test]
    fn a_name_without_version_is_what_it_leads_to() {
        let folder = std::env::temp_dir().join(format!("weft-loaded-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("libmpi.so.12.1"), "").unwrap();
        let link = folder.join("libmpi.so");
        std::os::unix::fs::symlink("libmpi.so.12.1", &link).unwrap();
        let found = [c"libmpi.so.12", c"libmpi.so.40"]
            .map(|library| is_file_of(link.as_os_str().as_bytes(), library.to_bytes()));
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found, [true, false]);
    }
}
