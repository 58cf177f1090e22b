//! The types and functions of PMIx (version 2 and newer, `libpmix.so.2`) in use, and the library
//! itself, opened at run time.
//!
//! Names and values are those of the PMIx standard; the layouts are those of `pmix_common.h`,
//! unchanged since version 2, and the sizes are checked below.

use std::error::Error;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::ManuallyDrop;

use libloading::os::unix::{Library as Loaded, RTLD_LOCAL, RTLD_NOW};

use crate::PmiError;

pub(super) const NAME_SIZE: usize = 256;
pub(super) const KEY_SIZE: usize = 512;

pub(super) const SUCCESS: c_int = 0;
pub(super) const OPERATION_SUCCEEDED: c_int = -157;
pub(super) const ERR_NOT_FOUND: c_int = -46;
pub(super) const ERR_NOT_SUPPORTED: c_int = -47;

pub(super) const BOOL: u16 = 1;
pub(super) const STRING: u16 = 3;
pub(super) const SIZE: u16 = 4;
pub(super) const INT: u16 = 6;
pub(super) const INT32: u16 = 9;
pub(super) const UINT: u16 = 11;
pub(super) const UINT16: u16 = 13;
pub(super) const UINT32: u16 = 14;
pub(super) const UINT64: u16 = 15;
pub(super) const PROC: u16 = 22;
pub(super) const DATA_ARRAY: u16 = 39;
pub(super) const PROC_RANK: u16 = 40;

pub(super) const RANK_WILDCARD: u32 = u32::MAX - 1;
/// `PMIX_GLOBAL`: the scope of a value that all processes may get.
pub(super) const GLOBAL: u8 = 3;

/// `pmix_proc_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Proc {
    pub(super) space: [c_char; NAME_SIZE],
    pub(super) rank: u32,
}

/// `pmix_value_t`.
#[repr(C)]
pub(super) struct Value {
    pub(super) kind: u16,
    pub(super) data: Data,
}

/// The union within `pmix_value_t`.
#[repr(C)]
pub(super) union Data {
    pub(super) flag: bool,
    pub(super) string: *mut c_char,
    pub(super) size: usize,
    pub(super) int: c_int,
    pub(super) uint16: u16,
    pub(super) uint32: u32,
    pub(super) uint64: u64,
    pub(super) pointer: *mut c_void,
    /// As large as the largest member.
    pub(super) all: [u64; 3],
}

/// `pmix_info_t`.
#[repr(C)]
pub(super) struct Info {
    pub(super) key: [c_char; KEY_SIZE],
    pub(super) flags: u32,
    pub(super) value: Value,
}

/// `pmix_query_t`.
#[repr(C)]
pub(super) struct Query {
    pub(super) keys: *mut *mut c_char,
    pub(super) qualifiers: *mut Info,
    pub(super) number: usize,
}

/// `pmix_data_array_t`.
#[repr(C)]
pub(super) struct DataArray {
    pub(super) kind: u16,
    pub(super) size: usize,
    pub(super) items: *mut c_void,
}

/// `pmix_app_t`.
#[repr(C)]
pub(super) struct App {
    pub(super) program: *mut c_char,
    pub(super) argv: *mut *mut c_char,
    pub(super) env: *mut *mut c_char,
    pub(super) cwd: *mut c_char,
    pub(super) count: c_int,
    pub(super) info: *mut Info,
    pub(super) infos: usize,
}

/// `pmix_pdata_t`.
#[repr(C)]
pub(super) struct Published {
    pub(super) publisher: Proc,
    pub(super) key: [c_char; KEY_SIZE],
    pub(super) value: Value,
}

const _: () = assert!(size_of::<Proc>() == 260);
const _: () = assert!(size_of::<Value>() == 32);
const _: () = assert!(size_of::<Info>() == 552);
const _: () = assert!(size_of::<Published>() == 808);
const _: () = assert!(size_of::<App>() == 56);
const _: () = assert!(size_of::<Query>() == 24);
const _: () = assert!(size_of::<DataArray>() == 24);

/// The functions of the library.
#[derive(Clone, Copy)]
pub(super) struct Library {
    pub(super) init: unsafe extern "C" fn(*mut Proc, *mut Info, usize) -> c_int,
    pub(super) finalize: unsafe extern "C" fn(*const Info, usize) -> c_int,
    pub(super) abort: unsafe extern "C" fn(c_int, *const c_char, *mut Proc, usize) -> c_int,
    pub(super) put: unsafe extern "C" fn(u8, *const c_char, *mut Value) -> c_int,
    pub(super) commit: unsafe extern "C" fn() -> c_int,
    pub(super) fence: unsafe extern "C" fn(*const Proc, usize, *const Info, usize) -> c_int,
    pub(super) get: unsafe extern "C" fn(
        *const Proc,
        *const c_char,
        *const Info,
        usize,
        *mut *mut Value,
    ) -> c_int,
    pub(super) publish: unsafe extern "C" fn(*const Info, usize) -> c_int,
    pub(super) lookup: unsafe extern "C" fn(*mut Published, usize, *const Info, usize) -> c_int,
    pub(super) unpublish: unsafe extern "C" fn(*mut *mut c_char, *const Info, usize) -> c_int,
    pub(super) spawn:
        unsafe extern "C" fn(*const Info, usize, *const App, usize, *mut c_char) -> c_int,
    pub(super) resolve_nodes: unsafe extern "C" fn(*const c_char, *mut *mut c_char) -> c_int,
    pub(super) resolve_peers:
        unsafe extern "C" fn(*const c_char, *const c_char, *mut *mut Proc, *mut usize) -> c_int,
    /// `PMIx_Query_info`, since version 4.
    pub(super) query:
        Option<unsafe extern "C" fn(*const Query, usize, *mut *mut Info, *mut usize) -> c_int>,
    pub(super) error_string: unsafe extern "C" fn(c_int) -> *const c_char,
    pub(super) version: unsafe extern "C" fn() -> *const c_char,
}

impl Library {
    /// Opens the first usable library of `names`. It stays open: its threads may continue to run.
    pub(super) fn open(names: &[String]) -> Result<Library, PmiError> {
        let mut reasons = Vec::new();
        for name in names {
            match Library::load(name) {
                Ok(library) => return Ok(library),
                Err(reason) => reasons.push(reason),
            }
        }
        Err(PmiError::Environment(format!(
            "a PMIx server started this process, but the PMIx library can't be used: {}. Install \
             it (Debian: libpmix2), or name the launcher's own by WEFT_PMIX_LIBRARY=PATH",
            reasons.join("; ")
        )))
    }

    fn load(name: &str) -> Result<Library, String> {
        // SAFETY: loading runs the initializers of the installed PMIx library.
        let loaded = unsafe { Loaded::open(Some(name), RTLD_NOW | RTLD_LOCAL) };
        // The loader's words are the source of the error.
        let loaded = ManuallyDrop::new(loaded.map_err(|error| match error.source() {
            Some(reason) => reason.to_string(),
            None => format!("{name}: {error}"),
        })?);
        // SAFETY: the library's functions of these names have these signatures in every version with
        // this soname.
        unsafe {
            Ok(Library {
                init: find(&loaded, c"PMIx_Init")?,
                finalize: find(&loaded, c"PMIx_Finalize")?,
                abort: find(&loaded, c"PMIx_Abort")?,
                put: find(&loaded, c"PMIx_Put")?,
                commit: find(&loaded, c"PMIx_Commit")?,
                fence: find(&loaded, c"PMIx_Fence")?,
                get: find(&loaded, c"PMIx_Get")?,
                publish: find(&loaded, c"PMIx_Publish")?,
                lookup: find(&loaded, c"PMIx_Lookup")?,
                unpublish: find(&loaded, c"PMIx_Unpublish")?,
                spawn: find(&loaded, c"PMIx_Spawn")?,
                resolve_nodes: find(&loaded, c"PMIx_Resolve_nodes")?,
                resolve_peers: find(&loaded, c"PMIx_Resolve_peers")?,
                query: find(&loaded, c"PMIx_Query_info").ok(),
                error_string: find(&loaded, c"PMIx_Error_string")?,
                version: find(&loaded, c"PMIx_Get_version")?,
            })
        }
    }
}

/// Looks up a function.
///
/// # Safety
/// `F` is the type of a pointer to this function.
unsafe fn find<F: Copy>(loaded: &Loaded, name: &CStr) -> Result<F, String> {
    // SAFETY: the caller promised that `F` is the function's type.
    let found = unsafe { loaded.get::<F>(name) };
    found
        .map(|function| *function)
        .map_err(|_| format!("it has no function {}", name.to_string_lossy()))
}
