//! Opens UCX at run time.

use crate::ffi::*;
use netmod::OpenError;
use netmod_kit::library::{self, Advice, text};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ops::Deref;

netmod_kit::symbols! {
    /// The functions of UCP in use, without their prefix.
    pub(crate) struct Functions, "ucp_" {
        get_version: fn(*mut c_uint, *mut c_uint, *mut c_uint);
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
        put_nbx: fn(*mut ucp_ep, *const c_void, usize, u64, *mut ucp_rkey, *const ucp_request_param_t)
            -> ucs_status_ptr_t;
        get_nbx: fn(*mut ucp_ep, *mut c_void, usize, u64, *mut ucp_rkey, *const ucp_request_param_t)
            -> ucs_status_ptr_t;
        atomic_op_nbx: fn(*mut ucp_ep, c_uint, *const c_void, usize, u64, *mut ucp_rkey,
            *const ucp_request_param_t) -> ucs_status_ptr_t;
        request_free: fn(*mut c_void);
    }
}

/// The open library UCP of UCX.
#[derive(Clone, Copy)]
pub(crate) struct Library {
    functions: Functions,
    status_string: unsafe extern "C" fn(ucs_status_t) -> *const c_char,
    /// Version of the library.
    version: [c_uint; 3],
}

impl Deref for Library {
    type Target = Functions;
    #[inline]
    fn deref(&self) -> &Functions {
        &self.functions
    }
}

/// Defaults of environment variables that UCX reads when it is loaded; the user's settings take
/// precedence.
const MANNERS: [(&CStr, &CStr); 4] = [
    // SIGSEGV and similar signals belong to the program.
    (c"UCX_ERROR_SIGNALS", c""),
    // Standard output belongs to the program; Weft's own messages report what matters.
    (c"UCX_LOG_FILE", c"stderr"),
    (c"UCX_LOG_LEVEL", c"error"),
    // Bytes received from TCP at a time; 64 KiB by default. Weft's longest messages fit, so that
    // they need no further copy.
    (c"UCX_TCP_RX_SEG_SIZE", c"288k"),
];

const ADVICE: Advice = Advice {
    missing: "install UCX 1.13 or newer (Debian, Ubuntu: apt install libucx0) or set \
              WEFT_UCX_LIBRARY to its path",
    unsuitable: "it is too old or not UCP; install UCX 1.13 or newer, or set WEFT_UCX_LIBRARY to the \
                 path of one",
};

impl Library {
    /// Opens the library `name`: a file name for the loader's search path, or a path.
    pub(crate) fn open(name: &str) -> Result<Self, OpenError> {
        for (variable, value) in MANNERS {
            library::set_default(variable, value);
        }
        let opened = library::Library::open(name, ADVICE)?;
        // SAFETY: the types are those of the functions under these names; the second is in libucs,
        // which libucp loads.
        let (functions, status_string) = unsafe {
            let functions = Functions::load(&opened)?;
            (functions, opened.symbol("ucs_status_string", None)?)
        };
        let mut version = [0; 3];
        let [major, minor, release] = &mut version;
        // SAFETY: the numbers are written.
        unsafe { (functions.get_version)(major, minor, release) };
        let library = Library {
            functions,
            status_string,
            version,
        };
        if (library.version[0], library.version[1]) < (API_MAJOR, API_MINOR) {
            return Err(OpenError(format!(
                "{name} is UCX {}, which is too old: install 1.13 or newer, or set \
                 WEFT_UCX_LIBRARY to the path of one",
                library.version_text()
            )));
        }
        Ok(library)
    }

    /// Returns UCX's text for a status.
    pub(crate) fn text(&self, status: ucs_status_t) -> String {
        // SAFETY: the function takes any status and returns a static string or null.
        unsafe { text((self.status_string)(status)) }
    }

    /// Formats the version, as in "1.13.1".
    pub(crate) fn version_text(&self) -> String {
        let [major, minor, release] = self.version;
        format!("{major}.{minor}.{release}")
    }
}
