//! Opens libfabric at run time.

use crate::ffi::{fi_fabric_attr, fi_info, fid_fabric, version};
use netmod::OpenError;
use netmod_kit::library::{self, Advice, text};
use std::ffi::{c_char, c_int, c_void};
use std::ops::Deref;

/// Version of the interface that this crate uses. Newer libraries support it.
pub(crate) const API_VERSION: u32 = version(1, 17);

netmod_kit::symbols! {
    /// The exported functions of libfabric in use.
    ///
    /// The symbol versions are those of the structures in [`crate::ffi`]: a newer library keeps
    /// them and converts, so one binary runs with 1.17 and with 2.x.
    pub(crate) struct Functions, "fi_" {
        version @ "FABRIC_1.0": fn() -> u32;
        getinfo @ "FABRIC_1.3": fn(u32, *const c_char, *const c_char, u64, *const fi_info,
            *mut *mut fi_info) -> c_int;
        freeinfo @ "FABRIC_1.3": fn(*mut fi_info);
        dupinfo @ "FABRIC_1.3": fn(*const fi_info) -> *mut fi_info;
        fabric @ "FABRIC_1.1": fn(*mut fi_fabric_attr, *mut *mut fid_fabric, *mut c_void) -> c_int;
        strerror @ "FABRIC_1.0": fn(c_int) -> *const c_char;
    }
}

/// The open library.
#[derive(Clone, Copy)]
pub(crate) struct Library {
    functions: Functions,
    /// Version of the library.
    pub(crate) version: u32,
}

impl Deref for Library {
    type Target = Functions;
    fn deref(&self) -> &Functions {
        &self.functions
    }
}

const ADVICE: Advice = Advice {
    missing: "install libfabric 1.17 or newer (Debian, Ubuntu: apt install libfabric1) or set \
              WEFT_OFI_LIBRARY to its path",
    unsuitable: "it is too old or not libfabric; install libfabric 1.17 or newer, or set \
                 WEFT_OFI_LIBRARY to the path of one",
};

impl Library {
    /// Opens the library `name`: a file name for the loader's search path, or a path.
    pub(crate) fn open(name: &str) -> Result<Self, OpenError> {
        // libfabric's PSM providers would catch SIGSEGV and SIGABRT, which belong to the program,
        // and write files next to it.
        library::set_default(c"IPATH_NO_BACKTRACE", c"1");
        library::set_default(c"HFI_NO_BACKTRACE", c"1");
        // Largest eager message of ofi_rxm over TCP; 16 KiB by default.
        library::set_default(c"FI_OFI_RXM_EAGER_LIMIT", c"66560");
        // Number of its receive buffers of that size, all of which it writes when an endpoint is
        // opened; the default of 1,024 takes 70 MB.
        library::set_default(c"FI_OFI_RXM_MSG_RX_SIZE", c"128");
        let opened = library::Library::open(name, ADVICE)?;
        // SAFETY: the types are those of the functions under these names and versions.
        let functions = unsafe { Functions::load(&opened)? };
        Ok(Library {
            functions,
            // SAFETY: the function has no arguments.
            version: unsafe { (functions.version)() },
        })
    }

    /// Returns libfabric's text for a positive error number.
    pub(crate) fn error_text(&self, number: i32) -> String {
        // SAFETY: the function takes any number and returns a static string.
        unsafe { text((self.strerror)(number)) }
    }
}
