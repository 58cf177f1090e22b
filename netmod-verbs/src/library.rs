//! Opens libibverbs at run time.

use crate::ffi::*;
use netmod::OpenError;
use std::ffi::{CStr, CString, c_char, c_int, c_void};

/// The real functions of libibverbs that are used; all else goes through tables of operations.
#[derive(Clone, Copy)]
pub(crate) struct Library {
    pub(crate) get_device_list: unsafe extern "C" fn(*mut c_int) -> *mut *mut ibv_device,
    pub(crate) free_device_list: unsafe extern "C" fn(*mut *mut ibv_device),
    pub(crate) get_device_name: unsafe extern "C" fn(*mut ibv_device) -> *const c_char,
    pub(crate) open_device: unsafe extern "C" fn(*mut ibv_device) -> *mut ibv_context,
    pub(crate) close_device: unsafe extern "C" fn(*mut ibv_context) -> c_int,
    pub(crate) query_device: unsafe extern "C" fn(*mut ibv_context, *mut ibv_device_attr) -> c_int,
    pub(crate) query_port: unsafe extern "C" fn(*mut ibv_context, u8, *mut ibv_port_attr) -> c_int,
    pub(crate) query_gid: unsafe extern "C" fn(*mut ibv_context, u8, c_int, *mut ibv_gid) -> c_int,
    pub(crate) alloc_pd: unsafe extern "C" fn(*mut ibv_context) -> *mut ibv_pd,
    pub(crate) dealloc_pd: unsafe extern "C" fn(*mut ibv_pd) -> c_int,
    pub(crate) reg_mr: unsafe extern "C" fn(*mut ibv_pd, *mut c_void, usize, c_int) -> *mut ibv_mr,
    pub(crate) dereg_mr: unsafe extern "C" fn(*mut ibv_mr) -> c_int,
    pub(crate) create_comp_channel: unsafe extern "C" fn(*mut ibv_context) -> *mut ibv_comp_channel,
    pub(crate) destroy_comp_channel: unsafe extern "C" fn(*mut ibv_comp_channel) -> c_int,
    pub(crate) create_cq: unsafe extern "C" fn(
        *mut ibv_context,
        c_int,
        *mut c_void,
        *mut ibv_comp_channel,
        c_int,
    ) -> *mut ibv_cq,
    pub(crate) resize_cq: unsafe extern "C" fn(*mut ibv_cq, c_int) -> c_int,
    pub(crate) destroy_cq: unsafe extern "C" fn(*mut ibv_cq) -> c_int,
    pub(crate) get_cq_event:
        unsafe extern "C" fn(*mut ibv_comp_channel, *mut *mut ibv_cq, *mut *mut c_void) -> c_int,
    pub(crate) ack_cq_events: unsafe extern "C" fn(*mut ibv_cq, u32),
    pub(crate) create_srq:
        unsafe extern "C" fn(*mut ibv_pd, *mut ibv_srq_init_attr) -> *mut ibv_srq,
    pub(crate) destroy_srq: unsafe extern "C" fn(*mut ibv_srq) -> c_int,
    pub(crate) create_qp: unsafe extern "C" fn(*mut ibv_pd, *mut ibv_qp_init_attr) -> *mut ibv_qp,
    pub(crate) modify_qp: unsafe extern "C" fn(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int,
    pub(crate) destroy_qp: unsafe extern "C" fn(*mut ibv_qp) -> c_int,
    pub(crate) create_ah: unsafe extern "C" fn(*mut ibv_pd, *mut ibv_ah_attr) -> *mut ibv_ah,
    pub(crate) destroy_ah: unsafe extern "C" fn(*mut ibv_ah) -> c_int,
    wc_status_str: unsafe extern "C" fn(ibv_wc_status) -> *const c_char,
}

impl Library {
    /// Opens the library `name` (a file name for the loader's search path, or a path). It stays
    /// open until the process ends.
    pub(crate) fn open(name: &str) -> Result<Self, OpenError> {
        let c_name = CString::new(name).map_err(|_| {
            OpenError(format!(
                "the library name {name:?} holds a zero byte; set a proper path"
            ))
        })?;
        // SAFETY: a C string. What the library runs when it is loaded is its own affair.
        let handle = unsafe { libc::dlopen(c_name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(OpenError(format!(
                "{name} can't be opened ({}): install rdma-core's libibverbs (Debian: libibverbs1 \
                 and ibverbs-providers), or set WEFT_VERBS_LIBRARY to its path",
                dl_error()
            )));
        }
        // SAFETY: each field has the type of the function of its name in `infiniband/verbs.h`;
        // `query_port` writes the beginning of a structure that its caller has zeroed.
        unsafe {
            Ok(Library {
                get_device_list: symbol(handle, name, c"ibv_get_device_list")?,
                free_device_list: symbol(handle, name, c"ibv_free_device_list")?,
                get_device_name: symbol(handle, name, c"ibv_get_device_name")?,
                open_device: symbol(handle, name, c"ibv_open_device")?,
                close_device: symbol(handle, name, c"ibv_close_device")?,
                query_device: symbol(handle, name, c"ibv_query_device")?,
                query_port: symbol(handle, name, c"ibv_query_port")?,
                query_gid: symbol(handle, name, c"ibv_query_gid")?,
                alloc_pd: symbol(handle, name, c"ibv_alloc_pd")?,
                dealloc_pd: symbol(handle, name, c"ibv_dealloc_pd")?,
                reg_mr: symbol(handle, name, c"ibv_reg_mr")?,
                dereg_mr: symbol(handle, name, c"ibv_dereg_mr")?,
                create_comp_channel: symbol(handle, name, c"ibv_create_comp_channel")?,
                destroy_comp_channel: symbol(handle, name, c"ibv_destroy_comp_channel")?,
                create_cq: symbol(handle, name, c"ibv_create_cq")?,
                resize_cq: symbol(handle, name, c"ibv_resize_cq")?,
                destroy_cq: symbol(handle, name, c"ibv_destroy_cq")?,
                get_cq_event: symbol(handle, name, c"ibv_get_cq_event")?,
                ack_cq_events: symbol(handle, name, c"ibv_ack_cq_events")?,
                create_srq: symbol(handle, name, c"ibv_create_srq")?,
                destroy_srq: symbol(handle, name, c"ibv_destroy_srq")?,
                create_qp: symbol(handle, name, c"ibv_create_qp")?,
                modify_qp: symbol(handle, name, c"ibv_modify_qp")?,
                destroy_qp: symbol(handle, name, c"ibv_destroy_qp")?,
                create_ah: symbol(handle, name, c"ibv_create_ah")?,
                destroy_ah: symbol(handle, name, c"ibv_destroy_ah")?,
                wc_status_str: symbol(handle, name, c"ibv_wc_status_str")?,
            })
        }
    }

    /// What a completion's status means.
    pub(crate) fn status_text(&self, status: ibv_wc_status) -> String {
        // SAFETY: the function takes any number and returns a static string.
        unsafe { text((self.wc_status_str)(status)) }
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
/// `F` is the type of a pointer to the function of that name.
unsafe fn symbol<F: Copy>(handle: *mut c_void, library: &str, name: &CStr) -> Result<F, OpenError> {
    assert_eq!(size_of::<F>(), size_of::<*mut c_void>());
    // The default version of each symbol, which is what a program that is linked today gets.
    // SAFETY: the handle is open, the name a C string.
    let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
    if found.is_null() {
        return Err(OpenError(format!(
            "{library} has no {} ({}): it is too old or not libibverbs; install rdma-core 1.1 or \
             newer, or set WEFT_VERBS_LIBRARY to the path of one",
            name.to_string_lossy(),
            dl_error()
        )));
    }
    // SAFETY: `F` is a function pointer type of pointer size by the contract, `found` not null.
    Ok(unsafe { std::mem::transmute_copy::<*mut c_void, F>(&found) })
}
