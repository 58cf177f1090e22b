//! Opens libfabric at run time.

use crate::ffi::{fi_fabric_attr, fi_info, fid_fabric, version};
use netmod::OpenError;
use std::ffi::{CStr, CString, c_char, c_int, c_void};

/// The version of the interface that this crate is written against. Newer libraries serve it.
pub(crate) const API_VERSION: u32 = version(1, 17);

/// The real functions of libfabric that are used.
///
/// The symbol versions are those of the structures in [`crate::ffi`]: a newer library keeps
/// them and converts, so one binary runs with 1.17 and with 2.x.
#[derive(Clone, Copy)]
pub(crate) struct Library {
    pub(crate) getinfo: unsafe extern "C" fn(
        u32,
        *const c_char,
        *const c_char,
        u64,
        *const fi_info,
        *mut *mut fi_info,
    ) -> c_int,
    pub(crate) freeinfo: unsafe extern "C" fn(*mut fi_info),
    pub(crate) dupinfo: unsafe extern "C" fn(*const fi_info) -> *mut fi_info,
    pub(crate) fabric:
        unsafe extern "C" fn(*mut fi_fabric_attr, *mut *mut fid_fabric, *mut c_void) -> c_int,
    strerror: unsafe extern "C" fn(c_int) -> *const c_char,
    /// Version of the library found.
    pub(crate) version: u32,
}

impl Library {
    /// Opens the library `name` (a file name for the loader's search path, or a path).
    pub(crate) fn open(name: &str) -> Result<Self, OpenError> {
        let c_name = CString::new(name).map_err(|_| {
            OpenError(format!(
                "the library name {name:?} holds a zero byte; set a proper path"
            ))
        })?;
        // libfabric's PSM providers would catch SIGSEGV and SIGABRT and write files next to the
        // program when it crashes. Those signals are the program's.
        for quiet in [c"IPATH_NO_BACKTRACE", c"HFI_NO_BACKTRACE"] {
            // SAFETY: C strings; the environment is the process's own, and this is done once, when
            // transports are opened. What the user has set stays.
            unsafe { libc::setenv(quiet.as_ptr(), c"1".as_ptr(), 0) };
        }
        for (variable, value) in [
            // Over TCP ofi_rxm sends messages up to this size at once; 16 KiB by default.
            (c"FI_OFI_RXM_EAGER_LIMIT", c"66560"),
            // It has a buffer of that size for each of so many messages that may come, and writes to
            // all of them when an endpoint is opened; 1,024 by default, which are 70 MB.
            (c"FI_OFI_RXM_MSG_RX_SIZE", c"128"),
        ] {
            // SAFETY: as above.
            unsafe { libc::setenv(variable.as_ptr(), value.as_ptr(), 0) };
        }
        // SAFETY: loading runs the library's initializers, which is what the user asked for by
        // choosing it; the name is a valid C string.
        let handle = unsafe { libc::dlopen(c_name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(OpenError(format!(
                "{name} could not be opened ({}): install libfabric 1.17 or newer (Debian, Ubuntu: \
                 apt install libfabric1) or set WEFT_OFI_LIBRARY to its path",
                dl_error()
            )));
        }
        // The handle is never closed: providers start threads and leave handlers behind, so
        // unloading them is not safe.
        // SAFETY: the types are those of the functions under these names and versions.
        unsafe {
            let version: unsafe extern "C" fn() -> u32 =
                symbol(handle, name, c"fi_version", c"FABRIC_1.0")?;
            Ok(Library {
                getinfo: symbol(handle, name, c"fi_getinfo", c"FABRIC_1.3")?,
                freeinfo: symbol(handle, name, c"fi_freeinfo", c"FABRIC_1.3")?,
                dupinfo: symbol(handle, name, c"fi_dupinfo", c"FABRIC_1.3")?,
                fabric: symbol(handle, name, c"fi_fabric", c"FABRIC_1.1")?,
                strerror: symbol(handle, name, c"fi_strerror", c"FABRIC_1.0")?,
                version: version(),
            })
        }
    }

    /// libfabric's text for an error number (positive).
    pub(crate) fn error_text(&self, number: i32) -> String {
        // SAFETY: the function takes any number and returns a static string.
        unsafe { text((self.strerror)(number)) }
    }
}

/// A C string as text; empty if null.
///
/// # Safety
/// `string` is null or a valid C string.
pub(crate) unsafe fn text(string: *const c_char) -> String {
    if string.is_null() {
        return String::new();
    }
    // SAFETY: not null, so valid by the contract.
    unsafe { CStr::from_ptr(string) }
        .to_string_lossy()
        .into_owned()
}

fn dl_error() -> String {
    // SAFETY: dlerror returns null or a string that is valid until the next dl call of this thread.
    unsafe { text(libc::dlerror()) }
}

/// # Safety
/// `F` is the type of a pointer to the function of that name and version.
unsafe fn symbol<F: Copy>(
    handle: *mut c_void,
    library: &str,
    name: &CStr,
    version: &CStr,
) -> Result<F, OpenError> {
    assert_eq!(size_of::<F>(), size_of::<*mut c_void>());
    // SAFETY: the handle is open, the names are C strings.
    let found = unsafe { libc::dlvsym(handle, name.as_ptr(), version.as_ptr()) };
    if found.is_null() {
        return Err(OpenError(format!(
            "{library} has no {} of version {} ({}): it is too old or not libfabric; install \
             libfabric 1.17 or newer, or set WEFT_OFI_LIBRARY to the path of one",
            name.to_string_lossy(),
            version.to_string_lossy(),
            dl_error()
        )));
    }
    // SAFETY: `F` is a function pointer type of pointer size by the contract, `found` not null.
    Ok(unsafe { std::mem::transmute_copy::<*mut c_void, F>(&found) })
}
