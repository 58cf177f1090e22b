//! Opens UCX at run time.

use crate::ffi::*;
use netmod::OpenError;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};

/// The functions of UCP that are used.
macro_rules! functions {
    ($($field:ident: fn($($arg:ty),* $(,)?) $(-> $result:ty)?;)*) => {
        /// The functions of UCP that are used, without their prefix `ucp_`.
        #[derive(Clone, Copy)]
        pub(crate) struct Library {
            $(pub(crate) $field: unsafe extern "C" fn($($arg),*) $(-> $result)?,)*
            status_string: unsafe extern "C" fn(ucs_status_t) -> *const c_char,
            /// Version of the library found.
            pub(crate) version: [c_uint; 3],
        }

        impl Library {
            /// # Safety
            /// `handle` is open.
            unsafe fn load(handle: *mut c_void, library: &str) -> Result<Self, OpenError> {
                // SAFETY: the types are those of the functions under these names.
                unsafe {
                    let get_version: unsafe extern "C" fn(*mut c_uint, *mut c_uint, *mut c_uint) =
                        symbol(handle, library, "ucp_get_version")?;
                    let mut version = [0; 3];
                    let [major, minor, release] = &mut version;
                    get_version(major, minor, release);
                    Ok(Library {
                        $($field: symbol(handle, library, concat!("ucp_", stringify!($field)))?,)*
                        // Of libucs, which libucp brings along.
                        status_string: symbol(handle, library, "ucs_status_string")?,
                        version,
                    })
                }
            }
        }
    };
}

functions! {
    config_read: fn(*const c_char, *const c_char, *mut *mut ucp_config) -> ucs_status_t;
    config_modify: fn(*mut ucp_config, *const c_char, *const c_char) -> ucs_status_t;
    config_release: fn(*mut ucp_config);
    init_version: fn(c_uint, c_uint, *const ucp_params, *const ucp_config, *mut *mut ucp_context)
        -> ucs_status_t;
    cleanup: fn(*mut ucp_context);
    context_print_info: fn(*mut ucp_context, *mut libc::FILE);
    worker_create: fn(*mut ucp_context, *const ucp_worker_params, *mut *mut ucp_worker)
        -> ucs_status_t;
    worker_destroy: fn(*mut ucp_worker);
    worker_get_address: fn(*mut ucp_worker, *mut *mut ucp_address, *mut usize) -> ucs_status_t;
    worker_release_address: fn(*mut ucp_worker, *mut ucp_address);
    worker_progress: fn(*mut ucp_worker) -> c_uint;
    worker_get_efd: fn(*mut ucp_worker, *mut c_int) -> ucs_status_t;
    worker_fence: fn(*mut ucp_worker) -> ucs_status_t;
    worker_arm: fn(*mut ucp_worker) -> ucs_status_t;
    worker_flush_nbx: fn(*mut ucp_worker, *const ucp_request_param_t) -> ucs_status_ptr_t;
    worker_set_am_recv_handler: fn(*mut ucp_worker, *const ucp_am_handler_param) -> ucs_status_t;
    ep_create: fn(*mut ucp_worker, *const ucp_ep_params, *mut *mut ucp_ep) -> ucs_status_t;
    ep_close_nbx: fn(*mut ucp_ep, *const ucp_request_param_t) -> ucs_status_ptr_t;
    ep_flush_nbx: fn(*mut ucp_ep, *const ucp_request_param_t) -> ucs_status_ptr_t;
    ep_rkey_unpack: fn(*mut ucp_ep, *const c_void, *mut *mut ucp_rkey) -> ucs_status_t;
    mem_map: fn(*mut ucp_context, *const ucp_mem_map_params, *mut *mut ucp_mem) -> ucs_status_t;
    mem_unmap: fn(*mut ucp_context, *mut ucp_mem) -> ucs_status_t;
    rkey_pack: fn(*mut ucp_context, *mut ucp_mem, *mut *mut c_void, *mut usize) -> ucs_status_t;
    rkey_buffer_release: fn(*mut c_void);
    rkey_destroy: fn(*mut ucp_rkey);
    am_send_nbx: fn(*mut ucp_ep, c_uint, *const c_void, usize, *const c_void, usize,
        *const ucp_request_param_t) -> ucs_status_ptr_t;
    am_recv_data_nbx: fn(*mut ucp_worker, *mut c_void, *mut c_void, usize,
        *const ucp_request_param_t) -> ucs_status_ptr_t;
    am_data_release: fn(*mut ucp_worker, *mut c_void);
    put_nbx: fn(*mut ucp_ep, *const c_void, usize, u64, *mut ucp_rkey, *const ucp_request_param_t)
        -> ucs_status_ptr_t;
    get_nbx: fn(*mut ucp_ep, *mut c_void, usize, u64, *mut ucp_rkey, *const ucp_request_param_t)
        -> ucs_status_ptr_t;
    atomic_op_nbx: fn(*mut ucp_ep, c_uint, *const c_void, usize, u64, *mut ucp_rkey,
        *const ucp_request_param_t) -> ucs_status_ptr_t;
    request_free: fn(*mut c_void);
}

/// What is set in the environment before UCX is loaded, which is when it reads this, unless the user
/// has set it.
const MANNERS: [(&CStr, &CStr); 4] = [
    // SIGSEGV and its like are the program's.
    (c"UCX_ERROR_SIGNALS", c""),
    // Standard output is the program's. What matters is in our own messages.
    (c"UCX_LOG_FILE", c"stderr"),
    (c"UCX_LOG_LEVEL", c"error"),
    // What is received from TCP at once; 64 KiB by default. Our longest messages fit, so that they
    // need not be put together by one more copy, and long gets come in larger pieces.
    (c"UCX_TCP_RX_SEG_SIZE", c"288k"),
];

impl Library {
    /// Opens the library `name` (a file name for the loader's search path, or a path).
    pub(crate) fn open(name: &str) -> Result<Self, OpenError> {
        let c_name = CString::new(name).map_err(|_| {
            OpenError(format!(
                "the library name {name:?} holds a zero byte; set a proper path"
            ))
        })?;
        for (variable, value) in MANNERS {
            // SAFETY: C strings; the environment is the process's own, and this is done once, when
            // transports are opened.
            unsafe { libc::setenv(variable.as_ptr(), value.as_ptr(), 0) };
        }
        // SAFETY: loading runs the library's initializers, which is what the user asked for by
        // choosing it; the name is a valid C string.
        let handle = unsafe { libc::dlopen(c_name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(OpenError(format!(
                "{name} could not be opened ({}): install UCX 1.13 or newer (Debian, Ubuntu: apt \
                 install libucx0) or set WEFT_UCX_LIBRARY to its path",
                dl_error()
            )));
        }
        // The handle is never closed: UCX starts a thread and leaves hooks behind, so unloading it
        // is not safe.
        // SAFETY: the handle is open.
        let library = unsafe { Self::load(handle, name)? };
        if (library.version[0], library.version[1]) < (API_MAJOR, API_MINOR) {
            return Err(OpenError(format!(
                "{name} is UCX {}, which is too old: install 1.13 or newer, or set \
                 WEFT_UCX_LIBRARY to the path of one",
                library.version_text()
            )));
        }
        Ok(library)
    }

    /// UCX's text for a status.
    pub(crate) fn text(&self, status: ucs_status_t) -> String {
        // SAFETY: the function takes any status and returns a static string or null.
        unsafe { text((self.status_string)(status)) }
    }

    /// "1.13.1".
    pub(crate) fn version_text(&self) -> String {
        let [major, minor, release] = self.version;
        format!("{major}.{minor}.{release}")
    }
}

/// A C string as text; empty if null.
///
/// # Safety
/// `string` is null or a valid C string.
unsafe fn text(string: *const c_char) -> String {
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
/// `F` is the type of a pointer to the function of that name.
unsafe fn symbol<F: Copy>(handle: *mut c_void, library: &str, name: &str) -> Result<F, OpenError> {
    assert_eq!(size_of::<F>(), size_of::<*mut c_void>());
    let c_name = CString::new(name).unwrap_or_default();
    // SAFETY: the handle is open, the name is a C string.
    let found = unsafe { libc::dlsym(handle, c_name.as_ptr()) };
    if found.is_null() {
        return Err(OpenError(format!(
            "{library} has no {name} ({}): it is too old or not UCP; install UCX 1.13 or newer, or \
             set WEFT_UCX_LIBRARY to the path of one",
            dl_error()
        )));
    }
    // SAFETY: `F` is a function pointer type of pointer size by the contract, `found` not null.
    Ok(unsafe { std::mem::transmute_copy::<*mut c_void, F>(&found) })
}
