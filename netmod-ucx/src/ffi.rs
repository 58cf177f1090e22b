//! UCP's binary interface as of UCX 1.13, trimmed to what this crate uses (the layouts are those
//! that bindgen gives for its headers).
//!
//! UCP's structures carry a mask of the fields that are set, so a newer library, whose structures
//! are longer, reads no further than these. Values of C enumerations are plain integers: a newer
//! library may send ones that this list doesn't have. Names are C's own.
#![allow(non_camel_case_types)]

use std::ffi::{c_char, c_int, c_uint, c_void};

macro_rules! opaque {
    ($($name:ident)*) => {$(
        #[repr(C)]
        pub struct $name {
            _private: [u8; 0],
        }
    )*};
}
opaque! { ucp_context ucp_worker ucp_ep ucp_mem ucp_rkey ucp_config ucp_address }

pub type ucs_status_t = i8;
/// Null: complete; a small negative number: a status; otherwise a request.
pub type ucs_status_ptr_t = *mut c_void;

pub const UCS_OK: ucs_status_t = 0;
pub const UCS_ERR_NO_RESOURCE: ucs_status_t = -2;
pub const UCS_ERR_NO_MEMORY: ucs_status_t = -4;
pub const UCS_ERR_UNREACHABLE: ucs_status_t = -6;
pub const UCS_ERR_NO_DEVICE: ucs_status_t = -14;
pub const UCS_ERR_CANCELED: ucs_status_t = -16;
pub const UCS_ERR_UNSUPPORTED: ucs_status_t = -22;
const UCS_ERR_LAST: isize = -100;

/// Returns the status in a pointer, if it is one.
#[inline]
pub fn error_of(pointer: ucs_status_ptr_t) -> Option<ucs_status_t> {
    let value = pointer as isize;
    (UCS_ERR_LAST..0)
        .contains(&value)
        .then_some(value as ucs_status_t)
}

pub const API_MAJOR: c_uint = 1;
pub const API_MINOR: c_uint = 13;

pub const UCP_PARAM_FIELD_FEATURES: u64 = 1 << 0;
pub const UCP_PARAM_FIELD_MT_WORKERS_SHARED: u64 = 1 << 5;
pub const UCP_FEATURE_RMA: u64 = 1 << 1;
pub const UCP_FEATURE_AMO64: u64 = 1 << 3;
pub const UCP_FEATURE_WAKEUP: u64 = 1 << 4;
pub const UCP_FEATURE_AM: u64 = 1 << 6;

#[repr(C)]
pub struct ucp_params {
    pub field_mask: u64,
    pub features: u64,
    pub request_size: usize,
    pub request_init: *const c_void,
    pub request_cleanup: *const c_void,
    pub tag_sender_mask: u64,
    pub mt_workers_shared: c_int,
    pub estimated_num_eps: usize,
    pub estimated_num_ppn: usize,
    pub name: *const c_char,
}

pub const UCP_WORKER_PARAM_FIELD_THREAD_MODE: u64 = 1 << 0;
pub const UCP_WORKER_PARAM_FIELD_FLAGS: u64 = 1 << 5;
pub const UCS_THREAD_MODE_SERIALIZED: c_uint = 1;
pub const UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK: u64 = 1;

#[repr(C)]
pub struct ucp_worker_params {
    pub field_mask: u64,
    pub thread_mode: c_uint,
    pub cpu_mask: [u64; 16],
    pub events: c_uint,
    pub user_data: *mut c_void,
    pub event_fd: c_int,
    pub flags: u64,
    pub name: *const c_char,
    pub am_alignment: usize,
    pub client_id: u64,
}

pub const UCP_EP_PARAM_FIELD_REMOTE_ADDRESS: u64 = 1 << 0;
pub const UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE: u64 = 1 << 1;
pub const UCP_EP_PARAM_FIELD_ERR_HANDLER: u64 = 1 << 2;
pub const UCP_ERR_HANDLING_MODE_PEER: c_uint = 1;

#[repr(C)]
pub struct ucs_sock_addr {
    pub addr: *const c_void,
    pub addrlen: u32,
}

#[repr(C)]
pub struct ucp_ep_params {
    pub field_mask: u64,
    pub address: *const ucp_address,
    pub err_mode: c_uint,
    pub err_handler: Option<unsafe extern "C" fn(*mut c_void, *mut ucp_ep, ucs_status_t)>,
    pub err_handler_arg: *mut c_void,
    pub user_data: *mut c_void,
    pub flags: c_uint,
    pub sockaddr: ucs_sock_addr,
    pub conn_request: *mut c_void,
    pub name: *const c_char,
    pub local_sockaddr: ucs_sock_addr,
}

pub const UCP_OP_ATTR_FIELD_CALLBACK: u32 = 1 << 1;
pub const UCP_OP_ATTR_FIELD_USER_DATA: u32 = 1 << 2;
pub const UCP_OP_ATTR_FIELD_DATATYPE: u32 = 1 << 3;
pub const UCP_OP_ATTR_FIELD_FLAGS: u32 = 1 << 4;
pub const UCP_OP_ATTR_FIELD_REPLY_BUFFER: u32 = 1 << 5;
pub const UCP_AM_SEND_FLAG_EAGER: u32 = 1 << 1;
pub const UCP_EP_CLOSE_FLAG_FORCE: u32 = 1;

pub type ucp_send_nbx_callback_t = unsafe extern "C" fn(*mut c_void, ucs_status_t, *mut c_void);

#[repr(C)]
pub struct ucp_request_param_t {
    pub op_attr_mask: u32,
    pub flags: u32,
    pub request: *mut c_void,
    /// The only member in use of a union of callbacks.
    pub cb: ucp_send_nbx_callback_t,
    pub datatype: u64,
    pub user_data: *mut c_void,
    pub reply_buffer: *mut c_void,
    pub memory_type: c_uint,
    pub recv_info: *mut c_void,
    pub memh: *mut ucp_mem,
}

impl ucp_request_param_t {
    /// Makes parameters with a callback and its argument.
    #[inline]
    pub fn new(cb: ucp_send_nbx_callback_t, user_data: *mut c_void) -> Self {
        ucp_request_param_t {
            op_attr_mask: UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
            flags: 0,
            request: std::ptr::null_mut(),
            cb,
            datatype: 0,
            user_data,
            reply_buffer: std::ptr::null_mut(),
            memory_type: 0,
            recv_info: std::ptr::null_mut(),
            memh: std::ptr::null_mut(),
        }
    }
    /// Adds flags of the operation.
    #[inline]
    pub fn flags(mut self, flags: u32) -> Self {
        self.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
        self.flags = flags;
        self
    }
}

/// `ucp_dt_make_contig(8)`.
pub const UCP_DATATYPE_8_BYTES: u64 = 8 << 3;

pub const UCP_ATOMIC_OP_ADD: c_uint = 0;
pub const UCP_ATOMIC_OP_SWAP: c_uint = 1;
pub const UCP_ATOMIC_OP_CSWAP: c_uint = 2;
pub const UCP_ATOMIC_OP_AND: c_uint = 3;
pub const UCP_ATOMIC_OP_OR: c_uint = 4;
pub const UCP_ATOMIC_OP_XOR: c_uint = 5;

pub const UCP_MEM_MAP_PARAM_FIELD_ADDRESS: u64 = 1 << 0;
pub const UCP_MEM_MAP_PARAM_FIELD_LENGTH: u64 = 1 << 1;

#[repr(C)]
pub struct ucp_mem_map_params {
    pub field_mask: u64,
    pub address: *mut c_void,
    pub length: usize,
    pub flags: c_uint,
    pub prot: c_uint,
    pub memory_type: c_uint,
}

pub const UCP_AM_HANDLER_PARAM_FIELD_ID: u64 = 1 << 0;
pub const UCP_AM_HANDLER_PARAM_FIELD_FLAGS: u64 = 1 << 1;
pub const UCP_AM_HANDLER_PARAM_FIELD_CB: u64 = 1 << 2;
pub const UCP_AM_HANDLER_PARAM_FIELD_ARG: u64 = 1 << 3;
pub const UCP_AM_FLAG_WHOLE_MSG: u32 = 1;
pub const UCP_AM_RECV_ATTR_FLAG_RNDV: u64 = 1 << 17;

#[repr(C)]
pub struct ucp_am_recv_param {
    pub recv_attr: u64,
    pub reply_ep: *mut ucp_ep,
}

pub type ucp_am_recv_callback_t = unsafe extern "C" fn(
    *mut c_void,
    *const c_void,
    usize,
    *mut c_void,
    usize,
    *const ucp_am_recv_param,
) -> ucs_status_t;

#[repr(C)]
pub struct ucp_am_handler_param {
    pub field_mask: u64,
    pub id: c_uint,
    pub flags: u32,
    pub cb: Option<ucp_am_recv_callback_t>,
    pub arg: *mut c_void,
}
