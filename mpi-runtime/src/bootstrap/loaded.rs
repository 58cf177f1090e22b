//! Which libraries are in this process.

use std::ffi::{CStr, OsStr, c_int, c_void};
use std::fs;
use std::os::unix::ffi::OsStrExt;

/// Whether a library is in this process, under its own name or as the file without a version that programs
/// are linked to. The list of what is loaded is walked: `dlopen` would look through the folders of the
/// system for a library that isn't there, with a hundred system calls in each process of a job.
pub fn is_loaded(library: &'static CStr) -> bool {
    let mut search = Search {
        library: library.to_bytes(),
        is_found: false,
    };
    // SAFETY: `visit` takes the pointer for what it is, a `Search` that lives over this call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    search.is_found
}

struct Search {
    library: &'static [u8],
    is_found: bool,
}

/// Looks at one library of the process, and ends the walk with 1 if it is the one that is searched.
unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
    // SAFETY: the loader hands over what it knows of a library, and `is_loaded` its search, which nobody else uses.
    let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
    if info.dlpi_name.is_null() {
        return 0;
    }
    // SAFETY: the name of a library is a string of C that lives as long as the library is loaded, and none
    // is unloaded during the walk.
    let path = unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes();
    search.is_found = is_file_of(path, search.library);
    c_int::from(search.is_found)
}

/// Whether a path is that of a library with this name: `lib.so.1` or `lib.so.1.2`; or `lib.so`, which
/// is a link to one of these. MPICH's and Open MPI's libraries share that name, so it says nothing by itself:
/// whoever opens `libmpi.so` at run time, as mpi4py does, gets either.
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
